"""Arguments of the wrong type or shape are one clear error, never a traceback from NumPy or a silent conversion."""

from __future__ import annotations

import threading
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from treeformer import Axis, Plant, Skeleton, SkeletonError

NODES, EDGES = [(0, 0), (1, 0), (2, 0)], [(0, 1), (1, 2)]
MASK = np.array([True, False, False])


@pytest.mark.parametrize(
    "nodes", [[["1", "2"]], np.zeros((2, 2), complex), np.zeros((2, 2), "datetime64[s]"), np.zeros((5, 0)), [[]]]
)
def test_nodes_are_real_numbers(nodes):
    with pytest.raises(SkeletonError, match="N×2"):
        Skeleton(nodes, [])


@pytest.mark.parametrize(
    "edges", [[("0", "1")], [(False, True)], np.array([(0, 1j)]), np.zeros((4, 0)), np.array([(0, 2**64 - 1)], "u8")]
)
def test_edges_are_whole_numbers(edges):
    with pytest.raises(SkeletonError, match="edges must be"):
        Skeleton(NODES, edges)


@pytest.mark.parametrize("root", ["0", True, [[0]], [[0], [1, 2]], object(), MASK])
def test_roots_are_node_indices(root):
    """A mask would be read as the indices 0 and 1."""
    with pytest.raises(SkeletonError, match="roots must be"):
        Skeleton(NODES, [], root=root)


@pytest.mark.parametrize("root", [0, np.array(0), [0], np.array([0]), {0}, iter([0]), 0.0])
def test_any_list_of_roots_is_accepted(root):
    assert Skeleton(NODES, EDGES, root=root).roots.tolist() == [0]


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"radius": np.zeros(3, complex)}, "radius must be numbers"),
        ({"node_score": ["1", "1", "1_0"]}, "node_score must be numbers"),
        ({"plant": MASK}, "plant must be whole numbers"),
        ({"plant_records": 3}, "plant_records must be a list of Plant, not of 3"),
        ({"plant_records": ["barley"]}, "plant_records must be a list of Plant, not of 'barley'"),
        ({"image_size": "12"}, "image_size must be"),
        ({"image_size": (1.7, 2)}, "image_size must be"),
        ({"image_name": 5}, "image_name must be text, not 5"),
        ({"metadata": 5}, "metadata must be a mapping, not 5"),
        ({"metadata": "ab"}, "metadata must be a mapping, not 'ab'"),
        ({"metadata": {"lock": threading.Lock()}}, "metadata cannot be copied"),
        ({"axes": 5, "edge_axis": [0, 0]}, "axes must be a list of Axis, not of 5"),
        ({"axes": ["a"], "edge_axis": [0, 0]}, "axes must be a list of Axis, not of 'a'"),
        ({"axes": [Axis(nodes=5)], "edge_axis": [0, 0]}, "axis 0 must have a list of nodes, not 5"),
        ({"axes": [Axis(nodes=(0, "a"))], "edge_axis": [0, 0]}, "axis 0 goes through 'a'"),
        ({"axes": [Axis(nodes=(0, 1.0))], "edge_axis": [0, 0]}, "axis 0 goes through 1.0"),
        ({"axes": [Axis(nodes=(0, 1), parent="a")], "edge_axis": [0, 0]}, "axis 0 has parent 'a'"),
        ({"axes": [Axis(nodes=(0, 1), parent=0.5)], "edge_axis": [0, 0]}, "axis 0 has parent 0.5"),
    ],
)
def test_attributes_of_the_wrong_type_are_named(attributes, message):
    with pytest.raises(SkeletonError, match=message) as error:
        Skeleton(NODES, EDGES, **attributes)
    assert "\n" not in str(error.value)
    with pytest.raises(SkeletonError, match=message):
        Skeleton(NODES, EDGES).replace(**attributes)


def test_what_has_the_right_type_is_accepted():
    skeleton = Skeleton(
        NODES,
        EDGES,
        plant=[0, 0, 0],
        plant_records=(Plant(id=str(index)) for index in range(1)),
        image_size=np.array([4, 3]),
        image_name=Path("plant.png"),
        axes=[Axis(nodes=tuple(np.arange(3)))],
        edge_axis=[0, 0],
    )
    assert (skeleton.image_size, skeleton.image_name, skeleton.plant_records[0].id) == ((4, 3), "plant.png", "0")


@pytest.mark.parametrize("parents", [-1, [[-1, 0, 1]], "a", np.array([2**64 - 1, 0, 1], np.uint64), MASK])
def test_parents_are_a_list_of_node_indices(parents):
    with pytest.raises(SkeletonError, match="parents must be"):
        Skeleton.from_parents(NODES, parents)


@pytest.mark.parametrize("value", [None, "a", [1]])
def test_numbers_of_methods_are_checked(value):
    skeleton = Skeleton(NODES, EDGES)
    with pytest.raises(SkeletonError, match="tolerance must be"):
        skeleton.simplify(value)
    with pytest.raises(SkeletonError, match="crop"):
        skeleton.crop(0, 0, value, 1)
    with pytest.raises(SkeletonError, match="affine"):
        skeleton.transform(value)
    with pytest.raises(SkeletonError, match="min_reach_fraction must be"):
        skeleton.infer_axes(value)


def test_nearest_takes_one_list_of_points():
    with pytest.raises(SkeletonError, match="points must be"):
        Skeleton(NODES, EDGES).nearest(np.zeros((1, 1, 2)))


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (None, "a NetworkX graph is needed, not None"),
        (nx.MultiGraph([(0, 1), (0, 1)]), "a graph with parallel edges"),
        (nx.path_graph(2), "node 0 has neither x and y nor pos"),
    ],
)
def test_graphs_that_are_no_skeletons_are_errors(graph, message):
    with pytest.raises(SkeletonError, match=message):
        Skeleton.from_networkx(graph)


@pytest.mark.parametrize("position", [5, None, "ab", (1,)])
def test_an_invalid_position_in_a_graph_is_an_error(position):
    graph = nx.Graph()
    graph.add_node("a", pos=position)
    with pytest.raises(SkeletonError, match=r"node a has neither|N×2"):
        Skeleton.from_networkx(graph)


@pytest.mark.parametrize(("value", "roots"), [("true", [0]), ("1", [0]), (1, [0]), ("False", []), ("0", []), ("", [])])
def test_a_root_may_be_declared_as_text(value, roots):
    graph = nx.Graph()
    graph.add_node(0, x=0, y=0, root=value)
    assert Skeleton.from_networkx(graph).roots.tolist() == roots
