"""Structure: are the right nodes there, joined by the right edges, into a tree?

Nodes of the prediction and of the ground truth are matched one to one within a radius: as many pairs as possible and, among
all such matchings, the one with the least total distance. Everything else is counted on that matching.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treeformer._util.arrays import FloatArray, IntArray
from treeformer.metrics._inputs import GraphLike, Scores, length_px, pair
from treeformer.skeleton import Skeleton
from treeformer.skeleton.branches import components

# 8 px on the paper's 512×512 images: the distance between neighboring nodes of its root set.
MATCH_RADIUS = 8.0


@dataclass(frozen=True, slots=True)
class Structure:
    """How two graphs of one image agree, node by node and edge by edge.

    nodes, edges, keypoints: precision and recall; an edge is right where both its ends are matched and the ground truth joins
    them. Both are 1.0 where neither graph has any, 0.0 where only one has.
    exact: every node matched and every edge right, in both directions.
    tree: the prediction is a tree; isolated nodes count as pieces of their own. tree_of_edges: the same without
    isolated nodes, as the paper's code counts. forest: the prediction has no cycle.
    length_error: (predicted - true) / true length; NaN where the ground truth has none and the prediction some.
    tip_error, branch_point_error: predicted - true number of nodes of degree 1, of degree 3 and more.
    """

    nodes: Scores
    edges: Scores
    keypoints: Scores
    exact: bool
    tree: bool
    tree_of_edges: bool
    forest: bool
    length_error: float
    tip_error: int
    branch_point_error: int


def structure(
    prediction: GraphLike,
    ground_truth: GraphLike,
    *,
    radius_px: float | None = None,
    image_size: tuple[int, int] | None = None,
) -> Structure:
    """Compare two graphs node by node and edge by edge.

    Args:
        prediction, ground truth: skeletons, or pairs (nodes, edges) with nodes in pixels.
        radius_px: how far apart matched nodes may be; 8/512 of the image's longer side unless given.
        image_size: (width, height) in pixels; needed where neither skeleton has it.

    >>> line, longer = ([(0, 0), (8, 0)], [(0, 1)]), ([(0, 0), (8, 0), (99, 0)], [(0, 1), (1, 2)])
    >>> result = structure(longer, line, image_size=(512, 512))
    >>> result.edges.precision, result.edges.recall, result.tree, result.tip_error
    (0.5, 1.0, True, 0)
    """
    found, wanted, size = pair(prediction, ground_truth, image_size)
    radius = length_px(radius_px, MATCH_RADIUS, size, "radius_px")
    mate = match_nodes(found.nodes, wanted.nodes, radius)
    matched = int((mate >= 0).sum())
    right = _right_edges(found, wanted, mate)
    keys = found.nodes[found.degree != 2], wanted.nodes[wanted.degree != 2]
    key_matched = int((match_nodes(*keys, radius) >= 0).sum())
    degrees = found.degree, wanted.degree
    return Structure(
        nodes=_scores(matched, len(found), len(wanted)),
        edges=_scores(right, len(found.edges), len(wanted.edges)),
        keypoints=_scores(key_matched, len(keys[0]), len(keys[1])),
        exact=len(found) == len(wanted) == matched and len(found.edges) == len(wanted.edges) == right,
        tree=found.is_tree,
        tree_of_edges=_is_tree_of_edges(found),
        forest=found.is_forest,
        length_error=_length_error(found.length, wanted.length),
        tip_error=int((degrees[0] == 1).sum()) - int((degrees[1] == 1).sum()),
        branch_point_error=int((degrees[0] > 2).sum()) - int((degrees[1] > 2).sum()),
    )


def match_nodes(first: FloatArray, second: FloatArray, radius_px: float) -> IntArray:
    """For each point of `first` (N,2) its partner in `second` (M,2) within the radius, -1 for none.

    As many pairs as possible, then the least total distance.

    >>> match_nodes(np.array([[0.0, 0.0], [3.0, 0.0]]), np.array([[2.0, 0.0], [5.0, 0.0]]), 2.5).tolist()
    [0, 1]
    """
    from scipy.optimize import linear_sum_assignment
    from scipy.spatial import cKDTree

    mate = np.full(len(first), -1, dtype=np.intp)
    if len(first) == 0 or len(second) == 0:
        return mate
    near = cKDTree(first).sparse_distance_matrix(cKDTree(second), radius_px, output_type="ndarray")
    row, column, distance = near["i"].astype(np.intp), near["j"].astype(np.intp), near["v"]
    # Points that are near each other form small groups, and each is an assignment problem of its own.
    group = components(np.stack([row, len(first) + column], axis=1), len(first) + len(second))[row]
    order = np.argsort(group, kind="stable")
    for members in np.split(order, np.flatnonzero(np.diff(group[order])) + 1):
        rows, at_row = np.unique(row[members], return_inverse=True)
        columns, at_column = np.unique(column[members], return_inverse=True)
        # One forbidden pair costs more than all permitted ones together: so as few as possible are taken.
        forbidden = (radius_px + 1.0) * (min(len(rows), len(columns)) + 1)
        cost = np.full((len(rows), len(columns)), forbidden)
        cost[at_row, at_column] = distance[members]
        taken_row, taken_column = linear_sum_assignment(cost)
        permitted = cost[taken_row, taken_column] < forbidden
        mate[rows[taken_row[permitted]]] = columns[taken_column[permitted]]
    return mate


def _right_edges(found: Skeleton, wanted: Skeleton, mate: IntArray) -> int:
    ends = mate[found.edges]
    ends = np.sort(ends[(ends >= 0).all(axis=1)], axis=1)
    true = np.sort(wanted.edges, axis=1)
    return len(np.intersect1d(ends[:, 0] * len(wanted) + ends[:, 1], true[:, 0] * len(wanted) + true[:, 1]))


def _scores(right: int, predicted: int, true: int) -> Scores:
    if predicted == 0 and true == 0:
        return Scores(1.0, 1.0)
    return Scores(right / predicted if predicted else 0.0, right / true if true else 0.0)


def _is_tree_of_edges(skeleton: Skeleton) -> bool:
    joined = skeleton.degree > 0
    pieces = len(np.unique(skeleton.component[joined]))
    return pieces == 1 and len(skeleton.edges) == int(joined.sum()) - 1


def _length_error(predicted: float, true: float) -> float:
    if true > 0:
        return (predicted - true) / true
    return float("nan") if predicted > 0 else 0.0
