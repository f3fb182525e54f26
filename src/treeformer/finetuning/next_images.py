"""Which image to annotate next: the one from which the model is expected to learn most.

The expected gain of an image is the product of two numbers. The uncertainty is the expected number of wrong edges of
its prediction, the sum of 1 - score over all edges, with calibrated scores. The novelty is the distance of the image's
appearance from the nearest image that is annotated or ranked before it. Images are ranked one after the other, so that
the first of them together are both uncertain and different.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from treeformer import formats
from treeformer._util.arrays import FloatArray
from treeformer._util.images import open_image
from treeformer._util.progress import ProgressCallback, no_progress
from treeformer.data.folder_dataset import fit_to_image
from treeformer.errors import TreeformerError
from treeformer.finetuning.annotated import find_skeletons, reason
from treeformer.inference.predictor import Predictor
from treeformer.results.item import Origin, origin_of
from treeformer.skeleton import Skeleton

# Cells along each side of the grid in which colors are averaged, and the size of the thumbnail they are taken from.
GRID = 4
THUMBNAIL_PX = 64
ORIENTATIONS = 8


@dataclass(frozen=True)
class RankedImage:
    """An image without corrections.

    Attributes:
        path: the image file.
        gain: expected gain relative to the other images: uncertainty times novelty.
        uncertainty: expected number of wrong edges of the prediction.
        novelty: distance to the nearest image that is annotated or ranked before, in standard deviations of the
            features. 1 if there is no such image.
    """

    path: Path
    gain: float
    uncertainty: float
    novelty: float


def rank_folder(
    folder: str | os.PathLike[str],
    *,
    model: str | os.PathLike[str] = "default",
    progress: ProgressCallback = no_progress,
) -> tuple[list[RankedImage], list[str]]:
    """Rank the images of a folder that have no corrected skeleton.

    Predictions with scores that lie beside the images are used. Other images are predicted.

    Args:
        folder: images with or without skeletons, or a folder of results.
        model: the model that predicts: "default", "small", a model folder, or a name on the Hugging Face hub.
        progress: called with the number of examined images and the total.

    Returns:
        The images, the one to annotate first at the beginning; and one line per image that cannot be used.

    Raises:
        TreeformerError: if the folder does not exist, is incomplete, or has no image.
    """
    root = Path(folder)
    if not root.is_dir():
        raise TreeformerError(f"{root}: no such folder")
    predictor: Predictor | None = None
    annotated: list[FloatArray] = []
    candidates: list[tuple[Path, FloatArray, float]] = []
    failures = []
    pairs = find_skeletons(root)
    for number, (path, skeleton_file) in enumerate(pairs):
        try:
            image = open_image(path)
            skeleton = None if skeleton_file is None else formats.read(skeleton_file)
            if skeleton is not None and skeleton_file is not None and origin_of(skeleton) is not Origin.prediction:
                fit_to_image(skeleton, image.size, skeleton_file, path.name)  # an error if training cannot use it
                annotated.append(image_features(image))
            else:
                if skeleton is None or skeleton.edge_score is None:
                    predictor = predictor or Predictor(model)
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")  # an image without a predicted plant is ranked as well
                        skeleton = predictor.predict(image)
                candidates.append((path, image_features(image), uncertainty(skeleton)))
        except TreeformerError as error:
            failures.append(reason(error, path, skeleton_file, root))
        progress(number + 1, len(pairs))
    order = rank([one[1] for one in candidates], [one[2] for one in candidates], annotated)
    ranked = [RankedImage(candidates[i][0], gain, candidates[i][2], novelty) for i, gain, novelty in order]
    return ranked, failures


def rank(
    features: Sequence[FloatArray], uncertainties: Sequence[float], annotated: Sequence[FloatArray] = ()
) -> list[tuple[int, float, float]]:
    """Rank images by expected gain, one after the other.

    Example:
        >>> points = [np.array([0.0]), np.array([0.1]), np.array([5.0])]
        >>> [index for index, _, _ in rank(points, [3.0, 2.9, 1.0])]
        [0, 2, 1]
    """
    if not features:
        return []
    doubt = np.asarray(uncertainties, dtype=np.float64)
    known = doubt[np.isfinite(doubt)]
    doubt = np.where(np.isfinite(doubt), doubt, np.median(known) if len(known) else 1.0)
    table = np.stack([*features, *annotated])
    spread = table.std(axis=0)
    table = (table - table.mean(axis=0)) / np.where(spread > 0, spread, 1.0) / np.sqrt(table.shape[1])
    own, others = table[: len(features)], table[len(features) :]
    novelty = np.ones(len(own))
    if len(others):
        novelty = np.sqrt(((own[:, None] - others) ** 2).sum(axis=2)).min(axis=1)
    is_first = not len(others)
    left = list(range(len(own)))
    result = []
    while left:
        gains = doubt[left] * novelty[left]
        best = left[int(np.argmax(gains))]
        result.append((best, float(gains.max()), float(novelty[best])))
        left.remove(best)
        distance = np.sqrt(((own - own[best]) ** 2).sum(axis=1))
        novelty = distance if is_first else np.minimum(novelty, distance)
        is_first = False
    return result


def uncertainty(skeleton: Skeleton) -> float:
    """Return the expected number of wrong edges of a prediction; NaN if it is empty or has no scores.

    Example:
        >>> uncertainty(Skeleton([(0, 0), (3, 4), (6, 8)], [(0, 1), (1, 2)], edge_score=[0.75, 0.5]))
        0.75
    """
    if skeleton.edge_score is None or not len(skeleton.edges):
        return float("nan")
    return float((1 - skeleton.edge_score).sum())


def image_features(image: Image.Image) -> FloatArray:
    """Return (104,): mean and deviation of each color in 4×4 cells, and the strength of edges in 8 directions."""
    thumbnail = image.convert("RGB").resize((THUMBNAIL_PX, THUMBNAIL_PX), Image.Resampling.BOX)
    pixels = np.asarray(thumbnail, dtype=np.float64) / 255
    side = THUMBNAIL_PX // GRID
    cells = pixels.reshape(GRID, side, GRID, side, 3)
    down, across = np.gradient(pixels.mean(axis=2))
    direction = (np.arctan2(down, across) % np.pi / np.pi * ORIENTATIONS).astype(np.intp) % ORIENTATIONS
    strength = np.bincount(direction.ravel(), np.hypot(down, across).ravel(), ORIENTATIONS) / THUMBNAIL_PX
    return np.concatenate([cells.mean(axis=(1, 3)).ravel(), cells.std(axis=(1, 3)).ravel(), strength])
