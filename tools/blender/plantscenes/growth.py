"""Axes of plants in 3-D: curved paths with radii, each attached to a point of an earlier one.

Lengths are in meters. x points right, y away from the camera, z up; the ground is z = 0.

Directions are (3,) and angles in radians. A path bends towards a direction: it completes the share `pull` of the
remaining turn per m, as an exponent. `wander` is the standard deviation of the random deviation of its direction, about
in radians.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from treeformer._util.arrays import FloatArray
from treeformer.synthetic.rng import Rng

GOLDEN_ANGLE = math.pi * (3.0 - math.sqrt(5.0))
# A new random deviation of the direction is drawn every so many steps, with linear interpolation in between.
WANDER_STEPS = 6
UP = np.array([0.0, 0.0, 1.0])


@dataclass(frozen=True, slots=True)
class Axis3:
    """One axis of a plant."""

    points: FloatArray  # (M,3) m, from base to tip, M at least 2
    radius: FloatArray  # (M,) m
    # index of the axis from which it grows, which comes earlier in the same list; None at the base
    parent: int | None = None
    at: int = 0  # index of the parent's point at which it starts; the first point of the axis equals this point
    label: str = ""  # kind of axis, such as "trunk" or "spur"


def unit(vectors: FloatArray) -> FloatArray:
    """Scale vectors (...,3) to length 1; vectors of length 0 become the upward direction."""
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.where(length > 1e-12, vectors / np.maximum(length, 1e-12), UP)


def perpendicular(direction: FloatArray, azimuth: float) -> FloatArray:
    """Return a unit vector at a right angle to another one.

    `azimuth` is the angle around it; for an upright direction 0 is +x and π/2 is +y.
    """
    helper = np.array([0.0, 1.0, 0.0]) if abs(direction[1]) < 0.9 else np.array([1.0, 0.0, 0.0])
    first = unit(np.cross(helper, direction))
    second = np.cross(direction, first)
    return np.asarray(math.cos(azimuth) * first + math.sin(azimuth) * second)


def path(
    rng: Rng,
    start: FloatArray,
    heading: FloatArray,
    length: float,
    *,
    step: float,
    towards: FloatArray,
    pull: float,
    wander: float,
) -> FloatArray:
    """Grow one smooth path (M,3), M at least 2, with points `step` apart."""
    steps = max(1, round(length / step))
    knots = rng.bell(steps // WANDER_STEPS + 2, 3) * wander
    knots[0] = 0.0
    index = np.arange(steps)
    before, t = index // WANDER_STEPS, (index % WANDER_STEPS)[:, None] / WANDER_STEPS
    deviation = knots[before] + t * (knots[before + 1] - knots[before])
    turn = np.exp(-pull * step * index)[:, None]
    goal = unit(towards)
    directions = unit(goal + (unit(heading) - goal) * turn + deviation)
    points = np.empty((steps + 1, 3))
    points[0] = start
    np.cumsum(directions * step, axis=0, out=points[1:])
    points[1:] += start
    return points


@dataclass
class Plant3:
    """A growing plant."""

    rng: Rng
    step: float  # distance between the points of an axis, m
    thinnest: float  # smallest radius of an axis, m
    axes: list[Axis3] = field(default_factory=list)  # axes so far; parents come before their children

    def main(
        self,
        base: FloatArray,
        heading: FloatArray,
        length: float,
        radii: tuple[float, float],
        label: str,
        *,
        towards: FloatArray = UP,
        pull: float = 1.0,
        wander: float = 0.05,
        flare: float = 0.0,
    ) -> int:
        """Grow an axis from the base of the plant and return its index.

        The radii are those at the base and at the tip. `flare` is the additional share of the radius at the foot, which
        fades over four radii.
        """
        points = path(self.rng, base, heading, length, step=self.step, towards=towards, pull=pull, wander=wander)
        radius = self._taper(len(points), *radii)
        along = np.arange(len(points)) * self.step
        radius *= 1.0 + flare * np.exp(-along / (4.0 * radii[0]))
        self.axes.append(Axis3(points, radius, None, 0, label))
        return len(self.axes) - 1

    def side(
        self,
        parent: int,
        share: float,
        azimuth: float,
        turn: float,
        length: float,
        radii: tuple[float, float],
        label: str,
        *,
        towards: FloatArray = UP,
        pull: float = 1.0,
        wander: float = 0.05,
    ) -> int:
        """Grow an axis from a share, 0 (base) to 1 (tip), of another one and return its index.

        `azimuth` is the angle around the parent, see `perpendicular`, and `turn` the angle to its direction. The radius
        at the base is limited to 0.85 of the parent's radius.
        """
        owner = self.axes[parent]
        last = len(owner.points) - 1
        at = min(last, max(0, round(share * last)))
        tangent = unit(owner.points[min(at + 1, last)] - owner.points[max(at - 1, 0)])
        heading = math.cos(turn) * tangent + math.sin(turn) * perpendicular(tangent, azimuth)
        points = path(
            self.rng, owner.points[at], heading, length, step=self.step, towards=towards, pull=pull, wander=wander
        )
        base = max(self.thinnest, min(radii[0], 0.85 * float(owner.radius[at])))
        self.axes.append(Axis3(points, self._taper(len(points), base, radii[1]), parent, at, label))
        return len(self.axes) - 1

    def radius_at(self, axis: int, share: float) -> float:
        """Return the radius of an axis at a position along it, from 0 (base) to 1 (tip)."""
        radius = self.axes[axis].radius
        return float(radius[round(share * (len(radius) - 1))])

    def length(self, axis: int) -> float:
        """Return the length of an axis, m."""
        return (len(self.axes[axis].points) - 1) * self.step

    def pick(self, parents: Sequence[int]) -> int:
        """Draw one of several axes, in proportion to their lengths."""
        return self.rng.weighted([(parent, self.length(parent)) for parent in parents])

    def _taper(self, count: int, base: float, tip: float) -> FloatArray:
        base = max(base, self.thinnest)
        return np.linspace(base, max(self.thinnest, min(tip, base)), count)
