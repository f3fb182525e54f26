"""GraphML and node-link JSON: NetworkX can read written files, and files of NetworkX can be read."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import networkx as nx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.formats.annotated import distinct_forests, graph, plants
from tests.strategies import examples
from treeformer import FormatError, Skeleton
from treeformer.formats import graphml, node_link

in_one_folder = settings(
    deadline=None, max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
MODULES = [graphml, node_link]
SUFFIX = {graphml: ".graphml", node_link: ".json"}


def opened(path: Path) -> nx.Graph:
    """Return the graph as NetworkX reads it, with numbered nodes."""
    if path.suffix == ".graphml":
        return nx.read_graphml(path, node_type=int)
    return nx.node_link_graph(json.loads(path.read_text("utf-8")), edges="edges")


@pytest.mark.slow
@pytest.mark.parametrize("module", MODULES)
@in_one_folder
@given(skeleton=distinct_forests(), by_plant=st.booleans())
def test_round_trip_and_networkx(tmp_path: Path, module: ModuleType, skeleton: Skeleton, by_plant: bool):
    path = tmp_path / f"forest{SUFFIX[module]}"
    if by_plant:
        skeleton = skeleton.replace(plant=skeleton.plant_of_node)
    module.write(skeleton, path)
    again = module.read(path)
    assert again.nodes.tolist() == skeleton.nodes.tolist()
    assert graph(again) == graph(skeleton)
    assert plants(again) == plants(skeleton)
    assert again.image_size == skeleton.image_size
    theirs = opened(path)
    assert {frozenset(edge) for edge in theirs.edges} == {frozenset(edge) for edge in skeleton.edges.tolist()}
    assert [(theirs.nodes[n]["x"], theirs.nodes[n]["y"]) for n in sorted(theirs)] == [
        tuple(place) for place in skeleton.nodes.tolist()
    ]
    assert {n for n in theirs if theirs.nodes[n].get("root")} == set(skeleton.roots.tolist())
    assert graph(Skeleton.from_networkx(theirs)) == graph(skeleton)


@pytest.mark.parametrize("module", MODULES)
def test_image_names_and_cycles(tmp_path: Path, module: ModuleType, ring: Skeleton):
    path = tmp_path / f"a{SUFFIX[module]}"
    named = ring.replace(image_name='Grün & <b>"6".png', image_size=(8, 9))
    module.write(named, path)
    again = module.read(path)
    assert (again.image_name, again.image_size) == (named.image_name, (8, 9))
    assert graph(again) == graph(ring)
    assert opened(path).graph["image_name"] == named.image_name


@pytest.mark.parametrize("write", [nx.write_graphml_xml, nx.write_graphml_lxml])
@pytest.mark.parametrize("directed", [False, True])
def test_graphml_of_networkx(tmp_path: Path, write, directed: bool):
    theirs = nx.DiGraph() if directed else nx.Graph()
    for name, x in (("stem", 0), ("left", 1.5), ("right", -2)):
        theirs.add_node(name, x=float(x), y=2.0, color="green")
    theirs.add_edge("stem", "left", weight=3)
    theirs.add_edge("stem", "right", weight=4)
    write(theirs, str(tmp_path / "theirs.graphml"))
    skeleton = graphml.read(tmp_path / "theirs.graphml")
    assert skeleton.nodes.tolist() == [[0, 2], [1.5, 2], [-2, 2]]
    assert skeleton.edges.tolist() == [[0, 1], [0, 2]]
    assert skeleton.roots.tolist() == ([0] if directed else [])


def test_graphml_defaults_and_no_namespace(tmp_path: Path):
    (tmp_path / "a.graphml").write_text(
        '<graphml><key id="k0" for="node" attr.name="x" attr.type="double"><default>7</default></key>'
        '<key id="k1" for="all" attr.name="y" attr.type="int"><default>3</default></key>'
        '<graph edgedefault="undirected"><node id="n0"/><node id="n1"><data key="k0"> 8.5 </data></node>'
        '<edge source="n0" target="n1"/></graph></graphml>'
    )
    assert graphml.read(tmp_path / "a.graphml").nodes.tolist() == [[7, 3], [8.5, 3]]


@pytest.mark.parametrize("key", ["edges", "links"])
@pytest.mark.parametrize("multigraph", [False, True])
def test_node_link_of_networkx(tmp_path: Path, key: str, multigraph: bool):
    theirs = nx.MultiDiGraph() if multigraph else nx.DiGraph()
    theirs.add_node("tip", pos=[3, 4])
    theirs.add_node("base", x=1, y=2)
    theirs.add_edge("base", "tip")
    if multigraph:
        theirs.add_edge("base", "tip")
    (tmp_path / "theirs.json").write_text(json.dumps(nx.node_link_data(theirs, edges=key)))
    skeleton = node_link.read(tmp_path / "theirs.json")
    assert skeleton.nodes.tolist() == [[3, 4], [1, 2]]
    assert skeleton.roots.tolist() == [1]


def test_edges_towards_the_root_and_edges_without_consistent_direction(tmp_path: Path):
    def read(pairs: list[list[int]]) -> Skeleton:
        nodes = [{"id": i, "x": i, "y": 0} for i in range(4)]
        edges = [{"source": u, "target": v} for u, v in pairs]
        (tmp_path / "a.json").write_text(json.dumps({"directed": True, "nodes": nodes, "links": edges}))
        return node_link.read(tmp_path / "a.json")

    assert read([[0, 2], [1, 2], [2, 3]]).roots.tolist() == [3]
    assert read([[0, 1], [0, 2], [3, 1], [3, 2], [1, 0]]).roots.tolist() == []


BOMB = """<?xml version="1.0"?><!DOCTYPE graphml [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph><node id="&b;"/></graph></graphml>"""
THEFT = """<?xml version="1.0"?><!DOCTYPE graphml [<!ENTITY a SYSTEM "file:///etc/hostname">]>
<graphml><graph><node id="&a;"/></graph></graphml>"""
NODE = '<node id="0"><data key="x">1</data><data key="y">1</data></node>'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOMB, "entities"),
        (THEFT, "entities"),
        ("<svg/>", "root element is <svg>"),
        ("<graphml><graph>", "is truncated"),
        ("<graphml/>", "has no <graph>"),
        ('<graphml><graph><node id="0"/></graph></graphml>', "node 0 has neither x and y nor pos"),
        (f"<graphml><graph>{NODE}{NODE}</graph></graphml>", "two with the id '0'"),
        (f'<graphml><graph>{NODE}<edge source="0" target="5"/></graph></graphml>',
         "refers to node 5, which does not exist"),
        (f'<graphml><graph>{NODE}<edge source="0" target="0"/></graph></graphml>', "joins node 0 to itself"),
        ('<graphml><key id="x" attr.type="double"/><graph><node id="0"><data key="x">a</data></node></graph></graphml>',
         "x is 'a', not a value of type double"),
        ('<graphml><key id="x" attr.type="color"/><graph><node id="0"><data key="x">a</data></node></graph></graphml>',
         "the type 'color' of x"),
    ],
)  # fmt: skip
def test_bad_graphml(tmp_path: Path, text: str, message: str):
    (tmp_path / "bad.graphml").write_text(text)
    with pytest.raises(FormatError, match=rf"^bad\.graphml: .*{message}") as caught:
        graphml.read(tmp_path / "bad.graphml")
    assert "\n" not in str(caught.value)


def test_a_name_that_xml_cannot_represent(tmp_path: Path):
    with pytest.raises(FormatError, match=r"^a\.graphml: XML cannot represent"):
        graphml.write(Skeleton([], [], image_name="a\x01b"), tmp_path / "a.graphml")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"nodes": 3, "edges": []}, "nodes is 3, not a list"),
        ({"nodes": [{"id": 0, "x": 1, "y": 1}]}, "links is None, not a list"),
        ({"nodes": [{"x": 1, "y": 1}], "edges": []}, r"nodes\[0\].id is None"),
        ({"nodes": [{"id": 0}], "edges": []}, "node 0 has neither x and y nor pos"),
        ({"nodes": [{"id": 0, "pos": 5}], "edges": []}, ""),
        ({"nodes": [{"id": 0, "x": "left", "y": 1}], "edges": []}, "x of node 0 is 'left', not a number"),
        ({"nodes": [{"id": 0, "x": 1, "y": 1}] * 2, "edges": []}, r"nodes\[1\] repeats the id 0"),
        ({"nodes": [{"id": 0, "x": 1, "y": 1}], "edges": [{"source": 0, "target": 4}]}, r"edges\[0\] refers to node 4"),
        ({"nodes": [{"id": 0, "x": 1, "y": 1}], "edges": [{"source": 0}]}, r"edges\[0\].target is None"),
        ({"nodes": [], "edges": [], "graph": {"image_name": 4}}, "image_name is 4"),
    ],
)
def test_bad_node_link(tmp_path: Path, document: object, message: str):
    (tmp_path / "bad.json").write_text(json.dumps(document))
    with pytest.raises(FormatError, match=rf"^bad\.json: {message}") as caught:
        node_link.read(tmp_path / "bad.json")
    assert "\n" not in str(caught.value)
