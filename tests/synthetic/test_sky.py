"""Skies have natural colors and clouds without edges."""

from __future__ import annotations

import numpy as np
import pytest

from treeformer.synthetic.painting import noise
from treeformer.synthetic.painting.canvas import Canvas
from treeformer.synthetic.rng import Rng
from treeformer.synthetic.scenes.outdoor import sky
from treeformer.synthetic.scenes.outdoor.daylight import Daylight, choose_daylight

BRIGHT = Daylight("bright", 0.7, (0.8, -0.5, 0.4), 0.55, (1.0, 1.0, 1.0))


@pytest.mark.parametrize("bottom", [0, 1, 2, 60, 90])
def test_sky_fills_the_rows_above_the_bottom(bottom: int) -> None:
    for seed in range(12):
        canvas = Canvas((64, 90), (-999, -999, -999))
        horizon_color = sky.paint_sky(Rng(seed), canvas, bottom, choose_daylight(Rng(seed)))
        assert (canvas.planes[:, bottom:] == -999).all()
        assert bottom == 0 or canvas.planes[:, :bottom].min() > 0
        assert min(horizon_color) > 150


@pytest.mark.parametrize("size", [(64, 64), (512, 300), (700, 90), (90, 1100)])
def test_overhead_window_is_compressed_towards_the_bottom(size: tuple[int, int]) -> None:
    """Compare pixel by pixel: tile rows advance by one per image row at the top and by three at the bottom."""
    tile = noise.to_tile((np.arange(noise.TILE * noise.TILE, dtype=np.int32) * 7919 % 509).reshape(noise.TILE, -1))
    width, height = size
    window = sky.overhead_window(Rng(4), tile, size)
    rng = Rng(4)
    plane, top, left = tile[rng.whole(0, 1)], rng.whole(0, noise.TILE - 1), rng.whole(0, noise.TILE - 1)
    assert window.shape == (height, width)
    for y in range(0, height, 7):
        for x in range(0, width, 13):
            down = y + y * y // height
            assert window[y, x] == plane[(top + down) % noise.TILE, (left + x) % noise.TILE]


def test_clouds_have_no_edge() -> None:
    """Neighboring pixels differ by a few levels at most; about half of the skies have clouds."""
    spreads = []
    for seed in range(40):
        canvas = Canvas((200, 200))
        sky.paint_sky(Rng(seed), canvas, 200, BRIGHT)
        levels = canvas.planes.astype(int)
        assert np.abs(np.diff(levels, axis=2)).max() <= 10
        assert np.abs(np.diff(levels, axis=1)).max() <= 24  # compressed, so steeper, towards the bottom
        spreads.append(np.ptp(levels[0], axis=1).max())  # a clear sky is even along a row
    assert 0.3 < np.mean(np.asarray(spreads) > 8) < 0.7


def test_no_sky_has_an_unnatural_color() -> None:
    """Overcast skies are gray within a few levels; no sky is green or magenta."""
    for seed in range(200):
        light = choose_daylight(Rng(seed))
        for red, green, blue in sky._colors(Rng(seed, 1), light):
            if light.kind == "overcast":
                assert max(red, green, blue) - min(red, green, blue) < 5
            assert abs(green - (red + blue) / 2) < 12
