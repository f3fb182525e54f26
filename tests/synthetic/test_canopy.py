"""Leaves of the open air: whole ones, where the branches are and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest

from treeformer.synthetic import canopy, noise
from treeformer.synthetic.canvas import Canvas
from treeformer.synthetic.daylight import Daylight
from treeformer.synthetic.dice import Dice

LIGHT = Daylight("bright", 0.7, (0.8, -0.5, 0.4), 0.55, (1.0, 1.0, 1.0))
GREEN = ((80.0, 100.0, 40.0), 0.2)


def crown(seed: int, canvas: Canvas, points: np.ndarray, fullness: float, broad: bool = False) -> canopy.Canopy:
    return canopy.canopy_around(Dice(seed), canvas, points, fullness, LIGHT, GREEN, broad)


def painted(canvas: Canvas) -> np.ndarray:
    return (canvas.planes != 200).any(axis=0)


@pytest.mark.parametrize("broad", [False, True])
@pytest.mark.parametrize("size", [(256, 256), (70, 50), (90, 700), (1100, 300)])
def test_leaves_grow_near_the_branches_only(size: tuple[int, int], broad: bool) -> None:
    place = np.asarray([(size[0] * 0.3, size[1] * 0.3)])
    column, row = np.indices((size[1], size[0]))[::-1] + 0.5
    distance = np.hypot(column - place[0, 0], row - place[0, 1])
    shares = []
    for seed in range(6):
        canvas = Canvas(size, (200, 200, 200))
        crown(seed, canvas, np.repeat(place, 3, axis=0), 0.9, broad).paint(Dice(seed, 1), canvas, 0, 1.0)
        assert not painted(canvas)[distance > 120].any()
        shares.append(painted(canvas)[distance < 8].mean())
    assert np.mean(shares) > 0.3


def test_fuller_crowns_hide_more_and_thinner_layers_less() -> None:
    points = np.stack([Dice(1).array(200, low=80, high=180), Dice(2).array(200, low=80, high=180)], axis=1)
    hidden = []
    for fullness, thinner in ((0.1, 0), (0.5, 0), (1.0, 60), (1.0, 0)):
        canvas = Canvas((256, 256), (200, 200, 200))
        crown(4, canvas, points, fullness).paint(Dice(5), canvas, thinner, 1.0)
        hidden.append(painted(canvas).mean())
    assert hidden[0] < hidden[1] < hidden[3]
    assert hidden[2] < hidden[3]


@pytest.mark.parametrize("size", [0, 3, 8])
def test_a_leaf_is_shown_whole(size: int) -> None:
    """The likelihood is one number a leaf: few steps, in a tile that has many leaves, and no seam."""
    tile = canopy.leaf_tile(size)
    for values in (tile.unlikely, tile.tone, tile.hue):
        assert values.shape == (2 * noise.TILE, 2 * noise.TILE)
        assert not values.flags.writeable
    unlikely = tile.unlikely[: noise.TILE, : noise.TILE].astype(int)
    assert unlikely.min() >= 0
    same = (np.diff(unlikely, axis=1) == 0).mean()
    assert same > 0.1 + 0.03 * size  # the larger the leaves, the fewer the edges
    seam = (unlikely[:, 0] == unlikely[:, -1]).mean()
    assert seam == pytest.approx(same, abs=0.12)


def test_no_leaves_where_no_branch_is() -> None:
    canvas = Canvas((64, 64), (200, 200, 200))
    empty = canopy.Canopy(
        slice(0, 0), slice(0, 0), *(np.zeros((0, 0), np.int16) for _ in range(2)), *GREEN, canopy.leaf_tile(0)
    )
    empty.paint(Dice(1), canvas, 0, 1.0)
    assert not painted(canvas).any()


def test_vines_do_not_blossom_white() -> None:
    white = canopy.LEAVES[-1][0]
    assert all(canopy.leaf_kind(Dice(seed), broad=True) != white for seed in range(300))
    assert any(canopy.leaf_kind(Dice(seed), broad=False) == white for seed in range(300))
