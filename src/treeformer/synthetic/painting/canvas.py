"""The image while it is painted: three planes of 16-bit levels, and strokes to be drawn on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from treeformer._util.arrays import FloatArray
from treeformer.synthetic.painting.raster import Int16Array, Layer, Strokes, blend, rasterize, strokes, union

Color = tuple[float, float, float]
Box = tuple[float, float, float, float]  # left, top, right, bottom, px

ALL = slice(None)
# Number of pixels processed at a time: few enough that inputs and outputs stay in the cache of one core.
BLOCK_PIXELS = 65536

NoiseMap = NDArray[np.int8] | Int16Array


class Canvas:
    """An image while it is painted. Without a color, its content is undefined.

    The colors are stored as planes, not interleaved: operations on whole planes are ten times faster in NumPy.

    Attributes:
        planes: (3, height, width) levels from 0 to 255; values may exceed this range until the image is exposed
    """

    def __init__(self, size: tuple[int, int], color: Color | None = (0, 0, 0)) -> None:
        self.size = size
        self.planes: Int16Array = np.empty((3, size[1], size[0]), dtype=np.int16)
        # Reused memory: allocating every intermediate result would cost more than the arithmetic.
        self._work: Int16Array = np.empty((4, max(BLOCK_PIXELS, 4 * size[0])), dtype=np.int16)
        if color is not None:
            self.fill(color)

    @property
    def scale(self) -> float:
        """The scale of objects relative to an image of 512 px."""
        return min(self.size) / 512

    def blocks(self, rows: slice = ALL) -> Iterator[slice]:
        """Yield blocks of the given rows that fit into the cache; all but the last have a multiple of four rows."""
        begin, end, _ = rows.indices(self.size[1])
        step = max(4, BLOCK_PIXELS // self.size[0] // 4 * 4)
        for top in range(begin, end, step):
            yield slice(top, min(top + step, end))

    def workspace(self, count: int, height: int, width: int) -> list[Int16Array]:
        """Return up to four arrays of undefined content, which share their memory with those of earlier calls."""
        return [buffer[: height * width].reshape(height, width) for buffer in self._work[:count]]

    def fill(self, color: Color) -> None:
        """Fill the canvas with one color."""
        for plane, level in zip(self.planes, color, strict=True):
            plane.fill(round(level))

    def lay(
        self,
        color: ArrayLike,
        textures: Sequence[tuple[NoiseMap, float]],
        rows: slice = ALL,
        tint: Color = (1.0, 1.0, 1.0),
    ) -> None:
        """Replace rows by a color, (3,) or (3, rows), that textures make lighter and darker.

        Each texture is a map with values from -127 to 127 and its gain; the gains sum to less than 4. `tint` is the
        share of the textures that each plane receives, at most 1.
        """
        levels: Int16Array = np.floor(np.asarray(color, dtype=np.float64)).astype(np.int16)
        top = rows.indices(self.size[1])[0]
        scaled = [(texture, np.int16(round(gain * 64))) for texture, gain in textures]
        for block in self.blocks(rows):
            part = slice(block.start - top, block.stop - top)
            relief, product = self.workspace(2, block.stop - block.start, self.size[0])
            relief.fill(32)
            for texture, factor in scaled:
                product[:] = texture[part]
                product *= factor
                relief += product
            relief >>= 6
            for plane, level, share in zip(self.planes, levels, tint, strict=True):
                tinted = relief
                if share != 1:
                    tinted = np.multiply(relief, np.int16(round(share * 64)), out=product)
                    tinted >>= 6
                np.add(tinted, level[part, None] if level.ndim else level, out=plane[block])

    def add(self, field: NoiseMap, gain: Sequence[float], rows: slice = ALL) -> None:
        """Add a map with values from -255 to 255 to rows, times a gain per plane of at most 2."""
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
        """Blend a color over rows and columns with a weight per pixel from 0 to 64.

        The texture, with values from -127 to 127, makes the color lighter and darker; `contrast`, at most 1, is its
        strength per plane.
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
        """Fill a rectangle, rounded to whole pixels. The opacity is from 0 to 1."""
        rows, columns = inside(box, self.size)
        for plane, level in zip(self.planes, color, strict=True):
            part = plane[rows, columns]
            part += ((np.int16(round(level)) - part) * np.int16(round(opacity * 64))) >> 6


