"""Processes beside the network that open images and make skeletons, so that its own process only moves batches.

Python runs one thread at a time, and a network on a GPU is started from Python: threads that open images or make
trees would hold it up. ImageArray come back in memory that all processes share. Everything else is sent, in messages
about several images each.
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

from treeformer._util.arrays import ImageArray
from treeformer._util.images import ImageSource, LazyImage
from treeformer._util.pools import batches, prefetch_map, process_pool, shared_bytes
from treeformer.errors import TreeformerError
from treeformer.inference.accumulator import TileAccumulator
from treeformer.inference.options import PredictionOptions
from treeformer.inference.prepare import PreparedImage, TooLargeError, try_prepare
from treeformer.skeleton import Skeleton

# Images a message.
CHUNK = 8
# An image of several tiles is sent as a whole, at its working size; a larger one is opened where it is needed.
MOST_SENT_PIXELS = 4_000_000

Sent = tuple[TileAccumulator, LazyImage | None]  # what a process sends of a PreparedImage


@contextmanager
def image_workers(count: int, options: PredictionOptions, side: int, at_once: int) -> Iterator[ImageWorkers]:
    """So many processes for the images of an engine that takes `at_once` inputs of `side` px."""
    chunk = min(CHUNK, at_once)
    # Enough to fill the next batch while every process has its hands full.
    chunks_ahead = -(-at_once // chunk) + count
    # As many chunks are on their way, and one more is being taken out.
    memory = shared_bytes((chunks_ahead + 1) * chunk * side * side * 3)
    with process_pool(count, _start, memory, options, side) as pool:
        yield ImageWorkers(pool, options, side, chunk, chunks_ahead, _inputs(memory, side))


@dataclass(frozen=True)
class ImageWorkers:
    """Processes at work; see `image_workers`."""

    pool: Executor
    options: PredictionOptions
    side: int
    chunk: int
    chunks_ahead: int
    inputs: ImageArray  # (rows, side, side, 3), shared: one row for the first tile of each image on its way

    def opened(self, images: Iterable[ImageSource]) -> Iterator[PreparedImage | TreeformerError]:
        """The images in order, ready to be predicted. The first tile of each is gone when the next is asked for.

        Images that are in memory are opened here, and so are very large ones: they would take longer to send.
        """
        in_memory: deque[ImageSource] = deque()

        def paths() -> Iterator[str | None]:
            for image in images:
                if isinstance(image, str | os.PathLike):
                    yield os.fspath(image)
                else:
                    in_memory.append(image)
                    yield None

        first_rows = itertools.cycle(range(0, len(self.inputs), self.chunk))
        chunks = zip(first_rows, batches(paths(), self.chunk), strict=False)
        for row, opened in prefetch_map(self.pool, _open, chunks, self.chunks_ahead):
            for place, one in enumerate(opened, start=row):
                if one is None or isinstance(one, str):
                    image = in_memory.popleft() if one is None else one
                    yield try_prepare(image, self.options, self.side)
                elif isinstance(one, TreeformerError):
                    yield one
                else:
                    decoding, opened_image = one
                    yield PreparedImage(opened_image, decoding, self.side, self.inputs[place])

    def skeletons(self, decodings: Iterable[TileAccumulator]) -> Iterator[Callable[[], Skeleton]]:
        """For each complete one a function that waits for its skeleton."""
        for chunk in batches(decodings, self.chunk):
            future = self.pool.submit(_skeletons, chunk)
            for place in range(len(chunk)):
                yield functools.partial(_one_of, future, place)


def _inputs(memory: Any, side: int) -> ImageArray:
    return np.frombuffer(memory, dtype=np.uint8).reshape(-1, side, side, 3)


def _one_of(future: Future[list[Skeleton]], place: int) -> Skeleton:
    return future.result()[place]


# ---- in the processes ----------------------------------------------------------------------------


@dataclass
class _Known:
    """What a process was told when it was started."""

    inputs: ImageArray
    options: PredictionOptions
    side: int


_known: list[_Known] = []


def _start(memory: Any, options: PredictionOptions, side: int) -> None:
    _known.append(_Known(_inputs(memory, side), options, side))


def _open(chunk: tuple[int, list[str | None]]) -> tuple[int, list[Sent | TreeformerError | str | None]]:
    """The first row and the images of a chunk; what is not opened here comes back as it was."""
    row, paths = chunk
    return row, [None if path is None else _open_one(path, place) for place, path in enumerate(paths, start=row)]


def _open_one(path: str, row: int) -> Sent | TreeformerError | str:
    known = _known[0]
    try:
        task = try_prepare(path, known.options, known.side, max(MOST_SENT_PIXELS, known.side**2))
    except TooLargeError:
        return path
    if isinstance(task, TreeformerError):
        return task
    known.inputs[row] = task.first
    return task.decoding, task.image


def _skeletons(decodings: list[TileAccumulator]) -> list[Skeleton]:
    return [decoding.skeleton() for decoding in decodings]
