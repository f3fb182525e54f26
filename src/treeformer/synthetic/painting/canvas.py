"""The image while it is being painted: three planes of 16-bit levels, and the few things done to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from treeformer._util.arrays import FloatArray
from treeformer.synthetic.painting.raster import Int16Array, Layer, Strokes, blend, rasterize, strokes, union

Color = tuple[float, float, float]
Box = tuple[float, float, float, float]  # left, top, right, bottom, px

ALL = slice(None)
# Maps act on so many pixels at a time that what they read and write stays in a core's own cache.
BLOCK_PIXELS = 65536

NoiseMap = NDArray[np.int8] | Int16Array


class Canvas:
    """An image in the making. `planes` is (3, height, width), levels 0 to 255 that may overshoot until the end.

    Planes, not interleaved colors: a map over the image then acts on whole planes, ten times faster in NumPy.
    """

    def __init__(self, size: tuple[int, int], color: Color | None = (0, 0, 0)) -> None:
        self.size = size
        self.planes: Int16Array = np.empty((3, size[1], size[0]), dtype=np.int16)
        # Working space: fresh memory for every intermediate result would cost more than the arithmetic.
        self._work: Int16Array = np.empty((4, max(BLOCK_PIXELS, 4 * size[0])), dtype=np.int16)
        if color is not None:
            self.fill(color)

    @property
    def scale(self) -> float:
        """The size of things relative to an image of 512 px."""
        return min(self.size) / 512

    def blocks(self, rows: slice = ALL) -> Iterator[slice]:
        """Some rows in blocks that stay in the cache, a multiple of four rows each but for the last."""
        begin, end, _ = rows.indices(self.size[1])
        step = max(4, BLOCK_PIXELS // self.size[0] // 4 * 4)
        for top in range(begin, end, step):
            yield slice(top, min(top + step, end))

    def workspace(self, count: int, height: int, width: int) -> list[Int16Array]:
        """Up to four arrays (height, width) of no particular content, the same memory at every call."""
        return [line[: height * width].reshape(height, width) for line in self._work[:count]]

    def fill(self, color: Color) -> None:
        """Paint everything in one color."""
        for plane, level in zip(self.planes, color, strict=True):
            plane.fill(round(level))

    def lay(
        self,
        color: ArrayLike,
        textures: Sequence[tuple[NoiseMap, float]],
        rows: slice = ALL,
        tint: Color = (1.0, 1.0, 1.0),
    ) -> None:
        """Paint some rows anew: a color (3,), or one for each row (3, rows), lighter and darker by textures.

        textures: maps of the rows, values from -127 to 127, each with its gain; the gains add up to less than 4.
        tint: how much of the sum of them each plane gets, at most 1.
        """
        levels: Int16Array = np.floor(np.asarray(color, dtype=np.float64)).astype(np.int16)
        top = rows.indices(self.size[1])[0]
        scaled = [(field, np.int16(round(gain * 64))) for field, gain in textures]
        for block in self.blocks(rows):
            part = slice(block.start - top, block.stop - top)
            relief, product = self.workspace(2, block.stop - block.start, self.size[0])
            relief.fill(32)
            for field, factor in scaled:
                product[:] = field[part]
                product *= factor
                relief += product
            relief >>= 6
            for plane, level, share in zip(self.planes, levels, tint, strict=True):
                own = relief
                if share != 1:
                    own = np.multiply(relief, np.int16(round(share * 64)), out=product)
                    own >>= 6
                np.add(own, level[part, None] if level.ndim else level, out=plane[block])

    def add(self, field: NoiseMap, gain: Sequence[float], rows: slice = ALL) -> None:
        """Add a map of some rows, values from -255 to 255, times a gain of at most 2 for each plane."""
        top = rows.indices(self.size[1])[0]
        factors = [np.int16(round(factor * 64)) for factor in gain]
        for block in self.blocks(rows):
            values, product = self.workspace(2, block.stop - block.start, self.size[0])
            values[:] = field[block.start - top : block.stop - top]
            for channel, (plane, factor) in enumerate(zip(self.planes, factors, strict=True)):
                if channel == 0 or factor != factors[channel - 1]:
                    np.multiply(values, factor, out=product)
                    product >>= 6
                plane[block] += product

    def mix(
        self,
        color: Color,
        weight: Int16Array,
        rows: slice = ALL,
        columns: slice = ALL,
        texture: NoiseMap | None = None,
        contrast: Color = (0.0, 0.0, 0.0),
    ) -> None:
        """Lay a color over some rows and columns, with a weight of 0 to 64 for each pixel there.

        texture: values from -127 to 127 there that make the color lighter and darker, by `contrast` (at most 1,
        one for each plane) of it.
        """
        top = rows.indices(self.size[1])[0]
        for block in self.blocks(rows):
            part = slice(block.start - top, block.stop - top)
            change, values = self.workspace(2, *weight[part].shape)
            if texture is not None:
                values[:] = texture[part]
            for plane, level, strength in zip(self.planes, color, contrast, strict=True):
                if texture is None:
                    change.fill(round(level))
                else:
                    np.multiply(values, np.int16(round(level * strength)), out=change)
                    change >>= 6
                    change += np.int16(round(level))
                under = plane[block, columns]
                change -= under
                change *= weight[part]
                change >>= 6
                under += change

    def box(self, box: Box, color: Color, opacity: float = 1.0) -> None:
        """Fill an upright rectangle, to whole pixels."""
        rows, columns = inside(box, self.size)
        for plane, level in zip(self.planes, color, strict=True):
            part = plane[rows, columns]
            part += ((np.int16(round(level)) - part) * np.int16(round(opacity * 64))) >> 6


class Sketch:
    """Strokes of many colors, gathered to be drawn at once: one pass for many strokes costs little more than for one.

    Where two of them overlap, the one that covers a pixel more is seen, and of two that cover it fully the later.
    """

    def __init__(self) -> None:
        self._parts: list[tuple[FloatArray, FloatArray]] = []  # (S,2,2) ends and (S,8) the rest

    def add(
        self,
        start: ArrayLike,
        end: ArrayLike,
        start_radius: ArrayLike,
        end_radius: ArrayLike,
        color: ArrayLike,
        opacity: float = 1.0,
        softness: float = 1.0,
        roundness: float = 0.0,
    ) -> None:
        """Add strokes from (S,2) to (S,2) px; radii one number or (S,); color (3,) or (S,3).

        roundness: how many levels the right side of a stroke is darker than its middle, and the left lighter.
        """
        first = np.asarray(start, dtype=np.float64).reshape(-1, 2)
        last = np.asarray(end, dtype=np.float64).reshape(-1, 2)
        rest = np.empty((len(first), 8))
        rest[:, 0] = start_radius
        rest[:, 1] = end_radius
        rest[:, 2:5] = color
        rest[:, 5:] = opacity * 256, softness, roundness
        self._parts.append((np.stack([first, last], axis=1), rest))

    def line(
        self,
        points: ArrayLike,
        radius: ArrayLike,
        color: ArrayLike,
        opacity: float = 1.0,
        softness: float = 1.0,
        roundness: float = 0.0,
    ) -> None:
        """Add a polyline (M,2); radius one number or (M,)."""
        path = np.asarray(points, dtype=np.float64)
        thick = np.zeros(len(path)) + np.asarray(radius)
        self.add(path[:-1], path[1:], thick[:-1], thick[1:], color, opacity, softness, roundness)

    def _joined(self) -> tuple[FloatArray, FloatArray]:
        if not self._parts:
            return np.zeros((0, 2, 2)), np.zeros((0, 8))
        # On the grid of 1/64: what sine and cosine leave in the last bits must not reach the pixels.
        ends, rest = (snapped(np.concatenate(arrays)) for arrays in zip(*self._parts, strict=True))
        return ends, rest

    def strokes(self) -> Strokes:
        """All that was added, in order."""
        ends, rest = self._joined()
        return strokes(ends[:, 0], ends[:, 1], rest[:, 0], rest[:, 1], rest[:, 6])

    def draw(self, canvas: Canvas, layer: Layer | None = None) -> None:
        """Draw all that was added, in order; layer: the fragments of `strokes`, where they are at hand."""
        if not self._parts:
            return
        found = union(rasterize(self.strokes(), canvas.size)) if layer is None else layer.union()
        if len(found.pixel) == 0:
            return
        rest = self._joined()[1].astype(np.float32)
        color = np.clip(rest[:, 2:5].T, 0, 255).take(found.stroke, axis=1)
        opacity, roundness = rest[:, 5].astype(np.int32), rest[:, 7]
        if roundness.any():
            side = np.clip(found.across / np.maximum(found.radius, np.float32(0.5)), -1, 1)
            color += side * roundness[found.stroke]
        blend(canvas.planes, found.pixel, (found.coverage * opacity[found.stroke]) >> 8, color.astype(np.int32))


def snapped(points: ArrayLike) -> FloatArray:
    """Numbers on the grid of 1/64."""
    return np.floor(np.asarray(points, dtype=np.float64) * 64 + 0.5) / 64


def highest_px(points: FloatArray, otherwise: float) -> float:
    """The smallest y of points (M,2), or another value where there are none."""
    return float(points[:, 1].min()) if len(points) else otherwise


def lowest_px(points: FloatArray, otherwise: float) -> float:
    """The largest y of points (M,2), or another value where there are none."""
    return float(points[:, 1].max()) if len(points) else otherwise


def inside(box: Box, size: tuple[int, int]) -> tuple[slice, slice]:
    """The rows and columns of a box that are in the image."""
    left, right = (min(max(round(side), 0), size[0]) for side in (box[0], box[2]))
    top, bottom = (min(max(round(side), 0), size[1]) for side in (box[1], box[3]))
    return slice(top, max(bottom, top)), slice(left, max(right, left))


def depth_inside(box: Box, corner: float, rows: slice, columns: slice) -> Int16Array:
    """How far the pixels of some rows and columns lie inside a box with round corners, in quarters of a px.

    Negative outside; cut off at ±127 px.
    """
    left, top, right, bottom = (round(side) for side in box)
    radius = np.float32(round(corner))
    x = np.arange(columns.start, columns.stop, dtype=np.float32) + np.float32(0.5)
    y = np.arange(rows.start, rows.stop, dtype=np.float32) + np.float32(0.5)
    # Beyond the straight sides' lines, moved in by the corner's radius; inside of these it is negative.
    over_x = np.maximum(left - x, x - right) + radius
    over_y = np.maximum(top - y, y - bottom) + radius
    flat = np.maximum(over_x[None, :], over_y[:, None])
    round_x, round_y = np.maximum(over_x, 0)[None, :], np.maximum(over_y, 0)[:, None]
    outer = np.sqrt(round_x * round_x + round_y * round_y)
    distance = np.where(flat > 0, outer, flat) - radius
    depth: Int16Array = np.clip(np.floor(distance * np.float32(-4)), -508, 508).astype(np.int16)
    return depth


def wavy_line(start: Sequence[float], end: Sequence[float], sway: FloatArray) -> FloatArray:
    """Points (len(sway), 2) from start to end, moved sideways by `sway` px."""
    (x0, y0), (x1, y1) = start, end
    share = np.linspace(0.0, 1.0, len(sway))
    length = max(float(np.sqrt((x1 - x0) ** 2 + (y1 - y0) ** 2)), 1e-9)
    return np.stack(
        [x0 + share * (x1 - x0) - sway * (y1 - y0) / length, y0 + share * (y1 - y0) + sway * (x1 - x0) / length], axis=1
    )
