"""Conversion of files and folders: outputs, failures of single files, and protection from overwriting."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from tests.formats.rsml_documents import SCHEMA
from treeformer import FormatError, Skeleton
from treeformer.formats import FORMATS, read, write
from treeformer.formats.convert import convert

WRITTEN = [name for name, entry in FORMATS.items() if entry.write is not None]


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("to", WRITTEN)
@pytest.mark.parametrize("from_", WRITTEN)
def test_every_format_into_every_other(tmp_path: Path, y_shape: Skeleton, from_: str, to: str):
    source = tmp_path / f"in put{FORMATS[from_].suffixes[0]}"
    target = tmp_path / "new folder" / f"öut{FORMATS[to].suffixes[0]}"
    write(y_shape, source, format=from_)
    report = convert(source, target, to=to)
    assert report.failures == ()
    assert report.written == (target,)
    assert read(target, format=to).length == pytest.approx(14)


def test_a_file_into_a_folder(tmp_path: Path, y_shape: Skeleton):
    write(y_shape, tmp_path / "a b.rsml")
    (tmp_path / "existing").mkdir()
    for folder in ("existing", "new"):
        report = convert(tmp_path / "a b.rsml", tmp_path / folder, to="swc")
        assert report.written == (tmp_path / folder / "a b.swc",)


@pytest.fixture
def folder(tmp_path: Path, y_shape: Skeleton) -> Path:
    """A folder with files of several formats, an image, a settings file and a truncated file."""
    folder = tmp_path / "in"
    write(y_shape, folder / "one.rsml")
    write(y_shape, folder / "sub" / "zwölf.swc")
    write(y_shape, folder / "sub" / "deeper" / "three.json", format="labelme")
    (folder / "image.png").write_bytes(b"\x89PNG")
    (folder / "settings.json").write_text('{"threshold": 1}')
    (folder / "sub" / "broken.json").write_text('{"nodes": [')
    (folder / "sub" / "cycle.swc").write_text("1 0 0 0 0 1 2\n2 0 0 0 0 1 1\n")
    (folder / ".hidden.swc").write_text("nothing")
    return folder


def test_a_folder(folder: Path, tmp_path: Path):
    steps: list[tuple[int, int]] = []
    report = convert(folder, tmp_path / "out", to="json", progress=lambda done, total: steps.append((done, total)))
    assert names(tmp_path / "out") == ["one.json", "sub/deeper/three.json", "sub/zwölf.json"]
    assert sorted(report.written) == [tmp_path / "out" / name for name in names(tmp_path / "out")]
    assert [line.split(": ")[0] for line in report.failures] == ["sub/broken.json", "sub/cycle.swc"]
    assert report.failures[1] == "sub/cycle.swc: line 1: the node is its own ancestor"
    assert report.skipped == 2
    assert steps == [(done, 6) for done in range(1, 7)]


def test_a_folder_of_one_format(folder: Path, tmp_path: Path):
    report = convert(folder, tmp_path / "out", to="json", from_="swc")
    assert names(tmp_path / "out") == ["sub/zwölf.json"]
    assert len(report.failures) == 1


def test_a_target_within_the_source_is_not_read_the_second_time(folder: Path):
    (folder / "sub" / "broken.json").unlink()
    (folder / "sub" / "cycle.swc").unlink()
    for _ in range(2):
        report = convert(folder, folder / "out", to="swc")
        assert report.failures == ()
        assert names(folder / "out") == ["one.swc", "sub/deeper/three.swc", "sub/zwölf.swc"]


def test_one_file_per_name_is_converted(tmp_path: Path, y_shape: Skeleton, comb: Skeleton):
    """`treeformer predict --format rsml --format coco` writes such folders."""
    source = tmp_path / "in"
    write(y_shape, source / "a.json")
    for name in ("a.coco.json", "a.geojson", "a.rsml", "a.swc"):
        write(comb, source / name, format="coco" if "coco" in name else None)
    write(y_shape, source / "b.rsml")
    write(comb, source / "b.csv")
    write(comb, source / "sub" / "a.swc")  # another folder, another skeleton
    write(comb, source / "2024.05.json")
    write(comb, source / "2024.06.rsml")
    report = convert(source, tmp_path / "out", to="swc")
    assert report.failures == ()
    assert names(tmp_path / "out") == ["2024.05.swc", "2024.06.swc", "a.swc", "b.swc", "sub/a.swc"]
    assert [len(read(tmp_path / "out" / f"{name}.swc")) for name in "ab"] == [len(y_shape)] * 2
    assert report.preferred == {"json": 1, "rsml": 1}
    assert report.passed_over == {"rsml": 1, "swc": 1, "geojson": 1, "coco": 1, "csv": 1}
    assert (report.skipped, len(report.written)) == (0, 5)


def test_the_suffix_decides_among_formats_as_in_all_commands(tmp_path: Path, y_shape: Skeleton, comb: Skeleton):
    write(comb, tmp_path / "in" / "a.json", format="labelme")
    write(y_shape, tmp_path / "in" / "a.rsml")
    report = convert(tmp_path / "in", tmp_path / "out", to="json")
    assert (report.failures, report.preferred, report.passed_over) == ((), {"labelme": 1}, {"rsml": 1})
    assert len(read(tmp_path / "out" / "a.json")) == len(comb)


def test_only_the_same_skeleton_is_passed_over(tmp_path: Path, y_shape: Skeleton):
    """A broken file is reported, a settings file is skipped, and a file of many images is converted."""
    source = tmp_path / "in"
    for name in ("broken", "settings", "set"):
        write(y_shape, source / f"{name}.rsml")
    (source / "broken.json").write_text('{"nodes": [')
    (source / "settings.json").write_text('{"threshold": 1}')
    many(source / "set.json", "one.jpg", "two.jpg")
    report = convert(source, tmp_path / "out", to="swc")
    assert names(tmp_path / "out") == ["broken.swc", "one.swc", "set.swc", "settings.swc", "two.swc"]
    assert [line.split(": ")[0] for line in report.failures] == ["broken.json"]
    assert (report.skipped, report.passed_over) == (1, {})


def test_a_single_file_is_converted_whatever_is_beside_it(tmp_path: Path, y_shape: Skeleton, comb: Skeleton):
    write(y_shape, tmp_path / "a.json")
    write(comb, tmp_path / "a.rsml")
    report = convert(tmp_path / "a.rsml", tmp_path / "out", to="swc")
    assert (report.failures, report.passed_over) == ((), {})
    assert len(read(tmp_path / "out" / "a.swc")) == len(comb)


def test_no_input_is_overwritten(tmp_path: Path, y_shape: Skeleton, comb: Skeleton):
    write(y_shape, tmp_path / "a.rsml")
    write(comb, tmp_path / "a.swc")
    write(comb, tmp_path / "b.swc")
    before = (tmp_path / "a.swc").read_bytes()
    report = convert(tmp_path, tmp_path, to="swc")
    assert report.written == ()
    assert report.passed_over == {"swc": 1}, "and not overwritten, although it is passed over"
    assert len(report.failures) == 2
    assert all("is an input file and would be overwritten" in line for line in report.failures)
    assert (tmp_path / "a.swc").read_bytes() == before
    assert convert(tmp_path / "a.swc", tmp_path / "a.swc").failures
    assert names(tmp_path) == ["a.rsml", "a.swc", "b.swc"]


def test_new_rsml_files_are_valid_unless_everything_is_preserved(tmp_path: Path, y_shape: Skeleton):
    source = tmp_path / "in"
    (source / "sub").mkdir(parents=True)
    scene = "<scene><plant><root><geometry><polyline><point x='0' y='0'/><point x='0' y='30'/></polyline>{}</geometry>"
    for name, spline in (("a", "<rootnavspline/>"), ("b", ""), ("sub/c", "<spline/><rootnavspline/>")):
        (source / f"{name}.rsml").write_text(f"<rsml>{scene.format(spline)}</root></plant></scene></rsml>")
    report = convert(source, tmp_path / "valid", to="rsml")
    assert (report.failures, report.incomplete, report.left_out) == ((), 2, ("rootnavspline", "spline"))
    for path in (tmp_path / "valid").rglob("*.rsml"):
        SCHEMA.assertValid(etree.parse(path))
    report = convert(source, tmp_path / "all", to="rsml", preserve=True)
    assert (report.failures, report.incomplete, report.left_out) == ((), 0, ())
    assert "<rootnavspline" in (tmp_path / "all" / "a.rsml").read_text()
    assert not SCHEMA.validate(etree.parse(tmp_path / "all" / "a.rsml"))
    # An earlier output is not a source: it is replaced by a valid file.
    assert convert(source, tmp_path / "all", to="rsml").incomplete == 2
    SCHEMA.assertValid(etree.parse(tmp_path / "all" / "a.rsml"))
    assert convert(source / "a.rsml", tmp_path / "a.json").incomplete == 0
    assert convert(tmp_path / "a.json", tmp_path / "from json.rsml").left_out == ("rootnavspline",)


def test_an_output_of_an_earlier_run_is_replaced(tmp_path: Path, y_shape: Skeleton, comb: Skeleton):
    write(y_shape, tmp_path / "a.rsml")
    write(comb, tmp_path / "out" / "a.swc")
    assert convert(tmp_path / "a.rsml", tmp_path / "out", to="swc").failures == ()
    assert len(read(tmp_path / "out" / "a.swc")) == len(y_shape)


def many(path: Path, *image_names: Any) -> Path:
    """Write a COCO file of many images, one with a cycle, which COCO can store and SWC cannot."""
    keypoints = [0, 0, 2, 5, 5, 2, 5, 9, 2]
    edges = {"ring.jpg": [[1, 2], [2, 3], [1, 3]]}
    document = {
        "images": [{"id": n, "file_name": name} for n, name in enumerate(image_names)],
        "annotations": [
            {"id": n, "image_id": n, "keypoints": keypoints, "skeleton": edges.get(name, [[1, 2], [2, 3]])}
            for n, name in enumerate(image_names)
        ],
    }
    path.write_text(json.dumps(document))
    return path


def test_a_file_of_many_images(tmp_path: Path):
    source = many(tmp_path / "set.json", "train/ä 1.jpg", "..\\x\\2.png", "", 'a<b>:"\x00.jpg', "../../etc/passwd.x")
    report = convert(source, tmp_path / "out", to="swc")
    assert report.failures == ()
    assert names(tmp_path / "out") == ["2.swc", "a_b____.swc", "passwd.swc", "set-3.swc", "ä 1.swc"]


def test_one_image_that_fails_does_not_stop_the_others(tmp_path: Path):
    source = many(tmp_path / "set.json", "a.jpg", "ring.jpg", "sub/a.jpg", "z.jpg")
    report = convert(source, tmp_path / "out", to="swc")
    assert names(tmp_path / "out") == ["a.swc", "z.swc"]
    assert report.failures == (
        "set.json: ring.swc: SWC can store only forests, but this skeleton has a cycle",
        "set.json: a.swc: was already written from set.json and would be overwritten",
    )


def test_many_images_cannot_be_converted_to_one_file(tmp_path: Path):
    report = convert(many(tmp_path / "set.json", "a.jpg", "b.jpg"), tmp_path / "one.swc")
    assert report.failures == ("set.json: contains several images, not one: use read_all, or convert it into a folder",)
    assert names(tmp_path) == ["set.json"]


def test_no_images(tmp_path: Path):
    report = convert(many(tmp_path / "set.json"), tmp_path / "out", to="swc")
    assert report.failures == ("set.json: contains no images",)


def test_a_single_file_that_fails(tmp_path: Path):
    (tmp_path / "a.json").write_text('{"settings": 1}')
    report = convert(tmp_path / "a.json", tmp_path / "a.swc")
    assert report.written == ()
    assert len(report.failures) == 1
    assert "but in no supported format" in report.failures[0]
    assert names(tmp_path) == ["a.json"]


@pytest.mark.parametrize(
    ("source", "target", "options", "message"),
    [
        ("missing.swc", "a.json", {}, "missing.swc: cannot be read"),
        ("a.swc", "a.json", {"to": "dwg"}, "unknown format 'dwg', .* csv$"),
        ("a.swc", "a.json", {"from_": "dwg"}, "unknown format 'dwg'"),
        ("a.swc", "a.json", {"to": "branch-trees"}, "format 'branch-trees' is read-only"),
        ("a.swc", "a.txt", {}, r"a.txt: unknown suffix '\.txt'"),
        ("a.swc", "out", {}, r"a target folder requires a target format \(--format\): one of json, rsml"),
        (".", "out", {}, "a target folder requires a target format"),
    ],
)
def test_wrong_arguments(
    tmp_path: Path, y_shape: Skeleton, source: str, target: str, options: dict[str, str], message: str
):
    write(y_shape, tmp_path / "a.swc")
    with pytest.raises(FormatError, match=message):
        convert(tmp_path / source, tmp_path / target, **options)
    assert names(tmp_path) == ["a.swc"]


def test_a_folder_that_cannot_be_listed(tmp_path: Path, y_shape: Skeleton, monkeypatch: pytest.MonkeyPatch):
    write(y_shape, tmp_path / "in" / "a.swc")
    write(y_shape, tmp_path / "in" / "locked" / "b.swc")
    listed = os.scandir

    def scandir(path: Any) -> Any:
        if Path(path).name in locked:
            raise PermissionError(13, "Permission denied", os.fspath(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    locked = ["locked"]
    report = convert(tmp_path / "in", tmp_path / "out", to="json")
    assert report.failures == ("locked: cannot be read (Permission denied)",)
    assert names(tmp_path / "out") == ["a.json"]
    locked = ["in"]
    with pytest.raises(FormatError, match=r"in: cannot be read \(Permission denied\)"):
        convert(tmp_path / "in", tmp_path / "out", to="json")
