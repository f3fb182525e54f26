"""Step 4 of the paper's TOPO score: how many samples of two walks can be paired one to one, for many walks at once.

"Holes" lie on the ground truth, "marbles" on the prediction. A place is one complex number here, latitude and longitude in
single precision, so that both are looked up at once, and a product with a conjugate turns into a line's own axes.
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

# For a first choice of what may match: room for rounding, and the plane that lengths are in.
SPARE_RADIUS = MATCH_RADIUS + 2 * COPY_SHIFT
EAST_DEGREE = math.cos(math.radians(LATITUDE))
# Samples nearer than this are matched first come, first served: most of them stay matched.
FIRST_CHOICE = 0.35 * MATCH_RADIUS

# Edges that are compared at once, so that 5,000 nodes fit into memory; and marbles, so that they fit into the cache.
EDGES_AT_ONCE = 256
MARBLES_AT_ONCE = 4096

ZERO = np.float32(0)


def near_edges(ground_truth: GeographicGraph, prediction: GeographicGraph) -> tuple[IntArray, IntArray]:
    """Which edges have samples that may be partners, in compressed rows (start, to).

    to[start[e]:start[e + 1]] are the ground truth's edges of a like direction in the neighborhood of the prediction's edge e.
    """
    spare = np.array([SPARE_RADIUS, SPARE_RADIUS / EAST_DEGREE], dtype=np.float32)
    low, high = (bound(ground_truth.place[ground_truth.edges], axis=1) for bound in (np.min, np.max))
    other_low, other_high = (bound(prediction.place[prediction.edges], axis=1) for bound in (np.min, np.max))
    near = []
    for begin in range(0, len(ground_truth.edges), EDGES_AT_ONCE):
        some = slice(begin, begin + EDGES_AT_ONCE)
        angle = np.float32(1) - np.abs(ground_truth.direction[some] @ prediction.direction.T)
        meets = angle < np.float32(MATCH_ANGLE)
        for axis in (0, 1):
            meets &= high[some, axis, None] + spare[axis] >= other_low[:, axis]
            meets &= low[some, axis, None] - spare[axis] <= other_high[:, axis]
        near.append(meets)
    edge, to = np.nonzero(np.concatenate(near).T)
    ends, other_ends = (_flat(graph.place)[graph.edges[of]] for graph, of in ((prediction, edge), (ground_truth, to)))
    meets = ~(_beside(ends, other_ends) | _beside(other_ends, ends))
    return offsets(np.bincount(edge[meets], minlength=len(prediction.edges))), to[meets]


def _beside(ends: Complex64Array, other: Complex64Array) -> BoolArray:
    """Whether the other segments lie wholly to one side of these ones' lines, too far from it; both (K,2)."""
    along = ends[:, 1] - ends[:, 0]
    room = np.float32(SPARE_RADIUS + 2 * COPY_SHIFT) * np.abs(along)
    left, right = (((other[:, k] - ends[:, 0]) * along.conj()).imag for k in (0, 1))
    beside: BoolArray = (np.minimum(left, right) > room) | (np.maximum(left, right) < -room)
    return beside


def matched(holes: Walked, marbles: Walked, compatible: tuple[IntArray, IntArray]) -> tuple[IntArray, IntArray]:
    """The size of each walk's largest matching, with a second copy of every hole beside it, and without."""
    couples = _Couples.of(holes, marbles, compatible)
    walk = np.repeat(np.arange(len(marbles.start) - 1), np.diff(marbles.start))
    everyone = np.arange(len(walk))
    matching = Matching.empty(len(walk), 2 * len(holes.place))

    marble, hole, apart = couples.near(everyone)
    first = np.flatnonzero(apart < np.float32(FIRST_CHOICE))
    matching.add(marble[first], hole[first])
    pairs = Pairs.of(marble, hole, len(walk))
    matching.grow([pairs], walk)
    without = _matched_in_each(matching, marbles)

    # Copies only serve those who are left over; most find one that nobody else wants.
    left = np.flatnonzero(matching.of_row < 0)
    marble, hole, _ = couples.near(left, np.float32(COPY_SHIFT))
    matching.grow([Pairs.of(marble, len(holes.place) + hole, len(walk))], walk)
    left = left[matching.of_row[left] < 0]
    reached = np.zeros(len(marbles.start) - 1, dtype=bool)
    reached[walk[left]] = True
    marble, hole, _ = couples.near(np.flatnonzero(reached[walk]), np.float32(COPY_SHIFT))
    matching.grow([pairs, Pairs.of(marble, len(holes.place) + hole, len(walk))], walk)
    return _matched_in_each(matching, marbles), without


