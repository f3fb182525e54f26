"""Photographs of a young plant in a pot: on a bench, in front of a wall or sheet, or in a greenhouse."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from treeformer._util.arrays import FloatArray
from treeformer.skeleton import Skeleton
from treeformer.synthetic.painting import noise
from treeformer.synthetic.painting.canvas import Canvas, Color, Sketch, snapped
from treeformer.synthetic.painting.material import Backdrop, Material, backdrop, paint_plant, plant_strokes
from treeformer.synthetic.painting.raster import Int16Array, rasterize_layers
from treeformer.synthetic.rng import Rng
from treeformer.synthetic.scenes.plate.dish import inside_outline

POT_COLORS: tuple[tuple[Color, float], ...] = (
    ((166, 92, 62), 2.0),  # terracotta
    ((38, 38, 42), 2.5),  # black plastic
    ((120, 118, 114), 1.0),
    ((206, 204, 198), 1.0),
    ((74, 96, 66), 0.6),
    ((92, 74, 58), 0.6),
)
SOILS: tuple[Color, ...] = ((56, 42, 34), (74, 56, 42), (42, 36, 34), (110, 92, 76), (150, 146, 138))
STEMS: tuple[Color, ...] = ((98, 116, 58), (112, 84, 62), (128, 112, 92), (84, 66, 52), (120, 132, 84), (110, 70, 62))
LEAF_GREENS: tuple[Color, ...] = (
    (78, 108, 52),
    (96, 122, 60),
    (62, 92, 54),
    (118, 132, 66),
    (104, 74, 66),
    (88, 112, 84),
)
MIN_CONTRAST = 36.0  # levels between the stem and its background
RIM_FLATTENING = 0.2  # height of the rim of a pot relative to its width
ARC = np.asarray([(math.cos(k * math.pi / 12), math.sin(k * math.pi / 12)) for k in range(13)])


class PottedScene:
    """Painter of one potted plant. Call `paint_room`, then `paint_plant`. Without nodes, the pot is empty.

    Attributes:
        base: (x, y) px at which the plant leaves the soil
        pot_px: half the width of the pot at its rim, px
        behind: strokes drawn behind the plant
        front: strokes drawn in front of the plant
    """

    def __init__(self, rng: Rng, canvas: Canvas, skeleton: Skeleton) -> None:
        self.rng, self.canvas, self.skeleton = rng, canvas, skeleton
        width, height = canvas.size
        self.base = (width * rng.uniform(0.3, 0.7), height * rng.uniform(0.7, 0.92))
        if len(skeleton.component_root):
            x, y = skeleton.nodes[skeleton.component_root[0]].tolist()
            self.base = (x, y)
        self.pot_px = min(canvas.size) * rng.uniform(0.08, 0.24)
        self.behind, self.front = Sketch(), Sketch()

    def paint_room(self) -> None:
        """Paint the background, the bench, other pots and the plant's own pot."""
        rng, canvas = self.rng, self.canvas
        pot_height = self.pot_px * rng.uniform(1.1, 2.2)
        bench_y = min(self.base[1] + pot_height * rng.uniform(0.55, 1.0), canvas.size[1] * 1.2)
        _paint_background(rng, canvas, int(bench_y))
        others = rng.weighted(((0, 0.45), (1, 0.2), (2, 0.2), (4, 0.15)))
        for _ in range(others):
            self._other_pot(bench_y)
        color = tinted(rng, rng.weighted(POT_COLORS))
        _paint_pot(rng, canvas, self.base, self.pot_px, pot_height, color)
        if rng.chance(0.3):
            self._stake()
        if rng.chance(0.3):
            self._label()

    def paint_plant(self) -> None:
        """Paint the plant, with leaves behind and in front of it."""
        rng, canvas, skeleton = self.rng, self.canvas, self.skeleton
        material = _stem_material(rng, backdrop(canvas, skeleton))
        leafiness = rng.weighted(((0.0, 0.34), (rng.uniform(0.1, 0.5), 0.42), (rng.uniform(0.5, 1.0), 0.24)))
        if leafiness and len(skeleton):
            self._leaves(leafiness)
        plant = plant_strokes(skeleton)
        layers = rasterize_layers((self.behind.strokes(), plant, self.front.strokes()), canvas.size)
        self.behind.draw(canvas, layers[0])
        paint_plant(rng, canvas, skeleton, material, plant, layers[1])
        self.front.draw(canvas, layers[2])

    def _leaves(self, leafiness: float) -> None:
        """Sketch leaves on stalks along the thin axes; a leafy plant hides parts of its stems."""
        rng, skeleton = self.rng, self.skeleton
        green = np.asarray(rng.choice(LEAF_GREENS)) * rng.uniform(0.75, 1.2)
        length = min(self.canvas.size) * rng.uniform(0.018, 0.07)
        tail, head = skeleton.edges.T
        above = self.base[1] - skeleton.nodes[:, 1]
        candidates = np.flatnonzero(above[head] > rng.uniform(0.05, 0.35) * float(above.max()))
        count = min(int(leafiness * len(candidates) * 0.75) + 1, 90)
        if len(candidates) == 0:
            return
        edge = candidates[(rng.array(count) * len(candidates)).astype(np.intp)]
        step = skeleton.nodes[head[edge]] - skeleton.nodes[tail[edge]]
        along = step / np.maximum(skeleton.edge_length[edge], 1e-9)[:, None]
        side = np.where(np.arange(count) % 2 == 0, 1.0, -1.0)[:, None]
        outwards = np.stack([along[:, 1], -along[:, 0]], axis=1) * side
        droop = rng.uniform(-0.5, 0.9)
        direction = outwards + along * rng.array(count, 1, low=0.0, high=0.7) + (0.0, droop)
        direction /= np.sqrt((direction * direction).sum(axis=1, keepdims=True) + 1e-6)
        size = length * rng.array(count, 1, low=0.5, high=1.15)
        start = skeleton.nodes[tail[edge]] + step * rng.array(count, 1)
        stalk = start + direction * size * rng.uniform(0.1, 0.5)
        middle, upper, tip = (stalk + direction * size * share for share in (0.38, 0.68, 1.0))
        half = size[:, 0] * rng.uniform(0.14, 0.34)
        tone = green * rng.array(count, 1, low=0.72, high=1.25)
        behind = np.flatnonzero(rng.array(count) < 0.5)
        ahead = np.setdiff1d(np.arange(count), behind)
        for sketch, chosen, light in ((self.behind, behind, 0.78), (self.front, ahead, 1.0)):
            color = tone[chosen] * light
            sketch.add(start[chosen], stalk[chosen], 0.5, 0.45, color * 0.9, 0.95)
            sketch.add(stalk[chosen], middle[chosen], half[chosen] * 0.35, half[chosen], color, 0.98, 1.2, 14.0)
            sketch.add(middle[chosen], upper[chosen], half[chosen], half[chosen] * 0.85, color, 0.98, 1.2, 14.0)
            sketch.add(upper[chosen], tip[chosen], half[chosen] * 0.85, half[chosen] * 0.15, color, 0.98, 1.2, 14.0)
            sketch.add(stalk[chosen], tip[chosen], 0.4, 0.3, color * 1.25, 0.5)

    def _stake(self) -> None:
        """Sketch a stake of bamboo or wire beside the stem, with ties."""
        rng = self.rng
        x, y = self.base
        x += rng.choice((-1.0, 1.0)) * self.pot_px * rng.uniform(0.08, 0.4)
        height = min(self.canvas.size) * rng.uniform(0.25, 0.8)
        lean = rng.uniform(-0.06, 0.06)
        color = np.asarray(rng.choice(((176, 150, 100), (120, 120, 122), (60, 100, 66), (214, 210, 200))))
        radius = self.canvas.scale * rng.uniform(0.8, 2.6)
        sketch = self.front if rng.chance(0.3) else self.behind
        sketch.line(
            [(x, y + 2), (x + lean * height, y - height)], radius, color * rng.uniform(0.7, 1.0), 1.0, 1.0, 12.0
        )

    def _label(self) -> None:
        """Sketch a plastic label in the soil."""
        rng = self.rng
        x, y = self.base[0] + self.pot_px * rng.uniform(-0.8, 0.8), self.base[1] + 2
        height = self.pot_px * rng.uniform(0.4, 0.9)
        level = rng.uniform(190, 245)
        color: Color = rng.choice(((level, level, level), (level, level * 0.9, 70.0)))
        top = (x + rng.uniform(-0.3, 0.3) * height, y - height)
        self.front.line([(x, y), top], self.pot_px * 0.09, color, 1.0, 1.0, 8.0)

    def _other_pot(self, bench_y: float) -> None:
        """Paint another pot out of focus, often with a blurred plant in it."""
        rng, canvas = self.rng, self.canvas
        width = canvas.size[0]
        x = self.base[0] + rng.choice((-1.0, 1.0)) * rng.uniform(0.22, 0.6) * width
        size = self.pot_px * rng.uniform(0.4, 0.85)
        foot = (x, bench_y - size * rng.uniform(1.2, 1.9))
        _paint_pot(rng, canvas, foot, size, size * rng.uniform(1.1, 1.8), tinted(rng, rng.weighted(POT_COLORS)))
        if rng.chance(0.4) or len(self.skeleton) == 0:
            return
        green = np.asarray(rng.choice(LEAF_GREENS)) * rng.uniform(0.5, 0.9)
        count = rng.whole(8, 36)
        height = size * rng.uniform(1.0, 3.5)
        lean = rng.array(count, low=-0.5, high=0.5) * height
        start = np.stack([np.full(count, x) + lean * 0.1, np.full(count, foot[1])], axis=1)
        end = np.stack([x + lean, foot[1] - height * rng.array(count, low=0.3, high=1.0)], axis=1)
        sketch = Sketch()
        sketch.add(start, end, size * 0.03 + 0.5, size * 0.02 + 0.4, green * 0.8, 0.8, 3.0)
        radius = size * rng.array(count, low=0.04, high=0.11) + 1.0
        leaf = rng.bell(count, 2) * (size * 0.14, size * 0.06)
        tone = green * rng.array(count, 1, low=0.7, high=1.25)
        sketch.add(end - leaf, end + leaf, radius, radius, tone, 0.8, 4.0)
        sketch.draw(canvas)


