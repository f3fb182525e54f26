"""Random draws that are identical on every machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from treeformer._util.arrays import FloatArray

T = TypeVar("T")


class Rng:
    """Seeded source of random draws, all derived from one stream of 53-bit fractions. The integers `key` seed it.

    PCG64 and the conversion of its integers to fractions in [0, 1) are exact. Every other draw is arithmetic on these
    fractions, so a change of NumPy's sampling algorithms cannot change the stream.

    Attributes:
        fraction: function without arguments that returns one float in [0, 1)

    >>> Rng(3, 1).uniform(0, 10) == Rng(3, 1).uniform(0, 10)
    True
    """

    def __init__(self, *key: int) -> None:
        self._generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence(key)))
        # The bound method itself: a wrapper would cost one more call per draw.
        self.fraction = self._generator.random

    def uniform(self, low: float, high: float) -> float:
        """Return a number in [low, high)."""
        return low + (high - low) * self.fraction()

    def whole(self, low: int, high: int) -> int:
        """Return an integer from low to high, both included."""
        return low + int(self.fraction() * (high - low + 1))

    def chance(self, probability: float) -> bool:
        """Return True with the given probability."""
        return self.fraction() < probability

    def choice(self, options: Sequence[T]) -> T:
        """Return one of the options, all equally likely."""
        return options[int(self.fraction() * len(options))]

    def weighted(self, options: Sequence[tuple[T, float]]) -> T:
        """Return one of the options, given as (option, weight) pairs; the weights need not sum to 1."""
        remaining = self.fraction() * sum(weight for _, weight in options)
        for option, weight in options:
            remaining -= weight
            if remaining < 0:
                return option
        return options[-1][0]

    def array(self, *shape: int, low: float = 0.0, high: float = 1.0) -> FloatArray:
        """Return an array of numbers in [low, high)."""
        return low + (high - low) * self._generator.random(shape)

    def bell(self, *shape: int) -> FloatArray:
        """Return bell-shaped numbers of mean 0 and standard deviation 1, each the sum of four uniform ones.

        They never exceed ±3.5.
        """
        a, b, c, d = self._generator.random((4, *shape))
        return np.asarray(((a + b) + (c + d) - 2.0) * 3.0**0.5)
