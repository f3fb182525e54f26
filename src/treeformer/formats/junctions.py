"""Join axes that a file stores as separate lines into one graph, a forest by construction.

Files such as RSML and branch-trees store each axis as a separate polyline. The first point of a lateral often
lies slightly off its parent's line. The lines become one graph by these rules:

1. Consecutive points of an axis are joined by an edge. Points of one axis are never merged, even if they
   coincide.
2. A lateral whose first point equals a point of its parent shares that node (the first such point).
3. Axes of order 0 of the same plant whose first points are equal share that node.
4. Any other lateral is joined to the nearest point on its parent's line by an edge that belongs to the lateral.
   If that point lies within a segment, a junction node splits the segment and both halves stay on the parent's
   axis. If the first point of a lateral coincides with it up to rounding, that point is the junction.
5. A lateral whose parent has no points is joined to the nearest ancestor that has points. If there is none, it
   begins a new component.

Each axis is therefore attached to the others at one node at most, so that no self-loop, duplicate edge or cycle
can arise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from treeformer._util.arrays import FloatArray, IntArray
from treeformer.errors import SkeletonError

# Relative rounding error of the foot of a perpendicular, as a fraction of the largest coordinate.
ROUNDING = 1e-12

# Distances are computed for this many pairs of lateral and segment at once, so that they fit into the CPU cache.
MAX_PAIRS = 1 << 15


@dataclass(frozen=True, slots=True)
class JoinedAxes:
    """The graph of joined axes, as arguments for `Skeleton`."""

    nodes: FloatArray  # (N,2) px, the points of the lines in order, followed by the junctions
    edges: IntArray  # (E,2), directed from base to tip
    edge_axis: IntArray  # (E,) the axis of each edge
    axis_nodes: list[tuple[int, ...]]  # for each line, the nodes of its points in order, without junctions
    roots: IntArray  # (C,) one node per component
    plant: IntArray  # (N,) the plant of each node


def join_axes(lines: Sequence[FloatArray], parents: Sequence[int | None], plants: Sequence[int]) -> JoinedAxes:
    """Join lines, (P,2) px from base to tip, into one graph by the rules of this module.

    A line may be empty. Parents (None for order 0) precede their laterals, which have the same plant.

    >>> trunk, branch = np.array([[0.0, 0.0], [0.0, 10.0]]), np.array([[1.0, 4.0], [5.0, 4.0]])
    >>> joined = join_axes([trunk, branch], [None, 0], [0, 0])
    >>> joined.nodes[4].tolist(), joined.edges.tolist()
    ([0.0, 4.0], [[0, 4], [4, 1], [4, 2], [2, 3]])
    >>> joined.axis_nodes, joined.edge_axis.tolist(), joined.roots.tolist()
    ([(0, 1), (2, 3)], [0, 0, 1, 1], [0])
    """
    points = np.concatenate([np.zeros((0, 2)), *lines])
    size = np.asarray([len(line) for line in lines], dtype=np.intp)
    first = np.cumsum(size) - size  # index of the first point of each line among all points
    axis_of_point = np.repeat(np.arange(len(lines)), size)
    ancestor = _ancestors_with_points(parents, size)

    same_as, detached = _shared_first_points(lines, first, ancestor, plants)
    base = first[detached]
    segment, along, foot, at_point = _feet_on_parents(lines, first, ancestor, detached)

    # Laterals that meet their parent at the same point of a segment share a junction. Junctions are sorted along
    # the lines.
    within = np.flatnonzero(at_point < 0)
    within = within[np.lexsort((along[within], segment[within]))]
    begins_junction = np.ones(len(within), dtype=bool)
    begins_junction[1:] = (np.diff(segment[within]) != 0) | (np.diff(foot[within], axis=0) != 0).any(axis=1)
    junction = np.cumsum(begins_junction) - 1  # the junction of each row of `within`
    junctions = within[begins_junction]  # one row per junction, which gives its segment and point

    # A first point that lies on the line becomes the junction, the lowest index if there are several.
    off_line = np.abs(points[base[within]] - foot[within]).max(axis=1, initial=0.0)
    on_line = off_line <= ROUNDING * np.abs(points).max(initial=0.0)
    junction_point = np.full(len(junctions), len(points))  # len(points): no first point lies there
    np.minimum.at(junction_point, junction[on_line], base[within[on_line]])
    same_as[base[within[on_line]]] = junction_point[junction[on_line]]

    while not np.array_equal(same_as, same_as[same_as]):
        same_as = same_as[same_as]
    is_node = same_as == np.arange(len(points))
    node_of_point = (np.cumsum(is_node) - 1)[same_as]
    is_new = junction_point == len(points)
    junction_node = np.count_nonzero(is_node) - 1 + np.cumsum(is_new)
    junction_node[~is_new] = node_of_point[junction_point[~is_new]]

    attachment = np.full(len(base), -1, dtype=np.intp)  # the node to which each detached lateral is joined
    attachment[at_point >= 0] = node_of_point[at_point[at_point >= 0]]
    attachment[within] = junction_node[junction]
    is_separate = attachment != node_of_point[base]

    # Sort edges along all lines: the edge to the base first, then for each segment its start and its junctions.
    starts = np.flatnonzero(axis_of_point[:-1] == axis_of_point[1:])
    key = np.concatenate([2 * base[is_separate] - 1, 2 * starts, 2 * segment[junctions]])
    begin = np.concatenate([attachment[is_separate], node_of_point[starts], junction_node])
    end = np.concatenate(
        [node_of_point[base[is_separate]], node_of_point[starts + 1], node_of_point[segment[junctions] + 1]]
    )
    axis = np.concatenate([axis_of_point[base[is_separate]], axis_of_point[starts], axis_of_point[segment[junctions]]])
    order = np.lexsort((np.concatenate([np.full(len(key) - len(junctions), -1.0), along[junctions]]), key))
    begin, end, key = begin[order], end[order], key[order]
    split = np.flatnonzero(np.diff(key) == 0)  # edges that end at a junction of the same segment
    end[split] = begin[split + 1]

    plant_of_axis = np.asarray(plants, dtype=np.intp)
    new = junctions[is_new]
    return JoinedAxes(
        nodes=np.concatenate([points[is_node], foot[new]]),
        edges=np.stack([begin, end], axis=1),
        edge_axis=axis[order],
        axis_nodes=[tuple(nodes.tolist()) for nodes in np.split(node_of_point, first[1:])] if lines else [],
        roots=np.unique(
            node_of_point[[first[k] for k in range(len(lines)) if ancestor[k] is None and size[k]]].astype(np.intp)
        ),
        plant=plant_of_axis[axis_of_point[np.concatenate([np.flatnonzero(is_node), segment[new]])]],
    )


def _ancestors_with_points(parents: Sequence[int | None], size: IntArray) -> list[int | None]:
    """Return the nearest ancestor of each axis that has points, None if there is none."""
    ancestors: list[int | None] = []
    for axis, parent in enumerate(parents):
        if parent is not None and not 0 <= parent < axis:
            raise SkeletonError(f"axis {axis} has parent {parent}, which does not precede it")
        ancestors.append(parent if parent is None or size[parent] else ancestors[parent])
    return ancestors


def _shared_first_points(
    lines: Sequence[FloatArray], first: IntArray, ancestor: Sequence[int | None], plants: Sequence[int]
) -> tuple[IntArray, list[int]]:
    """Apply rules 2 and 3: return the earlier point whose node each point (P,) shares, and the laterals not yet joined.

    A point that shares no node is its own.
    """
    same_as = np.arange(sum(len(line) for line in lines))
    point_at: dict[int, dict[tuple[float, float], int]] = {}  # point indices by coordinates, per axis with laterals
    for parent_axis in {parent for parent in ancestor if parent is not None}:
        coordinates = [(x, y) for x, y in lines[parent_axis].tolist()]
        indices = range(int(first[parent_axis]), int(first[parent_axis]) + len(coordinates))
        # In reverse order, so that the first of several equal points is kept.
        point_at[parent_axis] = dict(zip(reversed(coordinates), reversed(indices), strict=True))
    seed_at: dict[tuple[int, float, float], int] = {}
    detached = []
    for axis, (line, parent) in enumerate(zip(lines, ancestor, strict=True)):
        if not len(line):
            continue
        x, y = line[0].tolist()
        base = int(first[axis])
        if parent is None:
            same_as[base] = seed_at.setdefault((plants[axis], x, y), base)
        elif (x, y) in point_at[parent]:
            same_as[base] = point_at[parent][x, y]
        else:
            detached.append(axis)
    return same_as, detached


def _feet_on_parents(
    lines: Sequence[FloatArray], first: IntArray, ancestor: Sequence[int | None], laterals: Sequence[int]
) -> tuple[IntArray, FloatArray, FloatArray, IntArray]:
    """Find where each of D laterals meets its parent's line, at the first of several equally near points.

    Return the index of the point that begins the segment (D,), the fraction along the segment (D,), the coordinates of
    the meeting point (D,2) px, and the index of the line point at that position (D,), -1 within a segment.
    """
    segment = np.zeros(len(laterals), dtype=np.intp)
    along = np.zeros(len(laterals))
    foot = np.zeros((len(laterals), 2))
    at_point = np.full(len(laterals), -1, dtype=np.intp)
    rows_of_parent: dict[int, list[int]] = {}
    for row, axis in enumerate(laterals):
        parent = ancestor[axis]
        assert parent is not None
        rows_of_parent.setdefault(parent, []).append(row)
    for parent, rows in rows_of_parent.items():
        line = lines[parent]
        bases = np.stack([lines[laterals[row]][0] for row in rows])
        index, t, on_line = _nearest_on_line(line, bases)
        segment[rows], along[rows], foot[rows] = first[parent] + index, t, on_line
        after = np.minimum(index + 1, len(line) - 1)
        begins, ends = (on_line == line[index]).all(axis=1), (on_line == line[after]).all(axis=1)
        at_point[rows] = np.where(begins, first[parent] + index, np.where(ends, first[parent] + after, -1))
    return segment, along, foot, at_point


def _nearest_on_line(line: FloatArray, queries: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Find the point on a line (P,2), P ≥ 1, that is nearest to each of Q points.

    Return the segment (Q,), the fraction along it (Q,) and the coordinates (Q,2).
    """
    if len(line) == 1:
        return np.zeros(len(queries), dtype=np.intp), np.zeros(len(queries)), np.repeat(line, len(queries), axis=0)
    # Dividing by a power of two is exact and prevents overflow and underflow of squares.
    exponent = int(np.frexp(max(np.abs(line).max(), np.abs(queries).max()))[1])
    line, queries = np.ldexp(line, -exponent), np.ldexp(queries, -exponent)
    start, step = line[:-1], np.diff(line, axis=0)
    square = (step * step).sum(axis=1)
    unit = step / np.where(square > 0, square, 1.0)[:, None]
    index = np.zeros(len(queries), dtype=np.intp)
    along = np.zeros(len(queries))
    rows_at_once = max(1, MAX_PAIRS // len(start))
    for low in range(0, len(queries), rows_at_once):
        rows = slice(low, low + rows_at_once)
        x = queries[rows, 0, None] - start[:, 0]
        y = queries[rows, 1, None] - start[:, 1]
        t = np.clip(x * unit[:, 0] + y * unit[:, 1], 0.0, 1.0)
        best = np.argmin((x - t * step[:, 0]) ** 2 + (y - t * step[:, 1]) ** 2, axis=1)
        index[rows] = best
        along[rows] = t[np.arange(len(best)), best]
    foot = np.where(along[:, None] == 1, line[index + 1], start[index] + along[:, None] * step[index])
    return index, along, np.ldexp(foot, exponent)
