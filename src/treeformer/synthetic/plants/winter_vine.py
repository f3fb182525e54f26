"""Grapevines in winter as they stand in a vineyard: pruned or not, trained low or high, sometimes with two trunks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treeformer._util.arrays import FloatArray
from treeformer.synthetic.plants.growth import (
    DOWN,
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
from treeformer.synthetic.plants.twigs import THINNEST_PX, twigs
from treeformer.synthetic.plants.vine import THINNEST_ARM_PX
from treeformer.synthetic.rng import Rng

STUB_PX = (9.0, 26.0)  # length of canes that were cut back, at a reach of 400 px


def grow_winter_vine(rng: Rng, axes: list[GrownAxis], plant: int, base: Point, reach: float, thickness: float) -> None:
    """Grow a dormant vine: old arms or tied canes along the wire, with long canes or with what pruning left."""
    trunk_px = thickness * rng.uniform(0.75, 1.3)
    hanging = rng.chance(0.14)
    height = reach * (rng.uniform(0.6, 0.8) if hanging else rng.uniform(0.28, 0.5))
    gnarl = rng.uniform(0.12, 0.42)
    trunk = _trunk(rng, axes, plant, base, height, trunk_px, gnarl)
    pruned = rng.chance(0.4)
    if rng.chance(0.58):
        wood = _arms(rng, axes, trunk, reach, trunk_px, hanging, pruned)
    else:
        wood = _tied_canes(rng, axes, trunk, reach, trunk_px, pruned)
    if rng.chance(0.35):  # water shoots from old wood
        _canes(rng, axes, [trunk] * rng.whole(1, 3), reach * 0.5, rng.array(3, low=0.3, high=1.0), UP)
    if hanging and not pruned:
        parents = [rng.choice(wood) for _ in range(rng.whole(3, 10))]
        _canes(rng, axes, parents, reach * 0.9, rng.array(len(parents), low=0.1, high=1.0), DOWN)


def _trunk(
    rng: Rng, axes: list[GrownAxis], plant: int, base: Point, height: float, trunk_px: float, gnarl: float
) -> int:
    """Grow a crooked trunk; some vines have a second, thinner one that leaves near the ground."""
    points = curve(rng, base, UP + rng.uniform(-0.4, 0.4), height, UP, 0.014, gnarl)
    trunk = main_axis(axes, points, trunk_px, trunk_px * rng.uniform(0.55, 0.85), "trunk", plant)
    if rng.chance(0.12):
        side_axes(
            rng,
            axes,
            [trunk],
            rng.array(1, low=0.05, high=0.3),
            turn=rng.choice((-1.0, 1.0)) * rng.array(1, low=0.4, high=0.9),
            length=np.asarray([height * rng.uniform(0.5, 0.9)]),
            base_px=trunk_px * rng.uniform(0.5, 0.75),
            tip_px=trunk_px * 0.4,
            label="trunk",
            towards=UP,
            pull=0.02,
            wander=gnarl,
        )
    return trunk


def _sides(rng: Rng) -> tuple[FloatArray, FloatArray]:
    """Draw the directions of arms along the wire, and the sign of each."""
    towards = np.asarray(rng.weighted((((LEFT, RIGHT), 0.66), ((LEFT,), 0.17), ((RIGHT,), 0.17))))
    return towards, np.where(towards == RIGHT, 1.0, -1.0)


def _arms(
    rng: Rng, axes: list[GrownAxis], trunk: int, reach: float, trunk_px: float, hanging: bool, pruned: bool
) -> list[int]:
    """Grow old arms along the wire with knobby spurs that carry canes or stubs; return the arms."""
    towards, outwards = _sides(rng)
    count = len(towards)
    arm_px = np.minimum(trunk_px * rng.array(count, low=0.45, high=0.72), axes[trunk].tip_px * 0.95)
    arm_px = np.maximum(THINNEST_ARM_PX, arm_px)
    arms = side_axes(
        rng,
        axes,
        [trunk] * count,
        np.where(np.arange(count) == 0, 1.0, rng.uniform(0.86, 1.0)),
        turn=outwards * rng.array(count, low=0.5, high=1.1),
        length=reach * rng.array(count, low=0.36, high=0.72),
        base_px=arm_px,
        tip_px=arm_px * rng.array(count, low=0.45, high=0.75),
        label="arm",
        towards=towards + outwards * rng.uniform(-0.06, 0.08),
        pull=rng.uniform(0.04, 0.1),
        wander=rng.uniform(0.05, 0.2),
    )
    spacing = reach * rng.uniform(0.045, 0.09)
    counts = [int(len(axes[arm].points) * 2.0 / spacing) for arm in arms]
    owners = [arm for arm, number in zip(arms, counts, strict=True) for _ in range(number)]
    share = np.concatenate([(np.arange(n) + rng.array(n, low=0.3, high=0.98)) / max(n, 1) for n in counts])
    below = rng.array(len(owners)) < (0.5 if hanging else 0.06)
    spurs = side_axes(
        rng,
        axes,
        owners,
        share,
        turn=np.where(below, 1.0, -1.0) * np.repeat(outwards, counts) * rng.array(len(owners), low=0.8, high=1.9),
        length=np.maximum(reach * rng.array(len(owners), low=0.02, high=0.05), 7.0),
        base_px=radius_at(axes, owners, share) * 0.75,
        tip_px=THINNEST_ARM_PX * 0.85,
        label="arm",  # a spur is old wood, like the arm
        towards=np.where(below, DOWN, UP),
        pull=0.01,
        wander=0.1,
    )
    most = rng.weighted((((0, 1, 2), 0.6), ((1, 2, 2), 0.4)))
    parents = [spur for spur in spurs for _ in range(rng.choice(most))]
    if pruned:
        _stubs(rng, axes, parents, reach)
    else:
        _canes(rng, axes, parents, reach, rng.array(len(parents), low=0.6, high=1.0), UP)
    return list(arms)


def _tied_canes(rng: Rng, axes: list[GrownAxis], trunk: int, reach: float, trunk_px: float, pruned: bool) -> list[int]:
    """Grow last year's canes, bent over the wire and tied, and the canes or stubs of the head; return the tied ones."""
    towards, outwards = _sides(rng)
    count = len(towards)
    cane_px = np.maximum(1.1, trunk_px * rng.array(count, low=0.2, high=0.34))
    tied = side_axes(
        rng,
        axes,
        [trunk] * count,
        np.where(np.arange(count) == 0, 1.0, rng.uniform(0.88, 1.0)),
        turn=outwards * rng.array(count, low=-0.3, high=0.5),
        length=reach * rng.array(count, low=0.45, high=0.85),
        base_px=cane_px,
        tip_px=np.maximum(0.8, cane_px * 0.45),
        label="arm",
        towards=towards + outwards * rng.uniform(-0.05, 0.3),
        pull=rng.array(count, low=0.016, high=0.045),
        wander=rng.uniform(0.03, 0.1),
    )
    head = [trunk] * rng.whole(1, 4)
    if pruned:
        _stubs(rng, axes, head, reach)
        return list(tied)
    parents = [cane for cane in tied for _ in range(rng.whole(3, 9))]
    _canes(rng, axes, parents, reach, rng.array(len(parents), low=0.05, high=1.0), UP)
    _canes(rng, axes, head, reach, rng.array(len(head), low=0.85, high=1.0), UP)
    return list(tied)


