"""Measure a network in memory as `treeformer predict` would use it: working size, tiles, decoding, thresholds.

Few images give rough figures: one image of a few plants moves the F1 by a tenth if a single branch is joined or lost.
So every validation image is measured in four views and at several thresholds. Its mirror image and a window that is
shifted against the network's grid are further measurements of the same annotation.
"""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from treeformer import formats
from treeformer._util.arrays import BoolArray, FloatArray, ImageArray
from treeformer._util.images import open_image
from treeformer.data.augmentation import move, warp
from treeformer.data.folder_dataset import has_pair, write_pair
from treeformer.decoding.calibration import EdgeCalibration, fit_calibration
from treeformer.errors import TreeformerError
from treeformer.finetuning.annotated import AnnotatedImage
from treeformer.hub.model_folder import ModelFolder
from treeformer.inference.engine import Engine, RawPrediction
from treeformer.inference.open_engine import EngineName
from treeformer.inference.predictor import Predictor
from treeformer.metrics import correct_edges, topo
from treeformer.models.inference_model import InferenceModel
from treeformer.models.treeformer import TreeFormer
from treeformer.skeleton import Skeleton

# The engine that compares model folders, as `treeformer predict` uses it on a CPU.
ENGINE: EngineName = "onnx"
# Calibration needs this many edges of validation images, and this many wrong ones among them.
MIN_CALIBRATION_EDGES = 100
MIN_WRONG_EDGES = 10
# Views per image.
VIEWS = 4
# The shifted window leaves out this fraction of the image at its left and upper border.
SHIFT = 0.04
# Node thresholds that are tried, relative to that of the start model.
THRESHOLD_STEPS = (-0.05, 0.0, 0.05, 0.1, 0.15, 0.2)


class LiveEngine:
    """A network in memory as an engine, see `treeformer.inference.engine.Engine`.

    `prepare` is called with the images before the network, to set stored features.
    """

    def __init__(
        self,
        model: TreeFormer,
        folder: ModelFolder,
        prepare: Callable[[ImageArray], None] | None = None,
        device: str = "cpu",
    ) -> None:
        self.name, self.device, self.preferred_batch = f"torch {device}", device, 1
        self.input_size = folder.config.input_size
        self.model, self.prepare = model, prepare
        self._network = InferenceModel(model, folder.config.candidate_threshold, folder.config.min_peak_heat)

    @torch.no_grad()
    def __call__(self, images: ImageArray) -> RawPrediction:
        """Predict images, (B,S,S,3) RGB."""
        if self.prepare is not None:
            self.prepare(images)
        was_training = self.model.training
        self.model.eval()
        candidates = self._network(torch.from_numpy(np.ascontiguousarray(images)).to(self.device))
        self.model.train(was_training)
        return RawPrediction(*(part.float().cpu().numpy() for part in candidates))


class RememberingEngine:
    """An engine that computes every input once, so that several thresholds cost one run of the network."""

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


def folder_predictor(folder: ModelFolder) -> Predictor:
    """Return the predictor of a model folder, as a user would run it."""
    return Predictor(folder, engine=ENGINE)


def predict_images(
    predictor: Predictor, images: Sequence[AnnotatedImage], after_each: Callable[[], None] = lambda: None
) -> list[Skeleton]:
    """Predict annotated images. An error of `after_each` ends the prediction."""
    predictions = []
    for image in images:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an image without a predicted plant scores 0
            predictions.append(predictor.predict(open_image(image.path)))
        after_each()
    return predictions


def score(predictions: Sequence[Skeleton], images: Sequence[AnnotatedImage]) -> dict[str, float]:
    """Compare predictions with the ground truth.

    Returns the mean corrected TOPO precision and recall, `topo_f1`, their harmonic mean, and `length_error`, the error
    of the total length of all images as a fraction.
    """
    scores = [topo(predicted, image.skeleton) for predicted, image in zip(predictions, images, strict=True)]
    precision, recall = (float(np.mean([getattr(one, name) for one in scores])) for name in ("precision", "recall"))
    true = sum(float(image.skeleton.edge_length.sum()) for image in images)
    found = sum(float(predicted.edge_length.sum()) for predicted in predictions)
    both = precision + recall
    return {
        "topo_f1": 2 * precision * recall / both if both else 0.0,
        "topo_precision": precision,
        "topo_recall": recall,
        "length_error": found / true - 1 if true else float("nan"),
    }


def mean_of_groups(values: Sequence[float] | FloatArray, groups: Sequence[int]) -> tuple[float, float]:
    """Return the mean of values, and its standard error, if the values of a group count as one.

    Views of the same annotation are a group. The error of a single group is infinite.
    """
    members: dict[int, list[float]] = {}
    for value, group in zip(values, groups, strict=True):
        members.setdefault(group, []).append(float(value))
    means = [float(np.mean(each)) for each in members.values()]
    error = float(np.std(means, ddof=1)) / math.sqrt(len(means)) if len(means) > 1 else math.inf
    return float(np.mean(means)), error


def calibrate_edges(engine: Engine, folder: ModelFolder, images: Sequence[AnnotatedImage]) -> EdgeCalibration | None:
    """Fit the calibration of edge scores on validation images. None if they have too few edges, or wrong ones."""
    plain = ModelFolder(folder.path, replace(folder.config, edge_calibration=None), folder.hashes)
    edge_score: list[FloatArray] = []
    node_score: list[FloatArray] = []
    is_correct: list[BoolArray] = []
    for image, predicted in zip(images, predict_images(Predictor(plain, engine=engine), images), strict=True):
        if not len(predicted.edges) or predicted.edge_score is None or predicted.node_score is None:
            continue
        edge_score.append(predicted.edge_score)
        node_score.append(predicted.node_score[predicted.edges].min(axis=1))
        is_correct.append(correct_edges(predicted, image.skeleton))
    if not edge_score:
        return None
    edges, nodes, correct = np.concatenate(edge_score), np.concatenate(node_score), np.concatenate(is_correct)
    if len(correct) < MIN_CALIBRATION_EDGES or (~correct).sum() < MIN_WRONG_EDGES:
        return None
    try:
        intercept, below, above, node = fit_calibration(edges, nodes, correct)
    except TreeformerError:
        return None
    return round(intercept, 4), round(below, 4), round(above, 4), round(node, 4)


def make_views(images: Sequence[AnnotatedImage], folder: Path) -> list[AnnotatedImage]:
    """Write the views of images: as they are, mirrored, and both as a shifted window. Pairs that exist are kept."""
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
    """Find the node threshold with the highest F1, and the figures with it. The start model's wins ties."""
    start = folder.config.node_threshold
    figures = {
        threshold: score(trees, images) for threshold, trees in _at_thresholds(engine, folder, images, after_each)
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
    """
    start = folder.config.node_threshold
    f1 = {
        threshold: np.array([topo(tree, image.skeleton).f1 for tree, image in zip(trees, images, strict=True)])
        for threshold, trees in _at_thresholds(engine, folder, images, after_each)
    }
    best = max(f1, key=lambda threshold: mean_of_groups(f1[threshold], groups)[0])
    for threshold in sorted(f1, key=lambda threshold: abs(threshold - start)):
        lost, error = mean_of_groups(f1[best] - f1[threshold], groups)
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
        yield threshold, predict_images(Predictor(changed, engine=remembering), images, after_each)
