"""Cereal seedlings: several roots that fan out from the seed."""

from __future__ import annotations

import numpy as np

from treeformer.synthetic.plants.growth import (
    DOWN,
    GrownAxis,
    Point,
    curves,
    main_axis,
)
from treeformer.synthetic.plants.taproot import fine_laterals
from treeformer.synthetic.rng import Rng


def grow_seedling(rng: Rng, axes: list[GrownAxis], plant: int, base: Point, reach: float, thickness: float) -> None:
    """Grow the roots that fan out from the seed of a cereal."""
    count = rng.whole(1, 8)
    spread = rng.uniform(0.3, 1.35)
    wander = rng.uniform(0.04, 0.25)
    fan = (np.arange(count) + 0.5) / count * 2 - 1
    short = rng.array(count) < 0.25
    length = reach * np.where(short, rng.array(count, low=0.05, high=0.4), rng.array(count, low=0.45, high=1.0))
    # Each root bends towards its own slanted direction, not straight down, so that the roots of one seed stay apart.
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
        main_axis(axes, path, root_base_px, root_tip_px, "seminal", plant)
        for path, root_base_px, root_tip_px in zip(paths, base_px.tolist(), tip_px.tolist(), strict=True)
    ]
    if rng.chance(0.15):
        parents = [root for root in roots for _ in range(rng.whole(0, 6))]
        fine_laterals(rng, axes, parents, reach * 0.15, thickness * 0.4, wander + 0.1)
