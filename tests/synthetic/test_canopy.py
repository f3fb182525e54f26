"""Leaves of outdoor plants are painted whole, and only near the branches."""

from __future__ import annotations

import numpy as np
import pytest

from treeformer.synthetic import generate
from treeformer.synthetic.painting import noise
from treeformer.synthetic.painting.canvas import Canvas
from treeformer.synthetic.rng import Rng
from treeformer.synthetic.scenes.outdoor import canopy
from treeformer.synthetic.scenes.outdoor.daylight import Daylight

LIGHT = Daylight("bright", 0.7, (0.8, -0.5, 0.4), 0.55, (1.0, 1.0, 1.0))
GREEN = ((80.0, 100.0, 40.0), 0.2)


def crown(seed: int, canvas: Canvas, points: np.ndarray, fullness: float, broad: bool = False) -> canopy.Canopy:
    return canopy.canopy_around(Rng(seed), canvas, points, fullness, LIGHT, GREEN, broad)


def painted(canvas: Canvas) -> np.ndarray:
    return (canvas.planes != 200).any(axis=0)


@pytest.mark.slow
@pytest.mark.parametrize("broad", [False, True])
@pytest.mark.parametrize("size", [(256, 256), (70, 50), (90, 700), (1100, 300)])
def test_leaves_grow_near_the_branches_only(size: tuple[int, int], broad: bool) -> None:
    branch = np.asarray((size[0] * 0.3, size[1] * 0.3)) + np.linspace(-16, 16, 9)[:, None] * (0.6, 0.8)
    column, row = np.indices((size[1], size[0]))[::-1] + 0.5
    distance = np.hypot(column[..., None] - branch[:, 0], row[..., None] - branch[:, 1]).min(axis=-1)
    shares = []
    for seed in range(6):
        canvas = Canvas(size, (200, 200, 200))
        crown(seed, canvas, branch, 0.5 if broad else 0.9, broad).paint_behind(Rng(seed, 1), canvas)
        assert not painted(canvas)[distance > 100].any()
        shares.append(painted(canvas)[distance < 8].mean())
    assert np.mean(shares) > 0.25


POINTS = np.stack([Rng(1).array(200, low=80, high=180), Rng(2).array(200, low=80, high=180)], axis=1)


