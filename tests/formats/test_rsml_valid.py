"""RSML files that are valid by the schema: what is left out of them, when, and what the user is told."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from lxml import etree

import treeformer
from tests.formats.rsml_documents import HEAD, LIBERAL, SCHEMA, axis_lines, document, root, written
from treeformer import Skeleton
from treeformer.formats import FORMATS, LeftOutWarning
from treeformer.formats.rsml import reader as rsml

SPLINE = document(
    "<plant id='1'><root id='1.1' label='tap'><geometry><polyline><point x='0' y='0'/><point x='0' y='30'/></polyline>"
    "<rootnavspline tension='0.5'><point x='0' y='0'/></rootnavspline></geometry></root></plant>"
)
NOTE = '<annotation name="n"><point x="1" y="-.5" z="3."/><value>v</value><software>s</software></annotation>'


def is_valid(path: Path) -> bool:
    return bool(SCHEMA.validate(etree.parse(path)))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source.rsml"
    path.write_text(SPLINE)
    return path


@pytest.mark.parametrize(
    ("old", "new", "valid"),
    [
        ("", "", True),
        ("</geometry>", "<rootnavspline/></geometry>", False),
        ("</geometry>", "<rootnavspline xmlns='urn:x'/></geometry>", False),
        ("</root>", f"<annotations>{NOTE}</annotations></root>", True),
        ("</root>", "<annotations><note/></annotations></root>", False),
        ("</root>", "<annotations>text</annotations></root>", False),
        ("</plant>", f"<annotations>{NOTE}</annotations></plant>", True),
        ("<root id", "<properties><anything of='it'><inner/></anything></properties><root id", True),
        ("<root id", "<root color='red' id", False),
        ("<plant", "<legend/><plant", False),
    ],
)
def test_the_schema_allows_undeclared_elements_in_properties_only(old: str, new: str, valid: bool) -> None:
    text = document(f"<plant>{root((0, 0), (1, 1), id=1)}</plant>").replace(old, new, 1)
    assert SCHEMA.validate(etree.fromstring(text)) is valid


def test_a_new_file_is_valid_and_one_line_lists_what_was_left_out(source: Path, tmp_path: Path) -> None:
    assert not is_valid(source)
    skeleton = treeformer.read(source)
    with pytest.warns(LeftOutWarning) as caught:
        treeformer.write(skeleton, tmp_path / "new.rsml")
    assert [str(warning.message) for warning in caught] == [
        "new.rsml: elements that RSML does not allow were left out (rootnavspline); preserve=True keeps them"
    ]
    assert caught[0].filename == __file__
    assert is_valid(tmp_path / "new.rsml")
    again = treeformer.read(tmp_path / "new.rsml")
    assert axis_lines(again) == axis_lines(skeleton)
    assert (again.axes[0].id, again.axes[0].label) == ("1.1", "tap")


def test_the_source_file_and_preserve_keep_everything(source: Path, tmp_path: Path) -> None:
    skeleton = treeformer.read(source)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        treeformer.write(skeleton, tmp_path / "kept.rsml", preserve=True)
        for _ in range(2):  # the file was changed by the first time
            treeformer.write(skeleton.replace(image_name="plate.png"), source)
    for path in (source, tmp_path / "kept.rsml"):
        assert etree.parse(path).find(".//rootnavspline").get("tension") == "0.5"
    assert treeformer.read(source).image_name == "plate.png"


def test_another_file_that_is_overwritten_becomes_valid(source: Path, comb: Skeleton, tmp_path: Path) -> None:
    skeleton = treeformer.read(source)
    for content in ("not RSML", LIBERAL, document(f"<plant>{root((0, 0), (1, 1))}</plant>")):
        (tmp_path / "other.rsml").write_text(content)
        with pytest.warns(LeftOutWarning):
            treeformer.write(skeleton, tmp_path / "other.rsml")
        assert is_valid(tmp_path / "other.rsml")
    treeformer.write(comb, source)
    assert is_valid(source)


def test_smartroot_and_other_formats_keep_everything(source: Path, tmp_path: Path) -> None:
    skeleton = treeformer.read(source)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        treeformer.write(skeleton, tmp_path / "smartroot.rsml", format="rsml-smartroot")
        treeformer.write(skeleton, tmp_path / "native.json")
    assert etree.parse(tmp_path / "smartroot.rsml").find(".//rootnavspline") is not None
    assert treeformer.read(tmp_path / "native.json").axes == skeleton.axes
    assert [name for name, entry in FORMATS.items() if entry.write_valid] == ["rsml"]


def test_every_kind_of_content_that_is_not_allowed(tmp_path: Path) -> None:
    (tmp_path / "in.rsml").write_text(LIBERAL)
    skeleton = rsml.read(tmp_path / "in.rsml")
    assert rsml.write_valid(skeleton, tmp_path / "out.rsml") == (
        "@by",  # of a function, which itself is written
        "@color",
        "@made-by",
        "@sown",
        "@t",  # of points
        "annotation",  # it has no software
        "annotations",  # free text
        "camera",
        "captured",  # not a date
        "empty plant",
        "file-key",  # the second one
        "function",  # with a sample that is not a number
        "legend",
        "marker",
        "rootnavspline",
    )
    assert is_valid(tmp_path / "out.rsml")
    again = rsml.read(tmp_path / "out.rsml")
    assert axis_lines(again) == axis_lines(skeleton)
    assert [axis.functions for axis in again.axes] == [axis.functions for axis in skeleton.axes]
    plant = again.plant_records[0]
    assert (plant.properties, [record["xml"] for record in plant.metadata["rsml"]["unknown"]]) == (
        {"species": "Arabidopsis"},
        ['<trait unit="cm">4</trait>'],
    )
    for name in ("unit", "resolution", "last-modified", "time-sequence", "property-definitions"):
        assert again.metadata["rsml"][name] == skeleton.metadata["rsml"][name], "the spelling alone has changed"


def test_declared_annotations_are_written_in_their_place(tmp_path: Path) -> None:
    scene = f"<plant>{root((0, 0), (1, 1), inner=f'<annotations>{NOTE}{NOTE}</annotations>')}"
    (tmp_path / "in.rsml").write_text(document(f"{scene}<annotations>{NOTE}</annotations></plant>", HEAD))
    again = written(rsml.read(tmp_path / "in.rsml"), tmp_path / "out.rsml")
    tree = etree.parse(tmp_path / "out.rsml")
    assert len(tree.findall(".//root/annotations/annotation")) == 2
    assert len(tree.findall(".//plant/annotations/annotation")) == 1
    assert written(again, tmp_path / "third.rsml") == again
    moved = again.transform([(2, 0, 0), (0, 2, 0)])
    assert rsml.write_valid(moved, tmp_path / "moved.rsml") == (), "dropped because the points have changed"
    assert len(etree.parse(tmp_path / "moved.rsml").findall(".//annotation")) == 1
