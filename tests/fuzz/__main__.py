"""Fuzz the package: `python -m tests.fuzz`. Every case must be refused in one line or accepted, within its limits.

Cases are made from seeds. `python -m tests.fuzz --case KIND:SEED` repeats one in this process, with a traceback, and
keeps its files.
"""

from __future__ import annotations

import os

# Forked processes must not inherit threads, and each case has one core.
os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import argparse
import itertools
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.fuzz.cases import CASES
from tests.fuzz.runner import Outcome, run_case, run_cases

# One image in this many is predicted by the real model, which takes a second.
MODEL_IMAGE_EVERY = 50
SEEDS_PER_RUN = 1_000_000
HEADINGS = ("kind", "cases", "refused", "accepted", "foreign", "over time", "over memory", "most CPU s", "most MiB")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code: 1 if there is any defect."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="another seed gives other cases")
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--folders", type=int, default=300)
    parser.add_argument("--minutes", type=float, help="stop early, after this many minutes")
    parser.add_argument("--jobs", type=int, default=2, help="number of processes")
    parser.add_argument("--case", metavar="KIND:SEED", help="repeat one case")
    options = parser.parse_args(arguments)
    if options.case is not None:
        return repeat(options.case)
    end = time.monotonic() + 60 * options.minutes if options.minutes is not None else None
    outcomes = []
    for outcome in run_cases(until(end, cases(options)), options.jobs):
        outcomes.append(outcome)
        if len(outcomes) % 500 == 0:
            print(f"{len(outcomes)} cases", file=sys.stderr, flush=True)
    defects = [outcome for outcome in outcomes if outcome.result not in ("refused", "accepted")]
    for outcome in sorted(defects, key=lambda o: (o.kind, o.detail.rpartition("(")[2], o.seed)):
        case = f"{outcome.kind}:{outcome.seed}"
        print(f"{outcome.result}: {outcome.detail}\n    python -m tests.fuzz --case {case}")
    print(table(outcomes))
    return 1 if defects else 0


def cases(options: argparse.Namespace) -> Iterator[tuple[str, int]]:
    """Yield (kind, seed), the kinds mixed, so that a run that ends early has cases of every kind."""
    counts = {
        "file": options.files,
        "image": options.images,
        "model-image": -(-options.images // MODEL_IMAGE_EVERY),
        "folder": options.folders,
    }
    order = [((number + 0.5) / count, kind, number) for kind, count in counts.items() for number in range(count)]
    for _, kind, number in sorted(order):
        yield kind, options.seed * SEEDS_PER_RUN + number


def until(end: float | None, items: Iterator[tuple[str, int]]) -> Iterator[tuple[str, int]]:
    """Yield items until a point in time."""
    return itertools.takewhile(lambda _: end is None or time.monotonic() < end, items)


def repeat(case: str) -> int:
    """Run one case in this process, without limits and with a traceback."""
    kind, _, seed = case.partition(":")
    if kind not in CASES or not seed.isdigit():
        raise SystemExit(f"{case}: write KIND:SEED with one of the kinds {', '.join(CASES)}")
    base = Path(tempfile.mkdtemp(prefix="treeformer-fuzz-"))
    folder = base / "case"
    folder.mkdir()
    print(f"the files of this case are in {folder}", flush=True)
    result, detail = run_case(kind, int(seed), folder, raise_errors=True)
    print(result, detail)
    return 0


def table(outcomes: Sequence[Outcome]) -> str:
    """Return the counts per kind."""
    rows = [HEADINGS]
    for kind in (*CASES, "all"):
        chosen = [outcome for outcome in outcomes if kind in (outcome.kind, "all")]
        counts = [
            sum(outcome.result == result for outcome in chosen)
            for result in ("refused", "accepted", "foreign", "time", "memory")
        ]
        cpu = max((outcome.cpu for outcome in chosen), default=0.0)
        growth = max((outcome.growth for outcome in chosen), default=0.0) / 2**20
        rows.append((kind, *map(str, (len(chosen), *counts)), f"{cpu:.1f}", f"{growth:.0f}"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


if __name__ == "__main__":
    sys.exit(main())
