"""Projection onto segments, against shapely and in degenerate cases."""

from __future__ import annotations

import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from treeformer._util.geometry import project_onto_segments


@given(st.integers(0, 10_000), st.sampled_from([1e-6, 1.0, 1e6]))
def test_distances_agree_with_shapely(seed, scale):
    rng = np.random.default_rng(seed)
    points, begin, end = scale * rng.normal(size=(3, 8, 2))
    t, distance = project_onto_segments(points, begin, end)
    lines = shapely.linestrings(np.stack([begin, end], axis=1))
    assert distance == pytest.approx(shapely.distance(shapely.points(points), lines), rel=1e-9, abs=1e-12 * scale)
    assert ((t >= 0) & (t <= 1)).all()
    position = begin + t[:, None] * (end - begin)
    assert np.hypot(*(points - position).T) == pytest.approx(distance, rel=1e-9, abs=1e-12 * scale)


def test_all_points_are_compared_with_all_segments():
    points, (begin, end) = np.random.default_rng(0).normal(size=(5, 2)), np.random.default_rng(1).normal(size=(2, 3, 2))
    t, distance = project_onto_segments(points[:, None], begin, end)
    assert t.shape == distance.shape == (5, 3)
    for row, point in enumerate(points):
        t_row, distance_row = project_onto_segments(np.broadcast_to(point, (3, 2)), begin, end)
        assert (t[row] == t_row).all()
        assert (distance[row] == distance_row).all()


def test_a_segment_of_length_zero_is_a_point():
    corner = np.array([(1.0, 1.0)])
    t, distance = project_onto_segments(np.array([(4.0, 5.0)]), corner, corner)
    assert (t.tolist(), distance.tolist()) == ([0.0], [5.0])


def test_the_arguments_are_not_modified():
    points, begin, end = np.ones((1, 2)), np.zeros((1, 2)), np.full((1, 2), 3.0)
    project_onto_segments(points, begin, end)
    assert (points.tolist(), begin.tolist(), end.tolist()) == ([[1, 1]], [[0, 0]], [[3, 3]])
