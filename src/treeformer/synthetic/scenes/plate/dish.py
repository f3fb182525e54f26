"""A dish of clear plastic with agar in it, seen from above: its outline, the agar, the rim, tape, printed lines."""

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
    """(M,4) the closed outline of any box with round corners, clockwise from the left end of the top left corner.

    A point is the first two times half the straight sides' lengths and the last two times the corner's radius.
    """
    quarter = np.linspace(0.0, math.pi / 2, CORNER_POINTS)
    along = np.linspace(-1.0, 1.0, SIDE_POINTS + 2)[1:-1]
    one = np.ones(SIDE_POINTS)
    parts = []
    sides = ((along, -one), (one, along), (-along, one), (-one, -along))
    normals = ((0, -1), (1, 0), (0, 1), (-1, 0))
    for step, corner in enumerate(((-1, -1), (1, -1), (1, 1), (-1, 1))):
        angle = math.pi * (1 + step / 2) + quarter
        parts.append(np.column_stack([np.tile(corner, (CORNER_POINTS, 1)), np.cos(angle), np.sin(angle)]))
        parts.append(np.column_stack([*sides[step], np.tile(normals[step], (SIDE_POINTS, 1))]))
    return np.concatenate([*parts, parts[0][:1]])


OUTLINE = _outline_template()


@dataclass(frozen=True, slots=True)
class Dish:
    """An upright box with round corners around `center`, turned and seen a little from one side.

    half: half its width and height, px; corner: the radius of its corners, all of the smaller half for a round dish.
    turn: the sine of the angle by which it is turned. keystone: how much wider it is below than in the middle, a share.
    """

    center: tuple[float, float]
    half: tuple[float, float]
    corner: float
    turn: float = 0.0
    keystone: float = 0.0

    @property
    def is_round(self) -> bool:
        """Whether it has no straight sides."""
        return self.corner >= max(self.half)

    def place(self, offset: FloatArray) -> FloatArray:
        """Where points (…,2) of the dish, given from its center, are in the image: on the grid of 1/64 px."""
        y = offset[..., 1]
        x = offset[..., 0] * (1 + self.keystone * y / self.half[1])
        upright = math.sqrt(1 - self.turn * self.turn)
        turned = np.stack([x * upright - y * self.turn, x * self.turn + y * upright], axis=-1)
        return snapped(turned + self.center)

    def inset(self, px: float) -> Dish:
        """The same dish, smaller by so many px on all sides, at most by three quarters."""
        half = (max(self.half[0] - px, self.half[0] / 4), max(self.half[1] - px, self.half[1] / 4))
        return replace(self, half=half, corner=min(max(self.corner - px, 1.0), *half))

    def outline(self) -> FloatArray:
        """Its closed outline (M,2) in the image, clockwise from the left."""
        straight = (self.half[0] - self.corner, self.half[1] - self.corner)
        return self.place(OUTLINE[:, :2] * straight + OUTLINE[:, 2:] * self.corner)


def inside_outline(outline: FloatArray, size: tuple[int, int]) -> tuple[slice, NDArray[np.bool_]]:
    """The rows of an image that a convex outline (M,2) crosses, and which of their pixels have their center inside.

    The outline runs clockwise and is closed.
    """
    width, height = size
    ring = outline[:-1]
    highest, lowest = int(ring[:, 1].argmin()), int(ring[:, 1].argmax())
    top, bottom = (min(max(math.ceil(float(ring[end, 1]) - 0.5), 0), height) for end in (highest, lowest))
    turned = np.roll(ring, -highest, axis=0)
    fall = (lowest - highest) % len(ring)
    right, left = turned[: fall + 1], np.concatenate([turned[fall:], turned[:1]])[::-1]
    y = np.arange(top, bottom) + 0.5
    ends = []
    for chain in (left, right):
        # Not np.interp, whose last bits differ from library to library.
        at = np.clip(np.searchsorted(chain[:, 1], y, side="right") - 1, 0, len(chain) - 2)
        (x0, y0), (x1, y1) = chain[at].T, chain[at + 1].T
        x = x0 + (y - y0) * ((x1 - x0) / np.where(y1 > y0, y1 - y0, 1.0))
        ends.append(np.ceil(np.clip(x, 0, width) - 0.5).astype(np.int16)[:, None])
    column = np.arange(width, dtype=np.int16)
    inside: NDArray[np.bool_] = column >= ends[0]
    inside &= column < ends[1]
    return slice(top, bottom), inside


