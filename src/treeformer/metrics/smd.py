"""Street mover's distance: the cost of transporting the length of one graph onto the other.

Both functions sample points along the edges of each graph and transport the points of the prediction onto those of the
ground truth, at the cost of the squared distance. `street_mover_distance` computes the optimal transport cost.
`street_mover_distance_paper` reproduces the paper's code, a Sinkhorn iteration that stops long before convergence.

Nodes farther outside the image than its width (x) or height (y) count as if they lay at that distance.
"""

from __future__ import annotations

import numpy as np

from treeformer._util.arrays import BoolArray, Float32Array, FloatArray, IntArray
from treeformer.metrics._curves import Curves
from treeformer.metrics._inputs import MARGIN_SIDES, GraphLike, limit_to_surroundings, pair
from treeformer.skeleton import Skeleton

# With 500 points, as in the paper, the assignment takes twice as long.
POINTS = 400
WORST = 1.0  # if only one of the graphs has length
# Lengths, in sides of the image, are rounded to this many decimals before sorting, so that equal lengths stay equal.
DIGITS = 9

PAPER_POINTS = 500
PAPER_EPSILON = 1e-7
PAPER_LOG_OFFSET = 1e-8
PAPER_ITERATIONS = 100
PAPER_STOP = 0.1
PAPER_WORST = 1.0  # if a graph has no edge
# The largest squared distance between two points near the image.
PAPER_LARGEST = 2 * (1 + 2 * MARGIN_SIDES) ** 2
VANISHING = np.float32(104)  # exp(-104) is 0 in single precision


def street_mover_distance(
    prediction: GraphLike, ground_truth: GraphLike, *, image_size: tuple[int, int] | None = None
) -> float:
    """Compute the optimal transport cost between two graphs; 0 is best.

    The distance is symmetric. It does not depend on the numbering of nodes, on the order and direction of edges, or on
    nodes of degree 2.

    Args:
        prediction: a Skeleton, or arrays (nodes, edges) with nodes in px.
        ground_truth: the same for the ground truth.
        image_size: (width, height) px; required if neither graph is a Skeleton with an image size.

    Returns:
        The cost in squared longer sides of the image: 0.0 if neither graph has length, 1.0 if only one has. At most 18,
        because nodes far outside the image are moved nearer.

    Raises:
        SkeletonError: if a graph is invalid, or the image size is missing or ambiguous.

    Example:
        >>> line, moved = ([(0, 0), (8, 0)], [(0, 1)]), ([(0, 1), (8, 1)], [(0, 1)])
        >>> round(street_mover_distance(moved, line, image_size=(10, 5)), 9)
        0.01
    """
    first, second, size = pair(prediction, ground_truth, image_size)
    curves = [
        Curves.from_graph(limit_to_surroundings(graph.nodes, size) / max(size), graph.edges)
        for graph in (first, second)
    ]
    has_length = [len(graph_curves) > 0 for graph_curves in curves]
    if not all(has_length):
        return WORST if any(has_length) else 0.0
    points = sorted((_spread(graph_curves, POINTS) for graph_curves in curves), key=lambda p: p.tobytes())
    return _assignment_cost(points[0], points[1])


def street_mover_distance_paper(
    prediction: GraphLike, ground_truth: GraphLike, *, image_size: tuple[int, int] | None = None
) -> float:
    """Compute the distance as the paper's code does; 0 is best.

    The distance is not symmetric and depends on the numbering of nodes: a tree of 50 nodes has a distance of about 1e-5
    to itself if its nodes are renumbered.

    Args:
        prediction: a Skeleton, or arrays (nodes, edges) with nodes in px.
        ground_truth: the same for the ground truth.
        image_size: (width, height) px; required if neither graph is a Skeleton with an image size.

    Returns:
        The cost in squared units of x/width and y/height: 1.0 if a graph has at most one node or no edge. At most 18,
        because nodes far outside the image are moved nearer.

    Raises:
        SkeletonError: if a graph is invalid, or the image size is missing or ambiguous.

    Example:
        >>> line, moved = ([(0, 0), (8, 0)], [(0, 1)]), ([(0, 1), (8, 1)], [(0, 1)])
        >>> round(street_mover_distance_paper(moved, line, image_size=(10, 10)), 4)
        0.01
    """
    first, second, size = pair(prediction, ground_truth, image_size)
    if any(len(graph.nodes) <= 1 or len(graph.edges) == 0 for graph in (first, second)):
        return PAPER_WORST
    predicted_points, true_points = (_paper_points(graph, size) for graph in (first, second))
    return _truncated_sinkhorn(true_points, predicted_points)


# ---- optimal transport -----------------------------------------------------------------------------


def _spread(curves: Curves, count: int) -> FloatArray:
    """Return (count,2) points at equal steps along the concatenated branches, the first half a step from the beginning.

    Branches are concatenated depth-first, so that the number of points in any part of the graph is proportional to its
    length up to rounding.
    """
    branch, forwards = _depth_first(curves)
    length = curves.length[branch]
    ahead = np.concatenate([[0.0], np.cumsum(length)])
    target = (np.arange(count) + 0.5) * ahead[-1] / count
    at = np.clip(np.searchsorted(ahead, target, side="right") - 1, 0, len(branch) - 1)
    along = np.clip(target - ahead[at], 0.0, length[at])
    return curves.at(branch[at], np.where(forwards[at], along, length[at] - along))


