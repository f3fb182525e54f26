"""Many small tasks in several processes, so that Ctrl-C ends them after the pictures in hand and leaves whole files."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

Progress = Callable[[int, int], None]
"""Called with the number done so far and the number in all."""


def no_progress(done: int, total: int) -> None:
    """Tells nobody."""


def for_each(
    task: Callable[[Item], Result], items: Sequence[Item], workers: int, then: Callable[[Result], None]
) -> None:
    """`then(task(item))` for each item in order; the tasks run in `workers` processes, in this one where that is 1.

    The first error ends it, and so does Ctrl-C: tasks that have begun are finished, the others never begin.
    """
    if workers <= 1 or len(items) <= 1:
        for item in items:
            then(task(item))
        return
    # Fresh processes instead of forks: a fork of a process that has threads may hang.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(workers, len(items)), mp_context=context, initializer=_leave_interrupts_to_parent)
    try:
        for future in [pool.submit(task, item) for item in items]:
            then(future.result())
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _leave_interrupts_to_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
