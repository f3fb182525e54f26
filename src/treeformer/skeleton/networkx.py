"""Skeletons to and from NetworkX graphs."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import networkx as nx

from treeformer.errors import SkeletonError

if TYPE_CHECKING:
    from treeformer.skeleton.skeleton import Skeleton


def graph_of(skeleton: Skeleton) -> nx.Graph[int]:
    """See `Skeleton.to_networkx`."""
    graph: nx.Graph[int] = nx.Graph()
    if skeleton.image_size is not None:
        graph.graph.update(width=skeleton.image_size[0], height=skeleton.image_size[1])
    if skeleton.image_name is not None:
        graph.graph["image_name"] = skeleton.image_name
    columns: dict[str, list[Any]] = {"x": skeleton.nodes[:, 0].tolist(), "y": skeleton.nodes[:, 1].tolist()}
    for name, values in (("radius", skeleton.radius), ("score", skeleton.node_score), ("plant", skeleton.plant)):
        if values is not None:
            columns[name] = values.tolist()
    for node, row in enumerate(zip(*columns.values(), strict=True)):
        graph.add_node(node, **dict(zip(columns, row, strict=True)))
    for root in skeleton.roots.tolist():
        graph.nodes[root]["root"] = True
    scores = None if skeleton.edge_score is None else skeleton.edge_score.tolist()
    for edge, ((u, v), length) in enumerate(zip(skeleton.edges.tolist(), skeleton.edge_length.tolist(), strict=True)):
        graph.add_edge(u, v, length=length, **({} if scores is None else {"score": scores[edge]}))
    return graph


def arguments_from(graph: nx.Graph[Any]) -> dict[str, Any]:
    """The arguments of `Skeleton(...)` that a graph gives; see `Skeleton.from_networkx`."""
    number: dict[Hashable, int] = {name: index for index, name in enumerate(graph.nodes)}
    points = []
    for name, data in graph.nodes(data=True):
        if "x" in data and "y" in data:
            points.append((data["x"], data["y"]))
        elif "pos" in data:
            points.append(tuple(data["pos"])[:2])
        else:
            raise SkeletonError(f"node {name} has neither x and y nor pos")
    node_data = [data for _, data in graph.nodes(data=True)]
    edge_data = [data for _, _, data in graph.edges(data=True)]
    roots = [index for index, data in enumerate(node_data) if data.get("root")]
    if not roots and isinstance(graph, nx.DiGraph):
        roots = [number[name] for name, degree in graph.in_degree() if degree == 0]
    arguments: dict[str, Any] = {
        "nodes": points,
        "edges": [(number[u], number[v]) for u, v in graph.edges],
        "root": roots or None,
        "radius": _column(node_data, "radius"),
        "node_score": _column(node_data, "score"),
        "edge_score": _column(edge_data, "score"),
        "plant": _column(node_data, "plant"),
        "image_name": graph.graph.get("image_name"),
    }
    if "width" in graph.graph and "height" in graph.graph:
        arguments["image_size"] = (graph.graph["width"], graph.graph["height"])
    return arguments


def _column(rows: Iterable[Mapping[str, Any]], key: str) -> list[Any] | None:
    values = [row.get(key) for row in rows]
    if all(value is None for value in values):
        return None
    return [math.nan if value is None else value for value in values]
