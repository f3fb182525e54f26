"""Resample branches: drop points, simplify curves, or place nodes at equal intervals or grid crossings.

These functions take and return arrays; `treeformer.skeleton.attribute_transfer` carries the attributes along. A new
node is always a position on an old edge, (i, j, t) for (1 - t)·node i + t·node j, so that one rule carries over
coordinates, radii and scores.

`points` (P,2), px, are the coordinates of `branches.nodes`. Masks of points are (P,), and end points are always kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treeformer._util.arrays import BoolArray, FloatArray, IntArray
from treeformer._util.geometry import project_onto_segments
from treeformer.errors import SkeletonError
from treeformer.skeleton.branches import Branches

MAX_NEW_NODES = 10_000_000
# Above this, the number of a grid line is no exact float.
MAX_GRID_LINE = 2**52


@dataclass(frozen=True)
class Resampling:
    """A new graph whose nodes lie on the edges of an old one. M is the number of new nodes, E of new edges."""

    i: IntArray  # (M,) old node at one end of the old edge that a new node lies on
    j: IntArray  # (M,) old node at its other end
    t: FloatArray  # (M,) position on that edge: new node k lies at (1 - t[k])·old[i[k]] + t[k]·old[j[k]]
    edges: IntArray  # (E,2) pairs of new nodes
    source: IntArray  # (E,) the old edge that each new edge lies on (at its middle, if it replaces several)
    # old edges that each new edge replaces, as (old edges, offset of each new edge's first one) for
    # `numpy.ufunc.reduceat`; None if `source` says it all
    covers: tuple[IntArray, IntArray] | None = None


def thin(branches: Branches, keep: BoolArray) -> Resampling:
    """Drop inner points of branches; each run of edges between kept points becomes one straight edge."""
    keep = keep.copy()
    keep[branches.first] = keep[branches.last] = True
    at = np.flatnonzero(keep)
    kept_nodes = np.unique(branches.nodes[at])
    new_index = np.searchsorted(kept_nodes, branches.nodes)
    begins = np.flatnonzero(branches.edges[at] >= 0)  # the last point of a branch begins no edge
    edges = np.stack([new_index[at[begins]], new_index[at[begins + 1]]], axis=1)
    inner = branches.edges >= 0
    position = np.cumsum(inner) - 1  # rank of each old edge in branch order
    old = branches.edges[inner]
    offsets = position[at[begins]]
    middle = position[(at[begins] + at[begins + 1] - 1) // 2]
    zeros = np.zeros(len(kept_nodes))
    return Resampling(kept_nodes, kept_nodes, zeros, edges, old[middle], (old, offsets))


def with_isolated_nodes(resampling: Resampling, isolated: IntArray) -> Resampling:
    """Append nodes that no branch contains, given as old nodes (K,) of degree 0."""
    if len(isolated) == 0:
        return resampling
    return Resampling(
        np.concatenate([resampling.i, isolated]),
        np.concatenate([resampling.j, isolated]),
        np.concatenate([resampling.t, np.zeros(len(isolated))]),
        resampling.edges,
        resampling.source,
        resampling.covers,
    )


def douglas_peucker(points: FloatArray, branches: Branches, tolerance: float) -> BoolArray:
    """Simplify all branches at once with the Ramer-Douglas-Peucker algorithm; return which points (P,) to keep.

    It works in rounds instead of recursively. `tolerance` is the greatest distance of a dropped point from the branch,
    px.
    """
    keep = np.zeros(len(points), dtype=bool)
    keep[branches.first] = keep[branches.last] = True
    low, high = branches.first, branches.last
    while True:
        has_inner = high - low > 1
        low, high = low[has_inner], high[has_inner]
        if len(low) == 0:
            return keep
        size = high - low - 1
        offset = np.concatenate([[0], np.cumsum(size)[:-1]])
        stretch = np.repeat(np.arange(len(low)), size)
        inner = np.arange(size.sum()) - offset[stretch] + low[stretch] + 1
        _, distance = project_onto_segments(points[inner], points[low[stretch]], points[high[stretch]])
        worst = np.maximum.reduceat(distance, offset)
        is_worst = np.flatnonzero(distance == worst[stretch])
        split = np.full(len(low), -1, dtype=np.intp)
        split[stretch[is_worst[::-1]]] = inner[is_worst[::-1]]  # reversed: the first of equals is written last
        cut = worst > tolerance
        keep[split[cut]] = True
        low, high = np.concatenate([low[cut], split[cut]]), np.concatenate([split[cut], high[cut]])


def respace(points: FloatArray, branches: Branches, spacing: float) -> Resampling:
    """Place nodes at equal intervals along each branch: the whole number that comes nearest to `spacing`, px."""
    arc, length, _ = _arc_lengths(points, branches)
    total = arc[branches.last] - arc[branches.first]
    _check_node_count(float(total.sum()), spacing)
    intervals = np.maximum(1, np.floor(total / spacing + 0.5).astype(np.intp))
    branch, rank = _ranks(intervals - 1)
    return _divide(arc, length, branches, branch, (rank + 1) / intervals[branch] * total[branch])


def grid_crossings(points: FloatArray, branches: Branches, spacing: float, min_gap: float) -> Resampling:
    """Place a node wherever a branch crosses a grid line, x or y = (k + ½)·spacing for integer k; end nodes stay.

    Consecutive crossings of one branch less than `min_gap`, px, apart along it are merged into their mean, and
    crossings less than this from an end are dropped. A grid that is too fine for exact floats is an error.
    """
    arc, length, step = _arc_lengths(points, branches)
    _check_node_count(float(np.abs(step).sum()), spacing)
    if np.abs(points).max(initial=0.0) > MAX_GRID_LINE * spacing:
        raise SkeletonError(f"a grid of {spacing} px is too fine")
    branch_of = np.repeat(np.arange(len(branches.first)), branches.last - branches.first + 1)
    branch_parts, distance_parts = [], []
    for axis in (0, 1):
        begin = points[:, axis] / spacing - 0.5
        end = begin + step[:, axis] / spacing
        low, high = np.minimum(begin, end), np.maximum(begin, end)
        segment, rank = _ranks((np.floor(high) - np.floor(low)).astype(np.intp))
        line = np.floor(low[segment]) + 1 + rank
        t = (line - begin[segment]) / (end - begin)[segment]
        crossed = branch_of[segment]
        branch_parts.append(crossed)
        distance_parts.append(arc[segment] + np.clip(t, 0.0, 1.0) * length[segment] - arc[branches.first[crossed]])
    branch, distance = np.concatenate(branch_parts), np.concatenate(distance_parts)
    order = np.lexsort((distance, branch))
    branch, distance = branch[order], distance[order]
    begins_group = np.ones(len(distance), dtype=bool)
    begins_group[1:] = (np.diff(branch) != 0) | (np.diff(distance) >= min_gap)
    group = np.cumsum(begins_group) - 1
    distance = np.bincount(group, distance) / np.maximum(np.bincount(group), 1)
    branch = branch[begins_group]
    total = arc[branches.last] - arc[branches.first]
    inner = (distance >= min_gap) & (distance <= total[branch] - min_gap)
    return _divide(arc, length, branches, branch[inner], distance[inner])


def _check_node_count(length: float, spacing: float) -> None:
    if length > MAX_NEW_NODES * spacing:
        raise SkeletonError(f"a spacing of {spacing} px would make more than {MAX_NEW_NODES:,} nodes")


def _arc_lengths(points: FloatArray, branches: Branches) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the arc length at each point, summed over all branches, and the length and vector of the next step."""
    step = np.zeros_like(points)
    np.subtract(points[1:], points[:-1], out=step[:-1])
    step[branches.last] = 0.0
    length = np.hypot(step[:, 0], step[:, 1])
    arc = np.zeros(len(points))
    np.cumsum(length[:-1], out=arc[1:])
    return arc, length, step


