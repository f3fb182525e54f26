"""Orchard trees: fruit trees with crooked limbs and shoots, and a simpler model for the preset `several`."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from treeformer.synthetic.plants.growth import (
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


def grow_fruit_tree(rng: Rng, axes: list[GrownAxis], plant: int, base: Point, reach: float, thickness: float) -> None:
    """Grow a fruit tree with crooked limbs, twigs and upright shoots.

    Either a short trunk divides into limbs, or a leader carries limbs along its length.
    """
    trunk_px = thickness * rng.uniform(0.75, 1.3)
    leader = rng.chance(0.4)
    gnarl = rng.uniform(0.15, 0.42)
    height = reach * (rng.uniform(0.65, 0.95) if leader else rng.uniform(0.2, 0.38))
    lean = UP + rng.uniform(-0.14, 0.14)
    points = curve(rng, base, lean, height, UP, 0.006, rng.uniform(0.05, 0.1) + (0 if leader else gnarl * 0.4))
    tip_px = trunk_px * (0.05 if leader else rng.uniform(0.65, 0.85))
    trunk = main_axis(axes, points, trunk_px, max(0.7, tip_px), "trunk", plant)
    limbs = _leader_limbs(rng, axes, trunk, reach, gnarl) if leader else _fork(rng, axes, trunk, reach, gnarl)
    branches = twigs(rng, axes, [limb for limb in limbs for _ in range(rng.whole(1, 2))], reach * 0.18, gnarl, "branch")
    max_twigs = rng.whole(1, 2)
    twig_parents = [parent for parent in (*limbs, *branches) for _ in range(rng.whole(0, max_twigs))]
    shoot_parents = [limb for limb in limbs if rng.chance(0.5)]
    _twigs_and_shoots(rng, axes, twig_parents, shoot_parents, reach, gnarl)


def _leader_limbs(rng: Rng, axes: list[GrownAxis], trunk: int, reach: float, gnarl: float) -> range:
    """Add limbs along a leader, shorter and thinner towards the top."""
    count = rng.whole(5, 9)
    first = rng.uniform(0.2, 0.4)
    share = first + (1 - first) * (np.arange(count) + rng.array(count)) / count
    side = alternate_sides(rng, count)
    shrink = 1.15 - share
    return side_axes(
        rng,
        axes,
        [trunk] * count,
        share,
        turn=side * rng.uniform(0.75, 1.25) * rng.array(count, low=0.7, high=1.25),
        length=reach * rng.array(count, low=0.2, high=0.45) * shrink,
        base_px=np.maximum(0.8, radius_at(axes, [trunk] * count, share) * rng.array(count, low=0.35, high=0.6)),
        tip_px=THINNEST_PX + 0.1,
        label="limb",
        towards=UP + side * rng.array(count, low=0.2, high=1.2),
        pull=rng.uniform(0.003, 0.012),
        wander=gnarl,
    )


def _fork(rng: Rng, axes: list[GrownAxis], trunk: int, reach: float, gnarl: float) -> range:
    """Divide the end of a trunk into a few limbs; one of them continues the trunk."""
    count = rng.whole(3, 6)
    fan = (np.arange(count) + rng.array(count, low=0.1, high=0.9)) / count * 2 - 1
    share = np.where(np.arange(count) == count // 2, 1.0, rng.array(count, low=0.68, high=1.0))
    limb_px = radius_at(axes, [trunk] * count, share) * rng.array(count, low=0.42, high=0.72)
    limb_px[count // 2] = axes[trunk].tip_px * 0.9
    return side_axes(
        rng,
        axes,
        [trunk] * count,
        share,
        turn=fan * rng.uniform(0.8, 1.25),
        length=reach * rng.array(count, low=0.28, high=0.5) * (1.0 - 0.2 * np.abs(fan)),
        base_px=np.maximum(0.8, limb_px),
        tip_px=np.maximum(THINNEST_PX, limb_px * 0.14),
        label="limb",
        towards=UP + fan * rng.uniform(0.2, 1.0),
        pull=rng.uniform(0.004, 0.014),
        wander=gnarl,
    )


def _twigs_and_shoots(
    rng: Rng,
    axes: list[GrownAxis],
    twig_parents: Sequence[int],
    shoot_parents: Sequence[int],
    reach: float,
    gnarl: float,
) -> None:
    """Add short twigs to some axes, and straight upright shoots of one summer to the upper side of others."""
    parents = [*twig_parents, *shoot_parents]
    count = len(parents)
    upright = np.arange(count) >= len(twig_parents)
    share = rng.array(count, low=0.15, high=0.95)
    heading = np.asarray([_heading(axes[parent], at) for parent, at in zip(parents, share.tolist(), strict=True)])
    sideways = alternate_sides(rng, count) * rng.array(count, low=0.35, high=1.15)
    radius = radius_at(axes, parents, share) * rng.array(count, low=0.4, high=0.7)
    side_axes(
        rng,
        axes,
        parents,
        share,
        turn=np.where(upright, np.clip(UP - heading + 0.3 * sideways, -1.2, 1.2), sideways),
        length=reach * np.where(upright, 0.17, 0.08) * rng.array(count, low=0.28, high=1.0),
        base_px=np.maximum(THINNEST_PX + 0.12, np.where(upright, np.minimum(radius, reach / 300), radius)),
        tip_px=THINNEST_PX,
        label="twig",
        towards=UP + np.where(upright, 0.0, rng.array(count, low=-0.7, high=0.7)),
        pull=np.where(upright, 0.03, 0.006),
        wander=np.where(upright, 0.06, gnarl),
    )


def _heading(axis: GrownAxis, share: float) -> float:
    """Return the direction of an axis at a share of its length, from -3π/2 to π/2, so that UP is in the middle."""
    at = min(int(share * (len(axis.points) - 1)), len(axis.points) - 2)
    x, y = (axis.points[at + 1] - axis.points[at]).tolist()
    angle = math.atan2(y, x)
    return angle - 2 * math.pi if angle > math.pi / 2 else angle


def grow_orchard_tree(rng: Rng, axes: list[GrownAxis], plant: int, base: Point, reach: float, thickness: float) -> None:
    """Grow a tree with a trunk, limbs and twigs; the trunk continues as a leader or ends in its limbs."""
    trunk_px = thickness * rng.uniform(0.7, 1.3)
    leader = rng.chance(0.5)
    height = reach * (rng.uniform(0.6, 0.95) if leader else rng.uniform(0.25, 0.5))
    points = curve(rng, base, UP + rng.uniform(-0.15, 0.15), height, UP, 0.005, rng.uniform(0.02, 0.15))
    tip_px = trunk_px * (rng.uniform(0.1, 0.3) if leader else rng.uniform(0.5, 0.8))
    trunk = main_axis(axes, points, trunk_px, max(0.6, tip_px), "trunk", plant)

    first = rng.uniform(0.25, 0.5) if leader else rng.uniform(0.6, 0.85)
    gnarl = rng.uniform(0.05, 0.3)
    count = rng.whole(4, 14) if leader else rng.whole(2, 7)
    share = first + (1 - first) * (np.arange(count) + rng.array(count)) / count
    side = alternate_sides(rng, count)
    # Along a leader the limbs become shorter and thinner towards the top.
    shrink = 1.25 - share if leader else np.ones(count)
    limb_px = trunk_px * rng.array(count, low=0.25, high=0.55) * np.minimum(1.2 * shrink + 0.2, 1.0)
    limbs = side_axes(
        rng,
        axes,
        [trunk] * count,
        share,
        turn=side * rng.uniform(0.35, 1.1) * rng.array(count, low=0.5, high=1.4),
        length=reach * rng.array(count, low=0.25, high=0.55) * shrink,
        base_px=np.maximum(0.7, limb_px),
        tip_px=np.maximum(0.45, limb_px * rng.array(count, low=0.15, high=0.35)),
        label="limb",
        towards=UP + side * rng.array(count, low=-0.1, high=0.9),
        pull=rng.uniform(0.0, 0.01),
        wander=gnarl,
    )
    max_twigs = rng.whole(1, 6)
    twig_parents = [limb for limb in limbs for _ in range(rng.whole(0, max_twigs))]
    new_twigs = simple_twigs(rng, axes, twig_parents, reach * 0.22, gnarl, "twig")
    simple_twigs(rng, axes, [twig for twig in new_twigs if rng.chance(0.2)], reach * 0.08, gnarl, "fine twig")
