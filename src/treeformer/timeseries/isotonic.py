"""Isotonic regression: the non-decreasing sequence nearest to given values."""

from __future__ import annotations

import numpy as np

from treeformer._util.arrays import FloatArray


def isotonic(values: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """Return the non-decreasing sequence of least weighted squared error (pool adjacent violators).

    Args:
        values: (N,) finite numbers.
        weights: (N,) positive numbers, or None for equal weights.

    Returns:
        (N,) non-decreasing numbers.

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