def paint_dish(rng: Rng, canvas: Canvas, sketch: Sketch, dish: Dish, agar: Color, clear: float) -> Dish:
    """The agar in its dish, and strokes of the rim. Returns the dish without its rim.

    clear: how much of what is below shows through, 0 to 1.
    """
    scale = max(canvas.scale, 0.35)
    inner = dish.inset(rng.uniform(6, 22) * scale)
    rows, inside = inside_outline(dish.outline(), canvas.size)
    if rows.stop <= rows.start:
        return inner
    size = (canvas.size[0], rows.stop - rows.start)
    tile = rng.weighted(((noise.weave, 0.35), (noise.mottle, 0.2), (noise.clouds, 0.45)))
    strength = rng.uniform(0.0, 0.18) if tile is noise.weave else rng.uniform(0.0, 0.05)
    solid = np.int16(round(64 * (1 - clear)))
    texture = noise.window(tile(), rng, size)
    canvas.mix(agar, inside * solid, rows, texture=texture, contrast=(strength, strength, strength))
    glow = _glow(rng, size)
    # Plastic without agar behind it is paler or darker.
    inner_rows, held = inside_outline(inner.outline(), canvas.size)
    plastic = np.int16(rng.whole(-6, 26))
    glow += plastic
    glow[inner_rows.start - rows.start : inner_rows.stop - rows.start] -= held * plastic
    glow *= inside
    canvas.add(glow, (0.94, 1.0, 1.08), rows)
    _ridges(rng, sketch, dish, inner, agar, scale)
    return inner


def _glow(rng: Rng, size: tuple[int, int]) -> Int16Array:
    """Light from below and from the sides, (height, width): brighter along some edges, and a lamp's broad shine."""
    knots = rng.array(5, 4, low=-1.0, high=1.0) * rng.uniform(2, 16)
    knots[-1] += rng.uniform(0, 34)
    knots[0] += rng.uniform(20, 60) if rng.chance(0.2) else rng.uniform(-8, 22)
    knots[:, 0] += rng.uniform(-6, 20)
    knots[:, -1] += rng.uniform(-6, 20)
    return noise.enlarge_gently(np.floor(knots).astype(np.int16), size)


def _ridges(rng: Rng, sketch: Sketch, dish: Dish, inner: Dish, agar: Color, scale: float) -> None:
    """The lines of the rim, brighter where a side faces the light, here and there with a glint."""
    count = rng.whole(3, 6)
    inset = np.cumsum(rng.array(count, low=0.3, high=1.0))
    inset = (inset - inset[0]) / (inset[-1] - inset[0]) * (dish.half[0] - inner.half[0])
    outlines = np.stack([dish.inset(px).outline() for px in inset.tolist()])
    step = outlines[:, 1:] - outlines[:, :-1]
    length = np.maximum(np.sqrt(step[..., 0] * step[..., 0] + step[..., 1] * step[..., 1]), 1e-6)
    angle = rng.uniform(0, 2 * math.pi)
    facing = (step[..., 0] * math.sin(angle) - step[..., 1] * math.cos(angle)) / length
    level = max(agar) + rng.uniform(5, 60)
    shine = level + rng.array(count, 1, low=-50, high=35) + rng.uniform(5, 45) * facing
    uneven = rng.bell(*facing.shape) * rng.uniform(4, 22)
    uneven += np.where(rng.array(*facing.shape) < 0.05, rng.uniform(0, 120), 0.0)
    for _ in range(2):  # without steps between the segments
        uneven = (np.roll(uneven, 1, axis=1) + 2 * uneven + np.roll(uneven, -1, axis=1)) / 4
    shine += uneven
    thick = np.maximum(0.35, rng.array(count, low=0.3, high=1.5) * scale)
    if rng.chance(0.7):  # the edge that catches most of the light
        edge = rng.whole(0, count - 1)
        shine[edge] += rng.uniform(25, 85)
        thick[edge] += rng.uniform(0.2, 1.0) * scale
    tint = (0.97, 1.0, rng.uniform(0.98, 1.08))
    for outline, radius, levels in zip(outlines, thick.tolist(), shine, strict=True):
        sketch.line(outline, radius, levels[:, None] * tint, rng.uniform(0.4, 0.95), rng.uniform(1.0, 2.2))


