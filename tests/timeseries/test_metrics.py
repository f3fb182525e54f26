"""Metrics of identity and growth on cases that are computed by hand."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from tests.timeseries.series_factory import comb, frames, series_of
from treeformer.timeseries.baseline import nearest_tracks
from treeformer.timeseries.metrics import detected_pairs, growth_errors, identity_score, shrinkages
from treeformer.timeseries.paths import axis_paths, path_distances


def test_identity_by_hand():
    seen = [("a", "1"), ("a", "1"), ("a", "2"), ("b", "2"), ("b", "2"), ("c", "2")]
    score = identity_score(seen, expected=10, predicted=8)
    assert (score.right, score.detected, score.errors) == (4, 6, 2)
    assert score.f1 == pytest.approx(4 / 6)
    assert score.recall == 0.6
    assert score.f1_of_all == pytest.approx(2 * 4 / 18)
    assert score.pairs == {"a": "1", "b": "2"}


def test_identity_is_the_best_of_all_pairings():
    rng = np.random.default_rng(0)
    for _ in range(10):
        seen = [(str(a), str(b)) for a, b in rng.integers(0, 4, (12, 2))]
        best = max(sum((a, b) in zip("0123", order, strict=True) for a, b in seen) for order in permutations("0123"))
        assert identity_score(seen).right == best


def test_nothing_detected():
    score = identity_score([])
    assert (score.f1, score.recall, score.f1_of_all) == (1, 1, 1)


def test_detected_pairs():
    expected = comb(100, [(20, 40), (60, 30)])
    moved = comb(97, [(60, 28), (20, 8)]).transform([[1, 0, 2], [0, 1, 1]])
    # The lateral of 8 px covers less than half of the mean of 8 and 40 px.
    assert detected_pairs(moved, expected, 4.0) == [(0, 0), (1, 2)]
    assert detected_pairs(moved, comb(90, []).transform([[1, 0, 90], [0, 1, 0]]), 4.0) == []


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_of_equal_overlaps_the_nearest_pairs_are_taken(order):
    """Two laterals of 6 px lie 3 px apart. Within a tolerance of 6 px, each overlaps completely with the other."""
    laterals = [(20, 6), (23, 6)]
    expected = comb(60, laterals)
    predicted = comb(60, [laterals[k] for k in order]).transform([[1, 0, 0], [0, 1, 0.5]])
    assert detected_pairs(predicted, expected, 6.0) == [(0, 0), (1, 1 + order[0]), (2, 1 + order[1])]


def test_path_distances_against_a_loop():
    a, b = (axis_paths(comb(length, [(20, 15), (40, 9)]), 3.0)[0] for length in (60, 90))
    table = path_distances(a, b, 20.0)
    for i in range(len(a)):
        for j in range(len(b)):
            each = [min(float(np.hypot(*(p - q))) for q in b.path(j)) for p in a.path(i)]
            assert table[i, j] == pytest.approx(np.mean(np.minimum(each, 20.0)))


def test_growth_of_ground_truth_has_small_errors():
    dates = frames("taproot", 1, 6, repeated=0.0)
    series = series_of(dates)
    seen = [
        (f.skeleton.axes[k].id, axis.id)
        for f, s in zip(dates, series.skeletons, strict=True)
        for k, axis in enumerate(s.axes)
    ]
    errors = growth_errors(series, [f.skeleton for f in dates], identity_score(seen).pairs)
    assert len(errors.emergence) > 3
    assert np.median(errors.emergence) < 0.5
    assert np.median(np.abs(errors.rate - errors.expected_rate)) < 0.05 * np.median(errors.expected_rate)


def test_shrinkages():
    assert shrinkages(np.array([10.0, 50.0, 49.0, 40.0, 60.0]), 8.0) == 1
    assert shrinkages(np.array([10.0]), 8.0) == 0


def test_the_baseline_follows_the_nearest_path():
    dates = [axis_paths(comb(60 + 9 * k, [(20, 9 + 3 * k), (40, 5 * k)]), 3.0)[0] for k in range(3)]
    assert [ids.tolist() for ids in nearest_tracks(dates, 4.0)] == [[0, 1], [0, 1, 2], [0, 1, 2]]
    far = axis_paths(comb(60, [], x=250.0), 3.0)[0]
    assert nearest_tracks([dates[0], far], 4.0)[1].tolist() == [2]
