"""Steadier figures from few images: every validation image is measured in four views and at several thresholds.

One image of a few plants moves the F1 by a tenth if a single branch is joined or lost. Its mirror image and a window
that is shifted against the network's grid are further measurements of the same annotation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from treeformer import formats
from treeformer._util.arrays import ImageArray
from treeformer._util.images import open_image
from treeformer.data.augmentation import move, warp
from treeformer.data.folder_dataset import has_pair, write_pair
from treeformer.finetuning import measuring
from treeformer.finetuning.annotated import AnnotatedImage
from treeformer.hub.model_folder import ModelFolder
from treeformer.inference.engine import Engine, RawPrediction
from treeformer.inference.predictor import Predictor
from treeformer.metrics import topo
from treeformer.skeleton import Skeleton

# Views per image.
VIEWS = 4
# The shifted window leaves out this fraction of the image at its left and upper border.
SHIFT = 0.04
# Node thresholds that are tried, relative to that of the start model.
THRESHOLD_STEPS = (-0.05, 0.0, 0.05, 0.1, 0.15, 0.2)


class RememberingEngine:
    """An engine that computes every input once, so that several thresholds cost one run of the network.

    Args:
        engine: the engine.
    """

    def __init__(self, engine: Engine) -> None:
        self.name, self.device, self.preferred_batch = engine.name, engine.device, engine.preferred_batch
        self.input_size = engine.input_size
        self._engine = engine
        self._outputs: dict[bytes, RawPrediction] = {}

    def __call__(self, images: ImageArray) -> RawPrediction:
        """Predict images, (B,S,S,3) RGB, or return what was predicted for them before."""
        key = hashlib.blake2b(images.tobytes()).digest()  # the tiles of large images would fill the memory
        if key not in self._outputs:
            self._outputs[key] = self._engine(images)
        return self._outputs[key]


def make_views(images: Sequence[AnnotatedImage], folder: Path) -> list[AnnotatedImage]:
    """Write the views of images: as they are, mirrored, and both as a shifted window.

    Args:
        images: the images.
        folder: receives image and skeleton files. Pairs that exist are kept.

    Returns:
        Four images for each.

    Raises:
        OSError: if the disk is full.
    """
    views = []
    for number, image in enumerate(images):
        views.append(image)
        width, height = image.size
        shift_x, shift_y = (max(1, round(SHIFT * side)) for side in (width, height))
        mirror = [[-1, 0, width], [0, 1, 0]]
        shifted = [[1, 0, -shift_x], [0, 1, -shift_y]]
        both = [[-1, 0, width - shift_x], [0, 1, -shift_y]]
        inner = (width - shift_x, height - shift_y)
        for kind, affine, size in (("a", mirror, (width, height)), ("b", shifted, inner), ("c", both, inner)):
            stem = f"{number:03d}{kind}"
            if not has_pair(folder, stem):
                pixels = warp(np.asarray(open_image(image.path)), affine, size)
                write_pair(pixels, move(image.skeleton, affine, size), folder, stem)
            path = folder / f"{stem}.png"
            views.append(AnnotatedImage(path, path.with_suffix(".json"), stem, formats.read(path.with_suffix(".json"))))
    return views


def best_threshold(
    engine: Engine, folder: ModelFolder, images: Sequence[AnnotatedImage], after_each: Callable[[], None] = lambda: None
) -> tuple[float, dict[str, float]]:
    """Find the node threshold with the highest F1.

    Args:
        engine: the network.
        folder: its model folder: sizes and thresholds.
        images: the images to measure.
        after_each: called after each image. An error that it raises ends the search.

    Returns:
        The threshold, and the figures with it. The start model's threshold wins ties.
    """
    start = folder.config.node_threshold
    figures = {
        threshold: measuring.score(trees, images)
        for threshold, trees in _at_thresholds(engine, folder, images, after_each)
    }
    best = max(figures, key=lambda threshold: (figures[threshold]["topo_f1"], -abs(threshold - start)))
    return best, figures[best]


def cautious_threshold(
    engine: Engine,
    folder: ModelFolder,
    images: Sequence[AnnotatedImage],
    groups: Sequence[int],
    after_each: Callable[[], None] = lambda: None,
) -> float:
    """Find the node threshold nearest to that of the start model whose F1 is not clearly below the highest.

    Few images prefer a threshold by chance. Not clearly below means within one standard error of the difference.

    Args:
        engine: the network.
        folder: its model folder: sizes and thresholds.
        images: the images to measure.
        groups: a number per image. Views of the same annotation have the same one and count as one image.
        after_each: called after each image. An error that it raises ends the search.

    Returns:
        The threshold.
    """
    start = folder.config.node_threshold
    f1 = {
        threshold: np.array([topo(tree, image.skeleton).f1 for tree, image in zip(trees, images, strict=True)])
        for threshold, trees in _at_thresholds(engine, folder, images, after_each)
    }
    best = max(f1, key=lambda threshold: measuring.mean_of_groups(f1[threshold], groups)[0])
    for threshold in sorted(f1, key=lambda threshold: abs(threshold - start)):
        lost, error = measuring.mean_of_groups(f1[best] - f1[threshold], groups)
        if lost <= error:
            return threshold
    return best


def _at_thresholds(
    engine: Engine, folder: ModelFolder, images: Sequence[AnnotatedImage], after_each: Callable[[], None]
) -> Iterator[tuple[float, list[Skeleton]]]:
    """Yield each threshold that is tried, and the trees of all images with it."""
    remembering = RememberingEngine(engine)
    for step in THRESHOLD_STEPS:
        threshold = round(folder.config.node_threshold + step, 4)
        if not folder.config.candidate_threshold <= threshold <= 1:
            continue
        changed = ModelFolder(folder.path, replace(folder.config, node_threshold=threshold), folder.hashes)
        yield threshold, measuring.predict_images(Predictor(changed, engine=remembering), images, after_each)
