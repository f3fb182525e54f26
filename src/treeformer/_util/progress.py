"""Progress of long work, reported to a callback."""

from __future__ import annotations

from collections.abc import Callable

ProgressCallback = Callable[[int, int], None]
"""Called with the number of items done so far and the total number of items."""


def no_progress(done: int, total: int) -> None:
    """Ignore progress reports: the default `ProgressCallback`."""