def _stubs(rng: Rng, axes: list[GrownAxis], parents: Sequence[int], reach: float) -> None:
    """Grow canes that were cut back to a few buds."""
    count = len(parents)
    side_axes(
        rng,
        axes,
        parents,
        rng.array(count, low=0.6, high=1.0),
        turn=alternate_sides(rng, count) * rng.array(count, low=0.1, high=0.9),
        length=np.maximum(rng.array(count, low=STUB_PX[0], high=STUB_PX[1]) * reach / 400, 8.0),
        base_px=np.maximum(0.85, reach / 512 * rng.array(count, low=1.1, high=2.1)),
        tip_px=0.8,
        label="cane",
        towards=UP,
        pull=0.01,
        wander=0.08,
    )


def _canes(
    rng: Rng, axes: list[GrownAxis], parents: Sequence[int], reach: float, shares: FloatArray, towards: float
) -> None:
    """Grow canes of one summer that cross each other; many carry side shoots."""
    count = len(parents)
    if count == 0:
        return
    share = shares[np.arange(count) % len(shares)]
    cane_px = np.maximum(0.75, reach / 512 * rng.array(count, low=0.9, high=2.1))
    parent_px = radius_at(axes, parents, share)
    lean = rng.uniform(-0.3, 0.3)
    spread = rng.uniform(0.2, 0.75)
    canes = side_axes(
        rng,
        axes,
        parents,
        share,
        turn=alternate_sides(rng, count) * rng.array(count, low=0.1, high=1.0),
        length=np.maximum(reach * rng.uniform(0.3, 0.6) * rng.array(count, low=0.25, high=1.0), 12.0),
        base_px=np.minimum(cane_px, np.maximum(parent_px, 0.75)),
        tip_px=np.maximum(THINNEST_PX, cane_px * rng.array(count, low=0.35, high=0.6)),
        label="cane",
        towards=towards + lean + rng.array(count, low=-spread, high=spread),
        pull=rng.array(count, low=0.006, high=0.03),
        wander=rng.array(count, low=0.05, high=0.2),
    )
    often = rng.uniform(0.0, 0.5)
    branched = [cane for cane in canes if rng.chance(often)]
    twigs(rng, axes, [cane for cane in branched for _ in range(rng.whole(1, 3))], reach * 0.1, 0.14, "side shoot")
