"""The order in which graphs are told, against a queue written out by hand and against NetworkX."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treeformer import Skeleton, synthetic
from treeformer.baselines.ggt.breadth_first import breadth_first, told_in_order
from treeformer.nn.targets import Targets


def order_of(targets: Targets) -> list[list[int]]:
    arrays = (targets.points, targets.mask, targets.adjacency, targets.root)
    return breadth_first(*(array.numpy() for array in arrays)).tolist()


def slow_twin(skeleton: Skeleton, size: int) -> list[int]:
    """A queue for each piece, the pieces from left to right; padding at the end."""
    graph = skeleton.to_networkx()

    def rightwards(node: int) -> tuple[float, float]:
        return tuple(skeleton.nodes[node])

    component_root = []
    for component in nx.connected_components(graph):
        roots = [node for node in component if node in set(skeleton.roots.tolist())]
        lowest = max(component, key=lambda node: (skeleton.nodes[node][1], -skeleton.nodes[node][0]))
        component_root.append(min(roots, key=rightwards) if roots else lowest)
    told: list[int] = []
    for base in sorted(component_root, key=rightwards):
        told.append(base)
        told += [
            child for _, child in nx.bfs_edges(graph, base, sort_neighbors=lambda nodes: sorted(nodes, key=rightwards))
        ]
    return told + list(range(len(skeleton), size))


@st.composite
def forests(draw: st.DrawFn) -> Skeleton:
    """Up to 12 nodes on a grid, all in different places, joined to an earlier one or to none; some have roots."""
    count = draw(st.integers(0, 12))
    places = draw(st.lists(st.tuples(*[st.integers(0, 9)] * 2), min_size=count, max_size=count, unique=True))
    parent = [draw(st.integers(-1, node - 1)) for node in range(count)]
    edges = [(node, other) for node, other in enumerate(parent) if other >= 0]
    roots = [node for node, other in enumerate(parent) if other < 0 and draw(st.booleans())]
    return Skeleton(places, edges, root=roots)


@given(st.lists(forests(), min_size=1, max_size=3))
def test_as_a_queue_gives_it(skeletons):
    targets = Targets.from_skeletons(skeletons, size=13)
    assert order_of(targets) == [slow_twin(skeleton, 13) for skeleton in skeletons]


@pytest.mark.parametrize("preset", ["paper", "several"])
def test_the_trees_of_training(preset):
    skeletons = [synthetic.generate(preset, seed, size=(256, 256)) for seed in range(4)]
    size = max(map(len, skeletons)) + 3
    assert order_of(Targets.from_skeletons(skeletons, size)) == [slow_twin(one, size) for one in skeletons]


def test_parents_come_before_children_and_edges_move_along(y_shape, comb):
    targets = Targets.from_skeletons([y_shape, comb], size=10)
    told = told_in_order(targets)
    for before, after, count in zip((y_shape, comb), range(2), (4, 8), strict=True):
        assert told.mask[after].tolist() == [True] * count + [False] * (10 - count)
        assert told.root[after].nonzero().tolist() == [[0]]
        # Every node but the first is joined to exactly one node before it.
        assert told.adjacency[after].tril(-1).sum(1)[:count].tolist() == [0] + [1] * (count - 1)
        ends = told.points[after][told.adjacency[after].nonzero()].tolist()
        expected = before.nodes.astype(np.float32)[before.edges].tolist()
        assert segments(ends) == segments(expected)


def segments(ends: list[list[list[float]]]) -> set[frozenset[tuple[float, ...]]]:
    return {frozenset(map(tuple, pair)) for pair in ends}


def test_a_cycle_is_told_too(ring):
    assert order_of(Targets.from_skeletons([ring])) == [slow_twin(ring, 5)]


@pytest.mark.parametrize("shape", [(0, 0), (0, 5), (2, 0), (2, 3)])
def test_nothing_to_tell(shape):
    batch, size = shape
    targets = Targets.from_skeletons([Skeleton([], [])] * batch, size)
    assert (
        breadth_first(
            *(array.numpy() for array in (targets.points, targets.mask, targets.adjacency, targets.root))
        ).tolist()
        == [list(range(size))] * batch
    )
    assert told_in_order(targets).mask.shape == shape