def _ranks(count: IntArray) -> tuple[IntArray, IntArray]:
    """Repeat each index k `count[k]` times; return the indices and the rank of each among its equals."""
    owner = np.repeat(np.arange(len(count)), count)
    first = np.concatenate([[0], np.cumsum(count)])
    return owner, np.arange(len(owner)) - first[owner]


def _divide(
    arc: FloatArray, length: FloatArray, branches: Branches, branch: IntArray, distance: FloatArray
) -> Resampling:
    """Place inner nodes at these distances along branches, given in the order of branch and distance."""
    total = arc[branches.last] - arc[branches.first]
    ends = np.unique(branches.nodes[np.concatenate([branches.first, branches.last])])
    intervals = np.bincount(branch, minlength=len(total)) + 1
    segment, t = _locate(arc, length, branches, branch, distance)
    i, j = branches.nodes[segment], branches.nodes[segment + 1]

    # The edges of branch k join its first node, its inner nodes and its last node in a row.
    edge_branch, edge_rank = _ranks(intervals)
    inner_number = len(ends) + np.concatenate([[0], np.cumsum(intervals - 1)])[edge_branch] + edge_rank
    is_first, is_last = edge_rank == 0, edge_rank == intervals[edge_branch] - 1
    tail_number = np.searchsorted(ends, branches.nodes[branches.first])[edge_branch]
    head_number = np.searchsorted(ends, branches.nodes[branches.last])[edge_branch]
    tail = np.where(is_first, tail_number, inner_number - 1)
    head = np.where(is_last, head_number, inner_number)
    padded = np.concatenate([distance, [0.0]])  # `np.where` evaluates both sides; index -1 must exist
    begin = np.where(is_first, 0.0, padded[np.where(is_first, -1, inner_number - 1 - len(ends))])
    end = np.where(is_last, total[edge_branch], padded[np.where(is_last, -1, inner_number - len(ends))])
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
    """Find a distance along a branch: the point before it, and the fraction of the step that begins there."""
    target = arc[branches.first[branch]] + distance
    segment = np.searchsorted(arc, target, side="right") - 1
    segment = np.clip(segment, branches.first[branch], branches.last[branch] - 1)
    step = length[segment]
    t = np.where(step > 0, (target - arc[segment]) / np.where(step > 0, step, 1.0), 0.0)
    return segment, np.clip(t, 0.0, 1.0)