@pytest.mark.slow
def test_fuller_crowns_have_more_leaves_and_most_are_behind_the_branches() -> None:
    behind, front = [], []
    for fullness in (0.1, 0.5, 0.9):
        for shares, paint in ((behind, canopy.Canopy.paint_behind), (front, canopy.Canopy.paint_front)):
            canvases = [Canvas((256, 256), (200, 200, 200)) for _ in range(8)]
            for seed, canvas in enumerate(canvases):
                paint(crown(seed, canvas, POINTS, fullness), Rng(5), canvas)
            shares.append(np.mean([painted(canvas).mean() for canvas in canvases]))
    assert behind[0] < behind[1] < behind[2]
    assert all(front_share < back_share for front_share, back_share in zip(front, behind, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["vine", "orchard"])
def test_most_of_the_branches_show_through_the_leaves(kind: str) -> None:
    """The fullest crowns hide less than half of the nodes on average: hidden branches cannot be learned."""
    hidden = []
    for seed in range(12):
        canvas, nodes = Canvas((512, 512), (200, 200, 200)), generate(kind, seed).nodes
        crown(seed, canvas, nodes, 0.9 if kind == "orchard" else 0.5, kind == "vine").paint_front(Rng(seed), canvas)
        column, row = np.clip(nodes.astype(int), 0, 511).T
        hidden.append(painted(canvas)[row, column].mean())
    assert 0.05 < np.mean(hidden) < 0.5


def test_leaves_are_darker_behind_branches_and_lighter_on_the_side_of_the_sun() -> None:
    """Compare the mean levels of both layers, and of the right half (the side of the sun) and the left half."""
    levels = []
    for paint in (canopy.Canopy.paint_behind, canopy.Canopy.paint_front):
        canvas = Canvas((256, 256), (0, 0, 0))
        paint(crown(4, canvas, POINTS, 0.9), Rng(5), canvas)
        levels.append(canvas.planes[1][canvas.planes[1] > 0].mean())
    assert levels[0] < 0.9 * levels[1]
    sides = [part[part > 0].mean() for part in (canvas.planes[1, :, :100], canvas.planes[1, :, 160:])]
    assert sides[0] < sides[1]


def test_shade_is_only_inside_the_crown() -> None:
    canvas = Canvas((256, 256), (200, 200, 200))
    leaves = crown(4, canvas, POINTS, 0.9)
    leaves.cast_shade(canvas, 24)
    inside = np.zeros((256, 256), dtype=bool)
    inside[leaves.rows, leaves.columns] = leaves.behind > canopy.FULL_MASS - 64
    assert inside.any()
    assert not (painted(canvas) & ~inside).any()
    assert painted(canvas).sum() > 0.9 * inside.sum()
    assert canvas.planes.min() > 110  # never black


@pytest.mark.slow
@pytest.mark.parametrize("size", [0, 3, 8])
def test_the_threshold_is_constant_within_a_leaf(size: int) -> None:
    """The threshold has one value per leaf, so it has few steps; the tile has no seam."""
    tile = canopy.leaf_tile(size)
    for values in (tile.threshold, tile.tone, tile.hue):
        assert values.shape == (2 * noise.TILE, 2 * noise.TILE)
        assert not values.flags.writeable
    threshold = tile.threshold[: noise.TILE, : noise.TILE].astype(int)
    assert threshold.min() >= 0
    same = (np.diff(threshold, axis=1) == 0).mean()
    assert same > 0.1 + 0.03 * size  # larger leaves have fewer edges
    seam = (threshold[:, 0] == threshold[:, -1]).mean()
    assert seam == pytest.approx(same, abs=0.12)


@pytest.mark.slow
def test_an_empty_canopy_paints_nothing() -> None:
    canvas = Canvas((64, 64), (200, 200, 200))
    empty_map = np.zeros((0, 0), np.int16)
    empty = canopy.Canopy(
        slice(0, 0), slice(0, 0), empty_map, empty_map, empty_map, *GREEN, canopy.leaf_tile(0), np.zeros((0, 2, 2))
    )
    empty.paint_behind(Rng(1), canvas)
    empty.cast_shade(canvas, 24)
    empty.paint_front(Rng(1), canvas)
    assert not painted(canvas).any()


def test_tufts_are_at_varying_distances_from_the_limbs() -> None:
    """Twigs start on the limb and end at varying distances, so that leaves do not form a sleeve around it."""
    limb = np.stack([np.full(50, 128.0), np.linspace(10, 240, 50)], axis=1)
    for fullness in (0.2, 0.9):
        leaves = crown(3, Canvas((256, 256), (200, 200, 200)), limb, fullness)
        assert (leaves.twigs[:, :1] == canopy.snapped(limb)[:, None].transpose(1, 0, 2)).all(axis=2).any(axis=1).all()
        offset = leaves.twigs[:, 1] - leaves.twigs[:, 0]
        assert np.abs(offset).max() < 0.5 * (5 + 17 * fullness) * 1.8 + 1 / 32
        assert np.abs(offset[:, 0]).std() > 0.2 * (5 + 17 * fullness) * 0.5
        assert offset[:, 1].mean() < 0  # mostly upwards
    assert len(crown(3, Canvas((256, 256), (200, 200, 200)), limb, 0.5, broad=True).twigs) == 0


def test_enclosed_cells_have_points_in_all_quadrants() -> None:
    """Compare with a search cell by cell."""
    count = (Rng(7).array(12, 15) < 0.06).astype(np.int32)
    inside = canopy._enclosed(count)
    for row in range(12):
        for column in range(15):
            quadrants = (
                count[: row + 1, : column + 1],
                count[: row + 1, column:],
                count[row:, : column + 1],
                count[row:, column:],
            )
            assert inside[row, column] == all(part.any() for part in quadrants)
    assert 0 < inside.mean() < 1


def test_vines_have_no_white_blossom() -> None:
    white = canopy.LEAVES[-1][0]
    assert all(canopy.choose_leaves(Rng(seed), broad=True) != white for seed in range(300))
    assert any(canopy.choose_leaves(Rng(seed), broad=False) == white for seed in range(300))
