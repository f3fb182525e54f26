"""Collect doctests only from modules that have one: importing all others takes seconds in every test process."""

from __future__ import annotations

from pathlib import Path

SOURCE = Path(__file__).parent / "src"


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Ignore modules of the package without an example."""
    is_source = collection_path.suffix == ".py" and SOURCE in collection_path.parents
    return True if is_source and ">>> " not in collection_path.read_text(encoding="utf-8") else None
