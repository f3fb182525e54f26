"""Photographs of agar plates: what the dish lies on, the dish, the seedlings in it, what is on its lid."""

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
# Roots are paler than agar of a mean level up to the first, and at times up to the second.
DARK_LEVEL, PALE_LEVEL = 150.0, 200.0
ROW_DEPTH = 0.2  # bases of one row lie no farther below its highest than this share of the image's height


class PlateScene:
    """An image of a plate in the making: where the dish is, and what is still to be drawn behind and in front."""

    def __init__(self, rng: Rng, canvas: Canvas, skeleton: Skeleton, kind: str) -> None:
        self.rng, self.canvas, self.skeleton, self.kind = rng, canvas, skeleton, kind
        self.bases: FloatArray = skeleton.nodes[skeleton.component_root]
        self.behind, self.front = Sketch(), Sketch()
        self.dish = _dish_around(rng, canvas, skeleton.nodes, self.bases)
        self.bright = rng.chance(0.18)  # lit from below, or on white
        self.agar: Color = (90, 100, 110)

    def paint_dish(self) -> None:
        """The bench, the dish with its agar and rim, and what lies below it or is written on it."""
        rng, canvas, behind, plate = self.rng, self.canvas, self.behind, self.dish
        ground = _paint_bench(rng, canvas, self.bright)
        self.agar = _agar_color(rng, ground, self.bright)
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
        """Roots, then shoots, then drops and reflections on the lid."""
        rng, canvas, skeleton = self.rng, self.canvas, self.skeleton
        self._shoots()
        if rng.chance(0.3):
            self._condensation()
        if rng.chance(0.15):
            clutter.scratches(rng, canvas, self.front, rng.whole(1, 3))
        drawn = plant_strokes(skeleton)
        sets = (self.behind.strokes(), drawn, self.front.strokes())
        of_behind, of_plant, of_front = rasterize_layers(sets, canvas.size)
        self.behind.draw(canvas, of_behind)
        material = _root_material(rng, backdrop(canvas, skeleton), canvas.scale)
        paint_plant(rng, canvas, skeleton, material, drawn, of_plant)
        self.front.draw(canvas, of_front)
        for _ in range(rng.weighted(((0, 0.62), (1, 0.3), (2, 0.08)))):
            dish.shine(rng, canvas, self.dish)

    def _shoots(self) -> None:
        rng = self.rng
        if len(self.bases) == 0 or rng.chance(0.12):  # cut off, or not yet there
            return
        # Shoots are about as large as seedlings stand apart.
        span = float(self.bases[:, 0].max() - self.bases[:, 0].min())
        apart = max(span / max(len(self.bases) - 1, 1), 8.0 * self.canvas.scale)
        size_px = min(apart * rng.uniform(0.18, 0.52), 40.0 * self.canvas.scale)
        if self.kind == "cereal":
            shoots.blades(rng, self.front, self.bases, size_px)
        elif self.kind == "sprout":
            shoots.cotyledons(rng, self.front, self.bases, size_px)
        else:
            shoots.rosettes(rng, self.front, self.bases, size_px)

    def _labels(self, plate: dish.Dish) -> None:
        """Names of lines above the seedlings, and along the bottom the medium and the date."""
        rng, sketch, scale = self.rng, self.behind, self.canvas.scale
        fits = 0.7 if plate.is_round else 1.0
        wide, high = plate.half[0] * fits, plate.half[1] * fits
        ink, size_px = rng.choice(INKS), rng.uniform(7, 15) * scale
        places = [(share * wide - size_px, -high + size_px * 0.4) for share in (-0.75, -0.05, 0.62)[: rng.whole(0, 3)]]
        places += [(share * wide, high - size_px * 1.6) for share in (-0.8, 0.45)[: rng.whole(0, 2)]]
        if not places:
            return
        for x, y in plate.place(np.asarray(places)).tolist():
            clutter.writing(rng, sketch, (x, y), size_px * rng.uniform(0.8, 1.2), ink)

    def _film(self, inner: dish.Dish) -> None:
        """Flat drops between agar and plastic: dark, blurred patches, most of them lying."""
        rng = self.rng
        patches, scale = rng.whole(1, 10), self.canvas.scale
        at = np.repeat(rng.array(patches, 2, low=-0.85, high=0.85) * inner.half, 3, axis=0)
        at += rng.bell(len(at), 2) * (4 * scale, 1.5 * scale)
        half = rng.array(len(at), 1, low=0, high=6) * (scale, 0.2 * scale)
        radius = rng.array(len(at), low=1.0, high=4.5) * scale
        shade = np.asarray(self.agar) * (1.15 if rng.chance(0.25) else rng.uniform(0.65, 0.88))
        ends = inner.place(at - half), inner.place(at + half)
        self.behind.add(*ends, radius, radius, shade, rng.uniform(0.2, 0.6), 2.0)

    def _agar_edge(self, inner: dish.Dish) -> None:
        """Where the agar has been cut away above the seedlings: a bright line beside a dark one."""
        rng = self.rng
        if len(self.bases) == 0:
            return
        offset = float(self.bases[:, 1].min()) - inner.center[1] + rng.uniform(-6, 4) * self.canvas.scale
        for shift, level in ((0.0, 1.4), (1.8, 0.7)):
            ends = np.asarray([(-inner.half[0], offset + shift), (inner.half[0], offset + shift)])
            color = np.asarray(self.agar) * level
            self.behind.line(inner.place(ends), 0.8, color, rng.uniform(0.25, 0.6), 1.6)

    def _condensation(self) -> None:
        """Fine drops on the lid, in clouds and streaks: each a bright dot."""
        rng, plate = self.rng, self.dish
        count = rng.whole(30, 260)
        clouds = rng.whole(1, 5)
        center = rng.array(clouds, 2, low=-0.9, high=0.9)[(rng.array(count) * clouds).astype(np.intp)]
        at = (center + rng.bell(count, 2) * rng.array(1, 2, low=0.05, high=0.4)) * plate.half
        place = plate.place(at[np.abs(at / plate.half).max(axis=1) < 0.95])
        radius = (0.25 + rng.array(len(place)) ** 4 * rng.uniform(0.6, 2.4)) * max(self.canvas.scale, 0.5)
        level = np.asarray(self.agar).max() + rng.array(len(place), 1, low=15, high=110)
        self.front.add(place, place, radius, radius, level, rng.uniform(0.3, 0.8))


