"""Grapevines in winter: trained along the wires of a trellis, and a simpler model for the preset `several`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treeformer._util.arrays import FloatArray
from treeformer.synthetic.plants.growth import (
    LEFT,
    RIGHT,
    UP,
    GrownAxis,
    Point,
    alternate_sides,
    curve,
    main_axis,
    radius_at,
    side_axes,
)
from treeformer.synthetic.plants.twigs import THINNEST_PX, simple_twigs, twigs
from treeformer.synthetic.rng import Rng

# Radius of the thinnest arm, px: a thinner one would show no bark and look as young as its canes.
THINNEST_ARM_PX = 1.6


def grow_trained_vine(rng: Rng, axes: list[GrownAxis], plant: int, base: Point, reach: float, thickness: float) -> None:
    """Grow a grapevine in a trellis: a gnarled trunk, old arms or last year's canes along the wire, and new canes."""
    trunk_px = thickness * rng.uniform(0.75, 1.25)
    lean = UP + rng.uniform(-0.3, 0.3)
    points = curve(rng, base, lean, reach * rng.uniform(0.34, 0.5), UP, 0.012, rng.uniform(0.15, 0.4))
    trunk = main_axis(axes, points, trunk_px, trunk_px * rng.uniform(0.5, 0.75), "trunk", plant)
    train = rng.weighted(((_cordon, 0.5), (_bent_canes, 0.28), (_short_arms, 0.22)))
    train(rng, axes, trunk, reach, trunk_px)


def _cordon(rng: Rng, axes: list[GrownAxis], trunk: int, reach: float, trunk_px: float) -> None:
    """Add old arms along the wire, with spurs that each carry up to two canes."""
    towards = np.asarray(rng.weighted((((LEFT, RIGHT), 0.6), ((LEFT,), 0.2), ((RIGHT,), 0.2))))
    outwards = np.where(towards == RIGHT, 1.0, -1.0)
    arm_px = np.minimum(trunk_px * rng.array(len(towards), low=0.42, high=0.62), axes[trunk].tip_px * 0.95)
    arm_px = np.maximum(THINNEST_ARM_PX, arm_px)
    arms = side_axes(
        rng,
        axes,
        [trunk] * len(towards),
        np.where(np.arange(len(towards)) == 0, 1.0, rng.uniform(0.88, 1.0)),  # the first continues the trunk
        turn=outwards * rng.array(len(towards), low=0.45, high=1.0),
        length=reach * rng.array(len(towards), low=0.32, high=0.6),
        base_px=arm_px,
        tip_px=arm_px * rng.array(len(towards), low=0.4, high=0.65),
        label="arm",
        towards=towards + outwards * rng.uniform(-0.06, 0.06),
        pull=rng.uniform(0.045, 0.09),
        wander=rng.uniform(0.06, 0.17),
    )
    spacing = reach * rng.uniform(0.06, 0.1)
    counts = [int(len(axes[arm].points) * 2.0 / spacing) for arm in arms]
    parents = [arm for arm, count in zip(arms, counts, strict=True) for _ in range(count)]
    share = np.concatenate([(np.arange(n) + rng.array(n, low=0.35, high=0.95)) / max(n, 1) for n in counts])
    spurs = side_axes(
        rng,
        axes,
        parents,
        share,
        turn=-np.repeat(outwards, counts) * rng.array(len(parents), low=0.8, high=1.9),
        length=reach * rng.array(len(parents), low=0.018, high=0.04),
        base_px=radius_at(axes, parents, share) * 0.7,
        tip_px=THINNEST_ARM_PX * 0.8,
        label="arm",  # a spur is old wood, like the arm
        towards=UP,
        pull=0.01,
    )
    cane_parents = [spur for spur in spurs for _ in range(rng.weighted(((0, 0.2), (1, 0.5), (2, 0.3))))]
    _canes(rng, axes, cane_parents, reach)


