"""From images to skeletons: `Predictor`, for one image of any size or for many, with any engine.

An image is opened at its working size. If it is larger than the network's input, it is cut into tiles. Tiles are
predicted in batches, which may contain tiles of several images. The network's output for an image is decoded into one
spanning tree, or into a forest if there are several plants, in pixels of the original image. docs/prediction.md
describes the rules.
"""

from __future__ import annotations

import functools
import os
import threading
import warnings
from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from PIL import Image

from treeformer._util.images import ImageSource
from treeformer._util.pools import batches, check_workers, prefetch_map, thread_pool
from treeformer._util.progress import ProgressCallback
from treeformer.errors import TreeformerError
from treeformer.hub.model_folder import CONFIG, ModelFolder, Precision, open_model
from treeformer.inference.engine import Engine, predict_rows, readable_memory
from treeformer.inference.open_engine import EngineName, open_engine
from treeformer.inference.options import PredictionOptions, WorkingSize
from treeformer.inference.prepare import PreparedImage, prepare, prepare_second_pass, try_prepare
from treeformer.inference.stream import PredictionStream
from treeformer.inference.views import View, check_views, choose, views_of
from treeformer.inference.workers import image_workers
from treeformer.skeleton import Skeleton


class Predictor:
    """A loaded model that predicts skeletons.

    Args:
        model: "default", "small", a model folder, a name on the Hugging Face hub, or an opened `ModelFolder`.
        engine: "onnx", "torch", or "auto": torch if it is installed and sees a GPU, ONNX Runtime otherwise. An object
            with the `Engine` protocol is used as it is.
        threads: number of CPU threads. None uses all cores.
        precision: number format of ONNX Runtime: "float32", "int8", or "auto": int8 if the model has it.

    Attributes:
        model: the opened model folder.
        engine: what runs the network.

    Raises:
        TreeformerError: if the model is missing or damaged, or an argument is invalid.

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
        self._known_options: dict[str, PredictionOptions] = {}

    def predict(
        self,
        image: ImageSource,
        *,
        working_size: WorkingSize = None,
        single_plant: bool = False,
        min_confidence: float | None = None,
        views: int = 1,
        progress: ProgressCallback | None = None,
    ) -> Skeleton:
        """Predict the skeleton of one image. Warn if no plant is found.

        Args:
            image: a path, a Pillow image, or an array (H,W) or (H,W,3 or 4) of uint8, uint16 or floats in [0, 1].
                EXIF orientation is applied.
            working_size: length to which longer images are reduced, px; "auto" chooses it per image, "full" reduces no
                image. None is "auto" if the model has a rule for it, as the shipped models have.
            single_plant: join everything into one tree. By default the model decides how many plants there are.
            min_confidence: minimum confidence of nodes, instead of the model's threshold, in [0, 1]. Edges below it
                are cut, too, and the parts that are cut off become trees of their own.
            views: number of views of the image that are predicted, up to 6: itself, mirrored, and shifted windows. The
                tree that agrees best with the others is returned. The time grows by this factor.
            progress: called with the number of finished tiles and the total. An error that it raises ends the
                prediction.

        Returns:
            A tree, or a forest with one root per plant, in px of the upright original image. Plants are numbered from
            left to right. `node_score`, `edge_score` and `image_size` are set. Empty if no plant is found.

        Raises:
            TreeformerError: if the image cannot be read or an option is invalid.
        """
        options = self._options(working_size, single_plant, min_confidence, views)
        trees = []
        for number, source in enumerate(views_of(image, views)):
            part = progress
            if progress is not None and views > 1:
                part = functools.partial(_part_of_progress, progress, number, views)
            trees.append(self._predict_one(source, options, part))
        skeleton = trees[0] if views == 1 else choose(trees)
        if len(skeleton) == 0:
            warnings.warn(f"{skeleton.image_name or 'the image'}: no plant was found", stacklevel=2)
        return skeleton

    def _predict_one(
        self, image: ImageSource | View, options: PredictionOptions, progress: ProgressCallback | None
    ) -> Skeleton:
        prepared: PreparedImage | None = prepare(image, options, self.engine.input_size)
        done = total = 0
        while prepared is not None:
            accumulator = prepared.accumulator
            total += len(accumulator.tiles)
            for batch in batches(prepared.inputs(), self._batch_size(None)):
                for raw, row in predict_rows(self.engine, batch[0][None] if len(batch) == 1 else np.stack(batch)):
                    accumulator.add(raw, row)
                done += len(batch)
                if progress is not None:
                    progress(done, total)
            prepared = prepare_second_pass(accumulator, self.engine.input_size)
        return accumulator.skeleton()

    def predict_many(
        self,
        images: Iterable[ImageSource],
        *,
        working_size: WorkingSize = None,
        single_plant: bool = False,
        min_confidence: float | None = None,
        views: int = 1,
        batch: int | None = None,
        workers: int = 2,
        processes: bool = False,
    ) -> Generator[Skeleton | TreeformerError, None, None]:
        """Predict the skeletons of many images, in order.

        Results do not depend on `workers` and `processes`, and only in their last digit on `batch`. The number of
        images in memory is limited by `batch` and `workers`.

        Args:
            images: any number of images, as for `predict`, or an array (B,H,W) or (B,H,W,3 or 4) of B images. They are
                read ahead, so an array must not change after it has been passed on.
            working_size: as for `predict`.
            single_plant: as for `predict`.
            min_confidence: as for `predict`.
            views: as for `predict`.
            batch: number of tiles predicted at once. None uses 1 with ONNX Runtime, 64 with torch, and
                128 on a GPU of 12 GiB or more.
            workers: number of threads that read images ahead. 0 reads each image when it is needed.
            processes: use processes instead of threads, which also decode the skeletons. Worthwhile for many files
                and a fast GPU. The calling script needs `if __name__ == "__main__":`. Several views of an image are
                always prepared in threads.

        Yields:
            One skeleton per image, or the error if the image cannot be read.

        Raises:
            TreeformerError: if an option is invalid, or `images` is a single image.
        """
        check_workers(workers)
        _reject_single_image(images)
        options = self._options(working_size, single_plant, min_confidence, views)
        batch_size, side = self._batch_size(batch), self.engine.input_size
        with ExitStack() as stack:
            if processes and workers and views == 1:
                pool = stack.enter_context(image_workers(workers, options, side, batch_size))
                is_readable = stack.enter_context(readable_memory(self.engine, pool.inputs))
                runner = stack.enter_context(thread_pool(1))
                stream = PredictionStream(self.engine, batch_size, runner, pool, pool.inputs if is_readable else None)
                yield from stream.results(pool.prepare(images))
            else:
                runner = stack.enter_context(thread_pool(1))
                sources = (source for image in images for source in views_of(image, views))
                prepare_one = functools.partial(try_prepare, options=options, side=side)
                prepared: Iterator[PreparedImage | TreeformerError] = map(prepare_one, sources)
                if workers:
                    readers = stack.enter_context(thread_pool(workers))
                    prepared = prefetch_map(readers, prepare_one, sources, 2 * batch_size + workers)
                results = PredictionStream(self.engine, batch_size, runner).results(prepared)
                yield from results if views == 1 else _chosen(results, views)

    def _options(
        self, working_size: WorkingSize, single_plant: bool, min_confidence: float | None, views: int
    ) -> PredictionOptions:
        """Return the options. The frames of a camera share them."""
        key = repr((working_size, single_plant, min_confidence, self.engine.name, views))
        options = self._known_options.get(key)
        if options is None:
            check_views(views)
            engine = self.engine.name
            options = PredictionOptions(self.model, working_size, single_plant, min_confidence, engine, views)
            self._known_options = {key: options}
        return options

    def _batch_size(self, batch: int | None) -> int:
        if batch is not None and (not isinstance(batch, int) or batch < 1):
            raise TreeformerError(f"batch must be an integer of at least 1, not {batch!r}")
        return batch or self.engine.preferred_batch


def _chosen(
    results: Iterator[Skeleton | TreeformerError], views: int
) -> Generator[Skeleton | TreeformerError, None, None]:
    """Yield the tree on which the views of an image agree, or the error of the image."""
    for found in batches(results, views):
        errors = [one for one in found if isinstance(one, TreeformerError)]
        yield errors[0] if errors else choose([one for one in found if isinstance(one, Skeleton)])


def _part_of_progress(progress: ProgressCallback, number: int, views: int, done: int, total: int) -> None:
    """Report the tiles of one view as a part of those of all views."""
    progress(number * total + done, views * total)


def _reject_single_image(images: object) -> None:
    """Raise an error for a single image, whose rows or letters would otherwise be taken for images."""
    is_single = isinstance(images, str | os.PathLike | Image.Image)
    if isinstance(images, np.ndarray):
        is_single = images.ndim < 3 or (images.ndim == 3 and images.shape[2] <= 4)
    if is_single:
        raise TreeformerError("predict_many takes several images, and this is one: use predict")


_load_lock = threading.Lock()  # threads that request a model at the same time share it instead of loading it each
# Loaded models by name and options, each with the config.json of its folder, which has the hashes of all its files.
_loaded: dict[tuple[object, ...], tuple[bytes, Predictor]] = {}


def _local_config(model: str) -> bytes:
    """Return the contents of config.json of a folder, nothing for a model that comes with the package or a hub."""
    try:
        return Path(model, CONFIG).read_bytes()
    except (OSError, ValueError):  # a null character in a name is a ValueError
        return b""


def load_model(
    model: str | os.PathLike[str] = "default",
    *,
    engine: EngineName = "auto",
    threads: int | None = None,
    precision: Precision = "auto",
) -> Predictor:
    """Load a model. Further calls with the same arguments return the same object, unless the folder has changed.

    Args:
        model: "default", "small", a model folder, or a name on the Hugging Face hub.
        engine: "onnx", "torch", or "auto": torch if it is installed and sees a GPU, ONNX Runtime otherwise.
        threads: number of CPU threads. None uses all cores.
        precision: number format of ONNX Runtime: "float32", "int8", or "auto": int8 if the model has it.

    Returns:
        The model, ready to predict.

    Raises:
        TreeformerError: if the model is missing or damaged, or an argument is invalid.

    Example:
        >>> load_model("default").predict("plant.jpg").plants  # doctest: +SKIP
    """
    if not isinstance(model, str | os.PathLike):
        raise TreeformerError(f"the model must be a name or a folder, not {type(model).__name__}")
    name = str(os.fspath(model))
    with _load_lock:
        config = _local_config(name)
        key = (Path(name).resolve() if config else name, engine, threads, precision)
        if key not in _loaded or _loaded[key][0] != config:
            _loaded[key] = config, Predictor(name, engine=engine, threads=threads, precision=precision)
        return _loaded[key][1]


def predict(
    image: ImageSource,
    *,
    working_size: WorkingSize = None,
    single_plant: bool = False,
    min_confidence: float | None = None,
    views: int = 1,
) -> Skeleton:
    """Predict the skeleton of one image with the default model.

    Args:
        image: a path, a Pillow image, or an array (H,W) or (H,W,3 or 4) of uint8, uint16 or floats in [0, 1].
        working_size: length to which longer images are reduced, px; "auto" chooses it per image, "full" reduces no
            image. None is "auto" if the model has a rule for it, as the shipped models have.
        single_plant: join everything into one tree. By default the model decides how many plants there are.
        min_confidence: minimum confidence of nodes and edges, in [0, 1]; see `Predictor.predict`.
        views: number of views of the image that are predicted; see `Predictor.predict`.

    Returns:
        A tree, or a forest with one root per plant, in px of the upright original image.

    Raises:
        TreeformerError: if the image cannot be read or an option is invalid.

    Example:
        >>> predict("plant.jpg").is_forest  # doctest: +SKIP
        True
    """
    return load_model().predict(
        image, working_size=working_size, single_plant=single_plant, min_confidence=min_confidence, views=views
    )
