"""Axes (a tap root, a lateral, a limb) and plants: the records a file gives, and the rule where it gives none.

The rule: walking away from the root, at each branch the axis goes on along the straightest
continuation, ties to the longer one; every other edge there begins a new axis of the next order.
A root node has no incoming direction, so every edge that leaves it begins an axis of order 0.

Of a graph that is not exact, such as a prediction, short edges at a crown or between two laterals point anywhere, and
the straightest way may be a lateral's. With `min_reach_fraction` it must lead that share as far as the farthest one, or is no
candidate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from treeformer._util.arrays import FloatArray, IntArray
from treeformer.errors import SkeletonError

# Two continuations whose directions differ by less than this (in cosine) are a tie: the longer one wins.
STRAIGHTNESS_TIE = 1e-9


@dataclass(frozen=True, slots=True)
class AxisFunction:
    """A value along an axis, as RSML has it (`diameter`, `confidence`, ...).

    `samples` are numbers; `positions` (the same count) only where the file places each sample itself,
    otherwise sample k belongs to point k of the axis (`domain="polyline"`) or to equal steps (`"uniform"`).
    """

    name: str
    samples: tuple[float, ...]
    domain: str = "polyline"
    origin: str = ""
    positions: tuple[float, ...] | None = None

    @property
    def is_by_point(self) -> bool:
        """Whether sample k belongs to point k of the axis."""
        return self.domain == "polyline" and self.positions is None


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis: its nodes from base to tip, and what the file says of it.

    `nodes` are the points the file's own line has, in order. They need not cover every edge that
    carries this axis in `Skeleton.edge_axis`: where a lateral's first point lies off its parent's
    line, the reader adds a junction node on that line and an edge to it, and neither is in `nodes`.
    `parent` is the index of the parent axis in `Skeleton.axes`, None for order 0.
    `plant` is the index into `Skeleton.plant_records`.
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


@dataclass(frozen=True, slots=True)
class Plant:
    """What a file says of one plant; its nodes are those whose `Skeleton.plant` is this plant's index."""

    id: str = ""
    label: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)


def with_scaled_diameter(axis: Axis, scale: float) -> Axis:
    """The axis with its `diameter` functions, which are in pixels, scaled along with the image."""
    functions = tuple(
        replace(f, samples=tuple(scale * sample for sample in f.samples)) if f.name == "diameter" else f
        for f in axis.functions
    )
    return replace(axis, functions=functions)


def axis_orders(axes: Sequence[Axis]) -> list[int]:
    """The order of each axis: 0 without a parent, else its parent's + 1. An error where one is its own ancestor."""
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


def continuation(
    nodes: FloatArray,
    parents: IntArray,
    traversal: Sequence[int],
    is_root: Sequence[bool],
    min_reach_fraction: FloatArray,
) -> list[int]:
    """The child along which the axis through each node goes on, -1 at tips and at roots.

    nodes (N,2) px; parents (N,), -1 at roots; walk: all nodes, parents before children; min_reach_fraction (N,).
    """
    count = len(nodes)
    child = np.flatnonzero(parents >= 0)
    parent = parents[child]
    step = np.zeros((count, 2))
    step[child] = nodes[child] - nodes[parent]
    length = np.hypot(step[:, 0], step[:, 1])
    direction = step / np.where(length > 0, length, 1.0)[:, None]
    straightness = (direction[child] * direction[parent]).sum(axis=1)

    reach = [0.0] * count  # the longest way down from each node, px
    lengths = length.tolist()
    up = parents.tolist()
    for node in reversed(traversal):
        if up[node] >= 0:
            reach[up[node]] = max(reach[up[node]], reach[node] + lengths[node])
    down = np.asarray(reach)[child] + length[child]

    farthest = np.zeros(count)
    np.maximum.at(farthest, parent, down)
    leads_far = down >= min_reach_fraction[parent] * farthest[parent]
    child, parent, straightness, down = (of[leads_far] for of in (child, parent, straightness, down))

    ongoing = [-1] * count
    straightest = np.full(count, -np.inf)
    np.maximum.at(straightest, parent, straightness)
    tied = straightness >= straightest[parent] - STRAIGHTNESS_TIE
    candidates = np.flatnonzero(tied)
    # Sorted so that the longest tied continuation (then the lowest index) is written last and stays.
    order = candidates[np.lexsort((-child[candidates], down[candidates]))]
    for at, to in zip(parent[order].tolist(), child[order].tolist(), strict=True):
        if not is_root[at]:
            ongoing[at] = to
    return ongoing


def axes_by_rule(
    nodes: FloatArray,
    parents: IntArray,
    traversal: Sequence[int],
    plant: Sequence[int],
    min_reach_fraction: FloatArray,
) -> tuple[list[Axis], IntArray]:
    """Split a rooted forest into axes by the rule above.

    nodes (N,2) px; parents (N,), -1 at roots; walk: all nodes, parents before children;
    plant (N,) the plant index of each node; min_reach_fraction (N,) in [0, 1], 1: the farthest always.
    Returns the axes, parents before laterals, and for each node the axis of the edge to its parent (-1 at roots).
    """
    up = parents.tolist()
    ongoing = continuation(nodes, parents, traversal, [p < 0 for p in up], min_reach_fraction)
    axis_of_node = [-1] * len(nodes)
    lines: list[list[int]] = []
    axis_parent: list[int | None] = []
    for node in traversal:
        above = up[node]
        if above < 0:
            continue
        if ongoing[above] == node:
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
