"""Objects that are not the plant: writing, rulers, plates, dust, wires, posts, leaves, seeds.

Most functions add strokes to a sketch, which draws all of them at once. Some paint the canvas directly. Sizes are
relative to `Canvas.scale`, which is 1 for a 512 px image.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from treeformer._util.arrays import FloatArray
from treeformer.synthetic.painting import noise
from treeformer.synthetic.painting.canvas import Box, Canvas, Color, Sketch, depth_inside, inside, wavy_line
from treeformer.synthetic.rng import Rng

# Each glyph is a few polylines, separated by commas, on a grid 4 wide and 6 high, written as column-row pairs.
GLYPHS = {
    "0": "10 01 05 16 26 35 31 20 10",
    "1": "01 20 26",
    "2": "01 10 20 31 32 06 36",
    "3": "00 30 12 32 35 16 05",
    "4": "20 04 34,31 36",
    "5": "30 00 02 22 33 35 16 05",
    "6": "30 02 05 16 26 35 33 03",
    "7": "00 30 16",
    "8": "12 01 10 20 31 22 12 03 05 16 26 35 33 22",
    "9": "33 13 02 01 10 20 31 34 16",
    "a": "32 12 03 05 16 35,32 36",
    "b": "00 06 26 35 33 22 02",
    "c": "32 12 03 05 16 36",
    "d": "30 36 16 05 03 12 32",
    "e": "04 34 33 22 12 03 05 16 36",
    "l": "10 15 26",
    "m": "02 06,03 12 23 26,23 32 43 46",
    "n": "02 06,03 12 22 33 36",
    "o": "12 03 05 16 26 35 33 22 12",
    "r": "02 06,03 12 22",
    "s": "32 12 03 24 35 26 06",
    "t": "10 15 26,02 22",
    "w": "02 16 23 36 42",
    "x": "02 36,32 06",
    "-": "04 34",
}
DIGITS = "0123456789"
LETTERS = "abcdelmnorstwx-0123"


def _glyph_strokes(lines: str) -> FloatArray:
    """Return the (S,2,2) start and end points of a glyph's strokes."""
    paths = [[(float(pair[0]), float(pair[1])) for pair in line.split()] for line in lines.split(",")]
    return np.asarray([stroke for path in paths for stroke in pairwise(path)])


GLYPH_STROKES = {letter: _glyph_strokes(lines) for letter, lines in GLYPHS.items()}


def print_glyph(sketch: Sketch, letter: str, position: tuple[float, float], height: float, color: Color) -> None:
    """Draw one printed letter or digit, a key of `GLYPHS`; the position is its top left corner."""
    path = GLYPH_STROKES[letter] * (height / 6) + position
    radius = max(0.4, height * 0.06)
    sketch.add(path[:, 0], path[:, 1], radius, radius, color, 0.9)


def writing(rng: Rng, sketch: Sketch, position: tuple[float, float], height: float, color: Color) -> None:
    """Draw one or two handwritten words or numbers; the position is their top left corner."""
    letters, longest = (DIGITS, 4) if rng.chance(0.5) else (LETTERS, 7)
    words = ["".join(rng.choice(letters) for _ in range(rng.whole(2, longest))) for _ in range(rng.whole(1, 2))]
    slant, advance = rng.uniform(-0.15, 0.3), height * rng.uniform(0.6, 0.85)
    path = np.concatenate(
        [
            GLYPH_STROKES[letter] * (height / 6) + (index * advance, 0.0)
            for index, letter in enumerate(" ".join(words))
            if letter != " "
        ]
    )
    path += rng.array(*path.shape, low=-0.04, high=0.04) * height
    path[:, :, 0] -= slant * path[:, :, 1]
    path += position
    pen_px = max(0.4, height * rng.uniform(0.03, 0.07))
    sketch.add(path[:, 0], path[:, 1], pen_px, pen_px, color, rng.uniform(0.5, 0.95))


