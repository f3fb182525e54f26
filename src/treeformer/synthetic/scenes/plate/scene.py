"""Photographs of agar plates: the bench, the dish, the seedlings in it, and drops and reflections on its lid."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from treeformer._util.arrays import FloatArray
from treeformer.skeleton import Skeleton
from treeformer.synthetic.painting import noise
from treeformer.synthetic.painting.canvas import Canvas, Color, Sketch, snapped
from treeformer.synthetic.painting.material import (
    FAINTEST_LEVELS,
    Backdrop,
    Material,
    backdrop,
    paint_plant,
    plant_strokes,
    root_material,
)
from treeformer.synthetic.painting.raster import rasterize_layers
from treeformer.synthetic.rng import Rng
from treeformer.synthetic.scenes import clutter
from treeformer.synthetic.scenes.plate import dish, shoots

INKS: tuple[Color, ...] = ((52, 34, 82), (24, 22, 26), (24, 22, 26), (36, 40, 110), (206, 34, 44))
# Roots are paler than agar up to the first mean level, and sometimes up to the second.
DARK_LEVEL, PALE_LEVEL = 150.0, 200.0
ROW_DEPTH = 0.2  # fraction of the image height within which the bases of one row lie


class PlateScene:
    """Painter of one plate image: the position of the dish and the strokes behind and in front of the roots.

    Call `paint_dish`, then `paint_seedlings`. The kind of seedling is `cereal`, `sprout` or `rosette`, the skeleton may
    be empty.

    Attributes:
        bases: (R,2) px, the points at which the roots start
        behind: strokes drawn behind the roots
        front: strokes drawn in front of the roots
        dish: the dish around the seedlings
        bright: whether the dish is lit from below or lies on a white surface
        agar: color of the agar; set by `paint_dish`
    """

    def __init__(self, rng: Rng, canvas: Canvas, skeleton: Skeleton, kind: str) -> None:
        self.rng, self.canvas, self.skeleton, self.kind = rng, canvas, skeleton, kind
        self.bases: FloatArray = skeleton.nodes[skeleton.component_root]
        self.behind, self.front = Sketch(), Sketch()
        self.dish = _dish_around(rng, canvas, skeleton.nodes, self.bases)
        self.bright = rng.chance(0.18)  # lit from below or on a white surface
        self.agar: Color = (90, 100, 110)

    def paint_dish(self) -> None:
        """Paint the bench and the dish with its agar and rim, and sketch labels, scales, tape and drops."""
        rng, canvas, behind, plate = self.rng, self.canvas, self.behind, self.dish
        bench_color = _paint_bench(rng, canvas, self.bright)
        self.agar = _agar_color(rng, bench_color, self.bright)
        inner = dish.paint_dish(rng, canvas, behind, plate, self.agar, rng.uniform(0.0, 0.12))
        if rng.chance(0.1):
            dish.grid(rng, canvas, behind, inner)
        if rng.chance(0.3):
            self._film(inner)
        if rng.chance(0.2):
            self._agar_edge(inner)
        _paint_scales(rng, canvas, behind, plate)
        clutter.specks(rng, canvas, behind, rng.whole(0, 40), 1.1 * canvas.scale, bright=not self.bright)
        if not plate.is_round and rng.chance(0.18):
            dish.tape(rng, canvas, behind, plate)
        if rng.chance(0.75):
            self._labels(plate)

    def paint_seedlings(self) -> None:
        """Paint the roots, then the shoots, then drops and reflections on the lid."""
        rng, canvas, skeleton = self.rng, self.canvas, self.skeleton
        self._shoots()
        if rng.chance(0.3):
            self._condensation()
        if rng.chance(0.15):
            clutter.scratches(rng, canvas, self.front, rng.whole(1, 3))
        plant = plant_strokes(skeleton)
        stroke_sets = (self.behind.strokes(), plant, self.front.strokes())
        behind_layer, plant_layer, front_layer = rasterize_layers(stroke_sets, canvas.size)
        self.behind.draw(canvas, behind_layer)
        material = self._material(backdrop(canvas, skeleton))
        paint_plant(rng, canvas, skeleton, material, plant, plant_layer)
        self.front.draw(canvas, front_layer)
        for _ in range(rng.weighted(((0, 0.62), (1, 0.3), (2, 0.08)))):
            dish.shine(rng, canvas, self.dish)

    def _material(self, background: Backdrop) -> Material:
        """Return the material of the roots."""
        return _root_material(self.rng, background, self.canvas.scale)

    def _shoots(self) -> None:
        """Sketch the shoots of the plate's kind of seedling; some plates have none."""
        rng = self.rng
        if len(self.bases) == 0 or rng.chance(0.12):  # cut off or not yet grown
            return
        # The size of the shoots follows the spacing of the seedlings.
        span = float(self.bases[:, 0].max() - self.bases[:, 0].min())
        spacing = max(span / max(len(self.bases) - 1, 1), 8.0 * self.canvas.scale)
        size_px = min(spacing * rng.uniform(0.18, 0.52), 40.0 * self.canvas.scale)
        if self.kind == "cereal":
            shoots.blades(rng, self.front, self.bases, size_px)
        elif self.kind == "sprout":
            shoots.cotyledons(rng, self.front, self.bases, size_px)
        else:
            shoots.rosettes(rng, self.front, self.bases, size_px)

    def _labels(self, plate: dish.Dish) -> None:
        """Sketch line names above the seedlings, and the medium and the date along the bottom."""
        rng, sketch, scale = self.rng, self.behind, self.canvas.scale
        usable = 0.7 if plate.is_round else 1.0
        wide, high = plate.half[0] * usable, plate.half[1] * usable
        ink, size_px = rng.choice(INKS), rng.uniform(7, 15) * scale
        positions = [
            (share * wide - size_px, -high + size_px * 0.4) for share in (-0.75, -0.05, 0.62)[: rng.whole(0, 3)]
        ]
        positions += [(share * wide, high - size_px * 1.6) for share in (-0.8, 0.45)[: rng.whole(0, 2)]]
        if not positions:
            return
        for x, y in plate.place(np.asarray(positions)).tolist():
            clutter.writing(rng, sketch, (x, y), size_px * rng.uniform(0.8, 1.2), ink)

    def _film(self, inner: dish.Dish) -> None:
        """Sketch flat drops between agar and plastic: dark, blurred patches, mostly horizontal."""
        rng = self.rng
        patches, scale = rng.whole(1, 10), self.canvas.scale
        center = np.repeat(rng.array(patches, 2, low=-0.85, high=0.85) * inner.half, 3, axis=0)
        center += rng.bell(len(center), 2) * (4 * scale, 1.5 * scale)
        half_length = rng.array(len(center), 1, low=0, high=6) * (scale, 0.2 * scale)
        radius = rng.array(len(center), low=1.0, high=4.5) * scale
        shade = np.asarray(self.agar) * (1.15 if rng.chance(0.25) else rng.uniform(0.65, 0.88))
        ends = inner.place(center - half_length), inner.place(center + half_length)
        self.behind.add(*ends, radius, radius, shade, rng.uniform(0.2, 0.6), 2.0)

    def _agar_edge(self, inner: dish.Dish) -> None:
        """Sketch the cut edge of the agar above the seedlings: a bright line beside a dark one."""
        rng = self.rng
        if len(self.bases) == 0:
            return
        offset = float(self.bases[:, 1].min()) - inner.center[1] + rng.uniform(-6, 4) * self.canvas.scale
        for shift, level in ((0.0, 1.4), (1.8, 0.7)):
            ends = np.asarray([(-inner.half[0], offset + shift), (inner.half[0], offset + shift)])
            color = np.asarray(self.agar) * level
            self.behind.line(inner.place(ends), 0.8, color, rng.uniform(0.25, 0.6), 1.6)

    def _condensation(self) -> None:
        """Sketch fine drops on the lid, in clouds and streaks, each as a bright dot."""
        rng, plate = self.rng, self.dish
        count = rng.whole(30, 260)
        clouds = rng.whole(1, 5)
        cloud_center = rng.array(clouds, 2, low=-0.9, high=0.9)[(rng.array(count) * clouds).astype(np.intp)]
        offset = (cloud_center + rng.bell(count, 2) * rng.array(1, 2, low=0.05, high=0.4)) * plate.half
        position = plate.place(offset[np.abs(offset / plate.half).max(axis=1) < 0.95])
        radius = (0.25 + rng.array(len(position)) ** 4 * rng.uniform(0.6, 2.4)) * max(self.canvas.scale, 0.5)
        level = np.asarray(self.agar).max() + rng.array(len(position), 1, low=15, high=110)
        self.front.add(position, position, radius, radius, level, rng.uniform(0.3, 0.8))


