"""Rows of trees and vines that stand behind or beside the plant of an image: grown once a process, used many times."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from treeformer._util.arrays import FloatArray
from treeformer.synthetic.painting import noise
from treeformer.synthetic.painting.canvas import Canvas, Color, snapped
from treeformer.synthetic.painting.raster import Int16Array, rasterize, strokes, union
from treeformer.synthetic.plants.growth import GrownAxis
from treeformer.synthetic.plants.trained import grow_fruit_tree, grow_trained_vine
from treeformer.synthetic.rng import Rng
from treeformer.synthetic.scenes.outdoor.canopy import CELL_PX, leaf_tile

VARIANTS = 4
REACH_PX = 300.0
VINE_TRUNK_PX = 5.5
EVERY = 6  # points of an axis from one stroke to the next
# A row's tile: the plants' feet at its lower edge, their tops near the upper one.
ROW_TALL, ROW_WIDE = 128, 512
MOST_HALVINGS = 5
FOOT_ROWS = 4
SHADE_WIDE, SHADE_TALL, SHADE_COVER = 16.0, 5.0, 34  # of the dark patch at a plant's foot


@dataclass(frozen=True, slots=True)
class GrownStrokes:
    """A plant that stands at (0, 0): strokes (S,2) to (S,2), radii (S,), which of them are young wood; and its points.

    wire: how high the arms of a vine are, px; 0 for a tree.
    """

    start: FloatArray
    end: FloatArray
    start_radius: FloatArray
    end_radius: FloatArray
    young: FloatArray
    points: FloatArray
    wire: float


@cache
def grown(kind: str, variant: int) -> GrownStrokes:
    """One of the few plants of a kind that stand in rows."""
    axes: list[GrownAxis] = []
    rng = Rng(61, variant)
    if kind == "vine":
        grow_trained_vine(rng, axes, 0, (0.0, 0.0), REACH_PX, VINE_TRUNK_PX)
    else:
        grow_fruit_tree(rng, axes, 0, (0.0, 0.0), REACH_PX, 5.5)
    starts, ends, first, last, young, points = [], [], [], [], [], []
    for axis in axes:
        kept = np.append(np.arange(0, len(axis.points) - 1, EVERY), len(axis.points) - 1)
        path = axis.points[kept]
        radius = axis.base_px + (axis.tip_px - axis.base_px) * kept / (len(axis.points) - 1)
        starts.append(path[:-1])
        ends.append(path[1:])
        first.append(radius[:-1])
        last.append(radius[1:])
        thin = axis.label in ("cane", "twig", "side shoot")
        young.append(np.full(len(path) - 1, float(thin)))
        if axis.label != "trunk":
            points.append(path)
    arms = [axis.points[-1, 1] for axis in axes if axis.label == "arm" and axis.parent == 0]
    wire = float(-sum(arms) / len(arms)) if arms else 0.0
    parts = [snapped(np.concatenate(values)) for values in (starts, ends, first, last, young, points)]
    return GrownStrokes(parts[0], parts[1], parts[2], parts[3], parts[4], parts[5], float(snapped(wire)))


@cache
def row_tile(kind: str, variant: int, leafy: bool, halvings: int) -> tuple[Int16Array, Int16Array]:
    """(ROW_TALL, ROW_WIDE) cover, 0 to 64, and shade, -60 to 60, of a row of plants that repeats; halved as often."""
    if halvings:
        small: list[Int16Array] = [
            (part[::2, ::2] + part[1::2, ::2] + part[::2, 1::2] + part[1::2, 1::2] + np.int16(2)) >> 2
            for part in row_tile(kind, variant, leafy, halvings - 1)
        ]
        return small[0], small[1]
    if kind == "forest":
        return _forest(variant, leafy)
    rng = Rng(62, variant)
    spacing = ROW_WIDE / (7 if kind == "vine" else 5)
    ends, radii, leaves, feet = [], [], [], []
    for number in range(int(ROW_WIDE / spacing + 0.5)):
        plant = grown(kind, rng.whole(0, VARIANTS - 1))
        tall = float(-min(plant.start[:, 1].min(), plant.end[:, 1].min()))
        scale = ROW_TALL * rng.uniform(0.78, 0.95) / tall
        if kind == "vine":  # all arms at one height
            scale = ROW_TALL * 0.42 / plant.wire
        foot = np.asarray((spacing * (number + rng.uniform(0.4, 0.6)), ROW_TALL - 2.0))
        feet.append(float(foot[0]))
        mirror = np.asarray((rng.choice((-scale, scale)), scale))
        ends.append(np.stack([plant.start, plant.end]) * mirror + foot)
        radii.append(np.stack([plant.start_radius, plant.end_radius]) * scale)
        leaves.append(plant.points * mirror + foot)
    (start, end), (first, last) = np.concatenate(ends, axis=1), np.concatenate(radii, axis=1)
    shift = np.repeat(np.asarray([(-ROW_WIDE, 0.0), (0.0, 0.0), (ROW_WIDE, 0.0)]), len(start), axis=0)
    start, end = (snapped(np.tile(part, (3, 1)) + shift) for part in (start, end))
    first, last = (snapped(np.maximum(np.tile(part, 3), 0.3)) for part in (first, last))
    found = union(rasterize(strokes(start, end, first, last), (ROW_WIDE, ROW_TALL)))
    cover: Int16Array = np.zeros(ROW_WIDE * ROW_TALL, dtype=np.int16)
    cover[found.pixel] = found.coverage >> 2
    cover = cover.reshape(ROW_TALL, ROW_WIDE)
    shade = np.full_like(cover, -52 if leafy else 0)
    if leafy:
        mass = _leaf_mass(np.concatenate(leaves))
        tile = leaf_tile(1)
        seen = mass > tile.unlikely[:ROW_TALL, :ROW_WIDE]
        cover = np.where(seen, np.int16(64), cover)
        up = np.zeros_like(mass)
        up[4:] = mass[4:] - mass[:-4]
        lit = (tile.tone[:ROW_TALL, :ROW_WIDE] >> 1) + np.clip(up, -30, 30) - (mass >> 3)
        shade = np.where(seen, lit, shade).astype(np.int16)
    np.maximum(cover, _shade_at(feet), out=cover)
    # The feet are lost in the grass.
    cover[-FOOT_ROWS:] = cover[-FOOT_ROWS:] * np.arange(FOOT_ROWS - 1, -1, -1, dtype=np.int16)[:, None] // FOOT_ROWS
    return cover, shade


def _shade_at(feet: list[float]) -> Int16Array:
    """(ROW_TALL, ROW_WIDE) cover of the dark patches on the ground where plants stand at some columns."""
    x = np.arange(ROW_WIDE) - snapped(feet)[:, None]
    x = (x - ROW_WIDE * np.floor(x / ROW_WIDE + 0.5)) / SHADE_WIDE
    y = (np.arange(ROW_TALL) - (ROW_TALL - 4.0)) / SHADE_TALL
    near = np.maximum(1.0 - (x * x).min(axis=0)[None, :] - (y * y)[:, None], 0.0)
    return np.asarray(np.floor(near * SHADE_COVER), dtype=np.int16)


def _forest(variant: int, leafy: bool) -> tuple[Int16Array, Int16Array]:
    """Many rows of trees before each other, the nearer the lower and the darker: the edge of a wood."""
    rng = Rng(63, variant)
    cover: Int16Array = np.zeros((ROW_TALL, ROW_WIDE), dtype=np.int16)
    shade = np.zeros_like(cover)
    layers = 9
    for number in range(layers):
        own, lit = row_tile("orchard", rng.whole(0, VARIANTS - 1), leafy or rng.chance(0.25), 0)
        tall = int(ROW_TALL * rng.uniform(0.75, 1.0) * (1 - 0.55 * number / layers))
        row = np.arange(tall) * ROW_TALL // tall
        column = (np.arange(ROW_WIDE) * (1 + number % 2) + rng.whole(0, ROW_WIDE - 1)) % ROW_WIDE
        part = own[np.ix_(row, column)]
        tone = lit[np.ix_(row, column)] + np.int16(rng.whole(-20, 18) - 2 * number)
        under = slice(ROW_TALL - tall, None)
        shade[under] += ((tone - shade[under]) * part) >> 6
        cover[under] = np.maximum(cover[under], part)
    # Below the crowns there is undergrowth, and no sky.
    uneven = noise.clouds()[0, variant * 80, :ROW_WIDE].astype(np.int16)[None, :] >> 1
    low = np.clip((np.arange(ROW_TALL, dtype=np.int16)[:, None] - ROW_TALL // 2 + uneven) * np.int16(2), 0, 64)
    bushes = noise.clouds()[0, variant * 80 :, :ROW_WIDE][:ROW_TALL].astype(np.int16) >> 2
    bushes += noise.mottle()[0, variant * 80 :, :ROW_WIDE][:ROW_TALL] >> 2
    shade += (bushes - np.int16(14)) * low >> 6
    return np.maximum(cover, low), np.clip(shade, np.int16(-48), np.int16(40))


def _leaf_mass(points: FloatArray) -> Int16Array:
    """(ROW_TALL, ROW_WIDE) how dense leaves are around points in the tile, 0 to 127."""
    cell = CELL_PX // 2
    down, across = ROW_TALL // cell, ROW_WIDE // cell
    place = (points / cell).astype(np.intp)
    inside = (place[:, 1] >= 0) & (place[:, 1] < down)
    count = np.bincount(place[inside, 1] * across + place[inside, 0] % across, minlength=down * across)
    mass = np.minimum(noise.soft(np.minimum(count, 2).reshape(down, across).astype(np.int32) << 7, 2) * 3 // 2, 124)
    return noise.enlarge(mass.astype(np.int16), (ROW_WIDE, ROW_TALL))


def paint_row(
    rng: Rng, canvas: Canvas, kind: str, foot: float, tall: float, color: Color, *, leafy: bool, blur_px: float
) -> None:
    """A row of vines or trees, or a forest, its feet at `foot`, `tall` px high, out of focus by about blur_px."""
    width, height = canvas.size
    top, bottom = int(foot - tall), int(foot)
    rows = slice(max(0, top), min(bottom, height))
    if rows.stop - rows.start < 2:
        return
    # The tile halved until its px are as large as the blur; enlarging it makes them smooth.
    halvings = 0
    while halvings < MOST_HALVINGS and tall * 2**halvings < ROW_TALL * blur_px * 0.7:
        halvings += 1
    cover, shade = row_tile(kind, rng.whole(0, VARIANTS - 1), leafy, halvings)
    high, wide = cover.shape
    first, direction = rng.whole(0, wide - 1), rng.choice((-1, 1))
    column = (first + direction * np.arange(max(2, int(width * high / tall)))) % wide
    size, seen = (width, bottom - top), slice(rows.start - top, rows.stop - top)
    part = cover[:, column]
    if kind != "forest":  # wood out of focus is wider, but not as clear as glass
        part += part >> 1
        np.minimum(part, np.int16(60), out=part)
    weight = noise.enlarge(part, size, seen)
    if leafy or kind == "forest":
        texture = noise.enlarge_gently(shade[:, column], size)[seen]
        canvas.mix(color, weight, rows, texture=texture, contrast=(0.85, 0.85, 0.8))
    else:
        canvas.mix(color, weight, rows)
