"""Growth models: dormant fruit trees, winter vines and young shoots in pots."""

from __future__ import annotations

import math

import numpy as np

from plantscenes.growth import GOLDEN_ANGLE, UP, Plant3
from treeformer._util.arrays import FloatArray

ALONG_ROW = np.array([1.0, 0.0, 0.0])
ORIGIN = np.zeros(3)
TREE_HABITS = (("spindle", 0.4), ("vase", 0.38), ("planar", 0.22))
# Mean height of each habit, m; it decides the distance of the camera.
HEIGHT_M = {"spindle": 3.0, "vase": 2.9, "planar": 2.5, "vine": 1.9, "shoot": 0.6}


def _around(azimuth: float, rise: float) -> FloatArray:
    """Return the direction with a horizontal azimuth and a rise (its z over its horizontal length)."""
    return np.array([math.cos(azimuth), math.sin(azimuth), rise])


def _lean(plant: Plant3, amount: float) -> FloatArray:
    rng = plant.rng
    return np.array([rng.uniform(-amount, amount), rng.uniform(-amount, amount), 1.0])


def grow_tree(plant: Plant3, habit: str, height: float) -> None:
    """Grow a dormant fruit tree: a "spindle", "vase" or "planar". The height, m, is approximate."""
    {"spindle": _spindle, "vase": _vase, "planar": _planar}[habit](plant, height)


def _spindle(plant: Plant3, height: float) -> None:
    """Grow a central leader with laterals all around."""
    rng = plant.rng
    thick = height * rng.uniform(0.011, 0.026)
    gnarl = rng.uniform(0.03, 0.14)
    trunk = plant.main(
        ORIGIN,
        _lean(plant, 0.12),
        height,
        (thick, 0.15 * thick),
        "trunk",
        wander=gnarl,
        pull=0.8,
        flare=rng.uniform(0.1, 0.6),
    )
    count = rng.whole(18, 40)
    lowest = rng.uniform(0.12, 0.3)
    widest = height * rng.uniform(0.25, 0.5)
    rise = rng.uniform(-0.35, 0.6)
    limbs = []
    for k in range(count):
        share = lowest + (0.97 - lowest) * (k + rng.uniform(0.1, 0.9)) / count
        azimuth = k * GOLDEN_ANGLE + rng.uniform(-0.6, 0.6)
        length = widest * (1.15 - share) * rng.uniform(0.35, 1.1)
        base = plant.radius_at(trunk, share) * rng.uniform(0.28, 0.62)
        limbs.append(
            plant.side(
                trunk,
                share,
                azimuth,
                rng.uniform(0.8, 1.6),
                length,
                (base, 0.2 * base),
                "branch",
                towards=_around(azimuth, rise + rng.uniform(-0.3, 0.5)),
                pull=rng.uniform(0.5, 2.5),
                wander=gnarl + 0.08,
            )
        )
    limbs += _laterals(plant, limbs, rng.whole(10, 40), height * 0.14, gnarl + 0.08)
    _shoots(plant, [trunk, *limbs], rng.whole(0, 16), height * rng.uniform(0.08, 0.2))
    _spurs(plant, [trunk, *limbs], rng.whole(40, 150), trunk)


def _vase(plant: Plant3, height: float) -> None:
    """Grow a short trunk with three to six crooked limbs and an open center."""
    rng = plant.rng
    thick = height * rng.uniform(0.018, 0.042)
    gnarl = rng.uniform(0.08, 0.26)
    stem = height * rng.uniform(0.16, 0.34)
    trunk = plant.main(
        ORIGIN, _lean(plant, 0.25), stem, (thick, 0.8 * thick), "trunk", wander=0.5 * gnarl, flare=rng.uniform(0.2, 0.8)
    )
    count = rng.whole(3, 6)
    first = rng.uniform(0.0, 2 * math.pi)
    limbs = []
    for k in range(count):
        azimuth = first + 2 * math.pi * k / count + rng.uniform(-0.45, 0.45)
        base = thick * rng.uniform(0.42, 0.68)
        limbs.append(
            plant.side(
                trunk,
                1.0 if k == 0 else rng.uniform(0.72, 1.0),
                azimuth,
                rng.uniform(0.5, 1.15),
                height * rng.uniform(0.45, 0.85),
                (base, 0.25 * base),
                "branch",
                towards=_around(azimuth, rng.uniform(0.7, 2.2)),
                pull=rng.uniform(0.3, 1.6),
                wander=gnarl,
            )
        )
    secondary = _laterals(plant, limbs, rng.whole(10, 30), height * 0.3, gnarl)
    tertiary = _laterals(plant, secondary, rng.whole(6, 34), height * 0.13, gnarl)
    wood = [*limbs, *secondary, *tertiary]
    _shoots(plant, wood, rng.whole(3, 34), height * rng.uniform(0.1, 0.26))
    _spurs(plant, wood, rng.whole(30, 130), trunk)


