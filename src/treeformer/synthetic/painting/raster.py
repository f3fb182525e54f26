"""Rasterization of tapered, antialiased strokes: all strokes of an image in one pass of array arithmetic.

Pixels are computed only by correctly rounded operations (+ - × ÷ √, comparisons, integers) in a fixed order, so every
machine draws the same image.
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

# Full coverage of a pixel. Coverage in 256ths is fine enough for 8-bit images, and integers sort fast.
FULL = 256
HALF = np.float32(0.5)
# Strokes are grouped by the number of pixels across them. These are the upper limits of all groups but the last.
RUN_LENGTHS = (6, 12, 30)
# Length of a run across a stroke at 45°, the longest of all directions, per px of the stroke's reach.
LONGEST_SLANT = np.float32(2 * 2**0.5)


@dataclass(frozen=True, slots=True)
class Strokes:
    """Straight strokes with round ends. A stroke with equal end points is a dot."""

    start: Float32Array  # (S,2) start points, px
    end: Float32Array  # (S,2) end points, px
    start_radius: Float32Array  # (S,) px
    end_radius: Float32Array  # (S,) px
    softness: Float32Array  # (S,) width of the edge over which a stroke fades, px; 1 is sharp, larger is out of focus
    # (S,2) share of the round caps at start and end that has to be drawn, from 0 to 1; less than 1 if another stroke
    # continues there
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
    """Create `Strokes` from array-like values, each one for all or one per stroke."""
    starts = np.asarray(start, dtype=np.float32).reshape(-1, 2)
    ends = np.asarray(end, dtype=np.float32).reshape(-1, 2)

    def per_stroke(value: ArrayLike) -> Float32Array:
        return np.ascontiguousarray(np.broadcast_to(np.asarray(value, dtype=np.float32), (len(starts),)))

    caps = np.empty((len(starts), 2), dtype=np.float32)
    caps[:] = cap
    return Strokes(starts, ends, per_stroke(start_radius), per_stroke(end_radius), per_stroke(softness), caps)


class Fragments(NamedTuple):
    """The pixels that strokes touch, one entry per stroke and pixel."""

    pixel: IndexArray  # (F,) flat index, row × width + column
    coverage: Int16Array  # (F,) from 1 to 256 (`FULL`)
    stroke: IndexArray  # (F,) index of the stroke
    across: Float32Array  # (F,) distance from the center line, px, positive to the left of the direction of drawing
    along: Float32Array  # (F,) distance from the start, px
    radius: Float32Array  # (F,) radius of the stroke at this point, px

    def take(self, index: NDArray[np.intp]) -> Fragments:
        """Return the fragments with the given indices."""
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
    """Compute the fragments of all strokes.

    Each stroke is scanned along its longer axis p. Every line of pixels across it is a short run along q. Runs of
    similar length are processed together, as the columns of one array with one row per pixel of the run.

    The coverage of a pixel falls linearly across the edge, by the distance d of its center from the center line:
    (radius - d) / edge + 1/2, limited to 0 and 1. The edge is `softness` px wide along q. A stroke thinner than its
    edge is drawn as wide as the edge, but fainter by 2·radius / edge. The coverage of every run thus sums to the width
    of the stroke, and its center of mass lies on the center line, at any slope.
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
    # Distance beyond the ends to be scanned: up to the corners of the flat end, plus the needed part of the cap.
    cap = np.where((dp < 0)[:, None], drawn.cap[order][:, ::-1], drawn.cap[order])
    beyond = np.minimum(reach * (np.abs(along_q) + cap.T * np.abs(along_p)) + drawn.softness[order], reach)
    first_p = np.maximum(np.ceil(low_p - beyond[0] - HALF), 0).astype(np.int32)
    last_p = np.minimum(np.floor(high_p + beyond[1] - HALF), np.where(steep, height - 1, width - 1)).astype(np.int32)
    half = reach * np.sqrt(1 + slope * slope)
    radius = drawn.start_radius[order]
    taper = np.divide(drawn.end_radius[order] - radius, safe_length, dtype=np.float32)
    # At their ends, thin strokes fade out over one px of p, whatever their slope: less would fall between two runs.
    thin = np.maximum(drawn.start_radius, drawn.end_radius)[order] <= HALF
    end_scale = np.where(thin, along_p * along_p, np.float32(1))
    left = np.where(steep, np.float32(1), np.float32(-1))  # the sign that makes the left side positive

    # A trailing underscore marks values per run, which are constant along it. Beyond an end of the stroke, runs stay
    # centered on the end point, which covers the round cap.
    stroke, p = _runs(first_p, last_p)
    sharpness = np.divide(1, drawn.softness[order] * np.abs(along_p), dtype=np.float32)
    rows = (p0, q0, low_p - p0, high_p - p0, slope, half, along_p, along_q, left, length, end_scale, radius, taper)
    per_run = np.stack([*rows, sharpness]).take(stroke, axis=1)  # one gather is much faster than one per value
    p0_, q0_, low_, high_, slope_, half_, along_p_, along_q_, left_, length_, end_scale_, radius_, taper_, sharp_ = (
        per_run
    )
    steps = np.stack([order, np.where(steep, width, height), np.where(steep, width, 1), np.where(steep, 1, width)])
    order_, q_limit_, stride_p_, stride_q_ = steps.astype(np.int32).take(stroke, axis=1)
    offset_p = p.astype(np.float32)
    offset_p += HALF
    offset_p -= p0_
    offset_q = np.minimum(offset_p, high_)
    np.maximum(offset_q, low_, out=offset_q)
    offset_q *= slope_
    first_q = np.ceil(q0_ + offset_q - half_ - HALF).astype(np.int32)
    runs = _Runs(
        stroke=order_,
        first_q=first_q,
        q_limit=q_limit_,
        first_pixel=p * stride_p_ + first_q * stride_q_,
        pixel_step=stride_q_,
        from_line=first_q.astype(np.float32) + HALF - q0_ - offset_q,
        along=offset_p * along_p_ + offset_q * along_q_,
        along_step=along_q_,
        across=(offset_q * along_p_ - offset_p * along_q_) * left_,
        across_step=along_p_ * left_,
        length=length_,
        end_scale=end_scale_,
        radius=radius_,
        taper=taper_,
        sharpness=sharp_,
    )
    # The strokes are sorted by group, so the runs of every group form a slice.
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
    """Runs of pixels, (R,) each: values at the first pixel, and their steps from one pixel to the next."""

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
    """Compute the fragments of runs of at most `longest` pixels, as arrays (longest, R)."""
    rank = np.arange(longest, dtype=np.int32)[:, None]
    across = runs.from_line + rank.astype(np.float32)
    along = across * runs.along_step
    along += runs.along
    across *= runs.across_step
    across += runs.across
    radius = np.minimum(along, runs.length)  # minimum and maximum are several times faster than np.clip
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
    """List the integers from first[k] to last[k] for every k; return k and the integer for each of them."""
    count = np.maximum(last - first + 1, 0)
    begin = np.cumsum(count) - count
    owner = np.repeat(np.arange(len(first), dtype=np.int32), count)
    value = np.arange(len(owner), dtype=np.int32) - (begin - first).astype(np.int32)[owner]
    return owner, value


