"""Registration finds known motions, and says so if it cannot."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.timeseries.series_factory import frames, without_ids
from treeformer import Skeleton
from treeformer.synthetic import generate
from treeformer.timeseries.paths import arc_length, sample
from treeformer.timeseries.phase import residual_shift
from treeformer.timeseries.point_cloud import point_cloud
from treeformer.timeseries.registration import Target, default_tolerance, register, register_all
from treeformer.timeseries.similarity import Similarity


def worst_error(some_frames, results, reference):
    """Largest distance between registered nodes and where they belong, over all dates."""
    worst = 0.0
    for frame, result in zip(some_frames, results, strict=True):
        if len(frame.skeleton):
            motion = some_frames[reference].motion
            expected = frame.plate.nodes @ motion[:, :2].T + motion[:, 2]
            worst = max(worst, float(np.hypot(*(result.transform.apply(frame.skeleton.nodes) - expected).T).max()))
    return worst


@pytest.mark.parametrize(("preset", "seed"), [("plate", 3), ("several", 2), ("taproot", 104)])
def test_the_motion_of_a_growing_plate_is_found(preset, seed):
    dates = frames(preset, seed, 5, shift=0.05, rotation=5, scale=0.01)
    skeletons = [without_ids(frame.skeleton) for frame in dates]
    tolerance = default_tolerance(skeletons)
    results, reference = register_all(skeletons, tolerance)
    assert reference == 4
    assert all(result.succeeded for result, skeleton in zip(results, skeletons, strict=True) if len(skeleton))
    assert worst_error(dates, results, reference) < tolerance
    still, _ = register_all(skeletons, tolerance, enabled=False)
    assert worst_error(dates, still, reference) > tolerance


@pytest.mark.slow
@pytest.mark.parametrize("degrees", [90, 180, -60])
def test_a_turned_plate_is_found(degrees):
    plants = generate("several", 2)
    turn = Similarity(1.0, math.radians(degrees), (400.0, 150.0))
    moved = plants.transform(turn.matrix)
    found = register(point_cloud(moved, 4.0), Target(point_cloud(plants, 4.0), 8.0))
    assert found.succeeded
    assert found.method == "search"
    assert np.hypot(*(found.transform.apply(moved.nodes) - plants.nodes).T).max() < 2


@pytest.mark.slow
def test_other_plants_are_not_registered():
    one, other = generate("plate", 5), generate("vine", 8)
    found = register(point_cloud(other, 4.0), Target(point_cloud(one, 4.0), 4.0))
    assert not found.succeeded
    assert found.transform == Similarity()
    assert found.method == "none"


def test_an_empty_date_keeps_the_transform_of_its_neighbor():
    plants = generate("several", 2)
    moved = plants.transform([[1, 0, 30], [0, 1, -12]])
    results, reference = register_all([Skeleton([], []), moved, plants], 8.0)
    assert reference == 2
    assert not results[0].succeeded
    assert results[0].transform == results[1].transform
    assert np.allclose(results[1].transform.shift, (-30, 12), atol=0.5)


def test_only_empty_dates():
    results, _ = register_all([Skeleton([], []), Skeleton([], [])], 8.0)
    assert [result.succeeded for result in results] == [False, False]


@pytest.mark.parametrize("shift", [(0.0, 0.0), (5.0, -3.0), (-7.25, 2.5)])
def test_phase_correlation_finds_a_shift(shift):
    points = point_cloud(generate("taproot", 4), 1.0).points
    grown = np.concatenate([points, point_cloud(generate("taproot", 9), 1.0).points])
    found, height = residual_shift(points, grown + shift, 12.0)
    assert np.allclose(found, shift, atol=0.3)
    assert height > 3
    assert residual_shift(points, np.zeros((0, 2)), 9.0)[1] == 0.0


def test_sampled_points_lie_at_equal_intervals():
    bent = np.array([(0.0, 0.0), (30.0, 0.0), (30.0, 11.0)])
    points = sample(bent, 4.0)
    assert points[0].tolist() == [0, 0]
    assert points[-1].tolist() == [30, 11]
    assert len(points) == math.ceil(41 / 4) + 1
    assert arc_length(bent).tolist() == [0, 30, 41]
    cloud = point_cloud(Skeleton([(0, 0), (10, 0), (10, 3)], [(0, 1), (1, 2)], root=0), 5.0)
    assert cloud.points.tolist() == [[2.5, 0], [7.5, 0], [10, 1.5]]
    assert cloud.seeds.tolist() == [[0, 0]]