def _dish_around(rng: Rng, canvas: Canvas, nodes: FloatArray, bases: FloatArray) -> dish.Dish:
    """Return a dish that holds all nodes (N,2); the frame cuts it if it is larger than the image."""
    width, height = canvas.size
    if len(nodes) == 0:
        nodes = np.asarray([(width * 0.2, height * 0.2), (width * 0.8, height * 0.6)])
    (left, top), (right, bottom) = nodes.min(axis=0).tolist(), nodes.max(axis=0).tolist()
    has_few_plants = len(bases) < 7
    spread = rng.uniform(1.25, 2.6) if has_few_plants and rng.chance(0.7) else rng.uniform(1.17, 1.36)
    half_width = max((right - left) / 2 * spread, width * 0.2)
    slack = half_width * (1 - 1 / spread) * 0.6
    x = (left + right) / 2 + slack * rng.uniform(-1.0, 1.0)
    headroom = half_width * rng.uniform(0.1, 0.26)
    min_height = (bottom - top) * 1.06 + headroom
    full_height = max(2 * half_width * rng.uniform(0.7, 1.05), min_height)
    if rng.chance(0.85):  # keep the whole dish inside the image
        lowest_x, highest_x = (left + right) / 2 - slack, (left + right) / 2 + slack
        x = min(max(x, min(half_width + 2, highest_x)), max(width - half_width - 2, lowest_x))
        full_height = max(min(full_height, height - 2 - (top - headroom)), min_height)
    y = top - headroom + full_height / 2
    sine = float(snapped(_slope(bases, height) + rng.uniform(-0.008, 0.008)))
    if rng.chance(0.16):  # a round dish
        across, down = (right - left) / 2, (bottom - top) / 2
        radius = math.sqrt(across * across + down * down) * rng.uniform(1.03, 1.2) + headroom * 0.3
        radius = max(radius, min(canvas.size) * 0.2)
        return dish.Dish(((left + right) / 2, (top + bottom) / 2), (radius, radius), radius)
    corner = min(half_width, full_height / 2) * rng.weighted(
        ((rng.uniform(0.02, 0.08), 0.45), (rng.uniform(0.12, 0.26), 0.55))
    )
    keystone = rng.uniform(-0.03, 0.03)
    return dish.Dish((x, y), (half_width, full_height / 2), corner, sine, keystone)