def _matched_in_each(matching: Matching, marbles: Walked) -> IntArray:
    total = offsets((matching.of_row >= 0).astype(np.intp))
    sizes: IntArray = total[marbles.start[1:]] - total[marbles.start[:-1]]
    return sizes


@dataclass(frozen=True)
class _Couples:
    """What may be near: couples of a run of marbles and a run of holes, of one walk and on compatible edges.

    hole (H,), marble (M,): places in degrees; hole_flat, marble_flat: the same in the plane, from 41° N 71° W.
    run (M,): the run of each marble; those of run r are in the couples start[r] to start[r + 1].
    begin, count (C,): the holes of each couple; heading (C,): the direction from the first to the last of them.
    """

    hole: Complex64Array
    hole_flat: Complex64Array
    marble: Complex64Array
    marble_flat: Complex64Array
    east_degree: Float32Array
    run: IntArray
    start: IntArray
    begin: IntArray
    count: IntArray
    heading: Complex64Array

    @classmethod
    def of(cls, holes: Walked, marbles: Walked, compatible: tuple[IntArray, IntArray]) -> _Couples:
        start, to = compatible
        marble_run, slot = slots(start, marbles.edge)
        hole_run = holes.run_of[marbles.walk[marble_run], to[slot]]
        count = np.diff(holes.begin)
        both = np.flatnonzero((hole_run >= 0) & (count[hole_run] > 0))
        marble_run, hole_run = marble_run[both], hole_run[both]

        hole_flat = _flat(holes.place)
        filled = np.flatnonzero(count)
        along = hole_flat[holes.begin[filled + 1] - 1] - hole_flat[holes.begin[filled]]
        size = np.abs(along)
        heading = np.ones(len(count), dtype=np.complex64)  # of a single sample: any
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
        """All (marble, hole, distance) with a distance below the limit of some of the marbles, in their order.

        shift: how far all holes are moved to the north and to the east.
        """
        hole_place = self.hole + shift * np.complex64(1 + 1j)
        found = []
        for low in range(0, max(len(marbles), 1), MARBLES_AT_ONCE):
            marble, hole = self._candidates(marbles[low : low + MARBLES_AT_ONCE], shift)
            away = self.marble[marble] - hole_place[hole]
            south, east = away.real, away.imag * self.east_degree[marble]
            apart = np.sqrt(south * south + east * east)
            near = np.flatnonzero(apart < np.float32(MATCH_RADIUS))
            found.append((marble[near], hole[near], apart[near]))
        marble, hole, apart = (np.concatenate(column) for column in zip(*found, strict=True))
        return marble, hole, apart

    def _candidates(self, marbles: IntArray, shift: np.float32) -> tuple[IntArray, IntArray]:
        """All (marble, hole) that may be near enough, and a few more: a run's holes lie a step apart on a line."""
        source, couple = slots(self.start, self.run[marbles])
        origin = self.hole_flat + shift * np.complex64(complex(1, EAST_DEGREE))
        away = (self.marble_flat[marbles][source] - origin[self.begin][couple]) * self.heading.conj()[couple]
        room = np.float32(SPARE_RADIUS**2) - away.imag * away.imag
        beside = np.flatnonzero(room > 0)
        couple = couple[beside]
        ahead, reach = away.real[beside], np.sqrt(room[beside])
        low = np.maximum(np.ceil((ahead - reach) / np.float32(STEP)).astype(np.intp), 0)
        high = np.minimum(np.floor((ahead + reach) / np.float32(STEP)).astype(np.intp), self.count[couple] - 1)
        size = np.maximum(high - low + 1, 0)
        which = np.repeat(np.arange(len(size)), size)
        hole = (self.begin[couple] + low - np.cumsum(size) + size)[which]
        hole += np.arange(len(hole))
        return marbles[source[beside]][which], hole


def _complex(place: Float32Array) -> Complex64Array:
    return np.ascontiguousarray(place).view(np.complex64)[:, 0]


def _flat(place: Float32Array) -> Complex64Array:
    """Degrees of latitude north and east of a place nearby, in which lengths are nearly true."""
    flat = (place - np.array([LATITUDE, LONGITUDE], dtype=np.float32)) * np.array([1, EAST_DEGREE], dtype=np.float32)
    return _complex(flat)
