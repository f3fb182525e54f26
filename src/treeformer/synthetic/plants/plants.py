"""Small growth models of single plants: each adds one plant's axes, grown from a base point, to a list.

`reach` is about how far the plant grows from its base, px; `thickness` is the radius of its main axis, px.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treeformer._util.arrays import FloatArray
from treeformer.synthetic.plants.growth import DOWN, LEFT, RIGHT, UP, GrownAxis, curve, curves, main_axis, side_axes
from treeformer.synthetic.rng import Rng

Point = tuple[float, float]


def either_side(rng: Rng, count: int) -> FloatArray:
    """(count,) -1 or 1, mostly taking turns."""
    stays = rng.array(count) < 0.25
    side = np.where((np.arange(count) + np.cumsum(stays)) % 2 == 0, 1.0, -1.0)
    return side if rng.chance(0.5) else -side


def grow_taproot(rng: Rng, axes: list[GrownAxis], plant: int, base: Point, reach: float, thickness: float) -> None:
    """A tap root with laterals: straight with many, as rape on paper, or wavy with few, as Arabidopsis on agar."""
    wavy = rng.chance(0.4)
    wander = rng.uniform(0.12, 0.4) if wavy else rng.uniform(0.03, 0.15)
    # Some plants have lost their tip: a short tap root and long laterals.
    stunted = rng.chance(0.15)
    length = reach * (rng.uniform(0.25, 0.5) if stunted else rng.uniform(0.8, 1.0))
    base_px = thickness * rng.uniform(0.8, 1.4)
    tip_px = max(0.35, base_px * rng.uniform(0.35, 0.7))
    points = curve(rng, base, DOWN + rng.uniform(-0.4, 0.4), length, DOWN, rng.uniform(0.002, 0.02), wander)
    tap = main_axis(axes, points, base_px, tip_px, "primary", plant)

    count = rng.whole(0, 12) if wavy else rng.whole(4, 34)
    zone = rng.uniform(0.4, 0.95)
    # Above 1 the laterals crowd near the base; there they are oldest and longest.
    share = rng.array(count) ** rng.uniform(1.0, 2.5)
    longest = reach * rng.uniform(0.08, 0.45) * (1.6 if stunted else 1.0)
    pull = rng.uniform(0.001, 0.012)
    laterals = side_axes(
        rng,
        axes,
        [tap] * count,
        zone * share,
        turn=either_side(rng, count) * rng.uniform(0.8, 1.45) * rng.array(count, low=0.7, high=1.15),
        length=longest * rng.array(count, low=0.15, high=1.0) * (1.05 - 0.8 * share),
        base_px=np.maximum(0.4, base_px * rng.array(count, low=0.3, high=0.7)),
        tip_px=np.maximum(0.3, base_px * rng.array(count, low=0.2, high=0.4)),
        label="lateral",
        pull=pull * rng.array(count, low=0.3, high=1.7),
        wander=wander * 1.2 + 0.05,
    )
    branched = [lateral for lateral in laterals if len(axes[lateral].points) > 30 and rng.chance(0.15)]
    parents = [lateral for lateral in branched for _ in range(rng.whole(1, 3))]
    _fine_laterals(rng, axes, parents, longest * 0.35, base_px * 0.3, wander + 0.1)


def _fine_laterals(
    rng: Rng, axes: list[GrownAxis], parents: Sequence[int], longest: float, base_px: float, wander: float
) -> None:
    count = len(parents)
    side_axes(
        rng,
        axes,
        parents,
        rng.array(count, low=0.05, high=0.8),
        turn=either_side(rng, count) * rng.array(count, low=0.6, high=1.4),
        length=longest * rng.array(count, low=0.25, high=1.0),
        base_px=max(0.4, base_px),
        tip_px=max(0.3, base_px * 0.7),
        label="fine lateral",
        pull=0.004,
        wander=wander,
    )


def grow_seedling(rng: Rng, axes: list[GrownAxis], plant: int, base: Point, reach: float, thickness: float) -> None:
    """The star of roots that leaves the seed of a cereal."""
    count = rng.whole(1, 8)
    spread = rng.uniform(0.3, 1.35)
    wander = rng.uniform(0.04, 0.25)
    fan = (np.arange(count) + 0.5) / count * 2 - 1
    short = rng.array(count) < 0.25
    length = reach * np.where(short, rng.array(count, low=0.05, high=0.4), rng.array(count, low=0.45, high=1.0))
    # A root is pulled towards its own slant, not straight down: the roots of one seed stay apart.
    paths = curves(
        rng,
        np.tile(np.asarray(base), (count, 1)),
        DOWN + spread * (fan + rng.array(count, low=-0.4, high=0.4)),
        length,
        DOWN + fan * rng.array(count, low=0.0, high=0.5),
        rng.uniform(0.002, 0.014) * rng.array(count, low=0.4, high=2.0),
        wander * rng.array(count, low=0.5, high=1.5),
    )
    base_px = thickness * rng.uniform(0.8, 1.3) * rng.array(count, low=0.7, high=1.1)
    tip_px = np.maximum(0.35, base_px * rng.array(count, low=0.4, high=0.9))
    roots = [
        main_axis(axes, path, thick, thin, "seminal", plant)
        for path, thick, thin in zip(paths, base_px.tolist(), tip_px.tolist(), strict=True)
    ]
    if rng.chance(0.15):
        parents = [root for root in roots for _ in range(rng.whole(0, 6))]
        _fine_laterals(rng, axes, parents, reach * 0.15, thickness * 0.4, wander + 0.1)


def grow_vine(rng: Rng, axes: list[GrownAxis], plant: int, base: Point, reach: float, thickness: float) -> None:
    """A grapevine in winter: a trunk, arms bent down to a wire with canes on them, canes straight from the head."""
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
    count = rng.whole(1, 5)  # canes straight from the head
    parents += [trunk] * count
    shares.append(rng.array(count, low=0.75, high=1.0))
    turns.append(either_side(rng, count) * rng.array(count, low=0.1, high=1.0))
    _canes(rng, axes, parents, np.concatenate(shares), np.concatenate(turns), reach, trunk_px)


def _canes(
    rng: Rng,
    axes: list[GrownAxis],
    parents: Sequence[int],
    shares: FloatArray,
    turn: FloatArray,
    reach: float,
    trunk_px: float,
) -> None:
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
    _twigs(rng, axes, [cane for cane in branched for _ in range(rng.whole(1, 3))], reach * 0.15, 0.15, "side shoot")


def _twigs(rng: Rng, axes: list[GrownAxis], parents: Sequence[int], longest: float, wander: float, label: str) -> range:
    count = len(parents)
    thick = np.asarray([axes[parent].base_px for parent in parents])
    return side_axes(
        rng,
        axes,
        parents,
        rng.array(count, low=0.15, high=0.97),
        turn=either_side(rng, count) * rng.array(count, low=0.3, high=1.1),
        length=longest * rng.array(count, low=0.2, high=1.0),
        base_px=np.maximum(0.5, thick * rng.array(count, low=0.25, high=0.5)),
        tip_px=np.maximum(0.4, thick * 0.12),
        label=label,
        towards=UP,
        pull=0.004,
        wander=wander,
    )


def grow_orchard_tree(rng: Rng, axes: list[GrownAxis], plant: int, base: Point, reach: float, thickness: float) -> None:
    """A tree: a trunk that goes on as a leader or ends in its limbs, limbs, twigs."""
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
    side = either_side(rng, count)
    # Along a leader the limbs grow shorter and thinner towards the top.
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
    most = rng.whole(1, 6)
    twigs = _twigs(rng, axes, [limb for limb in limbs for _ in range(rng.whole(0, most))], reach * 0.22, gnarl, "twig")
    _twigs(rng, axes, [twig for twig in twigs if rng.chance(0.2)], reach * 0.08, gnarl, "fine twig")
