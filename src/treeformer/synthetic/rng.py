"""Random draws that are the same on every machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from treeformer._util.arrays import FloatArray

T = TypeVar("T")


class Rng:
    """A seeded source of random draws, all of them made from one stream of 53-bit fractions.

    PCG64 and the step from its integers to fractions in [0, 1) are exact; every other draw is arithmetic on
    these fractions, so that no sampling algorithm of a library can change the stream.

    >>> Rng(3, 1).uniform(0, 10) == Rng(3, 1).uniform(0, 10)
    True
    """

    def __init__(self, *key: int) -> None:
        self._generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence(key)))
        self.fraction = self._generator.random  # one float in [0, 1), as fast as it gets

    def uniform(self, low: float, high: float) -> float:
        """A number in [low, high)."""
        return low + (high - low) * self.fraction()

    def whole(self, low: int, high: int) -> int:
        """A whole number from low to high, both included."""
        return low + int(self.fraction() * (high - low + 1))

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self.fraction() < probability

    def choice(self, options: Sequence[T]) -> T:
        """One of the options, all equally likely."""
        return options[int(self.fraction() * len(options))]

    def weighted(self, options: Sequence[tuple[T, float]]) -> T:
        """One of the options, each with its weight (any positive scale)."""
        mark = self.fraction() * sum(weight for _, weight in options)
        for option, weight in options:
            mark -= weight
            if mark < 0:
                return option
        return options[-1][0]

    def array(self, *shape: int, low: float = 0.0, high: float = 1.0) -> FloatArray:
        """Numbers in [low, high)."""
        return low + (high - low) * self._generator.random(shape)

    def bell(self, *shape: int) -> FloatArray:
        """Bell-shaped numbers of mean 0 and standard deviation 1, never beyond ±3.5: a sum of four uniform ones."""
        a, b, c, d = self._generator.random((4, *shape))
        return np.asarray(((a + b) + (c + d) - 2.0) * 3.0**0.5)
