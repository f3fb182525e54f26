"""Walking a rooted forest: parents before children, sums along the way, and the cycle that makes it none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from treeformer._util.arrays import IntArray
from treeformer.skeleton.branches import adjacency
from treeformer.skeleton.validation import frozen


@dataclass(frozen=True)
class Traversal:
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


def traverse_forest(edges: IntArray, count: int, component_root: IntArray) -> Traversal:
    """Walk a graph without cycles from one base a connected piece; edges (E,2) over `count` nodes.

    The bases come in rising order, and so do the neighbors of a node: first those to which an edge leads, then those
    from which one comes.
    """
    # Lists, not scipy's breadth_first_order: to build its sparse matrix costs more than to walk the few hundred nodes
    # of a plant.
    by_ends = np.lexsort((edges[:, 1], edges[:, 0]))
    row_, to_, at_ = adjacency(edges[by_ends], count)
    row, to, at = row_.tolist(), to_.tolist(), by_ends[at_].tolist()
    order = np.sort(component_root).tolist()
    parents, edge = [-1] * count, [-1] * count
    for node in order:  # which grows on the way
        for slot in range(row[node], row[node + 1]):
            other = to[slot]
            if other != parents[node]:
                parents[other], edge[other] = node, at[slot]
                order.append(other)
    return Traversal(order, *(frozen(np.asarray(values, dtype=np.intp)) for values in (parents, edge)))


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
