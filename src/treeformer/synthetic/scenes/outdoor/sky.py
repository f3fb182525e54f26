"""Sky: overcast, clear or with a low sun, sometimes with soft clouds that look flatter near the horizon.

Photographs of trees are exposed for the tree, so most skies are pale and many are plain white.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from treeformer.synthetic.painting import noise
from treeformer.synthetic.painting.canvas import Canvas, Color
from treeformer.synthetic.painting.raster import Int16Array
from treeformer.synthetic.rng import Rng
from treeformer.synthetic.scenes.outdoor.daylight import Daylight

RELIEF_PX = 10  # clouds are shaded by the change of their thickness over this many rows
FLATTENING = 2  # tile rows per image row: 1 at the top, 1 + FLATTENING at the horizon


@cache
def fleece() -> noise.Int8Array:
    """Make a tile of clouds of all sizes.

    The octaves are sheared to the left and to the right, which hides the directions of the noise lattice.
    """
    row = np.arange(noise.TILE)[:, None]
    total = np.zeros((noise.TILE, noise.TILE), dtype=np.int32)
    for octave, slant in enumerate((1, -1, 0)):
        octaves = noise.box_blur(noise.octave_noise(71 + octave, 128, 4, 0.95), (3, 3))
        total += octaves[row, (np.arange(noise.TILE)[None, :] + slant * row) % noise.TILE]
    return noise.to_tile(total)


@cache
def strands() -> noise.Int8Array:
    """Make a tile of high thin clouds, stretched sideways, without lines as fine as one pixel."""
    return noise.to_tile(noise.box_blur(noise.octave_noise(74, 64, 8, 0.6, wide=4), (2, 4)))


def paint_sky(rng: Rng, canvas: Canvas, bottom: int, light: Daylight) -> Color:
    """Fill the rows above `bottom` with sky; return the color at the horizon, which distant objects take on."""
    top_color, horizon_color = _colors(rng, light)
    if bottom <= 0:
        return horizon_color
    rows = slice(0, bottom)
    share = np.linspace(0.0, 1.0, bottom)
    color = np.asarray(top_color)[:, None] + (np.asarray(horizon_color) - np.asarray(top_color))[:, None] * (
        share * (1.6 - 0.6 * share)
    )
    if light.kind == "overcast":
        canvas.lay(color, [(overhead_window(rng, fleece(), (canvas.size[0], bottom)), rng.uniform(0.0, 0.16))], rows)
        return horizon_color
    canvas.lay(color, [], rows)
    kind = rng.weighted((("none", 0.5), ("veil", 0.25), ("heaps", 0.25)))
    if kind == "veil":
        _veil(rng, canvas, rows, horizon_color)
    elif kind == "heaps":
        _heaps(rng, canvas, rows, horizon_color)
    return horizon_color


def _colors(rng: Rng, light: Daylight) -> tuple[Color, Color]:
    """Choose the colors of the sky at the top of the image and at the horizon."""
    if light.kind == "overcast":
        level = rng.uniform(216, 248)
        dark = rng.uniform(0.93, 1.0)
        return (level * dark * 0.985, level * dark * 0.995, level * dark), (level, level, level)
    if light.kind == "bright":
        deep = rng.uniform(0.0, 1.0)
        pale = rng.uniform(192, 230)
        return (118 - 52 * deep, 164 - 42 * deep, 208 - 22 * deep), (pale, pale * 0.45 + 130, pale * 0.12 + 208)
    deep, warm = rng.uniform(0.0, 1.0), rng.uniform(0.0, 1.0)
    return (175 - 34 * deep, 193 - 28 * deep, 208 - 14 * deep), (250.0, 243 - 9 * warm, 234 - 26 * warm)


def overhead_window(rng: Rng, tile: noise.Int8Array, size: tuple[int, int]) -> noise.Int8Array:
    """Return a random window of a (2, 2·TILE, 2·TILE) tile as seen in the sky: compressed towards the bottom."""
    width, height = size
    plane = tile[rng.whole(0, 1)]
    row = np.arange(height)
    row = (rng.whole(0, noise.TILE - 1) + row + FLATTENING * row * row // (2 * height)) % noise.TILE
    left = rng.whole(0, noise.TILE - 1)
    window: noise.Int8Array
    if width <= noise.TILE:
        window = plane[row, left : left + width]
    else:
        window = plane[row[:, None], (left + np.arange(width)) % noise.TILE]
    return window


def _veil(rng: Rng, canvas: Canvas, rows: slice, horizon_color: Color) -> None:
    """Paint thin high clouds, long and streaky, without an edge."""
    weight: Int16Array = overhead_window(rng, strands(), (canvas.size[0], rows.stop)).astype(np.int16)
    weight >>= 1
    weight += overhead_window(rng, fleece(), (canvas.size[0], rows.stop))
    weight += np.int16(rng.whole(10, 50))
    np.clip(weight, np.int16(0), np.int16(127), out=weight)
    weight *= np.int16(rng.whole(8, 26))
    weight >>= 6
    canvas.mix(_white(horizon_color), weight, rows)


def _heaps(rng: Rng, canvas: Canvas, rows: slice, horizon_color: Color) -> None:
    """Paint heaps of cloud with fraying edges, white on top, gray below and where they are thick."""
    width, height = canvas.size[0], rows.stop
    thickness: Int16Array = overhead_window(rng, fleece(), (width, height + RELIEF_PX)).astype(np.int16)
    relief = thickness[RELIEF_PX:] - thickness[:-RELIEF_PX]
    weight = thickness[RELIEF_PX:] - np.int16(rng.whole(-34, 10))
    np.clip(weight, np.int16(0), np.int16(88), out=weight)
    relief -= weight >> 1
    np.clip(relief, np.int16(-90), np.int16(60), out=relief)
    weight *= weight  # thin at the edge, quickly thicker inside
    weight >>= 6
    np.minimum(weight, np.int16(rng.whole(30, 56)), out=weight)
    weight *= (64 - 40 * np.arange(height) // height).astype(np.int16)[:, None]  # distant clouds fade into the haze
    weight >>= 6
    dim = rng.uniform(0.08, 0.16)
    canvas.mix(_white(horizon_color), weight, rows, texture=relief, contrast=(dim, dim, dim * 0.85))


def _white(horizon_color: Color) -> Color:
    """Return the color of clouds for the color of the sky at the horizon."""
    red, green, blue = horizon_color
    return (120 + red * 0.52, 120 + green * 0.52, 120 + blue * 0.52)