def tinted(rng: Rng, color: Color) -> Color:
    """Return a color, lighter or darker at random."""
    level = rng.uniform(0.75, 1.2)
    return (color[0] * level, color[1] * level, color[2] * level)


def _stem_material(rng: Rng, behind: Backdrop) -> Material:
    """Return the material of a green or woody stem in contrast with its background."""
    color = np.asarray(rng.choice(STEMS)) * rng.uniform(0.7, 1.25)
    level = float(color.sum() / 3)
    room = MIN_CONTRAST + 0.8 * behind.unrest
    if abs(level - behind.level) < room:
        target = behind.level - room if behind.level > 110 else behind.level + room
        color = color * (max(target, 10.0) / max(level, 1.0))
    thick: Color = (float(color[0]), float(color[1]), float(color[2]))
    young = color * rng.uniform(0.9, 1.2)
    material = Material(
        thin=(float(young[0]), float(young[1]), float(young[2])),
        thick=thick,
        shading=level * rng.uniform(0.1, 0.4),
        texture=level / 100 * rng.uniform(0.05, 0.5),
        variation=level * rng.uniform(0.0, 0.12),
        cut_base=True,
    )
    return replace(material, shadow=rng.uniform(0.08, 0.3)) if rng.chance(0.3) else material


def _paint_background(rng: Rng, canvas: Canvas, bench_y: int) -> None:
    """Paint a wall, a sheet, a dark room or a greenhouse, and the bench from the row `bench_y` down."""
    width, height = canvas.size
    kind = rng.weighted((("wall", 0.3), ("sheet", 0.22), ("dark", 0.13), ("greenhouse", 0.35)))
    level = rng.uniform(25, 60) if kind == "dark" else rng.uniform(110, 235)
    warm = rng.uniform(-0.06, 0.08)
    color: Color = (level * (1 + warm), level, level * (1 - warm))
    tile = {"wall": noise.mottle, "sheet": noise.folds, "dark": noise.weave, "greenhouse": noise.clouds}[kind]
    textures = [
        (noise.window(tile(), rng, canvas.size), rng.uniform(0.03, 0.2)),
        (noise.window(noise.clouds(), rng, canvas.size), rng.uniform(0.02, 0.2)),
    ]
    canvas.lay(color, textures)
    if kind == "greenhouse":
        _paint_greenhouse(rng, canvas, bench_y)
    elif kind == "wall" and rng.chance(0.35):  # bricks or tiles
        _paint_tiles(rng, canvas, level)
    if bench_y < height - 2:
        size = (width, height - bench_y)
        bench = rng.choice(((150.0, 124.0, 92.0), (176.0, 176.0, 174.0), (90.0, 92.0, 96.0), (122.0, 104.0, 84.0)))
        shade = rng.uniform(0.6, 1.1)
        grain = noise.window(noise.cirrus() if rng.chance(0.6) else noise.rough(), rng, size)
        weight: Int16Array = np.full((size[1], width), 64, dtype=np.int16)
        rows = slice(bench_y, height)
        canvas.mix(
            (bench[0] * shade, bench[1] * shade, bench[2] * shade), weight, rows, texture=grain, contrast=(0.18,) * 3
        )


