"""Processes beside the network that open pictures and make skeletons, so that its own process only moves batches.

Python runs one thread at a time, and a network on a GPU is started from Python: threads that open pictures or make
trees would hold it up. Pixels come back in memory that all processes share. Everything else is sent, in messages
about several pictures each.
"""

from __future__ import annotations

import functools
import itertools
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from treeformer._util.images import Picture, Pixels, Source
from treeformer._util.pools import ahead, batches, process_pool, shared_bytes
from treeformer.errors import TreeformerError
from treeformer.inference.accumulator import Decoding
from treeformer.inference.options import Options
from treeformer.inference.prepare import PictureTask, TooLargeError, begin_or_error
from treeformer.skeleton import Skeleton

# Pictures a message.
CHUNK = 8
# A picture of several tiles is sent as a whole, at its working size; a larger one is opened where it is needed.
MOST_SENT_PIXELS = 4_000_000

Sent = tuple[Decoding, Picture | None]  # what a process sends of a PictureTask


@contextmanager
def picture_processes(count: int, options: Options, side: int, at_once: int) -> Iterator[PictureProcesses]:
    """So many processes for the pictures of an engine that takes `at_once` inputs of `side` px."""
    chunk = min(CHUNK, at_once)
    # Enough to fill the next batch while every process has its hands full.
    chunks_ahead = -(-at_once // chunk) + count
    # As many chunks are on their way, and one more is being taken out.
    memory = shared_bytes((chunks_ahead + 1) * chunk * side * side * 3)
    with process_pool(count, _start, memory, options, side) as pool:
        yield PictureProcesses(pool, options, side, chunk, chunks_ahead, _inputs(memory, side))


@dataclass(frozen=True)
class PictureProcesses:
    """Processes at work; see `picture_processes`."""

    pool: Executor
    options: Options
    side: int
    chunk: int
    chunks_ahead: int
    inputs: Pixels  # (rows, side, side, 3), shared: one row for the first tile of each picture on its way

    def opened(self, images: Iterable[Source]) -> Iterator[PictureTask | TreeformerError]:
        """The pictures in order, ready to be predicted. The first tile of each is gone when the next is asked for.

        Pictures that are in memory are opened here, and so are very large ones: they would take longer to send.
        """
        in_memory: deque[Source] = deque()

        def paths() -> Iterator[str | None]:
            for image in images:
                if isinstance(image, str | os.PathLike):
                    yield os.fspath(image)
                else:
                    in_memory.append(image)
                    yield None

        first_rows = itertools.cycle(range(0, len(self.inputs), self.chunk))
        chunks = zip(first_rows, batches(paths(), self.chunk), strict=False)
        for row, opened in ahead(self.pool, _open, chunks, self.chunks_ahead):
            for place, one in enumerate(opened, start=row):
                if one is None or isinstance(one, str):
                    image = in_memory.popleft() if one is None else one
                    yield begin_or_error(image, self.options, self.side)
                elif isinstance(one, TreeformerError):
                    yield one
                else:
                    decoding, picture = one
                    yield PictureTask(picture, decoding, self.side, self.inputs[place])

    def skeletons(self, decodings: Iterable[Decoding]) -> Iterator[Callable[[], Skeleton]]:
        """For each complete one a function that waits for its skeleton."""
        for chunk in batches(decodings, self.chunk):
            future = self.pool.submit(_skeletons, chunk)
            for place in range(len(chunk)):
                yield functools.partial(_one_of, future, place)


def _inputs(memory: Any, side: int) -> Pixels:
    return np.frombuffer(memory, dtype=np.uint8).reshape(-1, side, side, 3)


def _one_of(future: Future[list[Skeleton]], place: int) -> Skeleton:
    return future.result()[place]


# ---- in the processes ----------------------------------------------------------------------------


@dataclass
class _Known:
    """What a process was told when it was started."""

    inputs: Pixels
    options: Options
    side: int


_known: list[_Known] = []


def _start(memory: Any, options: Options, side: int) -> None:
    _known.append(_Known(_inputs(memory, side), options, side))


def _open(chunk: tuple[int, list[str | None]]) -> tuple[int, list[Sent | TreeformerError | str | None]]:
    """The first row and the pictures of a chunk; what is not opened here comes back as it was."""
    row, paths = chunk
    return row, [None if path is None else _open_one(path, place) for place, path in enumerate(paths, start=row)]


def _open_one(path: str, row: int) -> Sent | TreeformerError | str:
    known = _known[0]
    try:
        task = begin_or_error(path, known.options, known.side, max(MOST_SENT_PIXELS, known.side**2))
    except TooLargeError:
        return path
    if isinstance(task, TreeformerError):
        return task
    known.inputs[row] = task.first
    return task.decoding, task.picture


def _skeletons(decodings: list[Decoding]) -> list[Skeleton]:
    return [decoding.skeleton() for decoding in decodings]