def _depth_first(curves: Curves) -> tuple[IntArray, BoolArray]:
    """Return all branches in depth-first order, and whether each is traversed from its first to its last point.

    The traversal begins at the node farthest from the center of mass and visits shorter branches first. This order does
    not change if the whole image is translated, rotated or scaled.
    """
    middle = (curves.points[1:] + curves.points[:-1]) / 2
    weight = np.diff(curves.arc)
    center = (middle * weight[:, None]).sum(axis=0) / weight.sum()
    ends, length = curves.ends.tolist(), np.round(curves.length, DIGITS)
    at_node: list[list[int]] = [[] for _ in range(curves.node_count)]
    for branch in np.argsort(-length, kind="stable").tolist():
        for node in set(ends[branch]):
            at_node[node].append(branch)  # the shortest last, because a stack returns the last entry first
    place = np.empty((curves.node_count, 2))
    place[curves.ends[:, 0]], place[curves.ends[:, 1]] = curves.points[curves.first], curves.points[curves.last]
    radius = np.round(np.hypot(*(place - center).T), DIGITS)

    order: list[int] = []
    forwards: list[bool] = []
    visited = [False] * len(ends)
    for base in np.argsort(-radius, kind="stable").tolist():
        stack = [(base, branch) for branch in at_node[base]]
        while stack:
            node, branch = stack.pop()
            if visited[branch]:
                continue
            visited[branch] = True
            order.append(branch)
            forwards.append(ends[branch][0] == node)
            far_end = ends[branch][1] if forwards[-1] else ends[branch][0]
            stack += [(far_end, next_branch) for next_branch in at_node[far_end] if not visited[next_branch]]
    return np.asarray(order, dtype=np.intp), np.asarray(forwards, dtype=bool)


def _assignment_cost(first: FloatArray, second: FloatArray) -> float:
    """Return the least mean squared distance over all one-to-one assignments.

    With equal weights this is the exact transport cost.
    """
    from scipy.optimize import linear_sum_assignment
    from scipy.spatial.distance import cdist

    # The solver assigns row after row. It is faster if the first rows are spread over the whole graph.
    first = first[_coarse_to_fine(len(first))]
    cost = cdist(first, second, "sqeuclidean")
    return float(cost[linear_sum_assignment(cost)].mean())


def _coarse_to_fine(count: int) -> IntArray:
    """Return 0 to count - 1 in bit-reversed order: every prefix is spread evenly."""
    bits = max(1, (count - 1).bit_length())
    number = np.arange(1 << bits)
    reverse = np.zeros_like(number)
    for bit in range(bits):
        reverse |= ((number >> bit) & 1) << (bits - 1 - bit)
    return reverse[reverse < count]


# ---- the paper's code ------------------------------------------------------------------------------


def _paper_points(graph: Skeleton, size: tuple[int, int]) -> Float32Array:
    """Return (500,2) points at equal steps along the concatenated edges, sorted by higher, then lower node."""
    nodes = limit_to_surroundings(graph.nodes, size) / np.asarray(size, dtype=np.float64)
    edges = np.sort(graph.edges, axis=1)
    edges = edges[np.lexsort((edges[:, 0], edges[:, 1]))]
    start, end = nodes[edges[:, 0]], nodes[edges[:, 1]]
    length = np.hypot(*(end - start).T)
    ahead = np.concatenate([[0.0], np.cumsum(length)])
    # The 0.01 keeps the last point on the last edge in spite of rounding.
    target = np.arange(PAPER_POINTS) * ahead[-1] / (PAPER_POINTS - 1 + 0.01)
    at = np.clip(np.searchsorted(ahead, target, side="right") - 1, 0, len(length) - 1)
    t = (target - ahead[at]) / np.where(length[at] > 0, length[at], 1.0)
    points: Float32Array = (start[at] + t[:, None] * (end - start)[at]).astype(np.float32)
    return points


def _truncated_sinkhorn(ground_truth: Float32Array, prediction: Float32Array) -> float:
    """Return Σ π·C after the few iterations that the stopping rule allows.

    The iteration is in the log domain and single precision, and updates rows (ground truth) first.
    """
    single = np.float32
    across, down = (ground_truth[:, None, axis] - prediction[None, :, axis] for axis in (0, 1))
    cost = across * across + down * down
    epsilon = single(PAPER_EPSILON)
    log_weight = np.log(single(1 / PAPER_POINTS) + single(PAPER_LOG_OFFSET))
    u = np.zeros(len(ground_truth), dtype=single)
    v = np.zeros(len(prediction), dtype=single)

    def log_plan() -> Float32Array:
        # In single precision the result depends on the order of these sums.
        table: Float32Array = u[:, None] - cost
        table += v
        table /= epsilon
        return table

    for _ in range(PAPER_ITERATIONS):
        previous = u
        u = epsilon * (log_weight - _log_sum_exp(log_plan(), axis=1)) + u
        v = epsilon * (log_weight - _log_sum_exp(log_plan(), axis=0)) + v
        if np.abs(u - previous).sum() < PAPER_STOP:
            break
    logarithm = log_plan().ravel()
    at = np.flatnonzero(logarithm > -VANISHING)
    # The rounding errors of v grow with the distance; outside the image they can multiply the plan by a large factor.
    return min(float((np.exp(logarithm[at]) * cost.ravel()[at]).sum()), PAPER_LARGEST)


def _log_sum_exp(values: Float32Array, axis: int) -> Float32Array:
    highest = values.max(axis=axis, keepdims=True)
    # With such a small ε, all but a few terms of each sum are 0 in single precision.
    # The highest is always one of them, also if it is so low that the subtraction does not change it.
    at = np.flatnonzero(values >= highest - VANISHING)
    line = at // values.shape[1] if axis == 1 else at % values.shape[1]
    highest = highest.ravel()
    terms = np.exp(values.ravel()[at] - highest[line])
    total: Float32Array = np.log(np.bincount(line, weights=terms, minlength=len(highest))).astype(np.float32) + highest
    return total