def topmost(pixel: IndexArray, priority: NDArray[np.integer]) -> NDArray[np.intp]:
    """Select one of the fragments (F,) per pixel: that of the highest priority (0 to 1000), the last of equal ones.

    Return their indices in ascending order.
    """
    if len(pixel) == 0:
        return np.zeros(0, dtype=np.intp)
    lowest = int(pixel.min())
    offset = pixel - np.int32(lowest)
    bits = len(pixel).bit_length()
    # The sort key combines the priority (high bits) and the position in the order (low bits). 32 bits need half the
    # memory of 64, if they are sufficient.
    dtype = np.dtype(np.int32 if (int(priority.max()) + 1) << bits < 1 << 31 else np.int64)
    key: NDArray[np.signedinteger] = priority.astype(dtype)
    key <<= bits
    key += np.arange(1, len(pixel) + 1, dtype=dtype)
    best = np.zeros(int(offset.max()) + 1, dtype=dtype)
    np.maximum.at(best, offset, key)
    return np.flatnonzero(best[offset] == key)


class Layer(NamedTuple):
    """The fragments of one set of strokes among the fragments of several sets."""

    fragments: Fragments  # fragments of all sets
    chosen: NDArray[np.intp]  # (F,) indices of the fragments of this set
    first: int  # index of the first stroke of this set

    def take(self, index: NDArray[np.intp]) -> Fragments:
        """Return the fragments with the given indices in this layer, their strokes numbered from 0."""
        taken = self.fragments.take(self.chosen[index])
        return taken._replace(stroke=taken.stroke - np.int32(self.first)) if self.first else taken

    def topmost_by_depth(self, depth: NDArray[np.integer], count: int) -> list[NDArray[np.intp]]:
        """Select the fragment that covers each pixel most, at each depth; return their indices per depth.

        Depths (F,) are from 0 to count - 1; -1 excludes a fragment.
        """
        pixel, coverage = self.fragments.pixel[self.chosen], self.fragments.coverage[self.chosen]
        selected = []
        for level in range(count):
            at_depth = np.flatnonzero(depth == level)
            selected.append(at_depth[topmost(pixel[at_depth], coverage[at_depth])])
        return selected

    def union(self) -> Fragments:
        """Return one fragment per pixel, the one that covers it most, so that touching strokes form one shape."""
        return self.take(topmost(self.fragments.pixel[self.chosen], self.fragments.coverage[self.chosen]))


def rasterize_layers(sets: Sequence[Strokes], size: tuple[int, int]) -> list[Layer]:
    """Compute the fragments of several sets of strokes in one pass, which costs little more than one set alone."""
    joined = Strokes(*(np.concatenate([getattr(drawn, field.name) for drawn in sets]) for field in fields(Strokes)))
    fragments = rasterize(joined, size)
    layers, first = [], 0
    for drawn in sets:
        in_set = fragments.stroke >= first
        in_set &= fragments.stroke < first + len(drawn)
        layers.append(Layer(fragments, np.flatnonzero(in_set), first))
        first += len(drawn)
    return layers


def union(fragments: Fragments) -> Fragments:
    """Return one fragment per pixel, the one that covers it most, so that touching strokes form one shape."""
    return fragments.take(topmost(fragments.pixel, fragments.coverage))


def blend(canvas: Int16Array, pixel: IndexArray, coverage: ArrayLike, color: ArrayLike) -> None:
    """Blend a color, (C,) or (C,F), over pixels of a canvas (C, height, width), in place.

    `pixel` (F,) are flat indices without duplicates, and `coverage` is from 0 to 256.
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
