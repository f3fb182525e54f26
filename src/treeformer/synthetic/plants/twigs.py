"""Twigs of trees and vines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treeformer.synthetic.plants.growth import (
    UP,
    GrownAxis,
    alternate_sides,
    radius_at,
    side_axes,
)
from treeformer.synthetic.rng import Rng

# Radius of the thinnest wood, px.
THINNEST_PX = 0.55


def twigs(rng: Rng, axes: list[GrownAxis], parents: Sequence[int], longest: float, wander: float, label: str) -> range:
    """Add one twig per entry of `parents`, whose radius follows that of the parent axis where it starts."""
    count = len(parents)
    share = rng.array(count, low=0.12, high=1.0)
    thick = radius_at(axes, parents, share)
    return side_axes(
        rng,
        axes,
        parents,
        share,
        turn=alternate_sides(rng, count) * rng.array(count, low=0.35, high=1.15),
        length=longest * rng.array(count, low=0.25, high=1.0),
        base_px=np.maximum(THINNEST_PX + 0.15, thick * rng.array(count, low=0.4, high=0.7)),
        tip_px=THINNEST_PX,
        label=label,
        towards=UP + rng.array(count, low=-0.7, high=0.7),
        pull=0.006,
        wander=wander,
    )


def simple_twigs(
    rng: Rng, axes: list[GrownAxis], parents: Sequence[int], longest: float, wander: float, label: str
) -> range:
    """Add twigs of the simpler growth models that the preset `several` uses; see `twigs`."""
    count = len(parents)
    thick = np.asarray([axes[parent].base_px for parent in parents])
    return side_axes(
        rng,
        axes,
        parents,
        rng.array(count, low=0.15, high=0.97),
        turn=alternate_sides(rng, count) * rng.array(count, low=0.3, high=1.1),
        length=longest * rng.array(count, low=0.2, high=1.0),
        base_px=np.maximum(0.5, thick * rng.array(count, low=0.25, high=0.5)),
        tip_px=np.maximum(0.4, thick * 0.12),
        label=label,
        towards=UP,
        pull=0.004,
        wander=wander,
    )
