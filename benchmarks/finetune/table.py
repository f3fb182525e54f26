"""Tables of results, which an interrupted command continues."""

from __future__ import annotations

import argparse
import csv
from collections.abc import Sequence
from pathlib import Path

FIELDS = (
    "domain",
    "side",
    "variant",
    "images",
    "choice",
    "crops",
    "image_steps",
    "test_images",
    "before",
    "after",
    "gain",
    "low",
    "high",
    "seconds",
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `show`."""
    parser.add_argument("output", type=Path)


def main(args: argparse.Namespace) -> None:
    """Print the table as Markdown."""
    rows = read_rows(args.output)
    print("| " + " | ".join(FIELDS) + " |\n|" + " --- |" * len(FIELDS))
    for row in rows:
        print("| " + " | ".join(row[name] for name in FIELDS) + " |")


def read_rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of a table, none if there is no file."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def append(path: Path, row: dict[str, object], names: Sequence[str] = FIELDS) -> None:
    """Append a row to a table with columns of these names."""
    is_new = not path.exists()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names)
        if is_new:
            writer.writeheader()
        writer.writerow(row)


def keys(path: Path) -> set[tuple[str, ...]]:
    """Return domain, side, variant, number of images and choice of every row of a table."""
    names = ("domain", "side", "variant", "images", "choice")
    return {tuple(row[name] for name in names) for row in read_rows(path)}
