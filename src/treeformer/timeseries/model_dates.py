"""Draw the dates of a series from its model: the skeleton of each predicted date, with the identity of every axis."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from treeformer._util.arrays import FloatArray, IntArray
from treeformer.skeleton import Axis, Skeleton
from treeformer.timeseries.paths import arc_length, at_positions
from treeformer.timeseries.plant_model import ModelAxis
from treeformer.timeseries.similarity import Similarity

# Nodes move to the predicted skeleton of their date if it is this near, in tolerances.
SNAP = 0.5
# Main axes of one plant that begin this near to each other begin at one node, in tolerances.
SAME_SEED = 1.0
# The first point of a lateral this near to the place where it begins on its parent is that place, in tolerances.
SAME_BASE = 0.1
# Nodes nearer to each other than this are one node, px of the reference date.
SAME_NODE_PX = 0.75
# Distance between the points of a predicted skeleton to which nodes move, px.
POINT_SPACING_PX = 1.0


@dataclass(frozen=True)
class UnifiedDate:
    """A date drawn from the model.

    Attributes:
        skeleton: A forest in px of the image. Its axes have no ids yet.
        model_axis: (A,) index of the model axis of each axis.
        plants: (P,) identity of each plant.
    """

    skeleton: Skeleton
    model_axis: IntArray
    plants: IntArray


def draw_date(
    model: Sequence[ModelAxis],
    date: int,
    predicted: Skeleton,
    to_reference: Mapping[int, Similarity],
    default: Similarity,
    tolerance_px: float,
) -> UnifiedDate:
    """Draw one date: each axis as the part of its path that it has reached.

    Args:
        model: The axes of the model, parents before laterals.
        date: Index of the date.
        predicted: The prediction of this date. Places near it take its position, radius and scores. The score of
            places that it does not show is 0.
        to_reference: Map from px of the date to px of the reference date, per identity of a plant.
        default: The same for plants that this date does not show.
        tolerance_px: Distance within which places agree, px.

    Returns:
        The date.
    """
    shown = [index for index, axis in enumerate(model) if not np.isnan(axis.length[date])]
    joints: dict[int, list[float]] = {}
    for index in shown:
        if model[index].parent >= 0:
            joints.setdefault(model[index].parent, []).append(model[index].place)
    plants = sorted({model[index].plant for index in shown})
    plant_index = {plant: number for number, plant in enumerate(plants)}
    nodes: list[FloatArray] = []
    plant_of_node: list[int] = []
    edges: list[tuple[int, int]] = []
    edge_axis: list[int] = []
    axes: list[Axis] = []
    roots: list[int] = []
    seeds: dict[int, int] = {}
    node_at: dict[int, dict[float, int]] = {}
    rank = {index: number for number, index in enumerate(shown)}
    for index in shown:
        axis = model[index]
        places, points = _reached(axis, date, joints.get(index, []))
        number = plant_index[axis.plant]
        if axis.parent >= 0:
            first = _nearest_node(node_at[axis.parent], axis.place)
        elif axis.plant in seeds and _distance(nodes[seeds[axis.plant]], points[0]) <= SAME_SEED * tolerance_px:
            first = seeds[axis.plant]
        else:
            first = len(nodes)
            nodes.append(points[0])
            plant_of_node.append(number)
            roots.append(first)
            seeds.setdefault(axis.plant, first)
        skipped = int(_distance(nodes[first], points[0]) <= SAME_BASE * tolerance_px)
        line = [first, *range(len(nodes), len(nodes) + len(points) - skipped)]
        nodes += list(points[skipped:])
        plant_of_node += [number] * (len(points) - skipped)
        node_at[index] = dict(zip(places[skipped:].tolist(), line[1:], strict=True))
        if skipped:
            node_at[index][0.0] = first
        edges += itertools.pairwise(line)
        edge_axis += [len(axes)] * (len(line) - 1)
        parent = rank[axis.parent] if axis.parent >= 0 else None
        axes.append(Axis(tuple(line), parent=parent, plant=number))
    back = [to_reference.get(plant, default).inverse() for plant in plants]
    placed = np.asarray([back[plant].apply(point) for plant, point in zip(plant_of_node, nodes, strict=True)]).reshape(
        -1, 2
    )
    values = _values_at(placed, predicted, SNAP * tolerance_px / default.scale)
    pairs = np.asarray(edges, dtype=np.intp).reshape(-1, 2)
    skeleton = Skeleton(
        values.points,
        pairs,
        root=roots,
        radius=values.radius,
        node_score=values.node_score,
        edge_score=None if values.edge_score is None else values.edge_score[pairs].min(axis=1, initial=1.0),
        axes=axes,
        edge_axis=edge_axis,
        plant=plant_of_node,
        image_size=predicted.image_size,
        image_name=predicted.image_name,
        metadata=predicted.metadata,
    )
    return UnifiedDate(skeleton, np.asarray(shown, dtype=np.intp), np.asarray(plants, dtype=np.intp))


def _reached(axis: ModelAxis, date: int, joints: Sequence[float]) -> tuple[FloatArray, FloatArray]:
    """Return the path lengths (K,) and points (K,2) of an axis at a date: its vertices, joints and tip."""
    position = arc_length(axis.line)
    length = min(max(float(axis.length[date]), 2 * SAME_NODE_PX), float(position[-1]))
    inner = position[position < length - SAME_NODE_PX]
    places = np.unique(np.concatenate([[0.0], inner, [joint for joint in joints if joint < length], [length]]))
    return places, at_positions(axis.line, position, places)


def _nearest_node(node_at: Mapping[float, int], place: float) -> int:
    return node_at[min(node_at, key=lambda other: abs(other - place))]


def _distance(a: FloatArray, b: FloatArray) -> float:
    return float(np.hypot(*(a - b)))


@dataclass(frozen=True)
class _Values:
    points: FloatArray
    radius: FloatArray | None
    node_score: FloatArray | None
    edge_score: FloatArray | None  # of the edge on which a node lies


def _values_at(nodes: FloatArray, predicted: Skeleton, reach_px: float) -> _Values:
    """Move nodes to the nearest place of a prediction within reach, and take its radius and scores."""
    has_edges = len(predicted.edges) > 0
    edge, fraction = _points_on_edges(predicted)
    a, b = (predicted.nodes[predicted.edges[edge, k]] for k in range(2))
    points = a + fraction[:, None] * (b - a)
    if has_edges and len(nodes):
        distance, nearest = cKDTree(points).query(nodes)
    else:
        distance, nearest = np.full(len(nodes), np.inf), np.zeros(len(nodes), dtype=np.intp)
    is_near = distance <= reach_px

    def along(values: FloatArray | None, missing: float) -> FloatArray | None:
        if values is None:
            return None
        if not has_edges:
            return np.full(len(nodes), missing)
        ends = values[predicted.edges[edge[nearest]]]
        t = fraction[nearest]
        return np.where(is_near, (1 - t) * ends[:, 0] + t * ends[:, 1], missing)

    edge_score = None
    if predicted.edge_score is not None:
        edge_score = np.zeros(len(nodes))
        if has_edges:
            edge_score = np.where(is_near, predicted.edge_score[edge[nearest]], 0.0)
    moved = np.where(is_near[:, None], points[nearest], nodes) if has_edges else nodes
    return _Values(moved, along(predicted.radius, np.nan), along(predicted.node_score, 0.0), edge_score)


def _points_on_edges(skeleton: Skeleton) -> tuple[IntArray, FloatArray]:
    """Return points along all edges: the edge of each (M,), and where on it, 0 to 1 (M,)."""
    count = np.maximum(np.ceil(skeleton.edge_length / POINT_SPACING_PX), 1).astype(np.intp) + 1
    edge = np.repeat(np.arange(len(count)), count)
    first = np.concatenate([[0], np.cumsum(count)[:-1]]).astype(np.intp)
    fraction = (np.arange(count.sum()) - first[edge]) / (count[edge] - 1)
    return edge, fraction
