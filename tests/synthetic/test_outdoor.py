"""Daylight, distant objects, the trellis, the screen and the complete outdoor scene."""

from __future__ import annotations

import numpy as np
import pytest

from treeformer import Skeleton
from treeformer.synthetic import generate
from treeformer.synthetic.painting import optics
from treeformer.synthetic.painting.canvas import Canvas, Sketch
from treeformer.synthetic.painting.material import Backdrop
from treeformer.synthetic.rng import Rng
from treeformer.synthetic.scenes.outdoor import far_rows, horizon, screen, trellis
from treeformer.synthetic.scenes.outdoor.bark import choose_wood
from treeformer.synthetic.scenes.outdoor.daylight import choose_daylight
from treeformer.synthetic.scenes.outdoor.scene import OutdoorScene


def test_daylight_has_every_kind_and_the_sun_is_above() -> None:
    days = [choose_daylight(Rng(seed)) for seed in range(300)]
    assert {day.kind for day in days} == {"overcast", "bright", "low sun", "backlit"}
    for day in days:
        assert day.sun_direction[1] < 0
        assert day.casts_shadows == (day.kind != "overcast")
        assert 0.6 < day.level < 1.1


def test_distant_objects_stand_on_the_horizon() -> None:
    for seed in range(20):
        canvas = Canvas((120, 100), (230, 230, 230))
        light = choose_daylight(Rng(seed))
        horizon.paint_hills_and_woods(Rng(seed), canvas, 60, light, (210, 215, 220), summer=seed % 2 == 0)
        horizon.paint_fringe(Rng(seed), canvas, 60, light)
        assert (canvas.planes[:, 72:] == 230).all()
        assert (canvas.planes[:, :25] == 230).all()
    assert horizon.ragged_line(Rng(1), 100, 3, 0.5).min() >= 0
    assert horizon.ragged_line(Rng(1), 100, 3, 0.5).max() <= 1.4


@pytest.mark.parametrize("kind", ["vine", "orchard", "forest"])
@pytest.mark.parametrize("leafy", [False, True])
def test_a_halved_row_is_the_mean_of_four_pixels(kind: str, leafy: bool) -> None:
    whole, half = (far_rows.row_tile(kind, 1, leafy, halvings) for halvings in (0, 1))
    for large, small in zip(whole, half, strict=True):
        means = large.astype(float).reshape(small.shape[0], 2, small.shape[1], 2).mean(axis=(1, 3))
        assert np.abs(means - small).max() <= 0.5
    cover = whole[0]
    assert cover.min() >= 0
    assert cover.max() <= 64
    assert (cover > 32).mean() > 0.01
    if kind != "forest":
        assert not cover[-1].any()  # feet fade into the grass


@pytest.mark.parametrize(("foot", "height_px"), [(70.0, 40.0), (20.0, 90.0), (130.0, 60.0), (-5.0, 30.0), (50.0, 0.5)])
def test_rows_stay_between_their_feet_and_their_tops(foot: float, height_px: float) -> None:
    for seed in range(4):
        for kind in ("vine", "forest"):
            canvas = Canvas((90, 100), (200, 200, 200))
            far_rows.paint_row(Rng(seed), canvas, kind, foot, height_px, (40, 60, 30), leafy=seed % 2 == 0, blur_px=3.0)
            rows = np.flatnonzero((canvas.planes != 200).any(axis=(0, 2)))
            assert len(rows) == 0 or (rows.min() >= foot - height_px - 1 and rows.max() <= foot)


def test_lines_of_a_trellis_meet_on_the_horizon() -> None:
    row = trellis.Trellis(foot=90.0, wire=50.0, top=10.0, horizon_y=60.0, turn=0.2, width=100)
    assert row.y_at(50.0, 90.0) == pytest.approx(90.0)
    assert row.y_at(100.0, 90.0) == pytest.approx(60 + 30 * 1.1)
    # Far to the left, all lines along the row meet on the horizon.
    assert row.y_at(100 * (0.5 - 1 / 0.2), 90.0) == pytest.approx(60.0)
    assert row.y_at(100 * (0.5 - 1 / 0.2), 10.0) == pytest.approx(60.0)


def test_the_lowest_wire_is_at_the_height_of_the_arms() -> None:
    canvas = Canvas((512, 512), (200, 200, 200))
    for seed in range(10):
        vine = generate("vine", seed)
        row = trellis.fit_trellis(Rng(seed), canvas, vine, 300.0)
        arms = [vine.nodes[list(axis.nodes), 1] for axis in vine.axes if axis.label == "arm" and axis.parent == 0]
        assert min(arm.min() for arm in arms) - 1 <= row.wire <= max(arm.max() for arm in arms) + 1
        assert row.top < row.wire < row.foot
    row = trellis.fit_trellis(Rng(1), canvas, Skeleton([], [], image_size=(512, 512)), 300.0)
    assert row.top < row.wire < row.foot


