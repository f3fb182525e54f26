"""Skeletons made from other skeletons: how roots, radii, scores, axes and plants are carried over."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from treeformer._util.arrays import BoolArray, FloatArray, IntArray
from treeformer.errors import SkeletonError
from treeformer.skeleton.axes import Axis, with_scaled_diameter
from treeformer.skeleton.branches import Resampling, components
from treeformer.skeleton.validation import image_size_pair

if TYPE_CHECKING:
    from treeformer.skeleton.skeleton import Skeleton


def apply_resampling(skeleton: Skeleton, made: Resampling) -> Skeleton:
    """The skeleton whose nodes lie on the edges of another one; every attribute goes along.

    Radii and node scores are interpolated. A straight edge that stands for several takes the lowest of their scores.
    """
    fields: dict[str, Any] = {
        "nodes": _blend(skeleton.nodes, made),
        "edges": made.edges,
        "roots": _roots(skeleton, made),
        "radius": None if skeleton.radius is None else _blend(skeleton.radius, made),
        "node_score": None if skeleton.node_score is None else _blend(skeleton.node_score, made),
        "edge_score": None if skeleton.edge_score is None else _edge_scores(skeleton.edge_score, made),
        "plant": None if skeleton.plant is None else skeleton.plant[made.i],
        "_axes": None,
        "_edge_axis": None,
    }
    derived = skeleton._with(**fields)
    if not skeleton.has_explicit_axes or not skeleton.is_forest:
        return derived
    axes, edge_axis = _axes_along(derived, skeleton.axes, skeleton.edge_axis[made.source])
    return derived._with(_axes=axes, _edge_axis=edge_axis)


def subgraph(skeleton: Skeleton, stays: BoolArray) -> Skeleton:
    """The nodes with stays (N,) True and the edges among them; whole connected pieces, so that no edge is severed."""
    kept, edges = np.flatnonzero(stays), np.flatnonzero(stays[skeleton.edges[:, 0]])
    number: IntArray = np.cumsum(stays) - 1
    return apply_resampling(skeleton, Resampling(kept, kept, np.zeros(len(kept)), number[skeleton.edges[edges]], edges))


def component_lengths(skeleton: Skeleton) -> FloatArray:
    """The total edge length of each connected piece, px."""
    piece_of_edge = skeleton.component[skeleton.edges[:, 0]]
    lengths: FloatArray = np.bincount(piece_of_edge, skeleton.edge_length, len(skeleton.component_root)).astype(
        np.float64
    )
    return lengths


def transformed(skeleton: Skeleton, affine: ArrayLike, image_size: tuple[int, int] | None) -> Skeleton:
    """See `Skeleton.transform`."""
    matrix = np.asarray(affine, dtype=np.float64)
    if matrix.shape not in ((2, 3), (3, 3)) or not np.isfinite(matrix).all():
        raise SkeletonError("an affine map is a finite matrix of 2×3 or 3×3 numbers")
    if matrix.shape == (3, 3) and not np.array_equal(matrix[2], (0.0, 0.0, 1.0)):
        raise SkeletonError("the last row of an affine 3×3 matrix is 0 0 1")
    linear = matrix[:2, :2]
    scale = math.sqrt(abs(linear[0, 0] * linear[1, 1] - linear[0, 1] * linear[1, 0]))
    x, y = skeleton.nodes[:, 0], skeleton.nodes[:, 1]
    fields: dict[str, Any] = {
        "nodes": np.stack([m[0] * x + m[1] * y + m[2] for m in matrix[:2]], axis=1),
        "radius": None if skeleton.radius is None else skeleton.radius * scale,
        "image_size": image_size_pair(image_size),
    }
    if skeleton.has_explicit_axes:
        fields["_axes"] = tuple(with_scaled_diameter(axis, scale) for axis in skeleton.axes)
    return skeleton._with(**fields)


def _blend(values: FloatArray, made: Resampling) -> FloatArray:
    weight = made.t if values.ndim == 1 else made.t[:, None]
    low, high = values[made.i], values[made.j]
    # Exact at both ends, so that a node that stays does not move by a rounding.
    return np.where(weight == 0, low, np.where(weight == 1, high, low + weight * (high - low)))


def _edge_scores(scores: FloatArray, made: Resampling) -> FloatArray:
    if made.covers is None or len(made.covers[1]) == 0:
        return scores[made.source]
    old_edge, offsets = made.covers
    lowest: FloatArray = np.minimum.reduceat(scores[old_edge], offsets)
    return lowest


def _roots(skeleton: Skeleton, made: Resampling) -> IntArray:
    """In every piece that descends from a rooted one, the node nearest to that root."""
    if len(skeleton.roots) == 0 or len(made.i) == 0:
        return skeleton.roots[:0]
    place = np.flatnonzero(made.t == 0)[::-1]  # reversed: of several at one place the first is written last
    number = np.full(len(skeleton), -1, dtype=np.intp)
    number[made.i[place]] = place
    kept = np.sort(number[skeleton.roots])
    kept = kept[kept >= 0]
    # No two roots were in one piece: where a forest has as many pieces as roots that stayed, each has its own.
    if not skeleton.is_forest or len(kept) == len(made.i) - len(made.edges):
        return kept
    far = skeleton.distance_from_root
    distance = far[made.i] + made.t * (far[made.j] - far[made.i])
    component = components(made.edges, len(made.i))
    order = np.lexsort((skeleton.depth[made.i], distance, component))
    nearest = order[np.unique(component[order], return_index=True)[1]]
    rooted = np.isin(skeleton.component, skeleton.component[skeleton.roots])
    return np.sort(nearest[rooted[made.i[nearest]]])


def _axes_along(
    forest: Skeleton, records: Sequence[Axis], record_of_edge: IntArray
) -> tuple[tuple[Axis, ...], IntArray]:
    """The records of `records` along the edges of a new forest; a severed part becomes an axis without id.

    The values along an axis (`functions`) belonged to the old points and are left behind; radii are kept.
    """
    traversal = forest.traversal
    up, edge_to = traversal.parents.tolist(), traversal.edge.tolist()
    record_of = record_of_edge.tolist()
    axis_of = [-1] * len(record_of)
    lines: list[list[int]] = []
    record: list[int] = []
    parent: list[int | None] = []
    begun_at: list[list[int]] = [[] for _ in traversal.order]
    for node in traversal.order:
        above = up[node]
        if above < 0 or record_of[edge_to[node]] < 0:
            continue
        this, before = edge_to[node], edge_to[above]
        if before >= 0 and record_of[before] == record_of[this] and lines[axis_of[before]][-1] == above:
            axis_of[this] = axis_of[before]
            lines[axis_of[this]].append(node)
            continue
        axis_of[this] = len(lines)
        lines.append([above, node])
        record.append(record_of[this])
        here = ([axis_of[before]] if before >= 0 and axis_of[before] >= 0 else []) + begun_at[above]
        wanted = records[record_of[this]].parent
        parent.append(next((axis for axis in here if record[axis] == wanted), here[0] if here else None))
        begun_at[above].append(axis_of[this])
    heir: dict[int, int] = {}
    for axis, source in enumerate(record):
        heir.setdefault(source, axis)
    axes = tuple(
        replace(
            records[source],
            nodes=tuple(line),
            parent=parent[axis] if records[source].parent is not None else None,
            id=records[source].id if heir[source] == axis else "",
            functions=(),
        )
        for axis, (source, line) in enumerate(zip(record, lines, strict=True))
    )
    return axes, np.asarray(axis_of, dtype=np.intp)


def split_plants(forest: Skeleton) -> tuple[Skeleton, ...]:
    """One skeleton a plant, in plant order."""
    plant_of_edge = forest.plant_of_node[forest.edges[:, 0]]
    across = np.flatnonzero(plant_of_edge != forest.plant_of_node[forest.edges[:, 1]])
    if len(across):
        raise SkeletonError(f"edge {across[0]} joins two plants")
    plant_of_axis = np.asarray([axis.plant for axis in forest.axes] if forest.has_explicit_axes else [], dtype=np.intp)
    edges, roots, axes = (_groups(g) for g in (plant_of_edge, forest.plant_of_node[forest.roots], plant_of_axis))
    number = np.full(len(forest), -1, dtype=np.intp)
    none = np.zeros(0, dtype=np.intp)
    plants = []
    for plant, nodes in _groups(forest.plant_of_node).items():
        number[nodes] = np.arange(len(nodes))
        kept = edges.get(plant, none)
        fields: dict[str, Any] = {
            "nodes": forest.nodes[nodes],
            "edges": number[forest.edges[kept]],
            "roots": number[forest.roots[roots.get(plant, none)]],
            "radius": None if forest.radius is None else forest.radius[nodes],
            "node_score": None if forest.node_score is None else forest.node_score[nodes],
            "edge_score": None if forest.edge_score is None else forest.edge_score[kept],
            "plant": np.zeros(len(nodes), dtype=np.intp),
            "plant_records": forest.plant_records[plant : plant + 1],
        }
        if forest.has_explicit_axes:
            fields |= _axes_of_plant(forest, kept, axes.get(plant, none), number)
        plants.append(forest._with(**fields))
    return tuple(plants)


def _axes_of_plant(forest: Skeleton, edges: IntArray, axes: IntArray, number: IntArray) -> dict[str, Any]:
    axis_number = {old: new for new, old in enumerate(axes.tolist())}
    records = [forest.axes[axis] for axis in axes.tolist()]
    return {
        "_axes": tuple(
            replace(
                axis,
                nodes=tuple(number[list(axis.nodes)].tolist()),
                parent=None if axis.parent is None else axis_number.get(axis.parent),
                plant=0,
            )
            for axis in records
        ),
        "_edge_axis": np.asarray([axis_number.get(a, -1) for a in forest.edge_axis[edges].tolist()], dtype=np.intp),
    }


def _groups(labels: IntArray) -> dict[int, IntArray]:
    """The positions of each label, labels in rising order."""
    if len(labels) == 0:
        return {}
    order = np.argsort(labels, kind="stable")
    values, first = np.unique(labels[order], return_index=True)
    return dict(zip(values.tolist(), np.split(order, first[1:]), strict=True))