class Sketch:
    """Strokes of many colors, collected to be drawn in one pass, which costs little more than drawing one stroke.

    If strokes overlap, each pixel shows the stroke that covers it most, and the latest of those that cover it equally.
    """

    def __init__(self) -> None:
        # (S,2,2) start and end points; (S,8) radii (2), color (3), opacity, softness and roundness.
        self._parts: list[tuple[FloatArray, FloatArray]] = []

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
        """Add S strokes from `start` to `end`, (S,2). Radii and colors are one for all strokes or one per stroke.

        Opacity is from 0 to 1. The edge of a stroke fades over `softness` px; 1 is sharp. `roundness` is the number of
        levels by which its right side is darker than its middle, and its left side lighter.
        """
        starts = np.asarray(start, dtype=np.float64).reshape(-1, 2)
        ends = np.asarray(end, dtype=np.float64).reshape(-1, 2)
        properties = np.empty((len(starts), 8))
        properties[:, 0] = start_radius
        properties[:, 1] = end_radius
        properties[:, 2:5] = color
        properties[:, 5:] = opacity * 256, softness, roundness
        self._parts.append((np.stack([starts, ends], axis=1), properties))

    def line(
        self,
        points: ArrayLike,
        radius: ArrayLike,
        color: ArrayLike,
        opacity: float = 1.0,
        softness: float = 1.0,
        roundness: float = 0.0,
    ) -> None:
        """Add a polyline through points (M,2), with a radius per point and a color per segment or one for all.

        See `add` for the other parameters.
        """
        path = np.asarray(points, dtype=np.float64)
        radii = np.zeros(len(path)) + np.asarray(radius)
        self.add(path[:-1], path[1:], radii[:-1], radii[1:], color, opacity, softness, roundness)

    def _joined(self) -> tuple[FloatArray, FloatArray]:
        if not self._parts:
            return np.zeros((0, 2, 2)), np.zeros((0, 8))
        # Rounded to 1/64, so that the last bits of sine and cosine do not affect the pixels.
        segments, properties = (snapped(np.concatenate(arrays)) for arrays in zip(*self._parts, strict=True))
        return segments, properties

    def strokes(self) -> Strokes:
        """Return all strokes, in the order in which they were added."""
        segments, properties = self._joined()
        return strokes(segments[:, 0], segments[:, 1], properties[:, 0], properties[:, 1], properties[:, 6])

    def draw(self, canvas: Canvas, layer: Layer | None = None) -> None:
        """Draw all strokes; their fragments may be given if they were computed before."""
        if not self._parts:
            return
        fragments = union(rasterize(self.strokes(), canvas.size)) if layer is None else layer.union()
        if len(fragments.pixel) == 0:
            return
        properties = self._joined()[1].astype(np.float32)
        color = np.clip(properties[:, 2:5].T, 0, 255).take(fragments.stroke, axis=1)
        opacity, roundness = properties[:, 5].astype(np.int32), properties[:, 7]
        if roundness.any():
            side = np.clip(fragments.across / np.maximum(fragments.radius, np.float32(0.5)), -1, 1)
            color += side * roundness[fragments.stroke]
        coverage = (fragments.coverage * opacity[fragments.stroke]) >> 8
        blend(canvas.planes, fragments.pixel, coverage, color.astype(np.int32))


def snapped(points: ArrayLike) -> FloatArray:
    """Round numbers to multiples of 1/64."""
    return np.floor(np.asarray(points, dtype=np.float64) * 64 + 0.5) / 64


def highest_px(points: FloatArray, otherwise: float) -> float:
    """Return the smallest y of (M,2) points."""
    return float(points[:, 1].min()) if len(points) else otherwise


def lowest_px(points: FloatArray, otherwise: float) -> float:
    """Return the largest y of (M,2) points."""
    return float(points[:, 1].max()) if len(points) else otherwise


def inside(box: Box, size: tuple[int, int]) -> tuple[slice, slice]:
    """Return the rows and columns of the part of a box that lies inside the image; empty if it lies outside."""
    left, right = (min(max(round(side), 0), size[0]) for side in (box[0], box[2]))
    top, bottom = (min(max(round(side), 0), size[1]) for side in (box[1], box[3]))
    return slice(top, max(bottom, top)), slice(left, max(right, left))


def depth_inside(box: Box, corner: float, rows: slice, columns: slice) -> Int16Array:
    """Return the distance of pixels to the outline of a box whose corners are rounded with a radius.

    The unit is a quarter of a px; positive inside, negative outside, clipped at ±127 px.
    """
    left, top, right, bottom = (round(side) for side in box)
    radius = np.float32(round(corner))
    x = np.arange(columns.start, columns.stop, dtype=np.float32) + np.float32(0.5)
    y = np.arange(rows.start, rows.stop, dtype=np.float32) + np.float32(0.5)
    # Distance beyond the straight sides after moving them inwards by the corner radius; negative inside.
    over_x = np.maximum(left - x, x - right) + radius
    over_y = np.maximum(top - y, y - bottom) + radius
    flat = np.maximum(over_x[None, :], over_y[:, None])
    round_x, round_y = np.maximum(over_x, 0)[None, :], np.maximum(over_y, 0)[:, None]
    outer = np.sqrt(round_x * round_x + round_y * round_y)
    distance = np.where(flat > 0, outer, flat) - radius
    depth: Int16Array = np.clip(np.floor(distance * np.float32(-4)), -508, 508).astype(np.int16)
    return depth


def wavy_line(start: Sequence[float], end: Sequence[float], sway: FloatArray) -> FloatArray:
    """Return a line of M equally spaced points, (M,2), displaced to its side by `sway`, (M,)."""
    (x0, y0), (x1, y1) = start, end
    share = np.linspace(0.0, 1.0, len(sway))
    length = max(float(np.sqrt((x1 - x0) ** 2 + (y1 - y0) ** 2)), 1e-9)
    return np.stack(
        [x0 + share * (x1 - x0) - sway * (y1 - y0) / length, y0 + share * (y1 - y0) + sway * (x1 - x0) / length], axis=1
    )
