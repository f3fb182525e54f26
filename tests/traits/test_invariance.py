"""Transformations that must not change the traits of a plant."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strategies import examples
from tests.traits.figures import forests
from treeformer import Skeleton
from treeformer.traits import TRAITS, measure


def assert_same_traits(first: Skeleton, second: Skeleton, scale: float = 1.0) -> None:
    """Assert equal plant tables, except that lengths of `second` are `scale` times those of `first`."""
    power = {"length": 1, "area": 2, "1/length": -1}
    expected, found = measure(first), measure(second)
    assert list(found) == list(expected)
    for trait in TRAITS:
        if trait.level == "plant":
            for column in trait.columns(max_order=int(expected["max_order"].max())):
                wanted = expected[column].to_numpy() * scale ** power.get(trait.kind, 0)
                np.testing.assert_allclose(found[column].to_numpy(), wanted, rtol=1e-6, atol=1e-6, err_msg=column)


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(20))
@given(forests, st.floats(-1e4, 1e4), st.floats(-1e4, 1e4))
def test_translation_changes_nothing(forest: Skeleton, dx: float, dy: float) -> None:
    assert_same_traits(forest, forest.transform([[1, 0, dx], [0, 1, dy]]))


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(20))
@given(forests, st.floats(0.01, 100))
def test_scaling_changes_lengths_only(forest: Skeleton, scale: float) -> None:
    assert_same_traits(forest, forest.transform([[scale, 0, 0], [0, scale, 0]]), scale)


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(20))
@given(forests)
def test_a_mirror_changes_nothing(forest: Skeleton) -> None:
    # Keep the plant numbers: by default, plants are numbered from left to right.
    forest = forest.replace(plant=forest.plant_of_node)
    assert_same_traits(forest, forest.transform([[-1, 0, 0], [0, 1, 0]]))


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(20))
@given(forests, st.randoms(use_true_random=False))
def test_renumbering_changes_nothing(forest: Skeleton, random: Any) -> None:
    number = list(range(len(forest)))
    random.shuffle(number)
    edges = [sorted((number[u], number[v]), key=lambda _: random.random()) for u, v in forest.edges.tolist()]
    random.shuffle(edges)
    again = Skeleton(
        forest.nodes[np.argsort(number)], np.reshape(edges, (-1, 2)), root=[number[r] for r in forest.roots]
    )
    assert_same_traits(forest, again)
