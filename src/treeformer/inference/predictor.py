"""From images to skeletons: `Predictor`, for one image of any size or for many, with any engine.

An image is opened at its working size, cut into tiles where it is larger than the network's input, and predicted in
batches of tiles, which may belong to several images. What the network says of an image becomes one spanning tree,
or a forest where there are several plants, in the pixels of the original image. The rules are in docs/prediction.md.
"""

from __future__ import annotations

import functools
import os
import threading
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Executor, Future
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from treeformer._util.arrays import ImageArray
from treeformer._util.images import ImageSource
from treeformer._util.pools import batches, check_workers, prefetch_map, thread_pool
from treeformer.errors import TreeformerError
from treeformer.hub.model_folder import ModelFolder, Precision, open_model
from treeformer.inference.accumulator import TileAccumulator
from treeformer.inference.engine import Engine, RawPrediction
from treeformer.inference.open_engine import EngineName, open_engine
from treeformer.inference.options import PredictionOptions, WorkingSize
from treeformer.inference.prepare import PreparedImage, begin, try_prepare
from treeformer.inference.workers import ImageWorkers, image_workers
from treeformer.skeleton import Skeleton


class Predictor:
    """A model, ready to predict.

    Args:
        model: "default", a model folder, or a name on the Hugging Face hub; or a folder that is open already.
        engine: "auto" is torch where it is installed and sees a GPU, else ONNX Runtime; or an engine of one's own.
        threads: that work on one image on a CPU; by default all cores.
        precision: of ONNX Runtime: "float32", "int8", or "auto", which is int8 where the model has it.

    Example:
        >>> predictor = Predictor()  # doctest: +SKIP
        >>> predictor.predict("plant.jpg").is_forest  # doctest: +SKIP
        True
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | ModelFolder = "default",
        *,
        engine: EngineName | Engine = "auto",
        threads: int | None = None,
        precision: Precision = "auto",
    ) -> None:
        self.model = model if isinstance(model, ModelFolder) else open_model(model)
        if isinstance(engine, str):
            engine = open_engine(self.model, engine, threads=threads, precision=precision)
        self.engine = engine

    def predict(
        self,
        image: ImageSource,
        *,
        working_size: WorkingSize = None,
        single_plant: bool = False,
        min_confidence: float | None = None,
    ) -> Skeleton:
        """The skeleton of one image, in its own pixels, upright; empty, with a warning, where there is no plant.

        Args:
            image: a path, a Pillow image, or an array (H,W) or (H,W,3 or 4) of uint8, uint16 or floats in [0, 1].
            working_size: px; a longer image is reduced to this, "full" never; None is what the model wants.
            single_plant: make one tree of everything. By default the model decides how many plants there are.
            min_confidence: in place of the model's threshold for nodes; edges below it are cut, too, and the pieces
                that come off are trees of their own.

        Returns:
            A tree, or a forest with one root a plant and plants numbered from left to right, with `node_score`,
            `edge_score` and `image_size`.
        """
        options = PredictionOptions(self.model, working_size, single_plant, min_confidence)
        task = begin(image, options, self.engine.input_size)
        for batch in batches(task.inputs(), self._batch(None)):
            raw = self.engine(np.stack(batch))
            for row in range(len(batch)):
                task.decoding.add(raw, row)
        skeleton = task.decoding.skeleton()
        if len(skeleton) == 0:
            warnings.warn(f"{skeleton.image_name or 'the image'}: no plant was found in it", stacklevel=2)
        return skeleton

    def predict_many(
        self,
        images: Iterable[ImageSource],
        *,
        working_size: WorkingSize = None,
        single_plant: bool = False,
        min_confidence: float | None = None,
        batch: int | None = None,
        workers: int = 2,
        processes: bool = False,
    ) -> Generator[Skeleton | TreeformerError, None, None]:
        """The skeletons of many images, in order; for an image that cannot be read, the error, as a value.

        Results are the same for every number of `workers`, with `processes` or without, and but for their last digit
        for every `batch`. No more images are held in memory than these ask for.

        Args:
            images: any number, taken as they are needed and read ahead, so that an array must not change after it was
                handed over; an array (B,H,W) or (B,H,W,3 or 4) is B images; further arguments as for `predict`.
            batch: tiles that are predicted at once; by default 64 with torch, 1 with ONNX Runtime.
            workers: threads that read images ahead; 0: each is read when its turn has come.
            processes: the workers are processes, which also make the trees: for many files and a fast GPU. A script
                that asks for them needs the usual `if __name__ == "__main__":`.
        """
        check_workers(workers)
        _check_several(images)
        options = PredictionOptions(self.model, working_size, single_plant, min_confidence)
        at_once, side = self._batch(batch), self.engine.input_size
        with ExitStack() as stack:
            runner = stack.enter_context(thread_pool(1))
            if processes and workers:
                others = stack.enter_context(image_workers(workers, options, side, at_once))
                yield from _Stream(self.engine, at_once, runner, others).results(others.opened(images))
            else:
                opened = functools.partial(try_prepare, options=options, side=side)
                tasks: Iterator[PreparedImage | TreeformerError] = map(opened, images)
                if workers:
                    readers = stack.enter_context(thread_pool(workers))
                    tasks = prefetch_map(readers, opened, images, 2 * at_once + workers)
                yield from _Stream(self.engine, at_once, runner).results(tasks)

    def _batch(self, wanted: int | None) -> int:
        if wanted is not None and wanted < 1:
            raise TreeformerError(f"batch must be one image or more, not {wanted}")
        return wanted or self.engine.preferred_batch


def _check_several(images: object) -> None:
    """One image is no list of images, though an array gives its rows and a path its letters, one by one."""
    one = isinstance(images, str | os.PathLike | Image.Image)
    if isinstance(images, np.ndarray):
        one = images.ndim < 3 or (images.ndim == 3 and images.shape[2] <= 4)
    if one:
        raise TreeformerError("predict_many takes several images, and this is one: predict is for that")


@functools.cache
def _loaded(model: str, engine: EngineName, threads: int | None, precision: Precision) -> Predictor:
    return Predictor(model, engine=engine, threads=threads, precision=precision)


_loading = threading.Lock()  # threads that ask for a model at the same time are to share it, not to load it each


def load_model(
    model: str | os.PathLike[str] = "default",
    *,
    engine: EngineName = "auto",
    threads: int | None = None,
    precision: Precision = "auto",
) -> Predictor:
    """A model, ready to predict; loaded once and kept. Arguments as for `Predictor`.

    >>> load_model("default").predict("plant.jpg").plants  # doctest: +SKIP
    """
    with _loading:
        return _loaded(os.fspath(model), engine, threads, precision)


def predict(
    image: ImageSource,
    *,
    working_size: WorkingSize = None,
    single_plant: bool = False,
    min_confidence: float | None = None,
) -> Skeleton:
    """The skeleton of one image by the default model; arguments as for `Predictor.predict`.

    >>> predict("plant.jpg").is_forest  # doctest: +SKIP
    True
    """
    options: dict[str, Any] = {
        "working_size": working_size,
        "single_plant": single_plant,
        "min_confidence": min_confidence,
    }
    return load_model().predict(image, **options)


@dataclass
class _Slot:
    """The place of an image in the order of results; `result` is there once all its tiles are."""

    decoding: TileAccumulator | None = None
    result: Callable[[], Skeleton | TreeformerError] | None = None


class _Stream:
    """Tiles of one image after the other through the engine, in batches, while results come out in order.

    The engine works in a thread of its own: while it has a batch, the next is gathered and the last one decoded.
    """

    def __init__(self, engine: Engine, at_once: int, runner: Executor, others: ImageWorkers | None = None) -> None:
        self.engine, self.at_once, self.runner, self.others = engine, at_once, runner, others
        self.slots: deque[_Slot] = deque()
        self.running: deque[tuple[Future[RawPrediction], list[_Slot]]] = deque()

    def results(self, tasks: Iterable[PreparedImage | TreeformerError]) -> Iterator[Skeleton | TreeformerError]:
        # Other processes need time: their results are waited for two batches later.
        lag = 2 * self.at_once if self.others else 0
        for slots, pixels in self._filled(self._inputs(tasks)):
            self.running.append((self.runner.submit(self.engine, pixels), slots))
            self._collect(still_running=1)
            yield from self._finished(lag)
        self._collect(still_running=0)
        yield from self._finished(0)

    def _filled(self, inputs: Iterable[tuple[_Slot, ImageArray]]) -> Iterator[tuple[list[_Slot], ImageArray]]:
        """Batches, in two buffers in turn: the engine has one while the other is filled."""
        buffers = np.empty((2, self.at_once, *2 * (self.engine.input_size,), 3), dtype=np.uint8)
        slots: list[_Slot] = []
        for slot, pixels in inputs:
            buffers[0, len(slots)] = pixels
            slots.append(slot)
            if len(slots) == self.at_once:
                yield slots, buffers[0]
                slots, buffers = [], buffers[::-1]
        if slots:
            yield slots, buffers[0, : len(slots)]

    def _inputs(self, tasks: Iterable[PreparedImage | TreeformerError]) -> Iterator[tuple[_Slot, ImageArray]]:
        for task in tasks:
            if isinstance(task, TreeformerError):
                self.slots.append(_Slot(result=functools.partial(_itself, task)))
                continue
            slot = _Slot(task.decoding)
            self.slots.append(slot)
            for pixels in task.inputs():
                yield slot, pixels

    def _collect(self, still_running: int) -> None:
        while len(self.running) > still_running:
            future, slots = self.running.popleft()
            raw = future.result()
            complete = []
            for row, slot in enumerate(slots):
                assert slot.decoding is not None
                slot.decoding.add(raw, row)
                if slot.decoding.is_complete:
                    complete.append((slot, slot.decoding))
            decodings = [decoding for _, decoding in complete]
            results = self.others.skeletons(decodings) if self.others else (one.skeleton for one in decodings)
            for (slot, _), result in zip(complete, results, strict=True):
                slot.decoding, slot.result = None, result

    def _finished(self, lag: int) -> Iterator[Skeleton | TreeformerError]:
        while len(self.slots) > lag and (result := self.slots[0].result) is not None:
            self.slots.popleft()
            yield result()


def _itself(error: TreeformerError) -> TreeformerError:
    return error
