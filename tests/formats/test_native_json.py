"""Native JSON: exact round trips of every field, validity by the schema, and errors that identify the key."""

from __future__ import annotations

import json
import math
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from tests.formats.annotated import annotated
from tests.strategies import examples, graphs
from treeformer import Axis, AxisFunction, FormatError, Plant, Skeleton
from treeformer.formats import native_json

SCHEMA = json.loads(files("treeformer.formats").joinpath("skeleton.schema.json").read_text("utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
in_one_folder = settings(
    deadline=None, max_examples=examples(50), suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def test_the_schema_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.slow
@in_one_folder
@given(annotated())
def test_round_trip_of_every_field(tmp_path: Path, skeleton: Skeleton):
    path = tmp_path / "plant.json"
    native_json.write(skeleton, path)
    again = native_json.read(path)
    assert again == skeleton
    assert again.has_explicit_axes == skeleton.has_explicit_axes
    content = json.loads(path.read_text("utf-8"))
    VALIDATOR.validate(content)
    assert json.loads(json.dumps(native_json.to_document(skeleton))) == content


@in_one_folder
@given(graphs())
def test_graphs_with_cycles(tmp_path: Path, skeleton: Skeleton):
    native_json.write(skeleton, tmp_path / "graph.json")
    assert native_json.read(tmp_path / "graph.json") == skeleton


def full() -> Skeleton:
    """Return a skeleton with all fields and values that are easy to find in the file."""
    return Skeleton(
        [(5, 9), (5, 5), (2.5, 1), (8, 1)],
        [(0, 1), (1, 2), (1, 3)],
        root=0,
        radius=[1, math.nan, 0.5, 0.1],
        node_score=[1, 0.9, 0.8, 0.7],
        edge_score=[0.25, 0.5, 0.75],
        axes=[
            Axis((0, 1, 2), id="a", label="Hauptwurzel", accession="PO:0020127", properties={"age": "3"}),
            Axis((1, 3), parent=0, functions=(AxisFunction("diameter", (1.0, 2.0), positions=(0.0, 4.5)),)),
        ],
        edge_axis=[0, 0, 1],
        plant=[0, 0, 0, 0],
        plant_records=[Plant(id="1", label="Grünkohl", properties={"species": "oilseed rape"})],
        image_size=(10, 12),
        image_name="plate 3.png",
        metadata={"rsml": {"user": "Jörg"}},
    )


def test_the_file_is_readable(tmp_path: Path):
    native_json.write(full(), tmp_path / "full.json")
    text = (tmp_path / "full.json").read_text("utf-8")
    assert '"nodes": [\n[5.0, 9.0], [5.0, 5.0], [2.5, 1.0], [8.0, 1.0]\n],' in text
    assert '"radius": [\n1.0, null, 0.5, 0.1\n],' in text
    assert "Grünkohl" in text
    assert native_json.read(tmp_path / "full.json") == full()


def test_functions_with_unknown_samples(tmp_path: Path):
    axis = Axis((0, 1), functions=(AxisFunction("diameter", (math.nan, 2.0)),))
    native_json.write(Skeleton([(0, 0), (1, 1)], [(0, 1)], axes=[axis], edge_axis=[0]), tmp_path / "a.json")
    (first, second) = native_json.read(tmp_path / "a.json").axes[0].functions[0].samples
    assert math.isnan(first)
    assert second == 2.0


def test_names_that_utf8_cannot_encode(tmp_path: Path):
    undecodable = b"pl\xe4nt.png".decode("utf-8", "surrogateescape")
    native_json.write(Skeleton([], [], image_name=undecodable), tmp_path / "a.json")
    assert native_json.read(tmp_path / "a.json").image_name == undecodable


def test_numpy_values_become_plain_numbers(tmp_path: Path):
    native_json.write(Skeleton([], [], metadata={"n": np.int64(3), "a": np.arange(2)}), tmp_path / "a.json")
    assert native_json.read(tmp_path / "a.json").metadata == {"n": 3, "a": [0, 1]}


def test_unknown_keys_are_ignored(tmp_path: Path):
    path = tmp_path / "later.json"
    path.write_text('{"format": "treeformer-skeleton", "version": 1, "nodes": [], "edges": [], "color": "green"}')
    assert native_json.read(path) == Skeleton([], [])


@pytest.mark.parametrize("metadata", [{"a": math.nan}, {"a": object()}, {"a": {1, 2}}])
def test_metadata_that_json_cannot_represent_leaves_no_file(tmp_path: Path, metadata: dict[str, Any]):
    with pytest.raises(FormatError, match=r"^a\.json: cannot be stored as JSON"):
        native_json.write(Skeleton([], [], metadata=metadata), tmp_path / "a.json")
    assert list(tmp_path.iterdir()) == []


def put(place: str, value: Any) -> dict[str, Any]:
    """Return a valid JSON object with one value replaced. The place is written as in `axes.1.parent`."""
    document: Any = {
        "format": "treeformer-skeleton",
        "version": 1,
        "nodes": [[0, 0], [1, 1], [2, 2], [3, 3]],
        "edges": [[0, 1], [1, 2], [2, 3]],
        "roots": [0],
        "axes": [{"nodes": [0, 1]}, {"nodes": [1, 2], "parent": 0, "functions": [{"name": "d", "samples": [1]}]}],
        "edge_axis": [0, 1, 1],
        "plants": [{"id": "1"}],
    }
    inner = document
    *steps, last = [int(step) if step.isdigit() else step for step in place.split(".")]
    for step in steps:
        inner = inner[step]
    inner[last] = value
    return document


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("version", 2, "version is 2: this program reads version 1"),
        ("version", True, "version is True"),
        ("version", "1", "version is '1'"),
        ("format", "other", "format is 'other'"),
        ("nodes", 3, "nodes is 3, not a list"),
        ("nodes.3", [1], r"nodes\[3\] is \[1\], not a pair"),
        ("nodes.3", [1, "2"], r"nodes\[3\]\[1\] is '2', not a number"),
        ("nodes.3", [1, None], r"nodes\[3\]\[1\] is None, not a number"),
        ("nodes.3", [1, True], r"nodes\[3\]\[1\] is True, not a number"),
        ("nodes.3", [1, 10**400], r"nodes\[3\]\[1\] is 10000"),
        ("edges.0", [0, 9], r"edge 0 \(0, 9\) refers to node 9"),
        ("edges.1", [0, 1], "edge 1 .* repeats edge 0"),
        ("edges.1", [0.5, 1], r"edges\[1\]\[0\] is 0.5, not an integer"),
        ("roots", [4], "root 4 is not a node"),
        ("radius", [1, 2, 3, -1], "radius of node 3 is -1.0"),
        ("radius", [1], "radius has shape"),
        ("node_score", [1, None, 1, 1], r"node_score\[1\] is None"),
        ("edge_axis", [0, 1, 2], "edge 2 is on axis 2"),
        ("axes.0", 7, r"axes\[0\] is 7, not an object"),
        ("axes.0", {}, r"axes\[0\] has no nodes"),
        ("axes.1.parent", 1, "axis 1 is its own ancestor"),
        ("axes.1.nodes", [77], "axis 1 goes through node 77"),
        ("axes.1.label", 3, r"axes\[1\].label is 3, not a string"),
        ("axes.1.properties", {"a": 1}, r"axes\[1\].properties.a is 1, not a string"),
        ("axes.1.functions.0.samples", "x", r"axes\[1\].functions\[0\].samples is 'x', not a list"),
        ("plants.0.id", None, r"plants\[0\].id is None, not a string"),
        ("image_size", [0, 5], "image_size must be positive"),
        ("image_size", [5], "image_size must be"),
        ("image_name", 5, "image_name is 5"),
        ("metadata", [], r"metadata is \[\], not an object"),
    ],
)
def test_errors_identify_the_key(tmp_path: Path, place: str, value: Any, message: str):
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(put(place, value)))
    with pytest.raises(FormatError, match=rf"^bad\.json: {message}") as caught:
        native_json.read(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("key", ["nodes", "edges"])
def test_nodes_and_edges_are_required(tmp_path: Path, key: str):
    document = put("version", 1)
    del document[key]
    (tmp_path / "bad.json").write_text(json.dumps(document))
    with pytest.raises(FormatError, match=f"{key} are missing"):
        native_json.read(tmp_path / "bad.json")


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_are_not_valid_json(tmp_path: Path, literal: str):
    text = json.dumps(put("nodes.3", ["HERE", 0])).replace('"HERE"', literal)
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(FormatError, match=rf"^bad\.json: contains {literal}"):
        native_json.read(tmp_path / "bad.json")


def test_a_number_beyond_the_largest_is_not_finite(tmp_path: Path):
    (tmp_path / "bad.json").write_text(json.dumps(put("nodes.3", ["HERE", 0])).replace('"HERE"', "1e999"))
    with pytest.raises(FormatError, match=r"node 3 .*finite"):
        native_json.read(tmp_path / "bad.json")
