"""Compute nine summary statistics for many groups at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from treeformer._util.arrays import FloatArray, IntArray
from treeformer.traits.definitions import STATISTICS

QUANTILES = {"min": 0.0, "p5": 0.05, "p25": 0.25, "median": 0.5, "p75": 0.75, "p95": 0.95, "max": 1.0}


def sums(values: ArrayLike, group: IntArray, groups: int) -> FloatArray:
    """Sum the values (V,) of each group (V,); the result is (groups,)."""
    return np.bincount(group, np.asarray(values), groups).astype(np.float64)


def nine_statistics(values: ArrayLike, group: IntArray, groups: int) -> dict[str, FloatArray]:
    """Compute all `STATISTICS` of each group as arrays (groups,), NaN for groups without values; see `sums`.

    NaN values are ignored. As in NumPy, quantiles are interpolated linearly, and std divides by the number of values.

    Example:
        >>> nine_statistics([1.0, 4.0, 2.0], np.array([0, 1, 0]), 3)["mean"].tolist()
        [1.5, 4.0, nan]
    """
    value = np.asarray(values, dtype=np.float64)
    known = ~np.isnan(value)
    value, group = value[known], group[known]
    order = np.lexsort((value, group))
    value, group = value[order], group[order]
    count = np.bincount(group, minlength=groups)
    has_values = count > 0
    divisor = np.where(has_values, count, np.nan)
    mean = sums(value, group, groups) / divisor
    statistics = {"mean": mean, "std": np.sqrt(sums((value - mean[group]) ** 2, group, groups) / divisor)}
    first = np.cumsum(count) - count
    for name, fraction in QUANTILES.items():
        position = fraction * (count[has_values] - 1)
        below = np.floor(position).astype(np.intp)
        low = value[first[has_values] + below]
        high = value[first[has_values] + np.minimum(below + 1, count[has_values] - 1)]
        statistics[name] = np.full(groups, np.nan)
        statistics[name][has_values] = low + (position - below) * (high - low)
    return {name: statistics[name] for name in STATISTICS}
