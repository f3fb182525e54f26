"""Compare the identities of a series with the ground truth."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import linear_sum_assignment

from treeformer._util.arrays import FloatArray
from treeformer.skeleton import Skeleton
from treeformer.timeseries.paths import Paths, arc_length, axis_paths, nearest_distances

if TYPE_CHECKING:
    from treeformer.timeseries.series import Series

# A length that decreases by less than this share of itself, or this many tolerances, has not decreased.
SHRINKAGE_SHARE, SHRINKAGE_TOLERANCES = 0.05, 0.5
# An axis is detected if the overlap with the predicted one is at least this much of the mean of both lengths.
MIN_OVERLAP = 0.5
# Weight of the nearness of two axes, 0 to 1, which decides between equal overlaps.
TIE_WEIGHT = 1e-3


@dataclass(frozen=True, slots=True)
class IdentityScore:
    """How well axes keep their identity."""

    # share of the detected axes × dates whose identity is right: each ground-truth axis is paired with at most one
    # track, so that the number of right ones is greatest (IDF1 over the detected axes)
    f1: float
    right: int  # number of detected axes × dates with the right identity
    detected: int  # number of ground-truth axes × dates that were detected
    expected: int  # number of ground-truth axes × dates
    predicted: int  # number of predicted axes × dates
    pairs: Mapping[str, str] = field(default_factory=dict)  # track of each ground-truth axis that has one

    @property
    def errors(self) -> int:
        """Number of detected axes × dates with a wrong identity."""
        return self.detected - self.right

    @property
    def recall(self) -> float:
        """Share of the ground-truth axes × dates that were detected."""
        return self.detected / self.expected if self.expected else 1.0

    @property
    def f1_of_all(self) -> float:
        """IDF1 over all axes: missing and false ones count as errors."""
        total = self.expected + self.predicted
        return 2 * self.right / total if total else 1.0


def detected_pairs(
    predicted: Skeleton, expected: Skeleton, tolerance_px: float, spacing_px: float = 2.0
) -> list[tuple[int, int]]:
    """Pair the axes of a predicted skeleton with those of the ground truth on the same image, (predicted, expected).

    An axis is in at most one pair; the overlap of all pairs is greatest. Short axes within the tolerance of several
    others overlap with all of them: the nearest pairs are taken.
    """
    paths, paths_axis = axis_paths(predicted, spacing_px)
    others, others_axis = axis_paths(expected, spacing_px)
    if len(paths) == 0 or len(others) == 0:
        return []
    overlap, nearness = _overlap(paths, others, tolerance_px)
    weight = overlap + TIE_WEIGHT * nearness
    rows, columns = linear_sum_assignment(-np.where(overlap >= MIN_OVERLAP, weight, 0.0))
    return [
        (int(paths_axis[i]), int(others_axis[j]))
        for i, j in zip(rows, columns, strict=True)
        if overlap[i, j] >= MIN_OVERLAP
    ]


def _overlap(paths: Paths, others: Paths, tolerance_px: float) -> tuple[FloatArray, FloatArray]:
    """Return the overlap of each pair as a share of the mean length, (A,B), and how near the overlapping parts are.

    Nearness is 1 if the axes are the same, and 0 if their distance is the tolerance or more.
    """
    forward, backward = nearest_distances(paths.points, others), nearest_distances(others.points, paths)
    count = np.diff(paths.start)[:, None] + np.diff(others.start)[None]

    def mean(a: FloatArray, b: FloatArray) -> FloatArray:
        total = np.add.reduceat(a, paths.start[:-1], axis=0) + np.add.reduceat(b, others.start[:-1], axis=0).T
        return np.asarray(total / count)

    overlap = mean(*((one <= tolerance_px).astype(np.float64) for one in (forward, backward)))
    near = mean(*(np.maximum(1 - one / tolerance_px, 0.0) for one in (forward, backward)))
    return overlap, near


def identity_score(
    observations: Sequence[tuple[str, str]], *, expected: int | None = None, predicted: int | None = None
) -> IdentityScore:
    """Score identities, given as (id in the ground truth, id of the track) for each detected axis at each date.

    The numbers of ground-truth and predicted axes × dates are those of the detected ones by default.
    """
    names = sorted({a for a, _ in observations})
    tracks = sorted({b for _, b in observations})
    count = np.zeros((len(names), len(tracks)), dtype=np.intp)
    row, column = {name: k for k, name in enumerate(names)}, {name: k for k, name in enumerate(tracks)}
    for a, b in observations:
        count[row[a], column[b]] += 1
    rows, columns = linear_sum_assignment(-count) if count.size else (np.zeros(0, np.intp),) * 2
    right = int(count[rows, columns].sum())
    pairs = {names[i]: tracks[j] for i, j in zip(rows.tolist(), columns.tolist(), strict=True) if count[i, j]}
    detected = len(observations)
    return IdentityScore(
        right / detected if detected else 1.0,
        right,
        detected,
        detected if expected is None else expected,
        detected if predicted is None else predicted,
        pairs,
    )


@dataclass(frozen=True, slots=True)
class GrowthErrors:
    """Errors of growth over the axes with the right identity."""

    emergence: FloatArray  # (K,) absolute errors of the emergence time, of the axes that emerge after the first date
    # (M,) growth rates, px per unit of time, per axis and pair of successive dates at which it was found
    rate: FloatArray
    expected_rate: FloatArray  # (M,) the same in the ground truth


def growth_errors(series: Series, expected: Sequence[Skeleton], pairs: Mapping[str, str]) -> GrowthErrors:
    """Compare emergence times and growth rates with the ground truth.

    `expected` is in the order of time, with ids and the function `age`, whose first sample is the emergence time of the
    axis. `pairs` are those of `IdentityScore`.
    """
    from treeformer.timeseries.emergence import emergence

    true_length: dict[str, dict[int, float]] = {}
    true_emergence: dict[str, float] = {}
    for date, skeleton in enumerate(expected):
        scale = series.registrations[date].transform.scale
        for axis in skeleton.axes:
            line = skeleton.nodes[list(axis.nodes)]
            true_length.setdefault(axis.id, {})[date] = scale * float(arc_length(line)[-1])
            for function in axis.functions:
                if function.name == "age":
                    true_emergence[axis.id] = function.samples[0]
    tracks = {track.id: track for track in series.tracks}
    errors: list[float] = []
    rates: list[tuple[float, float]] = []
    for name, track_id in pairs.items():
        track = tracks[track_id]
        estimate = emergence(track, series.times)[0]
        if name in true_emergence and min(true_length[name]) > 0 and not math.isnan(estimate):
            errors.append(abs(estimate - true_emergence[name]))
        for (a, before), (b, after) in pairwise(zip(track.dates.tolist(), track.monotone_length.tolist(), strict=True)):
            if a in true_length[name] and b in true_length[name]:
                interval = float(series.times[b] - series.times[a])
                rates.append(((after - before) / interval, (true_length[name][b] - true_length[name][a]) / interval))
    both = np.asarray(rates).reshape(-1, 2)
    return GrowthErrors(np.asarray(errors), both[:, 0], both[:, 1])


def shrinkages(lengths: FloatArray, tolerance_px: float) -> int:
    """Count the intervals in which lengths (K,), px, decrease by more than 5 % and half of the tolerance."""
    slack = np.maximum(SHRINKAGE_SHARE * lengths[:-1], SHRINKAGE_TOLERANCES * tolerance_px)
    return int((lengths[:-1] - lengths[1:] > slack).sum())