def _planar(plant: Plant3, height: float) -> None:
    """Grow a tree trained to a fence: horizontal arms with uprights, or pairs of arms in tiers."""
    rng = plant.rng
    thick = height * rng.uniform(0.012, 0.028)
    tiers = rng.weighted(((1, 0.6), (3, 0.25), (4, 0.15)))
    stem = height * (rng.uniform(0.2, 0.32) if tiers == 1 else rng.uniform(0.8, 0.95))
    trunk = plant.main(
        ORIGIN, _lean(plant, 0.1), stem, (thick, (0.75 if tiers == 1 else 0.3) * thick), "trunk", wander=0.06, flare=0.3
    )
    arms = []
    for tier in range(tiers):
        share = 1.0 if tiers == 1 else 0.35 + 0.63 * tier / (tiers - 1)
        for side in (-1.0, 1.0):
            base = plant.radius_at(trunk, share) * rng.uniform(0.5, 0.75)
            arms.append(
                plant.side(
                    trunk,
                    share - (rng.uniform(0.0, 0.06) if side > 0 else 0.0),
                    0.0 if side > 0 else math.pi,
                    rng.uniform(0.7, 1.3),
                    height * rng.uniform(0.28, 0.6),
                    (base, 0.4 * base),
                    "branch",
                    towards=ALONG_ROW * side + UP * rng.uniform(-0.02, 0.15),
                    pull=6.0,
                    wander=0.07,
                )
            )
    uprights = []
    if tiers == 1:
        spacing = rng.uniform(0.09, 0.2)
        for arm in arms:
            for k in range(int(plant.length(arm) / spacing)):
                share = min(1.0, (k + rng.uniform(0.5, 1.0)) * spacing / plant.length(arm))
                base = plant.radius_at(arm, share) * rng.uniform(0.4, 0.75)
                uprights.append(
                    plant.side(
                        arm,
                        share,
                        rng.uniform(0.0, 2 * math.pi),
                        rng.uniform(0.8, 1.4),
                        (height - stem) * rng.uniform(0.4, 1.05),
                        (base, 0.25 * base),
                        "branch",
                        towards=_lean(plant, 0.15),
                        pull=rng.uniform(5.0, 14.0),
                        wander=0.06,
                    )
                )
    wood = [*arms, *uprights]
    wood += _laterals(plant, wood, rng.whole(4, 26), height * 0.12, 0.12)
    _shoots(plant, wood, rng.whole(0, 20), height * 0.15)
    _spurs(plant, wood, rng.whole(40, 140), trunk)


def _laterals(plant: Plant3, parents: list[int], count: int, longest: float, wander: float) -> list[int]:
    """Grow side branches, mostly outward and upward; return their indices."""
    rng = plant.rng
    grown = []
    for k in range(count):
        parent, share = plant.pick(parents), rng.uniform(0.15, 0.95)
        base = plant.radius_at(parent, share) * rng.uniform(0.4, 0.75)
        azimuth = k * GOLDEN_ANGLE + rng.uniform(-0.8, 0.8)
        grown.append(
            plant.side(
                parent,
                share,
                azimuth,
                rng.uniform(0.5, 1.3),
                longest * rng.uniform(0.25, 1.0) * (1.15 - 0.5 * share),
                (base, plant.thinnest),
                "branch",
                towards=_around(azimuth, rng.uniform(0.0, 1.8)),
                pull=rng.uniform(1.0, 4.0),
                wander=wander,
            )
        )
    return grown


