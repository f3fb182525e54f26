"""Represent a graph by its branches, in an order that depends on geometry alone.

The result does not depend on the numbering of nodes, or on the order and direction of edges. Nodes of degree 2 do not
matter either: a branch is one curve, however many nodes lie on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from treeformer._util.arrays import FloatArray, IntArray
from treeformer.skeleton.branches import trace
from treeformer.skeleton.connectivity import components
from treeformer.skeleton.traversal import traverse_forest

# A chord shorter than this fraction of its arc is rounding noise and has no direction.
CLOSED_CHORD = 1e-9
# Largest number of nodes for which all path lengths are kept in memory (200 MB).
LARGEST_TABLE = 5000


@dataclass(frozen=True)
class Curves:
    """All branches between nodes of degree ≠ 2, concatenated. A ring is one branch.

    Branches of length 0 are omitted, and so are branches too short to change the cumulative length `arc`: their ends
    are one node. All lengths have the unit of the nodes.
    """

    points: FloatArray  # (P,2), of all branches
    first: IntArray  # (B,) index of the first point of each branch
    last: IntArray  # (B,) index of the last point of each branch, inclusive
    # (P,) cumulative length up to each point, over all branches. The jump between two branches adds nothing.
    arc: FloatArray
    ends: IntArray  # (B,2) nodes at both ends of each branch, numbered from 0 to `node_count` - 1
    node_count: int  # number of distinct end nodes

    @classmethod
    def from_graph(cls, nodes: FloatArray, edges: IntArray) -> Curves:
        """Trace the branches of a graph: nodes (N,2) in any one unit, edges (E,2)."""
        rank = np.empty(len(nodes), dtype=np.intp)
        order = np.lexsort((nodes[:, 1], nodes[:, 0]))
        rank[order] = np.arange(len(nodes))
        nodes = nodes[order]
        edges = np.sort(rank[edges], axis=1)
        edges = edges[np.lexsort((edges[:, 1], edges[:, 0]))]
        degree = np.bincount(edges.ravel(), minlength=len(nodes))
        branches = trace(edges, len(nodes), degree != 2)

        points = nodes[branches.nodes]
        branch = np.repeat(np.arange(len(branches.start) - 1), np.diff(branches.start))
        step = _step_lengths(points)
        step[branches.last[:-1]] = 0.0  # the jump to the next branch
        arc = _cumulative(step, len(points))
        kept = arc[branches.last] > arc[branches.first]
        point_kept = kept[branch]
        new_index = np.cumsum(point_kept) - 1
        points = points[point_kept]
        first, last = new_index[branches.first[kept]], new_index[branches.last[kept]]
        step = _step_lengths(points)
        step[last[:-1]] = 0.0
        arc = _cumulative(step, len(points))
        end_nodes = np.stack([branches.nodes[branches.first], branches.nodes[branches.last]], axis=1)
        joined = components(end_nodes[~kept], len(nodes))
        distinct, ends = np.unique(joined[end_nodes[kept]], return_inverse=True)
        return cls(points, first, last, arc, ends.reshape(-1, 2), len(distinct))

    def __len__(self) -> int:
        return len(self.first)

    @property
    def length(self) -> FloatArray:
        """(B,) length of each branch."""
        return self.arc[self.last] - self.arc[self.first]

    @property
    def segments(self) -> IntArray:
        """Indices of the points at which straight segments begin."""
        begins = np.ones(len(self.points), dtype=bool)
        begins[self.last] = False
        return np.flatnonzero(begins)

    @property
    def branch_of_point(self) -> IntArray:
        """(P,) branch of each point."""
        return np.repeat(np.arange(len(self)), self.last - self.first + 1)

    def at(self, branch: IntArray, distance: FloatArray) -> FloatArray:
        """Return the points (M,2) at distances (M,) from the first points of branches (M,), at most their lengths."""
        segment, t = self._locate(branch, distance)
        return self.points[segment] + t[:, None] * (self.points[segment + 1] - self.points[segment])

    def direction(self, branch: IntArray, distance: FloatArray, window: float) -> FloatArray:
        """Return the directions (M,2), unit vectors, at distances (M,) from the first points of branches (M,).

        The direction is that of the chord from `window` before to `window` after the place, cut at the branch's ends.
        If that chord has no length (a small ring, a hairpin), the direction is that of the straight segment.
        """
        start, end = np.maximum(distance - window, 0.0), np.minimum(distance + window, self.length[branch])
        chord = self.at(branch, end) - self.at(branch, start)
        size = np.hypot(chord[:, 0], chord[:, 1])
        closed = np.flatnonzero(size <= CLOSED_CHORD * (end - start))
        segment, _ = self._locate(branch[closed], distance[closed])
        chord[closed] = self.points[segment + 1] - self.points[segment]
        size[closed] = np.hypot(chord[closed, 0], chord[closed, 1])
        return chord / np.where(size > 0, size, 1.0)[:, None]

    def paths(self, sources: IntArray, limit: float) -> FloatArray:
        """Return path lengths (S,node_count) from end nodes (S,) to all; those above `limit` may be infinite."""
        if self._all_paths is not None:
            return self._all_paths[sources]
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import dijkstra

        # Of several branches between two nodes, use the shortest. A sparse matrix would add their lengths.
        low, high = self.ends.min(axis=1), self.ends.max(axis=1)
        order = np.lexsort((self.length, high, low))
        order = order[np.unique(low[order] * self.node_count + high[order], return_index=True)[1]]
        low, high, length = low[order], high[order], self.length[order]
        both = (np.concatenate([length, length]), (np.concatenate([low, high]), np.concatenate([high, low])))
        network = csr_array(both, shape=(self.node_count, self.node_count))
        paths: FloatArray = dijkstra(network, indices=sources, limit=limit)
        return paths

    @cached_property
    def _all_paths(self) -> FloatArray | None:
        """(node_count,node_count) path lengths, or None if the graph has a cycle or is too large."""
        component = components(self.ends, self.node_count)
        if len(self) != self.node_count - (component.max(initial=-1) + 1) or self.node_count > LARGEST_TABLE:
            return None
        component_root = np.unique(component, return_index=True)[1].astype(np.intp)
        traversal = traverse_forest(self.ends, self.node_count, component_root)
        rank = np.empty(self.node_count, dtype=np.intp)
        rank[traversal.order] = np.arange(self.node_count)
        # In traversal order, the distance of a node to earlier nodes is its parent's distance plus one branch.
        table = np.full((self.node_count, self.node_count), np.inf)
        for index, node in enumerate(traversal.order):
            table[index, index] = 0.0
            if traversal.parents[node] >= 0:
                parent = rank[traversal.parents[node]]
                table[index, :index] = table[parent, :index] + self.length[traversal.edge[node]]
                table[:index, index] = table[index, :index]
        return table[np.ix_(rank, rank)]

    def _locate(self, branch: IntArray, distance: FloatArray) -> tuple[IntArray, FloatArray]:
        """Return the index of the point before each place, and the fraction of the segment that follows it."""
        target = self.arc[self.first[branch]] + distance
        segment = np.searchsorted(self.arc, target, side="right") - 1
        segment = np.clip(segment, self.first[branch], self.last[branch] - 1)
        step = self.arc[segment + 1] - self.arc[segment]
        return segment, np.clip((target - self.arc[segment]) / np.where(step > 0, step, 1.0), 0.0, 1.0)


def _cumulative(step: FloatArray, count: int) -> FloatArray:
    """Return the (count,) lengths up to each point from the lengths of the steps between them."""
    return np.concatenate([[0.0], np.cumsum(step)]) if count else np.zeros(0)


def _step_lengths(points: FloatArray) -> FloatArray:
    step = np.diff(points, axis=0)
    return np.hypot(step[:, 0], step[:, 1])
