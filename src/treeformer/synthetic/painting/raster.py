"""Tapered, antialiased strokes: all of an image's strokes become pixels in one pass of array arithmetic.

Only exactly rounded operations (+ - × ÷ √, comparisons, whole numbers) touch the pixels, in a fixed order, so that
every machine draws the same image.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from treeformer._util.arrays import Float32Array

Int16Array = NDArray[np.int16]
IndexArray = NDArray[np.int32]

# Coverage is kept in 256ths: fine enough for eight-bit images, and whole numbers sort fast.
FULL = 256
HALF = np.float32(0.5)
# Strokes are grouped by the number of pixels across them: the groups' upper limits, none for the last.
RUN_LENGTHS = (6, 12, 30)
LONGEST_SLANT = np.float32(2 * 2**0.5)


@dataclass(frozen=True, slots=True)
class Strokes:
    """Straight strokes with round ends; equal ends make a dot. All (S,) or (S,2) float32 arrays, px.

    softness: the width of the edge over which a stroke fades; 1 is a sharp edge, more is out of focus.
    cap: (S,2) how much of the round ends at start and end may be needed, 0 to 1; less where another stroke goes on.
    """

    start: Float32Array
    end: Float32Array
    start_radius: Float32Array
    end_radius: Float32Array
    softness: Float32Array
    cap: Float32Array

    def __len__(self) -> int:
        return len(self.start)


def strokes(
    start: ArrayLike,
    end: ArrayLike,
    start_radius: ArrayLike,
    end_radius: ArrayLike,
    softness: ArrayLike = 1.0,
    cap: ArrayLike = 1.0,
) -> Strokes:
    """Strokes from anything array-like; radii and softness are one number for all or one for each, caps too."""
    first = np.asarray(start, dtype=np.float32).reshape(-1, 2)
    last = np.asarray(end, dtype=np.float32).reshape(-1, 2)

    def each(value: ArrayLike) -> Float32Array:
        return np.ascontiguousarray(np.broadcast_to(np.asarray(value, dtype=np.float32), (len(first),)))

    caps = np.empty((len(first), 2), dtype=np.float32)
    caps[:] = cap
    return Strokes(first, last, each(start_radius), each(end_radius), each(softness), caps)


class Fragments(NamedTuple):
    """The pixels that strokes touch, one entry for each stroke and pixel.

    pixel: flat index, row × width + column. coverage: 1 to 256 (`FULL`). stroke: which one.
    across: px from the center line, positive on the left of the direction of drawing. along: px from the start.
    radius: of the stroke at that place, px.
    """

    pixel: IndexArray
    coverage: Int16Array
    stroke: IndexArray
    across: Float32Array
    along: Float32Array
    radius: Float32Array

    def take(self, index: NDArray[np.intp]) -> Fragments:
        """Some of the fragments, by index."""
        return Fragments(
            self.pixel[index],
            self.coverage[index],
            self.stroke[index],
            self.across[index],
            self.along[index],
            self.radius[index],
        )


_NO_FRAGMENTS = Fragments(
    np.zeros(0, np.int32), np.zeros(0, np.int16), np.zeros(0, np.int32), *(np.zeros(0, np.float32) for _ in range(3))
)


def rasterize(drawn: Strokes, size: tuple[int, int]) -> Fragments:
    """The fragments of all strokes in a (width, height) image.

    Each stroke is scanned along its longer axis p; every line of pixels across it is a short run along q. Runs of
    about the same length are worked on together, as the columns of one array with a row a pixel of the run.

    A pixel's coverage falls linearly from the inside of the edge to its outside, by its center's distance d from the
    center line: (radius - d) / edge + 1/2, from 0 to 1. The edge is `softness` px wide along q. A stroke thinner than
    its edge is drawn as wide as that, but fainter, by 2·radius / edge. So in every run the ink adds up to the stroke's
    width there, and its center of mass lies on the line; it would not if a thin line lit up one row of pixels and
    then the next.
    """
    reach = np.maximum(np.maximum(drawn.start_radius, drawn.end_radius), HALF * drawn.softness) + HALF * drawn.softness
    group = np.searchsorted(RUN_LENGTHS, LONGEST_SLANT * reach)
    order = np.argsort(group, kind="stable")
    group, reach = group[order], reach[order]
    start, step = drawn.start[order], drawn.end[order] - drawn.start[order]
    steep = np.abs(step[:, 1]) > np.abs(step[:, 0])
    p0, q0 = np.where(steep, start[:, 1], start[:, 0]), np.where(steep, start[:, 0], start[:, 1])
    dp, dq = np.where(steep, step[:, 1], step[:, 0]), np.where(steep, step[:, 0], step[:, 1])
    length = np.sqrt(dp * dp + dq * dq)
    is_dot = length == 0
    safe_length = np.where(is_dot, np.float32(1), length)
    along_p = np.where(is_dot, np.float32(1), dp / safe_length)  # the direction of drawing
    along_q = np.divide(dq, safe_length, dtype=np.float32)
    slope = np.divide(dq, np.where(is_dot, np.float32(1), dp), dtype=np.float32)
    low_p, high_p = np.minimum(p0, p0 + dp), np.maximum(p0, p0 + dp)
    width, height = size
    # How far beyond its ends a stroke is scanned: to the corners of its flat end, and what is needed of the cap.
    cap = np.where((dp < 0)[:, None], drawn.cap[order][:, ::-1], drawn.cap[order])
    beyond = np.minimum(reach * (np.abs(along_q) + cap.T * np.abs(along_p)) + drawn.softness[order], reach)
    first_p = np.maximum(np.ceil(low_p - beyond[0] - HALF), 0).astype(np.int32)
    last_p = np.minimum(np.floor(high_p + beyond[1] - HALF), np.where(steep, height - 1, width - 1)).astype(np.int32)
    half = reach * np.sqrt(1 + slope * slope)
    begins = drawn.start_radius[order]
    taper = np.divide(drawn.end_radius[order] - begins, safe_length, dtype=np.float32)
    # Thin strokes fade out over one px of p at their ends, on a slant too: less would fall between the runs.
    thin = np.maximum(drawn.start_radius, drawn.end_radius)[order] <= HALF
    end_scale = np.where(thin, along_p * along_p, np.float32(1))
    left = np.where(steep, np.float32(1), np.float32(-1))  # the sign that makes the left side positive

    # What is the same along a run. Beyond the ends a run stays centerd on the end: that covers the round cap.
    stroke, p = _runs(first_p, last_p)
    sharpness = np.divide(1, drawn.softness[order] * np.abs(along_p), dtype=np.float32)
    rows = (p0, q0, low_p - p0, high_p - p0, slope, half, along_p, along_q, left, length, end_scale, begins, taper)
    of_run = np.stack([*rows, sharpness]).take(stroke, axis=1)  # one gather for all is far faster than one for each
    p0_, q0_, low, high, slope_, half_, along_p_, along_q_, left_, length_, end_scale_, begins_, taper_, sharp = of_run
    steps = np.stack([order, np.where(steep, width, height), np.where(steep, width, 1), np.where(steep, 1, width)])
    order_, q_limit, stride_p, stride_q = steps.astype(np.int32).take(stroke, axis=1)
    offset_p = p.astype(np.float32)
    offset_p += HALF
    offset_p -= p0_
    offset_q = np.minimum(offset_p, high)
    np.maximum(offset_q, low, out=offset_q)
    offset_q *= slope_
    first_q = np.ceil(q0_ + offset_q - half_ - HALF).astype(np.int32)
    runs = _Runs(
        stroke=order_,
        first_q=first_q,
        q_limit=q_limit,
        first_pixel=p * stride_p + first_q * stride_q,
        pixel_step=stride_q,
        from_line=first_q.astype(np.float32) + HALF - q0_ - offset_q,
        along=offset_p * along_p_ + offset_q * along_q_,
        along_step=along_q_,
        across=(offset_q * along_p_ - offset_p * along_q_) * left_,
        across_step=along_p_ * left_,
        length=length_,
        end_scale=end_scale_,
        radius=begins_,
        taper=taper_,
        sharpness=sharp,
    )
    # The strokes are in the order of their groups, so every group's runs are a slice.
    bounds = np.searchsorted(stroke, np.searchsorted(group, np.arange(len(RUN_LENGTHS) + 2)))
    parts = []
    for begin, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        if begin < end:
            longest = int(np.ceil(2 * half[stroke[begin] : stroke[end - 1] + 1].max())) + 1
            parts.append(_fill(runs.part(begin, end), longest))
    if not parts:
        return _NO_FRAGMENTS
    return parts[0] if len(parts) == 1 else Fragments(*map(np.concatenate, zip(*parts, strict=True)))


class _Runs(NamedTuple):
    """(R,) values of runs of pixels: each at its first pixel, and its step from one pixel to the next."""

    stroke: IndexArray
    first_q: IndexArray
    q_limit: IndexArray
    first_pixel: IndexArray
    pixel_step: IndexArray
    from_line: Float32Array
    along: Float32Array
    along_step: Float32Array
    across: Float32Array
    across_step: Float32Array
    length: Float32Array
    end_scale: Float32Array
    radius: Float32Array
    taper: Float32Array
    sharpness: Float32Array

    def part(self, begin: int, end: int) -> _Runs:
        return _Runs._make(values[begin:end] for values in self)


def _fill(runs: _Runs, longest: int) -> Fragments:
    """The fragments of runs of at most `longest` pixels: arrays (longest, R), one row a pixel of every run."""
    rank = np.arange(longest, dtype=np.int32)[:, None]
    across = runs.from_line + rank.astype(np.float32)
    along = across * runs.along_step
    along += runs.along
    across *= runs.across_step
    across += runs.across
    radius = np.minimum(along, runs.length)  # clipped: minimum and maximum are several times faster than np.clip
    np.maximum(radius, np.float32(0), out=radius)
    beyond = along - radius
    beyond *= runs.end_scale
    beyond *= beyond
    ink = across * across
    ink += beyond
    np.sqrt(ink, out=ink)
    radius *= runs.taper
    radius += runs.radius
    np.subtract(np.maximum(radius, HALF / runs.sharpness, out=beyond), ink, out=ink)
    ink *= runs.sharpness
    ink += HALF
    np.minimum(ink, np.float32(1), out=ink)
    np.maximum(ink, np.float32(0), out=ink)
    ink *= np.minimum(np.multiply(radius, 2 * FULL * runs.sharpness, out=beyond), np.float32(FULL), out=beyond)
    ink += HALF
    coverage = ink.astype(np.int16)
    if int(runs.first_q.min()) < 0 or bool((runs.first_q + longest > runs.q_limit).any()):
        q = runs.first_q + rank
        coverage *= (q >= 0) & (q < runs.q_limit)
    kept = np.flatnonzero(coverage != 0)
    row = kept // len(runs.stroke)
    run = kept - row * len(runs.stroke)
    return Fragments(
        runs.first_pixel[run] + row.astype(np.int32) * runs.pixel_step[run],
        coverage.ravel()[kept],
        runs.stroke[run],
        across.ravel()[kept],
        along.ravel()[kept],
        radius.ravel()[kept],
    )


def _runs(first: IndexArray, last: IndexArray) -> tuple[IndexArray, IndexArray]:
    """All whole numbers from first[k] to last[k], for every k in turn: which k, and the number."""
    count = np.maximum(last - first + 1, 0)
    begin = np.cumsum(count) - count
    owner = np.repeat(np.arange(len(first), dtype=np.int32), count)
    value = np.arange(len(owner), dtype=np.int32) - (begin - first).astype(np.int32)[owner]
    return owner, value


def topmost(pixel: IndexArray, priority: NDArray[np.integer]) -> NDArray[np.intp]:
    """For each touched pixel the fragment of highest priority (0 to 1000), the last of equals."""
    if len(pixel) == 0:
        return np.zeros(0, dtype=np.intp)
    lowest = int(pixel.min())
    place = pixel - np.int32(lowest)
    bits = len(pixel).bit_length()
    # The priority over the place in the order, in one number; half as much memory where that number is small.
    kind = np.dtype(np.int32 if (int(priority.max()) + 1) << bits < 1 << 31 else np.int64)
    key: NDArray[np.signedinteger] = priority.astype(kind)
    key <<= bits
    key += np.arange(1, len(pixel) + 1, dtype=kind)
    best = np.zeros(int(place.max()) + 1, dtype=kind)
    np.maximum.at(best, place, key)
    return np.flatnonzero(best[place] == key)


class Layer(NamedTuple):
    """Some of the fragments of many strokes: those of one set of strokes, which begin at the stroke `first`."""

    fragments: Fragments
    chosen: NDArray[np.intp]
    first: int

    def take(self, index: NDArray[np.intp]) -> Fragments:
        """Some of the layer's fragments, by index, with strokes numbered from 0."""
        part = self.fragments.take(self.chosen[index])
        return part._replace(stroke=part.stroke - np.int32(self.first)) if self.first else part

    def topmost_by_depth(self, depth: NDArray[np.integer], count: int) -> list[NDArray[np.intp]]:
        """At each of `count` depths one fragment a pixel, by index, the one that covers it most; depth (F,) or −1."""
        pixel, coverage = self.fragments.pixel[self.chosen], self.fragments.coverage[self.chosen]
        found = []
        for number in range(count):
            at_depth = np.flatnonzero(depth == number)
            found.append(at_depth[topmost(pixel[at_depth], coverage[at_depth])])
        return found

    def union(self) -> Fragments:
        """One fragment a pixel, the one that covers it most: strokes that meet become one shape."""
        return self.take(topmost(self.fragments.pixel[self.chosen], self.fragments.coverage[self.chosen]))


