"""The sky: gray, clear or with the sun low, at times with soft clouds that lie flatter the nearer they are to the land.

Photographs of trees are exposed for the tree: most skies are pale, many of them plainly white.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from treeformer.synthetic.painting import noise
from treeformer.synthetic.painting.canvas import Canvas, Color
from treeformer.synthetic.painting.raster import Int16Array
from treeformer.synthetic.rng import Rng
from treeformer.synthetic.scenes.outdoor.daylight import Daylight

RELIEF_PX = 10  # clouds are shaded by how much they thicken within so many rows
FLATTER = 2  # how many times more of a cloud a row shows at the horizon than one at the top, less one


@cache
def fleece() -> noise.Int8Array:
    """Clouds of all sizes without the lattice's own directions: octaves sheared to the left and to the right."""
    row = np.arange(noise.TILE)[:, None]
    total = np.zeros((noise.TILE, noise.TILE), dtype=np.int32)
    for number, slant in enumerate((1, -1, 0)):
        octaves = noise._box(noise._octaves(71 + number, 128, 4, 0.95), (3, 3))
        total += octaves[row, (np.arange(noise.TILE)[None, :] + slant * row) % noise.TILE]
    return noise._finished(total)


@cache
def strands() -> noise.Int8Array:
    """High thin clouds, drawn out sideways, without lines as fine as a pixel."""
    return noise._finished(noise._box(noise._octaves(74, 64, 8, 0.6, wide=4), (2, 4)))


def paint_sky(rng: Rng, canvas: Canvas, bottom: int, light: Daylight) -> Color:
    """Fill the rows above `bottom`. Returns the color at the horizon, which far things take on."""
    top, low = _colors(rng, light)
    if bottom <= 0:
        return low
    rows = slice(0, bottom)
    down = np.linspace(0.0, 1.0, bottom)
    color = np.asarray(top)[:, None] + (np.asarray(low) - np.asarray(top))[:, None] * (down * (1.6 - 0.6 * down))
    if light.kind == "overcast":
        canvas.lay(color, [(overhead(rng, fleece(), (canvas.size[0], bottom)), rng.uniform(0.0, 0.16))], rows)
        return low
    canvas.lay(color, [], rows)
    kind = rng.weighted((("none", 0.5), ("veil", 0.25), ("heaps", 0.25)))
    if kind == "veil":
        _veil(rng, canvas, rows, low)
    elif kind == "heaps":
        _heaps(rng, canvas, rows, low)
    return low


def _colors(rng: Rng, light: Daylight) -> tuple[Color, Color]:
    """Of the sky at the top of the image and at the horizon."""
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


def overhead(rng: Rng, tile: noise.Int8Array, size: tuple[int, int]) -> noise.Int8Array:
    """(height, width) of a tile that hangs over the land: drawn together towards the bottom; size: (width, height)."""
    width, height = size
    one = tile[rng.whole(0, 1)]
    row = np.arange(height)
    row = (rng.whole(0, noise.TILE - 1) + row + FLATTER * row * row // (2 * height)) % noise.TILE
    left = rng.whole(0, noise.TILE - 1)
    seen: noise.Int8Array
    if width <= noise.TILE:
        seen = one[row, left : left + width]
    else:
        seen = one[row[:, None], (left + np.arange(width)) % noise.TILE]
    return seen


def _veil(rng: Rng, canvas: Canvas, rows: slice, low: Color) -> None:
    """Thin high clouds, long and streaky, without any edge."""
    weight: Int16Array = overhead(rng, strands(), (canvas.size[0], rows.stop)).astype(np.int16)
    weight >>= 1
    weight += overhead(rng, fleece(), (canvas.size[0], rows.stop))
    weight += np.int16(rng.whole(10, 50))
    np.clip(weight, np.int16(0), np.int16(127), out=weight)
    weight *= np.int16(rng.whole(8, 26))
    weight >>= 6
    canvas.mix(_white(low), weight, rows)


def _heaps(rng: Rng, canvas: Canvas, rows: slice, low: Color) -> None:
    """Heaps of cloud with edges that fray, white on top, gray below and where they are thick."""
    width, height = canvas.size[0], rows.stop
    thick: Int16Array = overhead(rng, fleece(), (width, height + RELIEF_PX)).astype(np.int16)
    relief = thick[RELIEF_PX:] - thick[:-RELIEF_PX]
    weight = thick[RELIEF_PX:] - np.int16(rng.whole(-34, 10))
    np.clip(weight, np.int16(0), np.int16(88), out=weight)
    relief -= weight >> 1
    np.clip(relief, np.int16(-90), np.int16(60), out=relief)
    weight *= weight  # thin at the edge, and soon thick inside
    weight >>= 6
    np.minimum(weight, np.int16(rng.whole(30, 56)), out=weight)
    weight *= (64 - 40 * np.arange(height) // height).astype(np.int16)[:, None]  # far ones are lost in the haze
    weight >>= 6
    dim = rng.uniform(0.08, 0.16)
    canvas.mix(_white(low), weight, rows, texture=relief, contrast=(dim, dim, dim * 0.85))


def _white(low: Color) -> Color:
    """The color of clouds in a sky with a color at its horizon."""
    red, green, blue = low
    return (120 + red * 0.52, 120 + green * 0.52, 120 + blue * 0.52)
