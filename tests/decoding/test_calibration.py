"""Calibrated edge scores against slow references."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treeformer import Skeleton
from treeformer.decoding.calibration import calibrate, fit_calibration
from treeformer.decoding.postprocess import calibrate_edges, postprocess
from treeformer.errors import TreeformerError

COEFFICIENTS = (3.9, 0.8, 0.5, 2.2)


def slow_calibrate(edge: float, node: float, coefficients) -> float:
    if edge == 0:
        return 0.0
    edge, node = (min(max(value, 1e-6), 1 - 1e-6) for value in (edge, node))
    logit = math.log(edge / (1 - edge))
    intercept, below, above, of_node = coefficients
    total = intercept + (below if edge < 0.5 else above) * logit + of_node * math.log(node / (1 - node))
    return 1 / (1 + math.exp(-total)) if total > -700 else 0.0


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), max_size=9), st.tuples(*[st.floats(-5, 5)] * 4))
def test_calibration_agrees_with_a_loop(pairs, coefficients):
    edge, node = np.reshape(pairs, (-1, 2)).T
    expected = [slow_calibrate(*pair, coefficients) for pair in pairs]
    assert calibrate(edge, node, coefficients) == pytest.approx(expected, abs=1e-9)


@given(st.floats(1e-9, 1), st.floats(1e-9, 1), st.floats(0, 1))
def test_a_higher_score_is_never_calibrated_lower(low, high, node):
    low, high = sorted((low, high))
    first, second = calibrate(np.array([low, high]), np.array([node, node]), COEFFICIENTS)
    assert first <= second


def test_the_fit_recovers_the_coefficients_of_simulated_edges():
    random = np.random.default_rng(0)
    edge, node = random.uniform(0.01, 0.99, (2, 40_000))
    expected = (0.5, 0.6, 1.4, 0.3)
    is_correct = random.uniform(size=len(edge)) < calibrate(edge, node, expected)
    assert fit_calibration(edge, node, is_correct) == pytest.approx(expected, abs=0.1)
    # The weights decide which half is fitted.
    both = np.concatenate([is_correct, ~is_correct])
    weight = np.repeat([1.0, 1e-9], len(edge))
    fitted = fit_calibration(np.tile(edge, 2), np.tile(node, 2), both, weight)
    assert fitted == pytest.approx(expected, abs=0.1)


def test_slopes_are_not_negative_and_separable_edges_stay_finite():
    edge = np.array([0.1, 0.2, 0.8, 0.9])
    node = np.full(4, 0.7)
    backwards = fit_calibration(edge, node, np.array([True, True, False, False]))
    assert min(backwards[1:]) >= 0
    assert np.isfinite(fit_calibration(edge, node, np.array([False, False, True, True]))).all()
    for outcome in (True, False):
        with pytest.raises(TreeformerError, match="correct and wrong edges"):
            fit_calibration(edge, node, np.full(4, outcome))


def forest() -> Skeleton:
    return Skeleton(
        [(0, 0), (9, 0), (20, 0)],
        [(0, 1), (1, 2)],
        root=0,
        node_score=np.array([0.9, 0.6, 0.8]),
        edge_score=np.array([0.3, 0.0]),
        image_size=(32, 32),
    )


def test_edges_of_a_skeleton_use_the_lower_node_score_and_zero_stays_zero():
    score = calibrate_edges(forest(), COEFFICIENTS).edge_score
    assert score == pytest.approx([slow_calibrate(0.3, 0.6, COEFFICIENTS), 0.0])


def test_the_edge_threshold_applies_to_calibrated_scores():
    kept = postprocess(forest(), edge_threshold=0.5, calibration=COEFFICIENTS, metadata={"a": 1})
    assert kept.edges.tolist() == [[0, 1]]
    assert kept.metadata == {"a": 1}
    assert len(postprocess(forest(), edge_threshold=0.5, unsure_plants=True).edges) == 0
