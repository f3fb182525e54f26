"""GeoJSON: written files read back as the same graph, shapely opens them, and lines of other tools are joined."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import shapely
from hypothesis import HealthCheck, given, settings

from tests.formats.annotated import annotated, distinct_forests, graph, plants
from tests.strategies import examples
from treeformer import Axis, FormatError, Skeleton
from treeformer.formats import geojson

in_one_folder = settings(
    deadline=None, max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@in_one_folder
@given(distinct_forests())
def test_round_trip_and_shapely(tmp_path: Path, skeleton: Skeleton):
    path = tmp_path / "forest.geojson"
    skeleton = skeleton.replace(plant=skeleton.plant_of_node)
    geojson.write(skeleton, path)
    again = geojson.read(path)
    assert again.nodes.tolist() == skeleton.nodes.tolist()
    assert graph(again) == graph(skeleton)
    assert plants(again) == plants(skeleton)
    assert not again.has_explicit_axes
    shapes = shapely.from_geojson(path.read_text("utf-8")).geoms
    lines = [shape for shape in shapes if shape.geom_type == "LineString"]
    points = [shape for shape in shapes if shape.geom_type == "Point"]
    assert sum(line.length for line in lines) == pytest.approx(skeleton.length)
    assert len(lines) == len(skeleton.axes)
    assert [(point.x, point.y) for point in points] == [tuple(node) for node in skeleton.nodes.tolist()]


@pytest.mark.slow
@in_one_folder
@given(annotated())
def test_any_nodes_and_axes(tmp_path: Path, skeleton: Skeleton):
    """Coinciding nodes stay separate, and the axis of each edge is restored with its names."""
    geojson.write(skeleton, tmp_path / "a.geojson")
    again = geojson.read(tmp_path / "a.geojson")
    assert again.nodes.tolist() == skeleton.nodes.tolist()
    assert {frozenset(e) for e in again.edges.tolist()} == {frozenset(e) for e in skeleton.edges.tolist()}
    assert (again.image_name, again.image_size) == (skeleton.image_name, skeleton.image_size)

    def axis_of_edge(s: Skeleton) -> dict[frozenset[int], Any]:
        named = {-1: None} | {a: (axis.id, axis.label, axis.accession, axis.plant) for a, axis in enumerate(s.axes)}
        return {frozenset(e): named[a] for e, a in zip(s.edges.tolist(), s.edge_axis.tolist(), strict=True)}

    assert again.has_explicit_axes == skeleton.has_explicit_axes
    assert axis_of_edge(again) == axis_of_edge(skeleton)


def test_axes_keep_their_parents(tmp_path: Path):
    skeleton = Skeleton(
        [(0, 0), (0, 5), (0, 9), (4, 5), (8, 5)],
        [(0, 1), (1, 2), (1, 3), (3, 4)],
        root=0,
        axes=[Axis((3, 4), parent=1, label="lateral"), Axis((0, 1, 2), label="main")],
        edge_axis=[1, 1, 0, 0],
    )
    geojson.write(skeleton, tmp_path / "a.geojson")
    again = geojson.read(tmp_path / "a.geojson")
    assert [(axis.label, axis.parent) for axis in again.axes] == [("lateral", 1), ("main", None)]
    assert again.axis_order.tolist() == [1, 0]


def test_the_header_states_pixels(tmp_path: Path, y_shape: Skeleton):
    geojson.write(y_shape, tmp_path / "a.geojson")
    document = json.loads((tmp_path / "a.geojson").read_text())
    assert "pixels" in document["treeformer"]["coordinates"]
    assert document["features"][-1]["properties"] == {"id": 3, "root": False}


def test_cycles(tmp_path: Path, ring: Skeleton):
    geojson.write(ring, tmp_path / "ring.geojson")
    assert graph(geojson.read(tmp_path / "ring.geojson")) == graph(ring)


def read(tmp_path: Path, document: Any) -> Skeleton:
    (tmp_path / "theirs.geojson").write_text(json.dumps(document))
    return geojson.read(tmp_path / "theirs.geojson")


def line(*points: list[float]) -> dict[str, Any]:
    return {"type": "Feature", "properties": None, "geometry": {"type": "LineString", "coordinates": list(points)}}


def point(place: list[float], **properties: Any) -> dict[str, Any]:
    return {"type": "Feature", "properties": properties, "geometry": {"type": "Point", "coordinates": place}}


def test_a_moved_line_is_read_by_its_coordinates(tmp_path: Path, y_shape: Skeleton):
    geojson.write(y_shape, tmp_path / "a.geojson")
    document = json.loads((tmp_path / "a.geojson").read_text())
    document["features"] = document["features"][:2]
    document["features"] += [point([5, 9], id=0), point([5, 5], id=1), point([2, 1], id=2), point([8, 1], id=3)]
    assert graph(read(tmp_path, document)) == graph(y_shape.replace(root=None))
    document["features"][0]["geometry"]["coordinates"][2] = [3, 3]
    moved = read(tmp_path, document)
    assert frozenset([(5.0, 5.0), (3.0, 3.0)]) in graph(moved)["edges"]


def test_lines_of_other_tools_are_joined_at_coinciding_points(tmp_path: Path):
    features = [
        line([0, 0], [0, 5, 99.0], [0, 9]),
        line([0, 5], [4, 5], [4, 5]),
        line([0, 5], [0, 9]),
        {
            "type": "Feature",
            "properties": {"name": "gate"},
            "geometry": {"type": "MultiLineString", "coordinates": [[[50, 50], [60, 60]], [[4, 5], [6, 6]]]},
        },
        {"type": "Feature", "properties": {}, "geometry": {"type": "Polygon", "coordinates": []}},
        {"type": "Feature", "properties": {}, "geometry": None},
        point([0, 9], radius=2, root=True),
    ]
    skeleton = read(tmp_path, {"type": "FeatureCollection", "features": features})
    assert graph(skeleton) == {
        "nodes": {(0, 0), (0, 5), (0, 9), (4, 5), (6, 6), (50, 50), (60, 60)},
        "edges": {
            frozenset(pair)
            for pair in [((0, 0), (0, 5)), ((0, 5), (0, 9)), ((0, 5), (4, 5)), ((4, 5), (6, 6)), ((50, 50), (60, 60))]
        },
        "roots": {(0, 9)},
        "radius": {(0, 9): 2},
        "node_score": {},
        "edge_score": {},
    }
    assert skeleton.metadata == {"geojson": {"ignored_geometries": 1}}


@pytest.mark.parametrize(
    "document",
    [
        line([0, 0], [1, 1]),
        line([0, 0], [1, 1])["geometry"],
        {"type": "GeometryCollection", "geometries": [line([0, 0], [1, 1])["geometry"]]},
    ],
)
def test_other_objects_of_geojson(tmp_path: Path, document: Any):
    assert read(tmp_path, document).edges.tolist() == [[0, 1]]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"type": "Topology"}, "type is 'Topology', not a GeoJSON type"),
        ({"type": "FeatureCollection"}, "features is None, not a list"),
        ({"type": "FeatureCollection", "features": [3]}, r"features\[0\] is 3, not an object"),
        ({"type": "LineString", "coordinates": [[1, "2"]]}, r"the object\[0\] is '2', not a number"),
        ({"type": "LineString", "coordinates": [[1]]}, r"the object\[0\] is \[1\], not a position"),
        ({"type": "Feature", "geometry": {"type": "Polygon"}}, "has no lines and no points, only 1 other"),
        ({"type": "LineString", "coordinates": [], "treeformer": {"image_size": 3}}, "treeformer.image_size is 3"),
    ],
)
def test_bad_files(tmp_path: Path, document: Any, message: str):
    with pytest.raises(FormatError, match=rf"^theirs\.geojson: {message}") as caught:
        read(tmp_path, document)
    assert "\n" not in str(caught.value)
