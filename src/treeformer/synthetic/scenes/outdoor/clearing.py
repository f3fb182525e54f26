"""Objects on the ground of a plantation: bare strips, snow, prunings, posts, wires, stakes, and the glow of the sun.

`rows` are the rows of plants, and `horizon_y` is the first row of pixels below the sky.
"""

from __future__ import annotations

import numpy as np

from treeformer._util.arrays import FloatArray
from treeformer.skeleton import Skeleton
from treeformer.synthetic.painting import noise
from treeformer.synthetic.painting.canvas import Canvas, Color, Sketch
from treeformer.synthetic.painting.raster import Int16Array
from treeformer.synthetic.rng import Rng
from treeformer.synthetic.scenes.outdoor import ground, trellis
from treeformer.synthetic.scenes.outdoor.daylight import Daylight
from treeformer.synthetic.scenes.outdoor.plantation import Plantation

SMALL = 4  # soft patterns are computed at 1/SMALL of the size
POST_COLORS: tuple[Color, ...] = ((122, 112, 100), (146, 140, 132), (104, 92, 80), (156, 156, 158), (88, 80, 72))
STAKE_COLORS: tuple[Color, ...] = ((152, 130, 92), (122, 120, 118), (176, 158, 120), (70, 84, 70), (196, 196, 190))


