"""The rows of a vineyard: wires, posts, the hose and the neighbours of a vine, and the rows behind it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treeformer.axes import FloatArray
from treeformer.skeleton import Skeleton
from treeformer.synthetic import noise
from treeformer.synthetic.canvas import Canvas, Colour, Sketch, inside, snapped
from treeformer.synthetic.daylight import Daylight
from treeformer.synthetic.dice import Dice
from treeformer.synthetic.raster import Int16Array, rasterise, strokes, union

SHRINK = 4  # rows behind are drawn on so small a scale and enlarged: out of focus
TRUNK_POINTS, ARM_POINTS, CANE_POINTS = 6, 7, 4


@dataclass(frozen=True, slots=True)
class Trellis:
    """Where a row of vines stands: foot, lowest wire and top, px from the picture's top; all lines meet at one point.

    eye: the height of the horizon. turn: how much higher things are at the right edge than at the left, as a share.
    """

    foot: float
    wire: float
    top: float
    eye: float
    turn: float
    width: int

    def at(self, x: FloatArray, y: float) -> FloatArray:
        """The height at x of a line along the row that is at y in the middle."""
        return np.asarray(self.eye + (y - self.eye) * (1 + self.turn * (x / self.width - 0.5)))


def trellis_of(dice: Dice, canvas: Canvas, skeleton: Skeleton, horizon: float) -> Trellis:
    """The trellis in which a vine stands: its lowest wire at the height of the arms."""
    foot = float(skeleton.nodes[skeleton.bases[0], 1]) if len(skeleton.bases) else canvas.size[1] * 0.9
    highest = float(skeleton.nodes[:, 1].min()) if len(skeleton) else foot * 0.2
    arms = [axis for axis in skeleton.axes if axis.label == "arm"] if skeleton.has_file_axes else []
    heights = sorted(float(skeleton.nodes[node, 1]) for axis in arms for node in axis.nodes[len(axis.nodes) // 2 :])
    wire = heights[len(heights) // 2] if heights else foot - 0.45 * (foot - highest)
    wire = min(wire, foot - 8.0)
    top = min(highest, wire - (foot - wire) * dice.uniform(0.5, 1.0))
    return Trellis(foot, wire, top, horizon, dice.uniform(-0.1, 0.1), canvas.size[0])


def wires(dice: Dice, canvas: Canvas, sketch: Sketch, trellis: Trellis, light: Daylight) -> None:
    """Three to five wires from the arms upwards, and at times the hose that waters the row."""
    count = dice.whole(2, 4)
    rise = (trellis.wire - trellis.top) / count
    heights = [trellis.wire + dice.uniform(-1, 3) * canvas.scale]
    heights += [trellis.wire - rise * (k + dice.uniform(0.5, 0.9)) for k in range(count)]
    level = dice.uniform(70, 190) * light.level
    x = np.linspace(-6.0, trellis.width + 6.0, 9)
    for y in heights:
        sag = (np.linspace(-1, 1, 9) ** 2 - 1) * -dice.uniform(0, 4) * canvas.scale
        path = np.stack([x, trellis.at(x, y) + sag], axis=1)
        sketch.line(path, dice.uniform(0.3, 0.6) * max(canvas.scale, 0.6), (level, level, level * 1.02), 0.8)
    if dice.chance(0.4):
        y = trellis.foot - (trellis.foot - trellis.wire) * dice.uniform(0.35, 0.7)
        sag = np.cumsum(dice.bell(9)) * 0.8 * canvas.scale
        path = np.stack([x, trellis.at(x, y) + sag], axis=1)
        sketch.line(path, dice.uniform(1.3, 2.4) * canvas.scale, (34, 34, 38), roundness=-16)


def post(
    dice: Dice, canvas: Canvas, x: float, top: float, bottom: float, thick: float, light: Daylight, colour: Colour
) -> None:
    """A post of wood or metal, round, streaked along, lit from the sun's side."""
    rows, columns = inside((x - thick / 2, top, x + thick / 2, bottom), canvas.size)
    wide, tall = columns.stop - columns.start, rows.stop - rows.start
    if wide == 0 or tall == 0:
        return
    across = (np.arange(wide) + 0.5) / wide * 2 - 1
    round_ = 0.62 + 0.35 * np.sqrt(np.maximum(1 - across * across, 0)) + 0.35 * light.sun * across * light.towards[0]
    grain: Int16Array = noise.window(noise.streaks(), dice, canvas.size)[rows, columns].astype(np.int16)
    grain += noise.window(noise.rough(), dice, canvas.size)[rows, columns] >> 1
    for plane, level in zip(canvas.planes, colour, strict=True):
        body = np.floor(round_ * (level * light.level)).astype(np.int16)
        plane[rows, columns] = body + ((grain * np.int16(round(level * 0.22))) >> 6)


