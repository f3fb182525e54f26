"""Nine numbers that summarize an array of values, for many groups at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from treeformer._util.arrays import FloatArray, IntArray
from treeformer.traits.definitions import STATISTICS

QUANTILES = {"min": 0.0, "p5": 0.05, "p25": 0.25, "median": 0.5, "p75": 0.75, "p95": 0.95, "max": 1.0}


def sums(values: ArrayLike, group: IntArray, groups: int) -> FloatArray:
    """(groups,) the sum of the values (V,) of each group; group (V,) is the number of each value's group."""
    return np.bincount(group, np.asarray(values), groups).astype(np.float64)


def nine_statistics(values: ArrayLike, group: IntArray, groups: int) -> dict[str, FloatArray]:
    """Each of `STATISTICS` as (groups,) of the values (V,); NaN values do not count, nothing gives NaN.

    As in NumPy, quantiles lie on the straight line between neighbors, and std divides by the number of values.

    >>> nine_statistics([1.0, 4.0, 2.0], np.array([0, 1, 0]), 3)["mean"].tolist()
    [1.5, 4.0, nan]
    """
    value = np.asarray(values, dtype=np.float64)
    known = ~np.isnan(value)
    value, group = value[known], group[known]
    order = np.lexsort((value, group))
    value, group = value[order], group[order]
    count = np.bincount(group, minlength=groups)
    some = count > 0
    divisor = np.where(some, count, np.nan)
    mean = sums(value, group, groups) / divisor
    found = {"mean": mean, "std": np.sqrt(sums((value - mean[group]) ** 2, group, groups) / divisor)}
    first = np.cumsum(count) - count
    for name, fraction in QUANTILES.items():
        place = fraction * (count[some] - 1)
        below = np.floor(place).astype(np.intp)
        low = value[first[some] + below]
        high = value[first[some] + np.minimum(below + 1, count[some] - 1)]
        found[name] = np.full(groups, np.nan)
        found[name][some] = low + (place - below) * (high - low)
    return {name: found[name] for name in STATISTICS}
