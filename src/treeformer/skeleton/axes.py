"""Axes (a tap root, a lateral, a limb) and plants: the records that files give, and a rule that infers missing axes.

The rule: going away from the root, an axis continues at each branching along the straightest continuation; ties go to
the longer one. Every other edge there begins a new axis of the next order. A root node has no incoming direction, so
every edge that leaves it begins an axis of order 0.

In graphs that are not exact, such as predictions, short edges at a crown or between two laterals point in any
direction, and the straightest continuation may be a lateral. With `min_reach_fraction`, a continuation is a candidate
only if the longest path along it is at least that fraction of the longest path along any of them.

`nodes` are (N,2) px. `parents` (N,) has the parent of each node, -1 at roots, and `traversal` all nodes, parents before
children. `edge_axis` has an index into `axes` per edge, -1 for none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from treeformer._util.arrays import FloatArray, IntArray
from treeformer._util.text import short_repr
from treeformer.errors import SkeletonError

# Two continuations whose directions differ by less than this (in cosine) are a tie: the longer one wins.
STRAIGHTNESS_TIE = 1e-9


@dataclass(frozen=True, slots=True)
class AxisFunction:
    """A value along an axis, as in RSML (`diameter`, `confidence`, …).

    Attributes:
        name: name of the value.
        samples: the values.
        domain: "polyline" if sample k belongs to point k of the axis, "uniform" for equal steps along the axis.
        origin: the `origin` attribute in the file.
        positions: position of each sample if the file states it, None otherwise.

    Example:
        >>> AxisFunction("diameter", (4.0, 3.0, 2.0)).is_by_point
        True
    """

    name: str
    samples: tuple[float, ...]
    domain: str = "polyline"
    origin: str = ""
    positions: tuple[float, ...] | None = None

    @property
    def is_by_point(self) -> bool:
        """True if sample k belongs to point k of the axis."""
        return self.domain == "polyline" and self.positions is None


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis: its nodes from base to tip, and its record in the file.

    Attributes:
        nodes: the points of the file's own polyline, in order. They need not cover every edge that carries this axis in
            `Skeleton.edge_axis`: if the first point of a lateral lies off its parent's polyline, the reader adds a
            junction node on that polyline and an edge to it, and neither is in `nodes`.
        id: identifier in the file.
        label: name in the file.
        accession: ontology term in the file.
        parent: index of the parent axis in `Skeleton.axes`, None for order 0.
        plant: index into `Skeleton.plant_records`.
        properties: further properties in the file.
        functions: values along the axis.
        metadata: anything that JSON can hold.

    Example:
        >>> Axis(nodes=(1, 5), label="lateral", parent=0).nodes
        (1, 5)
    """

    nodes: tuple[int, ...]
    id: str = ""
    label: str = ""
    accession: str = ""
    parent: int | None = None
    plant: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)
    functions: tuple[AxisFunction, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __reduce__(self) -> tuple[type[Axis], tuple[Any, ...]]:
        """Pickle by the arguments of the constructor: half of the time of the default for frozen classes with slots."""
        return Axis, tuple(getattr(self, name) for name in Axis.__slots__)


@dataclass(frozen=True, slots=True)
class Plant:
    """The record of one plant in a file; its nodes are those whose `Skeleton.plant` is this plant's index.

    Attributes:
        id: identifier in the file.
        label: name in the file.
        properties: further properties in the file.
        metadata: anything that JSON can hold.

    Example:
        >>> Plant(id="1", label="barley").label
        'barley'
    """

    id: str = ""
    label: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)


def with_scaled_diameter(axis: Axis, scale: float) -> Axis:
    """Return an axis whose `diameter` functions, which are in pixels, are multiplied by a factor."""
    functions = tuple(
        replace(f, samples=tuple(scale * sample for sample in f.samples)) if f.name == "diameter" else f
        for f in axis.functions
    )
    return replace(axis, functions=functions)


def axis_orders(axes: Sequence[Axis]) -> list[int]:
    """Return the order of each axis: 0 without a parent, otherwise one more than its parent's.

    An axis that is its own ancestor is a `SkeletonError`.
    """
    unknown, pending_mark = -1, -2
    orders: list[int] = [unknown] * len(axes)
    for start in range(len(axes)):
        pending = []
        index: int | None = start
        while index is not None and orders[index] < 0:
            if orders[index] == pending_mark:
                raise SkeletonError(f"axis {index} is its own ancestor")
            orders[index] = pending_mark
            pending.append(index)
            index = axes[index].parent
        order = -1 if index is None else orders[index]
        for index in reversed(pending):
            order += 1
            orders[index] = order
    return orders


def plants_of_axes(axes: Sequence[Axis], plant_of_node: IntArray) -> IntArray:
    """Return the plant of each axis, (A,): that of its first node, or the recorded one if it has no nodes.

    The recorded plant may be out of date: plants that no file states are numbered from left to right.
    """
    plant = plant_of_node.tolist()
    return np.asarray([plant[axis.nodes[0]] if axis.nodes else axis.plant for axis in axes], dtype=np.intp)


