"""Textures: noise tiles, computed once per process from fixed seeds, and smooth enlargement of small maps.

Tiles are periodic, so a window can be cut out at any position. Means and standard deviations are computed with
integers, because the order in which a library sums floats may differ.
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
SPREAD = 32  # standard deviation of every tile, gray levels

Int8Array = NDArray[np.int8]
Int32Array = NDArray[np.int32]
Tile = Callable[[], Int8Array]  # type of the functions below that return a tile


def window(tile: Int8Array, rng: Rng, size: tuple[int, int]) -> Int8Array:
    """Cut a window out of a (2, 2·TILE, 2·TILE) tile at a random position, mirrored; a read-only view if it fits."""
    width, height = size
    tile = tile[rng.whole(0, 1)]
    if max(width, height) > TILE:
        repeats = (math.ceil(height / TILE) + 1, math.ceil(width / TILE) + 1)
        tile = np.tile(tile[:TILE, :TILE], repeats)
    top, left = rng.whole(0, TILE - 1), rng.whole(0, TILE - 1)
    return tile[top : top + height, left : left + width]


def enlarge(small: Int16Array, size: tuple[int, int], rows: slice = slice(None)) -> Int16Array:
    """Enlarge a small map (h, w), values from -255 to 255, smoothly to the size of an image; return the chosen rows.

    Quadratic B-splines have no creases and do not exceed the range of the map's values.
    """
    return _stretch_rows(stretch(small, size[0]), np.arange(*rows.indices(size[1])), size[1])


def stretch(knots: Int16Array, side: int) -> Int16Array:
    """Stretch rows of a few values (N, K) from -255 to 255 into smooth curves (N, side); see `enlarge`."""
    middle, before, after = _spline(np.arange(side), knots.shape[1], side)
    change = np.diff(knots, axis=1, append=knots[:, -1:]).take(middle, axis=1)  # take() returns contiguous rows
    change *= after
    change -= np.diff(knots, axis=1, prepend=knots[:, :1]).take(middle, axis=1) * before
    change >>= 6
    change += knots.take(middle, axis=1)
    return change


def _spline(positions: NDArray[np.intp], count: int, side: int) -> tuple[NDArray[np.intp], Int16Array, Int16Array]:
    """Return the spline weights at positions (P,) on a line of length `side` that is stretched from `count` values.

    These are the index of the nearest value, and the weights of the value before and after it in 64ths, (P,) each.
    """
    at = (positions.astype(np.float32) + np.float32(0.5)) * np.float32(count / side)
    middle = np.minimum(at.astype(np.intp), count - 1)
    f = at - middle.astype(np.float32)
    before: Int16Array = (32 * (1 - f) * (1 - f) + np.float32(0.5)).astype(np.int16)
    after: Int16Array = (32 * f * f + np.float32(0.5)).astype(np.int16)
    return middle, before, after


def _stretch_rows(small: Int16Array, rows: NDArray[np.intp], side: int) -> Int16Array:
    """Return the given rows of a map whose number of rows is stretched to `side`."""
    middle, before, after = _spline(rows, len(small), side)
    from_before = np.diff(small, axis=0, prepend=small[:1])  # difference to the row before
    to_after = np.diff(small, axis=0, append=small[-1:])
    stretched = np.empty((len(rows), small.shape[1]), dtype=np.int16)
    # Process blocks of rows that fit into the cache.
    step = max(1, BLOCK_PIXELS // small.shape[1])
    for begin in range(0, len(rows), step):
        block = slice(begin, begin + step)
        change = to_after[middle[block]]
        change *= after[block, None]
        change_before = from_before[middle[block]]
        change_before *= before[block, None]
        change -= change_before
        change >>= 6
        np.add(small[middle[block]], change, out=stretched[block])
    return stretched


def enlarge_gently(small: Int16Array, size: tuple[int, int]) -> Int16Array:
    """Enlarge a map in steps of two pixels, at a third of the cost of `enlarge`.

    The map must be so smooth that the steps are not visible.
    """
    width, height = (math.ceil(side / 2) for side in size)
    half = enlarge(small, (width, height)).view(np.uint16)
    # Two copies of the same 16 bits side by side form one 32-bit number.
    twice = (half.astype(np.uint32) * np.uint32(0x10001)).view(np.int16)
    return np.repeat(twice, 2, axis=0)[: size[1], : size[0]]


def soft_map(rng: Rng, cells: tuple[int, int], size: tuple[int, int], low: float, high: float) -> Int16Array:
    """Draw a smooth random map from (across, down) cells, with values from `low` to `high`, at most 255."""
    return enlarge_gently(np.floor(rng.array(cells[1], cells[0], low=low, high=high)).astype(np.int16), size)


def to_tile(values: Int32Array) -> Int8Array:
    """Scale periodic noise (TILE, TILE) to mean 0 and standard deviation `SPREAD`, repeat it and add its mirror image.

    The tile is (2, 2·TILE, 2·TILE), read-only. The mirror image is stored because reading memory backwards is six times
    slower. Eight bits are enough, and they reduce the memory traffic, which limits many cores that read large tiles.
    """
    centered = (values - int(values.sum()) // values.size).astype(np.int64)
    deviation = max(1, math.isqrt(int((centered * centered).sum()) * 256 // centered.size))  # in 16ths
    tile = np.clip(centered * (16 * SPREAD) // deviation, -127, 127).astype(np.int8)
    doubled = np.tile(np.stack([tile, tile[:, ::-1]]), (1, 2, 2))
    doubled.setflags(write=False)
    return doubled


def _white(seed: int, levels: int = 1 << 12) -> Int32Array:
    """Return white noise (TILE, TILE) of mean 4 × levels and standard deviation `levels`."""
    return np.floor((Rng(seed).bell(TILE, TILE) + 4) * levels).astype(np.int32)


def _smooth(values: Int32Array, times: int, axes: tuple[int, ...] = (0, 1)) -> Int32Array:
    """Smooth periodic values with the weights 1 2 1."""
    for _ in range(times):
        for axis in axes:
            values = (np.roll(values, 1, axis) + 2 * values + np.roll(values, -1, axis)) >> 2
    return values


def octave_noise(seed: int, coarsest: int, finest: int, steepness: float, wide: int = 1) -> Int32Array:
    """Return the sum of noise of several cell sizes, each half the size of the one before, (TILE, TILE).

    Each halving reduces the amplitude by 2**-steepness. Sizes are heights; cells are `wide` times as wide.
    """
    total = np.zeros((TILE, TILE), dtype=np.int32)
    cell, amplitude = coarsest, 4096.0
    while cell >= finest:
        across = min(cell * wide, TILE)
        lattice = Rng(seed, cell).array(TILE // cell, TILE // across, low=-amplitude, high=amplitude)
        layer = np.floor(lattice).astype(np.int32).repeat(cell, axis=0).repeat(across, axis=1)
        for _ in range(2):
            layer = box_blur(layer, (cell // 2, across // 2))
        total += np.roll(
            layer, (cell // 3, across // 3), (0, 1)
        )  # shifted, so that the cell borders of different sizes do not coincide
        cell //= 2
        amplitude /= 2**steepness
    return total


def box_blur(values: Int32Array, reaches: tuple[int, int]) -> Int32Array:
    """Return the mean of periodic values over a rectangle with the sides 2·reach + 1; `reaches` are (down, across)."""
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
    """Return white noise, like that of a sensor."""
    return to_tile(_white(1))


@cache
def mottle() -> Int8Array:
    """Return grains of 2 to 6 px, like paper."""
    fine = _smooth(_white(2), 2)
    return to_tile(fine - _smooth(fine, 12))


@cache
def rough() -> Int8Array:
    """Return noise of all sizes, the fine as strong as the coarse: soil, bark, concrete."""
    return to_tile(octave_noise(3, 64, 1, 0.35))


@cache
def clouds() -> Int8Array:
    """Return noise of all sizes, the coarse much stronger: clouds, stains, damp."""
    return to_tile(octave_noise(4, 256, 2, 0.85))


@cache
def folds() -> Int8Array:
    """Return long uneven vertical folds of a hanging sheet."""
    return to_tile(np.ascontiguousarray(octave_noise(81, 64, 8, 0.9, wide=8).T))


@cache
def cirrus() -> Int8Array:
    """Return clouds stretched sideways: high clouds, worn bands of ground seen from the side."""
    return to_tile(octave_noise(10, 64, 2, 0.6, wide=8))


@cache
def streaks() -> Int8Array:
    """Return fine vertical streaks: grass, wood grain."""
    return to_tile(_smooth(_smooth(_white(5), 1), 40, axes=(0,)))


@cache
def weave() -> Int8Array:
    """Return the interwoven threads of a cloth."""
    row, column = np.arange(TILE)[:, None], np.arange(TILE)[None, :]
    thread = np.where((row // 2 + column // 2) % 2 == 0, 3000, -3000) * (1 + (row + column) % 2)
    return to_tile((thread + (_smooth(_white(6), 1) >> 1)).astype(np.int32))


@cache
def fibers() -> Int8Array:
    """Return short threads, light and dark, in all directions: filter paper, felt."""
    return _scattered(7, count=9000, length=(4.0, 14.0), radius=(0.2, 0.45), flat=True)


@cache
def leaves() -> Int8Array:
    """Return overlapping small leaves, light on dark: a canopy."""
    return _scattered(8, count=15000, length=(4.0, 10.0), radius=(1.0, 2.6), flat=False)


@cache
def foliage() -> Int8Array:
    """Return the small leaves of a distant tree, in tufts lit from above."""
    return _scattered(11, count=26000, length=(1.5, 4.5), radius=(0.6, 1.5), flat=False, tufts=True)


@cache
def meadow() -> Int8Array:
    """Return grass seen along the ground, (2, TILE, 2·TILE): fine in the far rows at the top, coarse below."""
    near = np.arange(TILE, dtype=np.int32)[:, None]
    grass = _smooth(_white(12) - (4 << 12), 1, axes=(1,)) >> 2
    grass += (octave_noise(13, 4, 2, 0.5, wide=2) * np.minimum(near + 40, 160)) >> 7
    grass += (octave_noise(14, 32, 8, 0.5, wide=4) * np.minimum(near, 200)) >> 8
    grass += (_smooth(_white(15) - (4 << 12), 8, axes=(0,)) * np.minimum(near, 240)) >> 8  # blades
    tile = np.clip(grass * SPREAD >> 12, -127, 127).astype(np.int8)
    both = np.tile(np.stack([tile, tile[:, ::-1]]), (1, 1, 2))
    both.setflags(write=False)
    return both


def meadow_window(rng: Rng, size: tuple[int, int]) -> Int8Array:
    """Cut a window out of `meadow`, from its far edge down."""
    width, height = size
    tile = meadow()[rng.whole(0, 1)]
    if max(width, height) > TILE:  # enlarge the tile for a larger image
        times = math.ceil(max(width, height) / TILE)
        tile = tile.repeat(times, axis=0).repeat(times, axis=1)
    left = rng.whole(0, TILE - 1)
    view: Int8Array = tile[:height, left : left + width]
    return view


@cache
def gravel() -> Int8Array:
    """Return crumbs and pebbles of 2 to 10 px."""
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
    """Return a tile of strokes of random position, direction and brightness.

    Flat strokes are plain; others are thick in the middle and shaded. In tufts, strokes are darker that lie deeper or
    in the lower part.
    """
    rng = Rng(seed)
    angle = rng.array(count, high=2 * math.pi)
    lengths = rng.array(count, low=length[0], high=length[1])
    radii = rng.array(count, low=radius[0], high=radius[1])
    start = rng.array(count, 2, high=TILE)
    step = np.stack([np.cos(angle), np.sin(angle)], axis=1) * lengths[:, None]
    bright = np.floor(rng.array(count, low=-3000, high=3000))
    if tufts:
        clump = np.roll(octave_noise(seed, 32, 8, 0.3), 3, axis=0) - octave_noise(seed, 32, 8, 0.3)
        at = start.astype(np.intp) % TILE
        bright = np.floor(bright * 0.6) - clump[at[:, 1], at[:, 0]] + np.linspace(-2500, 1200, count).astype(np.int64)
    # Every stroke is drawn nine times, one tile apart, to make the tile periodic.
    shift = np.stack(np.meshgrid((-TILE, 0, TILE), (-TILE, 0, TILE)), axis=-1).reshape(9, 1, 2)
    start = np.floor((start + shift).reshape(-1, 2) * 64) / 64
    step = np.floor(np.tile(step, (9, 1)) * 64) / 64
    radii, bright = np.tile(np.floor(radii * 64) / 64, 9), np.tile(bright, 9)
    halves = [(start, start + step / 2, radii * 0.3, radii), (start + step / 2, start + step, radii, radii * 0.2)]
    canvas: Int16Array = np.zeros((1, TILE, TILE), dtype=np.int16)
    for a, b, r0, r1 in halves if not flat else [(start, start + step, radii, radii)]:
        fragments = rasterize(strokes(a, b, r0, r1), (TILE, TILE))
        top = fragments.take(topmost(fragments.pixel, fragments.stroke % count))
        shade = np.float32(0) if flat else np.float32(900) * top.across / np.maximum(top.radius, np.float32(0.5))
        blend(canvas, top.pixel, top.coverage, (bright[top.stroke] - shade)[None].astype(np.int32))
    return to_tile(canvas[0].astype(np.int32) * 4 + (_smooth(_white(seed + 100), 1) >> 3))


def soft(values: Int32Array, times: int) -> Int32Array:
    """Smooth values with the weights 1 2 1 along both axes; values outside the array count as 0."""
    for _ in range(times):
        for _ in range(2):
            sums = values * 2
            sums[1:] += values[:-1]
            sums[:-1] += values[1:]
            values = (sums >> 2).T
    return values