def _paint_greenhouse(rng: Rng, canvas: Canvas, bench_y: int) -> None:
    """Paint blurred glazing bars, benches and green masses."""
    width, height = canvas.size
    sketch = Sketch()
    level = rng.uniform(60, 220)
    count = rng.whole(2, 7)
    x = rng.array(count) * width
    sketch.add(
        np.stack([x, np.zeros(count)], axis=1),
        np.stack([x + rng.bell(count) * 6, np.full(count, float(height))], axis=1),
        rng.uniform(1, 5) * canvas.scale,
        rng.uniform(1, 5) * canvas.scale,
        (level, level, level),
        0.6,
        rng.uniform(2.0, 5.0),
    )
    sketch.draw(canvas)
    green = rng.choice(LEAF_GREENS)
    mass = noise.soft_map(rng, (rng.whole(4, 9), rng.whole(3, 7)), canvas.size, -90, 110)
    mass += noise.window(noise.clouds(), rng, canvas.size) >> 1
    mass += ((np.arange(height) - bench_y) * 64 // max(height, 1)).astype(np.int16)[:, None]
    np.clip(mass, np.int16(0), np.int16(rng.whole(24, 56)), out=mass)
    shade = rng.uniform(0.5, 1.1)
    canvas.mix((green[0] * shade, green[1] * shade, green[2] * shade), mass)


def _paint_tiles(rng: Rng, canvas: Canvas, level: float) -> None:
    """Paint the joints of bricks or tiles."""
    width, height = canvas.size
    sketch = Sketch()
    down, across = rng.uniform(18, 70) * canvas.scale, rng.uniform(30, 110) * canvas.scale
    tone = level * rng.choice((0.75, 1.12))
    y = np.arange(rng.uniform(0, down), height, down)
    sketch.add(np.stack([y * 0, y], axis=1), np.stack([y * 0 + width, y], axis=1), 0.8, 0.8, tone, 0.5, 1.6)
    for index, top in enumerate(y.tolist()):
        x = np.arange((index % 2) * across / 2, width, across)
        start = np.stack([x, np.full(len(x), top)], axis=1)
        sketch.add(start, start + np.asarray((0.0, down)), 0.8, 0.8, tone, 0.5, 1.6)
    sketch.draw(canvas)


def _paint_pot(
    rng: Rng, canvas: Canvas, soil: tuple[float, float], half_px: float, height_px: float, color: Color
) -> None:
    """Paint a pot whose soil is at a point, with its rim, its soil and a shadow below."""
    x, y = soil
    taper = rng.uniform(0.65, 0.95)
    rim = half_px * RIM_FLATTENING
    lower = ARC * (half_px * taper, rim * taper) + (x, y + height_px)
    body = np.concatenate([[(x - half_px, y), (x + half_px, y)], lower])
    _fill(canvas, _closed(body + np.asarray((half_px * 0.12, 2.0))), (18.0, 18.0, 20.0), 24)  # contact shadow
    light = rng.uniform(-0.35, 0.35)
    columns = (np.arange(canvas.size[0]) + 0.5 - x) / half_px
    shade = np.floor((light * columns - 0.35 * columns * columns + 0.1) * 90)
    across: Int16Array = np.clip(shade, -90, 60).astype(np.int16)
    texture = noise.window(noise.rough() if rng.chance(0.5) else noise.clouds(), rng, canvas.size) >> 2
    edge = Sketch()
    for outline, tone in ((body, 1.0), (_band(x, y, half_px * 1.05, height_px * rng.uniform(0.08, 0.2)), 1.08)):
        _fill(canvas, _closed(outline), (color[0] * tone, color[1] * tone, color[2] * tone), 64, across, texture)
        edge.line(_closed(outline), 0.5, np.asarray(color) * (0.8 * tone), 0.6, 1.4)
    edge.draw(canvas)
    full = np.concatenate([ARC, -ARC[1:]])
    _fill(canvas, _closed(full * (half_px * 1.05, rim) + (x, y)), (color[0] * 0.8, color[1] * 0.8, color[2] * 0.8), 64)
    earth = tinted(rng, rng.choice(SOILS))
    inner = full * (half_px * 0.94, rim * 0.88) + (x, y + 0.5)
    _fill(canvas, _closed(inner), earth, 64, None, noise.window(noise.gravel(), rng, canvas.size))


def _band(x: float, y: float, half_px: float, height_px: float) -> FloatArray:
    """Return the outline of the rim of a pot, seen from the side, clockwise."""
    return np.asarray(
        [(x - half_px, y), (x + half_px, y), (x + half_px * 0.98, y + height_px), (x - half_px * 0.98, y + height_px)]
    )


def _closed(outline: FloatArray) -> FloatArray:
    """Return an outline that ends where it starts, on the grid of 1/64 px."""
    return snapped(np.concatenate([outline, outline[:1]]))


def _fill(
    canvas: Canvas,
    outline: FloatArray,
    color: Color,
    weight: int,
    across: Int16Array | None = None,
    texture: noise.Int8Array | None = None,
) -> None:
    """Fill a convex outline (M,2), clockwise and closed, with a color; `across` adds a level per column."""
    rows, inside = inside_outline(outline, canvas.size)
    if rows.stop <= rows.start:
        return
    surface = None if texture is None else texture[rows]
    canvas.mix(color, inside * np.int16(weight), rows, texture=surface, contrast=(0.3, 0.3, 0.3))
    if across is not None:
        tint = (color[0] / 128, color[1] / 128, color[2] / 128)
        canvas.add(inside * across, tint, rows)
