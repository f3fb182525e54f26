"""Photographs of agar plates: what the dish lies on, the dish, the seedlings in it, what is on its lid."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from treeformer._util.arrays import FloatArray
from treeformer.skeleton import Skeleton
from treeformer.synthetic.painting import noise
from treeformer.synthetic.painting.canvas import Canvas, Colour, Sketch, snapped
from treeformer.synthetic.painting.material import (
    FAINTEST_LEVELS,
    Backdrop,
    Material,
    backdrop,
    paint_plant,
    plant_strokes,
    root_material,
)
from treeformer.synthetic.painting.raster import rasterise_layers
from treeformer.synthetic.rng import Dice
from treeformer.synthetic.scenes import clutter
from treeformer.synthetic.scenes.plate import dish, shoots

INKS: tuple[Colour, ...] = ((52, 34, 82), (24, 22, 26), (24, 22, 26), (36, 40, 110), (206, 34, 44))
# Roots are paler than agar of a mean level up to the first, and at times up to the second.
DARK_LEVEL, PALE_LEVEL = 150.0, 200.0
ROW_DEPTH = 0.2  # bases of one row lie no farther below its highest than this share of the picture's height


class Scene:
    """A picture of a plate in the making: where the dish is, and what is still to be drawn behind and in front."""

    def __init__(self, dice: Dice, canvas: Canvas, skeleton: Skeleton, kind: str) -> None:
        self.dice, self.canvas, self.skeleton, self.kind = dice, canvas, skeleton, kind
        self.bases: FloatArray = skeleton.nodes[skeleton.bases]
        self.behind, self.front = Sketch(), Sketch()
        self.dish = _dish_around(dice, canvas, skeleton.nodes, self.bases)
        self.bright = dice.chance(0.18)  # lit from below, or on white
        self.agar: Colour = (90, 100, 110)

    def paint_dish(self) -> None:
        """The bench, the dish with its agar and rim, and what lies below it or is written on it."""
        dice, canvas, behind, plate = self.dice, self.canvas, self.behind, self.dish
        ground = _paint_bench(dice, canvas, self.bright)
        self.agar = _agar_colour(dice, ground, self.bright)
        inner = dish.paint_dish(dice, canvas, behind, plate, self.agar, dice.uniform(0.0, 0.12))
        if dice.chance(0.1):
            dish.grid(dice, canvas, behind, inner)
        if dice.chance(0.3):
            self._film(inner)
        if dice.chance(0.2):
            self._agar_edge(inner)
        _paint_scales(dice, canvas, behind, plate)
        clutter.specks(dice, canvas, behind, dice.whole(0, 40), 1.1 * canvas.scale, bright=not self.bright)
        if not plate.is_round and dice.chance(0.18):
            dish.tape(dice, canvas, behind, plate)
        if dice.chance(0.75):
            self._labels(plate)

    def paint_seedlings(self) -> None:
        """Roots, then shoots, then drops and reflections on the lid."""
        dice, canvas, skeleton = self.dice, self.canvas, self.skeleton
        self._shoots()
        if dice.chance(0.3):
            self._condensation()
        if dice.chance(0.15):
            clutter.scratches(dice, canvas, self.front, dice.whole(1, 3))
        drawn = plant_strokes(skeleton)
        sets = (self.behind.strokes(), drawn, self.front.strokes())
        of_behind, of_plant, of_front = rasterise_layers(sets, canvas.size)
        self.behind.draw(canvas, of_behind)
        material = _root_material(dice, backdrop(canvas, skeleton), canvas.scale)
        paint_plant(dice, canvas, skeleton, material, drawn, of_plant)
        self.front.draw(canvas, of_front)
        for _ in range(dice.weighted(((0, 0.62), (1, 0.3), (2, 0.08)))):
            dish.shine(dice, canvas, self.dish)

    def _shoots(self) -> None:
        dice = self.dice
        if len(self.bases) == 0 or dice.chance(0.12):  # cut off, or not yet there
            return
        # Shoots are about as large as seedlings stand apart.
        span = float(self.bases[:, 0].max() - self.bases[:, 0].min())
        apart = max(span / max(len(self.bases) - 1, 1), 8.0 * self.canvas.scale)
        size_px = min(apart * dice.uniform(0.18, 0.52), 40.0 * self.canvas.scale)
        if self.kind == "cereal":
            shoots.blades(dice, self.front, self.bases, size_px)
        elif self.kind == "sprout":
            shoots.cotyledons(dice, self.front, self.bases, size_px)
        else:
            shoots.rosettes(dice, self.front, self.bases, size_px)

    def _labels(self, plate: dish.Dish) -> None:
        """Names of lines above the seedlings, and along the bottom the medium and the date."""
        dice, sketch, scale = self.dice, self.behind, self.canvas.scale
        fits = 0.7 if plate.is_round else 1.0
        wide, high = plate.half[0] * fits, plate.half[1] * fits
        ink, size_px = dice.choice(INKS), dice.uniform(7, 15) * scale
        places = [(share * wide - size_px, -high + size_px * 0.4) for share in (-0.75, -0.05, 0.62)[: dice.whole(0, 3)]]
        places += [(share * wide, high - size_px * 1.6) for share in (-0.8, 0.45)[: dice.whole(0, 2)]]
        if not places:
            return
        for x, y in plate.place(np.asarray(places)).tolist():
            clutter.writing(dice, sketch, (x, y), size_px * dice.uniform(0.8, 1.2), ink)

    def _film(self, inner: dish.Dish) -> None:
        """Flat drops between agar and plastic: dark, blurred patches, most of them lying."""
        dice = self.dice
        patches, scale = dice.whole(1, 10), self.canvas.scale
        at = np.repeat(dice.array(patches, 2, low=-0.85, high=0.85) * inner.half, 3, axis=0)
        at += dice.bell(len(at), 2) * (4 * scale, 1.5 * scale)
        half = dice.array(len(at), 1, low=0, high=6) * (scale, 0.2 * scale)
        radius = dice.array(len(at), low=1.0, high=4.5) * scale
        shade = np.asarray(self.agar) * (1.15 if dice.chance(0.25) else dice.uniform(0.65, 0.88))
        ends = inner.place(at - half), inner.place(at + half)
        self.behind.add(*ends, radius, radius, shade, dice.uniform(0.2, 0.6), 2.0)

    def _agar_edge(self, inner: dish.Dish) -> None:
        """Where the agar has been cut away above the seedlings: a bright line beside a dark one."""
        dice = self.dice
        if len(self.bases) == 0:
            return
        offset = float(self.bases[:, 1].min()) - inner.centre[1] + dice.uniform(-6, 4) * self.canvas.scale
        for shift, level in ((0.0, 1.4), (1.8, 0.7)):
            ends = np.asarray([(-inner.half[0], offset + shift), (inner.half[0], offset + shift)])
            colour = np.asarray(self.agar) * level
            self.behind.line(inner.place(ends), 0.8, colour, dice.uniform(0.25, 0.6), 1.6)

    def _condensation(self) -> None:
        """Fine drops on the lid, in clouds and streaks: each a bright dot."""
        dice, plate = self.dice, self.dish
        count = dice.whole(30, 260)
        clouds = dice.whole(1, 5)
        centre = dice.array(clouds, 2, low=-0.9, high=0.9)[(dice.array(count) * clouds).astype(np.intp)]
        at = (centre + dice.bell(count, 2) * dice.array(1, 2, low=0.05, high=0.4)) * plate.half
        place = plate.place(at[np.abs(at / plate.half).max(axis=1) < 0.95])
        radius = (0.25 + dice.array(len(place)) ** 4 * dice.uniform(0.6, 2.4)) * max(self.canvas.scale, 0.5)
        level = np.asarray(self.agar).max() + dice.array(len(place), 1, low=15, high=110)
        self.front.add(place, place, radius, radius, level, dice.uniform(0.3, 0.8))


def _dish_around(dice: Dice, canvas: Canvas, nodes: FloatArray, bases: FloatArray) -> dish.Dish:
    """A dish that holds all nodes (N,2), cut by the frame where it is larger than the picture."""
    width, height = canvas.size
    if len(nodes) == 0:
        nodes = np.asarray([(width * 0.2, height * 0.2), (width * 0.8, height * 0.6)])
    (left, top), (right, bottom) = nodes.min(axis=0).tolist(), nodes.max(axis=0).tolist()
    few = len(bases) < 7
    spread = dice.uniform(1.25, 2.6) if few and dice.chance(0.7) else dice.uniform(1.17, 1.36)
    half_width = max((right - left) / 2 * spread, width * 0.2)
    slack = half_width * (1 - 1 / spread) * 0.6
    x = (left + right) / 2 + slack * dice.uniform(-1.0, 1.0)
    above = half_width * dice.uniform(0.1, 0.26)
    held = (bottom - top) * 1.06 + above
    tall = max(2 * half_width * dice.uniform(0.7, 1.05), held)
    if dice.chance(0.85):  # whole plates are seen whole
        low, high = (left + right) / 2 - slack, (left + right) / 2 + slack
        x = min(max(x, min(half_width + 2, high)), max(width - half_width - 2, low))
        tall = max(min(tall, height - 2 - (top - above)), held)
    y = top - above + tall / 2
    turn = float(snapped(_slope(bases, height) + dice.uniform(-0.008, 0.008)))
    if dice.chance(0.16):  # a round one
        across, down = (right - left) / 2, (bottom - top) / 2
        radius = math.sqrt(across * across + down * down) * dice.uniform(1.03, 1.2) + above * 0.3
        radius = max(radius, min(canvas.size) * 0.2)
        return dish.Dish(((left + right) / 2, (top + bottom) / 2), (radius, radius), radius)
    corner = min(half_width, tall / 2) * dice.weighted(
        ((dice.uniform(0.02, 0.08), 0.45), (dice.uniform(0.12, 0.26), 0.55))
    )
    keystone = dice.uniform(-0.03, 0.03)
    return dish.Dish((x, y), (half_width, tall / 2), corner, turn, keystone)


def _slope(bases: FloatArray, height: int) -> float:
    """How much the upper row of bases (R,2) falls to the right, by its first and its last, as the sine of an angle."""
    row = bases[bases[:, 1] < bases[:, 1].min(initial=np.inf) + ROW_DEPTH * height]
    if len(row) < 2:
        return 0.0
    first, last = row[row[:, 0].argmin()], row[row[:, 0].argmax()]
    step = last - first
    return min(max(float(step[1]) / max(float(step[0]), 1.0), -0.15), 0.15)


def _root_material(dice: Dice, behind: Backdrop, scale: float) -> Material:
    """As roots anywhere, but always paler than dark agar; before bright agar mostly a little darker, never black."""
    material = root_material(dice, behind, scale)
    faintest = (FAINTEST_LEVELS + 1.2 * behind.unrest) / (material.opacity * behind.coverage)
    if behind.level <= DARK_LEVEL or (behind.level <= PALE_LEVEL and dice.chance(0.4)):
        target = min(behind.level + max(dice.uniform(40, 140), faintest), 252.0)
    else:
        target = max(behind.level - max(dice.uniform(30, 110), faintest), 20.0)
    warm = dice.uniform(-8, 16)
    thin: Colour = (target + 0.5 * warm, target, target - warm)
    return replace(material, thin=thin, thick=(thin[0] - 6, thin[1] - 6, thin[2] - 6))


def _paint_bench(dice: Dice, canvas: Canvas, bright: bool) -> Colour:
    """What the dish lies on: black cloth, at times in an open carton; a scanner; a bench; a light table."""
    colour: Colour
    if bright:
        level = dice.uniform(185, 245)
        colour = (level, level * dice.uniform(0.97, 1.01), level * dice.uniform(0.9, 1.03))
        canvas.lay(colour, [(noise.window(noise.clouds(), dice, canvas.size), dice.uniform(0.0, 0.12))])
        return colour
    kind = dice.weighted((("cloth", 0.6), ("scanner", 0.25), ("bench", 0.15)))
    if kind == "bench":
        colour = dice.choice(((150.0, 122.0, 84.0), (118.0, 124.0, 132.0), (168.0, 160.0, 148.0), (70.0, 84.0, 100.0)))
        tile = dice.choice((noise.mottle, noise.clouds, noise.cirrus))
        canvas.lay(colour, [(noise.window(tile(), dice, canvas.size), dice.uniform(0.05, 0.3))])
        return colour
    level = dice.uniform(4, 34)
    colour = (level * dice.uniform(0.9, 1.1), level, level * dice.uniform(0.9, 1.2))
    tile = dice.choice((noise.weave, noise.grain, noise.rough)) if kind == "cloth" else noise.clouds
    shade = noise.window(noise.clouds(), dice, canvas.size)
    canvas.lay(
        colour,
        [(noise.window(tile(), dice, canvas.size), dice.uniform(0.03, 0.22)), (shade, dice.uniform(0.0, 0.16))],
    )
    if kind == "cloth" and dice.chance(0.45):
        _paint_carton(dice, canvas)
    return colour


def _paint_carton(dice: Dice, canvas: Canvas) -> None:
    """The walls of a carton around the cloth, on some sides, with the cloth's frayed edge."""
    width, height = canvas.size
    level = dice.uniform(0.6, 1.05)
    warm = dice.uniform(0.75, 1.0)
    colour: Colour = (188 * level, 152 * level * (0.5 + 0.5 * warm), 104 * level * warm)
    texture = noise.window(noise.clouds(), dice, canvas.size)
    for side in ("left", "right", "top", "bottom"):
        if not dice.chance(0.65):
            continue
        deep, slant = dice.uniform(0.005, 0.04 if side == "top" else 0.13), dice.uniform(-0.03, 0.03)
        lying = side in ("top", "bottom")
        length, other = (width, height) if lying else (height, width)
        knots = (deep + slant * np.linspace(-1, 1, 24) + dice.bell(24) * 0.004) * other
        edge = noise.stretch(np.floor(np.minimum(np.maximum(knots, 0), 1000) * 4).astype(np.int16)[None], length)[0]
        reach = min(int(edge.max()) // 4 + 2, other)
        inwards = np.arange(reach, dtype=np.int16) * np.int16(4)
        weight = np.clip((edge[:, None] - inwards) << np.int16(4), 0, 60).astype(np.int16)  # (length, reach)
        near, far = slice(0, reach), slice(other - reach, other)
        part = near if side in ("left", "top") else far
        if part is far:
            weight = weight[:, ::-1]
        rows, columns = (part, slice(0, width)) if lying else (slice(0, height), part)
        shade = dice.uniform(0.7, 1.1)
        own: Colour = (colour[0] * shade, colour[1] * shade, colour[2] * shade)
        weight = np.ascontiguousarray(weight.T if lying else weight)
        canvas.mix(own, weight, rows, columns, texture[rows, columns], (0.12, 0.12, 0.12))


def _agar_colour(dice: Dice, ground: Colour, bright: bool) -> Colour:
    """Cloudy and bluish before dark things, hardly seen before bright ones."""
    if bright:
        share = dice.uniform(0.72, 0.98)
        return (ground[0] * share, ground[1] * share, ground[2] * share * dice.uniform(0.92, 1.02))
    level = dice.weighted(((dice.uniform(72, 125), 0.7), (dice.uniform(25, 65), 0.2), (dice.uniform(125, 165), 0.1)))
    cool = dice.uniform(-0.05, 0.2)
    return (level * (1 - cool), level * dice.uniform(0.98, 1.03), level * (1 + cool * dice.uniform(0.6, 1.2)))


def _paint_scales(dice: Dice, canvas: Canvas, sketch: Sketch, plate: dish.Dish) -> None:
    """At times a long ruler beside the dish, and a short scale of paper on it or below it, a label of tape."""
    width, height = canvas.size
    beside = plate.centre[0] - plate.half[0] - 4
    if beside > 14 * canvas.scale and dice.chance(0.4):
        clutter.ruler(
            dice, canvas, sketch, (beside - min(beside, dice.uniform(25, 60) * canvas.scale), 0, beside, height)
        )
    long, thick = width * dice.uniform(0.12, 0.45), dice.uniform(16, 28) * canvas.scale
    x = min(max(plate.centre[0] + plate.half[0] * dice.uniform(-0.8, 0.2), 0.0), width - long)
    if dice.chance(0.25):
        y = plate.centre[1] + plate.half[1] * (dice.uniform(0.5, 0.75) if dice.chance(0.5) else dice.uniform(1.1, 1.3))
        clutter.ruler(dice, canvas, sketch, (x, y, x + long, y + thick))
    below = plate.centre[1] + plate.half[1] * 1.1
    if below + thick < height and dice.chance(0.15):
        paper = dice.uniform(130, 210)
        if dice.chance(0.6):
            canvas.box((x, below, x + long, below + thick), (paper, paper * 0.94, paper * 0.8))
            ink, size_px = dice.choice(INKS[:3]), thick * 0.55
        else:
            ink, size_px = INKS[-1], thick * dice.uniform(0.8, 1.6)
        clutter.writing(dice, sketch, (x + 6, below + thick * 0.2), size_px, ink)
