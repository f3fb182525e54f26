"""Nodes that are named twice, against a twin that looks at every pair."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from treeformer.decoding.duplicates import RADIUS_PX, SURE, UNLIKELY_EDGE, suppress_duplicates


def slowly(score, points, cost, threshold):
    """From the likeliest node on: it stays unless it is unsure and a double of one that stays."""
    count = len(score)
    neighbors = [
        {k for k in range(count) if k != node and cost[node, k] < 0 and min(score[k], score[node]) >= threshold}
        for node in range(count)
    ]
    stays: list[int] = []
    for node in sorted(range(count), key=lambda k: (-score[k], k)):
        doubled = any(
            np.hypot(*(points[node] - points[other])) <= RADIUS_PX
            and cost[node, other] > UNLIKELY_EDGE
            and (not neighbors[node] or neighbors[node] & neighbors[other])
            for other in stays
        )
        if score[node] >= SURE or not doubled:
            stays.append(node)
    return [score[k] if k in stays else 0.0 for k in range(count)]


@given(st.integers(0, 12), st.integers(0, 10_000), st.sampled_from([5, 15, 60]), st.sampled_from([0.6, 1.0]))
def test_it_agrees_with_a_slow_twin(count, seed, side, share_known):
    rng = np.random.default_rng(seed)
    score, points = rng.uniform(0.2, 0.8, count).round(2), rng.uniform(0, side, (count, 2))
    everything = np.argwhere(np.triu(np.ones((count, count), bool), 1))
    known = everything[rng.random(len(everything)) < share_known]
    pair_cost = rng.normal(1, 2, len(known))
    cost = np.full((count, count), np.inf)
    cost[known[:, 0], known[:, 1]] = cost[known[:, 1], known[:, 0]] = pair_cost
    assert suppress_duplicates(score, points, known, pair_cost, 0.3).tolist() == slowly(score, points, cost, 0.3)


def test_sure_nodes_a_tip_at_its_junction_and_nodes_with_neighbors_of_their_own_stay():
    points = np.array([(0.0, 0), (4, 0), (40, 0), (80, 0)])
    pairs = np.array([(0, 1), (0, 2), (1, 2), (1, 3)])

    def left(score, *cost):
        return suppress_duplicates(np.array(score), points, pairs, np.array(cost, float), 0.3).tolist()

    assert left([0.9, 0.6, 0.8, 0.8], 9, -2, -2, 9) == [0.9, 0.6, 0.8, 0.8], "sure"
    assert left([0.9, 0.4, 0.8, 0.8], -2, -2, -2, 9) == [0.9, 0.4, 0.8, 0.8], "a tip at its junction"
    assert left([0.9, 0.4, 0.8, 0.8], 9, -2, -2, 9) == [0.9, 0.0, 0.8, 0.8], "tied to the same node"
    assert left([0.9, 0.4, 0.8, 0.8], 9, -2, 9, -2) == [0.9, 0.4, 0.8, 0.8], "tied to a node of its own"
    assert left([0.9, 0.4, 0.8, 0.8], 9, -2, 9, 9) == [0.9, 0.0, 0.8, 0.8], "tied to none"
    assert left([0.9, 0.4, 0.8, 0.2], 9, -2, 9, -2) == [0.9, 0.0, 0.8, 0.2], "tied to no node"


def test_nothing_stays_nothing():
    empty = np.empty((0, 2))
    assert suppress_duplicates(np.empty(0), empty, empty.astype(int), np.empty(0), 0.3).tolist() == []
