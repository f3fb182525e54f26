"""Make skeletons from other skeletons, transferring roots, radii, scores, axes and plants."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from treeformer._util.arrays import BoolArray, FloatArray, IntArray
from treeformer.errors import SkeletonError
from treeformer.skeleton.axes import Axis, axis_orders, plants_of_axes, with_scaled_diameter
from treeformer.skeleton.clipping import clip, inside
from treeformer.skeleton.connectivity import components
from treeformer.skeleton.resampling import Resampling
from treeformer.skeleton.validation import MAX_PX, image_size_pair, node_array, real_array, value_array

if TYPE_CHECKING:
    from treeformer.skeleton.skeleton import Skeleton


def apply_resampling(skeleton: Skeleton, resampling: Resampling) -> Skeleton:
    """Return the skeleton whose nodes lie on the edges of another one, with all attributes carried over.

    Radii and node scores are interpolated. A straight edge that replaces several edges gets their lowest score.
    """
    fields: dict[str, Any] = {
        "nodes": _interpolate(skeleton.nodes, resampling),
        "edges": resampling.edges,
        "roots": _carry_over_roots(skeleton, resampling),
        "radius": None if skeleton.radius is None else _interpolate(skeleton.radius, resampling),
        "node_score": None if skeleton.node_score is None else _interpolate(skeleton.node_score, resampling),
        "edge_score": None if skeleton.edge_score is None else _carry_over_edge_scores(skeleton.edge_score, resampling),
        "plant": None if skeleton.plant is None else skeleton.plant[resampling.i],
        "_axes": None,
        "_edge_axis": None,
    }
    resampled = skeleton._with(**fields)
    if not skeleton.has_explicit_axes or not skeleton.is_forest:
        return resampled
    axes, edge_axis = _carry_over_axes(resampled, skeleton.axes, skeleton.edge_axis[resampling.source])
    return resampled._with(_axes=axes, _edge_axis=edge_axis)


def rebuild_axes(skeleton: Skeleton) -> Skeleton:
    """Return a skeleton whose axes follow its edges, from `edge_axis` and the records of `axes` except their nodes.

    Axes without edges are dropped, interrupted axes become several. In a graph with cycles, the axes are inferred.
    """
    if not skeleton.is_forest:
        return skeleton.with_inferred_axes
    axes, edge_axis = _carry_over_axes(skeleton.with_inferred_axes, skeleton.axes, skeleton.edge_axis)
    return skeleton._with(_axes=axes, _edge_axis=edge_axis)


def subgraph(skeleton: Skeleton, keep: BoolArray) -> Skeleton:
    """Return some connected components of a skeleton.

    `keep` (N,) has the same value for all nodes of a component, so that no edge is cut.
    """
    if keep.all():
        return skeleton
    nodes, edges = np.flatnonzero(keep), np.flatnonzero(keep[skeleton.edges[:, 0]])
    new_index: IntArray = np.cumsum(keep) - 1
    new_edges = new_index[skeleton.edges[edges]]
    return apply_resampling(skeleton, Resampling(nodes, nodes, np.zeros(len(nodes)), new_edges, edges))


def component_lengths(skeleton: Skeleton) -> FloatArray:
    """Return the total edge length of each connected component, (C,) px."""
    component_of_edge = skeleton.component[skeleton.edges[:, 0]]
    lengths = np.bincount(component_of_edge, skeleton.edge_length, len(skeleton.component_root))
    return lengths.astype(np.float64)


def apply_affine(skeleton: Skeleton, affine: ArrayLike, image_size: tuple[int, int] | None) -> Skeleton:
    """Move a skeleton by an affine map of (x, y, 1), (2,3) or (3,3); see `Skeleton.transform`.

    `image_size` is that of the image that the map leads to.
    """
    try:
        matrix = real_array(affine)
    except (TypeError, ValueError, OverflowError):
        matrix = np.empty(0)
    if matrix.shape not in ((2, 3), (3, 3)) or not np.isfinite(matrix).all():
        raise SkeletonError("an affine map must be a finite matrix of 2×3 or 3×3 numbers")
    if matrix.shape == (3, 3) and not np.array_equal(matrix[2], (0.0, 0.0, 1.0)):
        raise SkeletonError("the last row of an affine 3×3 matrix must be 0 0 1")
    linear = matrix[:2, :2]
    x, y = skeleton.nodes[:, 0], skeleton.nodes[:, 1]
    with np.errstate(over="ignore", invalid="ignore"):  # the checks below report the result
        scale = math.sqrt(abs(linear[0, 0] * linear[1, 1] - linear[0, 1] * linear[1, 0]))
        nodes = node_array(np.stack([m[0] * x + m[1] * y + m[2] for m in matrix[:2]], axis=1))
        radius = None if skeleton.radius is None else skeleton.radius * scale
    if not math.isfinite(scale):
        raise SkeletonError("an affine map must not have numbers so large that areas become infinite")
    fields: dict[str, Any] = {
        "nodes": nodes,
        "radius": value_array(radius, len(nodes), "radius", "node", allow_nan=True, maximum=MAX_PX),
        "image_size": image_size_pair(image_size),
    }
    if skeleton.has_explicit_axes:
        fields["_axes"] = tuple(with_scaled_diameter(axis, scale) for axis in skeleton.axes)
    return skeleton._with(**fields)


def apply_crop(skeleton: Skeleton, left: float, top: float, right: float, bottom: float) -> Skeleton:
    """Return the components inside a frame, in the frame's coordinates; see `Skeleton.crop`."""
    try:
        left, top, right, bottom = real_array((left, top, right, bottom)).tolist()
    except (TypeError, ValueError, OverflowError):
        raise SkeletonError("a crop must be four numbers: left, top, right, bottom") from None
    if not (left < right and top < bottom):
        raise SkeletonError(f"an empty crop: {left}, {top} to {right}, {bottom}")
    if not (math.isfinite(right - left) and math.isfinite(bottom - top)):
        raise SkeletonError(f"an infinite crop: {left}, {top} to {right}, {bottom}")
    frame = (left, top, right, bottom)
    if inside(skeleton.nodes, *frame).all() and not skeleton.has_explicit_axes:
        cut = skeleton  # keeps the topology that is computed already
    else:
        cut = apply_resampling(skeleton, clip(skeleton.nodes, skeleton.edges, *frame))
    size = (math.ceil(right - left), math.ceil(bottom - top))
    nodes = np.clip(cut.nodes - (left, top), 0.0, (right - left, bottom - top))
    return cut._with(nodes=node_array(nodes), image_size=image_size_pair(size))