def _dish_around(rng: Rng, canvas: Canvas, nodes: FloatArray, bases: FloatArray) -> dish.Dish:
    """A dish that holds all nodes (N,2), cut by the frame where it is larger than the image."""
    width, height = canvas.size
    if len(nodes) == 0:
        nodes = np.asarray([(width * 0.2, height * 0.2), (width * 0.8, height * 0.6)])
    (left, top), (right, bottom) = nodes.min(axis=0).tolist(), nodes.max(axis=0).tolist()
    few = len(bases) < 7
    spread = rng.uniform(1.25, 2.6) if few and rng.chance(0.7) else rng.uniform(1.17, 1.36)
    half_width = max((right - left) / 2 * spread, width * 0.2)
    slack = half_width * (1 - 1 / spread) * 0.6
    x = (left + right) / 2 + slack * rng.uniform(-1.0, 1.0)
    above = half_width * rng.uniform(0.1, 0.26)
    held = (bottom - top) * 1.06 + above
    tall = max(2 * half_width * rng.uniform(0.7, 1.05), held)
    if rng.chance(0.85):  # whole plates are seen whole
        low, high = (left + right) / 2 - slack, (left + right) / 2 + slack
        x = min(max(x, min(half_width + 2, high)), max(width - half_width - 2, low))
        tall = max(min(tall, height - 2 - (top - above)), held)
    y = top - above + tall / 2
    turn = float(snapped(_slope(bases, height) + rng.uniform(-0.008, 0.008)))
    if rng.chance(0.16):  # a round one
        across, down = (right - left) / 2, (bottom - top) / 2
        radius = math.sqrt(across * across + down * down) * rng.uniform(1.03, 1.2) + above * 0.3
        radius = max(radius, min(canvas.size) * 0.2)
        return dish.Dish(((left + right) / 2, (top + bottom) / 2), (radius, radius), radius)
    corner = min(half_width, tall / 2) * rng.weighted(
        ((rng.uniform(0.02, 0.08), 0.45), (rng.uniform(0.12, 0.26), 0.55))
    )
    keystone = rng.uniform(-0.03, 0.03)
    return dish.Dish((x, y), (half_width, tall / 2), corner, turn, keystone)


def _slope(bases: FloatArray, height: int) -> float:
    """How much the upper row of bases (R,2) falls to the right, by its first and its last, as the sine of an angle."""
    row = bases[bases[:, 1] < bases[:, 1].min(initial=np.inf) + ROW_DEPTH * height]
    if len(row) < 2:
        return 0.0
    first, last = row[row[:, 0].argmin()], row[row[:, 0].argmax()]
    step = last - first
    return min(max(float(step[1]) / max(float(step[0]), 1.0), -0.15), 0.15)


