"""Hypothesis strategies for skeletons."""

from __future__ import annotations

import os

import numpy as np
from hypothesis import strategies as st

from treeformer import Skeleton

# Every run draws other examples, so that a few of them per run suffice: TREEFORMER_EXAMPLES=1000 searches longer.
DEFAULT_EXAMPLES = 20
EXAMPLES = int(os.environ.get("TREEFORMER_EXAMPLES", DEFAULT_EXAMPLES))


def examples(count: int) -> int:
    """Return the number of examples of a test that needs `count` of them per 40 of the others."""
    return max(1, count * EXAMPLES // 40)


coordinates = st.floats(-50, 250, allow_nan=False).map(lambda value: round(value, 3))


@st.composite
def forests(draw: st.DrawFn, *, min_nodes: int = 0, max_nodes: int = 25, max_plants: int = 3) -> Skeleton:
    """Random forests with given roots and nodes in any order; some with radii and scores."""
    count = draw(st.integers(min_nodes, max_nodes))
    points = draw(st.lists(st.tuples(coordinates, coordinates), min_size=count, max_size=count))
    parents = [-1 if i == 0 else draw(st.integers(0, i - 1)) for i in range(count)]
    for extra in draw(st.lists(st.integers(1, max(1, count - 1)), max_size=max_plants - 1)):
        if extra < count:
            parents[extra] = -1
    shuffled = np.asarray(draw(st.permutations(range(count))), dtype=int)
    new_index = np.argsort(shuffled)
    shuffled_parents = [parents[old] for old in shuffled]
    unit = st.floats(0, 1)
    return Skeleton.from_parents(
        np.asarray(points, dtype=float).reshape(-1, 2)[shuffled],
        [int(new_index[p]) if p >= 0 else -1 for p in shuffled_parents],
        radius=draw(st.none() | st.lists(st.floats(0, 9) | st.just(float("nan")), min_size=count, max_size=count)),
        node_score=draw(st.none() | st.lists(unit, min_size=count, max_size=count)),
        edge_score=draw(st.none() | st.just(np.linspace(0, 1, sum(p >= 0 for p in shuffled_parents)))),
        image_size=draw(st.none() | st.just((200, 200))),
    )


@st.composite
def graphs(draw: st.DrawFn, *, max_nodes: int = 12) -> Skeleton:
    """Random simple graphs, with or without cycles."""
    count = draw(st.integers(2, max_nodes))
    points = draw(st.lists(st.tuples(coordinates, coordinates), min_size=count, max_size=count))
    pairs = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).filter(lambda p: p[0] < p[1])
    return Skeleton(points, sorted(draw(st.sets(pairs, max_size=2 * count))))
