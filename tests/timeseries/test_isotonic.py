"""Isotonic regression against a quadratic program, and against all sequences of given values."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from treeformer.timeseries.isotonic import isotonic, isotonic_median

VALUES = st.lists(st.floats(-100, 100), min_size=1, max_size=30).map(np.asarray)


@given(VALUES)
def test_the_result_is_monotone_and_keeps_the_mean(values):
    fitted = isotonic(values)
    assert len(fitted) == len(values)
    assert (np.diff(fitted) >= 0).all()
    assert fitted.mean() == pytest.approx(values.mean(), abs=1e-9)
    assert np.allclose(isotonic(fitted), fitted)


def test_no_monotone_sequence_is_nearer():
    rng = np.random.default_rng(0)
    for _ in range(5):
        values, weights = rng.normal(0, 3, 6), rng.uniform(0.2, 3, 6)

        def error(steps, values=values, weights=weights):
            return float(weights @ np.square(np.cumsum(steps) - values))

        best = minimize(error, np.zeros(6), bounds=[(None, None)] + [(0, None)] * 5)
        fitted = isotonic(values, weights)
        assert float(weights @ np.square(fitted - values)) == pytest.approx(best.fun, abs=1e-4)


def test_no_values():
    assert len(isotonic(np.zeros(0))) == 0
    assert len(isotonic_median(np.zeros(0))) == 0


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=6))
def test_the_least_absolute_error_against_all_sequences(values):
    """A best sequence consists of given values."""
    target = np.asarray(values, dtype=float)
    fitted = isotonic_median(target)
    assert (np.diff(fitted) >= 0).all()
    candidates = itertools.combinations_with_replacement(sorted(set(values)), len(values))
    best = min(np.abs(np.asarray(one) - target).sum() for one in candidates)
    assert np.abs(fitted - target).sum() == pytest.approx(best)


def test_an_outlier_does_not_change_the_other_values():
    values = np.array([1.0, 2.0, 90.0, 3.0, 4.0, 5.0])
    assert isotonic_median(values)[[0, 1, 4, 5]].tolist() == [1, 2, 4, 5]
