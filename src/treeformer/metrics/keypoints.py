"""Keypoints: how many tips, branch points and bases of plants are found, and how many are invented.

The definitions are those of the traits `tip_count` and `branch_point_count`:

- *base*: where a plant begins. The root that the skeleton states for a component, otherwise its node of lowest index.
- *tip*: a node of degree 1 that is not a base. An end on the frame of the image is a tip like any other, because a
  skeleton does not say whether the plant ends there; `margin_px` leaves such ends out.
- *branch point*: a node of degree 3 or more. A base from which three roots grow is a base and a branch point.

A plant of a single node has a base and no tip.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treeformer._util.arrays import BoolArray, IntArray
from treeformer.errors import SkeletonError
from treeformer.metrics._inputs import GraphLike, length_px, pair
from treeformer.metrics.structure import MATCH_RADIUS, match_nodes
from treeformer.skeleton import Skeleton

KINDS = ("tip", "branch_point", "base")


@dataclass(frozen=True, slots=True)
class Counts:
    """How many points of one kind are matched. Counts of several images may be added.

    Precision and recall are 1.0 if neither side has any point, and 0.0 if only one has.

    Attributes:
        matched: pairs of a predicted and a true point within the tolerance.
        predicted: points of the prediction.
        true: points of the ground truth.

    Example:
        >>> both = Counts(matched=3, predicted=4, true=3) + Counts(matched=0, predicted=0, true=3)
        >>> both.precision, both.recall
        (0.75, 0.5)
    """

    matched: int
    predicted: int
    true: int

    @property
    def precision(self) -> float:
        """Fraction of the predicted points that are true."""
        return self.matched / self.predicted if self.predicted else float(not self.true)

    @property
    def recall(self) -> float:
        """Fraction of the true points that are predicted."""
        return self.matched / self.true if self.true else float(not self.predicted)

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        total = self.predicted + self.true
        return 2 * self.matched / total if total else 1.0

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.matched + other.matched, self.predicted + other.predicted, self.true + other.true)


@dataclass(frozen=True, slots=True)
class Keypoints:
    """The matched tips, branch points and bases of two graphs of one image.

    Attributes:
        tip: counts of tips.
        branch_point: counts of branch points.
        base: counts of bases.
    """

    tip: Counts
    branch_point: Counts
    base: Counts


def keypoint_nodes(skeleton: Skeleton) -> dict[str, IntArray]:
    """Return the indices of the tips, branch points and bases of a skeleton.

    Args:
        skeleton: any skeleton, with or without cycles.

    Returns:
        Ascending node indices by kind: `tip`, `branch_point` and `base`.

    Example:
        >>> nodes = keypoint_nodes(Skeleton([(5, 9), (5, 5), (2, 1), (8, 1)], [(0, 1), (1, 2), (1, 3)], root=0))
        >>> {kind: found.tolist() for kind, found in nodes.items()}
        {'tip': [2, 3], 'branch_point': [1], 'base': [0]}
    """
    base = np.sort(skeleton.component_root)
    return {
        "tip": np.setdiff1d(np.flatnonzero(skeleton.degree == 1), base),
        "branch_point": np.flatnonzero(skeleton.degree >= 3),
        "base": base,
    }


def keypoints(
    prediction: GraphLike,
    ground_truth: GraphLike,
    *,
    radius_px: float | None = None,
    margin_px: float = 0.0,
    image_size: tuple[int, int] | None = None,
) -> Keypoints:
    """Match the tips, branch points and bases of two graphs one to one, each kind among itself.

    The matching has as many pairs as possible and, among all such matchings, the least total distance.

    Args:
        prediction: a Skeleton, or arrays (nodes, edges) with nodes in px.
        ground_truth: the same for the ground truth.
        radius_px: maximum distance of matched points, px; 8/512 of the image's longer side by default.
        margin_px: leave out the tips nearer than this to the frame of the image, with the tips that they are matched
            with, px: there the image ends, not the plant.
        image_size: (width, height) px; required if neither graph is a Skeleton with an image size.

    Returns:
        The counts by kind.

    Raises:
        SkeletonError: if a graph is invalid, the image size is missing or ambiguous, `radius_px` is not positive, or
            `margin_px` is negative.

    Example:
        >>> true = Skeleton([(5, 9), (5, 5), (2, 1), (8, 1)], [(0, 1), (1, 2), (1, 3)], root=0, image_size=(512, 512))
        >>> found = Skeleton([(5, 9), (5, 5), (2, 1)], [(0, 1), (1, 2)], root=0, image_size=(512, 512))
        >>> keypoints(found, true, radius_px=2).tip
        Counts(matched=1, predicted=1, true=2)
    """
    predicted, true, size = pair(prediction, ground_truth, image_size)
    radius = length_px(radius_px, MATCH_RADIUS, size, "radius_px")
    if not margin_px >= 0:
        raise SkeletonError(f"margin_px must be 0 or a positive number of pixels, not {margin_px}")
    counts, true_nodes = {}, keypoint_nodes(true)
    for kind, chosen in keypoint_nodes(predicted).items():
        points, true_points = predicted.nodes[chosen], true.nodes[true_nodes[kind]]
        partner = match_nodes(points, true_points, radius)
        is_matched, has_partner = partner >= 0, np.zeros(len(true_points), dtype=bool)
        has_partner[partner[is_matched]] = True
        cut, true_cut = (_is_near_frame(of, size, margin_px if kind == "tip" else 0.0) for of in (points, true_points))
        either = cut[is_matched] | true_cut[partner[is_matched]]
        matched = len(either) - int(either.sum())
        extra, missed = int((~is_matched & ~cut).sum()), int((~has_partner & ~true_cut).sum())
        counts[kind] = Counts(matched, matched + extra, matched + missed)
    return Keypoints(**counts)


def _is_near_frame(points: np.ndarray, image_size: tuple[int, int], margin_px: float) -> BoolArray:
    """Return (K,) True for points outside the image or nearer than the margin to its frame, if there is a margin."""
    near: BoolArray = (np.minimum(points, np.asarray(image_size) - points) < margin_px).any(axis=1)
    return near & (margin_px > 0)
