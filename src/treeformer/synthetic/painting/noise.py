"""Textures: a few noise tiles, made once a process from fixed seeds, and a smooth enlargement of small maps.

Tiles are periodic, so that any window of one can be cut out. Means and spreads are worked out in whole numbers,
because a library may add up floats in any order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

from treeformer.synthetic.painting.raster import Int16Array, blend, rasterize, strokes, topmost
from treeformer.synthetic.rng import Rng

TILE = 512
BLOCK_PIXELS = 32768
SPREAD = 32  # standard deviation of every tile, in gray levels

Int8Array = NDArray[np.int8]
Int32Array = NDArray[np.int32]
Tile = Callable[[], Int8Array]  # one of the functions below that make a tile


def window(tile: Int8Array, rng: Rng, size: tuple[int, int]) -> Int8Array:
    """A (height, width) view of a tile at a random place, mirrored at random; size is (width, height)."""
    width, height = size
    tile = tile[rng.whole(0, 1)]
    if max(width, height) > TILE:
        repeats = (math.ceil(height / TILE) + 1, math.ceil(width / TILE) + 1)
        tile = np.tile(tile[:TILE, :TILE], repeats)
    top, left = rng.whole(0, TILE - 1), rng.whole(0, TILE - 1)
    return tile[top : top + height, left : left + width]


def enlarge(small: Int16Array, size: tuple[int, int], rows: slice = slice(None)) -> Int16Array:
    """Spread a small map (h, w) of values from -255 to 255 smoothly over a (width, height) image; some rows of it.

    Quadratic B-splines: no creases, and never beyond the range of the map's own values.
    """
    return _spread(stretch(small, size[0]), np.arange(*rows.indices(size[1])), size[1])


def stretch(knots: Int16Array, side: int) -> Int16Array:
    """Curves (N, side) through a few values each (N, K), as smooth as `enlarge`."""
    middle, before, after = _spline(np.arange(side), knots.shape[1], side)
    change = np.diff(knots, axis=1, append=knots[:, -1:]).take(middle, axis=1)  # rows lie in one piece after a take
    change *= after
    change -= np.diff(knots, axis=1, prepend=knots[:, :1]).take(middle, axis=1) * before
    change >>= 6
    change += knots.take(middle, axis=1)
    return change


def _spline(places: NDArray[np.intp], count: int, side: int) -> tuple[NDArray[np.intp], Int16Array, Int16Array]:
    """At places on a line of `side` stretched from `count`: the nearest value, and the shares of both neighbors.

    The shares in 64ths.
    """
    at = (places.astype(np.float32) + np.float32(0.5)) * np.float32(count / side)
    middle = np.minimum(at.astype(np.intp), count - 1)
    f = at - middle.astype(np.float32)
    before: Int16Array = (32 * (1 - f) * (1 - f) + np.float32(0.5)).astype(np.int16)
    after: Int16Array = (32 * f * f + np.float32(0.5)).astype(np.int16)
    return middle, before, after


def _spread(small: Int16Array, places: NDArray[np.intp], side: int) -> Int16Array:
    """The rows at `places` of a map stretched from its number of rows to `side`."""
    middle, before, after = _spline(places, len(small), side)
    to_before = np.diff(small, axis=0, prepend=small[:1])  # a row less the one before it
    to_after = np.diff(small, axis=0, append=small[-1:])
    stretched = np.empty((len(places), small.shape[1]), dtype=np.int16)
    # In blocks of rows that stay in the cache.
    step = max(1, BLOCK_PIXELS // small.shape[1])
    for begin in range(0, len(places), step):
        block = slice(begin, begin + step)
        change = to_after[middle[block]]
        change *= after[block, None]
        other = to_before[middle[block]]
        other *= before[block, None]
        change -= other
        change >>= 6
        np.add(small[middle[block]], change, out=stretched[block])
    return stretched


def enlarge_gently(small: Int16Array, size: tuple[int, int]) -> Int16Array:
    """As `enlarge`, in steps of two pixels: for maps so even that no step shows, at a third of the cost."""
    width, height = (math.ceil(side / 2) for side in size)
    half = enlarge(small, (width, height)).view(np.uint16)
    # Twice the same 16 bits side by side is one number of 32.
    twice = (half.astype(np.uint32) * np.uint32(0x10001)).view(np.int16)
    return np.repeat(twice, 2, axis=0)[: size[1], : size[0]]


def soft_map(rng: Rng, cells: tuple[int, int], size: tuple[int, int], low: float, high: float) -> Int16Array:
    """A smooth random (height, width) map with values from low to high, at most 255; cells is (across, down)."""
    return enlarge_gently(np.floor(rng.array(cells[1], cells[0], low=low, high=high)).astype(np.int16), size)


def _finished(values: Int32Array) -> Int8Array:
    """Scaled to mean 0 and the common spread, doubled in both directions for windows, and mirrored; read-only.

    (2, 2·TILE, 2·TILE): as it is and mirrored, because memory read backwards is six times slower. Eight bits, because
    many cores that read large tiles wait for memory, not for the step to sixteen bits.
    """
    centerd = (values - int(values.sum()) // values.size).astype(np.int64)
    spread = max(1, math.isqrt(int((centerd * centerd).sum()) * 256 // centerd.size))  # in 16ths
    tile = np.clip(centerd * (16 * SPREAD) // spread, -127, 127).astype(np.int8)
    doubled = np.tile(np.stack([tile, tile[:, ::-1]]), (1, 2, 2))
    doubled.setflags(write=False)
    return doubled


def _white(seed: int, levels: int = 1 << 12) -> Int32Array:
    return np.floor((Rng(seed).bell(TILE, TILE) + 4) * levels).astype(np.int32)


def _smooth(values: Int32Array, times: int, axes: tuple[int, ...] = (0, 1)) -> Int32Array:
    for _ in range(times):
        for axis in axes:
            values = (np.roll(values, 1, axis) + 2 * values + np.roll(values, -1, axis)) >> 2
    return values


def _octaves(seed: int, coarsest: int, finest: int, steepness: float, wide: int = 1) -> Int32Array:
    """Noise of many sizes: cells of `coarsest` px down to `finest`, each halving weaker by 2**-steepness.

    wide: how many times wider than high the cells are.
    """
    total = np.zeros((TILE, TILE), dtype=np.int32)
    cell, amplitude = coarsest, 4096.0
    while cell >= finest:
        across = min(cell * wide, TILE)
        lattice = Rng(seed, cell).array(TILE // cell, TILE // across, low=-amplitude, high=amplitude)
        layer = np.floor(lattice).astype(np.int32).repeat(cell, axis=0).repeat(across, axis=1)
        for _ in range(2):
            layer = _box(layer, (cell // 2, across // 2))
        total += np.roll(layer, (cell // 3, across // 3), (0, 1))  # else all steps between cells would meet
        cell //= 2
        amplitude /= 2**steepness
    return total


def _box(values: Int32Array, reaches: tuple[int, int]) -> Int32Array:
    """The mean over a rectangle of 2·reach + 1 either way, periodic."""
    for axis, reach in enumerate(reaches):
        if reach == 0:
            continue
        padding = [(0, 0), (0, 0)]
        padding[axis] = (reach + 1, reach)
        sums = np.cumsum(np.pad(values, padding, mode="wrap").astype(np.int64), axis=axis)
        ahead, behind = [slice(None)] * 2, [slice(None)] * 2
        ahead[axis], behind[axis] = slice(2 * reach + 1, None), slice(None, -(2 * reach + 1))
        values = ((sums[tuple(ahead)] - sums[tuple(behind)]) // (2 * reach + 1)).astype(np.int32)
    return values


@cache
def grain() -> Int8Array:
    """White noise: a sensor's."""
    return _finished(_white(1))


