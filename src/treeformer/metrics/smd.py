"""Street mover's distance: how far the length of one graph must travel to become the other.

Both lay points along the edges of each graph and move those of the prediction onto those of the ground truth at the cost of
the squared distance. `street_mover_distance` moves them in the cheapest way there is. `street_mover_distance_paper`
is what the paper's code computes: a Sinkhorn iteration that ends long before it has converged.
"""

from __future__ import annotations

import numpy as np

from treeformer._util.arrays import BoolArray, Float32Array, FloatArray, IntArray
from treeformer.metrics._curves import Curves
from treeformer.metrics._inputs import GraphLike, pair
from treeformer.skeleton import Skeleton

# An assignment of 500 points, as the paper has, takes twice as long.
POINTS = 400
WORST = 1.0  # where one graph has length and the other has none
# Lengths, in sides of the image, are compared to so many decimal places: rounding must not decide between equals.
DIGITS = 9

PAPER_POINTS = 500
PAPER_EPSILON = 1e-7
PAPER_LOG_OFFSET = 1e-8
PAPER_ITERATIONS = 100
PAPER_STOP = 0.1
PAPER_WORST = 1.0
VANISHING = np.float32(104)  # exp(-104) is 0 in single precision


def street_mover_distance(
    prediction: GraphLike, ground_truth: GraphLike, *, image_size: tuple[int, int] | None = None
) -> float:
    """The optimal transport cost between the two graphs, in squared longer sides of the image; 0 is best.

    Symmetric, and blind to the numbering of nodes, to the order and direction of edges, and to nodes of degree 2.
    0.0 where neither graph has any length, 1.0 where only one has.

    Args:
        prediction, ground truth: skeletons, or pairs (nodes, edges) with nodes in pixels.
        image_size: (width, height) in pixels; needed where neither skeleton has it.

    >>> line, moved = ([(0, 0), (8, 0)], [(0, 1)]), ([(0, 1), (8, 1)], [(0, 1)])
    >>> round(street_mover_distance(moved, line, image_size=(10, 5)), 9)
    0.01
    """
    first, second, size = pair(prediction, ground_truth, image_size)
    curves = [Curves.of(graph.nodes / max(size), graph.edges) for graph in (first, second)]
    with_length = [len(curve) > 0 for curve in curves]
    if not all(with_length):
        return WORST if any(with_length) else 0.0
    points = sorted((_spread(curve, POINTS) for curve in curves), key=lambda p: p.tobytes())
    return _assignment_cost(points[0], points[1])


def street_mover_distance_paper(
    prediction: GraphLike, ground_truth: GraphLike, *, image_size: tuple[int, int] | None = None
) -> float:
    """The distance as the paper's code computes it, in units of x/width and y/height; 0 is best.

    Not symmetric, and not blind to the numbers of the nodes: a tree of 50 nodes is some 1e-5 from itself in another
    numbering. 1.0 where either graph has at most one node or no edge. Arguments as for `street_mover_distance`.

    >>> line, moved = ([(0, 0), (8, 0)], [(0, 1)]), ([(0, 1), (8, 1)], [(0, 1)])
    >>> round(street_mover_distance_paper(moved, line, image_size=(10, 10)), 4)
    0.01
    """
    first, second, size = pair(prediction, ground_truth, image_size)
    if any(len(graph.nodes) <= 1 or len(graph.edges) == 0 for graph in (first, second)):
        return PAPER_WORST
    found, wanted = (_paper_points(graph, size) for graph in (first, second))
    return _truncated_sinkhorn(wanted, found)


# ---- exact ---------------------------------------------------------------------------------------


def _spread(curves: Curves, count: int) -> FloatArray:
    """(count,2) points at equal steps along all branches laid end to end, the first half a step from the beginning.

    The order is depth-first, so that no part of the graph gets a point too many or too few in sum.
    """
    branch, forwards = _depth_first(curves)
    length = curves.length[branch]
    ahead = np.concatenate([[0.0], np.cumsum(length)])
    target = (np.arange(count) + 0.5) * ahead[-1] / count
    at = np.clip(np.searchsorted(ahead, target, side="right") - 1, 0, len(branch) - 1)
    along = np.clip(target - ahead[at], 0.0, length[at])
    return curves.at(branch[at], np.where(forwards[at], along, length[at] - along))