def _shoots(plant: Plant3, parents: list[int], count: int, longest: float) -> None:
    """Grow upright shoots of one summer: long, straight and thin."""
    rng = plant.rng
    for k in range(count):
        parent, share = plant.pick(parents), rng.uniform(0.1, 1.0)
        base = min(0.006 + plant.thinnest * 0.3, plant.radius_at(parent, share) * 0.6)
        plant.side(
            parent,
            share,
            k * GOLDEN_ANGLE,
            rng.uniform(0.4, 1.3),
            longest * rng.uniform(0.3, 1.0),
            (base, plant.thinnest),
            "twig",
            towards=_lean(plant, 0.25),
            pull=9.0,
            wander=0.04,
        )


def _spurs(plant: Plant3, parents: list[int], count: int, trunk: int) -> None:
    """Grow short crooked spurs all around; few on the trunk."""
    rng = plant.rng
    for k in range(count):
        parent, share = plant.pick(parents), rng.uniform(0.06, 1.0)
        if parent == trunk and share < 0.4:
            share = 1.0 - share
        base = min(0.005 + plant.thinnest * 0.2, plant.radius_at(parent, share) * 0.7)
        azimuth = k * GOLDEN_ANGLE
        plant.side(
            parent,
            share,
            azimuth,
            rng.uniform(0.6, 1.6),
            rng.uniform(0.025, 0.13),
            (base, plant.thinnest),
            "spur",
            towards=_around(azimuth, rng.uniform(0.0, 2.0)),
            pull=8.0,
            wander=0.3,
        )


def grow_vine(plant: Plant3, wire: float, spacing: float, pruned: bool) -> None:
    """Grow a grapevine in winter, pruned or not, on a wire at a height, m.

    `spacing` is the distance to the next vine in the row, m.
    """
    rng = plant.rng
    thick = rng.uniform(0.016, 0.045)
    gnarl = rng.uniform(0.12, 0.42)
    trunk = plant.main(
        ORIGIN,
        _lean(plant, 0.35),
        wire * rng.uniform(0.92, 1.04),
        (thick, thick * rng.uniform(0.55, 0.85)),
        "trunk",
        wander=gnarl,
        pull=1.5,
        flare=rng.uniform(0.0, 0.6),
    )
    sides = rng.weighted((((-1.0, 1.0), 0.66), ((-1.0,), 0.17), ((1.0,), 0.17)))
    tied = rng.chance(0.42)
    wood = []
    for k, side in enumerate(sides):
        top = plant.radius_at(trunk, 1.0)
        base = max(0.006, thick * rng.uniform(0.2, 0.34)) if tied else top * rng.uniform(0.55, 0.9)
        wood.append(
            plant.side(
                trunk,
                1.0 if k == 0 else rng.uniform(0.86, 1.0),
                0.0 if side > 0 else math.pi,
                rng.uniform(-0.2, 0.5) if tied else rng.uniform(0.5, 1.2),
                spacing * (rng.uniform(0.45, 0.9) if len(sides) == 1 else rng.uniform(0.32, 0.6)),
                (base, base * rng.uniform(0.45, 0.75)),
                "arm",
                towards=ALONG_ROW * side + UP * rng.uniform(-0.25, 0.08),
                pull=rng.uniform(5.0, 11.0),
                wander=rng.uniform(0.04, 0.12) if tied else rng.uniform(0.06, 0.22),
            )
        )
    bearers = []
    gap = rng.uniform(0.06, 0.14)
    for arm in wood:
        for k in range(int(plant.length(arm) / gap)):
            share = min(1.0, (k + rng.uniform(0.4, 1.0)) * gap / plant.length(arm))
            if tied:
                bearers.append((arm, share))
                continue
            base = plant.radius_at(arm, share) * 0.8
            spur = plant.side(
                arm,
                share,
                rng.uniform(0.0, 2 * math.pi),
                rng.uniform(0.7, 1.5),
                rng.uniform(0.02, 0.07),
                (base, 0.006),
                "arm",
                towards=_lean(plant, 0.5),
                pull=9.0,
                wander=0.15,
            )
            bearers += [(spur, rng.uniform(0.6, 1.0)) for _ in range(rng.choice((0, 1, 1, 2)))]
    bearers += [(trunk, rng.uniform(0.85, 1.0)) for _ in range(rng.whole(0, 3))]
    _canes(plant, bearers, pruned, rng.uniform(0.5, 1.1))


