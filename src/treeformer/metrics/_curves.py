"""A graph as the curves it is made of: its branches, in an order that depends on geometry alone.

The numbering of nodes, the order of edges and their direction leave no trace here, and neither do nodes of degree 2:
a branch is one curve, however many nodes it has along it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from treeformer._util.arrays import FloatArray, IntArray
from treeformer.skeleton.branches import components, trace
from treeformer.skeleton.traversal import traverse_forest

# A chord shorter than this part of the curve above it is rounding noise, not a direction.
CLOSED_CHORD = 1e-9
# Nodes up to which the path lengths between all of them are kept in memory (200 MB).
LARGEST_TABLE = 5000


@dataclass(frozen=True)
class Curves:
    """All branches between nodes of degree ≠ 2, laid end to end, but for those without length; a ring is one branch.

    points (P,2); branch k holds points[first[k]] to points[last[k]], both ends included.
    arc (P,): the length of the curve up to each point, over all branches; the jump from one to the next counts nothing.
    ends (B,2): the nodes at both ends of each branch, numbered from 0 to node_count - 1.
    """

    points: FloatArray
    first: IntArray
    last: IntArray
    arc: FloatArray
    ends: IntArray
    node_count: int

    @classmethod
    def of(cls, nodes: FloatArray, edges: IntArray) -> Curves:
        """The curves of a graph; nodes (N,2) in any one unit, edges (E,2)."""
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
        step = _lengths(points)
        step[branches.last[:-1]] = 0.0  # the jump to the next branch
        length = np.bincount(branch[: len(step)], weights=step, minlength=len(branches.start) - 1)
        kept = length > 0
        inside = kept[branch]
        number = np.cumsum(inside) - 1
        points = points[inside]
        first, last = number[branches.first[kept]], number[branches.last[kept]]
        step = _lengths(points)
        step[last[:-1]] = 0.0
        arc = np.concatenate([[0.0], np.cumsum(step)]) if len(points) else np.zeros(0)
        end_nodes = np.stack([branches.nodes[branches.first[kept]], branches.nodes[branches.last[kept]]], axis=1)
        numbered, ends = np.unique(end_nodes, return_inverse=True)
        return cls(points, first, last, arc, ends.reshape(-1, 2), len(numbered))

    def __len__(self) -> int:
        return len(self.first)

    @property
    def length(self) -> FloatArray:
        """(B,) the length of each branch."""
        return self.arc[self.last] - self.arc[self.first]

    @property
    def segments(self) -> IntArray:
        """The points at which the straight segments begin."""
        begins = np.ones(len(self.points), dtype=bool)
        begins[self.last] = False
        return np.flatnonzero(begins)

    @property
    def branch_of_point(self) -> IntArray:
        """(P,) the branch of each point."""
        return np.repeat(np.arange(len(self)), self.last - self.first + 1)

    def at(self, branch: IntArray, distance: FloatArray) -> FloatArray:
        """(M,2) the points at a distance along a branch, between 0 and its length."""
        segment, t = self._locate(branch, distance)
        return self.points[segment] + t[:, None] * (self.points[segment + 1] - self.points[segment])

    def direction(self, branch: IntArray, distance: FloatArray, window: float) -> FloatArray:
        """(M,2) unit vectors: the chord of the curve from `window` before to `window` after, cut at the branch's ends.

        Where such a chord has no length (a small ring, a hairpin), the straight segment there gives the direction.
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
        """(S,node_count) path lengths from some of the nodes to all; beyond the limit they may be infinite."""
        if self._all_paths is not None:
            return self._all_paths[sources]
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import dijkstra

        # Of several branches between two nodes the shortest counts; a sparse matrix would add them up.
        low, high = self.ends.min(axis=1), self.ends.max(axis=1)
        order = np.lexsort((self.length, high, low))
        order = order[np.unique(low[order] * self.node_count + high[order], return_index=True)[1]]
        low, high, length = low[order], high[order], self.length[order]
        both = (np.concatenate([length, length]), (np.concatenate([low, high]), np.concatenate([high, low])))
        network = csr_array(both, shape=(self.node_count, self.node_count))
        found: FloatArray = dijkstra(network, indices=sources, limit=limit)
        return found

    @cached_property
    def _all_paths(self) -> FloatArray | None:
        """(node_count,node_count) path lengths in a forest that is not too large, else None."""
        pieces = components(self.ends, self.node_count)
        if len(self) != self.node_count - (pieces.max(initial=-1) + 1) or self.node_count > LARGEST_TABLE:
            return None
        component_root = np.unique(pieces, return_index=True)[1].astype(np.intp)
        traversal = traverse_forest(self.ends, self.node_count, component_root)
        rank = np.empty(self.node_count, dtype=np.intp)
        rank[traversal.order] = np.arange(self.node_count)
        # In the order of the walk: a node is as far from those before it as its parent is, and one branch more.
        table = np.full((self.node_count, self.node_count), np.inf)
        for here, node in enumerate(traversal.order):
            table[here, here] = 0.0
            if traversal.parents[node] >= 0:
                parent = rank[traversal.parents[node]]
                table[here, :here] = table[parent, :here] + self.length[traversal.edge[node]]
                table[:here, here] = table[here, :here]
        return table[np.ix_(rank, rank)]

    def _locate(self, branch: IntArray, distance: FloatArray) -> tuple[IntArray, FloatArray]:
        """The point before, and the fraction of the segment after it."""
        target = self.arc[self.first[branch]] + distance
        segment = np.searchsorted(self.arc, target, side="right") - 1
        segment = np.clip(segment, self.first[branch], self.last[branch] - 1)
        step = self.arc[segment + 1] - self.arc[segment]
        return segment, np.clip((target - self.arc[segment]) / np.where(step > 0, step, 1.0), 0.0, 1.0)


def _lengths(points: FloatArray) -> FloatArray:
    step = np.diff(points, axis=0)
    return np.hypot(step[:, 0], step[:, 1])
