"""The ground outdoors: turf, earth and fallen leaves in perspective, and how a trunk stands in it."""

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
MARGIN_PX = 48.0  # no blade of grass is longer
SHRINK = 4  # shadows are soft: drawn so many times smaller
BLADE_GROWTH = 0.045  # px a blade is longer for each row nearer to the viewer
SHADE: Color = (16, 18, 20)
# Colors of level ground in full light, and how likely they are.
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
    """(2, ROWS, 2·TILE) blades of grass, finer in the far rows at the top; as it is and mirrored."""
    count = 42000
    row = np.sqrt(dice_rows(31, count, 0.25)) * ROWS
    rng = Rng(32)
    angle = -math.pi / 2 + rng.bell(count) * 0.5
    long = (0.8 + row * BLADE_GROWTH) * rng.array(count, low=0.5, high=1.4)
    return _seen_along(row, angle, long, 0.32 + row * 0.0032, rng, tip_light=1100)


@cache
def litter() -> noise.Int8Array:
    """As `turf`: clods, stones, bits of wood and fallen leaves, lying flat."""
    count = 30000
    row = np.sqrt(dice_rows(33, count, 0.25)) * ROWS
    rng = Rng(34)
    angle = rng.bell(count) * 0.5 + np.where(rng.array(count) < 0.5, 0.0, math.pi)
    long = (0.6 + row * BLADE_GROWTH * 0.5) * rng.array(count, low=0.1, high=1.1)
    return _seen_along(row, angle, long, (0.3 + row * 0.008) * rng.array(count, low=0.4, high=1.2), rng, tip_light=0)


def dice_rows(seed: int, count: int, least: float) -> FloatArray:
    """(count,) from 0 to 1 in rising order, a share of `least` of them evenly, the others crowded at 0."""
    share = Rng(seed).array(count)
    even = Rng(seed, 1).array(count) < least
    return np.sort(np.where(even, share, share * share * share))


