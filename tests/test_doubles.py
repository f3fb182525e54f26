"""Nodes that are named twice, against a twin that looks at every pair."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from treeformer.doubles import RADIUS_PX, SURE, UNLIKELY_EDGE, close_pairs, costs_among, without_doubles


def slowly(score, points, cost):
    """From the likeliest node on: it stays unless it is unsure and a double of one that stays."""
    stays: list[int] = []
    for node in sorted(range(len(score)), key=lambda k: (-score[k], k)):
        near = [other for other in stays if np.hypot(*(points[node] - points[other])) <= RADIUS_PX]
        if score[node] >= SURE or not any(cost[node, other] > UNLIKELY_EDGE for other in near):
            stays.append(node)
    return [score[k] if k in stays else 0.0 for k in range(len(score))]


@given(st.integers(0, 12), st.integers(0, 10_000), st.sampled_from([5, 15, 60]))
def test_it_agrees_with_a_slow_twin(count, seed, side):
    rng = np.random.default_rng(seed)
    score, points = rng.uniform(0.2, 0.8, count).round(2), rng.uniform(0, side, (count, 2))
    cost = rng.normal(1, 2, (count, count))
    cost = cost + cost.T
    close = close_pairs(points)
    assert without_doubles(score, close, cost[close[:, 0], close[:, 1]]).tolist() == slowly(score, points, cost)
    everything = np.argwhere(np.triu(np.ones((count, count), bool), 1))
    known = everything[rng.random(len(everything)) < 0.6]
    listed = np.full((count, count), np.inf)
    listed[known[:, 0], known[:, 1]] = listed[known[:, 1], known[:, 0]] = cost[known[:, 0], known[:, 1]]
    among = costs_among(close, known, cost[known[:, 0], known[:, 1]], count)
    assert without_doubles(score, close, among).tolist() == slowly(score, points, listed)


def test_sure_nodes_and_a_tip_at_its_junction_stay():
    points = np.array([(0.0, 0), (4, 0), (0, 4)])
    close = close_pairs(points)
    assert without_doubles(np.array([0.9, 0.6, 0.7]), close, np.full(3, 9.0)).tolist() == [0.9, 0.6, 0.7]
    assert without_doubles(np.array([0.9, 0.4, 0.3]), close, np.full(3, -2.0)).tolist() == [0.9, 0.4, 0.3]
    assert without_doubles(np.array([0.9, 0.4, 0.3]), close, np.full(3, 9.0)).tolist() == [0.9, 0.0, 0.0]