def ruler(rng: Rng, canvas: Canvas, sketch: Sketch, box: Box) -> None:
    """Draw a ruler: a pale or wooden strip with ticks along one edge and numbers.

    The scale runs along the longer side of the box.
    """
    left, top, right, bottom = box
    wooden = rng.chance(0.4)
    canvas.box(box, (190, 165, 95) if wooden else (rng.uniform(200, 245),) * 3)
    upright = bottom - top > right - left
    length, thickness = (bottom - top, right - left) if upright else (right - left, bottom - top)
    spacing = rng.uniform(3.0, 7.0) * max(canvas.scale, 0.5)
    along = np.arange(2.0, length - 2.0, spacing)
    tick = np.arange(len(along))
    across = thickness * np.where(tick % 10 == 0, 0.45, np.where(tick % 5 == 0, 0.32, 0.2))
    zero = np.zeros(len(along))
    corner = np.asarray((left, top) if upright else (left, bottom))
    start = np.stack([zero, along] if upright else [along, zero], axis=1) + corner
    end = np.stack([across, along] if upright else [along, -across], axis=1) + corner
    ink: Color = (rng.uniform(10, 60),) * 3
    sketch.add(start, end, 0.4, 0.4, ink, 0.8)
    height = thickness * 0.32
    for offset in along[::10][1:].tolist():
        position = (
            (left + thickness * 0.55, top + offset - height / 2) if upright else (left + offset, top + thickness * 0.08)
        )
        print_glyph(sketch, rng.choice(DIGITS), position, height, ink)


def plate(rng: Rng, canvas: Canvas, box: Box, corner: float, color: Color) -> None:
    """Paint a plastic plate: the inside in one color, the rim as bright and dark ridges."""
    rim = rng.uniform(4, 16) * max(canvas.scale, 0.5)
    left, top, right, bottom = box
    edge = max(rim, corner)
    canvas.box((left + edge, top + edge, right - edge, bottom - edge), color)
    # Profile of the rim: one level per quarter of a pixel, from the edge inwards.
    heights = rng.array(8, low=-45, high=70) * rng.uniform(0.4, 1.3)
    profile = np.zeros(513, dtype=np.int16)
    profile[: int(rim * 4)] = np.floor(np.interp(np.arange(int(rim * 4)), np.linspace(0, rim * 4, 8), heights))
    rows, columns = inside(box, canvas.size)
    inner_rows, inner_columns = inside((left + edge, top + edge, right - edge, bottom - edge), canvas.size)
    strips = (
        (slice(rows.start, inner_rows.start), columns),
        (slice(inner_rows.stop, rows.stop), columns),
        (inner_rows, slice(columns.start, inner_columns.start)),
        (inner_rows, slice(inner_columns.stop, columns.stop)),
    )
    for strip_rows, strip_columns in strips:
        depth = depth_inside(box, corner, strip_rows, strip_columns)
        shine = profile[np.clip(depth, 0, 512)]
        share = np.clip(depth + 2, 0, 4) << 4
        for plane, level in zip(canvas.planes, color, strict=True):
            part = plane[strip_rows, strip_columns]
            part += ((np.int16(round(level)) + shine - part) * share) >> 6


def specks(rng: Rng, canvas: Canvas, sketch: Sketch, count: int, largest_px: float, bright: bool) -> None:
    """Draw dust, crumbs and drops of condensation; small specks are more frequent than large ones."""
    position = rng.array(count, 2) * canvas.size
    radius = 0.25 + largest_px * rng.array(count) ** 3
    level = rng.array(count, 1, low=150, high=250) if bright else rng.array(count, 1, low=0, high=70)
    sketch.add(position, position + rng.bell(count, 2) * 0.7, radius, radius, level, rng.uniform(0.3, 0.9))


def bubbles(rng: Rng, canvas: Canvas, sketch: Sketch, count: int) -> None:
    """Draw small rings: bubbles and drops under glass."""
    turn = np.linspace(0.0, 2 * math.pi, 13)
    circle = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    for _ in range(count):
        center, radius = rng.array(2) * canvas.size, rng.uniform(2.0, 9.0) * canvas.scale
        level = rng.choice((40.0, 70.0, 170.0, 210.0))
        sketch.line(center + circle * radius, rng.uniform(0.4, 0.8), level, rng.uniform(0.15, 0.6))


