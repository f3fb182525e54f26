"""Run many small tasks in several processes. Ctrl-C lets running tasks finish, so no file is left incomplete."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from treeformer._util.pools import process_pool

Item = TypeVar("Item")
Result = TypeVar("Result")


def for_each(
    task: Callable[[Item], Result], items: Sequence[Item], workers: int, then: Callable[[Result], None]
) -> None:
    """Call `then(task(item))` for each item, in order.

    The first error, or Ctrl-C, ends the run: running tasks finish, the remaining ones are not started.
    """
    if workers <= 1 or len(items) <= 1:
        for item in items:
            then(task(item))
        return
    with process_pool(min(workers, len(items))) as pool:
        for future in [pool.submit(task, item) for item in items]:
            then(future.result())
