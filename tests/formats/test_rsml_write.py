"""Writing RSML: valid by the schema, exact, and compatible with other programs."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from xml.dom import minidom

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

import treeformer
from tests.formats.rsml_documents import METADATA, SCHEMA, preserved, written
from treeformer import Axis, AxisFunction, FormatError, Skeleton
from treeformer.formats.rsml import metadata as rsml_metadata
from treeformer.formats.rsml import reader as rsml
from treeformer.formats.rsml.metadata import decimal_text

# ---- default values --------------------------------------------------------------------------


def test_a_skeleton_without_metadata_gets_default_metadata(comb: Skeleton, tmp_path: Path) -> None:
    rsml.write(comb.replace(image_name="plate.png"), tmp_path / "comb.rsml")
    tree = etree.parse(tmp_path / "comb.rsml")
    head = {element.tag: element.text for element in tree.find("metadata")}
    assert list(head)[:7] == ["version", "unit", "resolution", "last-modified", "software", "user", "file-key"]
    assert all(head[name].strip() for name in list(head)[:7])
    assert (head["unit"], head["resolution"], head["software"]) == ("pixel", "1", "treeformer")
    assert head["file-key"] == tree.findtext("metadata/image/name") == "plate.png"
    assert [root.get("id") for root in tree.iter("root")] == ["1.1", "1.1.1", "1.1.2", "1.1.3"]
    assert rsml.read(tmp_path / "comb.rsml").image_name == "plate.png"


@pytest.mark.parametrize("note", [{"unit": "mm", "resolution": "4"}, {"software": "treeformer 1; model default"}])
def test_a_scale_or_a_software_alone_does_not_make_a_file_of_another_program(comb, tmp_path, note) -> None:
    """Predictions and the editor add these; the axes still get identifiers and accessions."""
    explicit = comb.replace(axes=comb.axes, edge_axis=comb.edge_axis)
    rsml.write(explicit.replace(metadata={"rsml": note}), tmp_path / "comb.rsml")
    tree = etree.parse(tmp_path / "comb.rsml")
    assert [root.get("id") for root in tree.iter("root")] == ["1.1", "1.1.1", "1.1.2", "1.1.3"]
    assert all(root.get("accession") for root in tree.iter("root"))
    for name, value in note.items():
        assert tree.findtext(f"metadata/{name}") == value


def test_radii_become_a_diameter_if_all_of_an_axis_are_known(comb: Skeleton, tmp_path: Path) -> None:
    radius = np.array([1, 2, 3, 4, 5, 0.5, np.nan, 0.25])
    again = written(comb.replace(radius=radius), tmp_path / "comb.rsml")
    assert [[f.name for f in axis.functions] for axis in again.axes] == [["diameter"], ["diameter"], [], ["diameter"]]
    assert again.axes[0].functions == (AxisFunction("diameter", (2, 4, 6, 8, 10), "polyline", "base"),)
    np.testing.assert_array_equal(np.sort(again.radius), np.sort(radius))


def test_the_diameter_of_a_lateral_does_not_apply_to_its_parent(tmp_path: Path) -> None:
    """Both nodes of the parent have a radius, but it belongs to the laterals that begin there."""
    thin = (AxisFunction("diameter", (1, 1)),)
    axes = [Axis((0, 1)), Axis((0, 2), parent=0, functions=thin), Axis((1, 3), parent=0, functions=thin)]
    nodes, edges = [(0, 0), (0, 9), (5, 0), (5, 9)], [(0, 1), (0, 2), (1, 3)]
    skeleton = Skeleton(nodes, edges, root=0, axes=axes, edge_axis=[0, 1, 2], radius=[0.5] * 4)
    assert [len(axis.functions) for axis in written(skeleton, tmp_path / "a.rsml").axes] == [0, 1, 1]


def test_scores_become_a_confidence_if_none_is_given(comb: Skeleton, tmp_path: Path) -> None:
    scored = comb.replace(edge_score=[0.5, 0.7, 0.9, 0.7, 0.25, 1, 3])
    again = written(scored, tmp_path / "comb.rsml")
    found = [axis.properties.get("software-confidence") for axis in again.axes]
    assert [None if text is None else float(text) for text in found] == [pytest.approx(0.7), 0.25, 1, None]
    by_node = written(comb.replace(node_score=[0.5] * 8), tmp_path / "comb.rsml")
    assert {axis.properties["software-confidence"] for axis in by_node.axes} == {"0.5"}
    explicit = [replace(axis, properties={"software-confidence": "1"}) for axis in scored.axes]
    kept = written(scored.replace(axes=explicit, edge_axis=scored.edge_axis), tmp_path / "comb.rsml")
    assert {axis.properties["software-confidence"] for axis in kept.axes} == {"1"}


@pytest.mark.parametrize("dialect", ["strict", "smartroot"])
def test_a_plant_of_one_node_is_a_root_with_its_point_twice(
    comb: Skeleton, tmp_path: Path, dialect: rsml_metadata.Dialect
) -> None:
    nodes = [*comb.nodes.tolist(), (99, 98), (7, 97)]
    scores = {"node_score": [0.5] * 8 + [0.75, 0.25], "edge_score": [1.0] * 7, "radius": [1.0] * 9 + [3.0]}
    path = tmp_path / "comb.rsml"
    rsml.write(Skeleton(nodes, comb.edges, root=[0, 8, 9], **scores), path, dialect=dialect)  # type: ignore[arg-type]
    text = "".join(path.read_text().split())
    assert text.count('<pointx="99"y="98"/><pointx="99"y="98"/>') == 1
    assert text.count('<samplevalue="6"/><samplevalue="6"/>') == 1, "SmartRoot pairs points and samples"
    again = rsml.read(path)
    assert len(again) == len(nodes)
    assert [len(plant) for plant in again.plants] == [1, 8, 1], "from left to right"
    isolated = [again.axes[0], again.axes[-1]]
    assert [again.nodes[axis.nodes[0]].tolist() for axis in isolated] == [[7, 97], [99, 98]]
    assert again.radius is not None
    assert again.radius[isolated[0].nodes[0]] == 3
    assert [axis.properties["software-confidence"] for axis in isolated] == ["0.25", "0.75"]
    assert written(again, tmp_path / "again.rsml") == again


def test_two_points_that_differ_in_anything_are_two_nodes(comb: Skeleton, tmp_path: Path) -> None:
    rsml.write(Skeleton([(1, 2)], []), tmp_path / "spot.rsml")
    text = (tmp_path / "spot.rsml").read_text()
    point = '<point x="1" y="2"/>'
    samples = '<functions><function name="diameter" domain="polyline">{}</function></functions>'
    for changed, count in (
        (text, 1),
        (text.replace(point, f"{point}{point}"), 4),
        (text.replace(point, '<point x="1" y="2" z="3"/>'), 1),
        (text.replace(point, '<point x="1" y="2" z="3"/>', 1), 2),
        (text.replace("</geometry>", "</geometry>" + samples.format('<sample value="4"/>' * 2)), 1),
        (text.replace("</geometry>", "</geometry>" + samples.format('<sample value="4"/><sample value="5"/>')), 2),
    ):
        (tmp_path / "changed.rsml").write_text(changed)
        read = rsml.read(tmp_path / "changed.rsml")
        assert len(read) == count
        assert written(read, tmp_path / "again.rsml") == read


def test_edges_without_an_axis_are_written(y_shape: Skeleton, tmp_path: Path) -> None:
    partly = y_shape.replace(axes=[Axis((0, 1, 2), id="stem")], edge_axis=[0, 0, -1])
    again = written(partly, tmp_path / "y.rsml")
    assert again.length == y_shape.length
    assert [axis.parent for axis in again.axes].count(None) == 1


def test_an_axis_without_nodes_is_ignored(y_shape: Skeleton, tmp_path: Path) -> None:
    axes = [Axis((0, 1, 2), id="stem"), Axis((), id="none", parent=0), Axis((1, 3), id="arm", parent=1)]
    again = written(y_shape.replace(axes=axes, edge_axis=[0, 0, 2]), tmp_path / "y.rsml")
    assert [(axis.id, axis.parent) for axis in again.axes] == [("stem", None), ("arm", 0)]


# ---- preserved geometry is omitted if the points have changed ---------------------------------


def test_preserved_geometry_is_written_only_with_unchanged_points(tmp_path: Path) -> None:
    path = tmp_path / "spline.rsml"
    path.write_text(
        "<rsml><scene><plant><root><geometry><polyline><point x='0' y='0' z='1'/><point x='0' y='30' z='2'/></polyline>"
        "<rootnavspline><point x='0' y='0'/></rootnavspline></geometry><annotations><note/></annotations>"
        "<other/></root></plant></scene></rsml>"
    )
    skeleton = rsml.read(path)
    for changed, is_kept in (
        (skeleton, True),
        (skeleton.transform([(1, 0, 0), (0, 1, 0)]), True),
        (skeleton.transform([(2, 0, 0), (0, 2, 0)]), False),
        (skeleton.resample(8), False),
    ):
        rsml.write(changed, path)
        text = path.read_text()
        assert all((part in text) is is_kept for part in ("<rootnavspline", "<note", 'z="2"'))
        assert "<other" in text


# ---- requirements of other programs ---------------------------------------------------------------


@pytest.fixture
def measured(comb: Skeleton) -> Skeleton:
    return comb.replace(
        radius=np.arange(8.0),
        metadata={"rsml": METADATA},
        axes=[replace(a, label="x") for a in comb.axes],
        edge_axis=comb.edge_axis,
    )


def test_archidart_and_schema_order(measured: Skeleton, tmp_path: Path) -> None:
    positioned = AxisFunction("confidence", (0.5,), "length", "base", (3.0,))
    axes = [replace(axis, label="", functions=(positioned,), metadata={}) for axis in measured.axes]
    rsml.write(measured.replace(axes=axes), tmp_path / "a.rsml")
    tree = etree.parse(tmp_path / "a.rsml")
    assert {child.tag for child in tree.find("scene")} == {"plant"}
    assert all(list(point.attrib)[:2] == ["x", "y"] for point in tree.iter("point"))
    assert all(next(iter(sample.attrib)) == "value" for sample in tree.iter("sample"))
    assert all(root.attrib for root in tree.iter("root"))
    assert {function.get("name") for function in tree.iter("function")} == {"confidence", "diameter"}


def test_smartroot_can_pair_points_and_samples(measured: Skeleton, tmp_path: Path) -> None:
    rsml.write(measured, tmp_path / "s.rsml", dialect="smartroot")
    document = minidom.parse(str(tmp_path / "s.rsml"))
    assert document.firstChild is document.documentElement
    metadata = document.getElementsByTagName("metadata")[0]
    head = {
        child.nodeName: child.firstChild.nodeValue
        for child in metadata.childNodes
        if child.nodeType == child.ELEMENT_NODE
    }
    assert head["unit"] == "inch"
    assert float(head["resolution"]) == pytest.approx(11.8 * 25.4)
    assert head["software"] != "RootNav"
    diameters = []
    for root in document.getElementsByTagName("root"):
        assert root.hasAttribute("ID") or root.hasAttribute("label")
        assert root.getAttribute("po:accession") in ("PO:0020127", "PO:0020121")
        point = root.getElementsByTagName("polyline")[0].firstChild
        sample = root.getElementsByTagName("function")[0].firstChild
        while point is not None:
            assert (point.nodeName, sample.nodeName) == ("point", "sample")
            diameters.append(float(sample.getAttribute("value")))
            point, sample = point.nextSibling, sample.nextSibling
        assert sample is None
    assert measured.radius is not None
    assert diameters == [2 * measured.radius[node] for axis in measured.axes for node in axis.nodes]


def test_smartroot_gets_a_default_resolution(comb: Skeleton, tmp_path: Path) -> None:
    rsml.write(comb, tmp_path / "s.rsml", dialect="smartroot")
    tree = etree.parse(tmp_path / "s.rsml")
    assert (tree.findtext("metadata/unit"), tree.findtext("metadata/resolution")) == ("inch", "72")
    again = treeformer.read(tmp_path / "s.rsml")
    assert rsml_metadata.resolution_px_per_mm(again) is None, "lengths do not become millimeters"
    assert again.metadata["rsml"]["software"] == "treeformer"
    assert set(treeformer.measure(again)["unit"]) == {"px"}


def test_smartroot_keeps_a_scale_of_72_dpi(comb: Skeleton, tmp_path: Path) -> None:
    scanned = comb.replace(metadata={"rsml": {"unit": "inch", "resolution": "72"}})
    rsml.write(scanned, tmp_path / "s.rsml", dialect="smartroot")
    assert set(treeformer.measure(treeformer.read(tmp_path / "s.rsml"))["unit"]) == {"mm"}


# ---- no plants ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", ["strict", "smartroot"])
def test_an_empty_skeleton_is_a_scene_without_plants(tmp_path: Path, dialect: rsml_metadata.Dialect) -> None:
    path = tmp_path / "bare soil.rsml"
    scored = Skeleton([], [], node_score=[], edge_score=[], radius=[], image_name="bare soil.png", image_size=(9, 9))
    again = preserved(scored, path, dialect)
    assert (len(again), again.image_name) == (0, "bare soil.png")
    assert len(etree.parse(path).find("scene")) == 0
    assert preserved(again, path, dialect) == again
    assert len(written(scored, path)) == 0


def test_a_file_whose_plants_have_no_roots_keeps_its_content(tmp_path: Path) -> None:
    path = tmp_path / "dead.rsml"
    path.write_text(
        '<rsml by="me"><metadata><camera/></metadata><scene day="3"><plant id="dead"/><legend/></scene></rsml>'
    )
    skeleton = rsml.read(path)
    assert len(skeleton) == 0
    again = preserved(skeleton, tmp_path / "again.rsml")
    records = skeleton.metadata["rsml"]["unknown"]
    assert (len(records), again.metadata["rsml"]["unknown"]) == (5, records)
    assert again.metadata["rsml"]["empty_plants"] == 1
    assert preserved(again, tmp_path / "third.rsml") == again
    left_out = rsml.write_valid(skeleton, tmp_path / "valid.rsml")
    assert left_out == ("@by", "@day", "camera", "empty plant", "legend")
    SCHEMA.assertValid(etree.parse(tmp_path / "valid.rsml"))


# ---- errors -------------------------------------------------------------------------------------


def deep(order: int) -> Skeleton:
    """Return a chain of axes, each the lateral of the previous one."""
    nodes = [(k, k) for k in range(order + 2)]
    edges = [(k, k + 1) for k in range(order + 1)]
    axes = [Axis((k, k + 1), parent=k - 1 if k else None) for k in range(order + 1)]
    return Skeleton(nodes, edges, root=0, axes=axes, edge_axis=range(order + 1))  # type: ignore[arg-type]


def test_the_deepest_axes_that_can_be_read_can_be_written(tmp_path: Path) -> None:
    rsml.write(deep(243), tmp_path / "deep.rsml")
    assert len(rsml.read(tmp_path / "deep.rsml").axes) == 244
    with pytest.raises(FormatError, match="order above 243"):
        rsml.write(deep(244), tmp_path / "deep.rsml")


def test_skeletons_that_rsml_cannot_represent_leave_no_file(ring: Skeleton, comb: Skeleton, tmp_path: Path) -> None:
    path = tmp_path / "none.rsml"
    axes, edge_axis = list(comb.axes), comb.edge_axis
    wrong_function = replace(axes[0], functions=(AxisFunction("diameter", (float("nan"),)),))
    wrong_text = replace(axes[0], label="a\x00b")
    for skeleton, expected in (
        (ring, "lies on a cycle"),
        (
            comb.replace(axes=[wrong_function, *axes[1:]], edge_axis=edge_axis),
            "cannot represent the function 'diameter'",
        ),
        (comb.replace(axes=[wrong_text, *axes[1:]], edge_axis=edge_axis), "XML cannot represent the character"),
        (comb.replace(metadata={"rsml": {"unknown": [{"of": "scene", "xml": "<a>"}]}}), "is not an XML element"),
        (comb.replace(metadata={"rsml": {"unknown": [{"of": "scene", "xml": "<a/></x>"}]}}), "is not an XML element"),
        (
            comb.replace(metadata={"rsml": {"unknown": [{"of": "scene", "xml": "<?xml version='1.0'?><a/>"}]}}),
            "is not an",
        ),
        (comb.replace(metadata={"rsml": {"time-sequence": "soon"}}), "the metadata under 'rsml'"),
    ):
        with pytest.raises(FormatError) as error:
            rsml.write(skeleton, path)
        assert str(error.value).startswith("none.rsml: ")
        assert expected in str(error.value)
        assert "\n" not in str(error.value)
        assert list(tmp_path.iterdir()) == []


def test_an_unknown_dialect(comb: Skeleton, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"^a\.rsml: RSML is written as strict or smartroot, not 'dart'"):
        rsml.write(comb, tmp_path / "a.rsml", dialect="dart")  # type: ignore[arg-type]


def test_metadata_survives_json(comb: Skeleton, tmp_path: Path) -> None:
    """The metadata are plain values: a round trip through JSON gives the same file."""
    rsml.write(comb, tmp_path / "a.rsml")
    skeleton = rsml.read(tmp_path / "a.rsml")
    restored = skeleton.replace(metadata=json.loads(json.dumps(dict(skeleton.metadata))))
    rsml.write(restored, tmp_path / "b.rsml")
    assert (tmp_path / "a.rsml").read_bytes() == (tmp_path / "b.rsml").read_bytes()


@given(value=st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_are_exact_and_without_exponent(value: float) -> None:
    assert float(decimal_text(value)) == value
    assert re.fullmatch(r"-?\d+(\.\d+)?", decimal_text(value))
