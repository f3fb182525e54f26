"""The row in which a vine stands: wires, posts, irrigation hose and neighboring vines."""

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
from treeformer.synthetic.scenes.outdoor.far_rows import VARIANTS, VINE_TRUNK_PX, grown_plant

MAX_ENLARGEMENT = 1.6  # beyond this, a neighbor would look like an enlarged smaller plant


@dataclass(frozen=True, slots=True)
class Trellis:
    """Position of a row of vines in perspective: all lines along the row meet at one point of the horizon."""

    foot: float  # y at which the vines stand, px
    wire: float  # y of the lowest wire, px
    top: float  # y of the top of the row, px
    horizon_y: float  # y of the horizon, px
    turn: float  # relative difference in size between the right and the left edge of the image
    width: int  # width of the image, px

    def y_at(self, x: FloatArray | float, y: FloatArray | float) -> FloatArray:
        """Return y at columns x for lines along the row that are at y in the middle of the image."""
        return np.asarray(self.horizon_y + (y - self.horizon_y) * (1 + self.turn * (x / self.width - 0.5)))


def fit_trellis(rng: Rng, canvas: Canvas, skeleton: Skeleton, horizon: float) -> Trellis:
    """Place the trellis of a vine, with the lowest wire at the height of the arms. The skeleton may be empty."""
    foot = (
        float(skeleton.nodes[skeleton.component_root[0], 1]) if len(skeleton.component_root) else canvas.size[1] * 0.9
    )
    highest = float(skeleton.nodes[:, 1].min()) if len(skeleton) else foot * 0.2
    # Spurs are also labeled as arms, but their parents are arms.
    axes = skeleton.axes if skeleton.has_explicit_axes else ()
    arms = [axis for axis in axes if axis.label == "arm" and axis.parent == 0]
    heights = sorted(float(skeleton.nodes[node, 1]) for axis in arms for node in axis.nodes[len(axis.nodes) // 2 :])
    wire = heights[len(heights) // 2] if heights else foot - 0.45 * (foot - highest)
    wire = min(wire, foot - 8.0)
    top = min(highest, wire - (foot - wire) * rng.uniform(0.5, 1.0))
    return Trellis(foot, wire, top, horizon, rng.uniform(-0.1, 0.1), canvas.size[0])


def wires(rng: Rng, canvas: Canvas, sketch: Sketch, trellis: Trellis, light: Daylight) -> None:
    """Draw three to five wires from the arms upwards, and sometimes the irrigation hose of the row."""
    count = rng.whole(2, 4)
    rise = (trellis.wire - trellis.top) / count
    heights = [trellis.wire + rng.uniform(-1, 3) * canvas.scale]
    heights += [trellis.wire - rise * (wire + rng.uniform(0.5, 0.9)) for wire in range(count)]
    level = rng.uniform(70, 190) * light.level
    x = np.linspace(-6.0, trellis.width + 6.0, 9)
    sag = (1 - np.linspace(-1, 1, 9) ** 2) * rng.array(len(heights), 1, high=4.0) * canvas.scale
    y = trellis.y_at(x, np.asarray(heights)[:, None]) + sag
    path = np.stack([np.broadcast_to(x, y.shape), y], axis=2)
    radius = rng.uniform(0.3, 0.6) * max(canvas.scale, 0.6)
    ends = (path[:, :-1].reshape(-1, 2), path[:, 1:].reshape(-1, 2))
    sketch.add(*ends, radius, radius, (level, level, level * 1.02), 0.8)
    if rng.chance(0.4):
        middle = trellis.foot - (trellis.foot - trellis.wire) * rng.uniform(0.35, 0.7)
        hose = trellis.y_at(x, middle) + np.cumsum(rng.bell(9)) * 0.8 * canvas.scale
        sketch.line(np.stack([x, hose], axis=1), rng.uniform(1.3, 2.4) * canvas.scale, (34, 34, 38), roundness=-16)


def post(
    rng: Rng, canvas: Canvas, x: float, top: float, bottom: float, thickness: float, light: Daylight, color: Color
) -> None:
    """Paint a round post of wood or metal, streaked along and lit from the side of the sun."""
    rows, columns = inside((x - thickness / 2, top, x + thickness / 2, bottom), canvas.size)
    post_width, post_height = columns.stop - columns.start, rows.stop - rows.start
    if post_width == 0 or post_height == 0:
        return
    across = (np.arange(post_width) + 0.5) / post_width * 2 - 1
    roundness = (
        0.62 + 0.35 * np.sqrt(np.maximum(1 - across * across, 0)) + 0.35 * light.sun * across * light.sun_direction[0]
    )
    grain: Int16Array = noise.window(noise.streaks(), rng, canvas.size)[rows, columns].astype(np.int16)
    grain += noise.window(noise.rough(), rng, canvas.size)[rows, columns] >> 1
    for plane, level in zip(canvas.planes, color, strict=True):
        body = np.floor(roundness * (level * light.level)).astype(np.int16)
        plane[rows, columns] = body + ((grain * np.int16(round(level * 0.13))) >> 6)


def posts(rng: Rng, canvas: Canvas, trellis: Trellis, keep_free: float, light: Daylight) -> list[FloatArray]:
    """Paint the posts that carry the wires, away from x = `keep_free`, and sometimes a stake beside the vine itself.

    Return one (3,) array per post: x and y of its foot and half its thickness.
    """
    width = canvas.size[0]
    row_height = trellis.foot - trellis.top
    wood = rng.weighted((((124, 110, 94), 2.0), ((142, 136, 128), 1.5), ((108, 86, 68), 1.0), ((150, 150, 152), 0.8)))
    thickness = row_height * rng.uniform(0.022, 0.05)
    feet = []
    for _ in range(rng.weighted(((0, 0.3), (1, 0.55), (2, 0.15)))):
        x = rng.uniform(0, width)
        if abs(x - keep_free) > 4 * thickness:
            post_top = float(trellis.y_at(x, trellis.top)) - row_height * rng.uniform(0.0, 0.12)
            foot = float(trellis.y_at(x, trellis.foot))
            post(rng, canvas, x, post_top, foot, thickness, light, wood)
            feet.append(np.asarray((x, foot, thickness / 2)))
    if rng.chance(0.35):
        x = keep_free + rng.choice((-1.0, 1.0)) * rng.uniform(0.02, 0.05) * row_height
        post_top = trellis.wire - row_height * rng.uniform(0.05, 0.3)
        stake_thickness = max(1.6, thickness * rng.uniform(0.2, 0.4))
        post(
            rng,
            canvas,
            x,
            post_top,
            trellis.foot,
            stake_thickness,
            light,
            rng.choice(((150, 128, 90), (120, 118, 116))),
        )
        feet.append(np.asarray((x, trellis.foot, stake_thickness / 2)))
    return feet


def neighbors(
    rng: Rng,
    canvas: Canvas,
    sketch: Sketch,
    trellis: Trellis,
    base_x: float,
    trunk_radius: float,
    wood: Wood,
    brightness: float,
) -> list[tuple[FloatArray, FloatArray]]:
    """Draw the vines to the left and right of the main vine at x = `base_x`, slightly out of focus.

    Return the foot (2,) of each and the points (K,2) on its arms and canes. `brightness` is about 1.
    """
    vines = []
    spacing = (trellis.foot - trellis.wire) * rng.uniform(1.8, 2.8)
    softness = rng.uniform(1.0, 1.8) * max(canvas.scale, 0.5)
    old, young = (np.asarray(color) * brightness for color in (wood.old, wood.young))
    for side in (-1.0, 1.0):
        x = base_x + side * spacing * rng.uniform(0.9, 1.1)
        if not -0.35 * spacing < x < canvas.size[0] + 0.35 * spacing:
            continue
        plant = grown_plant("vine", rng.whole(0, VARIANTS - 1))
        foot, wire = float(trellis.y_at(x, trellis.foot)), float(trellis.y_at(x, trellis.wire))
        scale = np.asarray((rng.choice((-1.0, 1.0)), 1.0)) * min((foot - wire) / plant.wire, MAX_ENLARGEMENT)
        start, end = plant.start * scale + (x, foot), plant.end * scale + (x, foot)
        radius_scale = (1 - plant.young) * min(trunk_radius / VINE_TRUNK_PX, 1.8) + plant.young * scale[1]
        color = old + plant.young[:, None] * (young - old)
        visible = np.flatnonzero((start[:, 0] > -20) & (start[:, 0] < canvas.size[0] + 20))
        start_radius, end_radius = (
            np.maximum(radius * radius_scale, 0.5 * canvas.scale)[visible]
            for radius in (plant.start_radius, plant.end_radius)
        )
        shading = 0.2 * float(old[1])
        sketch.add(
            start[visible],
            end[visible],
            start_radius,
            end_radius,
            color[visible],
            softness=softness,
            roundness=-shading,
        )
        bark_strips(rng, sketch, start[visible], end[visible], np.minimum(start_radius, end_radius), color[visible])
        vines.append((np.asarray((x, foot)), plant.points * scale + (x, foot)))
    return vines


def bark_strips(
    rng: Rng, sketch: Sketch, start: FloatArray, end: FloatArray, radius: FloatArray, color: FloatArray
) -> None:
    """Draw strips of bark along the thick ones of S strokes, darker and lighter than their colors (S,3).

    They lead from `start` to `end`, (S,2), and have a radius (S,).
    """
    thick = np.flatnonzero(radius > 2.5)
    thick = thick[(rng.array(4 * len(thick)) * len(thick)).astype(np.intp)]
    count = len(thick)
    step = end[thick] - start[thick]
    length = np.sqrt((step * step).sum(axis=1, keepdims=True))
    normal = np.stack([step[:, 1], -step[:, 0]], axis=1) / np.maximum(length, 1e-9)
    center = (
        start[thick]
        + step * rng.array(count, 1)
        + normal * (rng.array(count, 1, low=-0.85, high=0.85) * radius[thick, None])
    )
    half_step = step * rng.array(count, 1, low=0.2, high=0.6)
    sketch.add(
        center - half_step,
        center + half_step,
        0.75,
        0.75,
        color[thick] * rng.array(count, 1, low=0.5, high=1.3),
        softness=1.4,
    )
