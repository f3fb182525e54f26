"""Similarity transforms and their fit."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from treeformer.timeseries.similarity import IDENTITY, Similarity, fit_similarity, wrap

TRANSFORMS = st.builds(
    Similarity, st.floats(0.5, 2), st.floats(-3, 3), st.tuples(st.floats(-99, 99), st.floats(-99, 99))
)
POINTS = np.random.default_rng(0).uniform(-50, 50, (12, 2))


@given(TRANSFORMS, TRANSFORMS)
def test_after_and_inverse(first, second):
    assert np.allclose(second.after(first).apply(POINTS), second.apply(first.apply(POINTS)))
    assert np.allclose(first.inverse().after(first).apply(POINTS), POINTS)
    assert np.allclose(np.hstack([POINTS, np.ones((12, 1))]) @ first.matrix.T, first.apply(POINTS))


@given(TRANSFORMS)
def test_an_exact_transform_is_found(transform):
    found = fit_similarity(POINTS, transform.apply(POINTS))
    assert np.allclose(found.apply(POINTS), transform.apply(POINTS), atol=1e-6)


def test_the_fit_minimizes_the_weighted_error():
    rng = np.random.default_rng(1)
    target, weight = POINTS + rng.normal(0, 9, POINTS.shape), rng.uniform(0.1, 2, 12)

    def error(values):
        moved = Similarity(values[0], values[1], (values[2], values[3])).apply(POINTS)
        return float(weight @ np.square(moved - target).sum(axis=1))

    found = fit_similarity(POINTS, target, weight)
    best = minimize(error, (1, 0, 0, 0), method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-8, "maxiter": 9999})
    assert error((found.scale, found.rotation, *found.shift)) <= best.fun + 1e-4


def test_priors_hold_rotation_and_scale_of_close_points():
    pair = np.array([(0.0, 0.0), (2.0, 0.0)])
    turned = Similarity(1.5, 0.8).apply(pair)
    free, held = fit_similarity(pair, turned), fit_similarity(pair, turned, rotation_prior_px=50, scale_prior_px=50)
    assert free.rotation == pytest.approx(0.8)
    assert abs(held.rotation) < 0.01
    assert held.scale == pytest.approx(1, abs=0.01)
    assert np.allclose(held.apply(pair.mean(axis=0)), turned.mean(axis=0))


def test_few_points():
    assert fit_similarity(np.zeros((0, 2)), np.zeros((0, 2))) == IDENTITY
    assert fit_similarity(np.array([(1.0, 2.0)]), np.array([(4.0, 2.0)])) == Similarity(1.0, 0.0, (3.0, 0.0))


def test_wrap():
    assert wrap(3 * math.pi / 2) == pytest.approx(-math.pi / 2)
    assert wrap(-0.25) == pytest.approx(-0.25)
