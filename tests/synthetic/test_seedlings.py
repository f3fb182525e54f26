"""Rows of seedlings: their number, their positions and their roots."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from treeformer import Skeleton
from treeformer.synthetic import generate
from treeformer.synthetic.plants.growth import GrownAxis
from treeformer.synthetic.plants.plate_rows import MIN_ROOT_PX, MIN_SPACING_PX, PLATE_KINDS, plant_rows
from treeformer.synthetic.rng import Rng


@pytest.fixture(scope="module")
def plates() -> list[Skeleton]:
    return [generate("plate", seed) for seed in range(200)]


@pytest.mark.slow
def test_a_plate_holds_many_seedlings_of_one_kind(plates: list[Skeleton]) -> None:
    counts = np.asarray([len(plate.plants) for plate in plates])
    assert counts.min() >= 2
    assert 8 <= np.median(counts) <= 14
    assert np.mean(counts >= 10) > 0.45  # many more than `several` has
    assert np.mean((counts >= 3) & (counts <= 6)) > 0.1  # views of a part of a plate
    assert {plate.metadata["kind"] for plate in plates} == set(PLATE_KINDS)
    labels = {plate.metadata["kind"]: {axis.label for axis in plate.axes} for plate in plates}
    assert "seminal" in labels["cereal"]
    assert "primary" in labels["rosette"]


@pytest.mark.slow
def test_roots_are_thin_and_grow_downwards(plates: list[Skeleton]) -> None:
    widths, descents = [], []
    for plate in plates:
        assert plate.radius is not None
        widths.append(2 * plate.radius)
        for axis in plate.axes:
            if axis.parent is None:
                assert axis.nodes[0] in plate.roots
                descents.append(plate.nodes[axis.nodes[-1], 1] - plate.nodes[axis.nodes[0], 1])
    assert np.mean((np.concatenate(widths) >= 0.5) & (np.concatenate(widths) <= 2.5)) > 0.7
    assert np.mean(np.asarray(descents) > 0) > 0.99


@pytest.mark.slow
def test_neighbors_overlap(plates: list[Skeleton]) -> None:
    overlapping = 0
    for plate in plates:
        spans = [(plant.nodes[:, 0].min(), plant.nodes[:, 0].max()) for plant in plate.plants]
        overlapping += any(a[1] > b[0] for a, b in pairwise(spans))
    assert overlapping > 110


def test_some_plates_have_two_rows_and_some_are_rotated(plates: list[Skeleton]) -> None:
    rows, slopes = [], []
    for plate in plates:
        x, y = plate.nodes[plate.component_root].T
        below = y - y.min() > 0.2 * 512
        rows.append(1 + bool(below.any()))
        upper = np.flatnonzero(~below)
        if len(upper) > 3:
            slopes.append(np.polyfit(x[upper], y[upper], 1)[0])
    assert 0.06 < np.mean(np.asarray(rows) == 2) < 0.35
    assert np.mean(np.abs(slopes) > 0.03) > 0.08
    assert np.max(np.abs(slopes)) < 0.2


@pytest.mark.parametrize("size", [(64, 64), (64, 600), (900, 64), (1600, 1200)])
def test_any_image_size(size: tuple[int, int]) -> None:
    for seed in range(20):
        axes: list[GrownAxis] = []
        plant_rows(Rng(2, seed), axes, size)
        mains = [axis for axis in axes if axis.parent is None]
        plants = len({axis.plant for axis in mains})
        assert 2 <= plants <= max(2 * (size[0] / MIN_SPACING_PX), 6)
        assert all(len(axis.points) * 2 >= MIN_ROOT_PX for axis in mains)
        assert all(2 <= axis.points[0, 1] <= size[1] - 8 for axis in mains)
