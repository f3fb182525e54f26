"""Measure a network in memory as `treeformer predict` would use it: working size, tiles, decoding, thresholds."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch

from treeformer._util.arrays import BoolArray, FloatArray, ImageArray
from treeformer._util.images import open_image
from treeformer.decoding.calibration import EdgeCalibration, fit_calibration
from treeformer.errors import TreeformerError
from treeformer.finetuning.annotated import AnnotatedImage
from treeformer.finetuning.features import FeatureStore, TopOfBackbone
from treeformer.hub.model_folder import ModelFolder
from treeformer.inference.engine import Engine, RawPrediction
from treeformer.inference.predictor import Predictor
from treeformer.metrics import correct_edges, topo
from treeformer.models.inference_model import InferenceModel
from treeformer.models.treeformer import TreeFormer
from treeformer.skeleton import Skeleton

# Calibration needs this many edges of validation images, and this many wrong ones among them.
MIN_CALIBRATION_EDGES = 100
MIN_WRONG_EDGES = 10


class LiveEngine:
    """A network in memory as an engine, see `treeformer.inference.engine.Engine`.

    Args:
        model: the network.
        folder: the model folder it comes from: input size and thresholds.
        store: stored features, if the network's backbone is separated. None runs the whole network.
        device: torch device of the network.

    Attributes:
        name: the engine and its device.
        device: the torch device.
        preferred_batch: images per call.
        input_size: side of the square input images, px.
    """

    def __init__(
        self, model: TreeFormer, folder: ModelFolder, store: FeatureStore | None = None, device: str = "cpu"
    ) -> None:
        self.name, self.device, self.preferred_batch = f"torch {device}", device, 1
        self.input_size = folder.config.input_size
        self.model, self.store = model, store
        self._network = InferenceModel(model, folder.config.candidate_threshold, folder.config.min_peak_heat)

    @torch.no_grad()
    def __call__(self, images: ImageArray) -> RawPrediction:
        """Predict images, (B,S,S,3) RGB. B is 1 if features are stored."""
        if self.store is not None:
            assert isinstance(self.model.backbone, TopOfBackbone)
            stages = [self.store.get_by_content(image) for image in images]
            self.model.backbone.stored = [torch.cat(parts) for parts in zip(*stages, strict=True)]
        was_training = self.model.training
        self.model.eval()
        candidates = self._network(torch.from_numpy(np.ascontiguousarray(images)).to(self.device))
        self.model.train(was_training)
        return RawPrediction(*(part.float().cpu().numpy() for part in candidates))


def predict_images(
    predictor: Predictor, images: Sequence[AnnotatedImage], after_each: Callable[[], None] = lambda: None
) -> list[Skeleton]:
    """Predict annotated images.

    Args:
        predictor: the model.
        images: the images.
        after_each: called after each image. An error that it raises ends the prediction.

    Returns:
        One skeleton per image, px of the image.
    """
    predictions = []
    for image in images:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an image without a predicted plant scores 0
            predictions.append(predictor.predict(open_image(image.path)))
        after_each()
    return predictions


def score(predictions: Sequence[Skeleton], images: Sequence[AnnotatedImage]) -> dict[str, float]:
    """Compare predictions with the ground truth.

    Args:
        predictions: one skeleton per image.
        images: the images.

    Returns:
        Corrected TOPO: mean `topo_precision`, mean `topo_recall`, and `topo_f1`, their harmonic mean. `length_error` is
        the error of the total length of all images, as a fraction.
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

    Args:
        values: one number per image.
        groups: a number per image. Views of the same annotation have the same one.

    Returns:
        The mean of the groups' means, and its standard error, infinite for one group.
    """
    members: dict[int, list[float]] = {}
    for value, group in zip(values, groups, strict=True):
        members.setdefault(group, []).append(float(value))
    means = [float(np.mean(each)) for each in members.values()]
    error = float(np.std(means, ddof=1)) / math.sqrt(len(means)) if len(means) > 1 else math.inf
    return float(np.mean(means)), error


def calibrate_edges(engine: Engine, folder: ModelFolder, images: Sequence[AnnotatedImage]) -> EdgeCalibration | None:
    """Fit the calibration of edge scores on images that the network was not trained on.

    Args:
        engine: the trained network.
        folder: the model folder: sizes and thresholds.
        images: the validation images.

    Returns:
        The coefficients. None if the images have too few edges, or too few wrong ones.
    """
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
