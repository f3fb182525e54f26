"""What follows from a skeleton's edges and roots alone, worked out once for all skeletons that share them.

A plant that is moved, turned or scaled keeps its pieces, its walk and its branches: `Skeleton` hands them on.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from treeformer._util.arrays import BoolArray, IntArray
from treeformer.errors import SkeletonError
from treeformer.skeleton import branches as br
from treeformer.skeleton.traversal import Traversal, node_on_a_cycle, traverse_forest
from treeformer.skeleton.validation import frozen


class Topology:
    """Edges (E,2) over `count` nodes, roots (R,) and, where a file gave axes, the axis (E,) of each edge."""

    def __init__(self, edges: IntArray, count: int, roots: IntArray, edge_axis: IntArray | None) -> None:
        self.edges = edges
        self.count = count
        self.roots = roots
        self.edge_axis = edge_axis

    @cached_property
    def degree(self) -> IntArray:
        """See `Skeleton.degree`."""
        return frozen(np.bincount(self.edges.ravel(), minlength=self.count).astype(np.intp))

    @cached_property
    def component(self) -> IntArray:
        """See `Skeleton.piece`."""
        return frozen(br.components(self.edges, self.count))

    @cached_property
    def is_forest(self) -> bool:
        """See `Skeleton.is_forest`."""
        pieces = int(self.component.max()) + 1 if self.count else 0
        return len(self.edges) == self.count - pieces

    @cached_property
    def component_root(self) -> IntArray:
        """See `Skeleton.bases`."""
        if self.count == 0:
            return frozen(np.zeros(0, dtype=np.intp))
        base = np.unique(self.component, return_index=True)[1].astype(np.intp)
        base[self.component[self.roots]] = self.roots
        return frozen(base)

    @cached_property
    def traversal(self) -> Traversal:
        """See `Skeleton.walk`."""
        if not self.is_forest:
            node = node_on_a_cycle(self.edges, self.count)
            raise SkeletonError(f"node {node} lies on a cycle: this needs a tree or a forest")
        return traverse_forest(self.edges, self.count, self.component_root)

    @cached_property
    def depth(self) -> IntArray:
        """See `Skeleton.depth`."""
        return frozen(np.asarray(self.traversal.summed([1] * len(self.edges)), dtype=np.intp))

    @cached_property
    def is_keypoint(self) -> BoolArray:
        """See `Skeleton.is_keypoint`."""
        key = self.degree != 2
        key[self.roots] = True
        if self.edge_axis is not None:
            key |= br.changes_at(self.edge_axis, self.edges, self.count)
        if not self.is_forest:
            key[br.cycle_breakers(br.trace(self.edges, self.count, key))] = True
        return frozen(key)

    @cached_property
    def branches(self) -> br.Branches:
        """See `Skeleton.branches`."""
        order = self.traversal.order if self.is_forest else None
        return br.trace(self.edges, self.count, self.is_keypoint, order)