def _bent_canes(rng: Rng, axes: list[GrownAxis], trunk: int, reach: float, trunk_px: float) -> None:
    """Add one or two of last year's canes, bent over and tied to the wire, and new canes from the head."""
    towards = np.asarray(rng.weighted((((LEFT, RIGHT), 0.45), ((LEFT,), 0.275), ((RIGHT,), 0.275))))
    outwards = np.where(towards == RIGHT, 1.0, -1.0)
    count = len(towards)
    cane_px = np.maximum(1.1, trunk_px * rng.array(count, low=0.22, high=0.36))
    bent = side_axes(
        rng,
        axes,
        [trunk] * count,
        np.where(np.arange(count) == 0, 1.0, rng.uniform(0.9, 1.0)),
        turn=outwards * rng.array(count, low=-0.1, high=0.5),
        length=reach * rng.array(count, low=0.4, high=0.7),
        base_px=cane_px,
        tip_px=np.maximum(0.8, cane_px * 0.4),
        label="arm",
        towards=towards + outwards * rng.uniform(0.0, 0.25),
        pull=rng.array(count, low=0.016, high=0.035),
        wander=rng.uniform(0.03, 0.1),
    )
    parents = [cane for cane in bent for _ in range(rng.whole(1, 6))]
    _canes(rng, axes, parents, reach, from_arm=True)
    _canes(rng, axes, [trunk] * rng.whole(2, 5), reach, from_head=True)


def _short_arms(rng: Rng, axes: list[GrownAxis], trunk: int, reach: float, trunk_px: float) -> None:
    """Add a head of short thick arms, as on vines without a trellis, each with a few canes."""
    count = rng.whole(2, 4)
    arm_px = np.maximum(THINNEST_ARM_PX, trunk_px * rng.array(count, low=0.4, high=0.6))
    arm_px = np.maximum(THINNEST_ARM_PX, np.minimum(arm_px, axes[trunk].tip_px * 0.9))
    arm_px[0] = max(THINNEST_ARM_PX, axes[trunk].tip_px * 0.9)  # continues the trunk
    fan = (np.arange(count) + rng.array(count, low=0.2, high=0.8)) / count * 2 - 1
    arms = side_axes(
        rng,
        axes,
        [trunk] * count,
        np.where(np.arange(count) == 0, 1.0, rng.array(count, low=0.85, high=1.0)),
        turn=fan * 1.3,
        length=reach * rng.array(count, low=0.08, high=0.18),
        base_px=arm_px,
        tip_px=arm_px * 0.6,
        label="arm",
        towards=UP + fan * 0.9,
        pull=0.02,
        wander=0.25,
    )
    _canes(rng, axes, [arm for arm in arms for _ in range(rng.whole(2, 4))], reach, from_head=True)


def _canes(
    rng: Rng,
    axes: list[GrownAxis],
    parents: Sequence[int],
    reach: float,
    *,
    from_arm: bool = False,
    from_head: bool = False,
) -> None:
    """Add canes of one summer: long, even and slightly arched; a few carry side shoots."""
    count = len(parents)
    low = 0.05 if from_arm else 0.7
    share = rng.array(count, low=low, high=1.0)
    cane_px = np.maximum(0.75, reach / 512 * rng.array(count, low=0.9, high=2.1))
    parent_px = radius_at(axes, parents, share)
    lean = rng.uniform(-0.25, 0.25)  # common to all canes: wind, or how they were tied
    turn = alternate_sides(rng, count) * rng.array(count, low=0.2, high=0.9 if from_head else 0.6)
    if from_arm:
        rightwards = np.asarray([axes[parent].points[-1, 0] - axes[parent].points[0, 0] for parent in parents])
        turn = -np.where(rightwards > 0, 1.0, -1.0) * rng.array(count, low=0.6, high=1.3)
    longest = reach * rng.uniform(0.3, 0.55)
    canes = side_axes(
        rng,
        axes,
        parents,
        share,
        turn=turn,
        length=longest * rng.array(count, low=0.3, high=1.0),
        base_px=np.minimum(cane_px, np.maximum(parent_px, 0.75)),
        tip_px=np.maximum(THINNEST_PX, cane_px * rng.array(count, low=0.35, high=0.6)),
        label="cane",
        towards=UP + lean + rng.array(count, low=-0.45, high=0.45),
        pull=rng.array(count, low=0.006, high=0.03),
        wander=rng.array(count, low=0.05, high=0.16),
    )
    branched = [cane for cane in canes if rng.chance(0.2)]
    twigs(rng, axes, [cane for cane in branched for _ in range(rng.whole(1, 2))], reach * 0.1, 0.12, "side shoot")


