"""The rows of a vineyard: wires, posts, the hose and the neighbors of a vine, and the rows behind it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treeformer._util.arrays import FloatArray
from treeformer.skeleton import Skeleton
from treeformer.synthetic.painting import noise
from treeformer.synthetic.painting.canvas import Canvas, Color, Sketch, inside
from treeformer.synthetic.painting.raster import Int16Array
from treeformer.synthetic.rng import Rng
from treeformer.synthetic.scenes.outdoor.bark import Wood
from treeformer.synthetic.scenes.outdoor.daylight import Daylight
from treeformer.synthetic.scenes.outdoor.far_rows import VARIANTS, VINE_TRUNK_PX, grown

MOST_ENLARGED = 1.6  # a neighbor larger than this would show that it was grown for a smaller image


@dataclass(frozen=True, slots=True)
class Trellis:
    """Where a row of vines stands: foot, lowest wire and top, px from the image's top; all lines meet at one point.

    eye: the height of the horizon. turn: how much higher things are at the right edge than at the left, as a share.
    """

    foot: float
    wire: float
    top: float
    eye: float
    turn: float
    width: int

    def at(self, x: FloatArray | float, y: FloatArray | float) -> FloatArray:
        """The height at x of lines along the row that are at y in the middle."""
        return np.asarray(self.eye + (y - self.eye) * (1 + self.turn * (x / self.width - 0.5)))


def trellis_of(rng: Rng, canvas: Canvas, skeleton: Skeleton, horizon: float) -> Trellis:
    """The trellis in which a vine stands: its lowest wire at the height of the arms."""
    foot = (
        float(skeleton.nodes[skeleton.component_root[0], 1]) if len(skeleton.component_root) else canvas.size[1] * 0.9
    )
    highest = float(skeleton.nodes[:, 1].min()) if len(skeleton) else foot * 0.2
    # Spurs are arms too, but of arms.
    axes = skeleton.axes if skeleton.has_explicit_axes else ()
    arms = [axis for axis in axes if axis.label == "arm" and axis.parent == 0]
    heights = sorted(float(skeleton.nodes[node, 1]) for axis in arms for node in axis.nodes[len(axis.nodes) // 2 :])
    wire = heights[len(heights) // 2] if heights else foot - 0.45 * (foot - highest)
    wire = min(wire, foot - 8.0)
    top = min(highest, wire - (foot - wire) * rng.uniform(0.5, 1.0))
    return Trellis(foot, wire, top, horizon, rng.uniform(-0.1, 0.1), canvas.size[0])


def wires(rng: Rng, canvas: Canvas, sketch: Sketch, trellis: Trellis, light: Daylight) -> None:
    """Three to five wires from the arms upwards, and at times the hose that waters the row."""
    count = rng.whole(2, 4)
    rise = (trellis.wire - trellis.top) / count
    heights = [trellis.wire + rng.uniform(-1, 3) * canvas.scale]
    heights += [trellis.wire - rise * (k + rng.uniform(0.5, 0.9)) for k in range(count)]
    level = rng.uniform(70, 190) * light.level
    x = np.linspace(-6.0, trellis.width + 6.0, 9)
    sag = (1 - np.linspace(-1, 1, 9) ** 2) * rng.array(len(heights), 1, high=4.0) * canvas.scale
    y = trellis.at(x, np.asarray(heights)[:, None]) + sag
    path = np.stack([np.broadcast_to(x, y.shape), y], axis=2)
    radius = rng.uniform(0.3, 0.6) * max(canvas.scale, 0.6)
    ends = (path[:, :-1].reshape(-1, 2), path[:, 1:].reshape(-1, 2))
    sketch.add(*ends, radius, radius, (level, level, level * 1.02), 0.8)
    if rng.chance(0.4):
        middle = trellis.foot - (trellis.foot - trellis.wire) * rng.uniform(0.35, 0.7)
        hose = trellis.at(x, middle) + np.cumsum(rng.bell(9)) * 0.8 * canvas.scale
        sketch.line(np.stack([x, hose], axis=1), rng.uniform(1.3, 2.4) * canvas.scale, (34, 34, 38), roundness=-16)


def post(
    rng: Rng, canvas: Canvas, x: float, top: float, bottom: float, thick: float, light: Daylight, color: Color
) -> None:
    """A post of wood or metal, round, streaked along, lit from the sun's side."""
    rows, columns = inside((x - thick / 2, top, x + thick / 2, bottom), canvas.size)
    wide, tall = columns.stop - columns.start, rows.stop - rows.start
    if wide == 0 or tall == 0:
        return
    across = (np.arange(wide) + 0.5) / wide * 2 - 1
    round_ = 0.62 + 0.35 * np.sqrt(np.maximum(1 - across * across, 0)) + 0.35 * light.sun * across * light.towards[0]
    grain: Int16Array = noise.window(noise.streaks(), rng, canvas.size)[rows, columns].astype(np.int16)
    grain += noise.window(noise.rough(), rng, canvas.size)[rows, columns] >> 1
    for plane, level in zip(canvas.planes, color, strict=True):
        body = np.floor(round_ * (level * light.level)).astype(np.int16)
        plane[rows, columns] = body + ((grain * np.int16(round(level * 0.13))) >> 6)


