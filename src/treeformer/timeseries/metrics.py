"""Compare the identities of a series with the ground truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from treeformer._util.arrays import FloatArray
from treeformer.skeleton import Skeleton
from treeformer.timeseries.paths import Paths, axis_paths, nearest_distances

# An axis is detected if the overlap with the predicted one is at least this much of the mean of both lengths.
MIN_OVERLAP = 0.5


@dataclass(frozen=True, slots=True)
class IdentityScore:
    """How well axes keep their identity.

    Attributes:
        f1: Share of the detected axes × dates whose identity is right: each ground-truth axis is paired with at most
            one track, so that the number of right ones is greatest (IDF1 over the detected axes).
        right: Number of detected axes × dates with the right identity.
        detected: Number of ground-truth axes × dates that were detected.
        expected: Number of ground-truth axes × dates.
        predicted: Number of predicted axes × dates.
    """

    f1: float
    right: int
    detected: int
    expected: int
    predicted: int

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
    """Pair the axes of a predicted skeleton with those of the ground truth on the same image.

    Args:
        predicted: The prediction.
        expected: The ground truth.
        tolerance_px: Distance within which two places agree, px.
        spacing_px: Distance between sampled points, px.

    Returns:
        (predicted axis, expected axis) indices. An axis is in at most one pair; the overlap of all pairs is greatest.
    """
    paths, paths_axis = axis_paths(predicted, spacing_px)
    others, others_axis = axis_paths(expected, spacing_px)
    if len(paths) == 0 or len(others) == 0:
        return []
    overlap = _overlap(paths, others, tolerance_px)
    rows, columns = linear_sum_assignment(-np.where(overlap >= MIN_OVERLAP, overlap, 0.0))
    return [
        (int(paths_axis[i]), int(others_axis[j]))
        for i, j in zip(rows, columns, strict=True)
        if overlap[i, j] >= MIN_OVERLAP
    ]


def _overlap(paths: Paths, others: Paths, tolerance_px: float) -> FloatArray:
    """Return the overlap of each pair as a share of the mean length, (A,B)."""
    a = np.add.reduceat(nearest_distances(paths.points, others) <= tolerance_px, paths.start[:-1], axis=0)
    b = np.add.reduceat(nearest_distances(others.points, paths) <= tolerance_px, others.start[:-1], axis=0)
    size_a, size_b = np.diff(paths.start), np.diff(others.start)
    return np.asarray((a + b.T) / (size_a[:, None] + size_b[None]))


def identity_score(
    observations: Sequence[tuple[str, str]], *, expected: int | None = None, predicted: int | None = None
) -> IdentityScore:
    """Score identities.

    Args:
        observations: (id in the ground truth, id of the track) for each detected axis at each date.
        expected: Number of ground-truth axes × dates; None for all detected.
        predicted: Number of predicted axes × dates; None for all detected.

    Returns:
        The score.
    """
    names = sorted({a for a, _ in observations})
    tracks = sorted({b for _, b in observations})
    count = np.zeros((len(names), len(tracks)), dtype=np.intp)
    row, column = {name: k for k, name in enumerate(names)}, {name: k for k, name in enumerate(tracks)}
    for a, b in observations:
        count[row[a], column[b]] += 1
    right = int(count[linear_sum_assignment(-count)].sum()) if count.size else 0
    detected = len(observations)
    return IdentityScore(
        right / detected if detected else 1.0,
        right,
        detected,
        detected if expected is None else expected,
        detected if predicted is None else predicted,
    )