@cache
def mottle() -> Int8Array:
    """Grains of 2 to 6 px: paper."""
    fine = _smooth(_white(2), 2)
    return _finished(fine - _smooth(fine, 12))


@cache
def rough() -> Int8Array:
    """All sizes, the fine as strong as the coarse: soil, bark, concrete."""
    return _finished(_octaves(3, 64, 1, 0.35))


@cache
def clouds() -> Int8Array:
    """All sizes, the coarse far stronger: clouds, stains, damp."""
    return _finished(_octaves(4, 256, 2, 0.85))


@cache
def folds() -> Int8Array:
    """Soft folds of a sheet that hang down, long and uneven."""
    return _finished(np.ascontiguousarray(_octaves(81, 64, 8, 0.9, wide=8).T))


@cache
def cirrus() -> Int8Array:
    """As clouds, but drawn out sideways: high clouds, worn bands of ground seen from the side."""
    return _finished(_octaves(10, 64, 2, 0.6, wide=8))


@cache
def streaks() -> Int8Array:
    """Fine upright streaks: grass, wood grain."""
    return _finished(_smooth(_smooth(_white(5), 1), 40, axes=(0,)))


@cache
def weave() -> Int8Array:
    """A cloth's threads, over and under."""
    row, column = np.arange(TILE)[:, None], np.arange(TILE)[None, :]
    thread = np.where((row // 2 + column // 2) % 2 == 0, 3000, -3000) * (1 + (row + column) % 2)
    return _finished((thread + (_smooth(_white(6), 1) >> 1)).astype(np.int32))


@cache
def fibers() -> Int8Array:
    """Short threads, light and dark, lying about: filter paper, felt."""
    return _scattered(7, count=9000, length=(4.0, 14.0), radius=(0.2, 0.45), flat=True)


@cache
def leaves() -> Int8Array:
    """Overlapping small leaves, light on dark: a canopy."""
    return _scattered(8, count=15000, length=(4.0, 10.0), radius=(1.0, 2.6), flat=False)


@cache
def foliage() -> Int8Array:
    """Small leaves of a tree some way off, in tufts that are lit from above."""
    return _scattered(11, count=26000, length=(1.5, 4.5), radius=(0.6, 1.5), flat=False, tufts=True)


@cache
def meadow() -> Int8Array:
    """(2, TILE, 2·TILE) grass seen along the ground: fine in the far rows at the top, coarse in the near ones."""
    near = np.arange(TILE, dtype=np.int32)[:, None]
    seen = _smooth(_white(12) - (4 << 12), 1, axes=(1,)) >> 2
    seen += (_octaves(13, 4, 2, 0.5, wide=2) * np.minimum(near + 40, 160)) >> 7
    seen += (_octaves(14, 32, 8, 0.5, wide=4) * np.minimum(near, 200)) >> 8
    seen += (_smooth(_white(15) - (4 << 12), 8, axes=(0,)) * np.minimum(near, 240)) >> 8  # blades
    tile = np.clip(seen * SPREAD >> 12, -127, 127).astype(np.int8)
    both = np.tile(np.stack([tile, tile[:, ::-1]]), (1, 1, 2))
    both.setflags(write=False)
    return both


def meadow_window(rng: Rng, size: tuple[int, int]) -> Int8Array:
    """A (height, width) view of the meadow, from its far edge down; size is (width, height)."""
    width, height = size
    tile = meadow()[rng.whole(0, 1)]
    if max(width, height) > TILE:  # a larger image shows it larger
        times = math.ceil(max(width, height) / TILE)
        tile = tile.repeat(times, axis=0).repeat(times, axis=1)
    left = rng.whole(0, TILE - 1)
    seen: Int8Array = tile[:height, left : left + width]
    return seen


@cache
def gravel() -> Int8Array:
    """Crumbs and pebbles of 2 to 10 px."""
    return _scattered(9, count=15000, length=(0.5, 4.0), radius=(0.7, 3.2), flat=False)


def _scattered(
    seed: int,
    *,
    count: int,
    length: tuple[float, float],
    radius: tuple[float, float],
    flat: bool,
    tufts: bool = False,
) -> Int8Array:
    """Strokes of random place, direction and brightness; unless flat, thick in the middle and shaded.

    tufts: the strokes that lie deeper are darker, and so are those in the lower part of a tuft.
    """
    rng = Rng(seed)
    angle = rng.array(count, high=2 * math.pi)
    reach = rng.array(count, low=length[0], high=length[1])
    thick = rng.array(count, low=radius[0], high=radius[1])
    start = rng.array(count, 2, high=TILE)
    step = np.stack([np.cos(angle), np.sin(angle)], axis=1) * reach[:, None]
    bright = np.floor(rng.array(count, low=-3000, high=3000))
    if tufts:
        clump = np.roll(_octaves(seed, 32, 8, 0.3), 3, axis=0) - _octaves(seed, 32, 8, 0.3)
        at = start.astype(np.intp) % TILE
        bright = np.floor(bright * 0.6) - clump[at[:, 1], at[:, 0]] + np.linspace(-2500, 1200, count).astype(np.int64)
    # Every stroke is drawn nine times, one tile apart, so that what leaves on one side comes in on the other.
    shift = np.stack(np.meshgrid((-TILE, 0, TILE), (-TILE, 0, TILE)), axis=-1).reshape(9, 1, 2)
    start = np.floor((start + shift).reshape(-1, 2) * 64) / 64
    step = np.floor(np.tile(step, (9, 1)) * 64) / 64
    thick, bright = np.tile(np.floor(thick * 64) / 64, 9), np.tile(bright, 9)
    halves = [(start, start + step / 2, thick * 0.3, thick), (start + step / 2, start + step, thick, thick * 0.2)]
    canvas: Int16Array = np.zeros((1, TILE, TILE), dtype=np.int16)
    for a, b, r0, r1 in halves if not flat else [(start, start + step, thick, thick)]:
        found = rasterize(strokes(a, b, r0, r1), (TILE, TILE))
        top = found.take(topmost(found.pixel, found.stroke % count))
        shade = np.float32(0) if flat else np.float32(900) * top.across / np.maximum(top.radius, np.float32(0.5))
        blend(canvas, top.pixel, top.coverage, (bright[top.stroke] - shade)[None].astype(np.int32))
    return _finished(canvas[0].astype(np.int32) * 4 + (_smooth(_white(seed + 100), 1) >> 3))


def soft(values: Int32Array, times: int) -> Int32Array:
    """Smoothed with the weights 1 2 1 along both axes; nothing lies outside."""
    for _ in range(times):
        for _ in range(2):
            sums = values * 2
            sums[1:] += values[:-1]
            sums[:-1] += values[1:]
            values = (sums >> 2).T
    return values
