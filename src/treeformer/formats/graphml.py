"""GraphML as in NetworkX: nodes have x, y, radius, score, plant and root; edges have length, score and axis."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree.ElementTree import Element

from treeformer._util.text import decimal_number, short_repr
from treeformer.errors import FormatError, SkeletonError
from treeformer.formats._io import reading, write_text
from treeformer.formats.xml import content, local_name, parse_xml
from treeformer.skeleton import Skeleton

if TYPE_CHECKING:
    import networkx as nx

NAMESPACE = "http://graphml.graphdrawing.org/xmlns"
TYPE_NAMES = {float: "double", int: "long", bool: "boolean", str: "string"}
NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
NUMBERS = frozenset({"x", "y", "radius", "score", "plant", "width", "height"})


def _real(text: str) -> float:
    found = NOT_FINITE.get(text.strip().lower())  # as NetworkX writes them
    return decimal_number(text) if found is None else found


def _integer(text: str) -> int:
    if not re.fullmatch(r"\s*[+-]?[0-9]{1,18}\s*", text):
        raise ValueError
    return int(text)


PARSERS: dict[str, Callable[[str], Any]] = {
    "double": _real,
    "float": _real,
    "int": _integer,
    "long": _integer,
    "string": str,
    "boolean": lambda text: {"true": True, "1": True, "false": False, "0": False}.get(text.strip().lower()),
}


def looks_like(head: bytes) -> bool:
    """Return True if the head of an XML file has the element <graphml>."""
    return re.search(rb"<(\w+:)?graphml[\s/>]", head) is not None


def read(path: Path) -> Skeleton:
    """Read the first graph of a GraphML file. Its nodes must have `x` and `y`."""
    # The reader of NetworkX is not protected against malicious XML, so it is not used.
    root = parse_xml(path, "graphml")
    with reading(path):
        return skeleton_from_graph(_graph(root))


def _graph(root: Element) -> nx.Graph[Any]:
    import networkx as nx

    keys: dict[str, tuple[str, str]] = {}  # name and type of each key
    defaults: dict[str, dict[str, Any]] = {"node": {}, "edge": {}}
    for key in _children(root, "key"):
        name, kind = key.get("attr.name", key.get("id", "")), key.get("attr.type", "string")
        keys[key.get("id", "")] = name, kind
        for default in _children(key, "default"):
            for of in defaults:
                if key.get("for") in (of, "all"):
                    defaults[of][name] = _value(default.text, name, kind)

    def attributes(element: Element) -> dict[str, Any]:
        values = {}
        for data in _children(element, "data"):
            name, kind = keys.get(data.get("key", ""), (data.get("key", ""), "string"))
            values[name] = _value(data.text, name, kind)
        return values

    for element in _children(root, "graph"):
        graph: nx.Graph[Any] = nx.DiGraph() if element.get("edgedefault") == "directed" else nx.Graph()
        graph.graph.update(attributes(element))
        for node in _children(element, "node"):
            if node.get("id") is None or node.get("id") in graph:
                raise SkeletonError(f"has a node without id, or two with the id {node.get('id')!r}")
            graph.add_node(node.get("id"))
            graph.nodes[node.get("id")].update(defaults["node"] | attributes(node))
        for edge in _children(element, "edge"):
            ends = edge.get("source"), edge.get("target")
            for end in ends:
                if end not in graph:
                    raise SkeletonError(f"the edge {ends[0]} to {ends[1]} refers to node {end}, which does not exist")
            graph.add_edge(*ends)
            graph.edges[ends].update(defaults["edge"] | attributes(edge))
        return graph
    raise SkeletonError("has no <graph>")


def _children(element: Element, name: str) -> Iterator[Element]:
    return (child for child in element if local_name(child.tag) == name)


def _value(text: str | None, name: str, kind: str) -> Any:
    try:
        return PARSERS[kind](text or "")
    except KeyError:
        raise SkeletonError(f"the type {kind!r} of {name} is not a GraphML type") from None
    except ValueError:
        raise SkeletonError(f"{name} is {short_repr(text or '')}, not a value of type {kind}") from None


def write(skeleton: Skeleton, path: Path) -> None:
    """Write GraphML for NetworkX, Gephi, yEd and Cytoscape. Metadata and plant records are not stored."""
    graph = graph_from_skeleton(skeleton)
    keys: dict[tuple[str, str], str] = {}  # the element that declares each key

    def data(of: str, values: Mapping[str, Any]) -> str:
        for name, value in values.items():
            if (of, name) not in keys:
                kind = TYPE_NAMES[type(value)]
                keys[of, name] = f'<key id="{of}_{name}" for="{of}" attr.name="{name}" attr.type="{kind}"/>'
        texts = ((name, "true" if value is True else content(str(value))) for name, value in values.items())
        return "".join(f'<data key="{of}_{name}">{text}</data>' for name, text in texts)

    try:
        rows = [data("graph", graph.graph)]
    except FormatError as error:
        raise FormatError(f"{path.name}: {error}") from None
    rows += [f'<node id="{node}">{data("node", values)}</node>' for node, values in graph.nodes(data=True)]
    rows += [
        f'<edge source="{u}" target="{v}">{data("edge", values)}</edge>' for u, v, values in graph.edges(data=True)
    ]
    head = f'<?xml version="1.0" encoding="utf-8"?>\n<graphml xmlns="{NAMESPACE}">\n'
    body = "\n".join([*keys.values(), '<graph edgedefault="undirected">', *rows, "</graph>", "</graphml>"])
    write_text(path, head + body + "\n")


def skeleton_from_graph(graph: nx.Graph[Any]) -> Skeleton:
    """Return the skeleton of a graph that was read from a file. Its nodes must have `x` and `y`, or `pos`.

    Parallel edges are merged. If all edges are directed away from roots, or all towards them, the directions determine
    the roots. Otherwise directions are ignored.
    """
    import networkx as nx

    if graph.is_directed():
        directed: nx.DiGraph[Any] = nx.DiGraph(graph)
        if all(count <= 1 for _, count in directed.in_degree()):
            graph = directed
        elif all(count <= 1 for _, count in directed.out_degree()):
            graph = directed.reverse()
        else:
            graph = nx.Graph(directed)
    elif graph.is_multigraph():
        graph = nx.Graph(graph)
    _parse_numbers(graph)
    if not isinstance(graph.graph.get("image_name", ""), str):
        raise SkeletonError(f"image_name is {short_repr(graph.graph['image_name'])}, not a string")
    try:
        return Skeleton.from_networkx(graph)
    except TypeError as error:
        raise SkeletonError(f"an attribute has a value of the wrong type ({error})") from None


def _parse_numbers(graph: nx.Graph[Any]) -> None:
    """Convert numbers that a file gives as text: some programs declare every attribute of GraphML as a string."""
    rows = [("the graph", graph.graph), *((f"node {name}", data) for name, data in graph.nodes(data=True))]
    rows += [(f"edge {u} to {v}", data) for u, v, data in graph.edges(data=True)]
    for place, data in rows:
        for name in NUMBERS & data.keys():
            if not isinstance(data[name], str):
                continue
            try:
                data[name] = decimal_number(data[name])
            except ValueError:
                raise SkeletonError(f"{name} of {place} is {short_repr(data[name])}, not a number") from None


def graph_from_skeleton(skeleton: Skeleton) -> nx.Graph[int]:
    """Return the NetworkX graph of a skeleton, without unknown radii because not every format supports NaN."""
    graph = skeleton.to_networkx()
    for _, data in graph.nodes(data=True):
        if math.isnan(data.get("radius", 0.0)):
            del data["radius"]
    return graph
