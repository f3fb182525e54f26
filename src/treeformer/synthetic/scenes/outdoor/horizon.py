"""Distant landscape: hills, woods and the edge of the land.

Distant objects are painted at a quarter of the size and enlarged, which blurs them and is sixteen times faster.

`haze` is the color of the sky at the horizon.
"""

from __future__ import annotations

import numpy as np

from treeformer._util.arrays import FloatArray
from treeformer.synthetic.painting import noise
from treeformer.synthetic.painting.canvas import Canvas, Color
from treeformer.synthetic.painting.raster import Int16Array
from treeformer.synthetic.rng import Rng
from treeformer.synthetic.scenes.outdoor.daylight import Daylight
from treeformer.synthetic.scenes.outdoor.far_rows import paint_row

WOODS: tuple[tuple[Color, float], ...] = (
    ((104, 94, 84), 3.0),
    ((92, 84, 72), 2.0),
    ((84, 82, 74), 1.0),
)
WOODS_IN_LEAF: tuple[tuple[Color, float], ...] = (
    ((74, 86, 54), 3.0),
    ((58, 70, 52), 2.0),  # evergreen
    ((90, 96, 58), 1.5),
    ((118, 100, 66), 0.7),  # autumn
)


def paint_hills_and_woods(rng: Rng, canvas: Canvas, horizon: int, light: Daylight, haze: Color, summer: bool) -> None:
    """Paint hills, then woods in front of them, mostly in leaf in summer."""
    height = canvas.size[1]
    if rng.chance(0.35):
        distance = rng.uniform(0.45, 0.75)
        color = in_haze((92, 104, 96), distance, haze, light)
        _hills(rng, canvas, horizon, height * rng.uniform(0.03, 0.16), color)
    for index in range(rng.weighted(((0, 0.04), (1, 0.86), (2, 0.1)))):
        leafy = summer or rng.chance(0.2)
        color = in_haze(rng.weighted(WOODS_IN_LEAF if leafy else WOODS), rng.uniform(0.06, 0.4), haze, light)
        height_px = height * rng.uniform(0.05, 0.24) * (1 - 0.4 * index)
        blur_px = rng.uniform(1.5, 5.0)
        paint_row(rng, canvas, "forest", horizon + 2.0, height_px, color, leafy=leafy, blur_px=blur_px)


def paint_fringe(rng: Rng, canvas: Canvas, horizon: int, light: Daylight) -> None:
    """Paint the edge of the land: slightly uneven, rough with tall grass and undergrowth."""
    width, height = canvas.size
    rows_above = round(rng.uniform(2, 9) * canvas.scale) + 1
    max_rise = rng.uniform(1, 7) * canvas.scale
    top, bottom = max(0, horizon - rows_above - int(max_rise)), min(height, horizon + 3 + rows_above // 2)
    if bottom - top < 2:
        return
    size = (width, bottom - top)
    rise = noise.stretch(np.floor(rng.array(1, rng.whole(4, 12), high=max_rise * 16)).astype(np.int16), width)
    depth = ((np.arange(top, bottom, dtype=np.int16) - np.int16(horizon)) * np.int16(16))[:, None] + rise  # in 16ths
    rough: Int16Array = noise.window(noise.cirrus(), rng, size).astype(np.int16)
    if horizon < height:
        red, green, blue = (float(int(plane.sum()) // width) for plane in canvas.planes[:, horizon].astype(np.int64))
        land = np.clip(depth * np.int16(3) + np.int16(32), np.int16(0), np.int16(64))[: horizon - top]
        canvas.mix((red, green, blue), land, slice(top, horizon))
    # Strongest on the edge, and of varying height.
    tufts = noise.stretch(np.floor(rng.array(1, rng.whole(6, 24), low=-30, high=30)).astype(np.int16), width)
    weight = np.minimum(
        62 + tufts + depth * np.int16(92 // rows_above) // 16, 62 - depth * np.int16(82 // (3 + rows_above // 2)) // 16
    )
    weight += rough >> 1
    weight += noise.window(noise.foliage(), rng, size) >> 3
    np.clip(weight, np.int16(0), np.int16(rng.whole(30, 60)), out=weight)
    level = light.level * rng.uniform(0.45, 0.85)
    canvas.mix((88 * level, 92 * level, 62 * level), weight, slice(top, bottom))


def in_haze(color: Color, haze_share: float, haze: Color, light: Daylight) -> Color:
    """Return a color seen from far away: lit by daylight and mixed with a share of the color of the haze."""
    brightness = light.level * 0.8
    red, green, blue = (
        level * brightness * (1 - haze_share) + haze_level * 0.94 * haze_share
        for level, haze_level in zip(color, haze, strict=True)
    )
    return (red, green, blue)


def ragged_line(rng: Rng, count: int, coarsest: int, roughness: float) -> FloatArray:
    """Return `count` heights from 0 to about 1 of a random line with bumps of all sizes.

    The largest bumps have `coarsest` knots; `roughness`, 0 to 1, is the strength of the fine bumps.
    """
    position = np.arange(count) / max(count - 1, 1)
    line = np.zeros(count)
    knots, weight = coarsest, 1.0
    while knots < count:
        line += weight * np.interp(position, np.arange(knots) / (knots - 1), rng.array(knots))
        knots, weight = knots * 2 + 1, weight * (0.35 + 0.4 * roughness)
    return np.asarray(np.clip(line * 0.62, 0.0, 1.4))


def _hills(rng: Rng, canvas: Canvas, horizon: int, height_px: float, color: Color) -> None:
    """Paint a strip of land that rises behind the horizon, at most about `height_px` high."""
    width, height = canvas.size
    top, bottom = max(0, int(horizon - height_px * 1.45)), min(height, horizon + 2)
    if bottom - top < 3:
        return
    small_rows, small_width = max(2, (bottom - top) // 4), max(2, width // 4)
    skyline = ragged_line(rng, small_width, rng.whole(3, 6), 0.06) * height_px
    elevation = (bottom - top) * (1 - (np.arange(small_rows) + 0.5) / small_rows)
    depth = np.floor(skyline - elevation[:, None]).astype(np.int16)  # px below the skyline
    cover = np.clip(depth * np.int16(8) + np.int16(24), np.int16(0), np.int16(64))
    canvas.mix(color, noise.enlarge_gently(cover, (width, bottom - top)), slice(top, bottom))
