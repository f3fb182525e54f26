"""Walking a rooted forest: parents before children, sums along the way, and the cycle that makes it none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order

from treeformer.axes import IntArray
from treeformer.branches import adjacency
from treeformer.checks import frozen


@dataclass(frozen=True)
class Walk:
    """Breadth-first from the bases.

    order: all nodes, parents before children; parents (N,), -1 at bases; edge (N,) the edge to the parent, -1 at bases.
    """

    order: list[int]
    parents: IntArray
    edge: IntArray

    def summed(self, step: Sequence[float]) -> list[float]:
        """For each node the sum of `step` (E,) over the edges between it and its base."""
        parents, edge = self.parents.tolist(), self.edge.tolist()
        total: list[float] = [0] * len(self.order)
        for node in self.order:
            if parents[node] >= 0:
                total[node] = total[parents[node]] + step[edge[node]]
        return total


def walk_forest(edges: IntArray, count: int, bases: IntArray) -> Walk:
    """Walk a graph without cycles from one base a connected piece; edges (E,2) over `count` nodes."""
    if count == 0:
        return Walk([], bases, bases)
    # A virtual node joined to every base makes the forest one tree.
    virtual = np.stack([np.full(len(bases), count), bases], axis=1)
    pairs = np.concatenate([edges, virtual])
    graph = csr_array((np.ones(len(pairs), dtype=np.int8), (pairs[:, 0], pairs[:, 1])), shape=(count + 1,) * 2)
    order, before = breadth_first_order(graph, count, directed=False)
    parents = before[:count].astype(np.intp)
    parents[bases] = -1
    first, second = edges[:, 0], edges[:, 1]
    child = np.where(parents[second] == first, second, first)
    edge = np.full(count, -1, dtype=np.intp)
    edge[child] = np.arange(len(edges))
    return Walk(order[1:].tolist(), frozen(parents), frozen(edge))


def node_on_a_cycle(edges: IntArray, count: int) -> int:
    """The lowest node left when leaves are taken off again and again: on a cycle, or between two. There must be one."""
    row, to, _ = adjacency(edges, count)
    degree = np.diff(row)
    leaves = np.flatnonzero(degree == 1).tolist()
    while leaves:
        leaf = leaves.pop()
        degree[leaf] = 0
        for other in to[row[leaf] : row[leaf + 1]].tolist():
            degree[other] -= 1
            if degree[other] == 1:
                leaves.append(other)
    return int(np.flatnonzero(degree >= 2)[0])