def check_axes(axes: tuple[Axis, ...] | None, edge_axis: IntArray | None, count: int) -> None:
    """Check that `axes` and `edge_axis` (E,) are given together and refer only to existing axes and nodes."""
    if axes is None and edge_axis is not None:
        raise SkeletonError("edge_axis is given without axes")
    if axes is None:
        return
    if edge_axis is None:
        raise SkeletonError("axes are given without edge_axis")
    for edge in np.flatnonzero(edge_axis >= len(axes))[:1]:
        raise SkeletonError(f"edge {edge} is on axis {edge_axis[edge]}, but there are {len(axes)} axes")
    for number, axis in enumerate(axes):
        if axis.parent is not None and not (_is_index(axis.parent) and 0 <= axis.parent < len(axes)):
            raise SkeletonError(f"axis {number} has parent {short_repr(axis.parent)}, which does not exist")
        if not isinstance(axis.nodes, Sequence):
            raise SkeletonError(f"axis {number} must have a list of nodes, not {short_repr(axis.nodes)}")
        for node in axis.nodes:
            if not _is_index(node):
                raise SkeletonError(f"axis {number} goes through {short_repr(node)}, which is no node index")
            if not 0 <= node < count:
                raise SkeletonError(f"axis {number} goes through node {node}, which does not exist")
    axis_orders(axes)


def _is_index(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def continuation(
    nodes: FloatArray,
    parents: IntArray,
    traversal: Sequence[int],
    is_root: Sequence[bool],
    min_reach_fraction: FloatArray,
) -> list[int]:
    """Find the child along which the axis through each node continues, -1 at tips and at roots."""
    count = len(nodes)
    child = np.flatnonzero(parents >= 0)
    parent = parents[child]
    step = np.zeros((count, 2))
    step[child] = nodes[child] - nodes[parent]
    length = np.hypot(step[:, 0], step[:, 1])
    direction = step / np.where(length > 0, length, 1.0)[:, None]
    straightness = (direction[child] * direction[parent]).sum(axis=1)

    reach = [0.0] * count  # length of the longest path from each node to a tip below it, px
    lengths = length.tolist()
    parent_of = parents.tolist()
    for node in reversed(traversal):
        if parent_of[node] >= 0:
            reach[parent_of[node]] = max(reach[parent_of[node]], reach[node] + lengths[node])
    reach_through = np.asarray(reach)[child] + length[child]

    farthest = np.zeros(count)
    np.maximum.at(farthest, parent, reach_through)
    leads_far = reach_through >= min_reach_fraction[parent] * farthest[parent]
    child, parent, straightness, reach_through = (
        values[leads_far] for values in (child, parent, straightness, reach_through)
    )

    continues_at = [-1] * count
    straightest = np.full(count, -np.inf)
    np.maximum.at(straightest, parent, straightness)
    tied = straightness >= straightest[parent] - STRAIGHTNESS_TIE
    candidates = np.flatnonzero(tied)
    # Sorted so that the longest tied continuation (then the lowest index) is written last and remains.
    order = candidates[np.lexsort((-child[candidates], reach_through[candidates]))]
    for at, to in zip(parent[order].tolist(), child[order].tolist(), strict=True):
        if not is_root[at]:
            continues_at[at] = to
    return continues_at


def infer_axes(
    nodes: FloatArray,
    parents: IntArray,
    traversal: Sequence[int],
    plant: Sequence[int],
    min_reach_fraction: FloatArray,
) -> tuple[list[Axis], IntArray]:
    """Split a rooted forest into axes by the rule of this module, parents before laterals.

    The second result (N,) is the axis of the edge between each node and its parent, -1 at roots. A `min_reach_fraction`
    (N,) of 1 always takes the farthest continuation.
    """
    parent_of = parents.tolist()
    continues_at = continuation(nodes, parents, traversal, [p < 0 for p in parent_of], min_reach_fraction)
    axis_of_node = [-1] * len(nodes)
    lines: list[list[int]] = []
    axis_parent: list[int | None] = []
    for node in traversal:
        above = parent_of[node]
        if above < 0:
            continue
        if continues_at[above] == node:
            axis_of_node[node] = axis_of_node[above]
            lines[axis_of_node[node]].append(node)
        else:
            axis_of_node[node] = len(lines)
            lines.append([above, node])
            axis_parent.append(axis_of_node[above] if axis_of_node[above] >= 0 else None)
    axes = [
        Axis(nodes=tuple(line), parent=parent, plant=plant[line[0]])
        for line, parent in zip(lines, axis_parent, strict=True)
    ]
    return axes, np.asarray(axis_of_node, dtype=np.intp)
