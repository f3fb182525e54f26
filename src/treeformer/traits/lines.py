"""The geometry of many polylines at once: axes and segments alike, as arrays."""

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
    """K polylines laid end to end: line k is points[start[k]:start[k + 1]] of (P,2) px; it may have no points."""

    points: FloatArray
    start: IntArray

    @classmethod
    def along(cls, axes: Sequence[Axis], nodes: FloatArray) -> Lines:
        """The axes' own points; nodes (N,2) px."""
        size = np.fromiter((len(axis.nodes) for axis in axes), dtype=np.intp, count=len(axes))
        start = np.concatenate([[0], np.cumsum(size)]).astype(np.intp)
        at = np.fromiter(chain.from_iterable(axis.nodes for axis in axes), dtype=np.intp, count=int(start[-1]))
        return cls(nodes[at], start)

    def __len__(self) -> int:
        return len(self.start) - 1

    @cached_property
    def _steps(self) -> tuple[FloatArray, FloatArray, IntArray]:
        """Every step of non-zero length: its vector (S,2), its length (S,), its line (S,)."""
        line = np.repeat(np.arange(len(self)), np.diff(self.start))
        vector = np.diff(self.points, axis=0)
        length = np.hypot(vector[:, 0], vector[:, 1])
        kept = (line[:-1] == line[1:]) & (length > 0)
        return vector[kept], length[kept], line[:-1][kept]

    @cached_property
    def length(self) -> FloatArray:
        """(K,) px; 0 for fewer than two points."""
        _, length, line = self._steps
        return np.bincount(line, weights=length, minlength=len(self)).astype(np.float64)

    @cached_property
    def first_step(self) -> FloatArray:
        """(K,2) from the first point to the next one elsewhere; NaN where there is none."""
        vector, _, line = self._steps
        step = np.full((len(self), 2), np.nan)
        step[line[::-1]] = vector[::-1]  # the first of each line is written last
        return step

    @cached_property
    def last_step(self) -> FloatArray:
        """(K,2) to the last point from the one before it elsewhere; NaN where there is none."""
        vector, _, line = self._steps
        step = np.full((len(self), 2), np.nan)
        step[line] = vector
        return step

    @cached_property
    def chord(self) -> FloatArray:
        """(K,2) from the first point to the last; 0 for fewer than two."""
        first, last = self.start[:-1], self.start[1:] - 1
        several = last > first
        chord = np.zeros((len(self), 2))
        chord[several] = self.points[last[several]] - self.points[first[several]]
        return chord

    @cached_property
    def chord_length(self) -> FloatArray:
        """(K,) px. Never more than `length`, whatever the rounding."""
        return np.minimum(np.hypot(self.chord[:, 0], self.chord[:, 1]), self.length)

    @property
    def chord_angle(self) -> FloatArray:
        """(K,) degrees from gravity; NaN where first and last point coincide."""
        return angle_from_gravity(np.where(self.chord_length[:, None] > 0, self.chord, np.nan))

    @property
    def curve_index(self) -> FloatArray:
        """(K,) (length - chord_length) / length, 0 for a straight line; NaN where length is 0."""
        return ratio(self.length - self.chord_length, self.length)

    @property
    def tortuosity(self) -> FloatArray:
        """(K,) length / chord_length, 1 for a straight line; NaN where first and last point coincide."""
        return ratio(self.length, self.chord_length)


def angle_from_gravity(vector: FloatArray) -> FloatArray:
    """(K,2) px, y down -> (K,) degrees: 0 straight down, 90 level to either side, 180 straight up.

    >>> angle_from_gravity(np.array([(0.0, 2.0), (-3.0, 0.0), (1.0, -1.0)])).tolist()
    [0.0, 90.0, 135.0]
    """
    return np.degrees(np.arctan2(np.abs(vector[:, 0]), vector[:, 1]))


def angle_between(one: FloatArray, other: FloatArray) -> FloatArray:
    """Two times (K,2) -> (K,) degrees from 0 to 180; NaN where either has no length."""
    a, b = _unit(one), _unit(other)  # so that products neither overflow nor vanish
    across = a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]
    along = a[:, 0] * b[:, 0] + a[:, 1] * b[:, 1]
    angle: FloatArray = np.degrees(np.arctan2(np.abs(across), along))
    return angle


def _unit(vector: FloatArray) -> FloatArray:
    return vector / np.where((length := np.hypot(vector[:, 0], vector[:, 1])) > 0, length, np.nan)[:, None]


def ratio(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """numerator / denominator; NaN, without a warning, where the denominator is 0."""
    return numerator / np.where(denominator > 0, denominator, np.nan)
