"""Calibration of edge scores: which predicted edges are correct, and how well their scores say so."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from treeformer._util.arrays import BoolArray, FloatArray, IntArray
from treeformer._util.geometry import project_onto_segments
from treeformer.errors import TreeformerError
from treeformer.metrics._inputs import GraphLike, length_px, limit_to_surroundings, pair
from treeformer.skeleton import Skeleton

# An edge is correct if this fraction of it lies within the radius, in units (1/512 of the longer side).
MIN_COVERED = 0.9
RADIUS = 8.0
# The path between the ends along the ground truth may be longer than the edge by this factor and twice the radius.
MAX_DETOUR = 1.25
# Places on an edge whose distance from the ground truth is measured: one per so many units, at least so many per edge.
SAMPLE_SPACING = 2.0
MIN_SAMPLES = 20
BINS = 15
# Maximum number of entries of a temporary table.
TABLE_SIZE = 1_000_000


class ReliabilityBin(NamedTuple):
    """Edges of similar score."""

    edges: int
    score: float  # their mean score
    correct: float  # fraction of them that is correct


def correct_edges(
    prediction: GraphLike,
    ground_truth: GraphLike,
    *,
    radius_px: float | None = None,
    image_size: tuple[int, int] | None = None,
) -> BoolArray:
    """Find the predicted edges that are correct.

    An edge is correct if 90 % of it lies within the radius of the ground truth, and if a path along the ground truth
    joins its ends. The path may begin and end anywhere within the radius of the ends. It may be as long as 1.25 times
    the edge plus twice the radius. Unlike the edge score of `structure`, this does not depend on the positions of
    nodes along curves.

    Args:
        prediction: a Skeleton, or arrays (nodes, edges) with nodes in px.
        ground_truth: the same for the ground truth.
        radius_px: largest distance from the ground truth, px; 8/512 of the image's longer side by default.
        image_size: (width, height) px; required if neither graph is a Skeleton with an image size.

    Returns:
        (E,) True for correct edges, in the order of the prediction's edges.

    Raises:
        SkeletonError: if a graph is invalid, the image size is missing or ambiguous, or `radius_px` is not positive.

    Example:
        >>> line = [(0, 100), (200, 100)], [(0, 1)]
        >>> predicted = [(10, 102), (90, 99), (90, 140)], [(0, 1), (1, 2)]
        >>> correct_edges(predicted, line, image_size=(512, 512)).tolist()
        [True, False]
    """
    predicted, true, size = pair(prediction, ground_truth, image_size)
    radius = length_px(radius_px, RADIUS, size, "radius_px")
    spacing = SAMPLE_SPACING * length_px(None, 1.0, size, "unit_px")
    correct = np.zeros(len(predicted.edges), dtype=bool)
    if not len(correct) or not len(true.edges):
        return correct
    nodes = limit_to_surroundings(predicted.nodes, size)
    graph = true.replace(nodes=limit_to_surroundings(true.nodes, size)) if len(true) else true
    covered = np.flatnonzero(_covered_fraction(nodes, predicted.edges, graph, radius, spacing) >= MIN_COVERED)
    correct[covered] = _is_joined(nodes, predicted.edges[covered], graph, radius)
    return correct


def expected_calibration_error(score: ArrayLike, is_correct: ArrayLike, *, bins: int = BINS) -> float:
    """Compute the mean difference between scores and the fractions that are correct, over bins of equal mass.

    Args:
        score: (E,) scores, 0 to 1.
        is_correct: (E,) whether each edge is correct.
        bins: number of bins.

    Returns:
        The expected calibration error, 0 to 1; NaN without edges.

    Raises:
        TreeformerError: if the shapes differ or `bins` is not positive.

    Example:
        >>> expected_calibration_error([0.2, 0.2, 0.9, 0.9], [False, False, True, True], bins=2)
        0.15
    """
    found = reliability(score, is_correct, bins=bins)
    total = sum(one.edges for one in found)
    return sum(one.edges * abs(one.score - one.correct) for one in found) / total if total else float("nan")


def reliability(score: ArrayLike, is_correct: ArrayLike, *, bins: int = BINS) -> list[ReliabilityBin]:
    """Divide edges into bins of equal mass by their scores: the points of a reliability diagram.

    Edges of equal score count as equally correct, with their mean, so the order of the edges does not matter.

    Args:
        score: (E,) scores, 0 to 1.
        is_correct: (E,) whether each edge is correct.
        bins: number of bins. Their sizes differ by at most one; bins without an edge are left out.

    Returns:
        The bins, by ascending score.

    Raises:
        TreeformerError: if the shapes differ or `bins` is not positive.
    """
    scores, correct = np.asarray(score, dtype=np.float64), np.asarray(is_correct, dtype=np.float64)
    if scores.ndim != 1 or scores.shape != correct.shape:
        raise TreeformerError(f"scores of shape {scores.shape} and outcomes of shape {correct.shape} do not match")
    if bins < 1:
        raise TreeformerError(f"bins must be at least 1, not {bins}")
    _, tie = np.unique(scores, return_inverse=True)
    correct = (np.bincount(tie, correct) / np.bincount(tie))[tie]
    parts = np.array_split(np.argsort(scores, kind="stable"), bins)
    return [
        ReliabilityBin(len(part), float(scores[part].mean()), float(correct[part].mean()))
        for part in parts
        if len(part)
    ]


def _covered_fraction(nodes: FloatArray, edges: IntArray, graph: Skeleton, radius: float, spacing: float) -> FloatArray:
    """Return the fraction (E,) of each edge that lies within the radius of the graph."""
    begin, end = nodes[edges[:, 0]], nodes[edges[:, 1]]
    length = np.hypot(*(end - begin).T)
    count = np.maximum(np.ceil(length / spacing), MIN_SAMPLES).astype(np.intp)
    edge = np.repeat(np.arange(len(edges)), count)
    rank = np.arange(len(edge)) - np.repeat(np.cumsum(count) - count, count)
    place = begin[edge] + ((rank + 0.5) / count[edge])[:, None] * (end - begin)[edge]
    is_near = np.zeros(len(place), dtype=bool)
    for sample, _, _ in _near_segments(place, graph, radius):
        is_near[sample] = True
    fraction: FloatArray = np.bincount(edge, is_near, len(edges)) / count
    return fraction


def _near_segments(points: FloatArray, graph: Skeleton, radius: float) -> list[tuple[IntArray, IntArray, FloatArray]]:
    """Find all pairs of points and edges of the graph within the radius.

    Return several records of (M,) point, (M,) edge, and (M,) position of the nearest place along the edge, 0 to 1.
    """
    ends = graph.nodes[graph.edges]
    step = max(1, TABLE_SIZE // len(ends))
    found = []
    for first in range(0, len(points), step):
        t, distance = project_onto_segments(points[first : first + step, None], ends[:, 0], ends[:, 1])
        point, segment = np.nonzero(distance <= radius)
        found.append((point + first, segment, t[point, segment]))
    return found


def _is_joined(nodes: FloatArray, edges: IntArray, graph: Skeleton, radius: float) -> BoolArray:
    """Return (E,) True for edges whose ends a path of similar length along the graph joins."""
    if not len(edges):
        return np.zeros(0, dtype=bool)
    limit = MAX_DETOUR * np.hypot(*(nodes[edges[:, 1]] - nodes[edges[:, 0]]).T) + 2 * radius
    starts, goals = (
        [np.concatenate(arrays) for arrays in zip(*_near_segments(nodes[edges[:, side]], graph, radius), strict=True)]
        for side in (0, 1)
    )
    # All pairs of a start and a goal of the same edge; both are sorted by edge.
    first, past = (np.searchsorted(goals[0], starts[0], side=side) for side in ("left", "right"))
    start = np.repeat(np.arange(len(starts[0])), past - first)
    goal = np.arange(len(start)) - np.repeat(np.cumsum(past - first) - past, past - first)
    path = _path_lengths(graph, (starts[1][start], starts[2][start]), (goals[1][goal], goals[2][goal]), limit.max())
    edge = starts[0][start]
    return np.bincount(edge, path <= limit[edge], len(edges)) > 0


def _path_lengths(
    graph: Skeleton, start: tuple[IntArray, FloatArray], goal: tuple[IntArray, FloatArray], limit: float
) -> FloatArray:
    """Return the lengths (M,) of the shortest paths between places on a graph; those above the limit may be infinite.

    A place is an edge of the graph and a position along it, 0 to 1.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import dijkstra

    (tail, head), length = graph.edges.T, graph.edge_length
    both = (np.tile(length, 2), (np.concatenate([tail, head]), np.concatenate([head, tail])))
    network = csr_array(both, shape=(len(graph), len(graph)))
    path = np.where(start[0] == goal[0], np.abs(start[1] - goal[1]) * length[start[0]], np.inf)
    for sources, out in ((tail[start[0]], start[1]), (head[start[0]], 1 - start[1])):
        distinct, row = np.unique(sources, return_inverse=True)
        step = max(1, TABLE_SIZE // len(graph))
        for begin in range(0, len(distinct), step):
            table: FloatArray = dijkstra(network, indices=distinct[begin : begin + step], limit=limit)
            ours = np.flatnonzero((row >= begin) & (row < begin + step))
            for ends, back in ((tail, goal[1]), (head, 1 - goal[1])):
                between = table[row[ours] - begin, ends[goal[0][ours]]]
                outer = out[ours] * length[start[0][ours]] + back[ours] * length[goal[0][ours]]
                path[ours] = np.minimum(path[ours], between + outer)
    return path
