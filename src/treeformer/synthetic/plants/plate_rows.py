"""Rows of young seedlings on an agar plate: where each stands on the line, and how its roots grow down the agar."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from treeformer._util.arrays import FloatArray
from treeformer.synthetic.plants.growth import DOWN, NODE_SPACING_PX, GrownAxis, curves, main_axis, side_axes
from treeformer.synthetic.plants.plants import either_side
from treeformer.synthetic.rng import Rng

# Arabidopsis and its like; rape, lettuce, cress with a longer stem; cereals with a grain.
PLATE_KINDS = ("rosette", "sprout", "cereal")
# Seedlings stand no nearer to each other than this in the mean, and none is shorter than the latter.
NEAREST_PX, SHORTEST_PX = 8.0, 16.0
MOST_LATERALS = 16
# Nodes of an image that the growth models would fill; what is left after the main roots goes into laterals.
NODES_PLANNED = 360


@dataclass(frozen=True, slots=True)
class View:
    """How a plate is seen: ranges of the number of seedlings in a row, and of sizes as shares of the image.

    row: the length of the row, of the width. line: where it lies, reach: how far roots grow, of the height.
    thickness: radius of a root in an image of 512 px.
    """

    count: tuple[int, int]
    row: tuple[float, float]
    line: tuple[float, float]
    reach: tuple[float, float]
    thickness: tuple[float, float]


WHOLE_PLATE = View((8, 18), (0.5, 0.8), (0.1, 0.32), (0.1, 0.4), (0.38, 0.75))
FILLED_FRAME = View((5, 20), (0.72, 0.93), (0.05, 0.2), (0.15, 0.65), (0.42, 1.0))
CLOSE_UP = View((3, 6), (0.6, 0.9), (0.01, 0.22), (0.35, 0.95), (0.75, 2.2))


@dataclass(frozen=True, slots=True)
class Habit:
    """What the seedlings of one plate have in common: they are of one age and lean one way.

    down: the heading to which roots turn; pull: how fast, a length of the root. wander: how far they stray from it,
    radians; crooked: how often, from 1. roots: the most that leave one base. laterals: the most a root has; longest:
    of these, as a share of it.
    """

    down: float
    wander: float
    crooked: int
    pull: float
    roots: int
    laterals: int
    longest: float


def plant_rows(rng: Rng, axes: list[GrownAxis], size: tuple[int, int]) -> str:
    """One row of seedlings, or two, in an image of a plate or of a part of one. Returns their kind."""
    width, height = size
    scale = min(size) / 512
    kind = rng.weighted(tuple(zip(PLATE_KINDS, (0.64, 0.22, 0.14), strict=True)))
    view = rng.weighted(((WHOLE_PLATE, 0.56), (FILLED_FRAME, 0.26), (CLOSE_UP, 0.18)))
    length = width * rng.uniform(*view.row)
    count = min(rng.whole(*view.count), max(2, int(length / NEAREST_PX)))
    reach, thickness = height * rng.uniform(*view.reach), scale * rng.uniform(*view.thickness)
    if kind == "cereal":
        count, reach, thickness = (count + 1) // 2 + 1, reach * 1.3, thickness * 1.5
    elif kind == "sprout":
        thickness *= 1.25
    line = height * rng.uniform(*view.line)
    rows = 2 if view is not CLOSE_UP and rng.chance(0.2) else 1
    apart = height * rng.uniform(0.28, 0.45)
    if rows == 2:
        line, reach = min(line, height * 0.15), min(reach, apart * rng.uniform(0.6, 1.15))
    reach = max(min(reach, NODES_PLANNED * NODE_SPACING_PX / (count * rows)), SHORTEST_PX)
    # A plate that is turned a little turns all: the row, and where down is.
    turn = rng.uniform(-0.1, 0.1) if rng.chance(0.2) else rng.uniform(-0.025, 0.025)
    middle = width * 0.5 + (width - length) * rng.uniform(-0.35, 0.35)
    along = np.concatenate([_along_the_row(rng, count) for _ in range(rows)]) * length
    below = np.repeat(np.arange(rows) * apart, count)
    uneven = rng.bell(count * rows) * (rng.uniform(0.0, 0.012) * height)
    x = middle + along * math.cos(turn) - below * math.sin(turn)
    y = line + below * math.cos(turn) + along * math.sin(turn) + uneven
    bases = np.stack([x, np.minimum(np.maximum(y, 2.0), height - 8.0)], axis=1)
    habit = _habit(rng, kind, turn, NODES_PLANNED / (count * rows) - reach / NODE_SPACING_PX)
    _grow(rng, axes, bases, reach, thickness, habit)
    return kind


def _habit(rng: Rng, kind: str, turn: float, nodes_left: float) -> Habit:
    """How the seedlings of a plate grow; nodes_left: how many nodes a plant has left for its laterals."""
    straight = kind != "rosette" or rng.chance(0.25)
    crooked = 1 if straight else rng.whole(1, 2)
    # Roots on a plate that stands aslant all drift to one side.
    drift = rng.uniform(-0.35, 0.35) if rng.chance(0.35) else rng.uniform(-0.08, 0.08)
    most = 0 if rng.chance(0.25) else min(rng.whole(3, MOST_LATERALS), max(int(nodes_left / 1.4), 0))
    return Habit(
        down=DOWN + turn + drift,
        wander=rng.uniform(0.05, 0.16) if straight else rng.uniform(0.2, 0.5 - 0.1 * crooked),
        crooked=crooked,
        pull=rng.uniform(2.0, 8.0),
        roots=4 if kind == "cereal" else 1,
        laterals=most // 3 if kind == "cereal" else most,
        longest=rng.uniform(0.2, 0.5) if rng.chance(0.2) else rng.uniform(0.06, 0.2),
    )


def _along_the_row(rng: Rng, count: int) -> FloatArray:
    """(count,) where seedlings stand along a row, from -1/2 to 1/2: evenly or in groups, as lines are compared."""
    groups = rng.weighted(((1, 0.5), (2, 0.14), (3, 0.26), (4, 0.1))) if count > 5 else 1
    gap = rng.array(count, low=0.6, high=1.4)
    number = np.arange(count) * groups // count
    gap[1:] += np.where(np.diff(number) > 0, rng.uniform(0.7, 2.4), 0.0)
    if rng.chance(0.3):  # some did not germinate
        gap += np.where(rng.array(count) < 0.12, 1.0, 0.0)
    place = np.cumsum(gap)
    return np.asarray((place - place[0]) / max(place[-1] - place[0], 1e-9) - 0.5)


def _grow(rng: Rng, axes: list[GrownAxis], bases: FloatArray, reach: float, thickness: float, habit: Habit) -> None:
    """One thin main root a base (R,2), or the few that leave a grain, and their laterals, the oldest the longest."""
    plants = len(bases)
    vigour = np.where(rng.array(plants) < 0.12, 0.4, 1.0) * rng.array(plants, low=0.6, high=1.05)
    roots = 1 + (rng.array(plants) * habit.roots).astype(np.intp)
    plant = np.repeat(np.arange(plants), roots)
    place = np.arange(len(plant)) - np.repeat(np.cumsum(roots) - roots, roots)
    # Roots of one grain spread like a fan.
    fan = ((place + 0.5) / roots[plant] * 2 - 1) * rng.array(plants, low=0.3, high=0.9)[plant]
    length = np.maximum(reach * vigour[plant] * np.where(place > 0, rng.array(len(plant), low=0.5), 1.0), SHORTEST_PX)
    down = habit.down + 0.4 * fan + rng.array(len(plant), low=-0.1, high=0.1)
    heading = DOWN + 1.3 * fan + rng.array(len(plant), low=-0.4, high=0.4)
    # Grown larger and made smaller, a root has its bends nearer together.
    finer = habit.crooked
    grown = curves(rng, bases[plant] * finer, heading, length * finer, down, habit.pull / (reach * finer), habit.wander)
    paths = [path[::finer] / finer for path in grown]
    thick = thickness * rng.array(len(plant), low=0.85, high=1.2)
    tip = np.maximum(0.3, thick * rng.array(len(plant), low=0.6, high=0.9))
    label = "primary" if habit.roots == 1 else "seminal"
    first = len(axes)
    for number, path in enumerate(paths):
        main_axis(axes, path, float(thick[number]), float(tip[number]), label, int(plant[number]))

    least = habit.laterals // 2
    sides = least + (rng.array(len(plant)) * (habit.laterals - least + 1)).astype(np.intp)
    parent = np.repeat(np.arange(len(plant)), sides)
    share = rng.array(len(parent)) ** rng.uniform(1.0, 1.8)
    side_axes(
        rng,
        axes,
        (parent + first).tolist(),
        rng.array(len(plant), low=0.4, high=0.8)[parent] * share + 0.02,
        turn=either_side(rng, len(parent)) * rng.array(len(parent), low=0.7, high=1.4),
        length=6.0 + length[parent] * habit.longest * rng.array(len(parent), low=0.05) * (1.05 - 0.85 * share),
        base_px=np.maximum(0.33, thick[parent] * rng.array(len(parent), low=0.5, high=0.8)),
        tip_px=np.maximum(0.28, thick[parent] * rng.array(len(parent), low=0.4, high=0.6)),
        label="lateral",
        towards=down[parent],
        pull=rng.array(len(parent), low=0.003, high=0.03),
        wander=habit.wander * 1.1 + 0.06,
    )