def _seen_along(
    row: FloatArray, angle: FloatArray, long: FloatArray, thick: FloatArray, rng: Rng, tip_light: int
) -> noise.Int8Array:
    """Strokes at rows of the tile, far ones first, each with its own brightness; the tile repeats sideways."""
    count = len(row)
    start = np.stack([rng.array(count, high=noise.TILE), row], axis=1)
    step = np.stack([np.cos(angle), np.sin(angle)], axis=1) * long[:, None]
    clump = noise.rough()[0]
    at = start.astype(np.intp) % noise.TILE
    bright = np.floor(rng.array(count, low=-2600, high=2600)) + clump[at[:, 1], at[:, 0]].astype(np.float64) * 22
    # What leaves on one side comes in on the other.
    left, right = np.flatnonzero(start[:, 0] < MARGIN_PX), np.flatnonzero(start[:, 0] > noise.TILE - MARGIN_PX)
    owner = np.concatenate([np.arange(count), left, right])
    moved = np.repeat((0.0, noise.TILE, -noise.TILE), (count, len(left), len(right)))
    first, width = snapped(start[owner] + np.stack([moved, moved * 0], axis=1)), snapped(thick[owner])
    found = rasterize(strokes(first, first + snapped(step[owner]), width, width * 0.5), (noise.TILE, ROWS))
    stroke = owner[found.stroke]
    chosen = topmost(found.pixel, (stroke * 900 // count).astype(np.int32))  # the nearest is seen
    top, stroke = found.take(chosen), stroke[chosen]
    tip = np.minimum(top.along / np.maximum(long.astype(np.float32)[stroke], np.float32(0.5)), np.float32(1))
    level = bright[stroke].astype(np.int32) + np.floor(tip * np.float32(tip_light)).astype(np.int32)
    plane: Int16Array = np.zeros((1, ROWS, noise.TILE), dtype=np.int16)
    blend(plane, top.pixel, top.coverage, level[None])
    tile = np.clip(plane[0].astype(np.int32) // 56, -127, 127).astype(np.int8)
    both = np.tile(np.stack([tile, tile[:, ::-1]]), (1, 1, 2))
    both.setflags(write=False)
    return both


def _window(tile: noise.Int8Array, rng: Rng, size: tuple[int, int], first: int) -> noise.Int8Array:
    """(height, width) of a tile seen along the ground, from its row `first` down."""
    width, height = size
    one = tile[rng.whole(0, 1)]
    if max(width, height + first) > noise.TILE:  # a larger image shows it larger
        times = math.ceil(max(width, height + first) / noise.TILE)
        one = one.repeat(times, axis=0).repeat(times, axis=1)
    left = rng.whole(0, noise.TILE - 1)
    seen: noise.Int8Array = one[first : first + height, left : left + width]
    return seen


def paint_ground(rng: Rng, canvas: Canvas, horizon: int, light: Daylight, *, grassy: float) -> None:
    """Fill the rows below the horizon with turf (with the likelihood `grassy`) or earth."""
    width, height = canvas.size
    if horizon >= height:
        return
    rows, size = slice(horizon, height), (width, height - horizon)
    green = rng.chance(grassy)
    color = rng.weighted(TURF if green else EARTH)
    level = rng.uniform(0.82, 1.14) * light.level
    near = np.linspace(0.0, 1.0, size[1])
    bands = np.interp(np.sqrt(near), np.linspace(0, 1, 7), rng.array(7, low=0.93, high=1.07))
    first = rng.whole(6, 60)
    textures = [
        (_window(turf() if green else litter(), rng, size, first), rng.uniform(0.55, 0.95) * level),
        (noise.window(noise.cirrus(), rng, size), rng.uniform(0.05, 0.3) * level),
    ]
    base = (np.asarray(color) * (np.asarray(light.tint) + 1) / 2)[:, None]
    canvas.lay(base * level * (bands * (0.97 + 0.08 * near)), textures, rows, tint=(1.0, 1.0, 0.75))
    # Patches of other growth: greener here, drier there.
    patches = noise.window(noise.cirrus() if rng.chance(0.5) else noise.clouds(), rng, size)
    hue = rng.uniform(0.04, 0.2) * level
    canvas.add(patches, (hue, hue * 0.55, hue * 0.1), rows)


def paint_strip(rng: Rng, canvas: Canvas, foot: float, light: Daylight) -> None:
    """The strip along a row of vines that is kept free of grass: earth with fallen leaves, ragged at its edges."""
    width, height = canvas.size
    half = height * rng.uniform(0.02, 0.06)
    top, bottom = max(0, int(foot - 1.6 * half)), min(height, int(foot + 3.2 * half))
    if bottom - top < 4:
        return
    size, rows = (width, bottom - top), slice(top, bottom)
    away = np.abs(np.arange(top, bottom) - (foot + 0.7 * half)) / (1.9 * half)
    cover = np.floor((1.15 - away) * 110).astype(np.int16)[:, None]
    weight = cover + (noise.window(noise.cirrus(), rng, size) >> 1) + (noise.window(noise.leaves(), rng, size) >> 1)
    np.clip(weight, np.int16(0), np.int16(rng.whole(40, 62)), out=weight)
    level = light.level * rng.uniform(0.8, 1.05)
    red, green, blue = rng.weighted(EARTH)
    texture = _window(litter(), rng, size, rng.whole(40, 160))
    canvas.mix((red * level, green * level, blue * level), weight, rows, texture=texture, contrast=(0.42, 0.42, 0.34))


def cast_shadow(
    rng: Rng, canvas: Canvas, plant: Layer, foot: FloatArray, horizon: int, light: Daylight, leafy: bool
) -> None:
    """The plant's own shadow on level ground: each of its pixels falls to the side, and a little nearer or farther.

    foot: (2,) where the plant stands. leafy: leaves close the gaps between its branches.
    """
    width, height = canvas.size
    sideways = -light.towards[0] / max(-light.towards[1], 0.25) * 0.8
    farther = rng.uniform(0.06, 0.2) * (1 if light.towards[2] > 0 else -1)
    pixel = plant.fragments.pixel[plant.chosen]
    row = pixel // np.int32(width)
    high = round(float(foot[1])) - row
    # In 256ths, so that whole numbers say where the shadow of a pixel falls.
    x = (pixel - row * np.int32(width) + ((high * round(sideways * 256)) >> 8)) // SHRINK
    y = (round(float(foot[1])) - ((high * round(farther * 256)) >> 8)) // SHRINK
    small = (-(-width // SHRINK), -(-height // SHRINK))
    kept = np.flatnonzero((x >= 0) & (x < small[0]) & (y >= horizon // SHRINK) & (y < small[1]) & (high > 0))
    if len(kept) == 0:
        return
    first, last = max(int(y[kept].min()) - 2, 0), min(int(y[kept].max()) + 3, small[1])  # room for a soft edge
    count = np.bincount((y[kept] - first) * small[0] + x[kept], minlength=(last - first) * small[0])
    # Pixels crowd where the shadow is foreshortened: it is full where a few of them fall.
    many = np.minimum(count, 10).astype(np.int32).reshape(-1, small[0])
    if leafy:
        many = np.minimum(noise.soft(many << 4, 1) >> 3, 8)
    cover = (many * round(42 * light.sun) // 10).astype(np.int16)
    top, bottom = max(horizon + 1, first * SHRINK), min(height, last * SHRINK)
    if bottom > top:
        size = (small[0] * SHRINK, (last - first) * SHRINK)
        seen = slice(top - first * SHRINK, bottom - first * SHRINK)
        canvas.mix(SHADE, noise.enlarge(cover, size, seen)[:, :width], slice(top, bottom))


def darken_foot(canvas: Canvas, foot: FloatArray, radius: float, strength: int) -> None:
    """Less of the sky's light reaches the ground close to a trunk: a soft dark patch around its foot (2,)."""
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
    """Blades that hide the lowest part of a trunk, in the colors of the ground there, which is already painted."""
    width, height = canvas.size
    reach = (3.5 + 5.0 * rng.fraction()) * canvas.scale + 0.1 * radius
    count = int(14 + 3.0 * radius)
    at = foot + np.stack([rng.bell(count) * (1.6 * radius + 1.5 * reach), rng.array(count) * reach * 0.9], axis=1)
    angle = -math.pi / 2 + rng.bell(count) * 0.45
    tip = at + np.stack([np.cos(angle), np.sin(angle)], axis=1) * (reach * rng.array(count, 1, low=0.5, high=1.5))
    # Colors from the ground beside the trunk, not from its own shade.
    column = np.clip(snapped(at[:, 0] + np.where(at[:, 0] < foot[0], -3.0, 3.0) * radius).astype(np.intp), 0, width - 1)
    row = np.clip(snapped(at[:, 1] + 2.0).astype(np.intp), 0, height - 1)
    own = np.clip(canvas.planes[:, row, column].T.astype(np.float64), 20, 235)
    sketch.add(at, tip, 0.45 * canvas.scale + 0.25, 0.3, own * rng.array(count, 1, low=0.8, high=1.18))
