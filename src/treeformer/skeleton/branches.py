"""Branches: the stretches of a graph between its keypoints, and the ways to re-space their points.

Arrays in, arrays out; `Skeleton` gives these their names and carries the attributes along.
A new node is always a place on an old edge, (i, j, t) for (1 - t)·node i + t·node j, so that
coordinates, radii and scores are all carried over by the one rule.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treeformer._util.arrays import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class Branches:
    """All branches, laid end to end.

    nodes: node indices along each branch, both end nodes included; branch k is nodes[start[k]:start[k + 1]].
    edges: the edge between nodes[p] and nodes[p + 1], -1 at the last node of each branch.
    """

    nodes: IntArray
    edges: IntArray
    start: IntArray

    @property
    def first(self) -> IntArray:
        """The position of each branch's first point."""
        return self.start[:-1]

    @property
    def last(self) -> IntArray:
        """The position of each branch's last point."""
        return self.start[1:] - 1


@dataclass(frozen=True)
class Resampling:
    """A graph made from another one.

    i, j, t: node k lies at (1 - t[k])·old[i[k]] + t[k]·old[j[k]].
    edges (E,2) between the new nodes; source (E,) the old edge each lies on; covers: None, or for each
    new edge the slice of old edges it stands for, as (old edge of each, offsets) for `reduceat`.
    """

    i: IntArray
    j: IntArray
    t: FloatArray
    edges: IntArray
    source: IntArray
    covers: tuple[IntArray, IntArray] | None = None


def adjacency(edges: IntArray, count: int) -> tuple[IntArray, IntArray, IntArray]:
    """Compressed rows (row, to, at): node u has neighbors to[row[u]:row[u + 1]] over edges at[row[u]:row[u + 1]]."""
    ends = np.concatenate([edges[:, 0], edges[:, 1]])
    others = np.concatenate([edges[:, 1], edges[:, 0]])
    order = np.argsort(ends, kind="stable")
    row = np.zeros(count + 1, dtype=np.intp)
    np.cumsum(np.bincount(ends, minlength=count), out=row[1:])
    edge = np.concatenate([np.arange(len(edges)), np.arange(len(edges))])
    return row, others[order], edge[order]


def components(edges: IntArray, count: int) -> IntArray:
    """The connected piece of each node, numbered by lowest node index."""
    # Each piece takes over the lowest label next to it until none is lower; scipy's sparse matrix costs four times
    # as much to build for the few hundred nodes of a plant.
    label = np.arange(count)
    one, other = edges[:, 0], edges[:, 1]
    while not np.array_equal(label[one], label[other]):
        mine, theirs = label[one], label[other]
        for side in (mine, theirs):
            np.minimum.at(label, side, np.minimum(mine, theirs))
        while not np.array_equal(label, label[label]):
            label = label[label]
    numbers: IntArray = (np.cumsum(label == np.arange(count)) - 1)[label]
    return numbers


def changes_at(value: IntArray, edges: IntArray, count: int) -> BoolArray:
    """The nodes whose edges do not all have the same value; value (E,)."""
    low = np.full(count, np.iinfo(np.intp).max)
    high = np.full(count, np.iinfo(np.intp).min)
    for side in (0, 1):
        np.minimum.at(low, edges[:, side], value)
        np.maximum.at(high, edges[:, side], value)
    differ: BoolArray = low < high
    return differ


def trace(edges: IntArray, count: int, key: BoolArray, traversal: list[int] | None = None) -> Branches:
    """Every branch from keypoint to keypoint, each edge once; branches run away from the first nodes of `walk`.

    Pieces without a keypoint (closed rings) are cut open at their lowest node.
    """
    row_, to_, at_ = adjacency(edges, count)
    row, to, at = row_.tolist(), to_.tolist(), at_.tolist()
    is_keypoint = key.tolist()
    used = [False] * len(edges)
    nodes: list[int] = []
    along: list[int] = []
    start = [0]

    def follow(origin: int) -> None:
        for slot in range(row[origin], row[origin + 1]):
            if used[at[slot]]:
                continue
            node, step = origin, slot
            while True:
                nodes.append(node)
                along.append(at[step])
                used[at[step]] = True
                node = to[step]
                if is_keypoint[node] or node == origin:
                    break
                # An inner node has two edges: leave by the one it was not entered by.
                step = row[node] if at[row[node]] != at[step] else row[node] + 1
            nodes.append(node)
            along.append(-1)
            start.append(len(nodes))

    for node in traversal if traversal is not None else range(count):
        if is_keypoint[node]:
            follow(node)
    for node in np.unique(edges[~np.asarray(used, dtype=bool)]).tolist():
        follow(node)
    return Branches(*(np.asarray(a, dtype=np.intp) for a in (nodes, along, start)))


