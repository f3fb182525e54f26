"""Step 4 of the paper's TOPO score: maximum matchings between the samples of two walks, for many walks at once.

"Holes" are samples of the ground truth, "marbles" are samples of the prediction. A place is one complex64 number,
latitude + i·longitude. One lookup then fetches both coordinates, and a product with a conjugate rotates a place into
the coordinate system of a line.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from treeformer._util.arrays import BoolArray, Float32Array, IntArray
from treeformer.metrics._geographic import LATITUDE, LONGITUDE, GeographicGraph, shrink
from treeformer.metrics._matching import Matching, Pairs
from treeformer.metrics._paper_walk import STEP, Walked
from treeformer.metrics._rows import offsets, slots

Complex64Array = NDArray[np.complex64]

# Lengths in degrees; 0.00001° are 1.11 px.
MATCH_RADIUS = 0.0001
MATCH_ANGLE = 0.29  # 1 - |cos|: 45°
COPY_SHIFT = 0.00001

# For the preselection of candidates: a radius with room for rounding, and the length of a degree of longitude.
SPARE_RADIUS = MATCH_RADIUS + 2 * COPY_SHIFT
EAST_DEGREE = math.cos(math.radians(LATITUDE))
# Samples closer than this are matched greedily first; most of these pairs are in the final matching.
GREEDY_RADIUS = 0.35 * MATCH_RADIUS

# Block sizes: edges, so that 5,000 nodes fit into memory, and marbles, so that a block fits into the cache.
EDGE_BLOCK = 256
MARBLE_BLOCK = 4096

ZERO = np.float32(0)


def near_edges(ground_truth: GeographicGraph, prediction: GeographicGraph) -> tuple[IntArray, IntArray]:
    """Find pairs of edges whose samples may match: close to each other and of similar direction.

    Return compressed rows (start, to): to[start[e]:start[e + 1]] are the ground truth's edges near the prediction's
    edge e.
    """
    spare = np.array([SPARE_RADIUS, SPARE_RADIUS / EAST_DEGREE], dtype=np.float32)
    low, high = (bound(ground_truth.place[ground_truth.edges], axis=1) for bound in (np.min, np.max))
    other_low, other_high = (bound(prediction.place[prediction.edges], axis=1) for bound in (np.min, np.max))
    near = []
    for begin in range(0, len(ground_truth.edges), EDGE_BLOCK):
        block = slice(begin, begin + EDGE_BLOCK)
        angle = np.float32(1) - np.abs(ground_truth.direction[block] @ prediction.direction.T)
        meets = angle < np.float32(MATCH_ANGLE)
        for axis in (0, 1):
            meets &= high[block, axis, None] + spare[axis] >= other_low[:, axis]
            meets &= low[block, axis, None] - spare[axis] <= other_high[:, axis]
        near.append(meets)
    edge, to = np.nonzero(np.concatenate(near).T)
    ends, other_ends = (
        _flat(graph.place)[graph.edges[index]] for graph, index in ((prediction, edge), (ground_truth, to))
    )
    meets = ~(_beside(ends, other_ends) | _beside(other_ends, ends))
    return offsets(np.bincount(edge[meets], minlength=len(prediction.edges))), to[meets]


def _beside(ends: Complex64Array, other: Complex64Array) -> BoolArray:
    """Return True for segments `other` that lie entirely on one side of the line through `ends`, too far from it.

    Both arguments are (K,2) end points.
    """
    along = ends[:, 1] - ends[:, 0]
    room = np.float32(SPARE_RADIUS + 2 * COPY_SHIFT) * np.abs(along)
    left, right = (((other[:, k] - ends[:, 0]) * along.conj()).imag for k in (0, 1))
    beside: BoolArray = (np.minimum(left, right) > room) | (np.maximum(left, right) < -room)
    return beside


def matched(holes: Walked, marbles: Walked, compatible: tuple[IntArray, IntArray]) -> tuple[IntArray, IntArray]:
    """Compute the sizes (W,) of the maximum matchings of W walks, with a second copy beside every hole and without.

    Only samples on the pairs of edges from `near_edges` are compatible.
    """
    couples = _Couples.from_walks(holes, marbles, compatible)
    walk = np.repeat(np.arange(len(marbles.start) - 1), np.diff(marbles.start))
    matching = Matching.empty(len(walk), 2 * len(holes.place))

    marble, hole, distance = couples.near(np.arange(len(walk)))
    first = np.flatnonzero(distance < np.float32(GREEDY_RADIUS))
    matching.add(marble[first], hole[first])
    pairs = Pairs.from_lists(marble, hole, len(walk))
    matching.grow([pairs], walk)
    without = _matched_in_each(matching, marbles)

    # Only unmatched marbles need a copy, and most of them find one that no other marble needs.
    left = np.flatnonzero(matching.of_row < 0)
    marble, hole, _ = couples.near(left, np.float32(COPY_SHIFT))
    matching.grow([Pairs.from_lists(marble, len(holes.place) + hole, len(walk))], walk)
    left = left[matching.of_row[left] < 0]
    unfinished = np.zeros(len(marbles.start) - 1, dtype=bool)
    unfinished[walk[left]] = True
    marble, hole, _ = couples.near(np.flatnonzero(unfinished[walk]), np.float32(COPY_SHIFT))
    matching.grow([pairs, Pairs.from_lists(marble, len(holes.place) + hole, len(walk))], walk)
    return _matched_in_each(matching, marbles), without


def _matched_in_each(matching: Matching, marbles: Walked) -> IntArray:
    total = offsets((matching.of_row >= 0).astype(np.intp))
    sizes: IntArray = total[marbles.start[1:]] - total[marbles.start[:-1]]
    return sizes


@dataclass(frozen=True)
class _Couples:
    """C couples of a run of marbles and a run of holes, of the same walk and on compatible edges."""

    hole: Complex64Array  # (H,) places of the holes, degrees
    hole_flat: Complex64Array  # (H,) the same in a plane, relative to 41° N 71° W
    marble: Complex64Array  # (M,) places of the marbles, degrees
    marble_flat: Complex64Array  # (M,) the same in a plane
    east_degree: Float32Array  # (M,) length of a degree of longitude at each marble, degrees of latitude
    run: IntArray  # (M,) run of each marble
    start: IntArray  # offsets; run r belongs to the couples start[r] to start[r + 1]
    begin: IntArray  # (C,) first hole of each couple
    count: IntArray  # (C,) number of holes of each couple
    heading: Complex64Array  # (C,) unit direction from the first to the last hole

    @classmethod
    def from_walks(cls, holes: Walked, marbles: Walked, compatible: tuple[IntArray, IntArray]) -> _Couples:
        start, to = compatible
        marble_run, slot = slots(start, marbles.edge)
        hole_run = holes.run_of[marbles.walk[marble_run], to[slot]]
        count = np.diff(holes.begin)
        not_empty = np.flatnonzero((hole_run >= 0) & (count[hole_run] > 0))
        marble_run, hole_run = marble_run[not_empty], hole_run[not_empty]

        hole_flat = _flat(holes.place)
        filled = np.flatnonzero(count)
        along = hole_flat[holes.begin[filled + 1] - 1] - hole_flat[holes.begin[filled]]
        size = np.abs(along)
        heading = np.ones(len(count), dtype=np.complex64)  # any direction serves for a single sample
        heading[filled[size > 0]] = along[size > 0] / size[size > 0]
        return cls(
            _complex(holes.place),
            hole_flat,
            _complex(marbles.place),
            _flat(marbles.place),
            shrink(marbles.place),
            np.repeat(np.arange(len(marbles.edge)), np.diff(marbles.begin)),
            offsets(np.bincount(marble_run, minlength=len(marbles.edge))),
            holes.begin[hole_run],
            count[hole_run],
            heading[hole_run],
        )

    def near(self, marbles: IntArray, shift: np.float32 = ZERO) -> tuple[IntArray, IntArray, Float32Array]:
        """Return all (marble, hole, distance) closer than `MATCH_RADIUS`, in the order of the given marbles.

        `shift` displaces all holes to the north and to the east, degrees.
        """
        hole_place = self.hole + shift * np.complex64(1 + 1j)
        blocks = []
        for low in range(0, max(len(marbles), 1), MARBLE_BLOCK):
            marble, hole = self._candidates(marbles[low : low + MARBLE_BLOCK], shift)
            away = self.marble[marble] - hole_place[hole]
            south, east = away.real, away.imag * self.east_degree[marble]
            distance = np.sqrt(south * south + east * east)
            near = np.flatnonzero(distance < np.float32(MATCH_RADIUS))
            blocks.append((marble[near], hole[near], distance[near]))
        marble, hole, distance = (np.concatenate(column) for column in zip(*blocks, strict=True))
        return marble, hole, distance

    def _candidates(self, marbles: IntArray, shift: np.float32) -> tuple[IntArray, IntArray]:
        """Return all (marble, hole) that may be close enough, and a few more.

        The holes of a run lie on a line, one step apart, so the range of candidates follows from the geometry.
        """
        source, couple = slots(self.start, self.run[marbles])
        origin = self.hole_flat + shift * np.complex64(complex(1, EAST_DEGREE))
        away = (self.marble_flat[marbles][source] - origin[self.begin][couple]) * self.heading.conj()[couple]
        room = np.float32(SPARE_RADIUS**2) - away.imag * away.imag
        in_reach = np.flatnonzero(room > 0)
        couple = couple[in_reach]
        ahead, reach = away.real[in_reach], np.sqrt(room[in_reach])
        low = np.maximum(np.ceil((ahead - reach) / np.float32(STEP)).astype(np.intp), 0)
        high = np.minimum(np.floor((ahead + reach) / np.float32(STEP)).astype(np.intp), self.count[couple] - 1)
        size = np.maximum(high - low + 1, 0)
        which = np.repeat(np.arange(len(size)), size)
        hole = (self.begin[couple] + low - np.cumsum(size) + size)[which]
        hole += np.arange(len(hole))
        return marbles[source[in_reach]][which], hole


def _complex(place: Float32Array) -> Complex64Array:
    return np.ascontiguousarray(place).view(np.complex64)[:, 0]


def _flat(place: Float32Array) -> Complex64Array:
    """Project places to a plane, in degrees of latitude relative to 41° N 71° W, where lengths are nearly exact."""
    flat = (place - np.array([LATITUDE, LONGITUDE], dtype=np.float32)) * np.array([1, EAST_DEGREE], dtype=np.float32)
    return _complex(flat)
