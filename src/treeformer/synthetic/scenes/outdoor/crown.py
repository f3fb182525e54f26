"""Leaves: the crown of a tree in clumps of light and shade, and the outlines of woods far away.

Where leaves are and how they are lit is worked out on a coarse grid of cells and enlarged; a tile of leaves then breaks
the edges up and gives the detail.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from treeformer._util.arrays import FloatArray
from treeformer.synthetic.painting import noise
from treeformer.synthetic.painting.canvas import Canvas, Color
from treeformer.synthetic.painting.raster import Int16Array
from treeformer.synthetic.rng import Rng

CELLS = 64  # of the coarse grid, both ways
EDGE = 100  # the mass at which leaves thin out to single ones
BARE = 120  # below 0: so far from any branch that no leaf is seen
# Leaves let light through: what is bright is yellower, what is dark is bluer.
LEAF_CONTRAST: Color = (0.95, 0.85, 0.55)
LEAF_COLORS: tuple[tuple[Color, float], ...] = (
    ((66, 92, 36), 4.0),
    ((84, 104, 40), 3.0),
    ((48, 74, 44), 2.0),
    ((104, 112, 58), 1.5),
    ((92, 104, 82), 0.7),  # silvery
    ((170, 122, 30), 1.5),  # autumn
    ((150, 78, 36), 0.8),
    ((104, 74, 46), 0.8),  # dry
    ((205, 180, 180), 0.4),  # in blossom
)


@dataclass(frozen=True, slots=True)
class Crown:
    """The leaves of a tree in some rows and columns of a canvas.

    mass: how dense they are, leaves above EDGE. shade: how much lighter than the mean the clumps are lit, -60 to 60.
    """

    rows: slice
    columns: slice
    mass: Int16Array
    shade: Int16Array
    color: Color
    tile: noise.Int8Array
    coarseness: int

    def paint(self, rng: Rng, canvas: Canvas, thinner: int, light: float) -> None:
        """Paint the leaves, `thinner` than the crown is, in more or less light; other leaves each time."""
        leaf: Int16Array = noise.window(self.tile, rng, canvas.size)[self.rows, self.columns].astype(np.int16)
        weight = leaf * np.int16(self.coarseness)
        weight >>= 5
        weight += self.mass
        weight -= np.int16(EDGE + thinner)
        weight <<= 2
        np.clip(weight, np.int16(0), np.int16(64), out=weight)
        leaf += self.shade
        np.clip(leaf, np.int16(-70), np.int16(120), out=leaf)
        color = (self.color[0] * light, self.color[1] * light, self.color[2] * light)
        canvas.mix(color, weight, self.rows, self.columns, texture=leaf, contrast=LEAF_CONTRAST)

    def cast_shade(self, canvas: Canvas, strength: int) -> None:
        """Darken what lies inside the crown, by up to `strength` 64ths."""
        weight = self.mass - np.int16(EDGE - 20)
        np.clip(weight, np.int16(0), np.int16(strength), out=weight)
        canvas.mix((10, 14, 8), weight, self.rows, self.columns)


def crown_around(rng: Rng, canvas: Canvas, points: FloatArray, fullness: float) -> Crown:
    """Leaves around points (M,2), at least one: single ones and tufts for a fullness of 0, a closed crown for 1."""
    mass = _density(rng, canvas, points, fullness)
    clump = noise.window(noise.mottle(), rng, (CELLS, CELLS)).astype(np.int32)
    mass = np.where(mass < 25, -BARE, mass + ((clump * np.minimum(mass, 80) * rng.whole(10, 56)) >> 11))
    # Where the mass grows towards the ground, a clump begins that catches the light from above; and from one side.
    sideways, steepness = rng.whole(-12, 12), rng.whole(6, 20)
    lit = np.zeros_like(mass)
    lit[1:-1] += (mass[2:] - mass[:-2]) * steepness
    lit[:, 1:-1] += (mass[:, 2:] - mass[:, :-2]) * sideways
    shade = np.clip(lit >> 5, -50, 60)
    if rng.chance(0.3):  # light from behind: bright where the crown is thin
        shade = (shade >> 1) + np.clip(130 - mass, -25, 45)
    coarseness = rng.whole(20, 56)
    leafy = mass > 0
    cells = [_span(np.any(leafy, axis=axis)) for axis in (1, 0)]
    sides = (canvas.size[1], canvas.size[0])
    rows, columns = (
        slice(c.start * side // CELLS, -(-c.stop * side // CELLS)) for c, side in zip(cells, sides, strict=True)
    )
    size = (columns.stop - columns.start, rows.stop - rows.start)
    level, hue = rng.uniform(0.55, 1.3), rng.uniform(-8, 8)
    red, green, blue = rng.weighted(LEAF_COLORS)
    return Crown(
        rows,
        columns,
        noise.enlarge_gently(mass[cells[0], cells[1]].astype(np.int16), size),
        noise.enlarge_gently(shade[cells[0], cells[1]].astype(np.int16), size),
        ((red + hue) * level, green * level, (blue - hue / 2) * level),
        rng.weighted(((noise.foliage, 0.65), (noise.leaves, 0.35)))(),
        coarseness,
    )


def _density(rng: Rng, canvas: Canvas, points: FloatArray, fullness: float) -> noise.Int32Array:
    """(CELLS, CELLS) how dense leaves are around points, 0 to about 200."""
    half = CELLS // 2
    if fullness < 0.5:  # on some branches only
        points = points[rng.array(len(points)) < 0.25 + fullness]
    place = np.clip((points * (half / np.asarray(canvas.size))).astype(np.intp), 0, half - 1)
    count = np.bincount(place[:, 1] * half + place[:, 0], minlength=half * half).reshape(half, half)
    coarse = noise.soft(np.minimum(count, 2).astype(np.int32) << 10, rng.whole(1, 2 + int(5 * fullness)))
    mass = noise.soft(coarse.repeat(2, axis=0).repeat(2, axis=1), 1)
    return np.minimum(mass * int(180 + 420 * fullness) // max(1, int(mass.max())), 108 + int(24 * fullness))


def _span(there: NDArray[np.bool_]) -> slice:
    """From the first to the last that is there."""
    places = np.flatnonzero(there)
    return slice(int(places[0]), int(places[-1]) + 1) if len(places) else slice(0, 1)


def woods(rng: Rng, canvas: Canvas, horizon: int, tall: float, color: Color, blurred: bool) -> None:
    """Trees, bushes or a hedge along the horizon, `tall` px at most, on a quarter of the size: out of focus."""
    width, height = canvas.size
    top, bottom = max(0, int(horizon - tall * 1.15)), min(height, horizon + 2 + int(tall * 0.04))
    small_rows, small_width = max(2, (bottom - top) // 4), max(2, width // 4)
    x = (np.arange(small_width) + 0.5) / small_width
    count = rng.whole(4, 26)
    reach = rng.array(count, 1, low=0.015, high=rng.uniform(0.04, 0.2))
    away = (x - rng.array(count, 1, low=-0.05, high=1.05)) / reach
    crowns = rng.array(count, 1, low=0.35, high=1.0) * (1 - away * away * rng.uniform(0.4, 1.0))
    skyline = np.maximum(crowns.max(axis=0), rng.choice((0.0, 0.2, rng.uniform(0.3, 0.8))))
    up = (bottom - top) * (1 - (np.arange(small_rows) + 0.5) / small_rows)
    below = np.floor(skyline * tall - up[:, None]).astype(np.int16)  # px under the skyline
    clump = noise.window(noise.rough(), rng, (small_width, small_rows)).astype(np.int16)
    ragged = np.int16(rng.whole(2, 12))
    below += (clump * ragged) >> 5
    edge = np.int16(12)
    cover = np.clip(below * edge + np.int16(20), np.int16(0 if blurred else -90), np.int16(64 if blurred else 120))
    # Each wood is lighter at its top, and dark at its foot.
    shade = np.clip(np.int16(24) - below * np.int16(2), np.int16(-40), np.int16(30)) + ((clump * np.int16(20)) >> 5)
    size, rows = (width, bottom - top), slice(top, bottom)
    weight, texture = noise.enlarge_gently(cover, size), noise.enlarge_gently(shade, size)
    if not blurred:
        leaf = noise.window(noise.foliage(), rng, size).astype(np.int16)
        texture += leaf >> 1
        weight += leaf >> 1
        np.clip(weight, np.int16(0), np.int16(64), out=weight)
    np.clip(texture, np.int16(-70), np.int16(120), out=texture)
    canvas.mix(color, weight, rows, texture=texture, contrast=LEAF_CONTRAST)
