"""Properties that depend on a skeleton's edges and roots only, computed once for all skeletons that share them.

Moving, rotating or scaling a plant keeps its components, its traversal and its branches: `Skeleton` passes them on.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from treeformer._util.arrays import BoolArray, IntArray
from treeformer.errors import SkeletonError
from treeformer.skeleton.branches import Branches, changes_at, cycle_breakers, trace
from treeformer.skeleton.connectivity import components
from treeformer.skeleton.traversal import Traversal, node_on_a_cycle, traverse_forest
from treeformer.skeleton.validation import frozen


class Topology:
    """The lazily computed topology of a graph: edges (E,2), and roots (R,), at most one per component.

    `edge_axis` (E,) is None if no file gave axes.
    """

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
        """See `Skeleton.component`."""
        return frozen(components(self.edges, self.count))

    @cached_property
    def is_forest(self) -> bool:
        """See `Skeleton.is_forest`."""
        component_count = int(self.component.max()) + 1 if self.count else 0
        return len(self.edges) == self.count - component_count

    @cached_property
    def component_root(self) -> IntArray:
        """See `Skeleton.component_root`."""
        if self.count == 0:
            return frozen(np.zeros(0, dtype=np.intp))
        # Components are numbered by their lowest node: a number that is higher than all before is a new component.
        highest = np.maximum.accumulate(self.component)
        root = np.searchsorted(highest, np.arange(highest[-1] + 1))
        root[self.component[self.roots]] = self.roots
        return frozen(root)

    @cached_property
    def traversal(self) -> Traversal:
        """See `Skeleton.traversal`."""
        if not self.is_forest:
            node = node_on_a_cycle(self.edges, self.count)
            raise SkeletonError(f"node {node} lies on a cycle: this operation needs a tree or a forest")
        return traverse_forest(self.edges, self.count, self.component_root)

    @cached_property
    def depth(self) -> IntArray:
        """See `Skeleton.depth`."""
        return frozen(np.asarray(self.traversal.sum_from_root([1] * len(self.edges)), dtype=np.intp))

    @cached_property
    def is_keypoint(self) -> BoolArray:
        """See `Skeleton.is_keypoint`."""
        is_keypoint = self.degree != 2
        is_keypoint[self.roots] = True
        if self.edge_axis is not None:
            is_keypoint |= changes_at(self.edge_axis, self.edges, self.count)
        if not self.is_forest:
            is_keypoint[cycle_breakers(trace(self.edges, self.count, is_keypoint))] = True
        return frozen(is_keypoint)

    @cached_property
    def branches(self) -> Branches:
        """See `Skeleton.branches`."""
        order = self.traversal.order if self.is_forest else None
        return trace(self.edges, self.count, self.is_keypoint, order)
