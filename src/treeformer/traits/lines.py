"""Compute the geometry of many polylines at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np

from treeformer._util.arrays import FloatArray, IntArray
from treeformer.skeleton import Axis


@dataclass(frozen=True)
class Lines:
    """K polylines in one array. Line k is `points[start[k]:start[k + 1]]`, which may be empty."""

    points: FloatArray  # (P,2) px
    start: IntArray  # (K + 1,) index of the first point of each line, followed by P

    @classmethod
    def from_axes(cls, axes: Sequence[Axis], nodes: FloatArray) -> Lines:
        """Return one line per axis."""
        size = np.fromiter((len(axis.nodes) for axis in axes), dtype=np.intp, count=len(axes))
        start = np.concatenate([[0], np.cumsum(size)]).astype(np.intp)
        node = np.fromiter(chain.from_iterable(axis.nodes for axis in axes), dtype=np.intp, count=int(start[-1]))
        return cls(nodes[node], start)

    def __len__(self) -> int:
        return len(self.start) - 1

    @cached_property
    def _steps(self) -> tuple[FloatArray, FloatArray, IntArray]:
        """The vector (S,2), length (S,) and line (S,) of every step of non-zero length."""
        line = np.repeat(np.arange(len(self)), np.diff(self.start))
        vector = np.diff(self.points, axis=0)
        length = np.hypot(vector[:, 0], vector[:, 1])
        kept = (line[:-1] == line[1:]) & (length > 0)
        return vector[kept], length[kept], line[:-1][kept]

    @cached_property
    def length(self) -> FloatArray:
        """The length of each line, (K,) px. 0 for fewer than two points."""
        _, length, line = self._steps
        return np.bincount(line, weights=length, minlength=len(self)).astype(np.float64)

    @cached_property
    def first_step(self) -> FloatArray:
        """The first step of non-zero length of each line, (K,2) px. NaN if there is none."""
        vector, _, line = self._steps
        step = np.full((len(self), 2), np.nan)
        step[line[::-1]] = vector[::-1]  # the first step of each line is assigned last
        return step

    @cached_property
    def last_step(self) -> FloatArray:
        """The last step of non-zero length of each line, (K,2) px. NaN if there is none."""
        vector, _, line = self._steps
        step = np.full((len(self), 2), np.nan)
        step[line] = vector
        return step

    @cached_property
    def chord(self) -> FloatArray:
        """The vector from the first to the last point of each line, (K,2) px. 0 for fewer than two points."""
        first, last = self.start[:-1], self.start[1:] - 1
        several = last > first
        chord = np.zeros((len(self), 2))
        chord[several] = self.points[last[several]] - self.points[first[several]]
        return chord

    @cached_property
    def chord_length(self) -> FloatArray:
        """The length of each chord, (K,) px. It never exceeds `length`, regardless of rounding."""
        return np.minimum(np.hypot(self.chord[:, 0], self.chord[:, 1]), self.length)

    @property
    def chord_angle(self) -> FloatArray:
        """The angle of each chord from gravity, (K,) degrees. NaN if the first and last point coincide."""
        return angle_from_gravity(np.where(self.chord_length[:, None] > 0, self.chord, np.nan))

    @property
    def curve_index(self) -> FloatArray:
        """The ratio (length - chord_length) / length, (K,). 0 for a straight line, NaN if the length is 0."""
        return ratio(self.length - self.chord_length, self.length)

    @property
    def tortuosity(self) -> FloatArray:
        """The ratio length / chord_length, (K,). 1 for a straight line, NaN if the first and last point coincide."""
        return ratio(self.length, self.chord_length)


def angle_from_gravity(vector: FloatArray) -> FloatArray:
    """Return the angle of vectors (K,2) from gravity, (K,) degrees. The y axis points down.

    0 is straight down, 90 horizontal to either side, 180 straight up.

    >>> angle_from_gravity(np.array([(0.0, 2.0), (-3.0, 0.0), (1.0, -1.0)])).tolist()
    [0.0, 90.0, 135.0]
    """
    return np.degrees(np.arctan2(np.abs(vector[:, 0]), vector[:, 1]))


def angle_between(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the angle between pairs of vectors (K,2), degrees from 0 to 180; NaN if one has length 0."""
    a, b = _unit(first), _unit(second)  # unit vectors, so that products neither overflow nor underflow
    across = a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]
    along = a[:, 0] * b[:, 0] + a[:, 1] * b[:, 1]
    angle: FloatArray = np.degrees(np.arctan2(np.abs(across), along))
    return angle


def _unit(vector: FloatArray) -> FloatArray:
    return vector / np.where((length := np.hypot(vector[:, 0], vector[:, 1])) > 0, length, np.nan)[:, None]


def ratio(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """Divide arrays without a warning: NaN if the denominator, not negative, is 0; infinity if it is too small."""
    with np.errstate(over="ignore"):
        return numerator / np.where(denominator > 0, denominator, np.nan)
