"""What lies far away outdoors: hills and woods.

What is far away is drawn on a quarter of the size and enlarged: out of focus, and sixteen times cheaper.
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


def paint_far(rng: Rng, canvas: Canvas, horizon: int, light: Daylight, haze: Color, summer: bool) -> None:
    """Hills, then woods before them, mostly in leaf in summer."""
    height = canvas.size[1]
    if rng.chance(0.35):
        far = rng.uniform(0.45, 0.75)
        color = in_haze((92, 104, 96), far, haze, light)
        _hills(rng, canvas, horizon, height * rng.uniform(0.03, 0.16), color)
    for number in range(rng.weighted(((0, 0.04), (1, 0.86), (2, 0.1)))):
        leafy = summer or rng.chance(0.2)
        color = in_haze(rng.weighted(WOODS_IN_LEAF if leafy else WOODS), rng.uniform(0.06, 0.4), haze, light)
        tall = height * rng.uniform(0.05, 0.24) * (1 - 0.4 * number)
        blur_px = rng.uniform(1.5, 5.0)
        paint_row(rng, canvas, "forest", horizon + 2.0, tall, color, leafy=leafy, blur_px=blur_px)


def fringe(rng: Rng, canvas: Canvas, horizon: int, light: Daylight) -> None:
    """Where the land ends: it rises and falls a little, and its edge is rough with tall grass and undergrowth."""
    width, height = canvas.size
    above = round(rng.uniform(2, 9) * canvas.scale) + 1
    most = rng.uniform(1, 7) * canvas.scale
    top, bottom = max(0, horizon - above - int(most)), min(height, horizon + 3 + above // 2)
    if bottom - top < 2:
        return
    size = (width, bottom - top)
    rise = noise.stretch(np.floor(rng.array(1, rng.whole(4, 12), high=most * 16)).astype(np.int16), width)
    down = ((np.arange(top, bottom, dtype=np.int16) - np.int16(horizon)) * np.int16(16))[:, None] + rise  # in 16ths
    rough: Int16Array = noise.window(noise.cirrus(), rng, size).astype(np.int16)
    if horizon < height:
        red, green, blue = (float(int(plane.sum()) // width) for plane in canvas.planes[:, horizon].astype(np.int64))
        land = np.clip(down * np.int16(3) + np.int16(32), np.int16(0), np.int16(64))[: horizon - top]
        canvas.mix((red, green, blue), land, slice(top, horizon))
    # Strongest on the edge, and not as high everywhere.
    tuft = noise.stretch(np.floor(rng.array(1, rng.whole(6, 24), low=-30, high=30)).astype(np.int16), width)
    weight = np.minimum(
        62 + tuft + down * np.int16(92 // above) // 16, 62 - down * np.int16(82 // (3 + above // 2)) // 16
    )
    weight += rough >> 1
    weight += noise.window(noise.foliage(), rng, size) >> 3
    np.clip(weight, np.int16(0), np.int16(rng.whole(30, 60)), out=weight)
    level = light.level * rng.uniform(0.45, 0.85)
    canvas.mix((88 * level, 92 * level, 62 * level), weight, slice(top, bottom))


def in_haze(color: Color, far: float, haze: Color, light: Daylight) -> Color:
    """A color seen far away: lit, and mixed with the air's by the share `far`."""
    lit = light.level * 0.8
    red, green, blue = (own * lit * (1 - far) + air * 0.94 * far for own, air in zip(color, haze, strict=True))
    return (red, green, blue)


def ragged_line(rng: Rng, count: int, coarsest: int, rough: float) -> FloatArray:
    """(count,) a line from 0 to about 1 with bumps of all sizes, the fine ones as strong as `rough` (0 to 1)."""
    place = np.arange(count) / max(count - 1, 1)
    line = np.zeros(count)
    knots, weight = coarsest, 1.0
    while knots < count:
        line += weight * np.interp(place, np.arange(knots) / (knots - 1), rng.array(knots))
        knots, weight = knots * 2 + 1, weight * (0.35 + 0.4 * rough)
    return np.asarray(np.clip(line * 0.62, 0.0, 1.4))


def _hills(rng: Rng, canvas: Canvas, horizon: int, tall: float, color: Color) -> None:
    """A strip of land that rises behind the horizon, `tall` px at most."""
    width, height = canvas.size
    top, bottom = max(0, int(horizon - tall * 1.45)), min(height, horizon + 2)
    if bottom - top < 3:
        return
    small_rows, small_width = max(2, (bottom - top) // 4), max(2, width // 4)
    skyline = ragged_line(rng, small_width, rng.whole(3, 6), 0.06) * tall
    up = (bottom - top) * (1 - (np.arange(small_rows) + 0.5) / small_rows)
    below = np.floor(skyline - up[:, None]).astype(np.int16)  # px under the skyline
    cover = np.clip(below * np.int16(8) + np.int16(24), np.int16(0), np.int16(64))
    canvas.mix(color, noise.enlarge_gently(cover, (width, bottom - top)), slice(top, bottom))
