"""Ground outdoors: turf, earth and fallen leaves in perspective, shadows, and grass at the foot of a trunk."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from treeformer._util.arrays import FloatArray
from treeformer.synthetic.painting import noise
from treeformer.synthetic.painting.canvas import Canvas, Color, Sketch, snapped
from treeformer.synthetic.painting.raster import Int16Array, Layer, blend, rasterize, strokes, topmost
from treeformer.synthetic.rng import Rng
from treeformer.synthetic.scenes.outdoor.daylight import Daylight

ROWS = noise.TILE
MARGIN_PX = 48.0  # longer than any blade of grass
SHRINK = 4  # shadows are soft, so they are computed at 1/SHRINK of the size
LENGTH_PER_ROW = 0.045  # px by which blades get longer per row towards the viewer
SHADE: Color = (16, 18, 20)
# Colors of level ground in full light, with their weights.
TURF: tuple[tuple[Color, float], ...] = (
    ((104, 113, 66), 3.0),
    ((90, 104, 58), 2.0),
    ((121, 120, 80), 2.0),  # winter grass
    ((136, 127, 94), 1.2),  # dry
)
EARTH: tuple[tuple[Color, float], ...] = (
    ((120, 107, 92), 3.0),
    ((136, 125, 108), 1.5),
    ((103, 86, 73), 1.5),
    ((134, 111, 90), 0.8),
)


@cache
def turf() -> noise.Int8Array:
    """Make the (2, ROWS, 2·TILE) tile of grass, finer in the distant rows at the top; as it is and mirrored."""
    count = 42000
    row = np.sqrt(random_rows(31, count, 0.25)) * ROWS
    rng = Rng(32)
    angle = -math.pi / 2 + rng.bell(count) * 0.5
    length = (0.8 + row * LENGTH_PER_ROW) * rng.array(count, low=0.5, high=1.4)
    return _perspective_tile(row, angle, length, 0.32 + row * 0.0032, rng, tip_light=1100)


@cache
def litter() -> noise.Int8Array:
    """Make a tile like `turf` of clods, stones, bits of wood and fallen leaves that lie flat."""
    count = 30000
    row = np.sqrt(random_rows(33, count, 0.25)) * ROWS
    rng = Rng(34)
    angle = rng.bell(count) * 0.5 + np.where(rng.array(count) < 0.5, 0.0, math.pi)
    length = (0.6 + row * LENGTH_PER_ROW * 0.5) * rng.array(count, low=0.1, high=1.1)
    return _perspective_tile(
        row, angle, length, (0.3 + row * 0.008) * rng.array(count, low=0.4, high=1.2), rng, tip_light=0
    )


def random_rows(seed: int, count: int, uniform_share: float) -> FloatArray:
    """Draw positions from 0 to 1 in ascending order, a share of them uniformly and the others denser near 0."""
    fraction = Rng(seed).array(count)
    is_uniform = Rng(seed, 1).array(count) < uniform_share
    return np.sort(np.where(is_uniform, fraction, fraction * fraction * fraction))


def _perspective_tile(
    row: FloatArray, angle: FloatArray, length: FloatArray, radius: FloatArray, rng: Rng, tip_light: int
) -> noise.Int8Array:
    """Draw strokes at given rows of a tile, distant ones first, each with its own brightness.

    The tile is periodic sideways.
    """
    count = len(row)
    start = np.stack([rng.array(count, high=noise.TILE), row], axis=1)
    step = np.stack([np.cos(angle), np.sin(angle)], axis=1) * length[:, None]
    clump = noise.rough()[0]
    cell = start.astype(np.intp) % noise.TILE
    brightness = (
        np.floor(rng.array(count, low=-2600, high=2600)) + clump[cell[:, 1], cell[:, 0]].astype(np.float64) * 22
    )
    # Strokes that leave on one side enter on the other.
    left, right = np.flatnonzero(start[:, 0] < MARGIN_PX), np.flatnonzero(start[:, 0] > noise.TILE - MARGIN_PX)
    owner = np.concatenate([np.arange(count), left, right])
    shift = np.repeat((0.0, noise.TILE, -noise.TILE), (count, len(left), len(right)))
    shifted, width = snapped(start[owner] + np.stack([shift, shift * 0], axis=1)), snapped(radius[owner])
    fragments = rasterize(strokes(shifted, shifted + snapped(step[owner]), width, width * 0.5), (noise.TILE, ROWS))
    stroke = owner[fragments.stroke]
    nearest = topmost(fragments.pixel, (stroke * 900 // count).astype(np.int32))  # the nearest stroke is visible
    top, stroke = fragments.take(nearest), stroke[nearest]
    tip = np.minimum(top.along / np.maximum(length.astype(np.float32)[stroke], np.float32(0.5)), np.float32(1))
    level = brightness[stroke].astype(np.int32) + np.floor(tip * np.float32(tip_light)).astype(np.int32)
    plane: Int16Array = np.zeros((1, ROWS, noise.TILE), dtype=np.int16)
    blend(plane, top.pixel, top.coverage, level[None])
    tile = np.clip(plane[0].astype(np.int32) // 56, -127, 127).astype(np.int8)
    mirrored = np.tile(np.stack([tile, tile[:, ::-1]]), (1, 1, 2))
    mirrored.setflags(write=False)
    return mirrored


def _ground_window(tile: noise.Int8Array, rng: Rng, size: tuple[int, int], first_row: int) -> noise.Int8Array:
    """Return a (height, width) window of a ground tile, from row `first_row` down."""
    width, height = size
    plane = tile[rng.whole(0, 1)]
    if max(width, height + first_row) > noise.TILE:  # enlarge the tile for a larger image
        factor = math.ceil(max(width, height + first_row) / noise.TILE)
        plane = plane.repeat(factor, axis=0).repeat(factor, axis=1)
    left = rng.whole(0, noise.TILE - 1)
    window: noise.Int8Array = plane[first_row : first_row + height, left : left + width]
    return window


def paint_ground(rng: Rng, canvas: Canvas, horizon: int, light: Daylight, *, grassy: float) -> None:
    """Fill the rows from the horizon down with turf, with the probability `grassy`, or earth."""
    width, height = canvas.size
    if horizon >= height:
        return
    rows, size = slice(horizon, height), (width, height - horizon)
    is_turf = rng.chance(grassy)
    color = rng.weighted(TURF if is_turf else EARTH)
    level = rng.uniform(0.82, 1.14) * light.level
    near = np.linspace(0.0, 1.0, size[1])
    bands = np.interp(np.sqrt(near), np.linspace(0, 1, 7), rng.array(7, low=0.93, high=1.07))
    first_row = rng.whole(6, 60)
    textures = [
        (_ground_window(turf() if is_turf else litter(), rng, size, first_row), rng.uniform(0.55, 0.95) * level),
        (noise.window(noise.cirrus(), rng, size), rng.uniform(0.05, 0.3) * level),
    ]
    base = (np.asarray(color) * (np.asarray(light.tint) + 1) / 2)[:, None]
    canvas.lay(base * level * (bands * (0.97 + 0.08 * near)), textures, rows, tint=(1.0, 1.0, 0.75))
    # Patches of different growth, greener or drier.
    patches = noise.window(noise.cirrus() if rng.chance(0.5) else noise.clouds(), rng, size)
    hue = rng.uniform(0.04, 0.2) * level
    canvas.add(patches, (hue, hue * 0.55, hue * 0.1), rows)


def paint_strip(rng: Rng, canvas: Canvas, foot: float, light: Daylight) -> None:
    """Paint the strip along a row of vines at y = `foot` that is kept free of grass: earth, leaves, ragged edges."""
    width, height = canvas.size
    half_width = height * rng.uniform(0.02, 0.06)
    top, bottom = max(0, int(foot - 1.6 * half_width)), min(height, int(foot + 3.2 * half_width))
    if bottom - top < 4:
        return
    size, rows = (width, bottom - top), slice(top, bottom)
    distance = np.abs(np.arange(top, bottom) - (foot + 0.7 * half_width)) / (1.9 * half_width)
    cover = np.floor((1.15 - distance) * 110).astype(np.int16)[:, None]
    weight = cover + (noise.window(noise.cirrus(), rng, size) >> 1) + (noise.window(noise.leaves(), rng, size) >> 1)
    np.clip(weight, np.int16(0), np.int16(rng.whole(40, 62)), out=weight)
    level = light.level * rng.uniform(0.8, 1.05)
    red, green, blue = rng.weighted(EARTH)
    texture = _ground_window(litter(), rng, size, rng.whole(40, 160))
    canvas.mix((red * level, green * level, blue * level), weight, rows, texture=texture, contrast=(0.42, 0.42, 0.34))


def cast_shadow(
    rng: Rng, canvas: Canvas, plant: Layer, foot: FloatArray, horizon: int, light: Daylight, leafy: bool
) -> None:
    """Paint the shadow of the plant, rasterized as `plant`, on level ground around its foot (2,).

    Each pixel of the plant is projected sideways and a little nearer or farther. Leaves close the gaps between the
    branches.
    """
    width, height = canvas.size
    sideways = -light.sun_direction[0] / max(-light.sun_direction[1], 0.25) * 0.8
    farther = rng.uniform(0.06, 0.2) * (1 if light.sun_direction[2] > 0 else -1)
    pixel = plant.fragments.pixel[plant.chosen]
    row = pixel // np.int32(width)
    height_above = round(float(foot[1])) - row
    # Fixed-point arithmetic in 256ths, so that the result is the same on every machine.
    x = (pixel - row * np.int32(width) + ((height_above * round(sideways * 256)) >> 8)) // SHRINK
    y = (round(float(foot[1])) - ((height_above * round(farther * 256)) >> 8)) // SHRINK
    small = (-(-width // SHRINK), -(-height // SHRINK))
    on_ground = np.flatnonzero(
        (x >= 0) & (x < small[0]) & (y >= horizon // SHRINK) & (y < small[1]) & (height_above > 0)
    )
    if len(on_ground) == 0:
        return
    # Two rows of margin for a soft edge.
    first_row = max(int(y[on_ground].min()) - 2, 0)
    last_row = min(int(y[on_ground].max()) + 3, small[1])
    count = np.bincount(
        (y[on_ground] - first_row) * small[0] + x[on_ground], minlength=(last_row - first_row) * small[0]
    )
    # A foreshortened shadow receives many plant pixels per cell: ten of them make it full.
    density = np.minimum(count, 10).astype(np.int32).reshape(-1, small[0])
    if leafy:
        density = np.minimum(noise.soft(density << 4, 1) >> 3, 8)
    cover = (density * round(42 * light.sun) // 10).astype(np.int16)
    top, bottom = max(horizon + 1, first_row * SHRINK), min(height, last_row * SHRINK)
    if bottom > top:
        size = (small[0] * SHRINK, (last_row - first_row) * SHRINK)
        visible = slice(top - first_row * SHRINK, bottom - first_row * SHRINK)
        canvas.mix(SHADE, noise.enlarge(cover, size, visible)[:, :width], slice(top, bottom))


def darken_foot(canvas: Canvas, foot: FloatArray, radius: float, strength: int) -> None:
    """Paint a soft dark patch around the foot (2,) of a trunk, where less light from the sky arrives.

    `strength` is the weight of the patch in its center, 0 to 64.
    """
    width, height = canvas.size
    reach = max(4.0, radius * 2.4)
    left, right = max(0, int(foot[0] - 2 * reach)), min(width, int(foot[0] + 2 * reach) + 1)
    top, bottom = max(0, int(foot[1] - 0.35 * reach)), min(height, int(foot[1] + 0.7 * reach) + 1)
    if right <= left or bottom <= top:
        return
    x = (np.arange(left, right) - round(float(foot[0]))) / (2 * reach)
    y = (np.arange(top, bottom) - round(float(foot[1]) + 0.1 * reach)) / (0.55 * reach)
    near = np.maximum(1.0 - (x * x)[None, :] - (y * y)[:, None], 0.0)
    weight = np.floor(near * near * strength).astype(np.int16)
    canvas.mix(SHADE, weight, slice(top, bottom), slice(left, right))


def grass_in_front(rng: Rng, canvas: Canvas, sketch: Sketch, foot: FloatArray, radius: float) -> None:
    """Draw grass that hides the lowest part of a trunk with the foot (2,), in the colors of the painted ground."""
    width, height = canvas.size
    reach = (3.5 + 5.0 * rng.fraction()) * canvas.scale + 0.1 * radius
    count = int(14 + 3.0 * radius)
    start = foot + np.stack([rng.bell(count) * (1.6 * radius + 1.5 * reach), rng.array(count) * reach * 0.9], axis=1)
    angle = -math.pi / 2 + rng.bell(count) * 0.45
    tip = start + np.stack([np.cos(angle), np.sin(angle)], axis=1) * (reach * rng.array(count, 1, low=0.5, high=1.5))
    # Colors come from the ground beside the trunk, not from its shade.
    column = np.clip(
        snapped(start[:, 0] + np.where(start[:, 0] < foot[0], -3.0, 3.0) * radius).astype(np.intp), 0, width - 1
    )
    row = np.clip(snapped(start[:, 1] + 2.0).astype(np.intp), 0, height - 1)
    ground_color = np.clip(canvas.planes[:, row, column].T.astype(np.float64), 20, 235)
    sketch.add(start, tip, 0.45 * canvas.scale + 0.25, 0.3, ground_color * rng.array(count, 1, low=0.8, high=1.18))
