"""TOPO with its defects corrected: compare walks that start at the same place in both graphs.

From starts on one graph, walk both graphs and measure how much of the first walk is covered by the second. Recall uses
starts on the ground truth, precision uses starts on the prediction: the same measure with the roles exchanged.
docs/metrics.md lists the differences from the paper's code and the reasons for them.

Nodes farther outside the image than its width (x) or height (y) count as if they lay at that distance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from treeformer._util.arrays import BoolArray, FloatArray, IntArray
from treeformer._util.geometry import project_onto_segments
from treeformer.metrics._curves import Curves
from treeformer.metrics._inputs import GraphLike, Scores, length_px, limit_to_surroundings, pair

if TYPE_CHECKING:
    from scipy.sparse import csr_array

# The paper's constants, converted from degrees of latitude to units (1/512 of the image's longer side).
UNITS_PER_DEGREE = 111_111.0
START_SPACING = 0.0005 * UNITS_PER_DEGREE  # 55.6
PAIR_RADIUS = 0.0001 * UNITS_PER_DEGREE  # 11.1
PAIR_ANGLE = 0.04  # 1 - |cos|: 16°
STEP = 0.00005 * UNITS_PER_DEGREE  # 5.56
REACH = 0.0015 * UNITS_PER_DEGREE  # 166.7
MATCH_RADIUS = 0.0001 * UNITS_PER_DEGREE  # 11.1
MATCH_ANGLE = 0.29  # 1 - |cos|: 45°
# Directions are those of chords that extend this far to both sides: single edges may be shorter than position noise.
WINDOW = MATCH_RADIUS
# Lengths that differ by less than this, in units, count as equal.
EQUAL = 1e-6

# Maximum number of entries of a temporary table.
TABLE_SIZE = 4_000_000


def topo(
    prediction: GraphLike,
    ground_truth: GraphLike,
    *,
    image_size: tuple[int, int] | None = None,
    unit_px: float | None = None,
) -> Scores:
    """Compute precision and recall of the predicted topology.

    Exchanging the arguments exchanges precision and recall. Identical graphs score 1.0. Both scores are 1.0 if neither
    graph has length, and 0.0 if only one has.

    Args:
        prediction: a Skeleton, or arrays (nodes, edges) with nodes in px.
        ground_truth: the same for the ground truth.
        image_size: (width, height) px; required if neither graph is a Skeleton with an image size.
        unit_px: length of the unit, px; 1/512 of the image's longer side by default. With 1.0 the constants are pixels.

    Returns:
        Precision and recall; `f1` is their harmonic mean.

    Raises:
        SkeletonError: if a graph is invalid, the image size is missing or ambiguous, or `unit_px` is not positive.

    Example:
        >>> line = [(0, 256), (512, 256)], [(0, 1)]
        >>> half = [(0, 256), (256, 256)], [(0, 1)]
        >>> scores = topo(half, line, image_size=(512, 512))
        >>> scores.recall < scores.precision
        True
    """
    first, second, size = pair(prediction, ground_truth, image_size)
    unit = length_px(unit_px, 1.0, size, "unit_px")
    predicted, true = (
        _SampledCurves.from_curves(Curves.from_graph(limit_to_surroundings(graph.nodes, size) / unit, graph.edges))
        for graph in (first, second)
    )
    has_length = [len(graph.curves) > 0 for graph in (predicted, true)]
    if not all(has_length):
        return Scores(0.0, 0.0) if any(has_length) else Scores(1.0, 1.0)
    near = _near_samples(predicted, true)
    return Scores(precision=_covered(predicted, true, near), recall=_covered(true, predicted, near.T.tocsr()))


@dataclass(frozen=True)
class _SampledCurves:
    """Curves with M samples about one step apart. All lengths are in units."""

    curves: Curves
    branch: IntArray  # (M,) branch of each sample
    distance: FloatArray  # (M,) distance of each sample along its branch
    place: FloatArray  # (M,2) coordinates
    direction: FloatArray  # (M,2) unit vectors along the curve
    weight: FloatArray  # (M,) length of curve that each sample represents

    @classmethod
    def from_curves(cls, curves: Curves) -> _SampledCurves:
        count = np.maximum(np.floor(curves.length / STEP + 0.5), 1).astype(np.intp)
        branch, rank = _ranked(count)
        weight = (curves.length / count)[branch]
        distance = (rank + 0.5) * weight
        direction = curves.direction(branch, distance, WINDOW)
        return cls(curves, branch, distance, curves.at(branch, distance), direction, weight)

    def starts(self) -> tuple[IntArray, FloatArray]:
        """Return (S,) branch and (S,) distance along it of the starts of walks; every branch has at least one."""
        count = np.maximum(np.floor(self.curves.length / START_SPACING + EQUAL), 1).astype(np.intp)
        branch, rank = _ranked(count)
        return branch, (rank + 1) * (self.curves.length / (count + 1))[branch]

    def reached(self, branch: IntArray, distance: FloatArray) -> BoolArray:
        """Return (S,M) which samples are within reach of each start, by path length along the curves."""
        ends, length = self.curves.ends, self.curves.length
        sources, row = np.unique(ends[branch], return_inverse=True)
        row = row.reshape(-1, 2)
        paths = self.curves.paths(sources, REACH + EQUAL)
        to_node = np.minimum(
            paths[row[:, 0]] + distance[:, None], paths[row[:, 1]] + (length[branch] - distance)[:, None]
        )
        path = np.minimum(
            to_node[:, ends[self.branch, 0]] + self.distance,
            to_node[:, ends[self.branch, 1]] + (length[self.branch] - self.distance),
        )
        reached: BoolArray = path <= REACH + EQUAL
        # On the starting branch itself, the path need not pass through an end node.
        direct = np.abs(self.distance - distance[:, None]) <= REACH + EQUAL
        reached |= (self.branch == branch[:, None]) & direct
        return reached


def _ranked(count: IntArray) -> tuple[IntArray, IntArray]:
    """Repeat index k count[k] times, and return these indices with the rank of each among its equals."""
    owner = np.repeat(np.arange(len(count)), count)
    return owner, np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count)


def _near_samples(first: _SampledCurves, second: _SampledCurves) -> csr_array:
    """Return a sparse (M1,M2) matrix with 1 for pairs of samples that are close and have similar directions."""
    from scipy.sparse import csr_array
    from scipy.spatial import cKDTree

    near = cKDTree(first.place).sparse_distance_matrix(cKDTree(second.place), MATCH_RADIUS, output_type="ndarray")
    row, column = near["i"], near["j"]
    similar = _angle(first.direction[row], second.direction[column]) < MATCH_ANGLE
    row, column = row[similar], column[similar]
    ones = np.ones(len(row), dtype=np.float32)
    return csr_array((ones, (row, column)), shape=(len(first.place), len(second.place)))


def _angle(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return 1 - |cos| of the angle between directions; 0 if they are parallel."""
    angle: FloatArray = 1 - np.abs((a * b).sum(axis=-1))
    return angle


