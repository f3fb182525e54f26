"""The ground lies below the horizon, is finer in the distance and dark at the foot of a trunk."""

from __future__ import annotations

import numpy as np
import pytest

from treeformer import Skeleton
from treeformer.synthetic.painting import noise
from treeformer.synthetic.painting.canvas import Canvas, Sketch
from treeformer.synthetic.painting.material import plant_strokes
from treeformer.synthetic.painting.raster import rasterize_layers
from treeformer.synthetic.rng import Rng
from treeformer.synthetic.scenes.outdoor import ground
from treeformer.synthetic.scenes.outdoor.daylight import Daylight, choose_daylight


@pytest.mark.parametrize("tile", [ground.turf, ground.litter])
def test_ground_is_finer_in_the_distance_and_periodic_sideways(tile: noise.Tile) -> None:
    planes = tile()
    assert planes.shape == (2, ground.ROWS, 2 * noise.TILE)
    plane = planes[0, :, : noise.TILE].astype(np.float64)
    assert np.array_equal(planes[1, :, : noise.TILE], plane[:, ::-1])
    assert np.array_equal(planes[0, :, : noise.TILE], planes[0, :, noise.TILE :])
    seam = np.abs(plane[:, 0] - plane[:, -1]).mean()
    assert seam < 1.5 * np.abs(np.diff(plane, axis=1)).mean() + 1

    def correlation(rows: slice) -> float:  # of each pixel with the one two rows below
        part = plane[rows]
        return float(np.corrcoef(part[:-2].ravel(), part[2:].ravel())[0, 1])

    assert correlation(slice(10, 60)) < correlation(slice(300, 400))


@pytest.mark.parametrize("size", [(120, 90), (700, 1100)])
def test_ground_fills_the_rows_below_the_horizon(size: tuple[int, int]) -> None:
    for seed in range(6):
        canvas = Canvas(size, (-999, -999, -999))
        ground.paint_ground(Rng(seed), canvas, size[1] // 3, choose_daylight(Rng(seed)), grassy=0.5)
        assert (canvas.planes[:, : size[1] // 3] == -999).all()
        assert canvas.planes[:, size[1] // 3 :].min() > -200
        ground.paint_ground(Rng(seed), canvas, size[1], choose_daylight(Rng(seed)), grassy=0.5)  # no visible ground


def test_strip_is_near_the_feet() -> None:
    for foot in (80.0, 2.0, 119.0):
        canvas = Canvas((100, 120), (250, 250, 250))
        ground.paint_strip(Rng(1), canvas, foot, choose_daylight(Rng(1)))
        changed = np.flatnonzero((canvas.planes != 250).any(axis=(0, 2)))
        assert len(changed) == 0 or np.abs(changed - foot).max() < 30


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_shadow_falls_away_from_the_sun_and_on_the_ground(side: float) -> None:
    light = Daylight("bright", 0.8, (side * 0.8, -0.5, 0.4), 0.5, (1.0, 1.0, 1.0))
    skeleton = Skeleton([(100, 160), (100, 40)], [(0, 1)], root=0, radius=[4, 4], image_size=(200, 200))
    layer = rasterize_layers([plant_strokes(skeleton)], (200, 200))[0]
    canvas = Canvas((200, 200), (200, 200, 200))
    ground.cast_shadow(Rng(1), canvas, layer, np.asarray((100.0, 160.0)), 120, light, False)
    dark = np.argwhere(canvas.planes[0] < 190)
    assert dark[:, 0].min() > 120
    assert (np.mean(dark[:, 1]) < 100) == (side > 0)
    assert canvas.planes.min() > 90  # never black
    empty_layer = rasterize_layers([plant_strokes(Skeleton([], []))], (200, 200))[0]
    before = canvas.planes.copy()
    ground.cast_shadow(Rng(1), canvas, empty_layer, np.asarray((100.0, 160.0)), 120, light, False)
    assert np.array_equal(canvas.planes, before)


def test_leaves_widen_a_shadow_without_a_hard_edge() -> None:
    light = Daylight("bright", 0.8, (0.8, -0.5, 0.4), 0.5, (1.0, 1.0, 1.0))
    skeleton = Skeleton([(100, 160), (100, 40)], [(0, 1)], root=0, radius=[2, 2], image_size=(200, 200))
    layer = rasterize_layers([plant_strokes(skeleton)], (200, 200))[0]
    dark = []
    for leafy in (False, True):
        canvas = Canvas((200, 200), (200, 200, 200))
        ground.cast_shadow(Rng(1), canvas, layer, np.asarray((100.0, 160.0)), 60, light, leafy)
        dark.append((canvas.planes[0] < 195).sum())
        assert np.abs(np.diff(canvas.planes[0], axis=0)).max() < 40
    assert dark[0] < dark[1]


def test_foot_is_dark_only_nearby() -> None:
    canvas = Canvas((200, 200), (200, 200, 200))
    ground.darken_foot(canvas, np.asarray((90.0, 150.0)), 5.0, 40)
    row, column = np.nonzero(canvas.planes[0] < 200)
    assert np.abs(column - 90).max() < 30
    assert np.abs(row - 150).max() < 12
    assert canvas.planes[0, 151, 90] < 110
    ground.darken_foot(canvas, np.asarray((-500.0, 150.0)), 5.0, 40)  # outside the image: no effect


def test_grass_has_the_colors_of_the_ground() -> None:
    canvas, sketch = Canvas((200, 200), (90, 120, 60)), Sketch()
    ground.grass_in_front(Rng(3), canvas, sketch, np.asarray((100.0, 150.0)), 6.0)
    sketch.draw(canvas)
    changed = (canvas.planes != np.asarray((90, 120, 60))[:, None, None]).any(axis=0)
    assert changed.sum() > 30
    row, _ = np.nonzero(changed)
    assert row.min() > 120
    assert canvas.planes[1].min() > 120 * 0.7
    assert canvas.planes[1].max() < 120 * 1.3
