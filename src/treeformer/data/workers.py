"""Many small tasks in several processes, so that Ctrl-C ends them after the images in hand and leaves whole files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from treeformer._util.pools import process_pool

Item = TypeVar("Item")
Result = TypeVar("Result")


def for_each(
    task: Callable[[Item], Result], items: Sequence[Item], workers: int, then: Callable[[Result], None]
) -> None:
    """`then(task(item))` for each item in order; they run in `workers` processes, in this one where that is 0 or 1.

    The first error ends it, and so does Ctrl-C: tasks that have begun are finished, the others never begin.
    """
    if workers <= 1 or len(items) <= 1:
        for item in items:
            then(task(item))
        return
    with process_pool(min(workers, len(items))) as pool:
        for future in [pool.submit(task, item) for item in items]:
            then(future.result())
