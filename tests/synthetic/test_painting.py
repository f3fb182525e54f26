"""Painting: each optimized step compared with its plain definition."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import ndimage

from treeformer.synthetic.painting import noise, optics
from treeformer.synthetic.painting.canvas import Canvas, Sketch, depth_inside, inside, wavy_line
from treeformer.synthetic.rng import Rng
from treeformer.synthetic.scenes import clutter

TILES = [
    noise.grain,
    noise.mottle,
    noise.rough,
    noise.clouds,
    noise.cirrus,
    noise.streaks,
    noise.weave,
    noise.fibers,
    noise.leaves,
    noise.foliage,
    noise.gravel,
]


def noisy_canvas(size: tuple[int, int] = (41, 33)) -> Canvas:
    canvas = Canvas(size)
    canvas.planes[:] = np.floor(Rng(4).array(*canvas.planes.shape) * 255)
    return canvas


@pytest.mark.parametrize("tile", TILES)
def test_tiles_are_periodic_read_only_and_of_one_spread(tile: noise.Tile) -> None:
    with_mirror_image = tile()
    assert with_mirror_image.shape == (2, 2 * noise.TILE, 2 * noise.TILE)
    assert np.array_equal(with_mirror_image[1, :, : noise.TILE], with_mirror_image[0, :, : noise.TILE][:, ::-1])
    values = with_mirror_image[0]
    assert np.array_equal(values[: noise.TILE, : noise.TILE], values[noise.TILE :, noise.TILE :])
    assert not values.flags.writeable
    assert abs(float(values.mean())) < 1.5
    assert 25 < float(values.std()) < 34
    # No seam: the step across the border is about as large as any other.
    period = values[: noise.TILE, : noise.TILE].astype(np.float64)
    for axis in (0, 1):
        seam = np.abs(np.take(period, 0, axis) - np.take(period, -1, axis)).mean()
        assert seam < 1.5 * np.abs(np.diff(period, axis=axis)).mean() + 1


@pytest.mark.parametrize("size", [(100, 60), (512, 512), (700, 1300)])
def test_window_has_the_requested_size(size: tuple[int, int]) -> None:
    windows = [noise.window(noise.rough(), Rng(seed), size) for seed in range(4)]
    assert all(window.shape == (size[1], size[0]) for window in windows)
    assert not np.array_equal(windows[0], windows[1])


def spline_weights(count: int, side: int) -> np.ndarray:
    """Return the weights (side, count) of quadratic B-splines from `count` to `side` values, with repeated ends."""
    weights = np.zeros((side, count))
    for k in range(side):
        at = (k + 0.5) * count / side
        middle = min(int(at), count - 1)
        f = at - middle
        for offset, weight in ((-1, (1 - f) ** 2 / 2), (0, 0.5 + f * (1 - f)), (1, f**2 / 2)):
            weights[k, min(max(middle + offset, 0), count - 1)] += weight
    return weights


@pytest.mark.parametrize("size", [(64, 64), (100, 37), (5, 9)])
def test_enlarge_is_a_spline(size: tuple[int, int]) -> None:
    small = np.floor(Rng(1).array(6, 8, low=-250, high=250)).astype(np.int16)
    expected = spline_weights(6, size[1]) @ small @ spline_weights(8, size[0]).T
    large = noise.enlarge(small, size)
    assert large.shape == (size[1], size[0])
    assert np.abs(large - expected).max() < 10  # weights in 64ths, rounded down twice
    assert large.min() >= small.min() - 2
    assert large.max() <= small.max() + 2
    rows = slice(2, size[1] - 3)
    assert np.array_equal(noise.enlarge(small, size, rows), large[rows])


@pytest.mark.parametrize("size", [(64, 64), (101, 37)])
def test_enlarge_gently_differs_by_no_more_than_a_pixels_slope(size: tuple[int, int]) -> None:
    small = np.floor(Rng(1).array(4, 4, low=0, high=200)).astype(np.int16)
    gently, exact = noise.enlarge_gently(small, size), noise.enlarge(small, size)
    assert gently.shape == exact.shape
    slope = max(np.abs(np.diff(exact, axis=axis)).max() for axis in (0, 1))
    assert np.abs(gently - exact).max() <= 2 * slope + 2


@pytest.mark.parametrize("sharpness", [0, 40])
@pytest.mark.parametrize("times", [1, 2])
def test_blur_is_a_convolution(times: int, sharpness: int) -> None:
    canvas = noisy_canvas()
    before = canvas.planes.astype(np.float64)
    optics.blur(canvas, times, sharpness)
    smooth = before
    for axis in (2, 1):
        for _ in range(times):
            smooth = ndimage.convolve1d(smooth, np.asarray([1, 2, 1]) / 4, axis=axis)
        if times == 2:  # two repetitions are rounded in between
            smooth = np.floor(smooth + 0.5)
    expected = np.floor(smooth + 0.5)
    if sharpness:
        expected = before + np.floor((before - expected) * sharpness / 64)
    inside = slice(times, -times)
    assert np.array_equal(canvas.planes[:, inside, inside], expected[:, inside, inside])
    canvas.planes[:, inside, inside] = before[:, inside, inside]
    assert np.array_equal(canvas.planes, before)  # the outermost rows and columns keep their levels


def test_blur_does_not_change_a_very_small_image() -> None:
    canvas = Canvas((3, 40), (9, 9, 9))
    optics.blur(canvas, 2)
    assert (canvas.planes == 9).all()


@pytest.mark.parametrize("size", [(41, 33), (300, 450)])
def test_expose_equals_separate_steps(size: tuple[int, int]) -> None:
    """One pass over blocks of rows gives the same result as separate steps on the whole image."""
    combinations = set()
    for seed in range(12):
        canvas = noisy_canvas(size)
        canvas.planes += np.int16(seed - 5)  # some levels exceed 0 to 255
        camera = optics.random_camera(Rng(seed), canvas)
        level = np.clip(canvas.planes.astype(np.int64), 0, 255)
        if camera.fading:
            gray = (level[0] + 2 * level[1] + level[2]) >> 2
            level = np.clip(level + (((gray - level) * int(camera.fading)) >> 5), 0, 255)
        down = np.repeat(camera.light_down, 4, axis=1)[:, : size[1]].astype(np.int64)
        level = (level * (down[:, :, None] + camera.light_across[:, None, :])) >> 7
        grain = np.full(level.shape, int(camera.lift))
        if camera.grain is not None:
            grain += camera.grain.astype(np.int64) * int(camera.grain_gain)
        if camera.own_grain:
            grain += np.stack(camera.own_grain).astype(np.int64) * int(camera.own_gain)
        expected = np.clip(level + (grain >> 6), 0, 255)
        image = optics.expose(Rng(seed), canvas)
        assert np.array_equal(image, np.moveaxis(expected, 0, -1))
        combinations.add((bool(camera.fading), camera.grain is not None, bool(camera.own_grain)))
    assert len(combinations) > 3


def test_light_does_not_overflow() -> None:
    """255 times the light fits into 16 bits, and the light is positive."""
    for seed in range(300):
        canvas = Canvas((64, 64), (1, 1, 1))  # a dark canvas gets the longest exposure
        camera = optics.random_camera(Rng(seed), canvas)
        light = camera.light_down.astype(int)[:, :, None] + camera.light_across[:, None, :]
        assert light.min() > 0
        assert light.max() * 255 < 2**16


def test_lens_does_not_shift_the_image() -> None:
    """No lens moves the center of mass of a dot."""
    for seed in range(40):
        canvas = Canvas((64, 64), (20, 20, 20))
        canvas.planes[:, 30, 21] = 220
        optics.lens(Rng(seed), canvas)
        weight = (canvas.planes[0] - 20).astype(np.float64)
        row, column = np.indices(weight.shape)
        assert (weight * row).sum() / weight.sum() == pytest.approx(30, abs=0.02)
        assert (weight * column).sum() / weight.sum() == pytest.approx(21, abs=0.02)


def test_add_and_mix_equal_their_definition() -> None:
    canvas = noisy_canvas()
    before = canvas.planes.copy()
    field = noise.window(noise.rough(), Rng(2), canvas.size)[5:20]
    weight = np.floor(Rng(3).array(15, 41) * 65).astype(np.int16)
    canvas.add(field, (0.5, 0.5, -1.25), slice(5, 20))
    for plane, gain in enumerate((0.5, 0.5, -1.25)):
        assert np.array_equal(canvas.planes[plane, 5:20], before[plane, 5:20] + np.floor(field * gain))
    assert np.array_equal(canvas.planes[:, :5], before[:, :5])
    canvas.planes[:] = before
    canvas.mix((10, 200, 90), weight, slice(5, 20), slice(0, 41))
    for plane, level in enumerate((10, 200, 90)):
        change = np.floor((level - before[plane, 5:20].astype(int)) * weight / 64)
        assert np.array_equal(canvas.planes[plane, 5:20], before[plane, 5:20] + change)


def test_lay_equals_its_definition() -> None:
    canvas = noisy_canvas((41, 300))
    before = canvas.planes.copy()
    rows = slice(7, 290)
    maps = [noise.window(tile(), Rng(2), (41, 283)) for tile in (noise.rough, noise.grain)]
    relief = (maps[0].astype(int) * 32 + maps[1].astype(int) * 16 + 32) >> 6
    color = np.linspace(20, 220, 3 * 283).reshape(3, 283)
    canvas.lay(color, [(maps[0], 0.5), (maps[1], 0.25)], rows, tint=(1.0, 0.5, 1.0))
    for plane, levels, share in zip(canvas.planes, color, (64, 32, 64), strict=True):
        assert np.array_equal(plane[rows], np.floor(levels)[:, None] + (relief * share >> 6))
    for outside in (slice(0, 7), slice(290, 300)):
        assert np.array_equal(canvas.planes[:, outside], before[:, outside])


def test_mix_with_texture() -> None:
    canvas = Canvas((4, 2))
    texture = np.asarray([[-64, 0, 32, 64]] * 2, dtype=np.int16)
    canvas.mix((100, 50, 0), np.full((2, 4), 64, dtype=np.int16), texture=texture, contrast=(0.5, 0.5, 0.5))
    assert canvas.planes[0, 0].tolist() == [50, 100, 125, 150]
    assert canvas.planes[1, 0].tolist() == [25, 50, 62, 75]


def test_depth_inside_a_box_with_round_corners() -> None:
    box, corner = (4.0, 3.0, 40.0, 30.0), 8.0
    depth = depth_inside(box, corner, slice(0, 36), slice(0, 48))
    for row, column in np.ndindex(36, 48):
        x, y = column + 0.5, row + 0.5
        qx, qy = abs(x - 22) - 18 + corner, abs(y - 16.5) - 13.5 + corner
        expected = corner - math.hypot(max(qx, 0), max(qy, 0)) - min(max(qx, qy), 0)
        assert depth[row, column] == pytest.approx(4 * expected, abs=1.01)


def test_inside_is_clipped_to_the_image() -> None:
    assert inside((-5, 2.2, 8.6, 99), (10, 20)) == (slice(2, 20), slice(0, 9))
    rows, columns = inside((30, 30, 20, 20), (10, 10))
    assert rows.stop == rows.start
    assert columns.stop == columns.start


def test_later_strokes_of_a_sketch_lie_on_top() -> None:
    canvas, sketch = Canvas((20, 20)), Sketch()
    sketch.line([(2, 10), (18, 10)], 3, (200, 0, 0))
    sketch.line([(10, 2), (10, 18)], 3, (0, 200, 0), opacity=0.5)
    sketch.draw(canvas)
    assert canvas.planes[:, 10, 10].tolist() == [0, 100, 0]
    assert canvas.planes[:, 10, 3].tolist() == [200, 0, 0]
    Sketch().draw(canvas)


def test_wavy_line_is_displaced_sideways() -> None:
    path = wavy_line((0, 0), (10, 0), np.asarray([0.0, 2.0, 0.0]))
    assert path.tolist() == [[0, 0], [5, 2], [10, 0]]


def test_every_character_can_be_printed() -> None:
    for letter in clutter.GLYPHS:
        canvas, sketch = Canvas((40, 40)), Sketch()
        clutter.print_glyph(sketch, letter, (8, 8), 24, (255, 255, 255))
        sketch.draw(canvas)
        assert (canvas.planes[0] > 128).sum() > 20


def test_jpeg_changes_little_at_high_quality_and_more_at_low() -> None:
    image = np.moveaxis(noisy_canvas((64, 64)).planes, 0, -1).astype(np.uint8)
    smooth = ndimage.gaussian_filter(image, (2, 2, 0))
    fine, coarse = (optics.jpeg(smooth, quality).astype(int) - smooth for quality in (95, 30))
    assert 0 < np.abs(fine).mean() < np.abs(coarse).mean() < 20


def test_random_draws_follow_their_distributions() -> None:
    rng = Rng(1)
    assert {rng.whole(2, 4) for _ in range(200)} == {2, 3, 4}
    assert {rng.choice("abc") for _ in range(200)} == set("abc")
    drawn = [rng.weighted((("x", 3.0), ("y", 1.0))) for _ in range(4000)]
    assert drawn.count("x") / 4000 == pytest.approx(0.75, abs=0.03)
    bell = rng.bell(20000)
    assert bell.mean() == pytest.approx(0, abs=0.03)
    assert bell.std() == pytest.approx(1, abs=0.03)
    assert isinstance(float(rng.bell()), float)
    values = rng.array(1000, low=-2, high=3)
    assert values.min() >= -2
    assert values.max() < 3
    assert sum(rng.chance(0.2) for _ in range(5000)) / 5000 == pytest.approx(0.2, abs=0.03)
