"""Backgrounds of the open air: sky, meadow and tree rows of an orchard; ground, rows and posts of a vineyard.

What is far away is drawn on a quarter of the size and enlarged: out of focus, and sixteen times cheaper.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from treeformer.axes import FloatArray
from treeformer.synthetic import clutter, noise
from treeformer.synthetic.canvas import ALL, Canvas, Colour, lowest_px, snapped
from treeformer.synthetic.dice import Dice
from treeformer.synthetic.raster import Int16Array, rasterise, strokes, union

FAR_SCALE = 4  # how much smaller far things are drawn


def orchard(dice: Dice, canvas: Canvas, bases: FloatArray) -> None:
    """Sky over a line of trees and a meadow."""
    height = canvas.size[1]
    ground = lowest_px(bases, height * 0.8)
    horizon = int(min(max(ground - height * dice.uniform(0.01, 0.25), height * 0.15), height - 2))
    light = 0.25 if dice.chance(0.06) else 1.0  # now and then a night
    _sky(dice, canvas, horizon, light)
    _ground(dice, canvas, slice(horizon, height), _meadow_colour(dice, light))
    if dice.chance(0.6):
        _tree_shade(dice, canvas, horizon)
    _grass(dice, canvas, slice(horizon, height), dice.uniform(0.1, 0.5) * light)
    for _ in range(dice.weighted(((0, 0.2), (1, 0.5), (2, 0.3)))):
        _tree_line(dice, canvas, horizon, light)
    if dice.chance(0.25):
        clutter.posts(dice, canvas, dice.whole(1, 2))


def field(dice: Dice, canvas: Canvas, bases: FloatArray) -> None:
    """A vineyard in winter: rows of vines behind each other, posts, earth and grass."""
    height = canvas.size[1]
    ground = lowest_px(bases, height * 0.85)
    horizon = int(min(max(ground - height * dice.uniform(0.05, 0.45), 2), height - 2))
    if dice.chance(0.6):
        _sky(dice, canvas, horizon, 1.0)
    else:  # a slope behind, no sky to be seen
        _ground(dice, canvas, slice(0, horizon), _earth_colour(dice) if dice.chance(0.5) else _meadow_colour(dice, 1.0))
    if dice.chance(0.35):
        _tree_line(dice, canvas, horizon, 1.0)
    below = slice(horizon, height)
    _ground(dice, canvas, below, _meadow_colour(dice, 1.0) if dice.chance(0.5) else _earth_colour(dice))
    _grass(dice, canvas, below, dice.uniform(0.1, 0.5))
    if dice.chance(0.5):
        canvas.add(noise.window(noise.gravel(), dice, canvas.size)[below], (dice.uniform(0.0, 0.35),) * 3, below)
    for _ in range(dice.whole(0, 2)):
        _far_row(dice, canvas, dice.uniform(horizon * 0.9, height * 0.85))
    if dice.chance(0.4):
        clutter.posts(dice, canvas, dice.whole(1, 3))


def _far_shape(
    canvas: Canvas, start: FloatArray, end: FloatArray, radius: ArrayLike, softness: ArrayLike, strength: float
) -> Int16Array:
    """Strokes given in px of the canvas, drawn small: (h, w) how much they cover, 0 to `strength`."""
    small = (math.ceil(canvas.size[0] / FAR_SCALE), math.ceil(canvas.size[1] / FAR_SCALE))
    thick, soft = (snapped(np.asarray(value) / FAR_SCALE) for value in (radius, softness))
    drawn = strokes(snapped(start / FAR_SCALE), snapped(end / FAR_SCALE), thick, thick, np.maximum(soft, 1.0))
    found = union(rasterise(drawn, small))
    cover = np.zeros(small[0] * small[1], dtype=np.int16)
    cover[found.pixel] = (found.coverage.astype(np.int32) * round(strength)) >> 8
    return cover.reshape(small[1], small[0])


def _rows_of(start: FloatArray, end: FloatArray, margin: float, height: int) -> slice:
    """The rows that strokes with this margin touch."""
    both = np.concatenate([start[:, 1], end[:, 1]])
    top, bottom = float(both.min()) - margin, float(both.max()) + margin
    return slice(min(max(int(top), 0), height), max(min(int(bottom) + 1, height), 0))


def _sky(dice: Dice, canvas: Canvas, horizon: int, light: float) -> None:
    """A gradient down to the horizon, clouds, vapour trails."""
    kind = dice.weighted((("clear", 0.4), ("grey", 0.35), ("low sun", 0.25)))
    if kind == "clear":
        top: Colour = (dice.uniform(30, 110), dice.uniform(90, 150), dice.uniform(170, 225))
        low: Colour = (dice.uniform(140, 200), dice.uniform(180, 215), dice.uniform(215, 240))
    elif kind == "grey":
        level = dice.uniform(130, 235)
        top, low = (level, level, level * 1.03), (level * 1.05, level * 1.05, level * 1.04)
    else:
        top = (dice.uniform(60, 130), dice.uniform(80, 140), dice.uniform(120, 180))
        low = (dice.uniform(215, 255), dice.uniform(160, 215), dice.uniform(100, 170))
    rows = slice(0, horizon)
    down = np.linspace(0.0, 1.0, horizon) ** dice.uniform(0.7, 2.0)
    for plane, a, b in zip(canvas.planes, top, low, strict=True):
        plane[rows] = np.floor((a + (b - a) * down) * light).astype(np.int16)[:, None]
    canvas.add(noise.window(noise.clouds(), dice, canvas.size)[rows], (dice.uniform(0.0, 0.4) * light,) * 3, rows)
    if dice.chance(0.4):
        count = dice.whole(1, 6)
        start = dice.array(count, 2) * (canvas.size[0], horizon)
        end = start + np.stack([dice.array(count, low=20, high=240), dice.bell(count) * 20], axis=1) * canvas.scale
        thick = (dice.array(count) ** 2 * 20 + 1.2) * canvas.scale
        rows = _rows_of(start, end, 60 * canvas.scale, horizon)
        cover = _far_shape(canvas, start, end, thick, thick * 2 + 4, dice.uniform(6, 32))
        canvas.mix((245 * light, 243 * light, 240 * light), noise.enlarge(cover, canvas.size, rows), rows)


def _tree_line(dice: Dice, canvas: Canvas, horizon: int, light: float) -> None:
    """Crowns, bushes or a hedge along the horizon, with ragged leafy outlines."""
    width, height = canvas.size
    tall = height * dice.uniform(0.02, 0.2)
    hedge = dice.chance(0.25)
    count = dice.whole(8, 14) if hedge else dice.whole(3, 14)
    radius = tall * (dice.array(count, low=0.4, high=0.5) if hedge else dice.array(count, low=0.3, high=0.8))
    stretch = tall * dice.array(count, low=2.0, high=6.0) if hedge else radius * dice.array(count, low=0.0, high=0.8)
    lift = radius * dice.array(count, low=0.45, high=0.95)
    start = np.stack([dice.array(count, low=-0.1, high=1.1) * width, horizon - lift], axis=1)
    end = start + np.stack([stretch, np.zeros(count)], axis=1)
    rows = slice(max(0, int(horizon - 2.2 * tall)), min(height, horizon + int(0.12 * tall) + 2))
    mass = noise.enlarge_gently(_far_shape(canvas, start, end, radius, 4 + tall / 3, 200), canvas.size)[rows]
    level = dice.uniform(0.3, 1.1) * light
    green = dice.chance(0.7)
    colour: Colour = (60 * level, 85 * level, 40 * level) if green else (115 * level, 98 * level, 76 * level)
    paint_leaves(dice, canvas, mass, colour, dice.uniform(0.3, 1.0), rows)


def paint_leaves(
    dice: Dice, canvas: Canvas, mass: Int16Array, colour: Colour, coarseness: float, rows: slice = ALL
) -> None:
    """Leaves where `mass` (0 to 200, for some rows) is high; they thin out to single ones where it falls below 100.

    coarseness: how ragged the outline is, 0 to 1.
    """
    clump = noise.window(noise.rough(), dice, canvas.size)[rows]
    leaf = noise.window(noise.leaves(), dice, canvas.size)[rows].astype(np.int16)
    weight = clump.astype(np.int16) * np.int16(round(coarseness * 40))
    single = np.empty_like(mass)
    np.multiply(leaf, np.int16(round(coarseness * 32)), out=single)
    weight += single
    weight >>= 5
    weight += mass
    weight -= np.int16(100)
    weight <<= 1
    np.clip(weight, 0, 64, out=weight)
    canvas.mix(colour, weight, rows, texture=leaf, contrast=(0.8, 0.8, 0.8))


def _meadow_colour(dice: Dice, light: float) -> Colour:
    level, dry = dice.uniform(0.6, 1.3) * light, dice.uniform(0.0, 1.0)
    return (level * (75 + 75 * dry), level * (105 + 20 * dry), level * (45 + 25 * dry))


def _earth_colour(dice: Dice) -> Colour:
    level = dice.uniform(60, 160)
    return (level * dice.uniform(1.0, 1.25), level, level * dice.uniform(0.65, 0.95))


def _ground(dice: Dice, canvas: Canvas, rows: slice, colour: Colour) -> None:
    """Flat land, with bands that narrow with distance, lighter or darker towards the viewer."""
    near = np.linspace(0.0, 1.0, rows.stop - rows.start)
    bands = np.interp(np.sqrt(near), np.linspace(0, 1, 9), dice.array(9, low=0.8, high=1.15))
    slope = 1 + dice.uniform(-0.3, 0.3) * near
    for plane, level in zip(canvas.planes, colour, strict=True):
        plane[rows] = np.floor(level * bands * slope).astype(np.int16)[:, None]


def _grass(dice: Dice, canvas: Canvas, rows: slice, strength: float) -> None:
    blades = noise.window(dice.choice((noise.streaks, noise.rough, noise.leaves))(), dice, canvas.size)[rows]
    canvas.add(blades, (strength * 0.9, strength, strength * 0.6), rows)
    canvas.add(noise.window(noise.clouds(), dice, canvas.size)[rows], (dice.uniform(0.0, 0.4),) * 3, rows)


def _tree_shade(dice: Dice, canvas: Canvas, horizon: int) -> None:
    """Shadows lying on the ground."""
    width, height = canvas.size
    count = dice.whole(1, 4)
    start = np.stack([dice.array(count) * width, horizon + dice.array(count) * (height - horizon)], axis=1)
    end = start + np.stack([dice.array(count, low=12, high=200), dice.bell(count) * 4], axis=1) * canvas.scale
    radius = dice.array(count, low=2, high=16) * canvas.scale
    rows = slice(horizon, height)
    cover = _far_shape(canvas, start, end, radius, 12 * canvas.scale, dice.uniform(12, 38))
    canvas.mix((15, 20, 10), noise.enlarge(cover, canvas.size, rows), rows)


def _far_row(dice: Dice, canvas: Canvas, foot: float) -> None:
    """A row of vines, out of focus: trunks, arms along a wire, canes standing on them."""
    width, height = canvas.size
    tall = height * dice.uniform(0.12, 0.45)
    spacing = dice.uniform(32, 160) * canvas.scale
    x = np.arange(dice.uniform(0, spacing), width, spacing)
    x += dice.bell(len(x)) * spacing * 0.08
    wire = foot - tall * dice.uniform(0.3, 0.5)
    canes = int(512 * dice.uniform(0.02, 0.15))
    at = np.concatenate([x, dice.array(canes) * width, [-8.0]])
    start = np.stack([at, np.concatenate([np.full(len(x), foot), np.full(canes + 1, wire)])], axis=1)
    up = np.concatenate([np.full(len(x), wire), wire - tall * dice.array(canes, low=0.1, high=0.6), [wire]])
    end = np.stack([at + dice.bell(len(at)) * 8 * canvas.scale, up], axis=1)
    end[-1, 0] = width + 8.0
    thick = dice.uniform(1.5, 5.0) * canvas.scale
    radius = np.concatenate([np.full(len(x), thick), np.full(canes, 0.9), [1.3]])
    rows = _rows_of(start, end, 16.0, height)
    cover = _far_shape(canvas, start, end, radius, dice.uniform(4, 7), dice.uniform(32, 64))
    level = dice.uniform(0.4, 1.2)
    canvas.mix((95 * level, 80 * level, 66 * level), noise.enlarge(cover, canvas.size, rows), rows)
