"""Rows of trees and vines behind or beside the main plant; the plants are grown once per process and reused."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from treeformer._util.arrays import FloatArray
from treeformer.synthetic.painting import noise
from treeformer.synthetic.painting.canvas import Canvas, Color, snapped
from treeformer.synthetic.painting.raster import Int16Array, rasterize, strokes, union
from treeformer.synthetic.plants.growth import GrownAxis
from treeformer.synthetic.plants.orchard import grow_fruit_tree
from treeformer.synthetic.plants.pruned_tree import grow_pruned_tree
from treeformer.synthetic.plants.vine import grow_trained_vine
from treeformer.synthetic.plants.winter_vine import grow_winter_vine
from treeformer.synthetic.rng import Rng
from treeformer.synthetic.scenes.outdoor.canopy import CELL_PX, leaf_tile

VARIANTS = 4  # number of different plants, and of different rows
REACH_PX = 300.0  # size of the plants
VINE_TRUNK_PX = 5.5  # radius of the trunk of a vine
POINTS_PER_STROKE = 6  # number of axis points per stroke
# Size of the tile of a row, px: the feet of the plants are at its lower edge, their tops near the upper one.
ROW_HEIGHT, ROW_WIDTH = 128, 512
MAX_HALVINGS = 5
FOOT_ROWS = 4  # rows of the tile over which the feet fade out
SHADE_HALF_WIDTH, SHADE_HALF_HEIGHT, SHADE_COVER = 16.0, 5.0, 34  # the dark patch at the foot of a plant


@dataclass(frozen=True, slots=True)
class GrownStrokes:
    """The strokes of a plant that stands at (0, 0)."""

    start: FloatArray  # (S,2) px, where the strokes start
    end: FloatArray  # (S,2) px, where the strokes end
    start_radius: FloatArray  # (S,) px
    end_radius: FloatArray  # (S,) px
    young: FloatArray  # (S,) 1 for young wood, 0 for old wood
    points: FloatArray  # (K,2) px, points on all axes except the trunk
    wire: float  # height of the arms of a vine above the foot, px; 0 for a tree
    height: float  # height of the plant above the foot, px


@cache
def grown_plant(kind: str, variant: int) -> GrownStrokes:
    """Grow one of the few plants that are repeated in rows; the result is cached.

    The kind is "vine", "orchard", "winter vine" or "pruned tree".
    """
    axes: list[GrownAxis] = []
    rng = Rng(61, variant)
    if kind == "vine":
        grow_trained_vine(rng, axes, 0, (0.0, 0.0), REACH_PX, VINE_TRUNK_PX)
    elif kind == "orchard":
        grow_fruit_tree(rng, axes, 0, (0.0, 0.0), REACH_PX, 5.5)
    elif kind == "winter vine":
        grow_winter_vine(rng, axes, 0, (0.0, 0.0), REACH_PX, VINE_TRUNK_PX)
    else:
        grow_pruned_tree(rng, axes, 0, (0.0, 0.0), REACH_PX, 6.0)
    starts, ends, start_radii, end_radii, young, points = [], [], [], [], [], []
    for axis in axes:
        indices = np.append(np.arange(0, len(axis.points) - 1, POINTS_PER_STROKE), len(axis.points) - 1)
        path = axis.points[indices]
        radius = axis.base_px + (axis.tip_px - axis.base_px) * indices / (len(axis.points) - 1)
        starts.append(path[:-1])
        ends.append(path[1:])
        start_radii.append(radius[:-1])
        end_radii.append(radius[1:])
        is_young = axis.label in ("cane", "twig", "side shoot", "spur")
        young.append(np.full(len(path) - 1, float(is_young)))
        if axis.label != "trunk":
            points.append(path)
    arm_heights = [axis.points[-1, 1] for axis in axes if axis.label == "arm" and axis.parent == 0]
    wire = float(-sum(arm_heights) / len(arm_heights)) if arm_heights else 0.0
    arrays = [snapped(np.concatenate(values)) for values in (starts, ends, start_radii, end_radii, young, points)]
    height = float(-min(arrays[0][:, 1].min(), arrays[1][:, 1].min()))
    return GrownStrokes(arrays[0], arrays[1], arrays[2], arrays[3], arrays[4], arrays[5], float(snapped(wire)), height)


@cache
def row_tile(kind: str, variant: int, leafy: bool, halvings: int) -> tuple[Int16Array, Int16Array]:
    """Make the tile of a row of plants, periodic sideways and reduced `halvings` times; the result is cached.

    The kind is "vine", "orchard" or "forest" and the variant is below `VARIANTS`. The tile is cover, 0 to 64, and
    shade, -60 to 60, each (ROW_HEIGHT, ROW_WIDTH) / 2**halvings.
    """
    if halvings:
        halved: list[Int16Array] = [
            (tile_map[::2, ::2] + tile_map[1::2, ::2] + tile_map[::2, 1::2] + tile_map[1::2, 1::2] + np.int16(2)) >> 2
            for tile_map in row_tile(kind, variant, leafy, halvings - 1)
        ]
        return halved[0], halved[1]
    if kind == "forest":
        return _forest(variant, leafy)
    rng = Rng(62, variant)
    spacing = ROW_WIDTH / (7 if kind == "vine" else 5)
    endpoints, radii, leaf_points, feet = [], [], [], []
    for index in range(int(ROW_WIDTH / spacing + 0.5)):
        plant = grown_plant(kind, rng.whole(0, VARIANTS - 1))
        plant_height = float(-min(plant.start[:, 1].min(), plant.end[:, 1].min()))
        scale = ROW_HEIGHT * rng.uniform(0.78, 0.95) / plant_height
        if kind == "vine":  # all arms are at the same height
            scale = ROW_HEIGHT * 0.42 / plant.wire
        foot = np.asarray((spacing * (index + rng.uniform(0.4, 0.6)), ROW_HEIGHT - 2.0))
        feet.append(float(foot[0]))
        mirror = np.asarray((rng.choice((-scale, scale)), scale))
        endpoints.append(np.stack([plant.start, plant.end]) * mirror + foot)
        radii.append(np.stack([plant.start_radius, plant.end_radius]) * scale)
        leaf_points.append(plant.points * mirror + foot)
    (start, end), (start_radius, end_radius) = np.concatenate(endpoints, axis=1), np.concatenate(radii, axis=1)
    shift = np.repeat(np.asarray([(-ROW_WIDTH, 0.0), (0.0, 0.0), (ROW_WIDTH, 0.0)]), len(start), axis=0)
    start, end = (snapped(np.tile(points, (3, 1)) + shift) for points in (start, end))
    start_radius, end_radius = (snapped(np.maximum(np.tile(values, 3), 0.3)) for values in (start_radius, end_radius))
    fragments = union(rasterize(strokes(start, end, start_radius, end_radius), (ROW_WIDTH, ROW_HEIGHT)))
    cover: Int16Array = np.zeros(ROW_WIDTH * ROW_HEIGHT, dtype=np.int16)
    cover[fragments.pixel] = fragments.coverage >> 2
    cover = cover.reshape(ROW_HEIGHT, ROW_WIDTH)
    shade = np.full_like(cover, -52 if leafy else 0)
    if leafy:
        mass = _leaf_mass(np.concatenate(leaf_points))
        tile = leaf_tile(1)
        is_leaf = mass > tile.threshold[:ROW_HEIGHT, :ROW_WIDTH]
        cover = np.where(is_leaf, np.int16(64), cover)
        slope = np.zeros_like(mass)
        slope[4:] = mass[4:] - mass[:-4]
        tone = (tile.tone[:ROW_HEIGHT, :ROW_WIDTH] >> 1) + np.clip(slope, -30, 30) - (mass >> 3)
        shade = np.where(is_leaf, tone, shade).astype(np.int16)
    np.maximum(cover, _shade_at(feet), out=cover)
    # The feet fade into the grass.
    cover[-FOOT_ROWS:] = cover[-FOOT_ROWS:] * np.arange(FOOT_ROWS - 1, -1, -1, dtype=np.int16)[:, None] // FOOT_ROWS
    return cover, shade


def _shade_at(feet: list[float]) -> Int16Array:
    """Return the (ROW_HEIGHT, ROW_WIDTH) cover of the dark patches below plants at some columns."""
    x = np.arange(ROW_WIDTH) - snapped(feet)[:, None]
    x = (x - ROW_WIDTH * np.floor(x / ROW_WIDTH + 0.5)) / SHADE_HALF_WIDTH
    y = (np.arange(ROW_HEIGHT) - (ROW_HEIGHT - 4.0)) / SHADE_HALF_HEIGHT
    darkness = np.maximum(1.0 - (x * x).min(axis=0)[None, :] - (y * y)[:, None], 0.0)
    return np.asarray(np.floor(darkness * SHADE_COVER), dtype=np.int16)


def _forest(variant: int, leafy: bool) -> tuple[Int16Array, Int16Array]:
    """Make the tile of the edge of a wood: many rows of trees, the nearer the lower and the darker."""
    rng = Rng(63, variant)
    cover: Int16Array = np.zeros((ROW_HEIGHT, ROW_WIDTH), dtype=np.int16)
    shade = np.zeros_like(cover)
    layers = 9
    for index in range(layers):
        row_cover, row_shade = row_tile("orchard", rng.whole(0, VARIANTS - 1), leafy or rng.chance(0.25), 0)
        row_height = int(ROW_HEIGHT * rng.uniform(0.75, 1.0) * (1 - 0.55 * index / layers))
        row = np.arange(row_height) * ROW_HEIGHT // row_height
        column = (np.arange(ROW_WIDTH) * (1 + index % 2) + rng.whole(0, ROW_WIDTH - 1)) % ROW_WIDTH
        layer_cover = row_cover[np.ix_(row, column)]
        layer_shade = row_shade[np.ix_(row, column)] + np.int16(rng.whole(-20, 18) - 2 * index)
        under = slice(ROW_HEIGHT - row_height, None)
        shade[under] += ((layer_shade - shade[under]) * layer_cover) >> 6
        cover[under] = np.maximum(cover[under], layer_cover)
    # Undergrowth hides the sky below the crowns.
    uneven = noise.clouds()[0, variant * 80, :ROW_WIDTH].astype(np.int16)[None, :] >> 1
    undergrowth = np.clip(
        (np.arange(ROW_HEIGHT, dtype=np.int16)[:, None] - ROW_HEIGHT // 2 + uneven) * np.int16(2), 0, 64
    )
    bushes = noise.clouds()[0, variant * 80 :, :ROW_WIDTH][:ROW_HEIGHT].astype(np.int16) >> 2
    bushes += noise.mottle()[0, variant * 80 :, :ROW_WIDTH][:ROW_HEIGHT] >> 2
    shade += (bushes - np.int16(14)) * undergrowth >> 6
    return np.maximum(cover, undergrowth), np.clip(shade, np.int16(-48), np.int16(40))


def _leaf_mass(points: FloatArray) -> Int16Array:
    """Return the (ROW_HEIGHT, ROW_WIDTH) density of leaves around points in the tile, 0 to 127."""
    cell = CELL_PX // 2
    down, across = ROW_HEIGHT // cell, ROW_WIDTH // cell
    position = (points / cell).astype(np.intp)
    inside = (position[:, 1] >= 0) & (position[:, 1] < down)
    count = np.bincount(position[inside, 1] * across + position[inside, 0] % across, minlength=down * across)
    mass = np.minimum(noise.soft(np.minimum(count, 2).reshape(down, across).astype(np.int32) << 7, 2) * 3 // 2, 124)
    return noise.enlarge(mass.astype(np.int16), (ROW_WIDTH, ROW_HEIGHT))


def paint_row(
    rng: Rng, canvas: Canvas, kind: str, foot: float, height_px: float, color: Color, *, leafy: bool, blur_px: float
) -> None:
    """Paint a row of vines or trees, or a forest, out of focus; see `row_tile`.

    The plants stand at y = `foot`. The color is that in the light and distance of the row.
    """
    width, height = canvas.size
    top, bottom = int(foot - height_px), int(foot)
    rows = slice(max(0, top), min(bottom, height))
    if rows.stop - rows.start < 2:
        return
    # Halve the tile until its pixels are as large as the blur; the enlargement smooths them.
    halvings = 0
    while halvings < MAX_HALVINGS and height_px * 2**halvings < ROW_HEIGHT * blur_px * 0.7:
        halvings += 1
    cover, shade = row_tile(kind, rng.whole(0, VARIANTS - 1), leafy, halvings)
    tile_height, tile_width = cover.shape
    first_column, direction = rng.whole(0, tile_width - 1), rng.choice((-1, 1))
    column = (first_column + direction * np.arange(max(2, int(width * tile_height / height_px)))) % tile_width
    size, visible = (width, bottom - top), slice(rows.start - top, rows.stop - top)
    row_cover = cover[:, column]
    if kind != "forest":  # blurred wood is wider, but not transparent
        row_cover += row_cover >> 1
        np.minimum(row_cover, np.int16(60), out=row_cover)
    weight = noise.enlarge(row_cover, size, visible)
    if leafy or kind == "forest":
        texture = noise.enlarge_gently(shade[:, column], size)[visible]
        canvas.mix(color, weight, rows, texture=texture, contrast=(0.85, 0.85, 0.8))
    else:
        canvas.mix(color, weight, rows)