def posts(dice: Dice, canvas: Canvas, trellis: Trellis, keep_free: float, light: Daylight) -> None:
    """The posts that carry the wires, away from x = keep_free, and at times a stake beside the vine itself."""
    width = canvas.size[0]
    tall = trellis.foot - trellis.top
    wood = dice.weighted((((124, 110, 94), 2.0), ((142, 136, 128), 1.5), ((108, 86, 68), 1.0), ((150, 150, 152), 0.8)))
    thick = tall * dice.uniform(0.022, 0.05)
    for _ in range(dice.weighted(((0, 0.3), (1, 0.55), (2, 0.15)))):
        x = dice.uniform(0, width)
        if abs(x - keep_free) > 4 * thick:
            high = float(trellis.at(np.asarray(x), trellis.top)) - tall * dice.uniform(0.0, 0.12)
            post(dice, canvas, x, high, float(trellis.at(np.asarray(x), trellis.foot)), thick, light, wood)
    if dice.chance(0.35):
        x = keep_free + dice.choice((-1.0, 1.0)) * dice.uniform(0.02, 0.05) * tall
        high = trellis.wire - tall * dice.uniform(0.05, 0.3)
        thin = max(1.6, thick * dice.uniform(0.2, 0.4))
        post(dice, canvas, x, high, trellis.foot, thin, light, dice.choice(((150, 128, 90), (120, 118, 116))))


def vine_parts(
    dice: Dice, x: FloatArray, trellis: Trellis, spacing: float, radius: float, canes: int
) -> list[tuple[FloatArray, FloatArray]]:
    """Simple vines at x (V,): polylines (K,M,2) and radii (K,M) of their trunks, their arms and their canes."""
    count = len(x)
    rise = np.linspace(0.0, 1.0, TRUNK_POINTS)
    foot, wire = trellis.at(x, trellis.foot), trellis.at(x, trellis.wire)
    high = (foot - wire)[:, None]
    sway = np.cumsum(dice.bell(count, TRUNK_POINTS) * 0.025, axis=1) * high
    trunk = np.stack([x[:, None] + sway, foot[:, None] - rise * high], axis=2)
    thick = radius * dice.array(count, 1, low=0.7, high=1.2) * (1.15 - 0.35 * rise)
    out = np.linspace(0.0, 1.0, ARM_POINTS)
    side = np.concatenate([-np.ones(count), np.ones(count)])[:, None]
    head = np.tile(trunk[:, -1], (2, 1))
    arm_x = head[:, :1] + side * out * spacing * dice.array(2 * count, 1, low=0.4, high=0.54)
    arm_y = trellis.at(arm_x, trellis.wire) + np.cumsum(dice.bell(2 * count, ARM_POINTS), axis=1) * 0.006 * high.max()
    arm_y[:, 0] = head[:, 1]
    arm = np.stack([arm_x, arm_y], axis=2)
    arm_thick = radius * dice.array(2 * count, 1, low=0.3, high=0.6) * (1 - 0.4 * out)
    owner = (dice.array(canes) * 2 * count).astype(np.intp)
    place = dice.array(canes) * (ARM_POINTS - 1)
    before = np.minimum(place.astype(np.intp), ARM_POINTS - 2)
    share = (place - before)[:, None]
    start = arm[owner, before] * (1 - share) + arm[owner, before + 1] * share
    up = np.linspace(0.0, 1.0, CANE_POINTS)
    long = (trellis.wire - trellis.top) * dice.array(canes, 1, low=0.25, high=1.05)
    lean, bend = dice.bell(canes, 1) * 0.16, dice.bell(canes, 1) * 0.1
    cane = np.stack(
        [start[:, :1] + long * (lean * up + bend * up * up), start[:, 1:] - long * up * (1 - 0.04 * up)], axis=2
    )
    cane_thick = radius * dice.array(canes, 1, low=0.08, high=0.2) * (1.1 - 0.6 * up)
    return [(trunk, thick), (arm, arm_thick), (cane, cane_thick)]


