"""Young plants in pots: grafted whips, rooted cuttings and leafy stems with side shoots."""

from __future__ import annotations

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
from treeformer.synthetic.rng import Rng

THINNEST_PX = 0.6


def grow_shoot(rng: Rng, axes: list[GrownAxis], plant: int, base: Point, reach: float, thickness: float) -> None:
    """Grow a young plant: one to four stems that start together, with side shoots of one or two orders."""
    stems = rng.weighted(((1, 0.6), (2, 0.2), (3, 0.13), (4, 0.07)))
    wander = rng.uniform(0.03, 0.2)
    fan = (np.arange(stems) + 0.5) / stems * 2 - 1 + rng.array(stems, low=-0.15, high=0.15)
    order = np.argsort(np.abs(fan), kind="stable")  # the most upright stem first: it is the thickest
    bent = rng.uniform(-0.5, 0.5) if rng.chance(0.25) else rng.uniform(-0.1, 0.1)
    grown = []
    for rank, angle in enumerate(fan[order].tolist()):
        heading = UP + (0.6 * angle if stems > 1 else 0.0) + rng.uniform(-0.15, 0.15)
        length = reach * (1.0 if rank == 0 else rng.uniform(0.4, 0.95))
        points = curve(rng, base, heading, length, UP + bent + 0.25 * angle, rng.uniform(0.002, 0.012), wander)
        stem_px = thickness * (1.0 if rank == 0 else rng.uniform(0.5, 0.9))
        grown.append(
            main_axis(axes, points, stem_px, max(THINNEST_PX, stem_px * rng.uniform(0.25, 0.6)), "stem", plant)
        )
    habit = rng.weighted((("bare", 0.18), ("few", 0.42), ("bushy", 0.4)))
    most = {"bare": 1, "few": 5, "bushy": 14}[habit]
    parents = [stem for stem in grown for _ in range(rng.whole(0 if habit == "bare" else 2, most))]
    shoots = _side_shoots(rng, axes, parents, reach * rng.uniform(0.15, 0.5), wander, "shoot")
    twice = [shoot for shoot in shoots if habit == "bushy" and len(axes[shoot].points) > 12 and rng.chance(0.5)]
    _side_shoots(
        rng, axes, [shoot for shoot in twice for _ in range(rng.whole(1, 3))], reach * 0.14, wander, "side shoot"
    )


def _side_shoots(
    rng: Rng, axes: list[GrownAxis], parents: list[int], longest: float, wander: float, label: str
) -> range:
    """Grow side shoots on alternating sides, longer at the bottom or at the top."""
    count = len(parents)
    share = rng.array(count, low=0.1, high=0.97)
    upper = rng.uniform(-0.7, 0.4)  # below zero the lower shoots are longer
    size = np.clip(0.75 + upper * (share - 0.5), 0.3, 1.0)
    thick = radius_at(axes, parents, share)
    return side_axes(
        rng,
        axes,
        parents,
        share,
        turn=alternate_sides(rng, count) * rng.array(count, low=0.5, high=1.2),
        length=np.maximum(longest * size * rng.array(count, low=0.35, high=1.0), 8.0),
        base_px=np.maximum(THINNEST_PX + 0.1, thick * rng.array(count, low=0.45, high=0.8)),
        tip_px=THINNEST_PX,
        label=label,
        towards=UP + rng.array(count, low=-0.5, high=0.5),
        pull=rng.uniform(0.003, 0.03),
        wander=wander,
    )
