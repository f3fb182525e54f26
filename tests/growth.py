"""Growth of the processor time with the size of a problem, for tests that must not depend on how busy a machine is."""

from __future__ import annotations

import time
from collections.abc import Callable

# From 1 to 8 times the size, linear work takes 8 times as long, quadratic work 64 times.
FACTOR = 8
LIMIT = 28
REPEATS = 3
# Less than this is dominated by constant costs.
SHORTEST_S = 0.002


def assert_less_than_quadratic(prepare: Callable[[int], Callable[[], object]], small: int) -> None:
    """Fail if work on a problem of `FACTOR * small` items takes far longer than `FACTOR` times that on `small` items.

    Args:
        prepare: makes the work for a number of items. Called for every repetition, so that nothing is cached.
        small: the smaller number of items.
    """
    base, grown = _shortest(prepare, small), _shortest(prepare, FACTOR * small)
    assert grown < LIMIT * max(base, SHORTEST_S), f"{FACTOR} times the items take {grown / base:.0f} times as long"


def _shortest(prepare: Callable[[int], Callable[[], object]], count: int) -> float:
    """Return the shortest processor time of several repetitions, s."""
    times = []
    for _ in range(REPEATS):
        work = prepare(count)
        begin = time.process_time()
        work()
        times.append(time.process_time() - begin)
    return min(times)
