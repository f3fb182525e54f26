"""Suppress duplicate nodes: uncertain locations often yield clusters of low-score candidates."""

from __future__ import annotations

import numpy as np

from treeformer._util.arrays import BoolArray, FloatArray, IntArray
from treeformer._util.search_tree import search_tree

RADIUS_PX = 6.0  # in px of the image at the network's working size
MIN_CONFIDENT_SCORE = 0.5  # nodes with at least this score are kept: some drawings have nodes this close together
# Two nodes within the radius are duplicates if the cost f⁻ − f⁺ of their edge is higher; otherwise they may be a tip
# and its junction.
MIN_DUPLICATE_EDGE_COST = 1.0
MAX_DENSE_NODES = 1024  # above, neighbors are stored as a sparse matrix, which takes longer to build


def suppress_duplicates(
    score: FloatArray, points: FloatArray, pairs: IntArray, pair_cost: FloatArray, node_threshold: float
) -> FloatArray:
    """Return the scores (K,), 0 for duplicate nodes.

    Duplicates make the tree run back and forth between them, so that lengths come out too long. A node is a duplicate
    if its score is below `MIN_CONFIDENT_SCORE`, a kept node of a higher score is within `RADIUS_PX`, the edge between
    them is unlikely, and both have likely edges to the same neighbor (or the node has no likely edge). Nodes with a
    score below `node_threshold` do not count as neighbors. If two branches pass each other, each node has its own
    neighbors and both are kept.

    `points` (K,2) are finite, px of the image at the network's working size. `pairs` (E,2), i < j, ascending, have the
    known edge costs f⁻ − f⁺ (E,).

    Example:
        >>> nodes, pairs = np.array([(0.0, 0), (3, 0), (50, 0)]), np.array([(0, 1), (0, 2), (1, 2)])
        >>> suppress_duplicates(np.array([0.7, 0.4, 0.4]), nodes, pairs, np.array([2.0, -3, -1]), 0.3).tolist()
        [0.7, 0.0, 0.4]
        >>> suppress_duplicates(np.array([0.7, 0.4, 0.4]), nodes, pairs, np.array([2.0, 3, -1]), 0.3).tolist()
        [0.7, 0.4, 0.4]
    """
    result = score.copy()
    close = _close_pairs(points)
    close = close[(score[close] < MIN_CONFIDENT_SCORE).any(axis=1)]
    if not len(close):
        return result
    order = np.argsort(-score, kind="stable")
    rank = np.empty(len(score), dtype=np.intp)
    rank[order] = np.arange(len(score))
    first, second = close[_lookup_costs(close, pairs, pair_cost, len(score)) > MIN_DUPLICATE_EDGE_COST].T
    swap = rank[first] > rank[second]
    better, worse = np.where(swap, second, first), np.where(swap, first, second)
    likely = pairs[(pair_cost < 0) & (score[pairs] >= node_threshold).all(axis=1)]
    is_candidate = _share_neighbor(better, worse, likely, len(score))
    better, worse = better[is_candidate], worse[is_candidate]
    # By descending score, so that it is known whether the better node of each pair is kept.
    for pair in np.argsort(rank[worse], kind="stable"):
        if score[worse[pair]] < MIN_CONFIDENT_SCORE and result[better[pair]] > 0:
            result[worse[pair]] = 0.0
    return result


def _share_neighbor(better: IntArray, worse: IntArray, likely: IntArray, count: int) -> BoolArray:
    """Return (P,) True if likely edges (E,2) join `worse` to a neighbor of `better`, or to no node at all."""
    if not len(worse):
        return np.empty(0, dtype=bool)
    tails, heads = likely.T
    ends = np.concatenate([tails, heads]), np.concatenate([heads, tails])
    if count <= MAX_DENSE_NODES:
        dense = np.zeros((count, count), dtype=bool)
        dense[ends] = True
        has_common = (dense[better] & dense[worse]).any(axis=1)
    else:
        from scipy.sparse import csr_array

        adjacent = csr_array((np.ones(len(ends[0]), dtype=np.int32), ends), shape=(count, count))
        has_common = (adjacent[better] * adjacent[worse]).sum(axis=1) > 0
    degree = np.bincount(ends[0], minlength=count)
    shared: BoolArray = has_common | (degree[worse] == 0)
    return shared


def _close_pairs(points: FloatArray) -> IntArray:
    """Return (P,2) the pairs of finite points (K,2) within `RADIUS_PX` of each other."""
    if len(points) <= MAX_DENSE_NODES // 4:  # the few dozen nodes of one tile: a search tree takes longer
        x, y = points.astype(np.float64).T
        is_close = (x[:, None] - x) ** 2 + (y[:, None] - y) ** 2 <= RADIUS_PX**2
        return np.argwhere(np.triu(is_close, 1))
    pairs: IntArray = search_tree(points).query_pairs(RADIUS_PX, output_type="ndarray").astype(np.intp)
    return pairs


def _lookup_costs(close: IntArray, pairs: IntArray, pair_cost: FloatArray, count: int) -> FloatArray:
    """Return (P,) the costs of close pairs (P,2) among known pairs (E,2), i < j, ascending; infinity if unknown."""
    known = pairs[:, 0] * count + pairs[:, 1]
    wanted = close.min(axis=1) * count + close.max(axis=1)
    row = np.searchsorted(known, wanted)
    is_known = np.append(known, -1)[row] == wanted
    return np.where(is_known, np.append(pair_cost, np.inf)[row], np.inf)
