"""What is left out of a predicted forest, against a twin that cuts one edge at a time."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treeformer import Skeleton
from treeformer.pruning import LEAST_EDGE_SCORE, MOST_NODES, without_loose_pieces, without_unlikely_edges

LIKELY, UNLIKELY = 0.9, LEAST_EDGE_SCORE / 2


def predicted(parents, edge_score, roots=None):
    """A forest from each node's parent, nodes in a row; scores of the edges in the order of their children."""
    nodes = [(k, 0) for k in range(len(parents))]
    edges = [(parent, k) for k, parent in enumerate(parents) if parent >= 0]
    roots = [k for k, parent in enumerate(parents) if parent < 0] if roots is None else roots
    return Skeleton(nodes, edges, root=roots, node_score=np.ones(len(nodes)), edge_score=edge_score)


def slowly(skeleton):
    """The nodes that stay: cut one unlikely edge after the other, and see what hangs on it."""
    graph = nx.Graph(skeleton.edges.tolist())
    graph.add_nodes_from(range(len(skeleton)))
    gone = set()
    for (one, other), score in zip(skeleton.edges.tolist(), skeleton.edge_score, strict=True):
        if score < LEAST_EDGE_SCORE:
            tree = nx.node_connected_component(graph, one)
            graph.remove_edge(one, other)
            sides = [nx.node_connected_component(graph, node) for node in (one, other)]
            graph.add_edge(one, other)
            (loose,) = (side for side in sides if not side & set(skeleton.bases.tolist()))
            if len(loose) <= MOST_NODES and 2 * len(loose) <= len(tree):
                gone |= loose
    return sorted(set(range(len(skeleton))) - gone)


@given(st.data())
def test_loose_pieces_are_those_of_a_slow_twin(data):
    count = data.draw(st.integers(1, 90))
    rng = np.random.default_rng(data.draw(st.integers(0, 10_000)))
    parents = [-1, *(int(rng.integers(max(-1, k - 12), k)) for k in range(1, count))]
    edges = sum(parent >= 0 for parent in parents)
    skeleton = predicted(parents, rng.choice([UNLIKELY, LIKELY], edges, p=[0.1, 0.9]))
    found = without_loose_pieces(skeleton)
    stays = slowly(skeleton)
    assert found.nodes[:, 0].tolist() == stays
    assert found.is_forest
    assert len(found.edges) == len(stays) - len(skeleton.bases), "every tree is still one"
    assert found.roots.tolist() == [stays.index(base) for base in skeleton.bases]


@pytest.mark.parametrize(("size", "stays"), [(MOST_NODES, False), (MOST_NODES + 1, True)])
def test_a_large_piece_stays(size, stays):
    plant = [k - 1 for k in range(2 * MOST_NODES)]
    skeleton = predicted(
        [*plant, *(k - 1 for k in range(len(plant), len(plant) + size))],
        [LIKELY] * (len(plant) - 1) + [UNLIKELY] + [LIKELY] * (size - 1),
    )
    assert len(without_loose_pieces(skeleton)) == len(plant) + size * stays


def test_a_plant_with_a_wrong_root_stays():
    skeleton = predicted([-1, 0, 1, 2], [UNLIKELY, LIKELY, LIKELY])
    assert without_loose_pieces(skeleton) == skeleton


def test_nothing_and_one_node():
    assert len(without_loose_pieces(predicted([], []))) == 0
    assert len(without_loose_pieces(predicted([-1], []))) == 1


def test_a_piece_that_is_cut_off_begins_at_the_cut():
    chain = Skeleton(
        [(0, 0), (1, 0), (2, 0), (3, 0), (4, 0)],
        [(0, 1), (1, 2), (2, 3), (3, 4)],
        root=0,
        node_score=np.ones(5),
        edge_score=[0.9, 0.1, 0.9, 0.1],
    )
    cut = without_unlikely_edges(chain, 0.5)
    assert cut.nodes[:, 0].tolist() == [0, 1, 2, 3]
    assert cut.edges.tolist() == [[0, 1], [2, 3]]
    assert cut.roots.tolist() == [0, 2]