def paint_strips(rng: Rng, canvas: Canvas, rows: Plantation, light: Daylight) -> None:
    """Paint the bare strips below all rows, and sometimes worn tracks between them, in perspective."""
    width, height = canvas.size
    top = int(rows.horizon_y) + 2
    if height - top < 2 * SMALL:
        return
    small = (-(-width // SMALL), -(-(height - top) // SMALL))
    x: FloatArray = (np.arange(small[0], dtype=np.float64) + 0.5) * SMALL
    y: FloatArray = top + (np.arange(small[1], dtype=np.float64) + 0.5) * ((height - top) / small[1])
    row, scale = rows.on_ground(x, y)
    off_row = np.abs(row - np.floor(row + 0.5)) * rows.row_gap  # distance from the nearest row
    half = rng.uniform(0.08, 0.24)
    cover = np.clip((half * 1.35 - off_row) / half * 90, 0, 64)
    if rng.chance(0.3):  # wheel tracks beside the middle of each alley
        track = np.abs(np.abs(row - np.floor(row)) - 0.5) * rows.row_gap
        cover = np.maximum(cover, np.clip((0.09 - np.abs(track - 0.28)) * 700, 0, 40))
    cover *= np.clip(scale * 6 - 0.4, 0, 1)  # strips merge with the alleys far away
    knots: Int16Array = np.floor(cover).astype(np.int16)
    weight = noise.enlarge(knots, (small[0] * SMALL, height - top))[:, :width]
    part = slice(top, height)
    size = (width, height - top)
    rough = (noise.window(noise.cirrus(), rng, size) >> 1) + (noise.window(noise.leaves(), rng, size) >> 1)
    weight += (rough * np.minimum(weight, np.int16(40))) >> 6
    np.clip(weight, np.int16(0), np.int16(rng.whole(36, 62)), out=weight)
    level = light.level * rng.uniform(0.75, 1.08)
    red, green, blue = rng.weighted(ground.EARTH)
    texture = noise.window(noise.gravel(), rng, size)
    canvas.mix((red * level, green * level, blue * level), weight, part, texture=texture, contrast=(0.3, 0.3, 0.26))


def paint_snow(rng: Rng, canvas: Canvas, horizon_y: int, light: Daylight) -> None:
    """Paint snow on the ground, closed or in patches."""
    width, height = canvas.size
    size = (width, height - horizon_y)
    weight: Int16Array = noise.window(noise.clouds(), rng, size).astype(np.int16)
    weight += noise.window(noise.mottle(), rng, size) >> 1
    weight += np.int16(rng.whole(-20, 90))
    np.clip(weight, np.int16(0), np.int16(58), out=weight)
    level = rng.uniform(0.92, 1.05) * min(light.level + 0.12, 1.05)
    texture = noise.window(noise.cirrus(), rng, size)
    color = (226 * level, 230 * level, 238 * level)
    canvas.mix(color, weight, slice(horizon_y, height), texture=texture, contrast=(0.1, 0.1, 0.08))


def paint_glow(rng: Rng, canvas: Canvas, horizon_y: int, light: Daylight) -> None:
    """Paint the glow of a low sun in the sky."""
    width, height = canvas.size
    small = (-(-width // 8), -(-height // 8))
    x = width * (0.5 + 0.6 * light.sun_direction[0])
    y = horizon_y * rng.uniform(0.3, 1.0)
    reach = width * rng.uniform(0.35, 0.9)
    across = ((np.arange(small[0]) + 0.5) * 8 - x) / reach
    down = ((np.arange(small[1]) + 0.5) * 8 - y) / reach
    near = np.maximum(1 - (across * across)[None, :] - (down * down)[:, None], 0.0)
    knots: Int16Array = np.floor(near * near * rng.uniform(30, 130)).astype(np.int16)
    glow = noise.enlarge(knots, (small[0] * 8, small[1] * 8))[:horizon_y, :width]
    canvas.add(glow, (1.0, 0.92, 0.74), slice(0, horizon_y))


def paint_mist(canvas: Canvas, rows: Plantation, haze: Color, mist: float) -> None:
    """Paint mist of a density from 0 to 1 over the distant ground and the foot of the sky."""
    height = canvas.size[1]
    below = (np.arange(height) - rows.horizon_y) / max(rows.foot[1] - rows.horizon_y, 1.0)
    above = -below * (rows.foot[1] - rows.horizon_y) / rows.height_px
    share = np.where(below > 0, np.maximum(1 - below, 0.0), np.maximum(1 - 2.5 * above, 0.0))
    weight: Int16Array = np.floor(share * min(mist * 1.6, 0.9) * 64).astype(np.int16)
    canvas.mix(haze, np.repeat(weight[:, None], canvas.size[0], axis=1))


def shadow_slope(rng: Rng, light: Daylight) -> tuple[float, float]:
    """Draw how far a shadow lies off the foot, to the right and downwards, per px of height."""
    sideways = -light.sun_direction[0] / max(-light.sun_direction[1], 0.25) * 0.8
    return sideways, rng.uniform(0.06, 0.25) * (-1 if light.sun_direction[2] > 0 else 1)


def scatter(rng: Rng, canvas: Canvas, sketch: Sketch, rows: Plantation, light: Daylight, wood: Color) -> None:
    """Draw prunings, fallen leaves and stones on the ground, smaller with distance."""
    width = canvas.size[0]
    depth = max(rows.foot[1] - rows.horizon_y, 8.0)

    def spots(count: int, on_row: float) -> tuple[FloatArray, FloatArray]:
        """Return (count,2) px and the size there; a share `on_row` lies in the subject's row."""
        scale = 0.35 + 0.9 * rng.array(count)
        scale = np.where(rng.array(count) < on_row, 1 + rng.bell(count) * 0.07, scale)
        y = rows.horizon_y + depth * scale
        return np.stack([rng.array(count, low=-0.05, high=1.05) * width, y], axis=1), scale[:, None]

    if rng.chance(0.5):
        center, scale = spots(rng.whole(6, 90), rng.uniform(0.0, 0.7))
        count = len(center)
        length = rows.height_px * rng.uniform(0.02, 0.07) * rng.array(count, 1, low=0.4, high=1.0) * scale
        step = np.stack([rng.array(count, low=-1.0, high=1.0), rng.array(count, low=-0.22, high=0.22)], axis=1) * length
        tone = np.asarray(wood) * rng.array(count, 1, low=0.7, high=1.35)
        radius = np.maximum(0.3, rng.array(count, low=0.35, high=0.95) * scale[:, 0] * canvas.scale)
        shade = np.asarray((0.0, 1.0)) * scale
        sketch.add(center - step + shade, center + step + shade, radius, radius, 26.0, 0.35, 1.6)
        sketch.add(center - step, center + step, radius, radius * 0.6, tone, 0.95)
    if rng.chance(0.5):
        center, scale = spots(rng.whole(20, 220), 0.2)
        count = len(center)
        red, green, blue = rng.choice(((140, 98, 58), (120, 92, 62), (158, 128, 70), (150, 148, 142), (96, 112, 58)))
        tone = np.asarray((red, green, blue)) * light.level * rng.array(count, 1, low=0.7, high=1.2)
        half = np.stack([rng.array(count, low=0.2, high=1.6), np.zeros(count)], axis=1) * scale * canvas.scale
        radius = (0.35 + 0.8 * rng.array(count)) * scale[:, 0] * canvas.scale
        sketch.add(center - half, center + half, radius, radius * 0.8, tone, 0.9)


def posts(rng: Rng, canvas: Canvas, sketch: Sketch, rows: Plantation, light: Daylight, *, has_subject: bool) -> None:
    """Draw the posts of the first rows; they keep away from a subject in front."""
    if rng.chance(0.35):
        return
    color = np.asarray(rng.choice(POST_COLORS)) * light.level * rng.uniform(0.8, 1.1)
    every = max(rows.plant_gap * rng.whole(2, 6), 1.2)
    tall = rng.uniform(0.5, 1.05)
    thick = rng.uniform(0.006, 0.018)
    tilt = rng.uniform(-0.03, 0.03)
    for number in range(3, -1, -1):
        along = (np.arange(-6.0, 7.0, dtype=np.float64) + rng.uniform(-0.5, 0.5)) * every
        x, y, scale = rows.project(along, float(number))
        kept = (scale > 0.15) & (scale < 1.3) & (x > -20) & (x < canvas.size[0] + 20)
        if has_subject:
            kept &= (np.abs(x - rows.foot[0]) > 0.07 * rows.height_px) | (scale < 0.7)
        for post_x, foot_y, size in np.stack([x, y, scale], axis=1)[kept].tolist():
            height = rows.height_px * size * tall * rng.uniform(0.95, 1.05)
            radius = max(rows.height_px * size * thick, 0.5)
            top = (post_x + height * (tilt + rng.uniform(-0.015, 0.015)), foot_y - height)
            tone = color * rng.uniform(0.85, 1.1)
            if radius > 2.2:
                red, green, blue = (tone / max(light.level, 0.1)).tolist()
                ground.darken_foot(canvas, np.asarray((post_x, foot_y)), radius * 1.5, 40)
                trellis.post(rng, canvas, post_x, top[1], foot_y, 2 * radius, light, (red, green, blue))
                ground.grass_in_front(rng, canvas, sketch, np.asarray((post_x, foot_y)), radius)
            else:
                sketch.line([(post_x, foot_y), top], radius, tone, 1.0, 1.0 + 0.8 * (1 - min(size, 1.0)), -24.0)


def wires(rng: Rng, canvas: Canvas, sketch: Sketch, rows: Plantation, light: Daylight, *, wire_px: float) -> None:
    """Draw the wires of the first two rows in perspective, and sometimes an irrigation hose.

    `wire_px` is the height of the arms of vines above the ground; 0 for trees, which do not always have wires.
    """
    has_wires = wire_px > 0 or rng.chance(0.5)
    along = np.linspace(-5.0, 5.0, 21)
    level = rng.uniform(60, 200) * light.level
    lowest = wire_px / rows.height_px if wire_px else rng.uniform(0.3, 0.5)
    heights = lowest + np.arange(rng.whole(2, 5)) * rng.uniform(0.12, 0.22)
    radius = rng.uniform(0.28, 0.6) * max(canvas.scale, 0.6)
    for number in (1, 0):
        x, y, scale = rows.project(along, float(number))
        shown = np.flatnonzero((scale > 0.1) & (scale < 2.5))
        if len(shown) < 2:
            continue
        x, y, scale = x[shown], y[shown], scale[shown]
        if has_wires:
            for height in heights.tolist():
                sag = rng.uniform(0.0, 0.01) * (1 - (np.arange(len(x)) % 5 - 2.0) ** 2 / 4)
                path = np.stack([x, y - (height - sag) * rows.height_px * scale], axis=1)
                sketch.line(path, radius * (0.7 if number else 1.0), (level, level, level * 1.02), 0.8)
        if number == 0 and rng.chance(0.4):
            height = rng.choice((0.0, rng.uniform(0.08, 0.28)))
            path = np.stack([x, y - height * rows.height_px * scale], axis=1)
            path[:, 1] += np.cumsum(rng.bell(len(path))) * 0.5 * canvas.scale
            sketch.line(path, rng.uniform(1.0, 2.2) * canvas.scale, (36, 36, 40), 1.0, 1.0, -14.0)


def stake(rng: Rng, sketch: Sketch, rows: Plantation, trunk_px: float, light: Daylight) -> None:
    """Draw a stake beside the subject, with one or two ties."""
    side = rng.choice((-1.0, 1.0))
    x, y = rows.foot
    radius = max(0.8, rows.height_px * rng.uniform(0.003, 0.009))
    x += side * (trunk_px * rng.uniform(1.1, 2.0) + radius + 1)
    height = rows.height_px * rng.uniform(0.25, 0.95)
    lean = rng.uniform(-0.05, 0.05)
    color = np.asarray(rng.choice(STAKE_COLORS)) * light.level * rng.uniform(0.75, 1.1)
    sketch.line([(x, y + 1), (x + lean * height, y - height)], radius, color, 1.0, 1.0, -18.0)
    for _ in range(rng.whole(0, 2)):
        share = rng.uniform(0.2, 0.9)
        knot = (x + lean * height * share, y - height * share)
        sketch.line([knot, (knot[0] - side * (trunk_px + radius * 2), knot[1] - 1)], 0.8, rng.uniform(20, 220), 0.9)


def trunk_cover(rng: Rng, skeleton: Skeleton, sketch: Sketch, light: Daylight) -> None:
    """Draw lime paint on the lower trunk."""
    if skeleton.radius is None or not skeleton.has_explicit_axes:
        return
    line = list(skeleton.axes[0].nodes)
    line = line[1 : max(4, int(len(line) * rng.uniform(0.2, 0.6)))]
    if len(line) < 4:
        return
    tone = np.asarray((222, 220, 210)) * light.level * rng.uniform(0.75, 0.95)
    radius = np.nan_to_num(skeleton.radius[line], nan=1.0) * 0.93
    tones = tone * rng.array(len(line) - 1, 1, low=0.88, high=1.05)
    sketch.line(skeleton.nodes[line], radius, tones, rng.uniform(0.45, 0.75), 2.0, -36.0)