def split_plants(forest: Skeleton) -> tuple[Skeleton, ...]:
    """Return one skeleton per plant, in plant order; an edge between two plants is a `SkeletonError`."""
    plant_of_edge = forest.plant_of_node[forest.edges[:, 0]]
    across = np.flatnonzero(plant_of_edge != forest.plant_of_node[forest.edges[:, 1]])
    if len(across):
        raise SkeletonError(f"edge {across[0]} joins two plants")
    plant_of_axis = plants_of_axes(forest.axes if forest.has_explicit_axes else (), forest.plant_of_node)
    edges, roots, axes = (_group(g) for g in (plant_of_edge, forest.plant_of_node[forest.roots], plant_of_axis))
    new_index = np.full(len(forest), -1, dtype=np.intp)
    none = np.zeros(0, dtype=np.intp)
    plants = []
    for plant, nodes in _group(forest.plant_of_node).items():
        new_index[nodes] = np.arange(len(nodes))
        kept = edges.get(plant, none)
        fields: dict[str, Any] = {
            "nodes": forest.nodes[nodes],
            "edges": new_index[forest.edges[kept]],
            "roots": new_index[forest.roots[roots.get(plant, none)]],
            "radius": None if forest.radius is None else forest.radius[nodes],
            "node_score": None if forest.node_score is None else forest.node_score[nodes],
            "edge_score": None if forest.edge_score is None else forest.edge_score[kept],
            "plant": np.zeros(len(nodes), dtype=np.intp),
            "plant_records": forest.plant_records[plant : plant + 1],
        }
        if forest.has_explicit_axes:
            fields |= _axes_of_plant(forest, kept, axes.get(plant, none), new_index)
        plants.append(forest._with(**fields))
    return tuple(plants)


def _interpolate(values: FloatArray, resampling: Resampling) -> FloatArray:
    weight = resampling.t if values.ndim == 1 else resampling.t[:, None]
    low, high = values[resampling.i], values[resampling.j]
    # Exact at both ends, so that rounding does not move a node that is kept.
    return np.where(weight == 0, low, np.where(weight == 1, high, low + weight * (high - low)))


def _carry_over_edge_scores(scores: FloatArray, resampling: Resampling) -> FloatArray:
    if resampling.covers is None or len(resampling.covers[1]) == 0:
        return scores[resampling.source]
    old_edge, offsets = resampling.covers
    lowest: FloatArray = np.minimum.reduceat(scores[old_edge], offsets)
    return lowest


