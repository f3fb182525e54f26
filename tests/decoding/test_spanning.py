"""Spanning trees against a plain Kruskal, NetworkX and brute force."""

from __future__ import annotations

from itertools import chain, combinations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strategies import examples
from treeformer import TreeformerError
from treeformer.decoding.spanning import minimum_spanning_tree, spanning_forest, spanning_tree_of_pairs, spanning_trees

KINDS = ("distinct", "ties", "asymmetric", "holes", "wild")


def random_costs(kind: str, graphs: int, nodes: int, seed: int, dtype=np.float32) -> np.ndarray:
    """(B,N,N) costs of one kind; "wild" has NaN, both infinities, zeros of both signs and numbers near the largest."""
    rng = np.random.default_rng(seed)
    shape = (graphs, nodes, nodes)
    if kind == "ties":
        cost = rng.integers(-2, 3, shape) * rng.choice([-1.0, 1.0], shape)
    elif kind == "wild":
        largest = float(np.finfo(dtype).max)
        values = [np.nan, np.inf, -np.inf, 0.0, -0.0, largest, -largest, 1.0, 1.0 + 1e-7, -1e-30]
        cost = rng.choice(values, shape, p=[0.05, 0.2, 0.05, *[0.1] * 7])
    else:
        cost = rng.normal(size=shape)
    if kind == "holes":
        cost[rng.random(shape) < 0.6] = np.inf
    if kind != "asymmetric":
        cost = np.where(np.tri(nodes, dtype=bool), cost, cost.transpose(0, 2, 1))
    return cost.astype(dtype)


def kruskal(cost: np.ndarray, real: np.ndarray) -> list[list[int]]:
    """Reference: edges by (mean cost, i, j), each taken unless its ends are joined already."""
    with np.errstate(invalid="ignore"):
        mean = cost / 2 + cost.T / 2
    edges = sorted((mean[i, j], i, j) for i, j in combinations(np.flatnonzero(real).tolist(), 2) if mean[i, j] < np.inf)
    component = list(range(len(cost)))
    tree = []
    for _, i, j in edges:
        if component[i] != component[j]:
            tree.append([i, j])
            component = [component[i] if label == component[j] else label for label in component]
    return sorted(tree)


def as_edges(adjacency: np.ndarray) -> list[list[int]]:
    return np.argwhere(np.triu(adjacency)).tolist()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("nodes", [2, 3, 5, 9, 20])
def test_the_tree_is_kruskals(kind, nodes, dtype):
    for cost in random_costs(kind, 20, nodes, seed=nodes, dtype=dtype):
        assert minimum_spanning_tree(cost).tolist() == kruskal(cost, np.ones(nodes, bool))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("nodes", [1, 2, 5, 20])
