"""Trees and vines as growers train them: crooked limbs with spurs, and vines along the wires of a trellis.

`reach` is about how far the plant grows from its base, px; `thickness` is the radius of its main axis, px.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from treeformer._util.arrays import FloatArray
from treeformer.synthetic.plants.growth import LEFT, RIGHT, UP, GrownAxis, curve, main_axis, side_axes
from treeformer.synthetic.plants.plants import Point, either_side
from treeformer.synthetic.rng import Rng

THINNEST_PX = 0.55
# Thinner than this no trunk has bark, and no arm looks older than its canes.
THINNEST_ARM_PX = 1.6


def grow_trained_vine(rng: Rng, axes: list[GrownAxis], plant: int, base: Point, reach: float, thickness: float) -> None:
    """A grapevine in a trellis: a gnarled trunk, old arms or last year's canes along the wire, canes on spurs."""
    trunk_px = thickness * rng.uniform(0.75, 1.25)
    lean = UP + rng.uniform(-0.3, 0.3)
    points = curve(rng, base, lean, reach * rng.uniform(0.34, 0.5), UP, 0.012, rng.uniform(0.15, 0.4))
    trunk = main_axis(axes, points, trunk_px, trunk_px * rng.uniform(0.5, 0.75), "trunk", plant)
    grow = rng.weighted(((_cordon, 0.5), (_bent_canes, 0.28), (_short_arms, 0.22)))
    grow(rng, axes, trunk, reach, trunk_px)


def _cordon(rng: Rng, axes: list[GrownAxis], trunk: int, reach: float, trunk_px: float) -> None:
    """Old arms along the wire, knobbly with spurs, each with a cane or two."""
    towards = np.asarray(rng.weighted((((LEFT, RIGHT), 0.6), ((LEFT,), 0.2), ((RIGHT,), 0.2))))
    outwards = np.where(towards == RIGHT, 1.0, -1.0)
    arm_px = np.minimum(trunk_px * rng.array(len(towards), low=0.42, high=0.62), axes[trunk].tip_px * 0.95)
    arm_px = np.maximum(THINNEST_ARM_PX, arm_px)
    arms = side_axes(
        rng,
        axes,
        [trunk] * len(towards),
        np.where(np.arange(len(towards)) == 0, 1.0, rng.uniform(0.88, 1.0)),  # one goes on from the trunk's end
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
        base_px=_thickness_at(axes, parents, share) * 0.7,
        tip_px=THINNEST_ARM_PX * 0.8,
        label="arm",  # a spur is old wood as the arm is
        towards=UP,
        pull=0.01,
    )
    _canes(rng, axes, [spur for spur in spurs for _ in range(rng.weighted(((0, 0.2), (1, 0.5), (2, 0.3))))], reach)


def _bent_canes(rng: Rng, axes: list[GrownAxis], trunk: int, reach: float, trunk_px: float) -> None:
    """One or two canes of last year, bent over and tied to the wire, and new ones from the head."""
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
    """A head of short thick arms, as of vines without a trellis, each with a few canes."""
    count = rng.whole(2, 4)
    arm_px = np.maximum(THINNEST_ARM_PX, trunk_px * rng.array(count, low=0.4, high=0.6))
    arm_px = np.maximum(THINNEST_ARM_PX, np.minimum(arm_px, axes[trunk].tip_px * 0.9))
    arm_px[0] = max(THINNEST_ARM_PX, axes[trunk].tip_px * 0.9)  # goes on from the trunk's end
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
    """Canes of one summer: long, even, arching a little; a few carry side shoots."""
    count = len(parents)
    low = 0.05 if from_arm else 0.7
    share = rng.array(count, low=low, high=1.0)
    thick = np.maximum(0.75, reach / 512 * rng.array(count, low=0.9, high=2.1))
    local = _thickness_at(axes, parents, share)
    lean = rng.uniform(-0.25, 0.25)  # wind and the way they were tied
    turn = either_side(rng, count) * rng.array(count, low=0.2, high=0.9 if from_head else 0.6)
    if from_arm:
        tip_x = np.asarray([axes[parent].points[-1, 0] - axes[parent].points[0, 0] for parent in parents])
        turn = -np.where(tip_x > 0, 1.0, -1.0) * rng.array(count, low=0.6, high=1.3)
    longest = reach * rng.uniform(0.3, 0.55)
    canes = side_axes(
        rng,
        axes,
        parents,
        share,
        turn=turn,
        length=longest * rng.array(count, low=0.3, high=1.0),
        base_px=np.minimum(thick, np.maximum(local, 0.75)),
        tip_px=np.maximum(THINNEST_PX, thick * rng.array(count, low=0.35, high=0.6)),
        label="cane",
        towards=UP + lean + rng.array(count, low=-0.45, high=0.45),
        pull=rng.array(count, low=0.006, high=0.03),
        wander=rng.array(count, low=0.05, high=0.16),
    )
    branched = [cane for cane in canes if rng.chance(0.2)]
    _twigs(rng, axes, [cane for cane in branched for _ in range(rng.whole(1, 2))], reach * 0.1, 0.12, "side shoot")


