"""TOPO with its defects corrected: do walks from the same place in both graphs meet the same curves?

From starts on one graph, walk both graphs and count how much of the walk on the one is found again on the other.
Recall starts on the ground truth, precision on the prediction: the same measure with the roles exchanged.
What differs from the paper's code, and why, is told in docs/metrics.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from treeformer._util.arrays import BoolArray, FloatArray, IntArray
from treeformer.metrics._curves import Curves
from treeformer.metrics._inputs import GraphLike, Scores, length_px, pair

if TYPE_CHECKING:
    from scipy.sparse import csr_array

# The paper's constants, in units (1/512 of the image's longer side): its code has them in degrees of latitude.
UNITS_PER_DEGREE = 111_111.0
START_SPACING = 0.0005 * UNITS_PER_DEGREE  # 55.6
PAIR_RADIUS = 0.0001 * UNITS_PER_DEGREE  # 11.1
PAIR_ANGLE = 0.04  # 1 - |cos|: 16°
STEP = 0.00005 * UNITS_PER_DEGREE  # 5.56
REACH = 0.0015 * UNITS_PER_DEGREE  # 166.7
MATCH_RADIUS = 0.0001 * UNITS_PER_DEGREE  # 11.1
MATCH_ANGLE = 0.29  # 1 - |cos|: 45°
# Directions are chords of the curve this far to both sides: single edges may be as short as the noise of their ends.
WINDOW = MATCH_RADIUS
# Lengths that differ by less, in units, are equal.
EQUAL = 1e-6

# Entries of the largest table that is made at once.
TABLE_SIZE = 4_000_000


def topo(
    prediction: GraphLike,
    ground_truth: GraphLike,
    *,
    image_size: tuple[int, int] | None = None,
    unit_px: float | None = None,
) -> Scores:
    """Precision and recall of the prediction's topology; F1 is their harmonic mean.

    Exchanging the arguments exchanges precision and recall; identical graphs have 1.0. Both are 1.0 where neither graph
    has any length, 0.0 where only one has.

    Args:
        prediction, ground truth: skeletons, or pairs (nodes, edges) with nodes in pixels.
        image_size: (width, height) in pixels; needed where neither skeleton has it.
        unit_px: the length of the unit in pixels, 1/512 of the image's longer side unless given; 1.0 makes the
            constants true pixels.

    >>> line = [(0, 256), (512, 256)], [(0, 1)]
    >>> half = [(0, 256), (256, 256)], [(0, 1)]
    >>> topo(half, line, image_size=(512, 512)).recall < topo(half, line, image_size=(512, 512)).precision
    True
    """
    first, second, size = pair(prediction, ground_truth, image_size)
    unit = length_px(unit_px, 1.0, size, "unit_px")
    found, wanted = (_Sampled.of(Curves.of(graph.nodes / unit, graph.edges)) for graph in (first, second))
    with_length = [len(graph.curves) > 0 for graph in (found, wanted)]
    if not all(with_length):
        return Scores(0.0, 0.0) if any(with_length) else Scores(1.0, 1.0)
    near = _near_samples(found, wanted)
    return Scores(precision=_found_again(found, wanted, near), recall=_found_again(wanted, found, near.T.tocsr()))


@dataclass(frozen=True)
class _Sampled:
    """Curves with the samples that are compared, a step apart, and the paths between their branches.

    branch, distance (M,): where on the curves each sample lies; place, direction (M,2); weight (M,): the length that it
    stands for.
    """

    curves: Curves
    branch: IntArray
    distance: FloatArray
    place: FloatArray
    direction: FloatArray
    weight: FloatArray

    @classmethod
    def of(cls, curves: Curves) -> _Sampled:
        count = np.maximum(np.floor(curves.length / STEP + 0.5), 1).astype(np.intp)
        branch, rank = _ranked(count)
        weight = (curves.length / count)[branch]
        distance = (rank + 0.5) * weight
        direction = curves.direction(branch, distance, WINDOW)
        return cls(curves, branch, distance, curves.at(branch, distance), direction, weight)

    def starts(self) -> tuple[IntArray, FloatArray]:
        """Branch, and distance along it, of the places where walks begin; every branch has at least one."""
        count = np.maximum(np.floor(self.curves.length / START_SPACING + EQUAL), 1).astype(np.intp)
        branch, rank = _ranked(count)
        return branch, (rank + 1) * (self.curves.length / (count + 1))[branch]

    def reached(self, branch: IntArray, distance: FloatArray) -> BoolArray:
        """(S,M) the samples within reach of each start, along the curves."""
        ends, length = self.curves.ends, self.curves.length
        base, place = np.unique(ends[branch], return_inverse=True)
        place = place.reshape(-1, 2)
        paths = self.curves.paths(base, REACH + EQUAL)
        to_node = np.minimum(
            paths[place[:, 0]] + distance[:, None], paths[place[:, 1]] + (length[branch] - distance)[:, None]
        )
        path = np.minimum(
            to_node[:, ends[self.branch, 0]] + self.distance,
            to_node[:, ends[self.branch, 1]] + (length[self.branch] - self.distance),
        )
        reached: BoolArray = path <= REACH + EQUAL
        # On the starting branch itself the way need not lead past an end.
        direct = np.abs(self.distance - distance[:, None]) <= REACH + EQUAL
        reached |= (self.branch == branch[:, None]) & direct
        return reached


def _ranked(count: IntArray) -> tuple[IntArray, IntArray]:
    """0 count[0] times, 1 count[1] times, and so on, and the rank of each among its equals."""
    owner = np.repeat(np.arange(len(count)), count)
    return owner, np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count)


def _near_samples(first: _Sampled, second: _Sampled) -> csr_array:
    """(M,M2) 1 where a sample of the one graph is near one of the other and of a like direction, else nothing."""
    from scipy.sparse import csr_array
    from scipy.spatial import cKDTree

    near = cKDTree(first.place).sparse_distance_matrix(cKDTree(second.place), MATCH_RADIUS, output_type="ndarray")
    one, other = near["i"], near["j"]
    alike = _angle(first.direction[one], second.direction[other]) < MATCH_ANGLE
    one, other = one[alike], other[alike]
    return csr_array((np.ones(len(one), dtype=np.float32), (one, other)), shape=(len(first.place), len(second.place)))


def _angle(a: FloatArray, b: FloatArray) -> FloatArray:
    """1 - |cos| of the angle between directions, 0 where they are the same line."""
    angle: FloatArray = 1 - np.abs((a * b).sum(axis=-1))
    return angle


def _found_again(walked: _Sampled, other: _Sampled, near: csr_array) -> float:
    """The part of the walks on one graph that is found again by the walks on the other; mean over all starts.

    A walk is found again as far as it runs near the other walk, but not further than the other runs near it: two
    branches are not found again in one. A start without a counterpart finds nothing.
    """
    branch, distance = walked.starts()
    start, other_branch, other_distance = _counterparts(walked, branch, distance, other)
    part = np.zeros(len(branch))
    at_once = max(1, TABLE_SIZE // max(len(walked.place), len(other.place)))
    for low in range(0, len(start), at_once):
        some = slice(low, low + at_once)
        here = walked.reached(branch[start[some]], distance[start[some]])
        there = other.reached(other_branch[some], other_distance[some])
        again = (here & _touched(near, there)) @ walked.weight
        again = np.minimum(again, (there & _touched(near.T.tocsr(), here)) @ other.weight)
        # Sums of the same lengths in another order must not make less than the whole of it.
        np.maximum.at(part, start[some], np.round(again / (here @ walked.weight), 12))
    return float(part.mean())


def _touched(near: csr_array, reached: BoolArray) -> BoolArray:
    """(S,M) the samples that are near one that is reached; reached (S,M2)."""
    touched: BoolArray = (near @ np.ascontiguousarray(reached.T, dtype=np.float32)).T > 0
    return touched


def _counterparts(
    walked: _Sampled, branch: IntArray, distance: FloatArray, other: _Sampled
) -> tuple[IntArray, IntArray, FloatArray]:
    """Where on the other graph the walk of each start begins: (start, branch, distance along it).

    That is the nearest place within the radius where the direction is alike. Of places equally near, all are tried:
    where curves cross or lie on each other, only the walk can tell which of them is meant.
    """
    place = walked.curves.at(branch, distance)
    direction = walked.curves.direction(branch, distance, WINDOW)
    curves = other.curves
    segment = curves.segments
    tail = curves.points[segment]
    along = curves.points[segment + 1] - tail
    square = (along * along).sum(axis=1)
    found = []
    at_once = max(1, TABLE_SIZE // (4 * len(segment)))
    for low in range(0, len(branch), at_once):
        away = place[low : low + at_once, None] - tail
        t = np.clip((away * along).sum(axis=-1) / np.where(square > 0, square, 1.0), 0.0, 1.0)
        away -= t[..., None] * along
        far = np.hypot(away[..., 0], away[..., 1])
        start, which = np.nonzero(far < PAIR_RADIUS)
        found.append((start + low, which, t[start, which], far[start, which]))
    start, which, t, far = (np.concatenate(column) for column in zip(*found, strict=True))
    on = curves.branch_of_point[segment[which]]
    behind = curves.arc[segment[which]] - curves.arc[curves.first[on]]
    at = behind + t * (curves.arc[segment[which] + 1] - curves.arc[segment[which]])
    alike = _angle(direction[start], curves.direction(on, at, WINDOW)) < PAIR_ANGLE
    start, on, at, far = start[alike], on[alike], at[alike], far[alike]
    nearest = np.full(len(branch), np.inf)
    np.minimum.at(nearest, start, far)
    best = far <= nearest[start] + EQUAL
    start, on, at = start[best], on[best], at[best]
    # The end of one segment is the beginning of the next: one place, not two.
    once = np.unique(np.stack([start, on, np.round(at / EQUAL)], axis=1), axis=0, return_index=True)[1]
    return start[once], on[once], at[once]
