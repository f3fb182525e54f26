"""A dish of clear plastic with agar, seen from above: outline, agar, rim, tape, grid and reflections."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from treeformer._util.arrays import FloatArray
from treeformer.synthetic.painting import noise
from treeformer.synthetic.painting.canvas import Canvas, Color, Sketch, snapped
from treeformer.synthetic.painting.raster import Int16Array
from treeformer.synthetic.rng import Rng

CORNER_POINTS, SIDE_POINTS = 13, 12
SPOT_KNOTS = 9


def _outline_template() -> FloatArray:
    """Return the closed outline (M,4) of any box with round corners, clockwise.

    It starts at the left end of the top left corner. The first two columns are multiples of half the lengths of the
    straight sides; the last two are multiples of the radius of the corners.
    """
    quarter = np.linspace(0.0, math.pi / 2, CORNER_POINTS)
    along = np.linspace(-1.0, 1.0, SIDE_POINTS + 2)[1:-1]
    ones = np.ones(SIDE_POINTS)
    parts = []
    sides = ((along, -ones), (ones, along), (-along, ones), (-ones, -along))
    normals = ((0, -1), (1, 0), (0, 1), (-1, 0))
    for side, corner in enumerate(((-1, -1), (1, -1), (1, 1), (-1, 1))):
        angle = math.pi * (1 + side / 2) + quarter
        parts.append(np.column_stack([np.tile(corner, (CORNER_POINTS, 1)), np.cos(angle), np.sin(angle)]))
        parts.append(np.column_stack([*sides[side], np.tile(normals[side], (SIDE_POINTS, 1))]))
    return np.concatenate([*parts, parts[0][:1]])


OUTLINE = _outline_template()


@dataclass(frozen=True, slots=True)
class Dish:
    """An upright box with round corners, rotated and seen in slight perspective."""

    center: tuple[float, float]  # (x, y) px of the center
    half: tuple[float, float]  # half the width and half the height, px
    corner: float  # radius of the corners, px; equal to both halves for a round dish
    turn: float = 0.0  # sine of the angle of rotation
    keystone: float = 0.0  # relative increase in width from the middle to the lower edge

    @property
    def is_round(self) -> bool:
        """Whether the dish has no straight sides."""
        return self.corner >= max(self.half)

    def place(self, offset: FloatArray) -> FloatArray:
        """Map points (…,2) given relative to the center to image coordinates, on the grid of 1/64 px."""
        y = offset[..., 1]
        x = offset[..., 0] * (1 + self.keystone * y / self.half[1])
        cosine = math.sqrt(1 - self.turn * self.turn)
        rotated = np.stack([x * cosine - y * self.turn, x * self.turn + y * cosine], axis=-1)
        return snapped(rotated + self.center)

    def inset(self, px: float) -> Dish:
        """Return the same dish, smaller by `px` on all sides, but not below a quarter of its size."""
        half = (max(self.half[0] - px, self.half[0] / 4), max(self.half[1] - px, self.half[1] / 4))
        return replace(self, half=half, corner=min(max(self.corner - px, 1.0), *half))

    def outline(self) -> FloatArray:
        """Return the closed outline (M,2) in the image, px, clockwise from the left."""
        straight = (self.half[0] - self.corner, self.half[1] - self.corner)
        return self.place(OUTLINE[:, :2] * straight + OUTLINE[:, 2:] * self.corner)


def inside_outline(outline: FloatArray, size: tuple[int, int]) -> tuple[slice, NDArray[np.bool_]]:
    """Find the pixels whose center lies inside a convex, closed, clockwise outline (M,2).

    Return the rows of the image that it crosses and a (rows, width) mask of the pixels inside.
    """
    width, height = size
    vertices = outline[:-1]
    highest, lowest = int(vertices[:, 1].argmin()), int(vertices[:, 1].argmax())
    top, bottom = (min(max(math.ceil(float(vertices[end, 1]) - 0.5), 0), height) for end in (highest, lowest))
    from_top = np.roll(vertices, -highest, axis=0)
    lowest_from_top = (lowest - highest) % len(vertices)
    right, left = from_top[: lowest_from_top + 1], np.concatenate([from_top[lowest_from_top:], from_top[:1]])[::-1]
    y = np.arange(top, bottom) + 0.5
    ends = []
    for chain in (left, right):
        # Not np.interp: its last bits differ between library versions.
        segment = np.clip(np.searchsorted(chain[:, 1], y, side="right") - 1, 0, len(chain) - 2)
        (x0, y0), (x1, y1) = chain[segment].T, chain[segment + 1].T
        x = x0 + (y - y0) * ((x1 - x0) / np.where(y1 > y0, y1 - y0, 1.0))
        ends.append(np.ceil(np.clip(x, 0, width) - 0.5).astype(np.int16)[:, None])
    column = np.arange(width, dtype=np.int16)
    inside: NDArray[np.bool_] = column >= ends[0]
    inside &= column < ends[1]
    return slice(top, bottom), inside


def paint_dish(rng: Rng, canvas: Canvas, sketch: Sketch, dish: Dish, agar: Color, transparency: float) -> Dish:
    """Paint the agar in its dish and sketch the rim; return the dish without its rim.

    `transparency` is the fraction of the background that shows through, 0 to 1.
    """
    scale = max(canvas.scale, 0.35)
    inner = dish.inset(rng.uniform(6, 22) * scale)
    rows, inside = inside_outline(dish.outline(), canvas.size)
    if rows.stop <= rows.start:
        return inner
    size = (canvas.size[0], rows.stop - rows.start)
    tile = rng.weighted(((noise.weave, 0.35), (noise.mottle, 0.2), (noise.clouds, 0.45)))
    strength = rng.uniform(0.0, 0.18) if tile is noise.weave else rng.uniform(0.0, 0.05)
    agar_weight = np.int16(round(64 * (1 - transparency)))
    texture = noise.window(tile(), rng, size)
    canvas.mix(agar, inside * agar_weight, rows, texture=texture, contrast=(strength, strength, strength))
    glow = _glow(rng, size)
    # Plastic without agar behind it is lighter or darker.
    inner_rows, inside_inner = inside_outline(inner.outline(), canvas.size)
    plastic = np.int16(rng.whole(-6, 26))
    glow += plastic
    glow[inner_rows.start - rows.start : inner_rows.stop - rows.start] -= inside_inner * plastic
    glow *= inside
    canvas.add(glow, (0.94, 1.0, 1.08), rows)
    _ridges(rng, sketch, dish, inner, agar, scale)
    return inner


def _glow(rng: Rng, size: tuple[int, int]) -> Int16Array:
    """Return light from below and from the sides, (height, width): brighter edges and a broad reflection."""
    knots = rng.array(5, 4, low=-1.0, high=1.0) * rng.uniform(2, 16)
    knots[-1] += rng.uniform(0, 34)
    knots[0] += rng.uniform(20, 60) if rng.chance(0.2) else rng.uniform(-8, 22)
    knots[:, 0] += rng.uniform(-6, 20)
    knots[:, -1] += rng.uniform(-6, 20)
    return noise.enlarge_gently(np.floor(knots).astype(np.int16), size)


def _ridges(rng: Rng, sketch: Sketch, dish: Dish, inner: Dish, agar: Color, scale: float) -> None:
    """Draw the lines of the rim, brighter where a side faces the light, with occasional glints."""
    count = rng.whole(3, 6)
    inset = np.cumsum(rng.array(count, low=0.3, high=1.0))
    inset = (inset - inset[0]) / (inset[-1] - inset[0]) * (dish.half[0] - inner.half[0])
    outlines = np.stack([dish.inset(px).outline() for px in inset.tolist()])
    segment = outlines[:, 1:] - outlines[:, :-1]
    length = np.maximum(np.sqrt(segment[..., 0] * segment[..., 0] + segment[..., 1] * segment[..., 1]), 1e-6)
    angle = rng.uniform(0, 2 * math.pi)
    facing = (segment[..., 0] * math.sin(angle) - segment[..., 1] * math.cos(angle)) / length
    level = max(agar) + rng.uniform(5, 60)
    brightness = level + rng.array(count, 1, low=-50, high=35) + rng.uniform(5, 45) * facing
    variation = rng.bell(*facing.shape) * rng.uniform(4, 22)
    variation += np.where(rng.array(*facing.shape) < 0.05, rng.uniform(0, 120), 0.0)
    for _ in range(2):  # smooth the steps between the segments
        variation = (np.roll(variation, 1, axis=1) + 2 * variation + np.roll(variation, -1, axis=1)) / 4
    brightness += variation
    thick = np.maximum(0.35, rng.array(count, low=0.3, high=1.5) * scale)
    if rng.chance(0.7):  # the edge that catches most of the light
        edge = rng.whole(0, count - 1)
        brightness[edge] += rng.uniform(25, 85)
        thick[edge] += rng.uniform(0.2, 1.0) * scale
    tint = (0.97, 1.0, rng.uniform(0.98, 1.08))
    for outline, radius, levels in zip(outlines, thick.tolist(), brightness, strict=True):
        sketch.line(outline, radius, levels[:, None] * tint, rng.uniform(0.4, 0.95), rng.uniform(1.0, 2.2))


def tape(rng: Rng, canvas: Canvas, sketch: Sketch, dish: Dish) -> None:
    """Draw strips of breathable tape that hold the lid: a pale, uneven frame over the rim, bent at the corners."""
    half_width = rng.uniform(8, 16) * canvas.scale
    level = rng.uniform(165, 215)
    corner_cut = max(dish.corner * 0.5, half_width * rng.uniform(1.0, 1.6))
    wide, high = dish.half[0] - half_width * 0.7, dish.half[1] - half_width * 0.7
    paper = np.asarray((1.0, 0.99, rng.uniform(0.88, 0.98)))
    corners = [
        (-wide + corner_cut, -high),
        (wide - corner_cut, -high),
        (wide, -high + corner_cut),
        (wide, high - corner_cut),
    ]
    corners += [
        (wide - corner_cut, high),
        (-wide + corner_cut, high),
        (-wide, high - corner_cut),
        (-wide, -high + corner_cut),
    ]
    points = dish.place(np.asarray([*corners, corners[0]]))
    for index in (1, 3, 5, 7, 0, 2, 4, 6):  # corners first
        path = np.linspace(points[index], points[index + 1], 14) + rng.bell(14, 2) * 0.4 * canvas.scale
        thick = half_width * (1 + rng.bell(14) * 0.03)
        tone = level + rng.uniform(-12, 12) + rng.bell(13) * 4
        sketch.line(path, thick, paper * tone[:, None], rng.uniform(0.88, 0.98), 1.5, 5.0)


def grid(rng: Rng, canvas: Canvas, sketch: Sketch, dish: Dish) -> None:
    """Draw the grid lines that are molded into the bottom of some dishes, given without their rim."""
    spacing = dish.half[0] * 2 / rng.whole(6, 13)
    level, opacity = rng.choice((30.0, 190.0, 230.0)), rng.uniform(0.1, 0.4)
    wide, high = dish.half
    for half_extent, half_length, upright in ((wide, high, True), (high, wide, False)):
        across = np.arange(-half_extent + spacing * rng.uniform(0.3, 0.9), half_extent, spacing)
        ends = np.full(len(across), half_length * 0.98)
        start = np.stack([across, -ends] if upright else [-ends, across], axis=1)
        end = np.stack([across, ends] if upright else [ends, across], axis=1)
        sketch.add(dish.place(start), dish.place(end), 0.45, 0.45, level, opacity)


def shine(rng: Rng, canvas: Canvas, dish: Dish) -> None:
    """Paint the reflection of a lamp or window in the lid: a pale, uneven spot without an edge."""
    width, height = canvas.size
    x = dish.center[0] + dish.half[0] * rng.uniform(-0.8, 0.8)
    y = dish.center[1] + dish.half[1] * rng.uniform(-0.8, 0.5)
    across, down = dish.half[0] * rng.uniform(0.15, 0.6), dish.half[1] * rng.uniform(0.12, 0.5)
    columns, rows = (
        slice(*(min(max(round(middle + end), 0), side) for end in (-reach, reach)))
        for middle, reach, side in ((x, across, width), (y, down, height))
    )
    if rows.stop - rows.start < 8 or columns.stop - columns.start < 8:
        return
    knot_position = np.linspace(-1.0, 1.0, SPOT_KNOTS)
    squared_distance = knot_position * knot_position
    bump = np.maximum(1 - 1.3 * (squared_distance[:, None] + squared_distance), 0.0)
    knots = bump * bump * rng.array(SPOT_KNOTS, SPOT_KNOTS, low=0.4, high=1.0) * rng.uniform(10, 60)
    spot = noise.enlarge(np.floor(knots).astype(np.int16), (columns.stop - columns.start, rows.stop - rows.start))
    for plane in canvas.planes[:, rows, columns]:
        plane += spot