def posts(rng: Rng, canvas: Canvas, trellis: Trellis, keep_free: float, light: Daylight) -> list[FloatArray]:
    """The posts that carry the wires, away from x = keep_free, and at times a stake beside the vine itself.

    Returns (3,) x and y of the foot and half the thickness of each post.
    """
    width = canvas.size[0]
    tall = trellis.foot - trellis.top
    wood = rng.weighted((((124, 110, 94), 2.0), ((142, 136, 128), 1.5), ((108, 86, 68), 1.0), ((150, 150, 152), 0.8)))
    thick = tall * rng.uniform(0.022, 0.05)
    feet = []
    for _ in range(rng.weighted(((0, 0.3), (1, 0.55), (2, 0.15)))):
        x = rng.uniform(0, width)
        if abs(x - keep_free) > 4 * thick:
            high = float(trellis.at(x, trellis.top)) - tall * rng.uniform(0.0, 0.12)
            foot = float(trellis.at(x, trellis.foot))
            post(rng, canvas, x, high, foot, thick, light, wood)
            feet.append(np.asarray((x, foot, thick / 2)))
    if rng.chance(0.35):
        x = keep_free + rng.choice((-1.0, 1.0)) * rng.uniform(0.02, 0.05) * tall
        high = trellis.wire - tall * rng.uniform(0.05, 0.3)
        thin = max(1.6, thick * rng.uniform(0.2, 0.4))
        post(rng, canvas, x, high, trellis.foot, thin, light, rng.choice(((150, 128, 90), (120, 118, 116))))
        feet.append(np.asarray((x, trellis.foot, thin / 2)))
    return feet


def neighbors(
    rng: Rng,
    canvas: Canvas,
    sketch: Sketch,
    trellis: Trellis,
    base_x: float,
    thickness: float,
    wood: Wood,
    lit: float,
) -> list[tuple[FloatArray, FloatArray]]:
    """The vines left and right of the one at base_x, a little out of focus, in the same light `lit` (about 1).

    Returns of each where it stands (2,) and points (K,2) on its arms and canes.
    """
    found = []
    spacing = (trellis.foot - trellis.wire) * rng.uniform(1.8, 2.8)
    soft = rng.uniform(1.0, 1.8) * max(canvas.scale, 0.5)
    old, young = (np.asarray(color) * lit for color in (wood.old, wood.young))
    for side in (-1.0, 1.0):
        x = base_x + side * spacing * rng.uniform(0.9, 1.1)
        if not -0.35 * spacing < x < canvas.size[0] + 0.35 * spacing:
            continue
        plant = grown("vine", rng.whole(0, VARIANTS - 1))
        foot, wire = float(trellis.at(x, trellis.foot)), float(trellis.at(x, trellis.wire))
        scale = np.asarray((rng.choice((-1.0, 1.0)), 1.0)) * min((foot - wire) / plant.wire, MOST_ENLARGED)
        start, end = plant.start * scale + (x, foot), plant.end * scale + (x, foot)
        thick = (1 - plant.young) * min(thickness / VINE_TRUNK_PX, 1.8) + plant.young * scale[1]
        color = old + plant.young[:, None] * (young - old)
        seen = np.flatnonzero((start[:, 0] > -20) & (start[:, 0] < canvas.size[0] + 20))
        first, last = (
            np.maximum(radius * thick, 0.5 * canvas.scale)[seen] for radius in (plant.start_radius, plant.end_radius)
        )
        dark = 0.2 * float(old[1])
        sketch.add(start[seen], end[seen], first, last, color[seen], softness=soft, roundness=-dark)
        _bark_of(rng, sketch, start[seen], end[seen], np.minimum(first, last), color[seen])
        found.append((np.asarray((x, foot)), plant.points * scale + (x, foot)))
    return found


def _bark_of(
    rng: Rng, sketch: Sketch, start: FloatArray, end: FloatArray, radius: FloatArray, color: FloatArray
) -> None:
    """Strips of bark along the thick ones of strokes (S,2) to (S,2), darker and lighter than these are."""
    thick = np.flatnonzero(radius > 2.5)
    thick = thick[(rng.array(4 * len(thick)) * len(thick)).astype(np.intp)]
    count = len(thick)
    step = end[thick] - start[thick]
    length = np.sqrt((step * step).sum(axis=1, keepdims=True))
    out = np.stack([step[:, 1], -step[:, 0]], axis=1) / np.maximum(length, 1e-9)
    at = (
        start[thick]
        + step * rng.array(count, 1)
        + out * (rng.array(count, 1, low=-0.85, high=0.85) * radius[thick, None])
    )
    half = step * rng.array(count, 1, low=0.2, high=0.6)
    sketch.add(at - half, at + half, 0.75, 0.75, color[thick] * rng.array(count, 1, low=0.5, high=1.3), softness=1.4)
