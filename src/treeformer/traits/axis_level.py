"""Compute the traits of axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from treeformer._util.arrays import FloatArray, IntArray
from treeformer.skeleton import Skeleton
from treeformer.skeleton.axes import plants_of_axes
from treeformer.traits.lines import Lines, angle_between, angle_from_gravity

if TYPE_CHECKING:
    import pandas as pd


def axis_table(skeleton: Skeleton) -> pd.DataFrame:
    """Return one row per axis, in px and degrees. `plant`, `axis`, its id, label and parent come first."""
    import pandas as pd

    axes = skeleton.axes
    lines = Lines.from_axes(axes, skeleton.nodes)
    parent = np.asarray([-1 if axis.parent is None else axis.parent for axis in axes], dtype=np.intp)
    return pd.DataFrame(
        {
            "plant": plants_of_axes(axes, skeleton.plant_of_node),
            "axis": np.arange(len(axes)),
            "axis_id": pd.Series([axis.id for axis in axes], dtype=str),
            "axis_label": pd.Series([axis.label for axis in axes], dtype=str),
            "parent_axis": parent,
            "order": skeleton.axis_order,
            "length": lines.length,
            "chord_length": lines.chord_length,
            "emergence_angle": angle_from_gravity(lines.first_step),
            "tip_angle": angle_from_gravity(lines.last_step),
            "chord_angle": lines.chord_angle,
            "branching_angle": angle_between(lines.first_step, _direction_of_parent(skeleton, parent)),
            "curve_index": lines.curve_index,
            "tortuosity": lines.tortuosity,
            "lateral_count": np.bincount(parent[parent >= 0], minlength=len(axes)),
        }
    )


def _direction_of_parent(skeleton: Skeleton, parent: IntArray) -> FloatArray:
    """Return the direction (A,2) of each axis's parent at the branching node, NaN without a parent or a common node.

    The direction is the vector from the node before the branching node to the node after it on the parent.
    """
    direction = np.full((len(parent), 2), np.nan)
    lateral = np.asarray([k for k, axis in enumerate(skeleton.axes) if axis.parent is not None and axis.nodes], np.intp)
    parent_axis = parent[lateral]
    base = np.asarray([skeleton.axes[axis].nodes[0] for axis in lateral], dtype=np.intp)
    neighbors = _AxisNeighbors(skeleton)
    # A lateral begins on its parent, or one edge away from it if the reader added a junction.
    is_on_parent = (neighbors.before(base, parent_axis) >= 0) | (neighbors.after(base, parent_axis) >= 0)
    node = np.where(is_on_parent | (skeleton.parents[base] < 0), base, skeleton.parents[base])
    before, after = neighbors.before(node, parent_axis), neighbors.after(node, parent_axis)
    before, after = np.where(before >= 0, before, node), np.where(after >= 0, after, node)
    direction[lateral] = skeleton.nodes[after] - skeleton.nodes[before]
    return direction


class _AxisNeighbors:
    """Look up the neighbors of a node along the edges of an axis, -1 if there is none."""

    def __init__(self, skeleton: Skeleton) -> None:
        self._parents = skeleton.parents
        self._axis_count = len(skeleton.axes)
        first, second = skeleton.edges[:, 0], skeleton.edges[:, 1]
        child = np.where(skeleton.parents[second] == first, second, first)
        self._parent_edge_axis = np.full(len(skeleton.nodes), -1, dtype=np.intp)  # of the edge to the parent node
        self._parent_edge_axis[child] = skeleton.edge_axis
        key = self._key(skeleton.parents[child], skeleton.edge_axis)
        order = np.argsort(key, kind="stable")
        self._sorted_key, self._child = key[order], child[order]

    def _key(self, node: IntArray, axis: IntArray) -> IntArray:
        return node * (self._axis_count + 1) + axis + 1

    def before(self, node: IntArray, axis: IntArray) -> IntArray:
        return np.where(self._parent_edge_axis[node] == axis, self._parents[node], -1)

    def after(self, node: IntArray, axis: IntArray) -> IntArray:
        if len(self._child) == 0:
            return np.full(len(node), -1, dtype=np.intp)
        key = self._key(node, axis)
        index = np.minimum(np.searchsorted(self._sorted_key, key), len(self._child) - 1)
        return np.where(self._sorted_key[index] == key, self._child[index], -1)
