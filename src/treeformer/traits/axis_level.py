"""Traits of axes: a row each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from treeformer._util.arrays import FloatArray, IntArray
from treeformer.skeleton import Skeleton
from treeformer.traits.lines import Lines, angle_between, angle_from_gravity

if TYPE_CHECKING:
    import pandas as pd


def axis_table(skeleton: Skeleton) -> pd.DataFrame:
    """A row an axis, in px and degrees, with `plant`, `axis`, its id, label and parent in front."""
    import pandas as pd

    axes = skeleton.axes
    lines = Lines.along(axes, skeleton.nodes)
    parent = np.asarray([-1 if axis.parent is None else axis.parent for axis in axes], dtype=np.intp)
    return pd.DataFrame(
        {
            "plant": _plant_of_axis(skeleton),
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


def _plant_of_axis(skeleton: Skeleton) -> IntArray:
    """(A,) the plant of each axis's first node; what the record says where it has no nodes."""
    plant = skeleton.plant_of_node.tolist()
    return np.asarray([plant[a.nodes[0]] if a.nodes else a.plant for a in skeleton.axes], dtype=np.intp)


def _direction_of_parent(skeleton: Skeleton, parent: IntArray) -> FloatArray:
    """(A,2) the way each axis's parent goes where the axis leaves it; NaN without a parent, or where they do not meet.

    It is the vector from the node before that place to the node after it on the parent.
    parent (A,): the index of each axis's parent axis, -1 for none.
    """
    direction = np.full((len(parent), 2), np.nan)
    lateral = np.asarray([k for k, axis in enumerate(skeleton.axes) if axis.parent is not None and axis.nodes], np.intp)
    mother = parent[lateral]
    base = np.asarray([skeleton.axes[axis].nodes[0] for axis in lateral], dtype=np.intp)
    steps = _StepsOfAxes(skeleton)
    # A lateral begins on its parent, or one edge beside it where the reader added a junction.
    meets = (steps.before(base, mother) >= 0) | (steps.after(base, mother) >= 0)
    place = np.where(meets | (skeleton.parents[base] < 0), base, skeleton.parents[base])
    before, after = steps.before(place, mother), steps.after(place, mother)
    before, after = np.where(before >= 0, before, place), np.where(after >= 0, after, place)
    direction[lateral] = skeleton.nodes[after] - skeleton.nodes[before]
    return direction


class _StepsOfAxes:
    """For a node and an axis, the neighbors of the node along edges of that axis, -1 where there is none."""

    def __init__(self, skeleton: Skeleton) -> None:
        self._parents = skeleton.parents
        self._axis_count = len(skeleton.axes)
        first, second = skeleton.edges[:, 0], skeleton.edges[:, 1]
        lower = np.where(skeleton.parents[second] == first, second, first)
        self._axis_above = np.full(len(skeleton.nodes), -1, dtype=np.intp)  # of the edge to the parent node
        self._axis_above[lower] = skeleton.edge_axis
        key = self._key(skeleton.parents[lower], skeleton.edge_axis)
        order = np.argsort(key, kind="stable")
        self._sorted_key, self._lower = key[order], lower[order]

    def _key(self, node: IntArray, axis: IntArray) -> IntArray:
        return node * (self._axis_count + 1) + axis + 1

    def before(self, node: IntArray, axis: IntArray) -> IntArray:
        return np.where(self._axis_above[node] == axis, self._parents[node], -1)

    def after(self, node: IntArray, axis: IntArray) -> IntArray:
        if len(self._lower) == 0:
            return np.full(len(node), -1, dtype=np.intp)
        key = self._key(node, axis)
        at = np.minimum(np.searchsorted(self._sorted_key, key), len(self._lower) - 1)
        return np.where(self._sorted_key[at] == key, self._lower[at], -1)
