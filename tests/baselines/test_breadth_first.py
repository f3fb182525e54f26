"""The breadth-first order of nodes, compared with the search of NetworkX."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treeformer import Skeleton, synthetic
from treeformer.baselines.ggt.breadth_first import breadth_first, sort_breadth_first
from treeformer.nn.targets import Targets


def order_of(targets: Targets) -> list[list[int]]:
    arrays = (targets.points, targets.mask, targets.adjacency, targets.root)
    return breadth_first(*(array.numpy() for array in arrays)).tolist()


def reference_order(skeleton: Skeleton, size: int) -> list[int]:
    """Search each component separately, the components from left to right; padding at the end."""
    graph = skeleton.to_networkx()

    def left_to_right(node: int) -> tuple[float, float]:
        return tuple(skeleton.nodes[node])

    component_root = []
    for component in nx.connected_components(graph):
        roots = [node for node in component if node in set(skeleton.roots.tolist())]
        lowest = max(component, key=lambda node: (skeleton.nodes[node][1], -skeleton.nodes[node][0]))
        component_root.append(min(roots, key=left_to_right) if roots else lowest)
    order: list[int] = []
    for root in sorted(component_root, key=left_to_right):
        edges = nx.bfs_edges(graph, root, sort_neighbors=lambda nodes: sorted(nodes, key=left_to_right))
        order += [root, *(child for _, child in edges)]
    return order + list(range(len(skeleton), size))


@st.composite
def forests(draw: st.DrawFn) -> Skeleton:
    """Draw up to 12 distinct nodes on a grid, each joined to an earlier node or to none. Some components have roots."""
    count = draw(st.integers(0, 12))
    places = draw(st.lists(st.tuples(*[st.integers(0, 9)] * 2), min_size=count, max_size=count, unique=True))
    parent = [draw(st.integers(-1, node - 1)) for node in range(count)]
    edges = [(node, above) for node, above in enumerate(parent) if above >= 0]
    roots = [node for node, above in enumerate(parent) if above < 0 and draw(st.booleans())]
    return Skeleton(places, edges, root=roots)


@given(st.lists(forests(), min_size=1, max_size=3))
def test_forests_are_sorted_as_by_networkx(skeletons):
    targets = Targets.from_skeletons(skeletons, size=13)
    assert order_of(targets) == [reference_order(skeleton, 13) for skeleton in skeletons]


@pytest.mark.parametrize("preset", ["paper", "several"])
def test_synthetic_trees_are_sorted_as_by_networkx(preset):
    skeletons = [synthetic.generate(preset, seed, size=(256, 256)) for seed in range(4)]
    size = max(map(len, skeletons)) + 3
    assert order_of(Targets.from_skeletons(skeletons, size)) == [
        reference_order(skeleton, size) for skeleton in skeletons
    ]


def test_parents_come_before_children_and_edges_move_along(y_shape, comb):
    targets = Targets.from_skeletons([y_shape, comb], size=10)
    ordered = sort_breadth_first(targets)
    for index, (skeleton, count) in enumerate(((y_shape, 4), (comb, 8))):
        assert ordered.mask[index].tolist() == [True] * count + [False] * (10 - count)
        assert ordered.root[index].nonzero().tolist() == [[0]]
        # Every node but the first is joined to exactly one node before it.
        assert ordered.adjacency[index].tril(-1).sum(1)[:count].tolist() == [0] + [1] * (count - 1)
        ends = ordered.points[index][ordered.adjacency[index].nonzero()].tolist()
        expected = skeleton.nodes.astype(np.float32)[skeleton.edges].tolist()
        assert segments(ends) == segments(expected)


def segments(ends: list[list[list[float]]]) -> set[frozenset[tuple[float, ...]]]:
    return {frozenset(map(tuple, pair)) for pair in ends}


def test_a_graph_with_a_cycle_is_sorted(ring):
    assert order_of(Targets.from_skeletons([ring])) == [reference_order(ring, 5)]


@pytest.mark.parametrize("shape", [(0, 0), (0, 5), (2, 0), (2, 3)])
def test_empty_targets(shape):
    batch, size = shape
    targets = Targets.from_skeletons([Skeleton([], [])] * batch, size)
    assert order_of(targets) == [list(range(size))] * batch
    assert sort_breadth_first(targets).mask.shape == shape