def _thickness_at(axes: Sequence[GrownAxis], parents: Sequence[int], shares: FloatArray) -> FloatArray:
    """(K,) the radius of axes, px, at shares of their length."""
    base = np.asarray([axes[parent].base_px for parent in parents])
    tip = np.asarray([axes[parent].tip_px for parent in parents])
    return np.asarray(base + (tip - base) * shares)


def _twigs(rng: Rng, axes: list[GrownAxis], parents: Sequence[int], longest: float, wander: float, label: str) -> range:
    count = len(parents)
    share = rng.array(count, low=0.12, high=1.0)
    thick = _thickness_at(axes, parents, share)
    return side_axes(
        rng,
        axes,
        parents,
        share,
        turn=either_side(rng, count) * rng.array(count, low=0.35, high=1.15),
        length=longest * rng.array(count, low=0.25, high=1.0),
        base_px=np.maximum(THINNEST_PX + 0.15, thick * rng.array(count, low=0.4, high=0.7)),
        tip_px=THINNEST_PX,
        label=label,
        towards=UP + rng.array(count, low=-0.7, high=0.7),
        pull=0.006,
        wander=wander,
    )


def grow_fruit_tree(rng: Rng, axes: list[GrownAxis], plant: int, base: Point, reach: float, thickness: float) -> None:
    """A fruit tree: a short trunk that divides into crooked limbs, or a leader with limbs all along; shoots, spurs."""
    trunk_px = thickness * rng.uniform(0.75, 1.3)
    leader = rng.chance(0.4)
    gnarl = rng.uniform(0.15, 0.42)
    height = reach * (rng.uniform(0.65, 0.95) if leader else rng.uniform(0.2, 0.38))
    lean = UP + rng.uniform(-0.14, 0.14)
    points = curve(rng, base, lean, height, UP, 0.006, rng.uniform(0.05, 0.1) + (0 if leader else gnarl * 0.4))
    tip_px = trunk_px * (0.05 if leader else rng.uniform(0.65, 0.85))
    trunk = main_axis(axes, points, trunk_px, max(0.7, tip_px), "trunk", plant)
    limbs = _leader_limbs(rng, axes, trunk, reach, gnarl) if leader else _fork(rng, axes, trunk, reach, gnarl)
    branches = _twigs(
        rng, axes, [limb for limb in limbs for _ in range(rng.whole(1, 2))], reach * 0.18, gnarl, "branch"
    )
    most = rng.whole(1, 2)
    bearing = [*limbs, *branches]
    twigs = [one for one in bearing for _ in range(rng.whole(0, most))]
    _twigs_and_shoots(rng, axes, twigs, [limb for limb in limbs if rng.chance(0.5)], reach, gnarl)