def _root_material(rng: Rng, behind: Backdrop, scale: float) -> Material:
    """As roots anywhere, but always paler than dark agar; before bright agar mostly a little darker, never black."""
    material = root_material(rng, behind, scale)
    faintest = (FAINTEST_LEVELS + 1.2 * behind.unrest) / (material.opacity * behind.coverage)
    if behind.level <= DARK_LEVEL or (behind.level <= PALE_LEVEL and rng.chance(0.4)):
        target = min(behind.level + max(rng.uniform(40, 140), faintest), 252.0)
    else:
        target = max(behind.level - max(rng.uniform(30, 110), faintest), 20.0)
    warm = rng.uniform(-8, 16)
    thin: Color = (target + 0.5 * warm, target, target - warm)
    return replace(material, thin=thin, thick=(thin[0] - 6, thin[1] - 6, thin[2] - 6))


def _paint_bench(rng: Rng, canvas: Canvas, bright: bool) -> Color:
    """What the dish lies on: black cloth, at times in an open carton; a scanner; a bench; a light table."""
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
    """The walls of a carton around the cloth, on some sides, with the cloth's frayed edge."""
    width, height = canvas.size
    level = rng.uniform(0.6, 1.05)
    warm = rng.uniform(0.75, 1.0)
    color: Color = (188 * level, 152 * level * (0.5 + 0.5 * warm), 104 * level * warm)
    texture = noise.window(noise.clouds(), rng, canvas.size)
    for side in ("left", "right", "top", "bottom"):
        if not rng.chance(0.65):
            continue
        deep, slant = rng.uniform(0.005, 0.04 if side == "top" else 0.13), rng.uniform(-0.03, 0.03)
        lying = side in ("top", "bottom")
        length, other = (width, height) if lying else (height, width)
        knots = (deep + slant * np.linspace(-1, 1, 24) + rng.bell(24) * 0.004) * other
        edge = noise.stretch(np.floor(np.minimum(np.maximum(knots, 0), 1000) * 4).astype(np.int16)[None], length)[0]
        reach = min(int(edge.max()) // 4 + 2, other)
        inwards = np.arange(reach, dtype=np.int16) * np.int16(4)
        weight = np.clip((edge[:, None] - inwards) << np.int16(4), 0, 60).astype(np.int16)  # (length, reach)
        near, far = slice(0, reach), slice(other - reach, other)
        part = near if side in ("left", "top") else far
        if part is far:
            weight = weight[:, ::-1]
        rows, columns = (part, slice(0, width)) if lying else (slice(0, height), part)
        shade = rng.uniform(0.7, 1.1)
        own: Color = (color[0] * shade, color[1] * shade, color[2] * shade)
        weight = np.ascontiguousarray(weight.T if lying else weight)
        canvas.mix(own, weight, rows, columns, texture[rows, columns], (0.12, 0.12, 0.12))


def _agar_color(rng: Rng, ground: Color, bright: bool) -> Color:
    """Cloudy and bluish before dark things, hardly seen before bright ones."""
    if bright:
        share = rng.uniform(0.72, 0.98)
        return (ground[0] * share, ground[1] * share, ground[2] * share * rng.uniform(0.92, 1.02))
    level = rng.weighted(((rng.uniform(72, 125), 0.7), (rng.uniform(25, 65), 0.2), (rng.uniform(125, 165), 0.1)))
    cool = rng.uniform(-0.05, 0.2)
    return (level * (1 - cool), level * rng.uniform(0.98, 1.03), level * (1 + cool * rng.uniform(0.6, 1.2)))


def _paint_scales(rng: Rng, canvas: Canvas, sketch: Sketch, plate: dish.Dish) -> None:
    """At times a long ruler beside the dish, and a short scale of paper on it or below it, a label of tape."""
    width, height = canvas.size
    beside = plate.center[0] - plate.half[0] - 4
    if beside > 14 * canvas.scale and rng.chance(0.4):
        clutter.ruler(
            rng, canvas, sketch, (beside - min(beside, rng.uniform(25, 60) * canvas.scale), 0, beside, height)
        )
    long, thick = width * rng.uniform(0.12, 0.45), rng.uniform(16, 28) * canvas.scale
    x = min(max(plate.center[0] + plate.half[0] * rng.uniform(-0.8, 0.2), 0.0), width - long)
    if rng.chance(0.25):
        y = plate.center[1] + plate.half[1] * (rng.uniform(0.5, 0.75) if rng.chance(0.5) else rng.uniform(1.1, 1.3))
        clutter.ruler(rng, canvas, sketch, (x, y, x + long, y + thick))
    below = plate.center[1] + plate.half[1] * 1.1
    if below + thick < height and rng.chance(0.15):
        paper = rng.uniform(130, 210)
        if rng.chance(0.6):
            canvas.box((x, below, x + long, below + thick), (paper, paper * 0.94, paper * 0.8))
            ink, size_px = rng.choice(INKS[:3]), thick * 0.55
        else:
            ink, size_px = INKS[-1], thick * rng.uniform(0.8, 1.6)
        clutter.writing(rng, sketch, (x + 6, below + thick * 0.2), size_px, ink)
