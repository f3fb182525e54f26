"""Worker processes that open images and decode skeletons, so that the main process only runs the network.

Python runs one thread at a time, and a network on a GPU is started from Python. Threads that open images or decode
trees would delay it. Pixels come back in shared memory. Everything else is sent in messages, several images each.
"""

from __future__ import annotations

import functools
import gc
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

# Images per message. Pixels take memory, which limits the number.
CHUNK, SKELETONS_PER_MESSAGE = 8, 16
# An image of several tiles is sent as a whole, at its working size. A larger one is opened in the main process.
MAX_SENT_PIXELS = 4_000_000

SentImage = tuple[TileAccumulator, LazyImage | None]
"""The parts of a `PreparedImage` that a worker sends as a message."""


@contextmanager
def image_workers(count: int, options: PredictionOptions, side: int, batch: int) -> Iterator[ImageWorkers]:
    """Start worker processes for the images of one engine, which predicts `batch` inputs of a side, px, at once.

    They end with the `with` block.
    """
    chunk = min(CHUNK, batch)
    # Enough to fill the next batch while every process is busy.
    chunks_ahead = -(-batch // chunk) + count
    # One more chunk than are on their way is being read by the main process, which fills a batch while the engine reads
    # another one. A whole number of batches, so that none of them is interrupted by the end of the memory.
    unit = batch if batch % chunk == 0 else chunk
    rows = -(-((chunks_ahead + 1) * chunk + 2 * batch) // unit) * unit
    memory = shared_bytes(rows * side * side * 3)
    with process_pool(count, _start, memory, options, side) as pool:
        yield ImageWorkers(pool, options, side, chunk, chunks_ahead, _as_inputs(memory, side))


@dataclass(frozen=True)
class ImageWorkers:
    """Running worker processes; see `image_workers`."""

    pool: Executor
    options: PredictionOptions  # of the caller
    side: int  # of the engine's input, px
    chunk: int  # images per message
    chunks_ahead: int  # number of messages that may be on their way
    # (R,side,side,3) RGB in shared memory, one row for the first tile of each image on its way. The images of two
    # batches and of `chunks_ahead + 1` messages fit into it.
    inputs: ImageArray

    def prepare(self, images: Iterable[ImageSource]) -> Iterator[PreparedImage | TreeformerError]:
        """Yield the images in order, ready to be predicted, or the error if one cannot be read.

        The first tile of an image stays in `inputs` until two batches of further images have been requested. Images in
        memory and very large images are opened in the calling process, because sending them would take longer.
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
        for first_row, answers in prefetch_map(self.pool, _open_chunk, chunks, self.chunks_ahead):
            for row, answer in enumerate(answers, start=first_row):
                if answer is None or isinstance(answer, str):
                    image = in_memory.popleft() if answer is None else answer
                    yield try_prepare(image, self.options, self.side)
                elif isinstance(answer, TreeformerError):
                    yield answer
                else:
                    accumulator, opened = answer
                    yield PreparedImage(opened, accumulator, self.side, self.inputs[row], row)

    def skeletons(self, accumulators: Iterable[TileAccumulator]) -> Iterator[Callable[[], Skeleton]]:
        """Decode complete accumulators; yield one function each that waits for the skeleton and returns it."""
        for chunk in batches(accumulators, SKELETONS_PER_MESSAGE):
            future = self.pool.submit(_decode_chunk, chunk)
            for index in range(len(chunk)):
                yield functools.partial(_wait_for, future, index)


def _as_inputs(memory: Any, side: int) -> ImageArray:
    return np.frombuffer(memory, dtype=np.uint8).reshape(-1, side, side, 3)


def _wait_for(future: Future[list[Skeleton]], index: int) -> Skeleton:
    return future.result()[index]


# ---- in the worker processes ---------------------------------------------------------------------


@dataclass
class _WorkerState:
    """Values that a worker process receives when it starts."""

    inputs: ImageArray
    options: PredictionOptions
    side: int


_state: list[_WorkerState] = []


def _start(memory: Any, options: PredictionOptions, side: int) -> None:
    # The process of the network comes first: if it waits for a core, the GPU waits, too.
    if hasattr(os, "nice"):
        os.nice(5)
    gc.freeze()  # imported modules need not be searched for garbage again and again
    _state.append(_WorkerState(_as_inputs(memory, side), options, side))


def _open_chunk(chunk: tuple[int, list[str | None]]) -> tuple[int, list[SentImage | TreeformerError | str | None]]:
    """Open the images of a chunk. Return the first row and one answer per image: unopened items unchanged."""
    first_row, paths = chunk
    answers = [None if path is None else _open_one(path, row) for row, path in enumerate(paths, start=first_row)]
    return first_row, answers


def _open_one(path: str, row: int) -> SentImage | TreeformerError | str:
    state = _state[0]
    try:
        prepared = try_prepare(path, state.options, state.side, max(MAX_SENT_PIXELS, state.side**2))
    except TooLargeError:
        return path
    if isinstance(prepared, TreeformerError):
        return prepared
    state.inputs[row] = prepared.first_input
    return prepared.accumulator, prepared.image


def _decode_chunk(accumulators: list[TileAccumulator]) -> list[Skeleton]:
    return [accumulator.skeleton() for accumulator in accumulators]
