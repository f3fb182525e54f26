"""Reading RSML: files of the datasets, and every spelling that the reader accepts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from lxml import etree

from tests.formats.rsml_documents import (
    LIBERAL,
    SCHEMA,
    axis_lines,
    document,
    lines_in_file,
    preserved,
    root,
    written,
)
from tests.growth import assert_less_than_quadratic
from treeformer import AxisFunction, Skeleton
from treeformer.formats.rsml import reader as rsml
from treeformer.formats.rsml.metadata import iso_date, normalize_scale


@pytest.fixture
def read_text(tmp_path: Path) -> Callable[[str], Skeleton]:
    def read(text: str) -> Skeleton:
        path = tmp_path / "file.rsml"
        path.write_text(text, encoding="utf-8")
        return rsml.read(path)

    return read


Reader = Callable[[str], Skeleton]


# ---- files of the datasets -----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "files", "plants", "empty", "disconnected"),
    [("osr-roots", 20, 20, 0, 0), ("barley-roots", 109, 302, 15, 3)],
)
def test_real_files(
    name: str,
    files: int,
    plants: int,
    empty: int,
    disconnected: int,
    real_data: Callable[[str], Path],
    tmp_path: Path,
) -> None:
    paths = sorted(real_data(name).rglob("*.rsml"))
    skeletons = [rsml.read(path) for path in paths]
    assert len(paths) == files
    assert sum(len(skeleton.plants) for skeleton in skeletons) == plants
    assert sum(skeleton.metadata["rsml"]["empty_plants"] for skeleton in skeletons) == empty
    assert sum(not plant.is_tree for skeleton in skeletons for plant in skeleton.plants) == disconnected
    for path, skeleton in zip(paths, skeletons, strict=True):
        assert skeleton.is_forest
        assert len(skeleton.plant_records) == len(skeleton.plants)
        assert axis_lines(skeleton) == lines_in_file(path)
        plain = [skeleton.metadata["rsml"], *(axis.metadata for axis in skeleton.axes)]
        assert json.loads(json.dumps(plain)) == plain
        again = tmp_path / "again.rsml"
        assert preserved(skeleton, again) == skeleton
        assert lines_in_file(again) == lines_in_file(path)
        assert axis_lines(preserved(skeleton, again, "smartroot")) == lines_in_file(path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "left_out"),
    [("osr-roots", {"rootnavspline"}), ("barley-roots", {"annotations", "empty plant", "rootnavspline"})],
)
def test_real_files_are_valid_when_written_to_a_new_file(
    name: str, left_out: set[str], real_data: Callable[[str], Path], tmp_path: Path
) -> None:
    found: set[str] = set()
    for path in sorted(real_data(name).rglob("*.rsml")):
        found.update(rsml.write_valid(rsml.read(path), tmp_path / "new.rsml"))
        SCHEMA.assertValid(etree.parse(tmp_path / "new.rsml"))
        assert lines_in_file(tmp_path / "new.rsml") == lines_in_file(path)
        new = rsml.read(tmp_path / "new.rsml")
        assert written(new, tmp_path / "third.rsml") == new
    assert found == left_out


# ---- topology -----------------------------------------------------------------------------------


def test_a_lateral_that_begins_at_a_point_of_its_parent_shares_the_node(read_text: Reader) -> None:
    lateral = root((0, 10), (5, 10))
    skeleton = read_text(document(f"<plant>{root((0, 0), (0, 10), (0, 20), inner=lateral)}</plant>"))
    assert [axis.nodes for axis in skeleton.axes] == [(0, 1, 2), (1, 3)]
    assert skeleton.is_tree
    assert skeleton.edge_axis.tolist() == [0, 0, 1]
    assert skeleton.axes[1].parent == 0
    assert skeleton.root == 0


def test_a_lateral_off_the_line_gets_a_junction_on_no_axis(read_text: Reader) -> None:
    laterals = root((2, 4), (5, 4)) + root((-3, 6), (-9, 6))
    skeleton = read_text(document(f"<plant>{root((0, 0), (0, 10), inner=laterals)}</plant>"))
    assert skeleton.is_tree
    assert len(skeleton) == 8
    assert [len(axis.nodes) for axis in skeleton.axes] == [2, 2, 2]
    on_axes = {node for axis in skeleton.axes for node in axis.nodes}
    np.testing.assert_allclose(skeleton.nodes[sorted(set(range(8)) - on_axes)], [[0, 4], [0, 6]])
    np.testing.assert_allclose(np.bincount(skeleton.edge_axis, weights=skeleton.edge_length), [10, 5, 9])


def test_roots_of_one_plant_share_equal_first_points_only(read_text: Reader) -> None:
    star = root((5, 5), (0, 9)) + root((5, 5), (9, 9)) + root((6, 5), (20, 9))
    skeleton = read_text(document(f"<plant>{star}</plant><plant>{root((5, 5), (5, 9))}</plant>"))
    assert skeleton.roots.tolist() == [0, 3, 5]
    assert skeleton.plant is not None
    assert skeleton.plant.tolist() == [0, 0, 0, 0, 0, 1, 1]
    assert [plant.length for plant in skeleton.plants] == pytest.approx([41**0.5 + 32**0.5 + 212**0.5, 4])


def test_repeated_points_are_kept(read_text: Reader, tmp_path: Path) -> None:
    skeleton = read_text(document(f"<plant>{root((1, 1), (1, 1), (2, 2), (1, 1))}</plant>"))
    assert skeleton.axes[0].nodes == (0, 1, 2, 3)
    assert skeleton.is_tree
    assert written(skeleton, tmp_path / "again.rsml") == skeleton


def test_a_shared_node_has_the_radius_of_the_first_axis(read_text: Reader) -> None:
    def diameters(*values: float) -> str:
        samples = "".join(f'<sample value="{value}"/>' for value in values)
        return f'<functions><function name="diameter" domain="polyline">{samples}</function></functions>'

    lateral = root((0, 10), (5, 10), inner=diameters(3, 2))
    skeleton = read_text(document(f"<plant>{root((0, 0), (0, 10), inner=diameters(8, -6) + lateral)}</plant>"))
    np.testing.assert_array_equal(skeleton.radius, [4, np.nan, 1])  # a negative diameter is invalid


def test_zero_has_no_sign(read_text: Reader, tmp_path: Path) -> None:
    skeleton = read_text(document(f"<plant>{root(('-0.0', 0), (1, 1), inner='<other/>')}</plant>"))
    assert not np.signbit(skeleton.nodes).any()
    assert preserved(skeleton, tmp_path / "again.rsml") == skeleton


def test_roots_of_one_point_and_of_none(read_text: Reader, tmp_path: Path) -> None:
    child = root((3, 3), (4, 4), id="child")
    spot = root((7, 1), id="spot", inner=f'<root id="none"><properties><a>1</a></properties>{child}</root>')
    skeleton = read_text(document(f"<plant>{root((0, 0), (9, 0), inner=spot)}</plant><plant><root/></plant>"))
    assert [axis.id for axis in skeleton.axes] == ["", "spot", "child"]
    assert [axis.parent for axis in skeleton.axes] == [None, 0, 1]
    assert skeleton.is_tree
    assert skeleton.metadata["rsml"]["empty_plants"] == 1
    again = preserved(skeleton, tmp_path / "again.rsml")
    assert again.axes[1].nodes == skeleton.axes[1].nodes
    assert axis_lines(again) == [[(0, 0), (9, 0)], [(7, 1)], [(3, 3), (4, 4)]]
    kept = '<root id="none"><properties><a>1</a></properties></root>'
    assert again.axes[1].metadata["rsml"]["unknown"] == [{"of": "root", "xml": kept}]
    assert preserved(again, tmp_path / "third.rsml") == again
    assert rsml.write_valid(skeleton, tmp_path / "valid.rsml") == ("empty plant", "empty root")
    assert axis_lines(rsml.read(tmp_path / "valid.rsml")) == axis_lines(skeleton)


# ---- spellings that the reader accepts ------------------------------------------------------------------


def test_every_spelling_is_read(read_text: Reader) -> None:
    skeleton = read_text(LIBERAL)
    head = skeleton.metadata["rsml"]
    assert skeleton.image_name == "plate 7.tif"
    assert rsml.resolution_px_per_mm(skeleton) == pytest.approx(300.5 / 25.4)
    assert (head["version"], head["unit"], head["resolution"]) == ("1", "inch", "300.5")
    assert (head["last-modified"], head["software"]) == ("2024-06-26T17:51:29", "RootNav")
    assert (head["user"], head["file-key"]) == ("me", "key")
    assert head["property-definitions"] == [{"label": "length", "type": "float", "unit": "cm"}]
    assert head["time-sequence"] == {"label": "run 7", "index": 3, "unified": True}
    assert head["image"] == {"sha256": "ab12"}
    assert head["empty_plants"] == 1
    plant = skeleton.plant_records[0]
    assert (plant.id, plant.label, plant.properties) == ("p", "Col-0 <wild>", {"species": "Arabidopsis"})
    tap, second, third = skeleton.axes
    assert [axis.id for axis in skeleton.axes] == ["a", "b", ""]
    assert [axis.accession for axis in skeleton.axes] == ["PO:0020127", "PO:0020121", "x"]
    assert axis_lines(skeleton) == [[(0, 0), (0, 20)], [(0, 20), (7.5, 30)], [(0, 10), (-4.25, 10)]]
    assert tap.properties == {"complete": "true"}
    assert tap.functions == (
        AxisFunction("diameter", (4.0, 2.5)),
        AxisFunction("confidence", (0.001,), "length", "tip", (3.0,)),
        AxisFunction("noted", (1.0,), "uniform"),
    )
    assert skeleton.radius is not None
    np.testing.assert_array_equal(skeleton.radius[list(tap.nodes)], [2, 1.25])
    assert np.isnan(skeleton.radius[list(third.nodes)]).all()
    assert second.metadata["rsml"]["z"] == [None, 1.5]


def test_unknown_nodes_are_kept_and_written_back(read_text: Reader, tmp_path: Path) -> None:
    skeleton = read_text(LIBERAL)
    of_file = [
        (record["of"], record.get("xml", record.get("attribute"))) for record in skeleton.metadata["rsml"]["unknown"]
    ]
    assert of_file == [
        ("image", "<captured>some day</captured>"),
        ("metadata", "<file-key>second</file-key>"),
        ("metadata", '<camera model="X"><lens>50</lens></camera>'),
        ("metadata", "<unit>Inches</unit>"),
        ("metadata", "<resolution>300,5</resolution>"),
        ("metadata", "<last-modified>26/06/2024 17:51:29</last-modified>"),
        ("rsml", "made-by"),
        ("scene", '<plant id="dead" />'),
        ("scene", "<legend />"),
    ]
    of_plant = [
        record.get("xml", record.get("value")) for record in skeleton.plant_records[0].metadata["rsml"]["unknown"]
    ]
    assert of_plant == ["May", "<annotations>free text</annotations>", '<trait unit="cm">4</trait>']
    tap = skeleton.axes[0].metadata["rsml"]["unknown"]
    assert [(record["of"], record["xml"].split()[0].rstrip("/>").split(">")[0]) for record in tap] == [
        ("annotations", "<annotation"),
        ("functions", "<function"),
        ("functions", "<function"),
        ("geometry", "<rootnavspline"),
        ("properties", "<complete"),
        ("root", "<marker"),
    ]
    third = skeleton.axes[2].metadata["rsml"]["unknown"]
    assert [record["of"] for record in third] == ["polyline", "root"]
    assert 't="2"' in third[0]["xml"]
    again = preserved(skeleton, tmp_path / "again.rsml")
    assert again == skeleton
    tree = etree.parse(tmp_path / "again.rsml")
    assert [shape.tag for shape in tree.find(".//geometry")] == ["polyline", "rootnavspline"]
    assert tree.find(".//root/annotations/annotation/value").text == "v"


def test_missing_metadata(read_text: Reader) -> None:
    skeleton = read_text(f"<rsml><scene><plant>{root((0, 0), (1, 1))}</plant></scene></rsml>")
    assert skeleton.metadata == {"rsml": {"version": "1", "unit": "pixel", "resolution": "1", "empty_plants": 0}}
    assert rsml.resolution_px_per_mm(skeleton) is None
    assert rsml.resolution_px_per_mm(Skeleton([], [])) is None


def test_a_default_namespace_and_utf_16_are_read(tmp_path: Path) -> None:
    text = document(f"<plant>{root((0, 0), (1, 1), label='Wurzel ä')}</plant>")
    path = tmp_path / "Wurzel äöü 1.rsml"
    path.write_text(
        "<?xml version='1.0' encoding='utf-16'?>" + text.replace("<rsml>", '<rsml xmlns="urn:x">'), "utf-16"
    )
    assert rsml.read(path).axes[0].label == "Wurzel ä"
    assert rsml.looks_like(path.read_bytes()[:4096])


@pytest.mark.parametrize(
    ("unit", "resolution", "px_per_mm"),
    [
        ("m", "1000", 1.0),
        ("cm", "118.11", 11.811),
        ("mm", "11,8", 11.8),
        ("um", "0.01", 10.0),
        ("µm", "0.01", 10.0),
        ("nm", "1e-6", 1.0),
        ("inch", "254", 10.0),
        ("cm", "300 dpi", 300 / 25.4),
        ("pixel", "300DPI", 300 / 25.4),
        ("pixel", "1", None),
        ("pixel", "xxx dpi", None),
        ("mm", "", None),
        ("mm", "nan", None),
        ("mm", "0", None),
        ("mm", "-3", None),
        ("mm", "1e-200", None),
        ("mm", "1e200", None),
        ("furlong", "3", None),
        ("", "3", None),
    ],
)
def test_resolution(unit: str, resolution: str, px_per_mm: float | None, read_text: Reader) -> None:
    head = f"<unit>{unit}</unit><resolution>{resolution}</resolution>"
    skeleton = read_text(document(f"<plant>{root((0, 0), (1, 1))}</plant>", head))
    assert rsml.resolution_px_per_mm(skeleton) == (None if px_per_mm is None else pytest.approx(px_per_mm))
    normal = skeleton.metadata["rsml"]
    assert normalize_scale(normal["unit"], normal["resolution"]) == (normal["unit"], normal["resolution"])


@pytest.mark.parametrize(
    ("text", "iso"),
    [
        ("2018-03-14T12:49:11", "2018-03-14T12:49:11"),
        ("2018-03-14", "2018-03-14T00:00:00"),
        ("2018-03-14T12:49:11Z", "2018-03-14T12:49:11+00:00"),
        ("6/20/2024 6:03:01 PM", "2024-06-20T18:03:01"),
        ("21/06/2024 20:08:10", "2024-06-21T20:08:10"),
        ("2018-03-14T12:49:11+15:00", None),
        ("today", None),
        ("", None),
    ],
)
def test_dates(text: str, iso: str | None) -> None:
    assert iso_date(text) == iso


@pytest.mark.parametrize(
    ("head", "is_rsml"),
    [
        (b"<rsml>", True),
        (b"\xef\xbb\xbf<?xml version='1.0'?>\n<!-- c --><!DOCTYPE rsml>\n<rsml xmlns:po='x'>", True),
        (b"<rsml/>", True),
        (b"<r:rsml>", True),
        (b"<rsmlx>", False),
        (b"<file><rsml>", False),
        (b"<!-- <rsml> --><svg>", False),
        (b"{}", False),
        (b"", False),
        (b" " * 4096, False),
    ],
)
def test_looks_like(head: bytes, is_rsml: bool) -> None:
    assert rsml.looks_like(head) is is_rsml


# ---- speed --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_time_grows_less_than_quadratically(tmp_path: Path) -> None:
    path = tmp_path / "large.rsml"

    def read_and_write(laterals: int) -> Callable[[], object]:
        inner = "".join(root(*((x + 0.5, y + 0.25) for x in range(100)), id=y) for y in range(laterals))
        path.write_text(document(f"<plant>{root((0, 0), (0, 250), (0, 500), inner=inner)}</plant>"))
        return lambda: rsml.write(rsml.read(path), tmp_path / "again.rsml")

    assert_less_than_quadratic(read_and_write, 40)
    assert len(rsml.read(path).axes) == 8 * 40 + 1
