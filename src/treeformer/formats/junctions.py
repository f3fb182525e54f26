"""Axes that a file gives as separate lines, joined into one graph that is a forest by construction.

Files such as RSML and branch-trees list each axis as a line of points of its own, and a lateral's
first point often lies a little off its parent's line. The rules by which the lines become one graph:

1. Consecutive points of an axis are joined by an edge. Points are never merged within an axis, even
   where a line stands still or comes back to a place it has been to.
2. A lateral whose first point is exactly a point of its parent shares that node (the first such).
3. Axes of order 0 of the same plant whose first points are exactly equal share that node.
4. Any other lateral is joined to the nearest place on its parent's line by an edge of the lateral's
   own. Where that place is within a segment, a junction node splits it and both halves stay on the
   parent's axis; where a lateral's first point lies there, but for rounding, it is itself the junction.
5. A lateral whose parent has no points is joined to the nearest ancestor that has some; where there
   is none, it begins a connected piece.

So each axis hangs on at most one node of the others, and no loop, double edge or cycle can arise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from treeformer._util.arrays import FloatArray, IntArray
from treeformer.errors import SkeletonError

# The foot of a perpendicular is known to so many parts of the largest coordinate.
ROUNDING = 1e-12

# Distances are computed for so many pairs of lateral and segment at once: they stay in the processor's cache.
PAIRS_AT_ONCE = 1 << 15


@dataclass(frozen=True, slots=True)
class JoinedAxes:
    """What `Skeleton` needs: N nodes (the points of the lines in order, then junctions) and E edges, base to tip.

    `axis_nodes` holds, for each line, the node of each of its points, in order; junctions are in none of them.
    `roots` has one node a connected piece; `plant` the plant of each node.
    """

    nodes: FloatArray  # (N,2)
    edges: IntArray  # (E,2)
    edge_axis: IntArray  # (E,)
    axis_nodes: list[tuple[int, ...]]
    roots: IntArray
    plant: IntArray  # (N,)


def join_axes(lines: Sequence[FloatArray], parents: Sequence[int | None], plants: Sequence[int]) -> JoinedAxes:
    """Join lines into one graph by the rules above.

    lines: for each axis its points (P,2), base to tip; P may be 0. parents: for each axis the index of
    its parent, which stands before it, or None for order 0. plants: for each axis its plant; a lateral
    is of its parent's plant.

    >>> trunk, branch = np.array([[0.0, 0.0], [0.0, 10.0]]), np.array([[1.0, 4.0], [5.0, 4.0]])
    >>> joined = join_axes([trunk, branch], [None, 0], [0, 0])
    >>> joined.nodes[4].tolist(), joined.edges.tolist()
    ([0.0, 4.0], [[0, 4], [4, 1], [4, 2], [2, 3]])
    >>> joined.axis_nodes, joined.edge_axis.tolist(), joined.roots.tolist()
    ([(0, 1), (2, 3)], [0, 0, 1, 1], [0])
    """
    points = np.concatenate([np.zeros((0, 2)), *lines])
    size = np.asarray([len(line) for line in lines], dtype=np.intp)
    first = np.cumsum(size) - size  # where each line begins among all points
    axis_of_point = np.repeat(np.arange(len(lines)), size)
    mother = _ancestors_with_points(parents, size)

    same_as, detached = _shared_first_points(lines, first, mother, plants)
    base = first[detached]
    segment, along, place, at_point = _nearest_places(lines, first, mother, detached)

    # Laterals that meet their parent in one place within one segment meet in one junction, sorted along the lines.
    within = np.flatnonzero(at_point < 0)
    within = within[np.lexsort((along[within], segment[within]))]
    begins_junction = np.ones(len(within), dtype=bool)
    begins_junction[1:] = (np.diff(segment[within]) != 0) | (np.diff(place[within], axis=0) != 0).any(axis=1)
    junction = np.cumsum(begins_junction) - 1  # of each row of `within`
    junctions = within[begins_junction]  # one row of the laterals a junction: its segment, its place

    # A first point that lies on the line takes the junction's place; the lowest where there are several.
    off_line = np.abs(points[base[within]] - place[within]).max(axis=1, initial=0.0)
    on_line = off_line <= ROUNDING * np.abs(points).max(initial=0.0)
    is_point = np.full(len(junctions), len(points))
    np.minimum.at(is_point, junction[on_line], base[within[on_line]])
    same_as[base[within[on_line]]] = is_point[junction[on_line]]

    while not np.array_equal(same_as, same_as[same_as]):
        same_as = same_as[same_as]
    own = same_as == np.arange(len(points))
    number = (np.cumsum(own) - 1)[same_as]  # the node of each point
    is_new = is_point == len(points)
    junction_node = np.count_nonzero(own) - 1 + np.cumsum(is_new)
    junction_node[~is_new] = number[is_point[~is_new]]

    hook = np.full(len(base), -1, dtype=np.intp)  # the node that each detached lateral is joined to
    hook[at_point >= 0] = number[at_point[at_point >= 0]]
    hook[within] = junction_node[junction]
    apart = hook != number[base]

    # Edges as starts in order along all lines: the base's own, then each segment's start and its junctions.
    starts = np.flatnonzero(axis_of_point[:-1] == axis_of_point[1:])
    key = np.concatenate([2 * base[apart] - 1, 2 * starts, 2 * segment[junctions]])
    begin = np.concatenate([hook[apart], number[starts], junction_node])
    end = np.concatenate([number[base[apart]], number[starts + 1], number[segment[junctions] + 1]])
    axis = np.concatenate([axis_of_point[base[apart]], axis_of_point[starts], axis_of_point[segment[junctions]]])
    order = np.lexsort((np.concatenate([np.full(len(key) - len(junctions), -1.0), along[junctions]]), key))
    begin, end, key = begin[order], end[order], key[order]
    split = np.flatnonzero(np.diff(key) == 0)  # edges that the next one continues within the same segment
    end[split] = begin[split + 1]

    plant_of_axis = np.asarray(plants, dtype=np.intp)
    new = junctions[is_new]
    return JoinedAxes(
        nodes=np.concatenate([points[own], place[new]]),
        edges=np.stack([begin, end], axis=1),
        edge_axis=axis[order],
        axis_nodes=[tuple(part.tolist()) for part in np.split(number, first[1:])] if lines else [],
        roots=np.unique(number[[first[k] for k in range(len(lines)) if mother[k] is None and size[k]]].astype(np.intp)),
        plant=plant_of_axis[axis_of_point[np.concatenate([np.flatnonzero(own), segment[new]])]],
    )


def _ancestors_with_points(parents: Sequence[int | None], size: IntArray) -> list[int | None]:
    """For each axis the nearest ancestor that has points, None where there is none."""
    found: list[int | None] = []
    for axis, parent in enumerate(parents):
        if parent is not None and not 0 <= parent < axis:
            raise SkeletonError(f"axis {axis} has parent {parent}, which does not stand before it")
        found.append(parent if parent is None or size[parent] else found[parent])
    return found


def _shared_first_points(
    lines: Sequence[FloatArray], first: IntArray, mother: Sequence[int | None], plants: Sequence[int]
) -> tuple[IntArray, list[int]]:
    """Rules 2 and 3: (P,) for each point the earlier one whose node it shares, else itself; the laterals left over."""
    same_as = np.arange(sum(len(line) for line in lines))
    point_at: dict[int, dict[tuple[float, float], int]] = {}  # for each axis with laterals, its points by place
    for above in {parent for parent in mother if parent is not None}:
        places = [(x, y) for x, y in lines[above].tolist()]
        numbers = range(int(first[above]), int(first[above]) + len(places))
        # In reverse, so that of several points in one place the first one stays.
        point_at[above] = dict(zip(reversed(places), reversed(numbers), strict=True))
    seed_at: dict[tuple[int, float, float], int] = {}
    detached = []
    for axis, (line, parent) in enumerate(zip(lines, mother, strict=True)):
        if not len(line):
            continue
        x, y = line[0].tolist()
        here = int(first[axis])
        if parent is None:
            same_as[here] = seed_at.setdefault((plants[axis], x, y), here)
        elif (x, y) in point_at[parent]:
            same_as[here] = point_at[parent][x, y]
        else:
            detached.append(axis)
    return same_as, detached


def _nearest_places(
    lines: Sequence[FloatArray], first: IntArray, mother: Sequence[int | None], laterals: Sequence[int]
) -> tuple[IntArray, FloatArray, FloatArray, IntArray]:
    """Where each of D laterals meets its parent's line, the earliest place where several are equally near.

    Returns the point that begins the segment (D,), how far along it from 0 to 1 (D,), the place (D,2), and
    the point that stands there (D,), -1 within a segment.
    """
    segment = np.zeros(len(laterals), dtype=np.intp)
    along = np.zeros(len(laterals))
    place = np.zeros((len(laterals), 2))
    at_point = np.full(len(laterals), -1, dtype=np.intp)
    of_parent: dict[int, list[int]] = {}
    for row, axis in enumerate(laterals):
        parent = mother[axis]
        assert parent is not None
        of_parent.setdefault(parent, []).append(row)
    for parent, rows in of_parent.items():
        line = lines[parent]
        component_root = np.stack([lines[laterals[row]][0] for row in rows])
        index, t, on_line = _nearest_on_line(line, component_root)
        segment[rows], along[rows], place[rows] = first[parent] + index, t, on_line
        after = np.minimum(index + 1, len(line) - 1)
        begins, ends = (on_line == line[index]).all(axis=1), (on_line == line[after]).all(axis=1)
        at_point[rows] = np.where(begins, first[parent] + index, np.where(ends, first[parent] + after, -1))
    return segment, along, place, at_point


def _nearest_on_line(line: FloatArray, queries: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """The place on a line (P,2), P ≥ 1, nearest to each of Q points: segment (Q,), share of it (Q,), place (Q,2)."""
    if len(line) == 1:
        return np.zeros(len(queries), dtype=np.intp), np.zeros(len(queries)), np.repeat(line, len(queries), axis=0)
    # A power of two is divided out, which is exact, so that squares neither overflow nor vanish.
    exponent = int(np.frexp(max(np.abs(line).max(), np.abs(queries).max()))[1])
    line, queries = np.ldexp(line, -exponent), np.ldexp(queries, -exponent)
    start, step = line[:-1], np.diff(line, axis=0)
    square = (step * step).sum(axis=1)
    unit = step / np.where(square > 0, square, 1.0)[:, None]
    index = np.zeros(len(queries), dtype=np.intp)
    along = np.zeros(len(queries))
    rows_at_once = max(1, PAIRS_AT_ONCE // len(start))
    for low in range(0, len(queries), rows_at_once):
        rows = slice(low, low + rows_at_once)
        x = queries[rows, 0, None] - start[:, 0]
        y = queries[rows, 1, None] - start[:, 1]
        t = np.clip(x * unit[:, 0] + y * unit[:, 1], 0.0, 1.0)
        best = np.argmin((x - t * step[:, 0]) ** 2 + (y - t * step[:, 1]) ** 2, axis=1)
        index[rows] = best
        along[rows] = t[np.arange(len(best)), best]
    place = np.where(along[:, None] == 1, line[index + 1], start[index] + along[:, None] * step[index])
    return index, along, np.ldexp(place, exponent)
