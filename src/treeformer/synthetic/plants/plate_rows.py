"""Rows of young seedlings on an agar plate."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from treeformer._util.arrays import FloatArray
from treeformer.synthetic.plants.growth import (
    DOWN,
    NODE_SPACING_PX,
    GrownAxis,
    alternate_sides,
    curves,
    main_axis,
    side_axes,
)
from treeformer.synthetic.rng import Rng

# Arabidopsis and similar plants; rape, lettuce and cress, with a longer stem; cereals, with a grain.
PLATE_KINDS = ("rosette", "sprout", "cereal")
KIND_WEIGHTS = (0.64, 0.22, 0.14)
# Minimum mean distance between seedlings, and minimum length of a main root.
MIN_SPACING_PX, MIN_ROOT_PX = 8.0, 16.0
MAX_LATERALS = 16
# Number of nodes planned for an image. Laterals get those that the main roots do not need.
NODES_PLANNED = 360


@dataclass(frozen=True, slots=True)
class View:
    """How a plate is framed. Every attribute is a (low, high) range."""

    count: tuple[int, int]  # number of seedlings in a row
    row: tuple[float, float]  # length of the row, as a share of the image width
    line: tuple[float, float]  # y of the row, as a share of the image height
    reach: tuple[float, float]  # length of the roots, as a share of the image height
    thickness: tuple[float, float]  # radius of a root in an image of 512 px, px


WHOLE_PLATE = View((8, 18), (0.5, 0.8), (0.1, 0.32), (0.1, 0.4), (0.38, 0.75))
FILLED_FRAME = View((5, 20), (0.72, 0.93), (0.05, 0.2), (0.15, 0.65), (0.42, 1.0))
CLOSE_UP = View((3, 6), (0.6, 0.9), (0.01, 0.22), (0.35, 0.95), (0.75, 2.2))


@dataclass(frozen=True, slots=True)
class Habit:
    """Properties that all seedlings of a plate share, because they have the same age and lean the same way."""

    down: float  # direction to which roots bend, radians
    wander: float  # standard deviation of the random changes of direction, radians
    crooked: int  # how close together the bends are, from 1
    pull: float  # strength of the bend towards `down`, per length of the root
    roots: int  # maximum number of main roots per plant
    laterals: int  # maximum number of laterals per main root
    longest: float  # maximum length of a lateral, as a share of its main root


def plant_rows(
    rng: Rng, axes: list[GrownAxis], size: tuple[int, int], weights: tuple[float, float, float] = KIND_WEIGHTS
) -> str:
    """Grow one or two rows of seedlings, in an image of a plate or of a part of one.

    Return their kind; `weights` are those of `PLATE_KINDS`.
    """
    width, height = size
    scale = min(size) / 512
    kind = rng.weighted(tuple(zip(PLATE_KINDS, weights, strict=True)))
    view = rng.weighted(((WHOLE_PLATE, 0.56), (FILLED_FRAME, 0.26), (CLOSE_UP, 0.18)))
    length = width * rng.uniform(*view.row)
    count = min(rng.whole(*view.count), max(2, int(length / MIN_SPACING_PX)))
    reach, thickness = height * rng.uniform(*view.reach), scale * rng.uniform(*view.thickness)
    if kind == "cereal":
        count, reach, thickness = (count + 1) // 2 + 1, reach * 1.3, thickness * 1.5
    elif kind == "sprout":
        thickness *= 1.25
    line = height * rng.uniform(*view.line)
    rows = 2 if view is not CLOSE_UP and rng.chance(0.2) else 1
    row_distance = height * rng.uniform(0.28, 0.45)
    if rows == 2:
        line, reach = min(line, height * 0.15), min(reach, row_distance * rng.uniform(0.6, 1.15))
    reach = max(min(reach, NODES_PLANNED * NODE_SPACING_PX / (count * rows)), MIN_ROOT_PX)
    # A slightly rotated plate rotates the row and the direction of growth alike.
    turn = rng.uniform(-0.1, 0.1) if rng.chance(0.2) else rng.uniform(-0.025, 0.025)
    middle = width * 0.5 + (width - length) * rng.uniform(-0.35, 0.35)
    along = np.concatenate([_row_positions(rng, count) for _ in range(rows)]) * length
    below = np.repeat(np.arange(rows) * row_distance, count)
    offset = rng.bell(count * rows) * (rng.uniform(0.0, 0.012) * height)
    x = middle + along * math.cos(turn) - below * math.sin(turn)
    y = line + below * math.cos(turn) + along * math.sin(turn) + offset
    bases = np.stack([x, np.minimum(np.maximum(y, 2.0), height - 8.0)], axis=1)
    habit = _habit(rng, kind, turn, NODES_PLANNED / (count * rows) - reach / NODE_SPACING_PX)
    _grow(rng, axes, bases, reach, thickness, habit)
    return kind


def _habit(rng: Rng, kind: str, turn: float, nodes_left: float) -> Habit:
    """Draw the habit of the seedlings of a plate that is rotated by `turn`, radians.

    `nodes_left` is the number of nodes per plant that are left for its laterals.
    """
    straight = kind != "rosette" or rng.chance(0.25)
    crooked = 1 if straight else rng.whole(1, 2)
    # On a tilted plate all roots drift to the same side.
    drift = rng.uniform(-0.35, 0.35) if rng.chance(0.35) else rng.uniform(-0.08, 0.08)
    laterals = 0 if rng.chance(0.25) else min(rng.whole(3, MAX_LATERALS), max(int(nodes_left / 1.4), 0))
    return Habit(
        down=DOWN + turn + drift,
        wander=rng.uniform(0.05, 0.16) if straight else rng.uniform(0.2, 0.5 - 0.1 * crooked),
        crooked=crooked,
        pull=rng.uniform(2.0, 8.0),
        roots=4 if kind == "cereal" else 1,
        laterals=laterals // 3 if kind == "cereal" else laterals,
        longest=rng.uniform(0.2, 0.5) if rng.chance(0.2) else rng.uniform(0.06, 0.2),
    )


def _row_positions(rng: Rng, count: int) -> FloatArray:
    """Draw the positions (count,) of seedlings along a row, from -1/2 to 1/2, evenly spaced or in groups."""
    groups = rng.weighted(((1, 0.5), (2, 0.14), (3, 0.26), (4, 0.1))) if count > 5 else 1
    gap = rng.array(count, low=0.6, high=1.4)
    group = np.arange(count) * groups // count
    gap[1:] += np.where(np.diff(group) > 0, rng.uniform(0.7, 2.4), 0.0)
    if rng.chance(0.3):  # some did not germinate
        gap += np.where(rng.array(count) < 0.12, 1.0, 0.0)
    position = np.cumsum(gap)
    return np.asarray((position - position[0]) / max(position[-1] - position[0], 1e-9) - 0.5)


def _grow(rng: Rng, axes: list[GrownAxis], bases: FloatArray, reach: float, thickness: float, habit: Habit) -> None:
    """Grow the main roots of each base (R,2) and their laterals.

    There is one thin main root per base, or a few per grain. The oldest laterals are the longest.
    """
    plants = len(bases)
    vigor = np.where(rng.array(plants) < 0.12, 0.4, 1.0) * rng.array(plants, low=0.6, high=1.05)
    roots = 1 + (rng.array(plants) * habit.roots).astype(np.intp)
    plant = np.repeat(np.arange(plants), roots)
    rank = np.arange(len(plant)) - np.repeat(np.cumsum(roots) - roots, roots)  # of a root among those of its plant
    # The roots of one grain spread like a fan.
    fan = ((rank + 0.5) / roots[plant] * 2 - 1) * rng.array(plants, low=0.3, high=0.9)[plant]
    length = np.maximum(reach * vigor[plant] * np.where(rank > 0, rng.array(len(plant), low=0.5), 1.0), MIN_ROOT_PX)
    down = habit.down + 0.4 * fan + rng.array(len(plant), low=-0.1, high=0.1)
    heading = DOWN + 1.3 * fan + rng.array(len(plant), low=-0.4, high=0.4)
    # A root that is grown at a larger scale and then reduced has its bends closer together.
    scale = habit.crooked
    large = curves(rng, bases[plant] * scale, heading, length * scale, down, habit.pull / (reach * scale), habit.wander)
    paths = [path[::scale] / scale for path in large]
    base_px = thickness * rng.array(len(plant), low=0.85, high=1.2)
    tip_px = np.maximum(0.3, base_px * rng.array(len(plant), low=0.6, high=0.9))
    label = "primary" if habit.roots == 1 else "seminal"
    first = len(axes)
    for root, path in enumerate(paths):
        main_axis(axes, path, float(base_px[root]), float(tip_px[root]), label, int(plant[root]))

    min_laterals = habit.laterals // 2
    laterals = min_laterals + (rng.array(len(plant)) * (habit.laterals - min_laterals + 1)).astype(np.intp)
    parent = np.repeat(np.arange(len(plant)), laterals)
    share = rng.array(len(parent)) ** rng.uniform(1.0, 1.8)
    side_axes(
        rng,
        axes,
        (parent + first).tolist(),
        rng.array(len(plant), low=0.4, high=0.8)[parent] * share + 0.02,
        turn=alternate_sides(rng, len(parent)) * rng.array(len(parent), low=0.7, high=1.4),
        length=6.0 + length[parent] * habit.longest * rng.array(len(parent), low=0.05) * (1.05 - 0.85 * share),
        base_px=np.maximum(0.33, base_px[parent] * rng.array(len(parent), low=0.5, high=0.8)),
        tip_px=np.maximum(0.28, base_px[parent] * rng.array(len(parent), low=0.4, high=0.6)),
        label="lateral",
        towards=down[parent],
        pull=rng.array(len(parent), low=0.003, high=0.03),
        wander=habit.wander * 1.1 + 0.06,
    )