def test_the_tree_of_pairs_is_the_same(kind, nodes):
    for cost in random_costs(kind, 10, nodes, seed=nodes, dtype=np.float64):
        upper = np.triu_indices(nodes, 1)
        pairs = np.stack(upper, axis=1)
        with np.errstate(invalid="ignore"):
            mean = (cost / 2 + cost.T / 2)[upper]
        assert pairs[spanning_tree_of_pairs(pairs, mean, nodes)].tolist() == minimum_spanning_tree(cost).tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_with_padding_is_kruskals(kind):
    cost = random_costs(kind, 60, 9, seed=1)
    real = np.random.default_rng(2).random((60, 9)) < np.linspace(0, 1, 60)[:, None]
    trees = spanning_trees(cost, real)
    assert (trees == trees.transpose(0, 2, 1)).all()
    assert [as_edges(tree) for tree in trees] == [kruskal(*graph) for graph in zip(cost, real, strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["distinct", "ties", "holes"])
def test_total_weight_equals_networkx_on_thousands_of_graphs(kind):
    for nodes in (2, 3, 4, 6, 8, 11):
        cost = random_costs(kind, 200, nodes, seed=nodes, dtype=np.float64)
        trees = spanning_trees(cost, np.ones(cost.shape[:2], bool))
        i, j = np.triu_indices(nodes, 1)
        for matrix, tree in zip(cost, trees, strict=True):
            graph = nx.Graph()
            graph.add_nodes_from(range(nodes))
            graph.add_weighted_edges_from(edge for edge in zip(i, j, matrix[i, j], strict=True) if edge[2] < np.inf)
            expected = nx.minimum_spanning_tree(graph)
            assert tree.sum() == 2 * expected.number_of_edges()
            assert matrix[tree].sum() / 2 == pytest.approx(expected.size(weight="weight"), abs=1e-9)
            # Its edges come in the order of (i, j), and its Kruskal sorts stably: the very same tree.
            assert as_edges(tree) == sorted(map(list, expected.edges()))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_three_hundred_nodes(dtype):
    cost = random_costs("distinct", 1, 300, seed=0, dtype=dtype)[0]
    tree = minimum_spanning_tree(cost)
    expected = nx.minimum_spanning_tree(nx.from_numpy_array(cost))
    assert tree.tolist() == sorted(map(list, expected.edges()))


def test_no_node_one_node_two_nodes():
    assert minimum_spanning_tree([]).shape == (0, 2)
    assert minimum_spanning_tree(np.zeros((0, 0))).shape == (0, 2)
    assert minimum_spanning_tree([[3.0]]).shape == (0, 2)
    assert minimum_spanning_tree([[0, 7], [7, 0]]).tolist() == [[0, 1]]
    assert minimum_spanning_tree([[0, np.inf], [np.inf, 0]]).shape == (0, 2)
    assert minimum_spanning_tree([[0, np.inf], [7, 0]]).shape == (0, 2), "forbidden in one direction"
    assert spanning_trees(np.zeros((0, 5, 5), np.float32), np.zeros((0, 5), bool)).shape == (0, 5, 5)
    assert spanning_trees(np.zeros((3, 0, 0), np.float32), np.zeros((3, 0), bool)).shape == (3, 0, 0)


@pytest.mark.parametrize("kind", ["distinct", "ties"])
def test_float16_and_whole_numbers_are_taken_exactly(kind):
    cost = random_costs(kind, 1, 12, seed=3, dtype=np.float16)[0]
    assert minimum_spanning_tree(cost).tolist() == kruskal(cost.astype(float), np.ones(12, bool))
    big = np.array([[0, 2**53, 2**53 - 1], [2**53, 0, 2**53], [2**53 - 1, 2**53, 0]])
    assert minimum_spanning_tree(big).tolist() == [[0, 1], [0, 2]]


def test_the_input_is_not_modified():
    cost = random_costs("wild", 1, 7, seed=4)[0]
    before = cost.copy()
    minimum_spanning_tree(cost)
    np.testing.assert_array_equal(cost, before)


@given(st.integers(2, 12), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=examples(60))
def test_only_the_order_of_the_costs_counts(nodes, seed):
    cost = random_costs("distinct", 1, nodes, seed, dtype=np.float64)[0]
    expected = minimum_spanning_tree(cost).tolist()
    for changed in (3 * cost - 20, np.exp(cost), -1 / (cost - cost.min() + 1)):
        assert minimum_spanning_tree(changed).tolist() == expected


def forests(nodes: int):
    """Every set of edges without a cycle."""
    pairs = list(combinations(range(nodes), 2))
    for chosen in chain.from_iterable(combinations(pairs, count) for count in range(nodes)):
        graph = nx.Graph(chosen)
        graph.add_nodes_from(range(nodes))
        if nx.number_connected_components(graph) == nodes - len(chosen):
            yield graph


@pytest.mark.parametrize("nodes", [1, 2, 3, 4, 5])
def test_a_forest_is_the_cheapest_of_all(nodes):
    rng = np.random.default_rng(nodes)
    every = [(graph.edges, list(nx.connected_components(graph))) for graph in forests(nodes)]
    for cost in random_costs("distinct", 8, nodes, seed=nodes, dtype=np.float64):
        root_cost = rng.normal(size=nodes)
        edges, roots = spanning_forest(cost, root_cost)
        graph = nx.Graph(edges.tolist())
        graph.add_nodes_from(range(nodes))
        assert nx.is_forest(graph)
        assert sorted(len(component & set(roots.tolist())) for component in nx.connected_components(graph)) == [
            1
        ] * len(roots)
        found = cost[edges[:, 0], edges[:, 1]].sum() + root_cost[roots].sum()
        cheapest = min(
            sum(cost[i, j] for i, j in pairs) + sum(root_cost[list(component)].min() for component in groups)
            for pairs, groups in every
        )
        assert found == pytest.approx(cheapest)


def test_root_costs_decide_how_many_plants():
    cost = np.ones((4, 4))
    cost[:2, 2:] = cost[2:, :2] = 6
    assert spanning_forest(cost, [2, 9, 9, 5])[0].tolist() == [[0, 1], [2, 3]], (
        "a second root is cheaper than the bridge"
    )
    assert spanning_forest(cost, [2, 9, 9, 5])[1].tolist() == [0, 3]
    assert spanning_forest(cost, [2, 9, 9, 7])[1].tolist() == [0], "the bridge is cheaper"
    assert spanning_forest(cost, [-np.inf] * 4)[1].tolist() == [0, 1, 2, 3]
    edges, roots = spanning_forest(cost, [np.inf, np.nan, np.inf, np.inf])
    assert (len(edges), len(roots)) == (3, 0), "no root is possible"
    _, roots = spanning_forest(np.float32(cost), np.array([1e300, 1e300, 1e300, 9e299]))
    assert roots.tolist() == [3], "a root cost beyond float32 stays a number"
    assert [part.shape for part in spanning_forest([], [])] == [(0, 2), (0,)]


def test_wrong_shapes_raise_a_one_line_error():
    with pytest.raises(TreeformerError, match=r"cost has the shape \(2, 3\), a square matrix is needed"):
        minimum_spanning_tree(np.zeros((2, 3)))
    with pytest.raises(TreeformerError, match=r"root_cost has the shape \(3,\), \(2,\) is needed"):
        spanning_forest(np.zeros((2, 2)), np.zeros(3))
    with pytest.raises(TreeformerError, match="at most 32768"):
        spanning_trees(np.broadcast_to(np.float32(0), (1, 32769, 32769)), np.ones((1, 32769), bool))