def tape(rng: Rng, canvas: Canvas, sketch: Sketch, dish: Dish) -> None:
    """Strips of breathable tape that hold the lid: a pale frame over the rim, uneven, bent around the corners."""
    half = rng.uniform(8, 16) * canvas.scale
    level = rng.uniform(165, 215)
    cut = max(dish.corner * 0.5, half * rng.uniform(1.0, 1.6))
    wide, high = dish.half[0] - half * 0.7, dish.half[1] - half * 0.7
    paper = np.asarray((1.0, 0.99, rng.uniform(0.88, 0.98)))
    corners = [(-wide + cut, -high), (wide - cut, -high), (wide, -high + cut), (wide, high - cut)]
    corners += [(wide - cut, high), (-wide + cut, high), (-wide, high - cut), (-wide, -high + cut)]
    points = dish.place(np.asarray([*corners, corners[0]]))
    for number in (1, 3, 5, 7, 0, 2, 4, 6):  # the corners first
        path = np.linspace(points[number], points[number + 1], 14) + rng.bell(14, 2) * 0.4 * canvas.scale
        thick = half * (1 + rng.bell(14) * 0.03)
        tone = level + rng.uniform(-12, 12) + rng.bell(13) * 4
        sketch.line(path, thick, paper * tone[:, None], rng.uniform(0.88, 0.98), 1.5, 5.0)


def grid(rng: Rng, canvas: Canvas, sketch: Sketch, dish: Dish) -> None:
    """The lines that are moulded into the bottom of some dishes."""
    spacing = dish.half[0] * 2 / rng.whole(6, 13)
    level, opacity = rng.choice((30.0, 190.0, 230.0)), rng.uniform(0.1, 0.4)
    wide, high = dish.half
    for half, other, upright in ((wide, high, True), (high, wide, False)):
        across = np.arange(-half + spacing * rng.uniform(0.3, 0.9), half, spacing)
        ends = np.full(len(across), other * 0.98)
        start = np.stack([across, -ends] if upright else [-ends, across], axis=1)
        end = np.stack([across, ends] if upright else [ends, across], axis=1)
        sketch.add(dish.place(start), dish.place(end), 0.45, 0.45, level, opacity)


def shine(rng: Rng, canvas: Canvas, dish: Dish) -> None:
    """A lamp or a window mirrored in the lid: a pale spot, uneven and without an edge, before all that is in it."""
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
    place = np.linspace(-1.0, 1.0, SPOT_KNOTS)
    away = place * place
    bump = np.maximum(1 - 1.3 * (away[:, None] + away), 0.0)
    knots = bump * bump * rng.array(SPOT_KNOTS, SPOT_KNOTS, low=0.4, high=1.0) * rng.uniform(10, 60)
    spot = noise.enlarge(np.floor(knots).astype(np.int16), (columns.stop - columns.start, rows.stop - rows.start))
    for plane in canvas.planes[:, rows, columns]:
        plane += spot