def _segments(lines: FloatArray, radii: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Starts, ends and radii of the strokes of polylines (K,M,2) with radii (K,M)."""
    return (
        lines[:, :-1].reshape(-1, 2),
        lines[:, 1:].reshape(-1, 2),
        radii[:, :-1].reshape(-1),
        radii[:, 1:].reshape(-1),
    )


def neighbours(
    dice: Dice, canvas: Canvas, sketch: Sketch, trellis: Trellis, base_x: float, radius: float, old: Colour, young: Colour
) -> None:
    """The vines left and right of the one at base_x, their arms as far as its own, a little out of focus."""
    spacing = (trellis.foot - trellis.wire) * dice.uniform(1.6, 2.6) + 2 * radius
    steps = np.asarray([-2.0, -1.0, 1.0, 2.0])
    x = base_x + steps * spacing + dice.bell(4) * 0.06 * spacing
    reach = 0.5 * spacing
    x = x[(x > -reach) & (x < canvas.size[0] + reach)]
    if len(x) == 0:
        return
    parts = vine_parts(dice, x, trellis, spacing, radius, dice.whole(2, 7) * len(x))
    colours = (old, old, young)
    soft = dice.uniform(1.3, 2.6) * max(canvas.scale, 0.5)
    for (lines, radii), colour in zip(parts, colours, strict=True):
        start, end, first, last = _segments(lines, np.maximum(radii, 0.5 * canvas.scale))
        dark = 0.16 * sum(colour) / 3
        each = np.asarray(colour) * dice.array(len(start), 1, low=0.8, high=1.1)
        sketch.add(start, end, first, last, each, softness=soft, roundness=-dark if dice.chance(0.5) else dark)


def row_behind(dice: Dice, canvas: Canvas, trellis: Trellis, light: Daylight, haze: Colour, far: float) -> None:
    """A row some way behind, out of focus; far: how much of the air's colour it takes on."""
    width, height = canvas.size
    small = (-(-width // SHRINK), -(-height // SHRINK))
    tall = trellis.foot - trellis.wire
    spacing = tall * dice.uniform(1.5, 2.6)
    x = np.arange(dice.uniform(-1.0, 0.0) * spacing, width + spacing, max(spacing, 8.0))
    canes = min(len(x) * dice.whole(3, 12), 140)
    parts = vine_parts(dice, x, trellis, spacing, tall * dice.uniform(0.035, 0.06), canes)
    posts_x = np.arange(dice.uniform(0, 4) * spacing, width, 4 * spacing)
    upright = np.stack(
        [
            np.stack([posts_x, trellis.at(posts_x, trellis.foot)], axis=1),
            np.stack([posts_x, trellis.at(posts_x, trellis.top)], axis=1),
        ],
        axis=1,
    )
    parts.append((upright, np.full((len(posts_x), 2), tall * 0.035)))
    cover: Int16Array = np.zeros(small[0] * small[1], dtype=np.int16)
    joined = [np.concatenate(values) for values in zip(*(_segments(*part) for part in parts), strict=True)]
    start, end, first, last = (snapped(values / SHRINK) for values in joined)
    found = union(rasterise(strokes(start, end, np.maximum(first, 0.2), np.maximum(last, 0.12), 1.3), small))
    cover[found.pixel] = found.coverage >> 2
    cover = cover.reshape(small[1], small[0])
    top, bottom = max(0, int(trellis.top) - 12), min(height, int(trellis.foot) + 6)
    top, bottom = top // SHRINK * SHRINK, min(-(-bottom // SHRINK) * SHRINK, height)
    if bottom - top < 2 * SHRINK:
        return
    cut = cover[top // SHRINK : -(-bottom // SHRINK)]
    weight = noise.enlarge(cut, (width, bottom - top))
    brown = dice.choice(((96, 82, 68), (110, 98, 84), (86, 72, 56)))
    red, green, blue = (o * light.level * 0.75 * (1 - far) + h * far for o, h in zip(brown, haze, strict=True))
    canvas.mix((red, green, blue), weight, slice(top, bottom))
