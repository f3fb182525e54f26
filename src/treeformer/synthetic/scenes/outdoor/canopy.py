"""Leaves on a tree, each of them whole: a tile of leaves, of which each has its own tone, hue and likelihood.

A leaf shows where the crown is denser than the leaf is unlikely, so that a crown thins out leaf by leaf.
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

CELL_PX = 8
BLOCK_PIXELS = 16384
SHADE: Color = (14, 17, 14)
FULL_MASS = 127
# What leaves look like in white light, how much one differs in hue from the next, and how likely they are.
LEAVES: tuple[tuple[tuple[Color, float], float], ...] = (
    (((78, 96, 44), 0.16), 4.0),
    (((92, 106, 52), 0.2), 2.5),
    (((66, 84, 50), 0.12), 2.0),
    (((104, 108, 56), 0.24), 0.8),  # turning
    (((108, 93, 60), 0.2), 0.6),  # autumn
    (((104, 88, 68), 0.16), 0.4),  # dry
    (((206, 196, 190), 0.12), 0.5),  # in blossom: the last one, and not for vines
)


@dataclass(frozen=True, slots=True)
class LeafTile:
    """(2·TILE, 2·TILE) maps: unlikely 0 to 127, tone and hue -127 to 127 of the leaf seen at each pixel."""

    unlikely: noise.Int8Array
    tone: noise.Int8Array
    hue: noise.Int8Array

    def windows(self, rng: Rng, size: tuple[int, int]) -> tuple[noise.Int8Array, noise.Int8Array, noise.Int8Array]:
        """The same (height, width) part of all three maps at a random place; size is (width, height)."""
        width, height = size
        top, left = rng.whole(0, noise.TILE - 1), rng.whole(0, noise.TILE - 1)
        maps = (self.unlikely, self.tone, self.hue)
        if max(width, height) > noise.TILE:
            repeats = (math.ceil(height / noise.TILE) + 1, math.ceil(width / noise.TILE) + 1)
            maps = tuple(np.tile(one[: noise.TILE, : noise.TILE], repeats) for one in maps)  # type: ignore[assignment]
        unlikely, tone, hue = (one[top : top + height, left : left + width] for one in maps)
        return unlikely, tone, hue


@cache
def leaf_tile(size: int, broad: bool = False) -> LeafTile:
    """Leaves of about 1.3·size + 2 px, pointed or broad."""
    long = 2.2 + 1.3 * size
    count = int(noise.TILE * noise.TILE * 1.8 / (long * long * 0.42))
    rng = Rng(51, size)
    start = rng.array(count, 2, high=noise.TILE)
    angle = rng.array(count, high=2 * math.pi)
    step = np.stack([np.cos(angle), np.sin(angle)], axis=1) * (long * rng.array(count, 1, low=0.6, high=1.25))
    wide = long * rng.array(count, low=0.16, high=0.3) * (1.45 if broad else 1.0)
    near = np.any((start < 2 * long) | (start > noise.TILE - 2 * long), axis=1)
    shifts = [(a, b) for a in (-1, 0, 1) for b in (-1, 0, 1) if (a, b) != (0, 0)]
    leaf = np.concatenate([np.arange(count), *(np.flatnonzero(near) for _ in shifts)])
    moved = np.concatenate([start, *(start[near] + np.asarray(s) * float(noise.TILE) for s in shifts)])
    middle = snapped(moved + 0.45 * step[leaf])
    first, last = snapped(moved), snapped(moved + step[leaf])
    thick, thin = snapped(wide[leaf]), snapped(wide[leaf] * 0.25)
    halves = strokes(
        np.concatenate([first, middle]),
        np.concatenate([middle, last]),
        np.concatenate([thin, thick]),
        np.concatenate([thick, thin]),
    )
    found = rasterize(halves, (noise.TILE, noise.TILE))
    owner = np.tile(leaf, 2)[found.stroke]
    solid = np.flatnonzero(found.coverage > 90)
    order = np.floor(owner[solid] * (1000 / count)).astype(np.int32)
    top = solid[topmost(found.pixel[solid], order)]
    flat = noise.TILE * noise.TILE
    unlikely, tone, hue = (np.full(flat, value, dtype=np.int64) for value in (127, -50, 0))
    side = found.across[top] / np.maximum(found.radius[top], np.float32(0.5))
    lit = np.floor(rng.array(count, low=-20, high=20)).astype(np.int64)
    unlikely[found.pixel[top]] = np.floor(rng.array(count, low=0, high=127)).astype(np.int64)[owner[top]]
    tone[found.pixel[top]] = lit[owner[top]] + np.floor(np.clip(side, -1, 1) * np.float32(8)).astype(np.int64)
    hue[found.pixel[top]] = np.floor(rng.bell(count) * 40).astype(np.int64)[owner[top]]
    return LeafTile(*(_doubled(values) for values in (unlikely, tone, hue)))


def _doubled(values: NDArray[np.int64]) -> noise.Int8Array:
    tile = np.clip(values, -127, 127).astype(np.int8).reshape(noise.TILE, noise.TILE)
    doubled = np.tile(tile, (2, 2))
    doubled.setflags(write=False)
    return doubled


@dataclass(frozen=True, slots=True)
class Canopy:
    """The leaves of a plant in some rows and columns: a closed dark mass behind the branches, lit clumps before them.

    behind, before: (h, w) how dense the leaves are there, 0 to 127. lit: (h, w) how they are lit, -30 to 56.
    spread: how much one leaf differs in hue from the next. twigs: (K,2,2) from the branches to the tufts on them.
    """

    rows: slice
    columns: slice
    behind: Int16Array
    before: Int16Array
    lit: Int16Array
    color: Color
    spread: float
    tile: LeafTile
    twigs: FloatArray

    def paint_behind(self, rng: Rng, canvas: Canvas) -> None:
        """Paint the leaves behind the branches: in the shade of the others, and bluer."""
        red, green, blue = self.color
        self._paint(rng, canvas, self.behind, (red * 0.72, green * 0.76, blue * 0.78))

    def paint_before(self, rng: Rng, canvas: Canvas) -> None:
        """Paint the leaves before the branches."""
        self._paint(rng, canvas, self.before, self.color)

    def shade(self, canvas: Canvas, strength: int) -> None:
        """Darken what lies inside the crown, by up to `strength` 64ths."""
        weight = self.behind - np.int16(FULL_MASS - 64)
        np.clip(weight, np.int16(0), np.int16(64), out=weight)
        weight *= np.int16(strength)
        weight >>= 6
        canvas.mix(SHADE, weight, self.rows, self.columns)

    def _paint(self, rng: Rng, canvas: Canvas, mass: Int16Array, color: Color) -> None:
        height, width = mass.shape
        if height == 0 or width == 0:
            return
        windows = self.tile.windows(rng, (width, height))
        step = max(1, BLOCK_PIXELS // width)
        for begin in range(0, height, step):  # what a block needs stays in the cache
            block = slice(begin, begin + step)
            unlikely, tones, hues = (one[block] for one in windows)
            weight = mass[block] - unlikely
            weight <<= 2
            np.clip(weight, np.int16(0), np.int16(62), out=weight)
            tone = self.lit[block] + tones
            np.clip(tone, np.int16(-30), np.int16(60), out=tone)
            tone += np.int16(64)
            hue = self.lit[block] >> 1  # light through leaves is yellower
            hue += hues
            change, turned = np.empty_like(tone), np.empty_like(tone)
            for plane, level, turn in zip(canvas.planes, color, (1.0, 0.3, 0.0), strict=True):
                np.multiply(tone, np.int16(min(round(level), 255)), out=change)
                change >>= 6
                if turn:
                    np.multiply(hue, np.int16(round(self.spread * turn * level)), out=turned)
                    turned >>= 6
                    change += turned
                under = plane[self.rows, self.columns][block]
                change -= under
                change *= weight
                change >>= 6
                under += change


def leaf_kind(rng: Rng, broad: bool) -> tuple[Color, float]:
    """The color of leaves in white light, and how much one differs in hue from the next; broad: those of a vine."""
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
    """Leaves of a kind around points (M,2), at least one: single ones for a fullness of 0, a closed crown for 1.

    broad: large broad leaves, as of vines.
    """
    width, height = canvas.size
    across, down = -(-width // CELL_PX), -(-height // CELL_PX)
    if broad:
        twigs = np.zeros((0, 2, 2))
        mass = _on_shoots(_counted(points, across, down), fullness)
    else:
        twigs = _twigs(rng, points, canvas.scale, fullness)
        mass = _in_tufts(_counted(points, across, down), _counted(twigs[:, 1], across, down), fullness)
    # How soon a clump closes, in 64ths: never within one leaf.
    crowd = 64 if broad else int(64 + 110 * fullness)
    behind = _clumps(rng, mass, 1.2, int(12 + 36 * fullness), crowd)
    before = _clumps(rng, mass, 1.4, int(30 + 54 * fullness), crowd)
    there = (behind > 0) | (before > 0)
    rows, columns = (_span(np.any(there, axis=axis), side) for axis, side in ((1, height), (0, width)))
    cells = (
        slice(rows.start // CELL_PX, -(-rows.stop // CELL_PX)),
        slice(columns.start // CELL_PX, -(-columns.stop // CELL_PX)),
    )
    size = (columns.stop - columns.start, rows.stop - rows.start)
    (red, green, blue), spread = kind
    level = rng.uniform(0.7, 1.1) * light.level * (0.8 if light.kind == "backlit" else 1.0)
    tint = light.tint
    lit = np.clip(_lit(mass, light, 4) + _lit(before, light, 1) + 6, -30, 56)
    maps = [noise.enlarge_gently(values[cells].astype(np.int16), size) for values in (behind, before, lit)]
    return Canopy(
        rows,
        columns,
        maps[0],
        maps[1],
        maps[2],
        (red * level * tint[0], green * level * tint[1], blue * level * tint[2]),
        spread,
        _leaf_tile_for(rng, canvas.scale, broad),
        twigs,
    )


def _clumps(rng: Rng, mass: noise.Int32Array, strength: float, gap: int, crowd: int) -> noise.Int32Array:
    """A crown broken into clumps: closed where noise (of a strength) adds to the mass, open where that is below gap."""
    size = (mass.shape[1], mass.shape[0])
    clump = noise.window(noise.mottle(), rng, size).astype(np.int32) + (noise.window(noise.rough(), rng, size) >> 1)
    dense: noise.Int32Array = mass + ((clump * np.minimum(mass, 80) * round(64 * strength)) >> 12) - gap
    np.clip((dense * crowd) >> 6, 0, FULL_MASS, out=dense)
    return dense


def _lit(mass: noise.Int32Array, light: Daylight, reach: int) -> noise.Int32Array:
    """How light falls on clumps about `reach` cells large: from above and from the side of the sun."""
    even = noise.soft(mass, reach)
    lit: noise.Int32Array = np.zeros_like(mass)
    lit[1:-1] += (even[2:] - even[:-2]) * (22 + round(10 * light.sun))
    lit[:, 1:-1] += (even[:, :-2] - even[:, 2:]) * round(light.towards[0] * 30 * (0.3 + light.sun))
    lit *= reach + 2
    lit //= 192
    return lit


def _leaf_tile_for(rng: Rng, scale: float, broad: bool) -> LeafTile:
    """Leaves of a size that fits the image: one of a few, because making a tile takes a while."""
    if broad:
        return leaf_tile(max(1, round(rng.choice((4, 7)) * min(scale, 1.0))), True)
    return leaf_tile(min(3, max(1, round(rng.uniform(0.5, 2.8) * scale))))


def _counted(points: FloatArray, across: int, down: int) -> noise.Int32Array:
    """(down, across) how many points (M,2) are in each cell, those outside in the nearest one."""
    place = (points / CELL_PX).astype(np.intp)
    column, row = np.clip(place[:, 0], 0, across - 1), np.clip(place[:, 1], 0, down - 1)
    return np.bincount(row * across + column, minlength=across * down).reshape(down, across).astype(np.int32)


def _on_shoots(count: noise.Int32Array, fullness: float) -> noise.Int32Array:
    """How dense leaves are on shoots: as many on one alone as where several cross, 0 to about 100."""
    near = noise.soft(np.minimum(count, 2) << 10, 1)
    return np.minimum(near * int(110 + 110 * fullness) // 720, 80 + int(30 * fullness))


def _twigs(rng: Rng, points: FloatArray, scale: float, fullness: float) -> FloatArray:
    """(K,2,2) twigs too fine for a skeleton, from some of the points to any distance off them, rather up than down.

    Their ends carry the leaves of a tree: were these on the points, each limb would wear a sleeve.
    """
    number = max(1, int(len(points) * (0.35 + 0.95 * fullness)))
    start = points[(rng.array(number) * len(points)).astype(np.intp)]
    off = np.clip(rng.bell(number, 2) - (0.0, 0.35), -1.8, 1.8) * ((5 + 17 * fullness) * scale)
    return snapped(np.stack([start, start + off], axis=1))


def _in_tufts(branches: noise.Int32Array, tufts: noise.Int32Array, fullness: float) -> noise.Int32Array:
    """How dense leaves are in a tree, 0 to about 110, from the points of its branches and its tufts in each cell.

    In a full crown leaves close the room between the limbs too.
    """
    near = noise.soft(np.minimum(tufts, 3) << 10, 1 + int(2 * fullness))
    mass = near * int(100 + 60 * fullness) // 700
    if fullness > 0.5:
        mass += noise.soft(_between(branches) << 10, 3) * int(120 * fullness - 30) >> 10
    return np.minimum(mass, 80 + int(30 * fullness))


def _between(count: noise.Int32Array) -> noise.Int32Array:
    """1 in the cells that have points in all four directions between left, right, up and down, 0 in all others."""
    there = count > 0
    inside = np.ones_like(there)
    for rows in (1, -1):
        for columns in (1, -1):
            seen = np.logical_or.accumulate(there[::rows, ::columns], axis=0)
            inside &= np.logical_or.accumulate(seen, axis=1)[::rows, ::columns]
    return inside.astype(np.int32)


def _span(there: NDArray[np.bool_], side: int) -> slice:
    """The px from the first to the last cell that has something and one more either way, inside an image.

    The first cell where none has.
    """
    places = np.flatnonzero(there)
    if len(places) == 0:
        return slice(0, min(CELL_PX, side))
    return slice(max(int(places[0]) - 1, 0) * CELL_PX, min((int(places[-1]) + 2) * CELL_PX, side))
