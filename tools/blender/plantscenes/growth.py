"""Axes of plants in 3-D: curved paths with radii, each attached to a point of an earlier one.

Lengths are in meters. x points right, y away from the camera, z up; the ground is z = 0.
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
    """One axis of a plant.

    Attributes:
        points: (M,3) m, from base to tip, M at least 2.
        radius: (M,) m.
        parent: Index of the axis from which it grows, which comes earlier in the same list; None at the base.
        at: Index of the parent's point at which it starts. The first point of the axis equals this point.
        label: Kind of axis, such as "trunk" or "spur".
    """

    points: FloatArray
    radius: FloatArray
    parent: int | None = None
    at: int = 0
    label: str = ""


def unit(vectors: FloatArray) -> FloatArray:
    """Scale vectors (...,3) to length 1; vectors of length 0 become the upward direction."""
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.where(length > 1e-12, vectors / np.maximum(length, 1e-12), UP)


def perpendicular(direction: FloatArray, azimuth: float) -> FloatArray:
    """Return a unit vector at a right angle to a direction.

    Args:
        direction: (3,) unit vector.
        azimuth: Angle around the direction, radians; for an upright direction 0 is +x and π/2 is +y.

    Returns:
        (3,) unit vector.
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
    """Grow one smooth path.

    Args:
        rng: Source of random draws.
        start: (3,) first point, m.
        heading: (3,) direction of the first step.
        length: Length of the path, m.
        step: Distance between points, m.
        towards: (3,) direction to which the path bends.
        pull: Share of the remaining turn that the path completes per m, as an exponent.
        wander: Standard deviation of the random deviation of the direction, about in radians.

    Returns:
        (M,3) m, M at least 2.
    """
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
    """A growing plant.

    Attributes:
        rng: Source of random draws.
        step: Distance between the points of an axis, m.
        thinnest: Smallest radius of an axis, m.
        axes: The axes so far; parents come before their children.
    """

    rng: Rng
    step: float
    thinnest: float
    axes: list[Axis3] = field(default_factory=list)

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

        Args:
            base: (3,) first point, m.
            heading: (3,) direction of the first step.
            length: Length, m.
            radii: Radius at the base and at the tip, m.
            label: Kind of axis.
            towards: (3,) direction to which the axis bends.
            pull: Speed of this bend, 1/m.
            wander: Random deviation of the direction.
            flare: Additional share of the radius at the foot, which fades over four radii.

        Returns:
            Index of the new axis.
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
        """Grow an axis from another one and return its index.

        Args:
            parent: Index of the axis from which it grows.
            share: Position along the parent, from 0 (base) to 1 (tip).
            azimuth: Angle around the parent, radians; see `perpendicular`.
            turn: Angle to the parent's direction, radians.
            length: Length, m.
            radii: Radius at the base and at the tip, m. The first is limited to 0.85 of the parent's radius.
            label: Kind of axis.
            towards: (3,) direction to which the axis bends.
            pull: Speed of this bend, 1/m.
            wander: Random deviation of the direction.

        Returns:
            Index of the new axis.
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
        """Return the radius of an axis at a position along it.

        Args:
            axis: Index of the axis.
            share: Position from 0 (base) to 1 (tip).

        Returns:
            The radius, m.
        """
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