def _slope(bases: FloatArray, height: int) -> float:
    """Return the slope of the upper row of bases (R,2), from its first to its last, as the sine of an angle."""
    row = bases[bases[:, 1] < bases[:, 1].min(initial=np.inf) + ROW_DEPTH * height]
    if len(row) < 2:
        return 0.0
    first, last = row[row[:, 0].argmin()], row[row[:, 0].argmax()]
    step = last - first
    return min(max(float(step[1]) / max(float(step[0]), 1.0), -0.15), 0.15)


def _root_material(rng: Rng, background: Backdrop, scale: float) -> Material:
    """Return a root material that is paler than dark agar and mostly a little darker than bright agar."""
    material = root_material(rng, background, scale)
    min_contrast = (FAINTEST_LEVELS + 1.2 * background.unrest) / (material.opacity * background.coverage)
    if background.level <= DARK_LEVEL or (background.level <= PALE_LEVEL and rng.chance(0.4)):
        target = min(background.level + max(rng.uniform(40, 140), min_contrast), 252.0)
    else:
        target = max(background.level - max(rng.uniform(30, 110), min_contrast), 20.0)
    warm = rng.uniform(-8, 16)
    thin: Color = (target + 0.5 * warm, target, target - warm)
    return replace(material, thin=thin, thick=(thin[0] - 6, thin[1] - 6, thin[2] - 6))


def _paint_bench(rng: Rng, canvas: Canvas, bright: bool) -> Color:
    """Paint the surface below the dish (cloth, carton, scanner, bench, light table); return its color."""
    color: Color
    if bright:
        level = rng.uniform(185, 245)
        color = (level, level * rng.uniform(0.97, 1.01), level * rng.uniform(0.9, 1.03))
        canvas.lay(color, [(noise.window(noise.clouds(), rng, canvas.size), rng.uniform(0.0, 0.12))])
        return color
    kind = rng.weighted((("cloth", 0.6), ("scanner", 0.25), ("bench", 0.15)))
    if kind == "bench":
        color = rng.choice(((150.0, 122.0, 84.0), (118.0, 124.0, 132.0), (168.0, 160.0, 148.0), (70.0, 84.0, 100.0)))
        tile = rng.choice((noise.mottle, noise.clouds, noise.cirrus))
        canvas.lay(color, [(noise.window(tile(), rng, canvas.size), rng.uniform(0.05, 0.3))])
        return color
    level = rng.uniform(4, 34)
    color = (level * rng.uniform(0.9, 1.1), level, level * rng.uniform(0.9, 1.2))
    tile = rng.choice((noise.weave, noise.grain, noise.rough)) if kind == "cloth" else noise.clouds
    shade = noise.window(noise.clouds(), rng, canvas.size)
    canvas.lay(
        color,
        [(noise.window(tile(), rng, canvas.size), rng.uniform(0.03, 0.22)), (shade, rng.uniform(0.0, 0.16))],
    )
    if kind == "cloth" and rng.chance(0.45):
        _paint_carton(rng, canvas)
    return color