def _covered(graph: _SampledCurves, other: _SampledCurves, near: csr_array) -> float:
    """Return the fraction of the walks on `graph` that the walks on `other` cover, averaged over all starts on `graph`.

    The covered length is that of the first walk close to the second, but at most that of the second walk close to the
    first. So one branch does not cover two. A start without a counterpart counts as 0.
    """
    branch, distance = graph.starts()
    start, other_branch, other_distance = _counterparts(graph, branch, distance, other)
    fraction = np.zeros(len(branch))
    block_size = max(1, TABLE_SIZE // max(len(graph.place), len(other.place)))
    for low in range(0, len(start), block_size):
        block = slice(low, low + block_size)
        reached = graph.reached(branch[start[block]], distance[start[block]])
        other_reached = other.reached(other_branch[block], other_distance[block])
        covered = (reached & _near_reached(near, other_reached)) @ graph.weight
        covered = np.minimum(covered, (other_reached & _near_reached(near.T.tocsr(), reached)) @ other.weight)
        # Round, because the same lengths summed in another order may give slightly less than the whole.
        np.maximum.at(fraction, start[block], np.round(covered / (reached @ graph.weight), 12))
    return float(fraction.mean())


def _near_reached(near: csr_array, reached: BoolArray) -> BoolArray:
    """Return (S,M1) which samples are close to a reached sample of the other graph; reached is (S,M2)."""
    result: BoolArray = (near @ np.ascontiguousarray(reached.T, dtype=np.float32)).T > 0
    return result


def _counterparts(
    graph: _SampledCurves, branch: IntArray, distance: FloatArray, other: _SampledCurves
) -> tuple[IntArray, IntArray, FloatArray]:
    """Return where on the other graph the walk of each start begins: (start, branch, distance along it).

    The counterpart is the nearest place within the radius with a similar direction. If several places are equally near,
    all are returned: where curves cross or coincide, only the walks can decide between them.
    """
    place = graph.curves.at(branch, distance)
    direction = graph.curves.direction(branch, distance, WINDOW)
    curves = other.curves
    segment = curves.segments
    tail, head = curves.points[segment], curves.points[segment + 1]
    blocks = []
    block_size = max(1, TABLE_SIZE // (4 * len(segment)))
    for low in range(0, len(branch), block_size):
        t, gap = project_onto_segments(place[low : low + block_size, None], tail, head)
        start, which = np.nonzero(gap < PAIR_RADIUS)
        blocks.append((start + low, which, t[start, which], gap[start, which]))
    start, which, t, gap = (np.concatenate(column) for column in zip(*blocks, strict=True))
    other_branch = curves.branch_of_point[segment[which]]
    before_segment = curves.arc[segment[which]] - curves.arc[curves.first[other_branch]]
    at = before_segment + t * (curves.arc[segment[which] + 1] - curves.arc[segment[which]])
    similar = _angle(direction[start], curves.direction(other_branch, at, WINDOW)) < PAIR_ANGLE
    start, other_branch, at, gap = start[similar], other_branch[similar], at[similar], gap[similar]
    nearest = np.full(len(branch), np.inf)
    np.minimum.at(nearest, start, gap)
    best = gap <= nearest[start] + EQUAL
    start, other_branch, at = start[best], other_branch[best], at[best]
    # The end of one segment is the beginning of the next; keep one of the two.
    once = np.unique(np.stack([start, other_branch, np.round(at / EQUAL)], axis=1), axis=0, return_index=True)[1]
    return start[once], other_branch[once], at[once]
