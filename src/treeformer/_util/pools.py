"""Threads and processes that work ahead, and stop at once with what has not begun."""

from __future__ import annotations

import itertools
import multiprocessing
import signal
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
    """An error where no number of helpers is meant; 0 leaves all the work to the process, or thread, that asks."""
    if workers < 0:
        raise TreeformerError(f"workers must be 0, which leaves all the work to this process, or more, not {workers}")


def prefetch_map(pool: Executor, work: Callable[[Item], Result], items: Iterable[Item], count: int) -> Iterator[Result]:
    """`work` of each item in order, done by a pool that is up to `count` items ahead."""
    futures: deque[Future[Result]] = deque()
    for item in items:
        futures.append(pool.submit(work, item))
        if len(futures) > count:
            yield futures.popleft().result()
    while futures:
        yield futures.popleft().result()


def batches(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Lists of `size` items, the last one shorter."""
    iterator = iter(items)
    while batch := list(itertools.islice(iterator, size)):
        yield batch


@contextmanager
def thread_pool(workers: int) -> Iterator[Executor]:
    """Threads; where the block ends early, what has not begun never does."""
    pool = ThreadPoolExecutor(workers)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def process_pool(workers: int, start: Callable[..., None] | None = None, *arguments: Any) -> Iterator[Executor]:
    """Processes that leave Ctrl-C to this one. Fresh ones: forking a process that has threads or a GPU is not safe.

    Args:
        workers: how many, at most; they are started as there is work.
        start: what each process calls first, with the arguments, which may hold memory from `shared_bytes`.
    """
    pool = quiet_process_pool(workers, start, *arguments)
    try:
        yield pool
    except BrokenProcessPool:
        raise TreeformerError(
            "a worker process was ended before its work was done, most likely for want of memory: fewer workers need"
            " less; or its script has no `if __name__ == '__main__':`"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def quiet_process_pool(workers: int, start: Callable[..., None] | None = None, *arguments: Any) -> Executor:
    """`process_pool` for whoever shuts it down: left to the end of Python, it may print a traceback."""
    context = multiprocessing.get_context("spawn")
    return _SilentPool(workers, mp_context=context, initializer=_start, initargs=(start, arguments))


def shared_bytes(count: int) -> Any:
    """Zeros that this process and those of a pool share. The memory has no name, so that nothing can stay behind."""
    return multiprocessing.RawArray("B", count)


def _start(start: Callable[..., None] | None, arguments: tuple[Any, ...]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if start is not None:
        start(*arguments)


class _SilentPool(ProcessPoolExecutor):
    """Processes are started when tasks are given: they inherit that interrupts are held back."""

    def submit(self, fn: Callable[..., Result], /, *args: Any, **kwargs: Any) -> Future[Result]:
        """As in any pool."""
        with _interrupts_held_back():
            return super().submit(fn, *args, **kwargs)


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """What is started here never sees Ctrl-C, not even while it imports; this process sees it afterwards."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
