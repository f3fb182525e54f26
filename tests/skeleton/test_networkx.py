"""Given axes survive NetworkX; in an edited graph they follow the edges, or are inferred."""

from __future__ import annotations

import json

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import forests
from treeformer import Axis, AxisFunction, Skeleton


def axis_of_edge(skeleton: Skeleton) -> dict[frozenset[int], int]:
    return dict(zip(map(frozenset, skeleton.edges.tolist()), skeleton.edge_axis.tolist(), strict=True))


@pytest.fixture
def plant() -> Skeleton:
    """A main axis with a bend, a lateral at node 2, and a second plant."""
    return Skeleton(
        [(0, 0), (0, 10), (0, 20), (9, 30), (-9, 24), (-9, 34), (50, 0), (50, 9)],
        [(0, 1), (1, 2), (2, 3), (2, 4), (4, 5), (6, 7)],
        root=[0, 6],
        axes=[
            Axis((0, 1, 2, 3), id="main", functions=(AxisFunction("diameter", (4.0, 3.0, 2.0, 1.0)),)),
            Axis((2, 4, 5), id="lateral", label="l\x01ä", parent=0, properties={"a": "b"}, metadata={"n": [1, None]}),
            Axis((6, 7), id="other", plant=1),
        ],
        edge_axis=[0, 0, 0, 1, 1, 2],
    )


def test_they_are_restored_exactly(plant):
    assert Skeleton.from_networkx(plant.to_networkx()) == plant
    renamed = nx.relabel_nodes(plant.to_networkx(), str)
    assert Skeleton.from_networkx(renamed) == plant
    moved = plant.to_networkx()
    moved.nodes[3]["x"] = 12.5
    assert Skeleton.from_networkx(moved).axes == plant.axes


def test_they_may_be_given_as_text(plant):
    graph = plant.to_networkx()
    for *_, data in graph.edges(data=True):
        data["axis"] = str(data["axis"])
    assert Skeleton.from_networkx(graph) == plant


def test_all_attributes_are_scalars(plant):
    graph = plant.to_networkx()
    data = [graph.graph, *(d for _, d in graph.nodes(data=True)), *(d for *_, d in graph.edges(data=True))]
    assert {type(value) for values in data for value in values.values()} <= {int, float, str, bool}
    assert "axes" not in plant.with_inferred_axes.to_networkx().graph


@given(forests().map(lambda forest: forest.infer_axes(0.3)))
def test_any_forest_is_restored(skeleton):
    back = Skeleton.from_networkx(skeleton.to_networkx())
    assert back.axes == skeleton.axes
    assert axis_of_edge(back) == axis_of_edge(skeleton)


@pytest.mark.parametrize("relabel", [False, True])
def test_a_removed_lateral_leaves_the_others(plant, relabel):
    graph = plant.to_networkx()
    graph.remove_nodes_from([4, 5])
    if relabel:
        graph = nx.convert_node_labels_to_integers(graph)
    back = Skeleton.from_networkx(graph)
    assert [(axis.id, axis.nodes, axis.parent, axis.plant) for axis in back.axes] == [
        ("main", (0, 1, 2, 3), None, 0),
        ("other", (4, 5), None, 1),
    ]
    assert all(axis.functions == () for axis in back.axes)


def test_an_axis_that_lost_its_ends_is_shorter(plant):
    graph = nx.convert_node_labels_to_integers(plant.to_networkx().subgraph([1, 2, 4, 5, 6, 7]))
    back = Skeleton.from_networkx(graph)
    assert sorted(axis.id for axis in back.axes) == ["lateral", "main", "other"]
    assert back.has_explicit_axes
    for axis in back.axes:
        assert len(axis.nodes) == {"main": 2, "lateral": 3, "other": 2}[axis.id]


def test_an_edge_without_axis_or_a_cycle_infers_all(plant):
    for edge in ((5, 6), (3, 5)):
        graph = plant.to_networkx()
        graph.add_edge(*edge)
        graph.nodes[6].pop("root")
        assert not Skeleton.from_networkx(graph).has_explicit_axes
    graph.edges[3, 5]["axis"] = 0
    assert not Skeleton.from_networkx(graph).has_explicit_axes


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "3",
        None,
        7,
        '{"digest": "", "records": [{}]}',
        '{"digest": "", "records": 5}',
        "[" * 100_000,
    ],
)
def test_other_attributes_of_that_name_are_ignored(plant, text):
    graph = plant.to_networkx()
    graph.graph["axes"] = text
    assert Skeleton.from_networkx(graph) == plant.with_inferred_axes


@given(st.integers(0, 10), st.sampled_from([None, -1, 99, "a", [], {}, 0.5]))
def test_any_wrong_value_in_a_record_is_ignored(number, value):
    plant = Skeleton([(0, 0), (3, 4), (5, 5)], [(0, 1), (1, 2)], root=0).infer_axes(0)
    graph = plant.to_networkx()
    document = json.loads(graph.graph["axes"])
    record = document["records"][0]
    record[sorted(record)[number % len(record)]] = value
    graph.graph["axes"] = json.dumps(document)
    back = Skeleton.from_networkx(graph)
    assert back.nodes.tolist() == plant.nodes.tolist()
    assert len(back.axes) == 1


def test_arguments_take_precedence(plant):
    graph = plant.to_networkx()
    axes = [Axis((0, 1), id="new")]
    back = Skeleton.from_networkx(graph, axes=axes, edge_axis=[0, -1, -1, -1, -1, -1])
    assert [axis.id for axis in back.axes] == ["new"]
