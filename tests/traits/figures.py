"""Helpers for the tests of traits: single rows and random forests."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st

from treeformer import Skeleton
from treeformer.traits import measure


def row(skeleton: Skeleton, **options: Any) -> pd.Series:
    table = measure(skeleton, **options)
    assert len(table) == 1
    return table.iloc[0]


def random_forest(seed: int, sizes: list[int]) -> Skeleton:
    """Return rooted trees with random nodes, so that no two directions or lengths are equal."""
    rng = np.random.default_rng(seed)
    parents: list[int] = []
    for size in sizes:
        first = len(parents)
        # Mostly chains, so that there are nodes of degree 2 as well.
        parents += [-1] + [first + (k if rng.random() < 0.6 else int(rng.integers(0, k + 1))) for k in range(size - 1)]
    return Skeleton.from_parents(rng.normal(0, 100, size=(len(parents), 2)), parents)


forests = st.builds(random_forest, st.integers(0, 2**32), st.lists(st.integers(1, 25), min_size=1, max_size=3))
