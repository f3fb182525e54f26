"""Thread and process pools that prefetch, and that cancel pending work at once if they are stopped."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, TypeVar

from treeformer.errors import TreeformerError

Item = TypeVar("Item")
Result = TypeVar("Result")


def check_workers(workers: int) -> None:
    """Raise `TreeformerError` if `workers < 0`. 0 runs everything in the calling process or thread."""
    if workers < 0:
        raise TreeformerError(f"workers must be 0 (all work is done in this process) or more, not {workers}")


def prefetch_map(pool: Executor, work: Callable[[Item], Result], items: Iterable[Item], count: int) -> Iterator[Result]:
    """Yield the results of a function for items, in their order, from a pool that works up to `count` items ahead.

    Items are taken from the iterable as the pool needs them.
    """
    futures: deque[Future[Result]] = deque()
    for item in items:
        futures.append(pool.submit(work, item))
        if len(futures) > count:
            yield futures.popleft().result()
    while futures:
        yield futures.popleft().result()


def batches(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Split items into lists of `size` items; the last one may be shorter."""
    iterator = iter(items)
    while batch := list(itertools.islice(iterator, size)):
        yield batch


@contextmanager
def thread_pool(workers: int) -> Iterator[Executor]:
    """Open a pool of threads; if the block ends early, pending tasks are canceled."""
    pool = ThreadPoolExecutor(workers)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def process_pool(workers: int, start: Callable[..., None] | None = None, *arguments: Any) -> Iterator[Executor]:
    """Open a pool of processes that ignore Ctrl-C; if the block ends early, pending tasks are canceled.

    Each process first calls `start(*arguments)`, which may hold memory from `shared_bytes`. Up to `workers` processes
    are started as there is work. They are spawned: forking a process that has threads or uses a GPU is not safe. A
    killed process, or a script without a `__main__` guard, is a `TreeformerError`.
    """
    pool = quiet_process_pool(workers, start, *arguments)
    try:
        yield pool
    except BrokenProcessPool:
        raise TreeformerError(
            "a worker process ended before its work was done: either memory ran out (use fewer workers), or the script"
            " has no `if __name__ == '__main__':`"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def quiet_process_pool(workers: int, start: Callable[..., None] | None = None, *arguments: Any) -> Executor:
    """Return the pool of `process_pool`, which the caller must shut down: otherwise, it may print a traceback."""
    context = multiprocessing.get_context("spawn")
    return _QuietPool(workers, mp_context=context, initializer=_initialize, initargs=(start, arguments))


def ignore_signals() -> None:
    """Ignore Ctrl-C and the first SIGTERM in a worker process.

    Terminals and schedulers send both signals to all processes, but only the training process handles them. The second
    SIGTERM has its default effect, because torch and Python use it to end a process that does not exit by itself.
    This module does not import torch, so that a process that only computes metrics starts without it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, _frame: signal.signal(number, signal.SIG_DFL))


def shared_bytes(count: int) -> Any:
    """Return zeros in memory that this process shares with those of a pool. It has no name, so nothing can leak."""
    return multiprocessing.RawArray("B", count)


def _initialize(start: Callable[..., None] | None, arguments: tuple[Any, ...]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if start is not None:
        start(*arguments)


def _end_with_parent() -> None:
    """End this process if the one that started it is killed, which would leave it waiting for work forever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


class _QuietPool(ProcessPoolExecutor):
    """A pool whose processes never see Ctrl-C: they start when tasks are submitted and inherit the signal mask."""

    def submit(self, fn: Callable[..., Result], /, *args: Any, **kwargs: Any) -> Future[Result]:
        """Submit a task with SIGINT blocked; see `concurrent.futures.Executor.submit`."""
        with _interrupts_blocked():
            return super().submit(fn, *args, **kwargs)


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Block SIGINT: processes started inside never see Ctrl-C, not even in their imports; this one sees it later."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