def test_wires_cross_the_image_and_neighbors_stand_beside() -> None:
    canvas, light = Canvas((400, 300), (200, 200, 200)), choose_daylight(Rng(2))
    row = trellis.Trellis(foot=280.0, wire=200.0, top=40.0, horizon_y=230.0, turn=0.05, width=400)
    sketch = Sketch()
    trellis.wires(Rng(2), canvas, sketch, row, light)
    drawn = sketch.strokes()
    assert drawn.start[:, 0].min() < 0
    assert drawn.end[:, 0].max() > 400
    sketch = Sketch()
    wood = choose_wood(Rng(3), "vine", Backdrop((200, 200, 200), 0.0, 1.0), light)
    vines = trellis.neighbors(Rng(3), canvas, sketch, row, 200.0, 6.0, wood, 1.0)
    assert 1 <= len(vines) <= 2
    for foot, points in vines:
        assert abs(foot[0] - 200) > 80
        assert foot[1] == pytest.approx(280, abs=5)
        assert points.shape[1] == 2
    for x, y, half in trellis.posts(Rng(3), canvas, row, 200.0, light):
        assert -20 < x < 420
        assert 270 < y < 290
        assert half > 0


def test_the_outdoor_camera_matches_a_pixelwise_reference() -> None:
    for seed in range(20):
        canvas = Canvas((40, 30))
        canvas.planes[:] = np.floor(Rng(4).array(3, 30, 40) * 280 - 10)
        camera = optics.outdoor_camera(Rng(seed), canvas)
        light = camera.light_down.astype(int) + camera.light_across
        assert light.max() * 255 < 2**16
        level = np.clip(canvas.planes.astype(np.int64), 0, 255)
        if camera.fading:
            gray = (level[0] + 2 * level[1] + level[2]) >> 2
            level = np.clip(level + (((gray - level) * int(camera.fading)) >> 5), 0, 255)
        level = (level * light[:, :, None]) >> 7
        grain = np.full(level.shape, int(camera.lift))
        if camera.grain is not None:
            grain += camera.grain.astype(np.int64) * int(camera.grain_gain)
        if camera.own_grain:
            grain += np.stack(camera.own_grain).astype(np.int64) * int(camera.own_gain)
        expected = np.moveaxis(np.clip(level + (grain >> 6), 0, 255), 0, -1)
        assert np.array_equal(optics.expose(Rng(seed), canvas, camera), expected)


@pytest.mark.parametrize("kind", ["vine", "orchard"])
def test_a_bare_plant_is_visible_nearly_everywhere(kind: str) -> None:
    """The image differs at the nodes from the same background without the plant."""
    visible = []
    for seed in range(10):
        skeleton = generate(kind, seed)
        scene = OutdoorScene(Rng(seed), Canvas((512, 512), None), skeleton, kind)
        scene.leaves = None
        scene.paint_land()
        before = scene.canvas.planes.copy()
        scene.paint_plant()
        column, row = np.clip(skeleton.nodes.astype(int), 0, 511).T
        visible.append(np.mean(np.abs(scene.canvas.planes - before)[:, row, column].max(axis=0) > 10))
    assert np.mean(visible) > 0.85


@pytest.mark.slow
@pytest.mark.parametrize("size", [(64, 64), (570, 190), (90, 300), (1100, 700)])
def test_land_is_painted_for_every_image_shape(size: tuple[int, int]) -> None:
    for seed in range(4):
        for kind in ("vine", "orchard"):
            canvas = Canvas(size, (-999, -999, -999))
            scene = OutdoorScene(Rng(seed), canvas, generate(kind, seed, size=size), kind)
            scene.paint_land()
            scene.paint_plant()
            assert canvas.planes.min() > -400
            assert canvas.planes.max() < 700


def test_a_sheet_is_nearly_gray_down_to_its_hem_and_ground_is_below() -> None:
    for seed in range(20):
        canvas = Canvas((90, 120), (-999, -999, -999))
        screen.paint_sheet(Rng(seed), canvas, 80)
        assert (canvas.planes[:, 80:] == -999).all()
        assert canvas.planes[:, :80].min() > 60
        assert canvas.planes[:, :80].max() < 290
        means = canvas.planes[:, :80].reshape(3, -1).mean(axis=1)
        assert np.ptp(means) < 0.05 * means[1]
        assert min(means[0], means[2]) <= means[1] <= max(means[0], means[2])  # neither green nor magenta
        sheet = canvas.planes.copy()
        hem = 80 - screen.SHADE_ROWS
        screen.paint_ground_below(Rng(seed), canvas, hem, choose_daylight(Rng(seed)), grassy=0.5)
        assert np.array_equal(canvas.planes[:, :hem], sheet[:, :hem])
        assert canvas.planes.min() > -400
        assert (canvas.planes[:, hem + screen.HEM_PX + 1 :] != sheet[:, hem + screen.HEM_PX + 1 :]).mean() > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["vine", "orchard"])
@pytest.mark.parametrize("size", [(64, 64), (90, 300), (700, 90)])
def test_a_screen_fills_the_image_and_no_sun_shines_through_it(kind: str, size: tuple[int, int]) -> None:
    for seed in range(20):
        canvas = Canvas(size, (-999, -999, -999))
        scene = OutdoorScene(Rng(seed), canvas, generate(kind, seed, size=size), kind)
        scene.paint_screen()
        assert scene.light.kind != "backlit"
        scene.paint_plant()
        assert canvas.planes.min() > -400
        assert canvas.planes.max() < 700
