"""Many images through one engine: tiles are predicted in batches, and results have the order of the images."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, wait
from dataclasses import dataclass

from treeformer._util.arrays import ImageArray
from treeformer.errors import TreeformerError
from treeformer.inference.accumulator import TileAccumulator
from treeformer.inference.engine import Engine, Rows, begin_rows
from treeformer.inference.input_batch import InputBatch
from treeformer.inference.prepare import PreparedImage, prepare_second_pass
from treeformer.inference.workers import ImageWorkers
from treeformer.skeleton import Skeleton

# Number of batches that may be predicted before the skeletons of a batch are needed, if processes decode them.
LAG_BATCHES = 4


@dataclass
class Slot:
    """The position of an image in the order of results."""

    accumulator: TileAccumulator | None = None  # None after the last tile
    result: Callable[[], Skeleton | TreeformerError] | None = None  # returns the result; set after the last tile


class PredictionStream:
    """Send the tiles of many images through the engine in batches, and yield results in order.

    The engine runs in a thread of its own: meanwhile the next batch is filled and the previous one decoded. A GPU
    begins a batch before the output of the previous one is read, so that it never waits between batches.

    `runner` is the engine's thread. `workers` decode skeletons; without them, the calling thread does. `shared` is the
    memory of the workers, if the engine may read it.
    """

    def __init__(
        self,
        engine: Engine,
        batch_size: int,
        runner: Executor,
        workers: ImageWorkers | None = None,
        shared: ImageArray | None = None,
    ) -> None:
        self.engine, self.batch_size, self.runner, self.workers = engine, batch_size, runner, workers
        self.shared = shared
        self.slots: deque[Slot] = deque()
        self.running: deque[tuple[Future[Callable[[], Rows]], list[Slot]]] = deque()
        self.second_passes: deque[tuple[Slot, PreparedImage]] = deque()

    def results(self, images: Iterable[PreparedImage | TreeformerError]) -> Iterator[Skeleton | TreeformerError]:
        """Yield the skeleton or the error of each image, in order. An unreadable image is given as its error."""
        # Worker processes need time to decode, and open other images first. Their results are collected later.
        lag = LAG_BATCHES * self.batch_size if self.workers else 0
        remaining: Iterable[PreparedImage | TreeformerError] = images
        while True:
            for slots, pixels in self._batches(remaining):
                self.running.append((self.runner.submit(begin_rows, self.engine, pixels), slots))
                self._collect(still_running=1)
                yield from self._finished(lag)
            self._collect(still_running=0)
            if not self.second_passes:
                break
            remaining = ()
        yield from self._finished(0)

    def _batches(self, images: Iterable[PreparedImage | TreeformerError]) -> Iterator[tuple[list[Slot], ImageArray]]:
        """Yield batches of tiles. The engine may read a batch while the next one is filled."""
        batch: InputBatch[Slot] = InputBatch(self.engine, self.batch_size, self.shared)
        for slot, pixels, row in self._inputs(images, batch):
            batch.add(slot, pixels, row)
            if batch.is_full:
                yield batch.take()
        if len(batch):
            yield batch.take()

    def _inputs(
        self, images: Iterable[PreparedImage | TreeformerError], batch: InputBatch[Slot]
    ) -> Iterator[tuple[Slot, ImageArray, int | None]]:
        """Yield tiles, and the row of each in the memory of the workers if it is there."""
        for image in images:
            if isinstance(image, TreeformerError):
                self.slots.append(Slot(result=functools.partial(_identity, image)))
                # Images that fill no batch must not overwrite the batches before them, however many they are.
                batch.copy_rows()
                wait([future for future, _ in self.running])
                continue
            slot = Slot(image.accumulator)
            self.slots.append(slot)
            row = image.row
            for pixels in image.inputs():
                yield slot, pixels, row
                row = None
            yield from self._second_inputs()
        yield from self._second_inputs()

    def _second_inputs(self) -> Iterator[tuple[Slot, ImageArray, None]]:
        """Yield the tiles of the second passes that are known by now."""
        while self.second_passes:
            slot, image = self.second_passes.popleft()
            for pixels in image.inputs():
                yield slot, pixels, None

    def _collect(self, still_running: int) -> None:
        """Distribute the output of finished batches, until only `still_running` batches are left."""
        while len(self.running) > still_running:
            future, slots = self.running.popleft()
            complete = []
            for slot, (raw, row) in zip(slots, future.result()(), strict=True):
                assert slot.accumulator is not None
                slot.accumulator.add(raw, row)
                if slot.accumulator.is_complete and not self._begin_second_pass(slot, slot.accumulator):
                    complete.append((slot, slot.accumulator))
            accumulators = [accumulator for _, accumulator in complete]
            results = self.workers.skeletons(accumulators) if self.workers else (a.skeleton for a in accumulators)
            for (slot, _), result in zip(complete, results, strict=True):
                slot.accumulator, slot.result = None, result

    def _begin_second_pass(self, slot: Slot, first: TileAccumulator) -> bool:
        """Return True if the image needs a second pass, or fails on the way to it."""
        try:
            second = prepare_second_pass(first, self.engine.input_size)
        except TreeformerError as error:
            slot.accumulator, slot.result = None, functools.partial(_identity, error)
            return True
        if second is None:
            return False
        slot.accumulator = second.accumulator
        self.second_passes.append((slot, second))
        return True

    def _finished(self, lag: int) -> Iterator[Skeleton | TreeformerError]:
        """Yield results in order, up to the first that is not there; leave the last `lag` images for later."""
        while len(self.slots) > lag and (result := self.slots[0].result) is not None:
            self.slots.popleft()
            yield result()


def _identity(error: TreeformerError) -> TreeformerError:
    return error
