"""Dormant fruit trees as growers train them: thick trunks, many laterals, dense spurs and upright shoots."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from treeformer.synthetic.plants.growth import (
    LEFT,
    NODE_SPACING_PX,
    RIGHT,
    STEP_PX,
    UP,
    GrownAxis,
    Point,
    alternate_sides,
    curve,
    main_axis,
    radius_at,
    side_axes,
)
from treeformer.synthetic.plants.twigs import THINNEST_PX
from treeformer.synthetic.rng import Rng

# Range of the planned number of nodes. Spurs and shoots fill what the trunk and the limbs leave.
PLANNED_NODES = (200.0, 820.0)
NODES_PER_SPUR, NODES_PER_SHOOT = 2.4, 5.5
SPUR_PX, MAX_SPURS = (7.0, 15.0), 150


def grow_pruned_tree(rng: Rng, axes: list[GrownAxis], plant: int, base: Point, reach: float, thickness: float) -> None:
    """Grow a dormant fruit tree: a vase of limbs, a spindle, an old crown or a palmette, with spurs and shoots."""
    train = rng.weighted(((_vase, 0.34), (_spindle, 0.34), (_old_crown, 0.22), (_palmette, 0.1)))
    gnarl = rng.uniform(0.08, 0.38)
    trunk_px = thickness * rng.uniform(0.8, 1.25)
    first = len(axes)
    wood = train(rng, axes, plant, base, reach, trunk_px, gnarl)
    planned = rng.uniform(*PLANNED_NODES)
    shoot_share = rng.weighted(((0.0, 0.08), (rng.uniform(0.1, 0.4), 0.42), (rng.uniform(0.4, 0.8), 0.5)))
    left = planned - sum(len(axis.points) for axis in axes[first:]) * STEP_PX / NODE_SPACING_PX
    shoots = _shoots(rng, axes, wood, int(max(left, 0) * shoot_share / NODES_PER_SHOOT), reach)
    _spurs(rng, axes, [*wood, *shoots], int(max(left * (1 - shoot_share), 12) / NODES_PER_SPUR), reach)


def _vase(
    rng: Rng, axes: list[GrownAxis], plant: int, base: Point, reach: float, trunk_px: float, gnarl: float
) -> list[int]:
    """Grow a short trunk that opens into a few long limbs, each with side branches; return the axes with spurs."""
    trunk = _trunk(rng, axes, plant, base, reach * rng.uniform(0.12, 0.28), trunk_px, rng.uniform(0.7, 0.9), gnarl)
    limbs = _fan(rng, axes, trunk, rng.whole(3, 5), reach * 0.75, gnarl, spread=rng.uniform(0.7, 1.2))
    return [*limbs, *_branches(rng, axes, limbs, rng.whole(2, 5), reach * 0.3, gnarl, 0.2)]


def _old_crown(
    rng: Rng, axes: list[GrownAxis], plant: int, base: Point, reach: float, trunk_px: float, gnarl: float
) -> list[int]:
    """Grow a tall trunk whose limbs divide again and again; return the axes with spurs."""
    gnarl = max(gnarl, 0.2)
    trunk = _trunk(rng, axes, plant, base, reach * rng.uniform(0.25, 0.4), trunk_px, rng.uniform(0.7, 0.9), gnarl)
    limbs = _fan(rng, axes, trunk, rng.whole(3, 6), reach * 0.55, gnarl, spread=rng.uniform(0.6, 1.3))
    branches = _branches(rng, axes, limbs, rng.whole(2, 4), reach * 0.32, gnarl, 0.25)
    return [*limbs, *branches, *_branches(rng, axes, branches, 1, reach * 0.16, gnarl, 0.2)]


def _spindle(
    rng: Rng, axes: list[GrownAxis], plant: int, base: Point, reach: float, trunk_px: float, gnarl: float
) -> list[int]:
    """Grow a leader with many laterals that are level or bent down, longest at the bottom; return all axes."""
    trunk = _trunk(rng, axes, plant, base, reach * rng.uniform(0.85, 1.1), trunk_px, 0.08, gnarl * 0.35)
    count = rng.whole(9, 24)
    first = rng.uniform(0.08, 0.3)
    share = first + (1 - first) * (np.arange(count) + rng.array(count)) / count
    side = alternate_sides(rng, count)
    droop = rng.uniform(-0.7, 0.35)  # below or above the horizontal
    laterals = side_axes(
        rng,
        axes,
        [trunk] * count,
        share,
        turn=side * rng.array(count, low=0.7, high=1.4),
        length=reach * rng.uniform(0.22, 0.42) * rng.array(count, low=0.45, high=1.0) * (1.15 - 0.75 * share),
        base_px=np.maximum(0.9, radius_at(axes, [trunk] * count, share) * rng.array(count, low=0.25, high=0.55)),
        tip_px=THINNEST_PX + 0.1,
        label="limb",
        towards=UP + side * (math.pi / 2 - droop + rng.array(count, low=-0.25, high=0.25)),
        pull=rng.uniform(0.004, 0.02),
        wander=gnarl,
    )
    forked = [lateral for lateral in laterals if rng.chance(0.5)]
    return [trunk, *laterals, *_branches(rng, axes, forked, 2, reach * 0.14, gnarl, 0.15)]


def _palmette(
    rng: Rng, axes: list[GrownAxis], plant: int, base: Point, reach: float, trunk_px: float, gnarl: float
) -> list[int]:
    """Grow a leader with pairs of level arms at the heights of the wires; return the axes with spurs."""
    trunk = _trunk(rng, axes, plant, base, reach * rng.uniform(0.75, 1.0), trunk_px, 0.2, gnarl * 0.3)
    tiers = rng.whole(2, 4)
    lowest = rng.uniform(0.2, 0.35)
    share = np.repeat(lowest + (0.97 - lowest) * np.arange(tiers) / tiers, 2) + rng.array(2 * tiers, high=0.03)
    side = np.where(np.arange(2 * tiers) % 2 == 0, 1.0, -1.0)
    level = rng.weighted(((0.0, 0.6), (rng.uniform(0.2, 0.6), 0.4)))  # the arms may rise
    arms = side_axes(
        rng,
        axes,
        [trunk] * (2 * tiers),
        share,
        turn=side * rng.array(2 * tiers, low=0.9, high=1.3),
        length=reach * rng.uniform(0.3, 0.55) * rng.array(2 * tiers, low=0.7, high=1.0),
        base_px=np.maximum(1.0, radius_at(axes, [trunk] * (2 * tiers), share) * 0.6),
        tip_px=0.9,
        label="limb",
        towards=np.where(side > 0, RIGHT, LEFT) - side * level,
        pull=0.05,
        wander=gnarl * 0.5,
    )
    return [*arms, *_branches(rng, axes, arms, rng.whole(0, 3), reach * 0.1, gnarl, 0.3)]


def _trunk(
    rng: Rng,
    axes: list[GrownAxis],
    plant: int,
    base: Point,
    length: float,
    trunk_px: float,
    taper: float,
    wander: float,
) -> int:
    """Grow a trunk whose radius falls to a share `taper` at its tip; return its index."""
    lean = UP + rng.uniform(-0.22, 0.22)
    points = curve(rng, base, lean, length, UP + rng.uniform(-0.08, 0.08), 0.006, rng.uniform(0.03, 0.1) + wander * 0.4)
    return main_axis(axes, points, trunk_px, max(0.8, trunk_px * taper), "trunk", plant)


def _fan(
    rng: Rng, axes: list[GrownAxis], trunk: int, count: int, longest: float, gnarl: float, spread: float
) -> list[int]:
    """Divide the end of a trunk into limbs; one of them continues the trunk."""
    fan = (np.arange(count) + rng.array(count, low=0.1, high=0.9)) / count * 2 - 1
    share = np.where(np.arange(count) == count // 2, 1.0, rng.array(count, low=0.6, high=1.0))
    limb_px = radius_at(axes, [trunk] * count, share) * rng.array(count, low=0.45, high=0.75)
    limb_px[count // 2] = axes[trunk].tip_px * 0.9
    return list(
        side_axes(
            rng,
            axes,
            [trunk] * count,
            share,
            turn=fan * spread,
            length=longest * rng.array(count, low=0.6, high=1.0) * (1.0 - 0.15 * np.abs(fan)),
            base_px=np.maximum(1.0, limb_px),
            tip_px=np.maximum(THINNEST_PX + 0.1, limb_px * 0.13),
            label="limb",
            towards=UP + fan * rng.uniform(0.1, 0.9),
            pull=rng.uniform(0.003, 0.012),
            wander=gnarl,
        )
    )


def _branches(
    rng: Rng, axes: list[GrownAxis], parents: Sequence[int], most: int, longest: float, gnarl: float, first: float
) -> list[int]:
    """Grow up to `most` branches on each of some axes, from the share `first` of their length on."""
    owners = [parent for parent in parents for _ in range(rng.whole(min(1, most), most))]
    count = len(owners)
    share = rng.array(count, low=first, high=0.95)
    thick = radius_at(axes, owners, share)
    return list(
        side_axes(
            rng,
            axes,
            owners,
            share,
            turn=alternate_sides(rng, count) * rng.array(count, low=0.5, high=1.3),
            length=longest * rng.array(count, low=0.35, high=1.0) * (1.1 - 0.5 * share),
            base_px=np.maximum(THINNEST_PX + 0.2, thick * rng.array(count, low=0.4, high=0.75)),
            tip_px=THINNEST_PX,
            label="branch",
            towards=UP + rng.array(count, low=-1.4, high=1.4),
            pull=rng.uniform(0.002, 0.012),
            wander=gnarl,
        )
    )


def _shoots(rng: Rng, axes: list[GrownAxis], parents: Sequence[int], count: int, reach: float) -> list[int]:
    """Grow upright shoots of one summer: long, straight and thin."""
    owners = [rng.choice(parents) for _ in range(count)]
    share = rng.array(count, low=0.1, high=1.0)
    thick = radius_at(axes, owners, share)
    lean = rng.uniform(-0.2, 0.2)
    longest = reach * rng.uniform(0.1, 0.28)
    return list(
        side_axes(
            rng,
            axes,
            owners,
            share,
            turn=alternate_sides(rng, count) * rng.array(count, low=0.4, high=1.3),
            length=np.maximum(longest * rng.array(count, low=0.25, high=1.0), 10.0),
            base_px=np.minimum(np.maximum(THINNEST_PX + 0.1, thick * 0.6), max(0.8, reach / 320)),
            tip_px=THINNEST_PX,
            label="twig",
            towards=UP + lean + rng.array(count, low=-0.25, high=0.25),
            pull=0.04,
            wander=0.06,
        )
    )


def _spurs(rng: Rng, axes: list[GrownAxis], parents: Sequence[int], count: int, reach: float) -> None:
    """Grow short crooked spurs on alternating sides, more on longer axes."""
    lengths = np.cumsum([len(axes[parent].points) for parent in parents])
    count = min(count, MAX_SPURS)
    chosen = np.searchsorted(lengths, rng.array(count) * lengths[-1], side="right")
    owners = [parents[min(index, len(parents) - 1)] for index in chosen.tolist()]
    share = rng.array(count, low=0.08, high=1.0)
    thick = radius_at(axes, owners, share)
    scale = max(reach / 420, 0.6)
    side_axes(
        rng,
        axes,
        owners,
        share,
        turn=alternate_sides(rng, count) * rng.array(count, low=0.6, high=1.6),
        length=rng.array(count, low=SPUR_PX[0], high=SPUR_PX[1] * scale + 2.0),
        base_px=np.minimum(np.maximum(THINNEST_PX + 0.1, thick * 0.7), 1.3 * scale),
        tip_px=THINNEST_PX,
        label="spur",
        towards=UP + rng.array(count, low=-1.2, high=1.2),
        pull=0.03,
        wander=0.25,
    )
