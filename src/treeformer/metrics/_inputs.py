"""The input and output types that the metrics share: two graphs of one image, and scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from treeformer._util.arrays import FloatArray
from treeformer._util.text import short_repr
from treeformer.errors import SkeletonError
from treeformer.skeleton import Skeleton
from treeformer.skeleton.validation import image_size_pair

GraphLike = Skeleton | tuple[ArrayLike, ArrayLike]
"""A Skeleton, or its arrays (nodes, edges): (N,2) coordinates in px and (E,2) node indices."""

UNITS_PER_SIDE = 512
"""Units per longer side of an image. Default lengths are in units, which are pixels on the paper's 512×512 images."""

MARGIN_SIDES = 1.0
"""How far outside the image nodes may lie, in widths (x) and heights (y). The metrics of length move nodes farther out
to this distance: one outlier, or a skeleton in the wrong unit, then has a bad but finite score."""


@dataclass(frozen=True, slots=True)
class Scores:
    """Precision and recall, with their harmonic mean.

    Attributes:
        precision: 0 to 1.
        recall: 0 to 1.

    Example:
        >>> Scores(precision=0.5, recall=1.0).f1
        0.6666666666666666
    """

    precision: float
    recall: float

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; 0 if both are 0."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total > 0 else 0.0


def pair(
    prediction: GraphLike, ground_truth: GraphLike, image_size: tuple[int, int] | None
) -> tuple[Skeleton, Skeleton, tuple[int, int]]:
    """Convert both graphs of an image to skeletons and determine its size: (width, height) px.

    The size is required if neither graph has one. Sizes that differ are an error.
    """
    size = image_size_pair(image_size)
    for name, graph in (("prediction", prediction), ("ground truth", ground_truth)):
        if not isinstance(graph, Skeleton) or graph.image_size is None:
            continue
        if size is None:
            size = graph.image_size
        elif size != graph.image_size:
            other = "image_size" if image_size is not None else "the prediction"
            raise SkeletonError(
                f"the {name} belongs to an image of {_times(graph.image_size)} pixels, {other} says {_times(size)}"
            )
    if size is None:
        raise SkeletonError("no image size: pass skeletons that have one, or image_size=(width, height)")
    return _skeleton(prediction, "prediction"), _skeleton(ground_truth, "ground truth"), size


def limit_to_surroundings(nodes: FloatArray, image_size: tuple[int, int]) -> FloatArray:
    """Move nodes (N,2) px far outside the image nearer: x to between -1 and 2 widths, y to between -1 and 2 heights.

    The size of the image is (width, height) px. Nodes within `MARGIN_SIDES` of the image are unchanged.

    Example:
        >>> limit_to_surroundings(np.array([[150.0, 1e300], [-90.0, -9e9]]), (100, 80)).tolist()
        [[150.0, 160.0], [-90.0, -80.0]]
    """
    sides = np.asarray(image_size, dtype=np.float64)
    limited: FloatArray = np.clip(nodes, -MARGIN_SIDES * sides, (1 + MARGIN_SIDES) * sides)
    return limited


def unit_px(image_size: tuple[int, int]) -> float:
    """Return the length of one unit in px, for an image of (width, height) px."""
    return max(image_size) / UNITS_PER_SIDE


def length_px(value: float | None, default_units: float, image_size: tuple[int, int], name: str) -> float:
    """Return a length parameter in px: `value`, which must be positive, or the default in units if it is None.

    The size of the image is (width, height) px. Errors contain the parameter's name.
    """
    if value is None:
        return default_units * unit_px(image_size)
    if not isinstance(value, int | float | np.number) or not (np.isfinite(value) and value > 0):
        raise SkeletonError(f"{name} must be a positive number of pixels, not {short_repr(value)}")
    return float(value)


def _skeleton(graph: GraphLike, name: str) -> Skeleton:
    if isinstance(graph, Skeleton):
        return graph
    try:
        nodes, edges = graph
    except (TypeError, ValueError):
        raise SkeletonError(f"the {name} must be a Skeleton or a pair of arrays (nodes, edges)") from None
    try:
        return Skeleton(nodes, edges)
    except SkeletonError as error:
        raise SkeletonError(f"the {name}: {error}") from None


def _times(size: tuple[int, int]) -> str:
    return f"{size[0]}×{size[1]}"