def rasterize_layers(sets: Sequence[Strokes], size: tuple[int, int]) -> list[Layer]:
    """The fragments of each of several sets of strokes: in one go, which costs little more than one of them alone."""
    joined = Strokes(*(np.concatenate([getattr(one, field.name) for one in sets]) for field in fields(Strokes)))
    found = rasterize(joined, size)
    layers, first = [], 0
    for one in sets:
        mine = found.stroke >= first
        mine &= found.stroke < first + len(one)
        layers.append(Layer(found, np.flatnonzero(mine), first))
        first += len(one)
    return layers


def union(fragments: Fragments) -> Fragments:
    """One fragment a pixel, the one that covers it most: strokes that meet become one shape."""
    return fragments.take(topmost(fragments.pixel, fragments.coverage))


def blend(canvas: Int16Array, pixel: IndexArray, coverage: ArrayLike, color: ArrayLike) -> None:
    """Lay color (3,) or (3,F) over the pixels of a (3, height, width) canvas, in place; a pixel comes once at most.

    coverage: (F,) 0 to 256.
    """
    planes = canvas.reshape(len(canvas), -1)
    weight = np.asarray(coverage, dtype=np.int32)
    for plane, value in zip(planes, np.asarray(color), strict=True):
        under = plane.take(pixel)
        change = value - under.astype(np.int32)
        change *= weight
        change += FULL // 2
        change >>= 8
        under += change.astype(np.int16)
        plane[pixel] = under
