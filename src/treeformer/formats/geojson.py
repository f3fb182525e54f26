"""GeoJSON in pixels: one LineString per axis and one Point per node.

Files written by this module list the node ids of each LineString, so that they read back to the same graph. Files
of other tools contain only lines; points that coincide exactly are joined. Standard GeoJSON coordinates are
degrees. The foreign member `treeformer` states that these are pixels, with y pointing down.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import repeat
from pathlib import Path
from typing import Any

from treeformer._util.text import short_repr
from treeformer.errors import SkeletonError
from treeformer.formats import checks
from treeformer.formats._io import json_text, read_json, reading, write_text
from treeformer.formats.lines import Line, Welder, skeleton_lines
from treeformer.skeleton import Axis, Skeleton
from treeformer.skeleton.provenance import prediction_record

COORDINATES = "pixels of the image, x to the right and y down from its top left corner; not degrees"
TYPES = ("FeatureCollection", "Feature", "GeometryCollection", "LineString", "MultiLineString")


def matches(document: Mapping[str, Any]) -> bool:
    """Return True if a JSON object is of a GeoJSON type that may contain lines."""
    return document.get("type") in TYPES


def read(path: Path) -> Skeleton:
    """Read a GeoJSON file. Geometries other than lines and points are counted in the metadata and ignored."""
    with reading(path):
        return next(skeletons(read_json(path)))


def skeletons(document: Mapping[str, Any]) -> Iterator[Skeleton]:
    """Yield the single skeleton of a GeoJSON object."""
    if not matches(document):
        raise SkeletonError(f"type is {short_repr(document.get('type'))}, not a GeoJSON type that may contain lines")
    geometries = _Geometries()
    for place, geometry, properties in _geometries(document):
        geometries.add(place, geometry, properties)
    yield geometries.skeleton(document.get("treeformer"))


class _Geometries:
    """The points and lines of a file. They are collected first because lines may refer to later points."""

    def __init__(self) -> None:
        self.points: list[tuple[str, Any, dict[str, Any]]] = []
        self.lines: list[tuple[str, Any, dict[str, Any]]] = []
        self.others = 0

    def add(self, place: str, geometry: dict[str, Any], properties: dict[str, Any]) -> None:
        kind, coordinates = geometry.get("type"), geometry.get("coordinates")
        if kind == "Point":
            self.points.append((place, coordinates, properties))
        elif kind == "LineString":
            self.lines.append((place, coordinates, properties))
        elif kind == "MultiLineString":
            parts = checks.items(coordinates, place)
            self.lines += [(f"{place}[{index}]", part, {}) for index, part in enumerate(parts)]
        else:
            self.others += 1

    def skeleton(self, header: Any) -> Skeleton:
        if self.others and not self.points and not self.lines:
            raise SkeletonError(f"has no lines and no points, only {self.others} other geometries")
        header = header if isinstance(header, dict) else {}
        welder = Welder()
        node_of_id, node_values = self._weld_points(welder)
        paths, edge_line, edge_score = self._weld_lines(welder, node_of_id)
        node_values += [{} for _ in range(len(welder.nodes) - len(node_values))]
        optional: dict[str, Any] = _node_columns(node_values)
        if edge_score and not any(math.isnan(score) for score in edge_score):
            optional["edge_score"] = edge_score
        if header.get("axes") == "file":
            optional |= _axes([properties for _, _, properties in self.lines], paths, edge_line)
        if "image_size" in header:
            optional["image_size"] = tuple(checks.integers(header["image_size"], "treeformer.image_size"))
        if "image_name" in header:
            optional["image_name"] = checks.text(header["image_name"], "treeformer.image_name")
        return Skeleton(
            welder.nodes,
            welder.edges,
            root=[node for node, values in enumerate(node_values) if values.get("root") is True],
            metadata={"geojson": {"ignored_geometries": self.others}} if self.others else {},
            **optional,
        )

    def _weld_points(self, welder: Welder) -> tuple[dict[int, int], list[dict[str, Any]]]:
        """Add the nodes; return the node of each id and the properties of each node.

        Points with an id stay separate even if they coincide.
        """
        node_of_id: dict[int, int] = {}
        values: list[dict[str, Any]] = []
        for place, coordinates, properties in self.points:
            position = _position(coordinates, place)
            name = properties.get("id")
            if type(name) is int:
                if name in node_of_id:
                    raise SkeletonError(f"{place} repeats the id {name}")
                node_of_id[name] = welder.add(position)
            else:
                welder.node(position)
            if len(welder.nodes) > len(values):
                values.append(properties)
        return node_of_id, values

    def _weld_lines(
        self, welder: Welder, node_of_id: Mapping[int, int]
    ) -> tuple[list[list[int]], list[int], list[float]]:
        """Add the edges; return the nodes of each line, and for each edge its line and its score (NaN if unknown)."""
        paths: list[list[int]] = []
        edge_line: list[int] = []
        edge_score: list[float] = []
        for place, coordinates, properties in self.lines:
            positions = [
                _position(point, f"{place}[{index}]") for index, point in enumerate(checks.items(coordinates, place))
            ]
            path = _listed_path(properties.get("nodes"), node_of_id)
            # The coordinates take precedence if the line was moved after it was written.
            if path is None or [welder.nodes[node] for node in path] != positions:
                path = [welder.node(position) for position in positions]
            scores = [
                *checks.numbers(properties.get("edge_score", []), f"{place}.edge_score"),
                *repeat(math.nan, len(path)),
            ]
            for index, edge in enumerate(welder.line(path)):
                if edge >= 0:
                    edge_line.append(len(paths))
                    edge_score.append(scores[index])
            paths.append(path)
        return paths, edge_line, edge_score


def write(skeleton: Skeleton, path: Path) -> None:
    """Write GeoJSON with one feature per line of text. The functions of axes are not stored.

    Of the metadata, only the record of a prediction is written.
    """
    header: dict[str, Any] = {"coordinates": COORDINATES, "axes": "file" if skeleton.has_explicit_axes else "rule"}
    if skeleton.image_name is not None:
        header["image_name"] = skeleton.image_name
    if skeleton.image_size is not None:
        header["image_size"] = skeleton.image_size
    if record := prediction_record(skeleton):
        header["prediction"] = record
    points = skeleton.nodes.tolist()
    features = []
    for line in skeleton_lines(skeleton):
        geometry = {"type": "LineString", "coordinates": [points[node] for node in line.nodes]}
        features.append((geometry, _line_properties(skeleton, line)))
    roots = set(skeleton.roots.tolist())
    plant = skeleton.plant_of_node.tolist() if skeleton.plant is not None else None
    for node, point in enumerate(points):
        properties: dict[str, Any] = {"id": node, "root": node in roots}
        if skeleton.radius is not None:
            properties["radius"] = None if math.isnan(skeleton.radius[node]) else float(skeleton.radius[node])
        if skeleton.node_score is not None:
            properties["score"] = float(skeleton.node_score[node])
        if plant is not None:
            properties["plant"] = plant[node]
        features.append(({"type": "Point", "coordinates": point}, properties))
    rows = ",\n".join(
        json_text({"type": "Feature", "geometry": geometry, "properties": properties}, path)
        for geometry, properties in features
    )
    head = json_text({"type": "FeatureCollection", "treeformer": header}, path)
    write_text(path, head[:-1] + ', "features": [\n' + rows + "\n]}\n")


def _line_properties(skeleton: Skeleton, line: Line) -> dict[str, Any]:
    properties: dict[str, Any] = {"nodes": line.nodes}
    if line.axis >= 0:
        axis = skeleton.axes[line.axis]
        properties |= {"axis": line.axis, "order": int(skeleton.axis_order[line.axis]), "parent": axis.parent}
        properties |= {"plant": axis.plant}
        texts = {key: getattr(axis, key) for key in ("id", "label", "accession")}
        properties |= {key: text for key, text in texts.items() if text}
    if skeleton.edge_score is not None:
        properties["edge_score"] = skeleton.edge_score[line.edges].tolist()
    return properties


def _geometries(document: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Yield each geometry of a GeoJSON object with its place in the file and the properties of its feature."""
    if document.get("type") == "FeatureCollection":
        features = [
            (f"features[{index}]", f) for index, f in enumerate(checks.items(document.get("features"), "features"))
        ]
    else:
        features = [("the object", document)]
    for place, entry in features:
        feature = checks.record(entry, place)
        properties = feature.get("properties")
        geometry = feature.get("geometry") if feature.get("type") == "Feature" else feature
        if geometry is None:
            continue
        geometry = checks.record(geometry, f"{place}.geometry")
        inner = [geometry]
        if geometry.get("type") == "GeometryCollection":
            inner = [checks.record(part, place) for part in checks.items(geometry.get("geometries"), place)]
        for part in inner:
            yield place, part, properties if isinstance(properties, dict) else {}