def scratches(rng: Rng, canvas: Canvas, sketch: Sketch, count: int) -> None:
    """Draw hairs, scratches and creases: long, thin, faint lines that are not roots."""
    for _ in range(count):
        x, y = (rng.array(2) * canvas.size).tolist()
        angle, length = rng.uniform(0, 2 * math.pi), rng.uniform(20, 300) * canvas.scale
        sway = np.cumsum(np.cumsum(rng.bell(9))) * rng.choice((0.0, 0.3, 1.5)) * canvas.scale
        path = wavy_line((x, y), (x + length * math.cos(angle), y + length * math.sin(angle)), sway)
        level = rng.choice((15.0, 60.0, 160.0, 235.0))
        sketch.line(path, rng.uniform(0.25, 0.7), level, rng.uniform(0.1, 0.55))


def wires(rng: Rng, canvas: Canvas, sketch: Sketch, heights: Sequence[float]) -> None:
    """Draw wires across the whole image, sagging a little; `heights` are their y in its middle."""
    width, _ = canvas.size
    level, tint = rng.uniform(40, 190), rng.uniform(-15, 15)
    slope = rng.uniform(-0.06, 0.06) * width / 2
    radius, opacity = rng.uniform(0.4, 1.1) * max(canvas.scale, 0.5), rng.uniform(0.5, 1.0)
    for y in heights:
        sag = np.linspace(-1, 1, 12) ** 2 * rng.uniform(0, 6) * canvas.scale
        path = wavy_line((-5.0, y - slope), (width + 5.0, y + slope), -sag)
        sketch.line(path, radius, (level + tint, level, level - tint), opacity)


def posts(rng: Rng, canvas: Canvas, count: int) -> None:
    """Paint stakes and posts of wood, metal or concrete, shaded across and streaked along."""
    width, height = canvas.size
    for _ in range(count):
        thick = rng.uniform(2.5, 18.0) * canvas.scale
        left = rng.uniform(-thick, width)
        top, bottom = height * rng.uniform(-0.1, 0.45), height * rng.uniform(0.8, 1.1)
        rows, columns = inside((left, top, left + thick, bottom), canvas.size)
        level, warm = rng.uniform(50, 190), rng.uniform(0, 35)
        across = np.linspace(-1, 1, columns.stop - columns.start)
        shade = np.floor(rng.uniform(-40, 40) * across - rng.uniform(5, 30) * across**2).astype(np.int16)
        grain = noise.window(noise.streaks(), rng, canvas.size)[rows, columns].astype(np.int16)
        body = ((grain * np.int16(rng.whole(2, 30))) >> 6) + shade
        for plane, tone in zip(canvas.planes, (level + 0.6 * warm, level, level - warm), strict=True):
            plane[rows, columns] = body + np.int16(round(tone))


def leaves(
    sketch: Sketch,
    start: FloatArray,
    angle: FloatArray,
    length: FloatArray,
    width: FloatArray,
    color: FloatArray,
    blunt: float = 0.2,
) -> None:
    """Draw leaves, each as two tapered strokes that are thickest where they meet.

    They start at (L,2) points in directions `angle` (L,), radians. `blunt` is the radius at base and tip as a fraction
    of the width; small for pointed leaves.
    """
    step = np.stack([np.cos(angle), np.sin(angle)], axis=1) * length[:, None]
    middle = start + 0.45 * step
    sketch.add(start, middle, width * blunt, width * 0.5, color, roundness=18)
    sketch.add(middle, start + step, width * 0.5, width * blunt, color, roundness=18)


