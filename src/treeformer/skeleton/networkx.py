"""Convert skeletons to and from NetworkX graphs.

Explicit axes travel as scalars: each edge has the number of its axis, -1 for none, and the graph has the records of all
axes as JSON text, together with a digest of the edges. If the digest still matches, the axes are restored exactly. If
the graph was edited but every edge still has an axis, the axes are rebuilt from the edges. Otherwise they are inferred.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np

from treeformer._util.text import short_repr
from treeformer.errors import SkeletonError
from treeformer.skeleton.attribute_transfer import rebuild_axes
from treeformer.skeleton.axes import Axis, AxisFunction
from treeformer.skeleton.provenance import prediction_record

if TYPE_CHECKING:
    from treeformer.skeleton.skeleton import Skeleton


def to_networkx(skeleton: Skeleton) -> nx.Graph[int]:
    """Return the graph of a skeleton; see `Skeleton.to_networkx`."""
    graph: nx.Graph[int] = nx.Graph()
    if skeleton.image_size is not None:
        graph.graph.update(width=skeleton.image_size[0], height=skeleton.image_size[1])
    if skeleton.image_name is not None:
        graph.graph["image_name"] = skeleton.image_name
    if record := prediction_record(skeleton):
        graph.graph["prediction"] = json.dumps(record)
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
    if skeleton.has_explicit_axes:
        for (u, v), axis in zip(skeleton.edges.tolist(), skeleton.edge_axis.tolist(), strict=True):
            graph.edges[u, v]["axis"] = axis
        document = {"digest": _digest(graph), "records": skeleton.axes}
        graph.graph["axes"] = json.dumps(document, default=_to_plain, skipkeys=True)
    return graph


def from_networkx(graph: nx.Graph[Any], attributes: Mapping[str, Any]) -> Skeleton:
    """Return the skeleton of a graph; see `Skeleton.from_networkx`. `attributes` take precedence over the graph's."""
    from treeformer.skeleton.skeleton import Skeleton

    if not isinstance(graph, nx.Graph):
        raise SkeletonError(f"a NetworkX graph is needed, not {short_repr(graph)}")
    if graph.is_multigraph():
        raise SkeletonError("a graph with parallel edges is no skeleton: convert it with networkx.Graph(graph)")
    skeleton = Skeleton(**{**constructor_arguments(graph), **attributes})
    if "axes" in attributes or "edges" in attributes or "axes" not in graph.graph:
        return skeleton
    try:
        return _with_axes(skeleton, graph)
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):  # not the axes that `to_networkx` wrote
        return skeleton


def _with_axes(skeleton: Skeleton, graph: nx.Graph[Any]) -> Skeleton:
    """Return the skeleton with the axes of the graph, or raise an error if they are missing or invalid."""
    edge_axis = [data["axis"] for _, _, data in graph.edges(data=True)]
    # Some programs declare all attributes of GraphML as strings.
    edge_axis = [int(axis) if isinstance(axis, str) else axis for axis in edge_axis]
    document = json.loads(graph.graph["axes"])
    axes = [_axis(record) for record in document["records"]]
    if document["digest"] == _digest(graph):
        index_of = {str(name): index for index, name in enumerate(graph.nodes)}
        axes = [replace(axis, nodes=tuple(index_of[str(node)] for node in axis.nodes)) for axis in axes]
        return skeleton.replace(axes=axes, edge_axis=edge_axis)
    # Without nodes, the records say nothing about the old graph; this checks the numbers of axes and parents.
    records = [replace(axis, nodes=()) for axis in axes]
    return rebuild_axes(skeleton.replace(axes=records, edge_axis=edge_axis))


def _axis(record: Mapping[str, Any]) -> Axis:
    """Return an axis from its record, or raise an error if a field is missing or has the wrong type."""
    functions = tuple(
        AxisFunction(
            name=_text(function["name"]),
            samples=tuple(float(sample) for sample in function["samples"]),
            domain=_text(function["domain"]),
            origin=_text(function["origin"]),
            positions=None if function["positions"] is None else tuple(float(p) for p in function["positions"]),
        )
        for function in record["functions"]
    )
    return Axis(
        nodes=tuple(record["nodes"]),
        id=_text(record["id"]),
        label=_text(record["label"]),
        accession=_text(record["accession"]),
        parent=None if record["parent"] is None else _number(record["parent"]),
        plant=_number(record["plant"]),
        properties={_text(name): _text(value) for name, value in dict(record["properties"]).items()},
        functions=functions,
        metadata=dict(record["metadata"]),
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value


def _number(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise TypeError("not an index")
    return value


def _digest(graph: nx.Graph[Any]) -> str:
    """Return a digest of the nodes and of the edges with their axes, by name and in any order."""
    edges = sorted([*sorted((str(u), str(v))), str(data["axis"])] for u, v, data in graph.edges(data=True))
    return hashlib.sha256(json.dumps([sorted(map(str, graph.nodes)), edges]).encode()).hexdigest()


def _to_plain(value: object) -> object:
    if isinstance(value, Axis | AxisFunction):
        return {entry.name: getattr(value, entry.name) for entry in fields(value)}
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    return dict(value) if isinstance(value, Mapping) else str(value)


def constructor_arguments(graph: nx.Graph[Any]) -> dict[str, Any]:
    """Return the arguments of `Skeleton(...)` that describe a graph; see `Skeleton.from_networkx`."""
    index_of: dict[Hashable, int] = {name: index for index, name in enumerate(graph.nodes)}
    points = []
    for name, data in graph.nodes(data=True):
        if "x" in data and "y" in data:
            points.append((data["x"], data["y"]))
        elif isinstance(data.get("pos"), Iterable):
            points.append(tuple(data["pos"])[:2])
        else:
            raise SkeletonError(f"node {name} has neither x and y nor pos")
    node_data = [data for _, data in graph.nodes(data=True)]
    edge_data = [data for _, _, data in graph.edges(data=True)]
    roots = [index for index, data in enumerate(node_data) if _is_true(data.get("root"))]
    if not roots and isinstance(graph, nx.DiGraph):
        roots = [index_of[name] for name, degree in graph.in_degree() if degree == 0]
    arguments: dict[str, Any] = {
        "nodes": points,
        "edges": [(index_of[u], index_of[v]) for u, v in graph.edges],
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
    """Return one value per row, NaN if it is missing; None if no row has one."""
    values = [row.get(key) for row in rows]
    if all(value is None for value in values):
        return None
    return [math.nan if value is None else value for value in values]


def _is_true(value: Any) -> bool:
    """Return True if an attribute is true, also as text: some programs declare all attributes of GraphML as strings."""
    return value.strip().lower() in ("true", "1") if isinstance(value, str) else bool(value)