def cycle_breakers(branches: Branches) -> IntArray:
    """Inner nodes that must stay so that no branch shrinks to a loop or to the twin of another edge."""
    first, last = branches.nodes[branches.first], branches.nodes[branches.last]
    steps = branches.last - branches.first
    loop = np.flatnonzero(first == last)
    origin = branches.first[loop]
    keep = [branches.nodes[origin + part * steps[loop] // 3] for part in range(3)]
    pair = np.stack([np.minimum(first, last), np.maximum(first, last)], axis=1)
    twins = np.unique(pair, axis=0, return_inverse=True, return_counts=True)
    doubled = np.flatnonzero((twins[2][twins[1].ravel()] > 1) & (steps > 1) & (first != last))
    keep.append(branches.nodes[branches.first[doubled] + steps[doubled] // 2])
    return np.unique(np.concatenate(keep))


def thin(branches: Branches, keep: BoolArray) -> Resampling:
    """Drop the inner points p of the branches with keep[p] False; each run of edges becomes one straight edge."""
    keep = keep.copy()
    keep[branches.first] = keep[branches.last] = True
    at = np.flatnonzero(keep)
    kept_nodes = np.unique(branches.nodes[at])
    number = np.searchsorted(kept_nodes, branches.nodes)
    begins = branches.edges[at] >= 0  # the last point of a branch begins no edge
    here = np.flatnonzero(begins)
    edges = np.stack([number[at[here]], number[at[here + 1]]], axis=1)
    inner = branches.edges >= 0
    position = np.cumsum(inner) - 1  # rank of each old edge among those in branch order
    old = branches.edges[inner]
    offsets = position[at[here]]
    middle = position[(at[here] + at[here + 1] - 1) // 2]
    zeros = np.zeros(len(kept_nodes))
    return Resampling(kept_nodes, kept_nodes, zeros, edges, old[middle], (old, offsets))


def with_lone_nodes(derived: Resampling, lone: IntArray) -> Resampling:
    """Add nodes that no branch holds (degree 0), at the end."""
    if len(lone) == 0:
        return derived
    return Resampling(
        np.concatenate([derived.i, lone]),
        np.concatenate([derived.j, lone]),
        np.concatenate([derived.t, np.zeros(len(lone))]),
        derived.edges,
        derived.source,
        derived.covers,
    )


def farthest_points(points: FloatArray, branches: Branches, tolerance: float) -> BoolArray:
    """Ramer-Douglas-Peucker on all branches at once: the points to keep so that no other lies beyond tolerance.

    points (P,2): the coordinates at branches.nodes. Works in rounds over all open stretches instead of recursing.
    """
    keep = np.zeros(len(points), dtype=bool)
    keep[branches.first] = keep[branches.last] = True
    low, high = branches.first, branches.last
    while True:
        open_ = high - low > 1
        low, high = low[open_], high[open_]
        if len(low) == 0:
            return keep
        size = high - low - 1
        offset = np.concatenate([[0], np.cumsum(size)[:-1]])
        stretch = np.repeat(np.arange(len(low)), size)
        inner = np.arange(size.sum()) - offset[stretch] + low[stretch] + 1
        distance = _distance_to_segment(points[inner], points[low[stretch]], points[high[stretch]])
        worst = np.maximum.reduceat(distance, offset)
        is_worst = np.flatnonzero(distance == worst[stretch])
        split = np.full(len(low), -1, dtype=np.intp)
        split[stretch[is_worst[::-1]]] = inner[is_worst[::-1]]  # reversed: the first of equals is written last
        cut = worst > tolerance
        keep[split[cut]] = True
        low, high = np.concatenate([low[cut], split[cut]]), np.concatenate([split[cut], high[cut]])


def _distance_to_segment(point: FloatArray, a: FloatArray, b: FloatArray) -> FloatArray:
    along = b - a
    square = (along**2).sum(axis=1)
    t = ((point - a) * along).sum(axis=1) / np.where(square > 0, square, 1.0)
    away = point - a - np.clip(t, 0.0, 1.0)[:, None] * along
    distance: FloatArray = np.hypot(away[:, 0], away[:, 1])
    return distance


def respace(points: FloatArray, branches: Branches, spacing: float) -> Resampling:
    """Equal intervals along each branch, as near to `spacing` as a whole number of them comes; end nodes stay.

    points (P,2): the coordinates at branches.nodes.
    """
    arc, length, _ = _arc_lengths(points, branches)
    total = arc[branches.last] - arc[branches.first]
    intervals = np.maximum(1, np.floor(total / spacing + 0.5).astype(np.intp))
    branch, rank = _ranks(intervals - 1)
    return _divided(arc, length, branches, branch, (rank + 1) / intervals[branch] * total[branch])


def grid_crossings(points: FloatArray, branches: Branches, spacing: float, apart: float) -> Resampling:
    """A node wherever a branch crosses a line of a grid, x or y = (k + ½)·spacing for whole k; end nodes stay.

    Crossings of one branch that follow each other within `apart` px along it count as one, in their middle, and those
    that near to an end as none. points (P,2): the coordinates at branches.nodes.
    """
    arc, length, step = _arc_lengths(points, branches)
    branch_of = np.repeat(np.arange(len(branches.first)), branches.last - branches.first + 1)
    branch, distance = [], []
    for axis in (0, 1):
        begin = points[:, axis] / spacing - 0.5
        end = begin + step[:, axis] / spacing
        low, high = np.minimum(begin, end), np.maximum(begin, end)
        segment, rank = _ranks((np.floor(high) - np.floor(low)).astype(np.intp))
        line = np.floor(low[segment]) + 1 + rank
        part = (line - begin[segment]) / (end - begin)[segment]
        branch.append(branch_of[segment])
        distance.append(arc[segment] + np.clip(part, 0.0, 1.0) * length[segment] - arc[branches.first[branch[-1]]])
    crossed, where = np.concatenate(branch), np.concatenate(distance)
    order = np.lexsort((where, crossed))
    crossed, where = crossed[order], where[order]
    begins = np.ones(len(where), dtype=bool)
    begins[1:] = (np.diff(crossed) != 0) | (np.diff(where) >= apart)
    group = np.cumsum(begins) - 1
    where = np.bincount(group, where) / np.maximum(np.bincount(group), 1)
    crossed = crossed[begins]
    total = arc[branches.last] - arc[branches.first]
    inner = (where >= apart) & (where <= total[crossed] - apart)
    return _divided(arc, length, branches, crossed[inner], where[inner])


def _arc_lengths(points: FloatArray, branches: Branches) -> tuple[FloatArray, FloatArray, FloatArray]:
    """At each point the arc length so far, over all branches, and the length and vector of the step to the next."""
    step = np.zeros_like(points)
    np.subtract(points[1:], points[:-1], out=step[:-1])
    step[branches.last] = 0.0
    length = np.hypot(step[:, 0], step[:, 1])
    arc = np.zeros(len(points))
    np.cumsum(length[:-1], out=arc[1:])
    return arc, length, step


def _ranks(count: IntArray) -> tuple[IntArray, IntArray]:
    """For count[k] things of each k: their k, and their number among those of the same k."""
    owner = np.repeat(np.arange(len(count)), count)
    first = np.concatenate([[0], np.cumsum(count)])
    return owner, np.arange(len(owner)) - first[owner]


def _divided(
    arc: FloatArray, length: FloatArray, branches: Branches, branch: IntArray, distance: FloatArray
) -> Resampling:
    """Branches with the inner nodes at these distances along them, in order of branch and distance."""
    total = arc[branches.last] - arc[branches.first]
    ends = np.unique(branches.nodes[np.concatenate([branches.first, branches.last])])
    intervals = np.bincount(branch, minlength=len(total)) + 1
    segment, t = _locate(arc, length, branches, branch, distance)
    i, j = branches.nodes[segment], branches.nodes[segment + 1]

    # Edges of branch k: its first node, its inner nodes, its last node, in a row.
    edge_branch, edge_rank = _ranks(intervals)
    inner_number = len(ends) + np.concatenate([[0], np.cumsum(intervals - 1)])[edge_branch] + edge_rank
    is_first, is_last = edge_rank == 0, edge_rank == intervals[edge_branch] - 1
    tail_number = np.searchsorted(ends, branches.nodes[branches.first])[edge_branch]
    head_number = np.searchsorted(ends, branches.nodes[branches.last])[edge_branch]
    tail = np.where(is_first, tail_number, inner_number - 1)
    head = np.where(is_last, head_number, inner_number)
    place = np.concatenate([distance, [0.0]])  # the last one is never looked at
    begin = np.where(is_first, 0.0, place[np.where(is_first, -1, inner_number - 1 - len(ends))])
    end = np.where(is_last, total[edge_branch], place[np.where(is_last, -1, inner_number - len(ends))])
    source = branches.edges[_locate(arc, length, branches, edge_branch, (begin + end) / 2)[0]]
    return Resampling(
        np.concatenate([ends, i]),
        np.concatenate([ends, j]),
        np.concatenate([np.zeros(len(ends)), t]),
        np.stack([tail, head], axis=1).astype(np.intp),
        source,
    )


def _locate(
    arc: FloatArray, length: FloatArray, branches: Branches, branch: IntArray, distance: FloatArray
) -> tuple[IntArray, FloatArray]:
    """The point before, and the fraction of the step after it, at a distance along a branch."""
    target = arc[branches.first[branch]] + distance
    segment = np.searchsorted(arc, target, side="right") - 1
    segment = np.clip(segment, branches.first[branch], branches.last[branch] - 1)
    step = length[segment]
    t = np.where(step > 0, (target - arc[segment]) / np.where(step > 0, step, 1.0), 0.0)
    return segment, np.clip(t, 0.0, 1.0)


def inside(nodes: FloatArray, left: float, top: float, right: float, bottom: float) -> BoolArray:
    """(N,) the nodes in a frame, whose border belongs to it."""
    x, y = nodes[:, 0], nodes[:, 1]
    within: BoolArray = (x >= left) & (x <= right) & (y >= top) & (y <= bottom)
    return within


def clip(nodes: FloatArray, edges: IntArray, left: float, top: float, right: float, bottom: float) -> Resampling:
    """Cut the graph at a frame (its border belongs to it), with a new node wherever an edge crosses.

    nodes (N,2) px. Liang-Barsky on all edges at once.
    """
    a, b = nodes[edges[:, 0]], nodes[edges[:, 1]]
    along = b - a
    enter, leave = np.zeros(len(edges)), np.ones(len(edges))
    for axis, (low, high) in enumerate(((left, right), (top, bottom))):
        for sign, bound in ((1.0, low), (-1.0, -high)):
            slope = sign * along[:, axis]
            gap = bound - sign * a[:, axis]  # inside where sign·x >= bound
            with np.errstate(divide="ignore", invalid="ignore"):
                t = gap / slope
            enter = np.where(slope > 0, np.maximum(enter, t), enter)
            leave = np.where(slope < 0, np.minimum(leave, t), leave)
            enter = np.where((slope == 0) & (gap > 0), np.inf, enter)
    stays = inside(nodes, left, top, right, bottom)
    # Rounding must not move an end that is inside, nor keep one that is outside.
    enter = np.where(stays[edges[:, 0]], 0.0, enter)
    leave = np.where(stays[edges[:, 1]], 1.0, leave)
    kept = np.flatnonzero(enter < leave)
    old = np.flatnonzero(stays)
    number = np.full(len(nodes), -1, dtype=np.intp)
    number[old] = np.arange(len(old))
    tail, head = number[edges[kept, 0]], number[edges[kept, 1]]
    new_tail, new_head = kept[tail < 0], kept[head < 0]
    tail[tail < 0] = len(old) + np.arange(len(new_tail))
    head[head < 0] = len(old) + len(new_tail) + np.arange(len(new_head))
    return Resampling(
        np.concatenate([old, edges[new_tail, 0], edges[new_head, 0]]),
        np.concatenate([old, edges[new_tail, 1], edges[new_head, 1]]),
        np.concatenate([np.zeros(len(old)), enter[new_tail], leave[new_head]]),
        np.stack([tail, head], axis=1),
        kept,
    )
