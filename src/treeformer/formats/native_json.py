"""The native JSON format. It stores every field of a Skeleton exactly. The schema is `skeleton.schema.json`.

Unknown keys are ignored, so that older versions can read files of newer versions. Free-form data belongs into
`metadata`, which is preserved.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from treeformer._util.text import short_repr
from treeformer.errors import SkeletonError
from treeformer.formats import checks
from treeformer.formats._io import json_text, read_json, reading, write_text
from treeformer.skeleton import Axis, AxisFunction, Plant, Skeleton

FORMAT = "treeformer-skeleton"
VERSION = 1

# The number of points, edges or numbers per line of the file, and of records of plants and axes.
ITEMS_PER_ROW = 10
LONG_LISTS = ("nodes", "edges", "roots", "radius", "node_score", "edge_score", "plant", "edge_axis")
ROWS = dict.fromkeys(LONG_LISTS, ITEMS_PER_ROW) | {"plants": 1, "axes": 1}


def matches(document: Mapping[str, Any]) -> bool:
    """Return True if a JSON object has this format."""
    return document.get("format") == FORMAT


def read(path: Path) -> Skeleton:
    """Read a skeleton. Error messages identify the key, as in `nodes[3]`."""
    with reading(path):
        return next(skeletons(read_json(path)))


def skeletons(document: Mapping[str, Any]) -> Iterator[Skeleton]:
    """Yield the single skeleton of a JSON object of this format."""
    if document.get("format") != FORMAT:
        raise SkeletonError(f"format is {short_repr(document.get('format'))}, not {FORMAT!r}")
    if type(document.get("version")) is not int or document["version"] != VERSION:
        raise SkeletonError(
            f"version is {short_repr(document.get('version'))}: this program reads version {VERSION} of {FORMAT}"
        )
    for key in ("nodes", "edges"):
        if key not in document:
            raise SkeletonError(f"{key} are missing")
    nodes = checks.pairs(document["nodes"], "nodes")
    edges = checks.pairs(document["edges"], "edges")
    optional: dict[str, Any] = {}
    for key in ("radius", "node_score", "edge_score"):
        if key in document:
            optional[key] = checks.numbers(document[key], key, or_null=key == "radius")
    for key in ("plant", "edge_axis"):
        if key in document:
            optional[key] = checks.integers(document[key], key)
    if "image_size" in document:
        optional["image_size"] = tuple(checks.integers(document["image_size"], "image_size"))
    if "image_name" in document:
        optional["image_name"] = checks.text(document["image_name"], "image_name")
    if "axes" in document:
        axes = checks.items(document["axes"], "axes")
        optional["axes"] = [_axis(axis, f"axes[{index}]") for index, axis in enumerate(axes)]
    plants = checks.items(document.get("plants", []), "plants")
    yield Skeleton(
        [checks.numbers(point, f"nodes[{index}]") for index, point in enumerate(nodes)],
        [checks.integers(pair, f"edges[{index}]") for index, pair in enumerate(edges)],
        root=checks.integers(document.get("roots", []), "roots"),
        plant_records=[_plant(plant, f"plants[{index}]") for index, plant in enumerate(plants)],
        metadata=checks.record(document.get("metadata", {}), "metadata"),
        **optional,
    )


def _axis(value: Any, place: str) -> Axis:
    row = checks.record(value, place)
    if "nodes" not in row:
        raise SkeletonError(f"{place} has no nodes")
    functions = checks.items(row.get("functions", []), f"{place}.functions")
    return Axis(
        nodes=tuple(checks.integers(row["nodes"], f"{place}.nodes")),
        parent=None if row.get("parent") is None else checks.integer(row["parent"], f"{place}.parent"),
        plant=checks.integer(row.get("plant", 0), f"{place}.plant"),
        accession=checks.text(row.get("accession", ""), f"{place}.accession"),
        functions=tuple(_function(entry, f"{place}.functions[{index}]") for index, entry in enumerate(functions)),
        **_labels(row, place),
    )


def _plant(value: Any, place: str) -> Plant:
    return Plant(**_labels(checks.record(value, place), place))


def _labels(row: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Read the fields that axes and plants have in common."""
    properties = checks.record(row.get("properties", {}), f"{place}.properties")
    return {
        "id": checks.text(row.get("id", ""), f"{place}.id"),
        "label": checks.text(row.get("label", ""), f"{place}.label"),
        "properties": {key: checks.text(entry, f"{place}.properties.{key}") for key, entry in properties.items()},
        "metadata": checks.record(row.get("metadata", {}), f"{place}.metadata"),
    }


