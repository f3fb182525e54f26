"""Nodes that a network names twice: where it is unsure of a place, it puts several unlikely nodes around it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.spatial import cKDTree

from treeformer._util.arrays import FloatArray, IntArray

RADIUS_PX = 6.0  # of the image as the network sees it
SURE = 0.5  # a node from this probability on stays: drawings have nodes that near
UNLIKELY_EDGE = 1.0  # f⁻ − f⁺ above which two nodes so near to each other are one; below, a tip and its junction


def suppress_duplicates(
    score: FloatArray, points: FloatArray, pairs: IntArray, pair_cost: FloatArray, node_threshold: float
) -> FloatArray:
    """The scores, 0 for each node that is less likely than not and a double of a likelier one that stays.

    Several nodes for one make the tree run back and forth between them: lengths come out too long. Both of two doubles
    are tied to the same neighbors; where two branches pass each other, each node has neighbors of its own.

    Args:
        score: (K,) probabilities.
        points: (K,2) finite, px of the image as the network sees it.
        pairs: (E,2) the pairs of nodes whose edges are known, i < j, rising.
        pair_cost: (E,) f⁻ − f⁺ of those.
        node_threshold: nodes below are nobody's neighbors.

    >>> nodes, pairs = np.array([(0.0, 0), (3, 0), (50, 0)]), np.array([(0, 1), (0, 2), (1, 2)])
    >>> suppress_duplicates(np.array([0.7, 0.4, 0.4]), nodes, pairs, np.array([2.0, -3, -1]), 0.3).tolist()
    [0.7, 0.0, 0.4]
    >>> suppress_duplicates(np.array([0.7, 0.4, 0.4]), nodes, pairs, np.array([2.0, 3, -1]), 0.3).tolist()
    [0.7, 0.4, 0.4]
    """
    result = score.copy()
    order = np.argsort(-score, kind="stable")
    rank = np.empty(len(score), dtype=np.intp)
    rank[order] = np.arange(len(score))
    close = _close_pairs(points)
    one, other = close[_costs_among(close, pairs, pair_cost, len(score)) > UNLIKELY_EDGE].T
    swap = rank[one] > rank[other]
    likelier, double = np.where(swap, other, one), np.where(swap, one, other)
    likely = pairs[(pair_cost < 0) & (score[pairs] >= node_threshold).all(axis=1)]
    same = _tied_alike(likelier, double, likely, len(score))
    likelier, double = likelier[same], double[same]
    # From the likeliest on, so that whether the likelier one stays is known.
    for pair in np.argsort(rank[double], kind="stable"):
        if score[double[pair]] < SURE and result[likelier[pair]] > 0:
            result[double[pair]] = 0.0
    return result


def _tied_alike(likelier: IntArray, double: IntArray, likely: IntArray, count: int) -> NDArray[np.bool_]:
    """(P,) whether `double` has a neighbor by a likely edge (E,2) in common with `likelier`, or none at all."""
    if not len(double):
        return np.empty(0, dtype=bool)
    one, other = likely.T
    ends = np.concatenate([one, other]), np.concatenate([other, one])
    tied = csr_array((np.ones(len(ends[0]), dtype=np.int32), ends), shape=(count, count))
    common = (tied[likelier] * tied[double]).sum(axis=1)
    alike: NDArray[np.bool_] = (common > 0) | (np.bincount(ends[0], minlength=count)[double] == 0)
    return alike


def _close_pairs(points: FloatArray) -> IntArray:
    """(P,2) the pairs of nodes at finite points (K,2) that are within `RADIUS_PX` of each other."""
    if not len(points):
        return np.empty((0, 2), dtype=np.intp)
    pairs: IntArray = cKDTree(points).query_pairs(RADIUS_PX, output_type="ndarray").astype(np.intp)
    return pairs


def _costs_among(close: IntArray, pairs: IntArray, pair_cost: FloatArray, count: int) -> FloatArray:
    """(P,) what close pairs (P,2) of `count` nodes cost among the known pairs (E,2), i < j, rising; else infinity."""
    known = pairs[:, 0] * count + pairs[:, 1]
    wanted = close.min(axis=1) * count + close.max(axis=1)
    place = np.searchsorted(known, wanted)
    found = np.append(known, -1)[place] == wanted
    return np.where(found, np.append(pair_cost, np.inf)[place], np.inf)
