"""Leaves of the simple outdoor scenes: tree crowns in clumps of light and shade, and distant woods.

Density and lighting are computed on a coarse grid and enlarged. A tile of leaves then breaks up the edges and adds
detail.
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

GRID_CELLS = 64  # cells of the coarse grid along each side
EDGE_MASS = 100  # mass at which leaves thin out to single ones
BARE_MASS = 120  # cells too far from any branch to have leaves get the mass -BARE_MASS
# Leaves transmit light: bright parts are yellower, dark parts are bluer.
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
    """The leaves of a tree in some rows and columns of a canvas."""

    rows: slice  # rows of the canvas that the maps cover
    columns: slice  # columns of the canvas that the maps cover
    mass: Int16Array  # (h, w) density of the leaves; leaves are visible above `EDGE_MASS`
    shade: Int16Array  # (h, w) brightness of the clumps relative to the mean, -60 to 60
    color: Color  # mean color of the leaves
    tile: noise.Int8Array  # tile of leaves
    coarseness: int  # how strongly the tile breaks up the edge of the crown

    def paint(self, rng: Rng, canvas: Canvas, thinning: int, brightness: float) -> None:
        """Paint the leaves, with a new random window of the leaf tile at each call.

        `thinning` is subtracted from the mass of the crown; `brightness` is a factor for the color.
        """
        leaf: Int16Array = noise.window(self.tile, rng, canvas.size)[self.rows, self.columns].astype(np.int16)
        weight = leaf * np.int16(self.coarseness)
        weight >>= 5
        weight += self.mass
        weight -= np.int16(EDGE_MASS + thinning)
        weight <<= 2
        np.clip(weight, np.int16(0), np.int16(64), out=weight)
        leaf += self.shade
        np.clip(leaf, np.int16(-70), np.int16(120), out=leaf)
        color = (self.color[0] * brightness, self.color[1] * brightness, self.color[2] * brightness)
        canvas.mix(color, weight, self.rows, self.columns, texture=leaf, contrast=LEAF_CONTRAST)

    def cast_shade(self, canvas: Canvas, strength: int) -> None:
        """Darken everything inside the crown by at most `strength` 64ths."""
        weight = self.mass - np.int16(EDGE_MASS - 20)
        np.clip(weight, np.int16(0), np.int16(strength), out=weight)
        canvas.mix((10, 14, 8), weight, self.rows, self.columns)


def crown_around(rng: Rng, canvas: Canvas, points: FloatArray, fullness: float) -> Crown:
    """Grow leaves around points (M,2), M > 0; `fullness` is 0 for single leaves and tufts, 1 for a closed crown."""
    mass = _density(rng, canvas, points, fullness)
    clumps = noise.window(noise.mottle(), rng, (GRID_CELLS, GRID_CELLS)).astype(np.int32)
    mass = np.where(mass < 25, -BARE_MASS, mass + ((clumps * np.minimum(mass, 80) * rng.whole(10, 56)) >> 11))
    # A clump is lit from above where its mass increases downwards, and from one side in the same way.
    sideways, steepness = rng.whole(-12, 12), rng.whole(6, 20)
    light = np.zeros_like(mass)
    light[1:-1] += (mass[2:] - mass[:-2]) * steepness
    light[:, 1:-1] += (mass[:, 2:] - mass[:, :-2]) * sideways
    shade = np.clip(light >> 5, -50, 60)
    if rng.chance(0.3):  # backlight: bright where the crown is thin
        shade = (shade >> 1) + np.clip(130 - mass, -25, 45)
    coarseness = rng.whole(20, 56)
    has_leaves = mass > 0
    cells = [_span(np.any(has_leaves, axis=axis)) for axis in (1, 0)]
    sides = (canvas.size[1], canvas.size[0])
    rows, columns = (
        slice(span.start * side // GRID_CELLS, -(-span.stop * side // GRID_CELLS))
        for span, side in zip(cells, sides, strict=True)
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
    """Return the (GRID_CELLS, GRID_CELLS) density of leaves around points, 0 to about 200."""
    half = GRID_CELLS // 2
    if fullness < 0.5:  # leaves on some branches only
        points = points[rng.array(len(points)) < 0.25 + fullness]
    cell = np.clip((points * (half / np.asarray(canvas.size))).astype(np.intp), 0, half - 1)
    count = np.bincount(cell[:, 1] * half + cell[:, 0], minlength=half * half).reshape(half, half)
    coarse = noise.soft(np.minimum(count, 2).astype(np.int32) << 10, rng.whole(1, 2 + int(5 * fullness)))
    mass = noise.soft(coarse.repeat(2, axis=0).repeat(2, axis=1), 1)
    return np.minimum(mass * int(180 + 420 * fullness) // max(1, int(mass.max())), 108 + int(24 * fullness))


def _span(occupied: NDArray[np.bool_]) -> slice:
    """Return the range from the first to the last occupied cell, or the first cell if none is occupied."""
    cells = np.flatnonzero(occupied)
    return slice(int(cells[0]), int(cells[-1]) + 1) if len(cells) else slice(0, 1)


def woods(rng: Rng, canvas: Canvas, horizon: int, height_px: float, color: Color, blurred: bool) -> None:
    """Paint trees, bushes or a hedge along the horizon, computed at a quarter of the size.

    Woods in focus show single leaves.
    """
    width, height = canvas.size
    top, bottom = max(0, int(horizon - height_px * 1.15)), min(height, horizon + 2 + int(height_px * 0.04))
    small_rows, small_width = max(2, (bottom - top) // 4), max(2, width // 4)
    x = (np.arange(small_width) + 0.5) / small_width
    count = rng.whole(4, 26)
    reach = rng.array(count, 1, low=0.015, high=rng.uniform(0.04, 0.2))
    offset = (x - rng.array(count, 1, low=-0.05, high=1.05)) / reach
    crown_heights = rng.array(count, 1, low=0.35, high=1.0) * (1 - offset * offset * rng.uniform(0.4, 1.0))
    skyline = np.maximum(crown_heights.max(axis=0), rng.choice((0.0, 0.2, rng.uniform(0.3, 0.8))))
    elevation = (bottom - top) * (1 - (np.arange(small_rows) + 0.5) / small_rows)
    depth = np.floor(skyline * height_px - elevation[:, None]).astype(np.int16)  # px below the skyline
    clumps = noise.window(noise.rough(), rng, (small_width, small_rows)).astype(np.int16)
    ragged = np.int16(rng.whole(2, 12))
    depth += (clumps * ragged) >> 5
    edge = np.int16(12)
    cover = np.clip(depth * edge + np.int16(20), np.int16(0 if blurred else -90), np.int16(64 if blurred else 120))
    # Woods are lighter at the top and dark at the foot.
    shade = np.clip(np.int16(24) - depth * np.int16(2), np.int16(-40), np.int16(30)) + ((clumps * np.int16(20)) >> 5)
    size, rows = (width, bottom - top), slice(top, bottom)
    weight, texture = noise.enlarge_gently(cover, size), noise.enlarge_gently(shade, size)
    if not blurred:
        leaf = noise.window(noise.foliage(), rng, size).astype(np.int16)
        texture += leaf >> 1
        weight += leaf >> 1
        np.clip(weight, np.int16(0), np.int16(64), out=weight)
    np.clip(texture, np.int16(-70), np.int16(120), out=texture)
    canvas.mix(color, weight, rows, texture=texture, contrast=LEAF_CONTRAST)
