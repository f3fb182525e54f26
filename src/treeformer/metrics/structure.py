"""Structure: compare two graphs node by node and edge by edge.

Nodes of the prediction and the ground truth are matched one to one within a radius. The matching has as many pairs as
possible and, among all such matchings, the least total distance. All other counts are based on that matching.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treeformer._util.arrays import FloatArray, IntArray
from treeformer.metrics._inputs import GraphLike, Scores, length_px, pair
from treeformer.skeleton import Skeleton
from treeformer.skeleton.connectivity import components

# 8 px on the paper's 512×512 images: the distance between neighboring nodes of its root set.
MATCH_RADIUS = 8.0
# Largest length error; a ground truth of a tiny length would make it arbitrarily large.
LARGEST_ERROR = 1e6
# Coordinates are limited to this range for the search of neighbors: their squares must not overflow.
LARGEST_PX = 1e100


@dataclass(frozen=True, slots=True)
class Structure:
    """The agreement of two graphs of one image, node by node and edge by edge.

    Scores are 1.0 if neither graph has any such element, and 0.0 if only one has.

    Attributes:
        nodes: precision and recall of nodes.
        edges: precision and recall of edges. An edge is correct if both its ends are matched and the ground truth joins
            their partners.
        keypoints: precision and recall of nodes of degree ≠ 2, matched among themselves.
        exact: True if all nodes are matched and all edges are correct, in both graphs.
        tree: True if the prediction is a tree. An isolated node is a component of its own.
        tree_of_edges: the same without isolated nodes, as the paper's code counts.
        forest: True if the prediction has no cycle.
        length_error: (predicted - true) / true length, at most 1e6; NaN if only the prediction has length.
    """

    nodes: Scores
    edges: Scores
    keypoints: Scores
    exact: bool
    tree: bool
    tree_of_edges: bool
    forest: bool
    length_error: float


def structure(
    prediction: GraphLike,
    ground_truth: GraphLike,
    *,
    radius_px: float | None = None,
    image_size: tuple[int, int] | None = None,
) -> Structure:
    """Compare two graphs node by node and edge by edge.

    Args:
        prediction: a Skeleton, or arrays (nodes, edges) with nodes in px.
        ground_truth: the same for the ground truth.
        radius_px: maximum distance of matched nodes, px; 8/512 of the image's longer side by default.
        image_size: (width, height) px; required if neither graph is a Skeleton with an image size.

    Returns:
        The scores and counts.

    Raises:
        SkeletonError: if a graph is invalid, the image size is missing or ambiguous, or `radius_px` is not positive.

    Example:
        >>> line, longer = ([(0, 0), (8, 0)], [(0, 1)]), ([(0, 0), (8, 0), (99, 0)], [(0, 1), (1, 2)])
        >>> result = structure(longer, line, image_size=(512, 512))
        >>> result.edges.precision, result.edges.recall, result.tree
        (0.5, 1.0, True)
    """
    predicted, true, size = pair(prediction, ground_truth, image_size)
    radius = length_px(radius_px, MATCH_RADIUS, size, "radius_px")
    partner = match_nodes(predicted.nodes, true.nodes, radius)
    matched = int((partner >= 0).sum())
    correct = _correct_edges(predicted, true, partner)
    keypoints = predicted.nodes[predicted.degree != 2], true.nodes[true.degree != 2]
    matched_keypoints = int((match_nodes(*keypoints, radius) >= 0).sum())
    return Structure(
        nodes=_scores(matched, len(predicted), len(true)),
        edges=_scores(correct, len(predicted.edges), len(true.edges)),
        keypoints=_scores(matched_keypoints, len(keypoints[0]), len(keypoints[1])),
        exact=len(predicted) == len(true) == matched and len(predicted.edges) == len(true.edges) == correct,
        tree=predicted.is_tree,
        tree_of_edges=_is_tree_of_edges(predicted),
        forest=predicted.is_forest,
        length_error=_length_error(predicted.length, true.length),
    )


def match_nodes(first: FloatArray, second: FloatArray, radius_px: float) -> IntArray:
    """Match two sets of points one to one: as many pairs as possible, then the least total distance.

    Args:
        first: (N,2) px.
        second: (M,2) px.
        radius_px: maximum distance of a pair, px.

    Returns:
        (N,) index in `second` of the partner of each point of `first`, -1 if it has none.

    Example:
        >>> match_nodes(np.array([[0.0, 0.0], [3.0, 0.0]]), np.array([[2.0, 0.0], [5.0, 0.0]]), 2.5).tolist()
        [0, 1]
    """
    from scipy.optimize import linear_sum_assignment
    from scipy.spatial import cKDTree

    partner = np.full(len(first), -1, dtype=np.intp)
    if len(first) == 0 or len(second) == 0:
        return partner
    first, second = (np.clip(points, -LARGEST_PX, LARGEST_PX) for points in (first, second))
    radius_px = min(radius_px, 4 * LARGEST_PX)
    near = cKDTree(first).sparse_distance_matrix(cKDTree(second), radius_px, output_type="ndarray")
    row, column, distance = near["i"].astype(np.intp), near["j"].astype(np.intp), near["v"]
    # Connected groups of nearby points are independent assignment problems.
    group = components(np.stack([row, len(first) + column], axis=1), len(first) + len(second))[row]
    order = np.argsort(group, kind="stable")
    for members in np.split(order, np.flatnonzero(np.diff(group[order])) + 1):
        rows, at_row = np.unique(row[members], return_inverse=True)
        columns, at_column = np.unique(column[members], return_inverse=True)
        # One forbidden pair costs more than all permitted pairs together, so the solver uses as few as possible.
        forbidden = (radius_px + 1.0) * (min(len(rows), len(columns)) + 1)
        cost = np.full((len(rows), len(columns)), forbidden)
        cost[at_row, at_column] = distance[members]
        assigned_row, assigned_column = linear_sum_assignment(cost)
        permitted = cost[assigned_row, assigned_column] < forbidden
        partner[rows[assigned_row[permitted]]] = columns[assigned_column[permitted]]
    return partner


def _correct_edges(predicted: Skeleton, true: Skeleton, partner: IntArray) -> int:
    ends = partner[predicted.edges]
    ends = np.sort(ends[(ends >= 0).all(axis=1)], axis=1)
    true_ends = np.sort(true.edges, axis=1)
    return len(np.intersect1d(ends[:, 0] * len(true) + ends[:, 1], true_ends[:, 0] * len(true) + true_ends[:, 1]))


def _scores(correct: int, predicted: int, true: int) -> Scores:
    if predicted == 0 and true == 0:
        return Scores(1.0, 1.0)
    return Scores(correct / predicted if predicted else 0.0, correct / true if true else 0.0)


def _is_tree_of_edges(skeleton: Skeleton) -> bool:
    connected = skeleton.degree > 0
    component_count = len(np.unique(skeleton.component[connected]))
    return component_count == 1 and len(skeleton.edges) == int(connected.sum()) - 1


def _length_error(predicted: float, true: float) -> float:
    if true > 0:
        return min((predicted - true) / true, LARGEST_ERROR)
    return float("nan") if predicted > 0 else 0.0
