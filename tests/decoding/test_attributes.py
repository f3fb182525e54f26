"""Radii and directions of nodes against slow references, and their effect on trees."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strategies import examples
from treeformer.decoding.attributes import MAX_RADIUS_PX, direction_cost, radius_px
from treeformer.decoding.decode import decode, decode_pairs


@given(st.lists(st.floats(0, 500), max_size=9), st.floats(0.1, 10))
def test_radii_are_decoded_and_scaled(radii, scale):
    attributes = np.array([(math.log(radius + 0.5), 0, 0) for radius in radii]).reshape(-1, 3)
    assert radius_px(attributes, scale) == pytest.approx([radius * scale for radius in radii], abs=1e-6)


def test_absurd_radii_are_bounded():
    log_radius = np.array([-1e30, -np.inf, 1e30, np.inf, np.nan])
    found = radius_px(np.stack([log_radius, *np.zeros((2, 5))], axis=1), 2.0)
    assert found[:2].tolist() == [0, 0]
    assert found[2:4] == pytest.approx(2 * MAX_RADIUS_PX, rel=1e-3)
    assert np.isnan(found[4])


def slow_direction_cost(points, i, j, attributes, weight):
    """Return the cost of one edge, with angles."""

    def agreement(start, end):
        dx, dy = attributes[start, 1:]
        length = min(math.hypot(dx, dy), 1.0)
        (x, y), (to_x, to_y) = points[start], points[end]
        if length == 0 or (x, y) == (to_x, to_y):
            return 0.0, length
        angle = math.atan2(dy, dx) - math.atan2(to_y - y, to_x - x)
        return length * math.cos(angle), length

    (first, first_length), (second, second_length) = agreement(i, j), agreement(j, i)
    return weight * max(max(first_length, second_length) - max(first, second), 0.0)


@given(st.integers(0, 10**6), st.floats(0, 20))
def test_direction_costs_agree_with_angles(seed, weight):
    random = np.random.default_rng(seed)
    points = random.integers(0, 4, (6, 2)).astype(float)
    attributes = random.normal(0, 0.8, (6, 3))
    attributes[random.uniform(size=6) < 0.2, 1:] = 0
    pairs = np.stack(np.triu_indices(6, 1), axis=1)
    expected = [slow_direction_cost(points, i, j, attributes, weight) for i, j in pairs]
    assert direction_cost(points, pairs, attributes, weight) == pytest.approx(expected, abs=1e-9)


def test_unknown_directions_cost_nothing():
    points, pairs = np.array([(0.0, 0.0), (5, 0)]), np.array([(0, 1)])
    for value in (0.0, np.nan, np.inf):
        assert direction_cost(points, pairs, np.full((2, 3), value), 8.0).tolist() == [0.0]


def crossing():
    """Return two vertical roots, 10 px apart: the wrong edge across is a little cheaper than the right one along."""
    points = np.array([(0.0, 0), (0, 30), (0, 60), (10, 0), (10, 30), (10, 60)])
    cost = np.full((6, 6), 9.0)
    for i, j, value in ((0, 1, -3), (1, 2, -1), (3, 4, -3), (4, 5, -3), (2, 5, -1.5)):
        cost[i, j] = cost[j, i] = value
    up = np.tile([0.0, 0.0, -1.0], (6, 1))
    return points, cost, np.array([3.0, -9, -9, 3.0, -9, -9]), up


def edge_set(skeleton):
    return {tuple(sorted(edge)) for edge in skeleton.edges.tolist()}


def test_directions_decide_between_similar_edges():
    points, cost, logit, up = crossing()
    score, pairs = np.full(6, 0.9), np.stack(np.triu_indices(6, 1), axis=1)
    extra = direction_cost(points, pairs, up, 8.0)
    dense = np.zeros((6, 6))
    dense[pairs[:, 0], pairs[:, 1]] = extra
    dense += dense.T
    without = decode(score, points, cost, logit)
    assert (2, 5) in edge_set(without)
    with_directions = decode(score, points, cost, logit, extra_cost=dense, radius=np.arange(6.0))
    assert edge_set(with_directions) == {(0, 1), (1, 2), (3, 4), (4, 5)}
    assert with_directions.radius.tolist() == [0, 1, 2, 3, 4, 5]
    # The score of an edge is still the network's.
    assert with_directions.edge_score.max() == pytest.approx(1 / (1 + math.exp(-3)))
    sparse = decode_pairs(
        score, points, pairs, cost[pairs[:, 0], pairs[:, 1]], logit, extra_cost=extra, radius=np.arange(6.0)
    )
    assert sparse == with_directions


@settings(max_examples=examples(30))
@given(st.integers(0, 10**6))
def test_any_extra_cost_gives_the_same_forest_from_pairs_and_from_a_matrix(seed):
    random = np.random.default_rng(seed)
    count = 7
    score, points = random.uniform(0.4, 1, count), random.uniform(0, 50, (count, 2))
    cost, extra = random.normal(0, 3, (2, count, count))
    cost, extra = cost + cost.T, extra + extra.T
    extra[random.uniform(size=extra.shape) < 0.1] = np.nan
    extra = (extra + extra.T) / 2
    logit, radius = random.normal(0, 3, count), random.uniform(0, 5, count)
    pairs = np.stack(np.triu_indices(count, 1), axis=1)
    i, j = pairs.T
    for single in (False, True):
        whole = decode(score, points, cost, logit, extra_cost=extra, radius=radius, single_plant=single)
        sparse = decode_pairs(
            score, points, pairs, cost[i, j], logit, extra_cost=extra[i, j], radius=radius, single_plant=single
        )
        assert sparse == whole
        assert whole.is_forest
