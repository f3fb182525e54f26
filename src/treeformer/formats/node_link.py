"""Node-link JSON as in NetworkX (`node_link_data`) and D3: `nodes` with ids, and `edges` or `links`."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from pathlib import Path
from typing import Any

from treeformer._util.text import short_repr
from treeformer.errors import SkeletonError
from treeformer.formats import checks
from treeformer.formats._io import json_text, read_json, reading, write_text
from treeformer.formats.graphml import graph_from_skeleton, skeleton_from_graph
from treeformer.skeleton import Skeleton


def matches(document: Mapping[str, Any]) -> bool:
    """Return True if a JSON object has nodes that are objects, and edges or links."""
    nodes = document.get("nodes")
    edges = document.get("edges", document.get("links"))
    return isinstance(edges, list) and isinstance(nodes, list) and all(isinstance(node, dict) for node in nodes[:1])


def read(path: Path) -> Skeleton:
    """Read a node-link file. Its nodes must have `x` and `y`."""
    with reading(path):
        return next(skeletons(read_json(path)))


def skeletons(document: Mapping[str, Any]) -> Iterator[Skeleton]:
    """Yield the single skeleton of a node-link object."""
    import networkx as nx

    graph: nx.Graph[Hashable] = nx.DiGraph() if document.get("directed") is True else nx.Graph()
    graph.graph.update(_graph_attributes(document.get("graph", {})))
    for index, entry in enumerate(checks.items(document.get("nodes"), "nodes")):
        node = checks.record(entry, f"nodes[{index}]")
        name = _name(node.get("id"), f"nodes[{index}].id")
        if name in graph:
            raise SkeletonError(f"nodes[{index}] repeats the id {short_repr(name)}")
        graph.add_node(name)
        graph.nodes[name].update((key, value) for key, value in node.items() if value is not None)
    key = "edges" if "edges" in document else "links"
    for index, entry in enumerate(checks.items(document.get(key), key)):
        edge = checks.record(entry, f"{key}[{index}]")
        ends = [_name(edge.get(end), f"{key}[{index}].{end}") for end in ("source", "target")]
        for end in ends:
            if end not in graph:
                raise SkeletonError(f"{key}[{index}] refers to node {short_repr(end)}, which does not exist")
        graph.add_edge(*ends)
        graph.edges[ends[0], ends[1]].update(edge)
    yield skeleton_from_graph(graph)


def write(skeleton: Skeleton, path: Path) -> None:
    """Write node-link JSON for `networkx.node_link_graph`. Metadata and plant records are not stored."""
    graph = graph_from_skeleton(skeleton)
    nodes = [json_text({"id": node, **data}, path) for node, data in graph.nodes(data=True)]
    edges = [json_text({"source": u, "target": v, **data}, path) for u, v, data in graph.edges(data=True)]
    head = json_text({"directed": False, "multigraph": False, "graph": graph.graph}, path)
    rows = (f'"{name}": [\n' + ",\n".join(rows) + "\n]" for name, rows in (("nodes", nodes), ("edges", edges)))
    write_text(path, head[:-1] + ",\n" + ",\n".join(rows) + "}\n")


def _graph_attributes(value: Any) -> dict[str, Any]:
    """Return the attributes of the graph. Older files store them as a list of pairs."""
    if isinstance(value, list):
        return {str(name): entry for name, entry in checks.pairs(value, "graph")}
    return checks.record(value, "graph")


def _name(value: Any, place: str) -> str | int | float:
    if not isinstance(value, str | int | float):
        raise SkeletonError(f"{place} is {short_repr(value)}, not a name or number")
    return value
