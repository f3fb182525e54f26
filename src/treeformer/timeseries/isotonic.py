"""Isotonic regression: the non-decreasing sequence nearest to given values, by squared or absolute error."""

from __future__ import annotations

from bisect import insort

import numpy as np

from treeformer._util.arrays import FloatArray


def isotonic(values: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """Return the non-decreasing sequence of least weighted squared error (pool adjacent violators).

    Values (N,) are finite and weights positive.

    Example:
        >>> isotonic(np.array([1.0, 3.0, 2.0, 4.0])).tolist()
        [1.0, 2.5, 2.5, 4.0]
    """
    weight = np.ones(len(values)) if weights is None else weights
    level: list[float] = []
    total: list[float] = []
    count: list[int] = []
    for value, share in zip(values.tolist(), weight.tolist(), strict=True):
        level.append(value)
        total.append(share)
        count.append(1)
        while len(level) > 1 and level[-2] > level[-1]:
            value, share, size = level.pop(), total.pop(), count.pop()
            level[-1] = (level[-1] * total[-1] + value * share) / (total[-1] + share)
            total[-1] += share
            count[-1] += size
    return np.repeat(np.asarray(level, dtype=np.float64), count)


def isotonic_median(values: FloatArray) -> FloatArray:
    """Return the non-decreasing sequence of least absolute error, which single outliers do not change.

    Values that violate the order are pooled, as in `isotonic`, and replaced by their median. The medians of pools of
    even size are not unique: the result is the mean of the solutions with lower and with upper medians.

    Example:
        >>> isotonic_median(np.array([1.0, 2.0, 9.0, 3.0, 4.0, 5.0])).tolist()
        [1.0, 2.0, 3.5, 3.5, 4.0, 5.0]
    """
    return (_pooled(values, upper=False) + _pooled(values, upper=True)) / 2


def _pooled(values: FloatArray, *, upper: bool) -> FloatArray:
    def median(ordered: list[float]) -> float:
        return ordered[(len(ordered) - (not upper)) // 2]

    pools: list[list[float]] = []  # each sorted
    for value in values.tolist():
        pools.append([value])
        while len(pools) > 1 and median(pools[-2]) > median(pools[-1]):
            for one in pools.pop():
                insort(pools[-1], one)
    level = np.asarray([median(pool) for pool in pools], dtype=np.float64)
    return np.repeat(level, np.asarray([len(pool) for pool in pools], dtype=np.intp))
