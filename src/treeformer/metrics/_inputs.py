"""What every metric takes: two skeletons of one image, or their arrays; and the scores that some of them give."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from treeformer.errors import SkeletonError
from treeformer.skeleton import Skeleton
from treeformer.skeleton.validation import image_size_pair

GraphLike = Skeleton | tuple[ArrayLike, ArrayLike]
"""A Skeleton, or its arrays (nodes, edges): (N,2) coordinates in pixels and (E,2) node indices."""

UNITS_PER_SIDE = 512
"""The paper's images measure 512×512; every default length below is given in 1/512 of the longer side, the unit."""


@dataclass(frozen=True, slots=True)
class Scores:
    """Precision and recall, 0 to 1, and their harmonic mean.

    >>> Scores(precision=0.5, recall=1.0).f1
    0.6666666666666666
    """

    precision: float
    recall: float

    @property
    def f1(self) -> float:
        """The harmonic mean of both, 0 where both are 0."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total > 0 else 0.0


def pair(
    prediction: GraphLike, ground_truth: GraphLike, image_size: tuple[int, int] | None
) -> tuple[Skeleton, Skeleton, tuple[int, int]]:
    """Both graphs as skeletons, and the size of the image they share; one clear error where there is no such size."""
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
        raise SkeletonError("no image size: give skeletons that have one, or image_size=(width, height)")
    return _skeleton(prediction, "prediction"), _skeleton(ground_truth, "ground truth"), size


def unit_px(image_size: tuple[int, int]) -> float:
    """How many pixels the unit is long."""
    return max(image_size) / UNITS_PER_SIDE


def length_px(value: float | None, default_units: float, image_size: tuple[int, int], name: str) -> float:
    """A length in pixels: as given, else the default, which is in units."""
    if value is None:
        return default_units * unit_px(image_size)
    if not (np.isfinite(value) and value > 0):
        raise SkeletonError(f"{name} must be a positive number of pixels, not {value}")
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
