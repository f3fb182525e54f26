"""Duplicate suppression, against a reference that compares every pair."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from treeformer.decoding.duplicates import (
    MAX_DENSE_NODES,
    MIN_CONFIDENT_SCORE,
    MIN_DUPLICATE_EDGE_COST,
    RADIUS_PX,
    suppress_duplicates,
)


def reference(score, points, cost, threshold):
    """By descending score: keep a node unless its score is low and it duplicates a kept one."""
    count = len(score)
    neighbors = [
        {k for k in range(count) if k != node and cost[node, k] < 0 and min(score[k], score[node]) >= threshold}
        for node in range(count)
    ]
    kept: list[int] = []
    for node in sorted(range(count), key=lambda k: (-score[k], k)):
        is_duplicate = any(
            np.hypot(*(points[node] - points[other])) <= RADIUS_PX
            and cost[node, other] > MIN_DUPLICATE_EDGE_COST
            and (not neighbors[node] or neighbors[node] & neighbors[other])
            for other in kept
        )
        if score[node] >= MIN_CONFIDENT_SCORE or not is_duplicate:
            kept.append(node)
    return [score[k] if k in kept else 0.0 for k in range(count)]


@given(
    st.integers(0, 12), st.integers(0, 10_000), st.sampled_from([5, 15, 60]), st.sampled_from([0.6, 1.0]), st.booleans()
)
def test_it_agrees_with_the_reference(count, seed, side, known_fraction, is_sparse):
    rng = np.random.default_rng(seed)
    score, points = rng.uniform(0.2, 0.8, count).round(2), rng.uniform(0, side, (count, 2))
    everything = np.argwhere(np.triu(np.ones((count, count), bool), 1))
    known = everything[rng.random(len(everything)) < known_fraction]
    pair_cost = rng.normal(1, 2, len(known))
    cost = np.full((count, count), np.inf)
    cost[known[:, 0], known[:, 1]] = cost[known[:, 1], known[:, 0]] = pair_cost
    with patch("treeformer.decoding.duplicates.MAX_DENSE_NODES", 0 if is_sparse else MAX_DENSE_NODES):
        found = suppress_duplicates(score, points, known, pair_cost, 0.3)
    assert found.tolist() == reference(score, points, cost, 0.3)


def test_confident_nodes_tips_at_junctions_and_nodes_with_their_own_neighbors_are_kept():
    points = np.array([(0.0, 0), (4, 0), (40, 0), (80, 0)])
    pairs = np.array([(0, 1), (0, 2), (1, 2), (1, 3)])

    def scores_after(score, *cost):
        return suppress_duplicates(np.array(score), points, pairs, np.array(cost, float), 0.3).tolist()

    assert scores_after([0.9, 0.6, 0.8, 0.8], 9, -2, -2, 9) == [0.9, 0.6, 0.8, 0.8], "confident"
    assert scores_after([0.9, 0.4, 0.8, 0.8], -2, -2, -2, 9) == [0.9, 0.4, 0.8, 0.8], "a tip at its junction"
    assert scores_after([0.9, 0.4, 0.8, 0.8], 9, -2, -2, 9) == [0.9, 0.0, 0.8, 0.8], "joined to the same node"
    assert scores_after([0.9, 0.4, 0.8, 0.8], 9, -2, 9, -2) == [0.9, 0.4, 0.8, 0.8], "joined to its own neighbor"
    assert scores_after([0.9, 0.4, 0.8, 0.8], 9, -2, 9, 9) == [0.9, 0.0, 0.8, 0.8], "joined to none"
    assert scores_after([0.9, 0.4, 0.8, 0.2], 9, -2, 9, -2) == [0.9, 0.0, 0.8, 0.2], (
        "joined to a node below the threshold"
    )


def test_no_nodes():
    empty = np.empty((0, 2))
    assert suppress_duplicates(np.empty(0), empty, empty.astype(int), np.empty(0), 0.3).tolist() == []
