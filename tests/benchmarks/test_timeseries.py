"""The benchmark of time series: the assignment to known axes."""

from __future__ import annotations

from benchmarks.timeseries import match_known_axes

from tests.timeseries.series_factory import comb
from treeformer import Skeleton
from treeformer.timeseries.paths import axis_paths


def test_known_axes_are_assigned():
    known = axis_paths(comb(90, [(20, 30), (40, 20), (60, 15)]), 3.0)[0]
    found = axis_paths(comb(88, [(61, 14), (21, 28)]), 3.0)[0]
    assert match_known_axes(found, known, 6.0, 3.0) == [(0, 0), (1, 3), (2, 1)]
    assert match_known_axes(found, axis_paths(Skeleton([], []), 3.0)[0], 6.0, 3.0) == []