def _carry_over_roots(skeleton: Skeleton, resampling: Resampling) -> IntArray:
    """Return the roots of the new graph.

    The root of a new component is its node nearest to the root of the old component, if that one has a root.
    """
    if len(skeleton.roots) == 0 or len(resampling.i) == 0:
        return skeleton.roots[:0]
    on_old_node = np.flatnonzero(resampling.t == 0)[::-1]  # reversed: the first of several at one node is written last
    new_index = np.full(len(skeleton), -1, dtype=np.intp)
    new_index[resampling.i[on_old_node]] = on_old_node
    kept = np.sort(new_index[skeleton.roots])
    kept = kept[kept >= 0]
    # No two roots were in one component: if a forest has as many components as kept roots, each has its own.
    if not skeleton.is_forest or len(kept) == len(resampling.i) - len(resampling.edges):
        return kept
    from_root = skeleton.distance_from_root
    distance = from_root[resampling.i] + resampling.t * (from_root[resampling.j] - from_root[resampling.i])
    component = components(resampling.edges, len(resampling.i))
    order = np.lexsort((skeleton.depth[resampling.i], distance, component))
    nearest = order[np.unique(component[order], return_index=True)[1]]
    is_rooted = np.isin(skeleton.component, skeleton.component[skeleton.roots])
    return np.sort(nearest[is_rooted[resampling.i[nearest]]])


def _carry_over_axes(
    forest: Skeleton, old_axes: Sequence[Axis], old_axis_of_edge: IntArray
) -> tuple[tuple[Axis, ...], IntArray]:
    """Return the axes of a new forest and the axis of each edge, from the old axis of each edge.

    If an axis is cut into several, the first one keeps the id. The values along an axis (`functions`) belong to the old
    points and are dropped; radii are kept.
    """
    traversal = forest.traversal
    parent_of, edge_to_parent = traversal.parents.tolist(), traversal.edge.tolist()
    old_axis_of = old_axis_of_edge.tolist()
    axis_of = [-1] * len(old_axis_of)
    old_order = axis_orders(old_axes)
    lines: list[list[int]] = []
    old_axis: list[int] = []
    base_axis: list[int] = []  # the axis that reaches the base of each axis from above, -1 for none
    axes_from_node: list[list[int]] = [[] for _ in traversal.order]
    for node in traversal.order:
        above = parent_of[node]
        if above < 0 or old_axis_of[edge_to_parent[node]] < 0:
            continue
        edge, previous = edge_to_parent[node], edge_to_parent[above]
        continues = previous >= 0 and old_axis_of[previous] == old_axis_of[edge]
        if continues and lines[axis_of[previous]][-1] == above:
            axis_of[edge] = axis_of[previous]
            lines[axis_of[edge]].append(node)
            continue
        axis_of[edge] = len(lines)
        lines.append([above, node])
        old_axis.append(old_axis_of[edge])
        base_axis.append(axis_of[previous] if previous >= 0 else -1)
        axes_from_node[above].append(axis_of[edge])

    def parent(axis: int) -> int | None:
        """Return the axis at the base that was the parent, otherwise the one from above or one of lower order there."""
        old = old_axis[axis]
        if old_axes[old].parent is None:
            return None
        candidates = [other for other in axes_from_node[lines[axis][0]] if old_order[old_axis[other]] < old_order[old]]
        if base_axis[axis] >= 0:
            candidates = [base_axis[axis], *candidates]
        default = candidates[0] if candidates else None
        return next((other for other in candidates if old_axis[other] == old_axes[old].parent), default)

    first_part: dict[int, int] = {}
    for axis, old in enumerate(old_axis):
        first_part.setdefault(old, axis)
    plant_of = forest.plant_of_node.tolist()
    axes = tuple(
        replace(
            old_axes[old],
            nodes=tuple(line),
            plant=plant_of[line[0]],
            parent=parent(axis),
            id=old_axes[old].id if first_part[old] == axis else "",
            functions=(),
        )
        for axis, (old, line) in enumerate(zip(old_axis, lines, strict=True))
    )
    return axes, np.asarray(axis_of, dtype=np.intp)


def _axes_of_plant(forest: Skeleton, edges: IntArray, axes: IntArray, new_index: IntArray) -> dict[str, Any]:
    """Return the fields of one plant's axes; `new_index` (N,) maps nodes of the forest to nodes of the plant."""
    new_axis = {old: new for new, old in enumerate(axes.tolist())}
    records = [forest.axes[axis] for axis in axes.tolist()]
    return {
        "_axes": tuple(
            replace(
                axis,
                nodes=tuple(new_index[list(axis.nodes)].tolist()),
                parent=None if axis.parent is None else new_axis.get(axis.parent),
                plant=0,
            )
            for axis in records
        ),
        "_edge_axis": np.asarray([new_axis.get(a, -1) for a in forest.edge_axis[edges].tolist()], dtype=np.intp),
    }


def _group(labels: IntArray) -> dict[int, IntArray]:
    """Return the positions of each label, labels in ascending order."""
    if len(labels) == 0:
        return {}
    order = np.argsort(labels, kind="stable")
    values, first = np.unique(labels[order], return_index=True)
    return dict(zip(values.tolist(), np.split(order, first[1:]), strict=True))