def _depth_first(curves: Curves) -> tuple[IntArray, BoolArray]:
    """All branches, and whether each is walked from its first to its last point.

    A walk begins at the node that is farthest from the center of the length and takes shorter branches first: this does
    not change when the whole image is moved, turned or scaled.
    """
    middle = (curves.points[1:] + curves.points[:-1]) / 2
    weight = np.diff(curves.arc)
    center = (middle * weight[:, None]).sum(axis=0) / weight.sum()
    ends, length = curves.ends.tolist(), np.round(curves.length, DIGITS)
    at_node: list[list[int]] = [[] for _ in range(curves.node_count)]
    for branch in np.argsort(-length, kind="stable").tolist():
        for node in set(ends[branch]):
            at_node[node].append(branch)  # the shortest last, where a stack takes it from first
    place = np.empty((curves.node_count, 2))
    place[curves.ends[:, 0]], place[curves.ends[:, 1]] = curves.points[curves.first], curves.points[curves.last]
    away = np.round(np.hypot(*(place - center).T), DIGITS)

    order: list[int] = []
    forwards: list[bool] = []
    walked = [False] * len(ends)
    for base in np.argsort(-away, kind="stable").tolist():
        stack = [(base, branch) for branch in at_node[base]]
        while stack:
            node, branch = stack.pop()
            if walked[branch]:
                continue
            walked[branch] = True
            order.append(branch)
            forwards.append(ends[branch][0] == node)
            beyond = ends[branch][1] if forwards[-1] else ends[branch][0]
            stack += [(beyond, other) for other in at_node[beyond] if not walked[other]]
    return np.asarray(order, dtype=np.intp), np.asarray(forwards, dtype=bool)


def _assignment_cost(first: FloatArray, second: FloatArray) -> float:
    """The least mean squared distance between partners over all one-to-one assignments: with equal weights, that is
    the exact transport cost."""
    from scipy.optimize import linear_sum_assignment
    from scipy.spatial.distance import cdist

    # Rows are assigned one after another: coarsely spread ones first, each finds its place near the others' at once.
    first = first[_coarse_to_fine(len(first))]
    cost = cdist(first, second, "sqeuclidean")
    return float(cost[linear_sum_assignment(cost)].mean())


def _coarse_to_fine(count: int) -> IntArray:
    """0 to count - 1 by bit reversal: every beginning of it is spread evenly."""
    bits = max(1, (count - 1).bit_length())
    number = np.arange(1 << bits)
    reverse = np.zeros_like(number)
    for bit in range(bits):
        reverse |= ((number >> bit) & 1) << (bits - 1 - bit)
    return reverse[reverse < count]


# ---- as the paper's code has it --------------------------------------------------------------------


def _paper_points(graph: Skeleton, size: tuple[int, int]) -> Float32Array:
    """(500,2) at equal steps along the edges one after another, ordered by their higher node, then the lower."""
    nodes = graph.nodes / np.asarray(size, dtype=np.float64)
    edges = np.sort(graph.edges, axis=1)
    edges = edges[np.lexsort((edges[:, 0], edges[:, 1]))]
    start, end = nodes[edges[:, 0]], nodes[edges[:, 1]]
    length = np.hypot(*(end - start).T)
    ahead = np.concatenate([[0.0], np.cumsum(length)])
    # The hundredth keeps the last point on the last edge in spite of rounding.
    target = np.arange(PAPER_POINTS) * ahead[-1] / (PAPER_POINTS - 1 + 0.01)
    at = np.clip(np.searchsorted(ahead, target, side="right") - 1, 0, len(length) - 1)
    t = (target - ahead[at]) / np.where(length[at] > 0, length[at], 1.0)
    points: Float32Array = (start[at] + t[:, None] * (end - start)[at]).astype(np.float32)
    return points


def _truncated_sinkhorn(ground_truth: Float32Array, prediction: Float32Array) -> float:
    """Σ π·C after the few iterations that the stop allows: in the log domain, single precision, rows (ground truth) first."""
    single = np.float32
    across, down = (ground_truth[:, None, axis] - prediction[None, :, axis] for axis in (0, 1))
    cost = across * across + down * down
    epsilon = single(PAPER_EPSILON)
    log_weight = np.log(single(1 / PAPER_POINTS) + single(PAPER_LOG_OFFSET))
    u = np.zeros(len(ground_truth), dtype=single)
    v = np.zeros(len(prediction), dtype=single)

    def log_plan() -> Float32Array:
        # In single precision the order of these sums is part of the definition.
        table: Float32Array = u[:, None] - cost
        table += v
        table /= epsilon
        return table

    for _ in range(PAPER_ITERATIONS):
        before = u
        u = epsilon * (log_weight - _log_sum_exp(log_plan(), axis=1)) + u
        v = epsilon * (log_weight - _log_sum_exp(log_plan(), axis=0)) + v
        if np.abs(u - before).sum() < PAPER_STOP:
            break
    logarithm = log_plan().ravel()
    at = np.flatnonzero(logarithm > -VANISHING)
    return float((np.exp(logarithm[at]) * cost.ravel()[at]).sum())


def _log_sum_exp(values: Float32Array, axis: int) -> Float32Array:
    highest = values.max(axis=axis, keepdims=True)
    # With an ε as small as this, all but a few terms of each sum are 0 in single precision.
    at = np.flatnonzero(values > highest - VANISHING)
    line = at // values.shape[1] if axis == 1 else at % values.shape[1]
    highest = highest.ravel()
    terms = np.exp(values.ravel()[at] - highest[line])
    total: Float32Array = np.log(np.bincount(line, weights=terms)).astype(np.float32) + highest
    return total
