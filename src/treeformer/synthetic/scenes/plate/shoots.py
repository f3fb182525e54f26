"""The shoots of young seedlings on a plate: stems, cotyledons and first leaves above the point where a root begins."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from treeformer._util.arrays import FloatArray
from treeformer.synthetic.painting.canvas import Sketch
from treeformer.synthetic.rng import Rng

LEAF_COLORS = ((132, 172, 118), (148, 170, 84), (140, 168, 106), (104, 142, 76), (158, 178, 96), (112, 158, 70))
SICK_COLORS = ((196, 190, 130), (120, 92, 104), (206, 202, 180))  # yellowing, purple, bleached
SICK_SHARE = 0.04


def rosettes(rng: Rng, sketch: Sketch, bases: FloatArray, size_px: float) -> None:
    """Round leaves on thin stalks around the top of a short stem, a rosette a base (R,2).

    size_px: how far leaves reach from the middle of a rosette.
    """
    plants, leaves = len(bases), rng.weighted(((2, 0.3), (4, 0.45), (6, 0.25)))
    own_px = size_px * rng.array(plants, low=0.7, high=1.15)
    color = _colors(rng, plants)
    stem = rng.uniform(0.15, 0.8) * rng.array(plants, low=0.6, high=1.2) * own_px
    middle = bases + np.stack([stem * rng.array(plants, low=-0.4, high=0.4), -stem], axis=1)
    thin = np.maximum(0.4, own_px * 0.06)
    sketch.add(bases, middle, thin, thin, 0.5 * color + (95, 98, 82), 0.85)
    # Cotyledons to both sides, later leaves in between; some plants have fewer.
    grown = np.arange(leaves) < (leaves - 2 * (rng.array(plants, 1) < 0.3))
    plant, leaf = np.nonzero(grown)
    count = len(plant)
    angle = rng.array(plants, low=-0.5, high=0.5)[plant] + leaf * math.pi + leaf // 2 * 1.1 + rng.bell(count) * 0.25
    reach = own_px[plant] * np.where(leaf < 2, 1.0, 0.8) * rng.array(count, low=0.72, high=1.05)
    flat = rng.uniform(0.35, 0.85)  # seen from the side, rosettes are flat
    step = np.stack([np.cos(angle), np.sin(angle) * flat - 0.25], axis=1) * reach[:, None]
    wide = reach * rng.array(count, low=0.22, high=0.36)
    tone = color[plant] * rng.array(count, 1, low=0.78, high=1.15)
    center = middle[plant]
    stalk, blade, tip = (center + share * step for share in (0.5, 0.74, 1.0))
    sketch.add(center, stalk, thin[plant], thin[plant], color[plant] * 0.85 + 22, 0.9)
    shade = max(4.0, min(20.0, 1.4 * size_px))
    sketch.add(stalk, blade, wide * 0.55, wide, tone, 0.97, 1.2, shade)
    sketch.add(blade, tip, wide, wide * 0.7, tone, 0.97, 1.2, shade)


def cotyledons(rng: Rng, sketch: Sketch, bases: FloatArray, size_px: float) -> None:
    """A pale stem above each base (R,2), with two leaves like hearts or spoons, half unfolded."""
    plants = len(bases)
    own_px = size_px * rng.array(plants, low=0.75, high=1.15)
    color = _colors(rng, plants)
    height = own_px * rng.uniform(0.7, 2.8) * rng.array(plants, low=0.6, high=1.2)
    lean, bow = rng.array(plants, low=-0.5, high=0.5), rng.array(plants, low=-0.2, high=0.2)
    share = np.linspace(0.0, 1.0, 6)[:, None]
    stems = np.stack([height * (lean * share * share + bow * share * (1 - share)), -height * share], axis=-1) + bases
    thick = np.maximum(0.5, own_px * rng.uniform(0.07, 0.12))
    pale = np.asarray((182, 190, 150)) * rng.uniform(0.75, 1.1)
    for lower, upper in pairwise(stems):
        sketch.add(lower, upper, thick, thick, pale, 0.95, 1.2, 8.0)
    top = np.concatenate([stems[-1], stems[-1]])
    count = 2 * plants
    side = np.where(np.arange(count) < plants, -1.0, 1.0)
    opened = np.tile(rng.array(plants, low=0.35, high=1.4), 2)
    angle = -math.pi / 2 + np.tile(lean, 2) * 0.6 + side * opened + rng.bell(count) * 0.2
    reach = np.tile(own_px, 2) * rng.array(count, low=0.75, high=1.05)
    step = np.stack([np.cos(angle), np.sin(angle)], axis=1) * reach[:, None]
    wide = reach * rng.array(count, low=0.2, high=0.36)
    tone = np.tile(color, (2, 1)) * rng.array(count, 1, low=0.78, high=1.15)
    sketch.add(top, top + 0.55 * step, wide * 0.25, wide, tone, 0.98, 1.2, 16.0)
    sketch.add(top + 0.55 * step, top + step, wide, wide * 0.55, tone, 0.98, 1.2, 16.0)


def blades(rng: Rng, sketch: Sketch, bases: FloatArray, size_px: float) -> None:
    """A grain at each base (R,2), and one or two upright blades of a cereal above it."""
    tall, green = rng.uniform(1.5, 8.0), rng.uniform(0.0, 1.0)
    husk = np.asarray((182, 152, 104)) * rng.uniform(0.7, 1.1)
    blade = np.asarray((206, 208, 160)) * (1 - green) + np.asarray((112, 148, 78)) * green
    share = np.linspace(0.0, 1.0, 7)
    for base in bases:
        own_px = size_px * rng.uniform(0.85, 1.15)
        for _ in range(rng.whole(0, 2)):
            height, lean = own_px * tall * rng.uniform(0.5, 1.2), rng.uniform(-0.3, 0.3)
            bow = rng.uniform(-0.4, 0.4)
            path = base + np.stack([height * (lean * share + bow * share * share), -height * share], axis=1)
            sketch.line(path, own_px * np.linspace(0.14, 0.05, 7), blade * rng.uniform(0.85, 1.1), 0.95, 1.2, 14.0)
        slant = rng.uniform(-1.2, 1.2)
        along = np.asarray((math.sin(slant), -math.cos(slant))) * own_px
        plump = own_px * 0.3 * np.sqrt(np.maximum(1 - (2 * share - 1) ** 2 * 0.9, 0.05))
        grain = base + np.outer(share - 0.15, along)
        sketch.line(grain, plump, husk * rng.uniform(0.9, 1.1), 1.0, 1.2, 24.0)


def _colors(rng: Rng, plants: int) -> FloatArray:
    """(plants,3) greens of one kind, and now and then a plant that is not well."""
    green = np.asarray(rng.choice(LEAF_COLORS)) * rng.uniform(0.75, 1.1)
    color = green * rng.array(plants, 1, low=0.88, high=1.1)
    sick = rng.array(plants, 1) < SICK_SHARE
    return np.where(sick, np.asarray(rng.choice(SICK_COLORS)), color)
