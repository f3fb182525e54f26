"""Leaves of an outdoor plant: a tile of leaves, each with its own tone, hue and density threshold.

A leaf is visible if the crown at its position is denser than its threshold. So a crown thins out leaf by leaf.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from treeformer._util.arrays import FloatArray
from treeformer.synthetic.painting import noise
from treeformer.synthetic.painting.canvas import Canvas, Color, snapped
from treeformer.synthetic.painting.raster import Int16Array, rasterize, strokes, topmost
from treeformer.synthetic.rng import Rng
from treeformer.synthetic.scenes.outdoor.daylight import Daylight

CELL_PX = 8  # the density of leaves is computed on cells of this size
BLOCK_PIXELS = 16384
SHADE: Color = (14, 17, 14)
FULL_MASS = 127
# Color in white light and variation in hue from leaf to leaf, with the weight of each kind.
LEAVES: tuple[tuple[tuple[Color, float], float], ...] = (
    (((78, 96, 44), 0.16), 4.0),
    (((92, 106, 52), 0.2), 2.5),
    (((66, 84, 50), 0.12), 2.0),
    (((104, 108, 56), 0.24), 0.8),  # turning
    (((108, 93, 60), 0.2), 0.6),  # autumn
    (((104, 88, 68), 0.16), 0.4),  # dry
    (((206, 196, 190), 0.12), 0.5),  # in blossom; must stay last, because vines exclude it
)


@dataclass(frozen=True, slots=True)
class LeafTile:
    """Maps (2·TILE, 2·TILE) of the leaf that is visible at each pixel."""

    threshold: noise.Int8Array  # density above which the leaf is visible, 0 to 127
    tone: noise.Int8Array  # brightness of the leaf, -127 to 127
    hue: noise.Int8Array  # hue of the leaf, -127 to 127

    def windows(self, rng: Rng, size: tuple[int, int]) -> tuple[noise.Int8Array, noise.Int8Array, noise.Int8Array]:
        """Cut the same window at a random position out of threshold, tone and hue."""
        width, height = size
        top, left = rng.whole(0, noise.TILE - 1), rng.whole(0, noise.TILE - 1)
        maps = (self.threshold, self.tone, self.hue)
        if max(width, height) > noise.TILE:
            repeats = (math.ceil(height / noise.TILE) + 1, math.ceil(width / noise.TILE) + 1)
            period = slice(0, noise.TILE)
            maps = tuple(np.tile(plane[period, period], repeats) for plane in maps)  # type: ignore[assignment]
        threshold, tone, hue = (plane[top : top + height, left : left + width] for plane in maps)
        return threshold, tone, hue


@cache
def leaf_tile(size: int, broad: bool = False) -> LeafTile:
    """Make a tile of broad or pointed leaves of about 1.3·size + 2 px; the result is cached."""
    length = 2.2 + 1.3 * size
    count = int(noise.TILE * noise.TILE * 1.8 / (length * length * 0.42))
    rng = Rng(51, size)
    start = rng.array(count, 2, high=noise.TILE)
    angle = rng.array(count, high=2 * math.pi)
    step = np.stack([np.cos(angle), np.sin(angle)], axis=1) * (length * rng.array(count, 1, low=0.6, high=1.25))
    half_width = length * rng.array(count, low=0.16, high=0.3) * (1.45 if broad else 1.0)
    near_border = np.any((start < 2 * length) | (start > noise.TILE - 2 * length), axis=1)
    shifts = [(a, b) for a in (-1, 0, 1) for b in (-1, 0, 1) if (a, b) != (0, 0)]
    leaf = np.concatenate([np.arange(count), *(np.flatnonzero(near_border) for _ in shifts)])
    shifted = np.concatenate([start, *(start[near_border] + np.asarray(s) * float(noise.TILE) for s in shifts)])
    middle = snapped(shifted + 0.45 * step[leaf])
    base, tip = snapped(shifted), snapped(shifted + step[leaf])
    thick_radius, thin_radius = snapped(half_width[leaf]), snapped(half_width[leaf] * 0.25)
    halves = strokes(
        np.concatenate([base, middle]),
        np.concatenate([middle, tip]),
        np.concatenate([thin_radius, thick_radius]),
        np.concatenate([thick_radius, thin_radius]),
    )
    fragments = rasterize(halves, (noise.TILE, noise.TILE))
    fragment_leaf = np.tile(leaf, 2)[fragments.stroke]
    solid = np.flatnonzero(fragments.coverage > 90)
    order = np.floor(fragment_leaf[solid] * (1000 / count)).astype(np.int32)
    top = solid[topmost(fragments.pixel[solid], order)]
    pixels = noise.TILE * noise.TILE
    threshold, tone, hue = (np.full(pixels, value, dtype=np.int64) for value in (127, -50, 0))
    side = fragments.across[top] / np.maximum(fragments.radius[top], np.float32(0.5))
    leaf_tone = np.floor(rng.array(count, low=-20, high=20)).astype(np.int64)
    threshold[fragments.pixel[top]] = np.floor(rng.array(count, low=0, high=127)).astype(np.int64)[fragment_leaf[top]]
    tone[fragments.pixel[top]] = leaf_tone[fragment_leaf[top]] + np.floor(np.clip(side, -1, 1) * np.float32(8)).astype(
        np.int64
    )
    hue[fragments.pixel[top]] = np.floor(rng.bell(count) * 40).astype(np.int64)[fragment_leaf[top]]
    return LeafTile(*(_doubled(values) for values in (threshold, tone, hue)))


def _doubled(values: NDArray[np.int64]) -> noise.Int8Array:
    """Return a flat tile as (2·TILE, 2·TILE) read-only int8, repeated twice along both axes."""
    tile = np.clip(values, -127, 127).astype(np.int8).reshape(noise.TILE, noise.TILE)
    doubled = np.tile(tile, (2, 2))
    doubled.setflags(write=False)
    return doubled


@dataclass(frozen=True, slots=True)
class Canopy:
    """The leaves of a plant: a dark, closed mass behind the branches and lit clumps in front of them."""

    rows: slice  # rows of the canvas that the maps cover
    columns: slice  # columns of the canvas that the maps cover
    behind: Int16Array  # (h, w) density of the leaves behind the branches, 0 to 127
    front: Int16Array  # (h, w) density of the leaves in front of the branches, 0 to 127
    lit: Int16Array  # (h, w) brightness from the direction of the light, -30 to 56
    color: Color  # mean color of the leaves
    spread: float  # variation in hue from leaf to leaf
    tile: LeafTile  # tile of single leaves
    twigs: FloatArray  # (K,2,2) px, start and end of the fine twigs from the branches to the leaves

    def paint_behind(self, rng: Rng, canvas: Canvas) -> None:
        """Paint the leaves behind the branches, darker and bluer because they are in the shade."""
        red, green, blue = self.color
        self._paint(rng, canvas, self.behind, (red * 0.72, green * 0.76, blue * 0.78))

    def paint_front(self, rng: Rng, canvas: Canvas) -> None:
        """Paint the leaves in front of the branches."""
        self._paint(rng, canvas, self.front, self.color)

    def cast_shade(self, canvas: Canvas, strength: int) -> None:
        """Darken everything inside the crown by at most `strength` 64ths."""
        weight = self.behind - np.int16(FULL_MASS - 64)
        np.clip(weight, np.int16(0), np.int16(64), out=weight)
        weight *= np.int16(strength)
        weight >>= 6
        canvas.mix(SHADE, weight, self.rows, self.columns)

    def _paint(self, rng: Rng, canvas: Canvas, mass: Int16Array, color: Color) -> None:
        """Paint the leaves whose threshold is below `mass`."""
        height, width = mass.shape
        if height == 0 or width == 0:
            return
        windows = self.tile.windows(rng, (width, height))
        step = max(1, BLOCK_PIXELS // width)
        for start in range(0, height, step):  # blocks of rows fit into the cache
            block = slice(start, start + step)
            threshold, tones, hues = (window[block] for window in windows)
            weight = mass[block] - threshold
            weight <<= 2
            np.clip(weight, np.int16(0), np.int16(62), out=weight)
            tone = self.lit[block] + tones
            np.clip(tone, np.int16(-30), np.int16(60), out=tone)
            tone += np.int16(64)
            hue = self.lit[block] >> 1  # light that passes through leaves is yellower
            hue += hues
            change, hue_change = np.empty_like(tone), np.empty_like(tone)
            for plane, level, hue_share in zip(canvas.planes, color, (1.0, 0.3, 0.0), strict=True):
                np.multiply(tone, np.int16(min(round(level), 255)), out=change)
                change >>= 6
                if hue_share:
                    np.multiply(hue, np.int16(round(self.spread * hue_share * level)), out=hue_change)
                    hue_change >>= 6
                    change += hue_change
                under = plane[self.rows, self.columns][block]
                change -= under
                change *= weight
                change >>= 6
                under += change


def choose_leaves(rng: Rng, broad: bool) -> tuple[Color, float]:
    """Choose the color of the leaves of a plant, and the variation in hue from leaf to leaf."""
    return rng.weighted(LEAVES[:-1] if broad else LEAVES)


def canopy_around(
    rng: Rng,
    canvas: Canvas,
    points: FloatArray,
    fullness: float,
    light: Daylight,
    kind: tuple[Color, float],
    broad: bool,
) -> Canopy:
    """Grow leaves around given points (M,2), M > 0; `fullness` is 0 for single leaves, 1 for a closed crown.

    `kind` is the result of `choose_leaves`; broad leaves are large.
    """
    width, height = canvas.size
    across, down = -(-width // CELL_PX), -(-height // CELL_PX)
    if broad:
        twigs = np.zeros((0, 2, 2))
        mass = _shoot_density(_count_per_cell(points, across, down), fullness)
    else:
        twigs = _twigs(rng, points, canvas.scale, fullness)
        mass = _tuft_density(
            _count_per_cell(points, across, down), _count_per_cell(twigs[:, 1], across, down), fullness
        )
    # Gain from mass to density in 64ths: how sharply a clump closes.
    gain = 64 if broad else int(64 + 110 * fullness)
    behind = _clumps(rng, mass, 1.2, int(12 + 36 * fullness), gain)
    front = _clumps(rng, mass, 1.4, int(30 + 54 * fullness), gain)
    occupied = (behind > 0) | (front > 0)
    rows, columns = (_span(np.any(occupied, axis=axis), side) for axis, side in ((1, height), (0, width)))
    cells = (
        slice(rows.start // CELL_PX, -(-rows.stop // CELL_PX)),
        slice(columns.start // CELL_PX, -(-columns.stop // CELL_PX)),
    )
    size = (columns.stop - columns.start, rows.stop - rows.start)
    (red, green, blue), spread = kind
    level = rng.uniform(0.7, 1.1) * light.level * (0.8 if light.kind == "backlit" else 1.0)
    tint = light.tint
    lit = np.clip(_lighting(mass, light, 4) + _lighting(front, light, 1) + 6, -30, 56)
    maps = [noise.enlarge_gently(values[cells].astype(np.int16), size) for values in (behind, front, lit)]
    return Canopy(
        rows,
        columns,
        maps[0],
        maps[1],
        maps[2],
        (red * level * tint[0], green * level * tint[1], blue * level * tint[2]),
        spread,
        _choose_leaf_tile(rng, canvas.scale, broad),
        twigs,
    )


def _clumps(rng: Rng, mass: noise.Int32Array, strength: float, gap: int, gain: int) -> noise.Int32Array:
    """Break a crown into clumps by noise of a given strength, with gaps where the noisy mass is below `gap`."""
    size = (mass.shape[1], mass.shape[0])
    clumps = noise.window(noise.mottle(), rng, size).astype(np.int32) + (noise.window(noise.rough(), rng, size) >> 1)
    density: noise.Int32Array = mass + ((clumps * np.minimum(mass, 80) * round(64 * strength)) >> 12) - gap
    np.clip((density * gain) >> 6, 0, FULL_MASS, out=density)
    return density


def _lighting(mass: noise.Int32Array, light: Daylight, reach: int) -> noise.Int32Array:
    """Return the light on clumps of about `reach` cells, from above and from the side of the sun."""
    smooth = noise.soft(mass, reach)
    lit: noise.Int32Array = np.zeros_like(mass)
    lit[1:-1] += (smooth[2:] - smooth[:-2]) * (22 + round(10 * light.sun))
    lit[:, 1:-1] += (smooth[:, :-2] - smooth[:, 2:]) * round(light.sun_direction[0] * 30 * (0.3 + light.sun))
    lit *= reach + 2
    lit //= 192
    return lit


def _choose_leaf_tile(rng: Rng, scale: float, broad: bool) -> LeafTile:
    """Choose leaves of a size that fits the image, from a few sizes because making a tile is slow."""
    if broad:
        return leaf_tile(max(1, round(rng.choice((4, 7)) * min(scale, 1.0))), True)
    return leaf_tile(min(3, max(1, round(rng.uniform(0.5, 2.8) * scale))))


def _count_per_cell(points: FloatArray, across: int, down: int) -> noise.Int32Array:
    """Return the (down, across) number of points (M,2) per cell; points outside count in the nearest cell."""
    cell = (points / CELL_PX).astype(np.intp)
    column, row = np.clip(cell[:, 0], 0, across - 1), np.clip(cell[:, 1], 0, down - 1)
    return np.bincount(row * across + column, minlength=across * down).reshape(down, across).astype(np.int32)


def _shoot_density(count: noise.Int32Array, fullness: float) -> noise.Int32Array:
    """Return the density of leaves on shoots, 0 to about 100, the same for one shoot as for several that cross."""
    smooth = noise.soft(np.minimum(count, 2) << 10, 1)
    return np.minimum(smooth * int(110 + 110 * fullness) // 720, 80 + int(30 * fullness))


def _twigs(rng: Rng, points: FloatArray, scale: float, fullness: float) -> FloatArray:
    """Return (K,2,2) twigs too fine for a skeleton, from random points to any distance from them, mostly upwards.

    Their ends carry the leaves of a tree. Leaves on the points themselves would form a sleeve around each limb.
    """
    count = max(1, int(len(points) * (0.35 + 0.95 * fullness)))
    start = points[(rng.array(count) * len(points)).astype(np.intp)]
    offset = np.clip(rng.bell(count, 2) - (0.0, 0.35), -1.8, 1.8) * ((5 + 17 * fullness) * scale)
    return snapped(np.stack([start, start + offset], axis=1))


def _tuft_density(branches: noise.Int32Array, tufts: noise.Int32Array, fullness: float) -> noise.Int32Array:
    """Return the density of leaves in a tree, 0 to about 110, from the branch points and tufts per cell.

    In a full crown, leaves also close the space between the limbs.
    """
    smooth = noise.soft(np.minimum(tufts, 3) << 10, 1 + int(2 * fullness))
    mass = smooth * int(100 + 60 * fullness) // 700
    if fullness > 0.5:
        mass += noise.soft(_enclosed(branches) << 10, 3) * int(120 * fullness - 30) >> 10
    return np.minimum(mass, 80 + int(30 * fullness))


def _enclosed(count: noise.Int32Array) -> noise.Int32Array:
    """Return 1 for cells with points in all four diagonal quadrants around them, and 0 for all others."""
    occupied = count > 0
    inside = np.ones_like(occupied)
    for rows in (1, -1):
        for columns in (1, -1):
            reached = np.logical_or.accumulate(occupied[::rows, ::columns], axis=0)
            inside &= np.logical_or.accumulate(reached, axis=1)[::rows, ::columns]
    return inside.astype(np.int32)


def _span(occupied: NDArray[np.bool_], side: int) -> slice:
    """Return the px from the first to the last occupied cell, with a margin of one cell, inside the image.

    If no cell is occupied, return the first cell.
    """
    cells = np.flatnonzero(occupied)
    if len(cells) == 0:
        return slice(0, min(CELL_PX, side))
    return slice(max(int(cells[0]) - 1, 0) * CELL_PX, min((int(cells[-1]) + 2) * CELL_PX, side))
