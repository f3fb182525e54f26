"""Similarity transforms of the plane: scale, rotation and shift."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from treeformer._util.arrays import FloatArray


@dataclass(frozen=True, slots=True)
class Similarity:
    """The map p -> scale · R(rotation) · p + shift.

    Example:
        >>> Similarity(2.0, 0.0, (1.0, 0.0)).apply(np.array([(3.0, 4.0)])).tolist()
        [[7.0, 8.0]]
    """

    scale: float = 1.0  # positive
    rotation: float = 0.0  # radians; positive turns the x axis towards the y axis
    shift: tuple[float, float] = (0.0, 0.0)  # (x, y) px

    @property
    def matrix(self) -> FloatArray:
        """The affine matrix, (2,3)."""
        cos, sin = self.scale * math.cos(self.rotation), self.scale * math.sin(self.rotation)
        return np.array([(cos, -sin, self.shift[0]), (sin, cos, self.shift[1])])

    def apply(self, points: FloatArray) -> FloatArray:
        """Return moved points, (...,2) px."""
        matrix = self.matrix
        return np.asarray(points @ matrix[:, :2].T + matrix[:, 2])

    def after(self, first: Similarity) -> Similarity:
        """Return the map that applies `first` and then this one."""
        x, y = self.apply(np.asarray(first.shift)).tolist()
        return Similarity(self.scale * first.scale, wrap(self.rotation + first.rotation), (x, y))

    def inverse(self) -> Similarity:
        """Return the map that undoes this one."""
        back = Similarity(1 / self.scale, -self.rotation)
        x, y = (-back.apply(np.asarray(self.shift))).tolist()
        return Similarity(back.scale, back.rotation, (x, y))


IDENTITY = Similarity()


def wrap(angle: float) -> float:
    """Return an angle in radians, moved to [-π, π)."""
    return (angle + math.pi) % (2 * math.pi) - math.pi


def fit_similarity(
    source: FloatArray,
    target: FloatArray,
    weight: FloatArray | None = None,
    *,
    rotation_prior_px: float = 0.0,
    scale_prior_px: float = 0.0,
) -> Similarity:
    """Fit the similarity of least weighted squared error that maps points (P,2) to points (P,2), px.

    A prior pulls the rotation towards 0 and the scale towards 1 if the points are close together: both are multiplied
    by about r² / (r² + prior²), where r is the root mean square distance of the points from their center. Weights are
    not all zero. Without points, this is the identity; for one point a shift.
    """
    if len(source) == 0:
        return IDENTITY
    share = np.ones(len(source)) if weight is None else weight
    share = share / share.sum()
    a, b = share @ source, share @ target
    p, q = source - a, target - b
    spread = float(share @ (p * p).sum(axis=1))
    along = float(share @ (p * q).sum(axis=1))
    across = float(share @ (p[:, 0] * q[:, 1] - p[:, 1] * q[:, 0]))
    rotation = math.atan2(across, along + rotation_prior_px**2) if spread + rotation_prior_px > 0 else 0.0
    projected = along * math.cos(rotation) + across * math.sin(rotation)
    weighted = spread + scale_prior_px**2
    scale = (projected + scale_prior_px**2) / weighted if weighted > 0 else 1.0
    if not scale > 0:
        scale = 1.0
    x, y = (b - Similarity(scale, rotation).apply(a)).tolist()
    return Similarity(scale, rotation, (x, y))