def scatter_leaves(
    rng: Rng, sketch: Sketch, points: FloatArray, count: int, length_px: float, color: Color, stray_px: float
) -> None:
    """Draw leaves near given points (M,2), M > 0.

    `length_px` and `color` are means; `stray_px` is the standard deviation of the distance from the points along x and
    y.
    """
    position = points[(rng.array(count) * len(points)).astype(np.intp)] + rng.bell(count, 2) * stray_px
    length = length_px * rng.array(count, low=0.6, high=1.4)
    light, hue = rng.array(count, 1, low=0.55, high=1.4), rng.bell(count, 1) * 8
    colors = np.asarray(color) * light + hue * (1.0, 0.0, -0.5)
    leaves(sketch, position, rng.array(count, high=2 * math.pi), length, length * rng.uniform(0.35, 0.75), colors)


def grass_tufts(rng: Rng, canvas: Canvas, sketch: Sketch, feet: FloatArray) -> None:
    """Draw blades of grass around and in front of the feet (R,2) of trunks."""
    reach = rng.uniform(6, 22) * canvas.scale
    start = np.repeat(feet, rng.whole(15, 60), axis=0)
    start = start + rng.bell(len(start), 2) * (reach * 1.5, reach * 0.2) + (0.0, reach * 0.4)
    angle = -math.pi / 2 + rng.bell(len(start)) * 0.4
    tip = start + np.stack([np.cos(angle), np.sin(angle)], axis=1) * reach * rng.array(len(start), 1, low=0.3, high=1.0)
    dry = rng.uniform(0, 1)
    green = np.asarray((75 + 75 * dry, 105 + 15 * dry, 45 + 30 * dry)) * rng.uniform(0.5, 1.3)
    sketch.add(start, tip, 0.6 * canvas.scale + 0.2, 0.25, green * rng.array(len(start), 1, low=0.6, high=1.3))


def seed_grain(rng: Rng, canvas: Canvas, sketch: Sketch, base: tuple[float, float], size_px: float) -> None:
    """Draw a golden grain just above the base of a root, often with its shoot."""
    x, y = base
    if rng.chance(0.7):
        height, lean = rng.uniform(20, 160) * canvas.scale, rng.uniform(-0.7, 0.7)
        sway = np.sin(np.linspace(0, math.pi, 9)) * rng.uniform(-0.25, 0.25) * height
        path = wavy_line((x, y - size_px), (x + lean * height, y - height), sway)
        green = rng.uniform(0, 60)
        thick = np.linspace(size_px * rng.uniform(0.2, 0.34), size_px * 0.15, 9)
        sketch.line(path, thick, (205 - green, 205 - green * 0.3, 120 - green), 0.95, roundness=28)
    share = np.linspace(0.0, 1.0, 7)
    spine = base + np.outer(1 - share, (rng.uniform(-0.35, 0.35) * size_px * 1.9, -size_px * 1.9))
    plump = size_px * rng.uniform(0.42, 0.6) * np.sqrt(np.maximum(1 - (1.1 * share - 0.5) ** 2 * 3.2, 0.05))
    level, green = rng.uniform(0.75, 1.1), rng.uniform(-15, 10)
    sketch.line(spine, plump, (205 * level, (155 + green) * level, (75 + green) * level), roundness=35)


def rosette(rng: Rng, sketch: Sketch, base: tuple[float, float], size_px: float) -> None:
    """Draw the first leaves of a seedling above the base of its root."""
    count = rng.whole(2, 5)
    stalk = np.asarray(base) + np.asarray((rng.uniform(-0.5, 0.5), -rng.uniform(0.3, 1.4))) * size_px
    pale = rng.uniform(0, 90)
    sketch.line(np.stack([np.asarray(base), stalk]), max(0.5, size_px * 0.09), (165, 185, 120), 0.9)
    spread = np.linspace(-1.3, 1.3, count) + rng.bell(count) * 0.25 - math.pi / 2
    length = size_px * rng.array(count, low=0.5, high=1.0)
    color = np.tile((75 + pale, 125 + pale * 0.8, 35 + pale * 0.7), (count, 1))
    start = np.tile(stalk, (count, 1))
    leaves(sketch, start, spread, length, length * rng.uniform(0.5, 0.8), color, blunt=rng.uniform(0.2, 0.4))
