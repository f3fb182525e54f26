"""Shoots of young seedlings on a plate: stems, cotyledons and first leaves above the base of each root.

`size_px` is the length of a leaf or a grain, in rosettes that from the center to the leaf tips.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from treeformer._util.arrays import FloatArray
from treeformer.synthetic.painting.canvas import Sketch
from treeformer.synthetic.rng import Rng

LEAF_COLORS = ((132, 172, 118), (148, 170, 84), (140, 168, 106), (104, 142, 76), (158, 178, 96), (112, 158, 70))
SICK_COLORS = ((196, 190, 130), (120, 92, 104), (206, 202, 180))  # yellowing, purple, bleached
SICK_FRACTION = 0.04


def rosettes(rng: Rng, sketch: Sketch, bases: FloatArray, size_px: float) -> None:
    """Draw one rosette per base: round leaves on thin stalks at the top of a short stem."""
    plants, max_leaves = len(bases), rng.weighted(((2, 0.3), (4, 0.45), (6, 0.25)))
    sizes_px = size_px * rng.array(plants, low=0.7, high=1.15)
    color = _colors(rng, plants)
    stem = rng.uniform(0.15, 0.8) * rng.array(plants, low=0.6, high=1.2) * sizes_px
    stem_top = bases + np.stack([stem * rng.array(plants, low=-0.4, high=0.4), -stem], axis=1)
    stem_radius = np.maximum(0.4, sizes_px * 0.06)
    sketch.add(bases, stem_top, stem_radius, stem_radius, 0.5 * color + (95, 98, 82), 0.85)
    # Cotyledons on both sides, later leaves in between. Some plants have two leaves fewer.
    has_leaf = np.arange(max_leaves) < (max_leaves - 2 * (rng.array(plants, 1) < 0.3))
    plant, leaf = np.nonzero(has_leaf)
    leaf_count = len(plant)
    angle = (
        rng.array(plants, low=-0.5, high=0.5)[plant] + leaf * math.pi + leaf // 2 * 1.1 + rng.bell(leaf_count) * 0.25
    )
    reach = sizes_px[plant] * np.where(leaf < 2, 1.0, 0.8) * rng.array(leaf_count, low=0.72, high=1.05)
    flattening = rng.uniform(0.35, 0.85)  # rosettes look flat from the side
    step = np.stack([np.cos(angle), np.sin(angle) * flattening - 0.25], axis=1) * reach[:, None]
    half_width = reach * rng.array(leaf_count, low=0.22, high=0.36)
    tone = color[plant] * rng.array(leaf_count, 1, low=0.78, high=1.15)
    center = stem_top[plant]
    stalk, blade, tip = (center + share * step for share in (0.5, 0.74, 1.0))
    sketch.add(center, stalk, stem_radius[plant], stem_radius[plant], color[plant] * 0.85 + 22, 0.9)
    shade = max(4.0, min(20.0, 1.4 * size_px))
    sketch.add(stalk, blade, half_width * 0.55, half_width, tone, 0.97, 1.2, shade)
    sketch.add(blade, tip, half_width, half_width * 0.7, tone, 0.97, 1.2, shade)


def cotyledons(rng: Rng, sketch: Sketch, bases: FloatArray, size_px: float) -> None:
    """Draw a pale stem above each base, with two heart- or spoon-shaped leaves, half unfolded."""
    plants = len(bases)
    sizes_px = size_px * rng.array(plants, low=0.75, high=1.15)
    color = _colors(rng, plants)
    height = sizes_px * rng.uniform(0.7, 2.8) * rng.array(plants, low=0.6, high=1.2)
    lean, bow = rng.array(plants, low=-0.5, high=0.5), rng.array(plants, low=-0.2, high=0.2)
    share = np.linspace(0.0, 1.0, 6)[:, None]
    stems = np.stack([height * (lean * share * share + bow * share * (1 - share)), -height * share], axis=-1) + bases
    stem_radius = np.maximum(0.5, sizes_px * rng.uniform(0.07, 0.12))
    pale = np.asarray((182, 190, 150)) * rng.uniform(0.75, 1.1)
    for lower, upper in pairwise(stems):
        sketch.add(lower, upper, stem_radius, stem_radius, pale, 0.95, 1.2, 8.0)
    top = np.concatenate([stems[-1], stems[-1]])
    leaf_count = 2 * plants
    side = np.where(np.arange(leaf_count) < plants, -1.0, 1.0)
    opening = np.tile(rng.array(plants, low=0.35, high=1.4), 2)
    angle = -math.pi / 2 + np.tile(lean, 2) * 0.6 + side * opening + rng.bell(leaf_count) * 0.2
    reach = np.tile(sizes_px, 2) * rng.array(leaf_count, low=0.75, high=1.05)
    step = np.stack([np.cos(angle), np.sin(angle)], axis=1) * reach[:, None]
    half_width = reach * rng.array(leaf_count, low=0.2, high=0.36)
    tone = np.tile(color, (2, 1)) * rng.array(leaf_count, 1, low=0.78, high=1.15)
    sketch.add(top, top + 0.55 * step, half_width * 0.25, half_width, tone, 0.98, 1.2, 16.0)
    sketch.add(top + 0.55 * step, top + step, half_width, half_width * 0.55, tone, 0.98, 1.2, 16.0)


def blades(rng: Rng, sketch: Sketch, bases: FloatArray, size_px: float) -> None:
    """Draw a grain at each base, with up to two upright cereal blades above it."""
    relative_height, greenness = rng.uniform(1.5, 8.0), rng.uniform(0.0, 1.0)
    husk = np.asarray((182, 152, 104)) * rng.uniform(0.7, 1.1)
    blade = np.asarray((206, 208, 160)) * (1 - greenness) + np.asarray((112, 148, 78)) * greenness
    share = np.linspace(0.0, 1.0, 7)
    for base in bases:
        plant_px = size_px * rng.uniform(0.85, 1.15)
        for _ in range(rng.whole(0, 2)):
            height, lean = plant_px * relative_height * rng.uniform(0.5, 1.2), rng.uniform(-0.3, 0.3)
            bow = rng.uniform(-0.4, 0.4)
            path = base + np.stack([height * (lean * share + bow * share * share), -height * share], axis=1)
            sketch.line(path, plant_px * np.linspace(0.14, 0.05, 7), blade * rng.uniform(0.85, 1.1), 0.95, 1.2, 14.0)
        slant = rng.uniform(-1.2, 1.2)
        along = np.asarray((math.sin(slant), -math.cos(slant))) * plant_px
        grain_radius = plant_px * 0.3 * np.sqrt(np.maximum(1 - (2 * share - 1) ** 2 * 0.9, 0.05))
        grain = base + np.outer(share - 0.15, along)
        sketch.line(grain, grain_radius, husk * rng.uniform(0.9, 1.1), 1.0, 1.2, 24.0)


def _colors(rng: Rng, plants: int) -> FloatArray:
    """Return (plants,3) similar greens, with an occasional discolored plant."""
    green = np.asarray(rng.choice(LEAF_COLORS)) * rng.uniform(0.75, 1.1)
    color = green * rng.array(plants, 1, low=0.88, high=1.1)
    sick = rng.array(plants, 1) < SICK_FRACTION
    return np.where(sick, np.asarray(rng.choice(SICK_COLORS)), color)


def rosettes_from_above(rng: Rng, sketch: Sketch, bases: FloatArray, size_px: float) -> None:
    """Draw one older rosette per base: many leaves on stalks in all directions, which hide the base."""
    plants, leaves = len(bases), rng.whole(5, 12)
    sizes_px = size_px * rng.array(plants, low=0.6, high=1.15)
    color = _colors(rng, plants)
    center = bases + np.stack(
        [sizes_px * rng.array(plants, low=-0.12, high=0.12), -sizes_px * rng.array(plants, low=0.0, high=0.3)], axis=1
    )
    flattening, narrow = rng.uniform(0.45, 1.0), rng.uniform(0.2, 0.36)
    # The youngest leaves are the shortest; they are drawn last.
    for leaf in range(leaves):
        angle = rng.array(plants, low=-0.4, high=0.4) + leaf * 2.4  # the golden angle
        reach = sizes_px * (1.0 - 0.65 * leaf / leaves) * rng.array(plants, low=0.75, high=1.1)
        step = np.stack([np.cos(angle), np.sin(angle) * flattening], axis=1) * reach[:, None]
        tone = color * rng.array(plants, 1, low=0.75, high=1.15) * (0.85 + 0.3 * leaf / leaves)
        half = np.maximum(reach * narrow, 0.6)
        stalk, blade, tip = (center + share * step for share in (0.4, 0.7, 1.0))
        sketch.add(center, stalk, half * 0.25, half * 0.3, tone * 0.9, 0.97)
        sketch.add(stalk, blade, half * 0.5, half, tone, 0.98, 1.2, 14.0)
        sketch.add(blade, tip, half, half * 0.6, tone, 0.98, 1.2, 14.0)