def _paint_carton(rng: Rng, canvas: Canvas) -> None:
    """Paint the walls of a carton on some sides of the cloth, with the cloth's frayed edge."""
    width, height = canvas.size
    level = rng.uniform(0.6, 1.05)
    warm = rng.uniform(0.75, 1.0)
    color: Color = (188 * level, 152 * level * (0.5 + 0.5 * warm), 104 * level * warm)
    texture = noise.window(noise.clouds(), rng, canvas.size)
    for side in ("left", "right", "top", "bottom"):
        if not rng.chance(0.65):
            continue
        depth, slant = rng.uniform(0.005, 0.04 if side == "top" else 0.13), rng.uniform(-0.03, 0.03)
        is_horizontal = side in ("top", "bottom")
        length, across = (width, height) if is_horizontal else (height, width)
        knots = (depth + slant * np.linspace(-1, 1, 24) + rng.bell(24) * 0.004) * across
        edge = noise.stretch(np.floor(np.minimum(np.maximum(knots, 0), 1000) * 4).astype(np.int16)[None], length)[0]
        strip = min(int(edge.max()) // 4 + 2, across)
        distance = np.arange(strip, dtype=np.int16) * np.int16(4)
        weight = np.clip((edge[:, None] - distance) << np.int16(4), 0, 60).astype(np.int16)  # (length, strip)
        start_strip, end_strip = slice(0, strip), slice(across - strip, across)
        part = start_strip if side in ("left", "top") else end_strip
        if part is end_strip:
            weight = weight[:, ::-1]
        rows, columns = (part, slice(0, width)) if is_horizontal else (slice(0, height), part)
        shade = rng.uniform(0.7, 1.1)
        side_color: Color = (color[0] * shade, color[1] * shade, color[2] * shade)
        weight = np.ascontiguousarray(weight.T if is_horizontal else weight)
        canvas.mix(side_color, weight, rows, columns, texture[rows, columns], (0.12, 0.12, 0.12))


def _agar_color(rng: Rng, bench_color: Color, bright: bool) -> Color:
    """Return the color of the agar: cloudy and bluish on dark surfaces, nearly clear on bright ones."""
    if bright:
        fraction = rng.uniform(0.72, 0.98)
        return (
            bench_color[0] * fraction,
            bench_color[1] * fraction,
            bench_color[2] * fraction * rng.uniform(0.92, 1.02),
        )
    level = rng.weighted(((rng.uniform(72, 125), 0.7), (rng.uniform(25, 65), 0.2), (rng.uniform(125, 165), 0.1)))
    cool = rng.uniform(-0.05, 0.2)
    return (level * (1 - cool), level * rng.uniform(0.98, 1.03), level * (1 + cool * rng.uniform(0.6, 1.2)))


def _paint_scales(rng: Rng, canvas: Canvas, sketch: Sketch, plate: dish.Dish) -> None:
    """Sometimes paint a long ruler beside the dish, a short paper scale on or below it, and a label."""
    width, height = canvas.size
    left_of_dish = plate.center[0] - plate.half[0] - 4
    if left_of_dish > 14 * canvas.scale and rng.chance(0.4):
        clutter.ruler(
            rng,
            canvas,
            sketch,
            (left_of_dish - min(left_of_dish, rng.uniform(25, 60) * canvas.scale), 0, left_of_dish, height),
        )
    length, thickness = width * rng.uniform(0.12, 0.45), rng.uniform(16, 28) * canvas.scale
    x = min(max(plate.center[0] + plate.half[0] * rng.uniform(-0.8, 0.2), 0.0), width - length)
    if rng.chance(0.25):
        y = plate.center[1] + plate.half[1] * (rng.uniform(0.5, 0.75) if rng.chance(0.5) else rng.uniform(1.1, 1.3))
        clutter.ruler(rng, canvas, sketch, (x, y, x + length, y + thickness))
    below_dish = plate.center[1] + plate.half[1] * 1.1
    if below_dish + thickness < height and rng.chance(0.15):
        paper = rng.uniform(130, 210)
        if rng.chance(0.6):
            canvas.box((x, below_dish, x + length, below_dish + thickness), (paper, paper * 0.94, paper * 0.8))
            ink, size_px = rng.choice(INKS[:3]), thickness * 0.55
        else:
            ink, size_px = INKS[-1], thickness * rng.uniform(0.8, 1.6)
        clutter.writing(rng, sketch, (x + 6, below_dish + thickness * 0.2), size_px, ink)
