"""Isotonic regression against a quadratic program."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from treeformer.timeseries.isotonic import isotonic

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
