"""Tap roots with laterals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treeformer.synthetic.plants.growth import (
    DOWN,
    GrownAxis,
    Point,
    alternate_sides,
    curve,
    main_axis,
    side_axes,
)
from treeformer.synthetic.rng import Rng


def grow_taproot(rng: Rng, axes: list[GrownAxis], plant: int, base: Point, reach: float, thickness: float) -> None:
    """Grow a tap root with laterals.

    It is straight with many laterals, like rape on paper, or wavy with few, like Arabidopsis on agar.
    """
    wavy = rng.chance(0.4)
    wander = rng.uniform(0.12, 0.4) if wavy else rng.uniform(0.03, 0.15)
    # Some plants have lost their root tip: the tap root is short and the laterals are long.
    stunted = rng.chance(0.15)
    length = reach * (rng.uniform(0.25, 0.5) if stunted else rng.uniform(0.8, 1.0))
    base_px = thickness * rng.uniform(0.8, 1.4)
    tip_px = max(0.35, base_px * rng.uniform(0.35, 0.7))
    points = curve(rng, base, DOWN + rng.uniform(-0.4, 0.4), length, DOWN, rng.uniform(0.002, 0.02), wander)
    tap = main_axis(axes, points, base_px, tip_px, "primary", plant)

    count = rng.whole(0, 12) if wavy else rng.whole(4, 34)
    zone = rng.uniform(0.4, 0.95)
    # An exponent above 1 concentrates the laterals near the base, where they are oldest and longest.
    share = rng.array(count) ** rng.uniform(1.0, 2.5)
    longest = reach * rng.uniform(0.08, 0.45) * (1.6 if stunted else 1.0)
    pull = rng.uniform(0.001, 0.012)
    laterals = side_axes(
        rng,
        axes,
        [tap] * count,
        zone * share,
        turn=alternate_sides(rng, count) * rng.uniform(0.8, 1.45) * rng.array(count, low=0.7, high=1.15),
        length=longest * rng.array(count, low=0.15, high=1.0) * (1.05 - 0.8 * share),
        base_px=np.maximum(0.4, base_px * rng.array(count, low=0.3, high=0.7)),
        tip_px=np.maximum(0.3, base_px * rng.array(count, low=0.2, high=0.4)),
        label="lateral",
        pull=pull * rng.array(count, low=0.3, high=1.7),
        wander=wander * 1.2 + 0.05,
    )
    branched = [lateral for lateral in laterals if len(axes[lateral].points) > 30 and rng.chance(0.15)]
    parents = [lateral for lateral in branched for _ in range(rng.whole(1, 3))]
    fine_laterals(rng, axes, parents, longest * 0.35, base_px * 0.3, wander + 0.1)


def fine_laterals(
    rng: Rng, axes: list[GrownAxis], parents: Sequence[int], longest: float, base_px: float, wander: float
) -> None:
    """Add one short thin lateral per entry of `parents`, the indices of their parent axes."""
    count = len(parents)
    side_axes(
        rng,
        axes,
        parents,
        rng.array(count, low=0.05, high=0.8),
        turn=alternate_sides(rng, count) * rng.array(count, low=0.6, high=1.4),
        length=longest * rng.array(count, low=0.25, high=1.0),
        base_px=max(0.4, base_px),
        tip_px=max(0.3, base_px * 0.7),
        label="fine lateral",
        pull=0.004,
        wander=wander,
    )
