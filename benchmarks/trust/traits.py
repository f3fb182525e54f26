"""Traits of predicted plants beside those of the true plants: bias, error, share within 10 %, correlation."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from benchmarks.trust.plants import match_plants
from numpy.typing import NDArray

from treeformer.skeleton import Skeleton
from treeformer.traits import measure

Values = NDArray[np.float64]

TRAITS = (
    "total_length", "primary_length", "lateral_count", "lateral_length", "lateral_length_mean", "tip_count",
    "branch_point_count", "max_order", "depth", "width", "convex_hull_area", "mean_diameter", "surface_area", "volume",
    "main_curve_index", "lateral_emergence_angle_mean",
)  # fmt: skip
"""The traits of the compact table that the ground truth has, too."""
# Angles are compared by their differences, in degrees.
ANGLES = ("lateral_emergence_angle_mean",)
TOLERANCE, ANGLE_TOLERANCE = 0.1, 10.0
# Fewer plants have no meaningful correlation.
MIN_PLANTS = 5
DIGITS = 6


class Agreement(NamedTuple):
    """How a predicted trait agrees with the true one over all plants that have both.

    Attributes:
        plants: number of plants.
        bias: median of (predicted - true) / true; negative if the prediction is too low.
        error: median of the absolute values of the same.
        within: fraction of the plants whose prediction differs by at most 10 % (angles: 10 degrees).
        correlation: Pearson's coefficient; NaN for few plants or constant values.
        is_relative: False if bias and error are differences in the unit of the trait: for angles, and if the true
            value is 0 in most plants.
    """

    plants: int
    bias: float
    error: float
    within: float
    correlation: float
    is_relative: bool


def compare(pairs: Iterable[tuple[Skeleton, Skeleton]]) -> dict[str, object]:
    """Measure predicted and true plants.

    Args:
        pairs: prediction and ground truth of each image.

    Returns:
        `plants`: numbers of plants that are matched, missed and false; `traits`: for each trait the predicted values
        of the matched plants, and the true ones.
    """
    matched = missed = false = 0
    values: dict[str, tuple[list[float | None], list[float | None]]] = {name: ([], []) for name in TRAITS}
    for prediction, ground_truth in pairs:
        chosen = match_plants(prediction, ground_truth)
        matched += len(chosen)
        missed += len(ground_truth.plants) - len(chosen)
        false += len(prediction.plants) - len(chosen)
        if not chosen:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tables = measure(prediction, columns="all"), measure(ground_truth, columns="all")
        for name in TRAITS:
            for side in (0, 1):
                column = tables[side][name]
                values[name][side].extend(_rounded(column.iloc[pair[side]]) for pair in chosen)
    return {"plants": [matched, missed, false], "traits": values}


def _rounded(value: float) -> float | None:
    return float(f"{value:.{DIGITS}g}") if np.isfinite(value) else None


def agreement(name: str, predicted: Sequence[float | None], true: Sequence[float | None]) -> Agreement | None:
    """Return the agreement of one trait, or None if no plant has both values.

    Args:
        name: of the trait.
        predicted: one value per plant, None if it has none.
        true: the same for the ground truth.

    Returns:
        The figures.
    """
    table = np.array([predicted, true], dtype=np.float64).reshape(2, -1)
    found, expected = table[:, np.isfinite(table).all(axis=0)]
    if not len(found):
        return None
    difference, size = found - expected, np.abs(expected)
    is_angle = name in ANGLES
    is_relative = not is_angle and float(np.median(size)) > 0
    # A true value of 0 that is predicted is infinitely wrong.
    zero = np.where(difference == 0, 0.0, np.copysign(np.inf, difference))
    error = np.divide(difference, size, out=zero, where=size > 0) if is_relative else difference
    close = np.abs(difference) <= (ANGLE_TOLERANCE if is_angle else TOLERANCE * size)
    varies = len(found) >= MIN_PLANTS and np.ptp(found) > 0 and np.ptp(expected) > 0
    correlation = float(np.corrcoef(found, expected)[0, 1]) if varies else float("nan")
    return Agreement(
        len(found),
        float(np.median(error)),
        float(np.median(np.abs(error))),
        float(close.mean()),
        correlation,
        is_relative,
    )