def _canes(plant: Plant3, bearers: list[tuple[int, float]], pruned: bool, longest: float) -> None:
    """Grow canes of one summer, or what pruning left of them, and side shoots."""
    rng = plant.rng
    spread = rng.uniform(0.1, 0.45)
    branched = rng.uniform(0.0, 0.4)
    for parent, share in bearers:
        radius = rng.uniform(0.0032, 0.0065)
        length = rng.uniform(0.03, 0.12) if pruned and rng.chance(0.92) else longest * rng.uniform(0.25, 1.0)
        cane = plant.side(
            parent,
            share,
            rng.uniform(0.0, 2 * math.pi),
            rng.uniform(0.1, 1.0),
            length,
            (radius, radius * rng.uniform(0.4, 0.8)),
            "cane",
            towards=_lean(plant, spread),
            pull=rng.uniform(2.0, 9.0),
            wander=rng.uniform(0.04, 0.15),
        )
        if length > 0.3 and rng.chance(branched):
            for _ in range(rng.whole(1, 3)):
                plant.side(
                    cane,
                    rng.uniform(0.1, 0.9),
                    rng.uniform(0.0, 2 * math.pi),
                    rng.uniform(0.5, 1.2),
                    rng.uniform(0.05, 0.2),
                    (radius * 0.6, plant.thinnest),
                    "side shoot",
                    towards=_lean(plant, 0.8),
                    pull=3.0,
                    wander=0.1,
                )


def grow_shoot(plant: Plant3, height: float) -> None:
    """Grow a young plant: one to four stems that start together, with side shoots of one or two orders.

    The height is that of the main stem, m.
    """
    rng = plant.rng
    stems = rng.weighted(((1, 0.6), (2, 0.2), (3, 0.13), (4, 0.07)))
    thick = max(plant.thinnest, height * rng.uniform(0.004, 0.014))
    wander = rng.uniform(0.03, 0.16)
    bent = _lean(plant, rng.uniform(0.05, 0.5))
    first = rng.uniform(0.0, 2 * math.pi)
    grown = []
    for k in range(stems):
        share = 1.0 if k == 0 else rng.uniform(0.4, 0.95)
        azimuth = first + k * 2 * math.pi / stems
        heading = UP if stems == 1 else _around(azimuth, rng.uniform(1.5, 3.5))
        radius = thick * (1.0 if k == 0 else rng.uniform(0.5, 0.9))
        grown.append(
            plant.main(
                ORIGIN,
                heading,
                height * share,
                (radius, radius * rng.uniform(0.25, 0.6)),
                "stem",
                towards=bent,
                pull=rng.uniform(0.5, 3.0),
                wander=wander,
            )
        )
    habit = rng.weighted((("bare", 0.18), ("few", 0.42), ("bushy", 0.4)))
    most = {"bare": 1, "few": 5, "bushy": 14}[habit]
    shoots = []
    for stem in grown:
        for k in range(rng.whole(0 if habit == "bare" else 2, most)):
            shoots.append(_side_shoot(plant, stem, k, height * rng.uniform(0.15, 0.45), wander, "shoot"))
    if habit == "bushy":
        for shoot in shoots:
            if rng.chance(0.5):
                for k in range(rng.whole(1, 3)):
                    _side_shoot(plant, shoot, k, height * 0.14, wander, "side shoot")


def _side_shoot(plant: Plant3, parent: int, number: int, longest: float, wander: float, label: str) -> int:
    rng = plant.rng
    share = rng.uniform(0.1, 0.97)
    radius = plant.radius_at(parent, share) * rng.uniform(0.45, 0.8)
    azimuth = number * GOLDEN_ANGLE + rng.uniform(-0.4, 0.4)
    return plant.side(
        parent,
        share,
        azimuth,
        rng.uniform(0.5, 1.2),
        longest * rng.uniform(0.35, 1.0),
        (radius, plant.thinnest),
        label,
        towards=_around(azimuth, rng.uniform(0.6, 3.0)),
        pull=rng.uniform(1.0, 6.0),
        wander=wander,
    )