def _position(value: Any, place: str) -> tuple[float, float]:
    """Return x and y of a position. An altitude is ignored."""
    row = checks.items(value, place)
    if len(row) < 2:
        raise SkeletonError(f"{place} is {short_repr(row)}, not a position")
    return checks.number(row[0], place), checks.number(row[1], place)


def _listed_path(names: Any, node_of_id: Mapping[int, int]) -> list[int] | None:
    """Return the nodes that a line lists by id, None if the list is missing or contains unknown ids."""
    if not isinstance(names, list) or not all(type(name) is int and name in node_of_id for name in names):
        return None
    return [node_of_id[name] for name in names]


def _node_columns(values: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the radii, and the scores and plants if every node has one."""
    columns: dict[str, Any] = {}
    radius = [math.nan if row.get("radius") is None else checks.number(row["radius"], "radius") for row in values]
    if not all(math.isnan(value) for value in radius):
        columns["radius"] = radius
    for key, column in (("score", "node_score"), ("plant", "plant")):
        if values and all(row.get(key) is not None for row in values):
            columns[column] = [checks.number(row[key], key) for row in values]
    return columns


def _axes(lines: list[dict[str, Any]], paths: list[list[int]], edge_line: list[int]) -> dict[str, Any]:
    """Return the axes given by the properties of the lines, and the axis of each edge."""
    axis_of_line = [-1 if row.get("axis") is None else checks.integer(row["axis"], "axis") for row in lines]
    # If an axis has several lines, the first one defines it.
    first_line = {name: line for line, name in reversed(list(enumerate(axis_of_line))) if name >= 0}
    axis_index = {name: index for index, name in enumerate(sorted(first_line))}
    axes = []
    for name in axis_index:
        line = first_line[name]
        row = lines[line]
        axes.append(
            Axis(
                nodes=tuple(paths[line]),
                parent=None if row.get("parent") is None else axis_index.get(checks.integer(row["parent"], "parent")),
                plant=checks.integer(row.get("plant", 0), "plant"),
                id=checks.text(row.get("id", ""), "id"),
                label=checks.text(row.get("label", ""), "label"),
                accession=checks.text(row.get("accession", ""), "accession"),
            )
        )
    return {"axes": axes, "edge_axis": [axis_index.get(axis_of_line[line], -1) for line in edge_line]}