def grow_vine(rng: Rng, axes: list[GrownAxis], plant: int, base: Point, reach: float, thickness: float) -> None:
    """Grow a simple grapevine: a trunk, arms bent down to a wire, and canes on the arms and on the head."""
    trunk_px = thickness * rng.uniform(0.7, 1.3)
    heading, height = UP + rng.uniform(-0.3, 0.3), reach * rng.uniform(0.3, 0.5)
    points = curve(rng, base, heading, height, UP, 0.01, rng.uniform(0.05, 0.3))
    trunk = main_axis(axes, points, trunk_px, trunk_px * rng.uniform(0.5, 0.95), "trunk", plant)

    towards = np.asarray(rng.weighted((((RIGHT,), 0.35), ((LEFT,), 0.35), ((LEFT, RIGHT), 0.3))))
    count = len(towards)
    outwards = np.where(towards == RIGHT, 1.0, -1.0)
    arms = side_axes(
        rng,
        axes,
        [trunk] * count,
        rng.array(count, low=0.85, high=1.0),
        turn=outwards * rng.array(count, low=0.2, high=1.1),
        length=reach * rng.array(count, low=0.2, high=0.6),
        base_px=max(1.0, trunk_px * rng.uniform(0.3, 0.55)),
        tip_px=max(0.7, trunk_px * rng.uniform(0.12, 0.25)),
        label="arm",
        towards=towards + outwards * rng.uniform(-0.15, 0.2),
        pull=rng.uniform(0.02, 0.06),
        wander=rng.uniform(0.05, 0.2),
    )
    parents, shares, turns = [], [], []
    for arm, side in zip(arms, outwards.tolist(), strict=True):
        count = rng.whole(0, 6)
        parents += [arm] * count
        shares.append((np.arange(count) + rng.array(count, low=0.3, high=1.0)) / (count + 0.3))
        turns.append(-side * rng.array(count, low=0.9, high=1.6))
    count = rng.whole(1, 5)  # canes from the head
    parents += [trunk] * count
    shares.append(rng.array(count, low=0.75, high=1.0))
    turns.append(alternate_sides(rng, count) * rng.array(count, low=0.1, high=1.0))
    _simple_canes(rng, axes, parents, np.concatenate(shares), np.concatenate(turns), reach, trunk_px)


def _simple_canes(
    rng: Rng,
    axes: list[GrownAxis],
    parents: Sequence[int],
    shares: FloatArray,
    turn: FloatArray,
    reach: float,
    trunk_px: float,
) -> None:
    """Add canes at given positions and angles; a few carry side shoots."""
    count = len(parents)
    base_px = np.maximum(0.7, trunk_px * rng.array(count, low=0.13, high=0.3))
    canes = side_axes(
        rng,
        axes,
        parents,
        shares,
        turn=turn,
        length=reach * rng.array(count, low=0.15, high=0.6),
        base_px=base_px,
        tip_px=np.maximum(0.45, base_px * rng.array(count, low=0.3, high=0.6)),
        label="cane",
        towards=UP + rng.array(count, low=-0.4, high=0.4),
        pull=rng.array(count, low=0.005, high=0.04),
        wander=rng.array(count, low=0.04, high=0.2),
    )
    branched = [cane for cane in canes if rng.chance(0.25)]
    shoot_parents = [cane for cane in branched for _ in range(rng.whole(1, 3))]
    simple_twigs(rng, axes, shoot_parents, reach * 0.15, 0.15, "side shoot")
