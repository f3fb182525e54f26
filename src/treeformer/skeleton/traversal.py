"""Traverse rooted forests: parents before children, sums along paths, and detection of cycles.

Edges are (E,2) node indices, and `count` is the number of nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from treeformer._util.arrays import IntArray
from treeformer.skeleton.connectivity import adjacency
from treeformer.skeleton.validation import frozen


@dataclass(frozen=True)
class Traversal:
    """A breadth-first traversal from the component roots."""

    order: list[int]  # all nodes, parents before children
    parents: IntArray  # (N,) parent of each node, -1 at component roots
    edge: IntArray  # (N,) edge between each node and its parent, -1 at component roots

    def sum_from_root(self, edge_values: Sequence[float]) -> list[float]:
        """Return, for each node, the sum of `edge_values` (E,) over the edges between it and its component root."""
        parents, edge = self.parents.tolist(), self.edge.tolist()
        total: list[float] = [0] * len(self.order)
        for node in self.order:
            if parents[node] >= 0:
                total[node] = total[parents[node]] + edge_values[edge[node]]
        return total


def traverse_forest(edges: IntArray, count: int, component_root: IntArray) -> Traversal:
    """Traverse a graph without cycles, breadth first, from one root (C,) per connected component.

    Component roots are visited in ascending order. So are the neighbors of a node: first those that its edges lead to,
    then those that edges to it come from.
    """
    # Lists instead of scipy's breadth_first_order: building its sparse matrix costs more than visiting the few hundred
    # nodes of a plant.
    by_ends = np.lexsort((edges[:, 1], edges[:, 0]))
    row_, to_, at_ = adjacency(edges[by_ends], count)
    row, to, at = row_.tolist(), to_.tolist(), by_ends[at_].tolist()
    order = np.sort(component_root).tolist()
    parents, edge = [-1] * count, [-1] * count
    for node in order:  # the loop appends to the list it iterates over
        for slot in range(row[node], row[node + 1]):
            neighbor = to[slot]
            if neighbor != parents[node]:
                parents[neighbor], edge[neighbor] = node, at[slot]
                order.append(neighbor)
    return Traversal(order, *(frozen(np.asarray(values, dtype=np.intp)) for values in (parents, edge)))


def node_on_a_cycle(edges: IntArray, count: int) -> int:
    """Return the lowest node that remains after repeatedly removing leaves: one on a cycle, or between two cycles.

    The graph has at least one cycle.
    """
    row, to, _ = adjacency(edges, count)
    degree = np.diff(row)
    leaves = np.flatnonzero(degree == 1).tolist()
    while leaves:
        leaf = leaves.pop()
        degree[leaf] = 0
        for neighbor in to[row[leaf] : row[leaf + 1]].tolist():
            degree[neighbor] -= 1
            if degree[neighbor] == 1:
                leaves.append(neighbor)
    return int(np.flatnonzero(degree >= 2)[0])