def _leader_limbs(rng: Rng, axes: list[GrownAxis], trunk: int, reach: float, gnarl: float) -> range:
    """Limbs along a leader, shorter and thinner towards the top."""
    count = rng.whole(5, 9)
    first = rng.uniform(0.2, 0.4)
    share = first + (1 - first) * (np.arange(count) + rng.array(count)) / count
    side = either_side(rng, count)
    shrink = 1.15 - share
    return side_axes(
        rng,
        axes,
        [trunk] * count,
        share,
        turn=side * rng.uniform(0.75, 1.25) * rng.array(count, low=0.7, high=1.25),
        length=reach * rng.array(count, low=0.2, high=0.45) * shrink,
        base_px=np.maximum(0.8, _thickness_at(axes, [trunk] * count, share) * rng.array(count, low=0.35, high=0.6)),
        tip_px=THINNEST_PX + 0.1,
        label="limb",
        towards=UP + side * rng.array(count, low=0.2, high=1.2),
        pull=rng.uniform(0.003, 0.012),
        wander=gnarl,
    )


def _fork(rng: Rng, axes: list[GrownAxis], trunk: int, reach: float, gnarl: float) -> range:
    """A trunk's end that divides into a few limbs, one of which goes on from it."""
    count = rng.whole(3, 6)
    fan = (np.arange(count) + rng.array(count, low=0.1, high=0.9)) / count * 2 - 1
    share = np.where(np.arange(count) == count // 2, 1.0, rng.array(count, low=0.68, high=1.0))
    thick = _thickness_at(axes, [trunk] * count, share) * rng.array(count, low=0.42, high=0.72)
    thick[count // 2] = axes[trunk].tip_px * 0.9
    return side_axes(
        rng,
        axes,
        [trunk] * count,
        share,
        turn=fan * rng.uniform(0.8, 1.25),
        length=reach * rng.array(count, low=0.28, high=0.5) * (1.0 - 0.2 * np.abs(fan)),
        base_px=np.maximum(0.8, thick),
        tip_px=np.maximum(THINNEST_PX, thick * 0.14),
        label="limb",
        towards=UP + fan * rng.uniform(0.2, 1.0),
        pull=rng.uniform(0.004, 0.014),
        wander=gnarl,
    )


def _twigs_and_shoots(
    rng: Rng, axes: list[GrownAxis], twigs: Sequence[int], shoots: Sequence[int], reach: float, gnarl: float
) -> None:
    """Short twigs on some axes, and on the backs of others straight upright shoots of one summer."""
    parents = [*twigs, *shoots]
    count = len(parents)
    upright = np.arange(count) >= len(twigs)
    share = rng.array(count, low=0.15, high=0.95)
    heading = np.asarray([_heading(axes[parent], at) for parent, at in zip(parents, share.tolist(), strict=True)])
    aside = either_side(rng, count) * rng.array(count, low=0.35, high=1.15)
    thick = _thickness_at(axes, parents, share) * rng.array(count, low=0.4, high=0.7)
    side_axes(
        rng,
        axes,
        parents,
        share,
        turn=np.where(upright, np.clip(UP - heading + 0.3 * aside, -1.2, 1.2), aside),
        length=reach * np.where(upright, 0.17, 0.08) * rng.array(count, low=0.28, high=1.0),
        base_px=np.maximum(THINNEST_PX + 0.12, np.where(upright, np.minimum(thick, reach / 300), thick)),
        tip_px=THINNEST_PX,
        label="twig",
        towards=UP + np.where(upright, 0.0, rng.array(count, low=-0.7, high=0.7)),
        pull=np.where(upright, 0.03, 0.006),
        wander=np.where(upright, 0.06, gnarl),
    )


def _heading(axis: GrownAxis, share: float) -> float:
    """Which way an axis grows at a share of its length, radians from -3π/2 to π/2, so that UP lies in the middle."""
    at = min(int(share * (len(axis.points) - 1)), len(axis.points) - 2)
    x, y = (axis.points[at + 1] - axis.points[at]).tolist()
    angle = math.atan2(y, x)
    return angle - 2 * math.pi if angle > math.pi / 2 else angle