def _function(value: Any, place: str) -> AxisFunction:
    row = checks.record(value, place)
    positions = row.get("positions")
    return AxisFunction(
        name=checks.text(row.get("name"), f"{place}.name"),
        samples=tuple(checks.numbers(row.get("samples"), f"{place}.samples", or_null=True)),
        domain=checks.text(row.get("domain", "polyline"), f"{place}.domain"),
        origin=checks.text(row.get("origin", ""), f"{place}.origin"),
        positions=None if positions is None else tuple(checks.numbers(positions, f"{place}.positions", or_null=True)),
    )


def to_document(skeleton: Skeleton) -> dict[str, Any]:
    """Return the JSON object of a skeleton: lists, texts and numbers. Metadata are not copied."""
    fields: dict[str, Any] = {"format": FORMAT, "version": VERSION}
    if skeleton.image_name is not None:
        fields["image_name"] = skeleton.image_name
    if skeleton.image_size is not None:
        fields["image_size"] = list(skeleton.image_size)
    fields["nodes"] = skeleton.nodes.tolist()
    fields["edges"] = skeleton.edges.tolist()
    fields["roots"] = skeleton.roots.tolist()
    if skeleton.radius is not None:
        fields["radius"] = _null_for_nan(skeleton.radius.tolist())
    for key in ("node_score", "edge_score", "plant"):
        if (values := getattr(skeleton, key)) is not None:
            fields[key] = values.tolist()
    if skeleton.plant_records:
        fields["plants"] = [_labels_row(plant) for plant in skeleton.plant_records]
    if skeleton.has_explicit_axes:
        fields["axes"] = [_axis_row(axis) for axis in skeleton.axes]
        fields["edge_axis"] = skeleton.edge_axis.tolist()
    if skeleton.metadata:
        fields["metadata"] = dict(skeleton.metadata)
    return fields


def write(skeleton: Skeleton, path: Path) -> None:
    """Write a skeleton. Numbers are arranged in readable rows; floats are exact."""
    write_text(path, to_text(skeleton, path))


def to_text(skeleton: Skeleton, path: Path) -> str:
    """Return the content of the file of a skeleton; surrogate escapes stand for undecodable bytes.

    Errors mention `path`.
    """

    def text(key: str, value: Any) -> str:
        if key not in ROWS or not value:
            return json_text(value, path)
        starts = range(0, len(value), ROWS[key])
        return "[\n" + ",\n".join(json_text(value[start : start + ROWS[key]], path)[1:-1] for start in starts) + "\n]"

    fields = (f'"{key}": {text(key, value)}' for key, value in to_document(skeleton).items())
    return "{\n" + ",\n".join(fields) + "\n}\n"


def _labels_row(entity: Axis | Plant) -> dict[str, Any]:
    row = {key: getattr(entity, key) for key in ("id", "label", "properties", "metadata")}
    return {key: value for key, value in row.items() if value}


def _axis_row(axis: Axis) -> dict[str, Any]:
    row: dict[str, Any] = {"nodes": axis.nodes, "parent": axis.parent, "plant": axis.plant}
    if axis.accession:
        row["accession"] = axis.accession
    if axis.functions:
        row["functions"] = [_function_row(function) for function in axis.functions]
    return row | _labels_row(axis)


def _function_row(function: AxisFunction) -> dict[str, Any]:
    row: dict[str, Any] = {"name": function.name, "samples": _null_for_nan(function.samples)}
    row |= {"domain": function.domain, "origin": function.origin}
    if function.positions is not None:
        row["positions"] = _null_for_nan(function.positions)
    return row


def _null_for_nan(values: Iterable[float]) -> list[float | None]:
    return [None if math.isnan(value) else value for value in values]
