"""The registry of formats: format detection, and one-line errors for files that cannot be read or written."""

from __future__ import annotations

import json
import os
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.formats.annotated import json_values
from tests.strategies import examples
from treeformer import FormatError, Skeleton
from treeformer.formats import FORMATS, UnknownKindError, read, read_all, write

in_one_folder = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
WRITTEN = [name for name, entry in FORMATS.items() if entry.write is not None]
JSON_FORMATS = [name for name, entry in FORMATS.items() if entry.matches is not None]
TEXT_FORMATS = [name for name in FORMATS if name not in JSON_FORMATS]
GUYOT = {"VineImage": [{"VineFeature": [[{"FeatureID": 1, "FeatureCoordinates": [5, 9], "ParentID": -1}]]}]}
BRANCHES = "<file><level0><branch0>[(5, 9), (5, 5)]</branch0></level0><level1/></file>"


@pytest.fixture
def sample(tmp_path: Path, y_shape: Skeleton) -> Callable[..., Path]:
    """Return a function that writes a small valid file of any format."""

    def make(name: str, suffix: str | None = None) -> Path:
        path = tmp_path / f"sample {name}{suffix or FORMATS[name].suffixes[0]}"
        if name == "single-guyot":
            path.write_text(json.dumps(GUYOT))
        elif name == "branch-trees":
            path.write_text(BRANCHES)
        else:
            write(y_shape.replace(radius=[1, 1, 1, 1]), path, format=name)
        return path

    return make


def test_the_table_of_formats():
    assert list(FORMATS) == [
        "json", "rsml", "rsml-smartroot", "swc", "graphml", "node-link", "geojson", "labelme", "coco", "csv",
        "single-guyot", "branch-trees",
    ]  # fmt: skip
    assert all(entry.name == name and entry.suffixes and entry.description for name, entry in FORMATS.items())
    assert set(FORMATS) - set(WRITTEN) == {"single-guyot", "branch-trees"}


@pytest.mark.parametrize("name", WRITTEN)
def test_every_format_stores_an_image_without_plants(tmp_path: Path, name: str):
    path = tmp_path / f"bare soil{FORMATS[name].suffixes[0]}"
    write(Skeleton([], [], node_score=[], edge_score=[], image_size=(40, 30)), path, format=name)
    again = read(path)
    assert (len(again), len(again.edges), len(again.plants), again.is_forest) == (0, 0, 0, True)


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_detected_by_suffix_and_content(sample: Callable[..., Path], name: str):
    for suffix in FORMATS[name].suffixes:
        for spelling in (suffix, suffix.upper()):
            path = sample(name, spelling)
            skeleton = read(path)
            assert skeleton.nodes[0].tolist() == [5, 9]
            assert [s.nodes[0].tolist() for s in read_all(path)] == [[5, 9]]
            assert read(str(path), format=name) == skeleton


@pytest.mark.parametrize("name", FORMATS)
def test_a_name_without_suffix_needs_the_format(sample: Callable[..., Path], name: str):
    path = sample(name).rename(sample(name).with_suffix(""))
    with pytest.raises(FormatError, match=r"has no suffix \(known suffixes: \.json, \.rsml"):
        read(path)
    assert len(read(path, format=name)) >= 1


@pytest.mark.parametrize("name", WRITTEN)
def test_names_with_spaces_and_umlauts_in_new_folders(tmp_path: Path, y_shape: Skeleton, name: str):
    path = tmp_path / "Grüße aus Köln" / "übung 3 – 植物" / f"wür zig{FORMATS[name].suffixes[0]}"
    write(y_shape, path, format=name)
    assert read(path).length == pytest.approx(14)
    assert [child.name for child in path.parent.iterdir()] == [path.name]


def test_json_is_the_native_format_by_default(tmp_path: Path, y_shape: Skeleton):
    write(y_shape, tmp_path / "a.json")
    assert json.loads((tmp_path / "a.json").read_text())["format"] == "treeformer-skeleton"
    write(y_shape, tmp_path / "a.json", format="coco")
    assert "annotations" in json.loads((tmp_path / "a.json").read_text())
    write(y_shape, tmp_path / "a.rsml", format="rsml-smartroot")
    assert 'ID="' in (tmp_path / "a.rsml").read_text()


@pytest.mark.parametrize(
    ("name", "format", "message"),
    [
        ("a.png", None, r"a\.png: unknown suffix '\.png' \(known suffixes:"),
        ("a.xml", None, r"a\.xml: unknown suffix '\.xml' \(known suffixes: \.json, \.rsml, \.swc"),
        ("a", None, "a: has no suffix"),
        ("a.json", "branch-trees", "format 'branch-trees' is read-only"),
        ("a.json", "dwg", "unknown format 'dwg', choose one of json, rsml"),
    ],
)
def test_formats_that_cannot_be_written(tmp_path: Path, y_shape: Skeleton, name: str, format: str | None, message: str):
    with pytest.raises(FormatError, match=f"^{message}"):
        write(y_shape, tmp_path / name, format=format)
    assert list(tmp_path.iterdir()) == []


def test_only_a_skeleton_is_written(tmp_path: Path, y_shape: Skeleton):
    with pytest.raises(FormatError, match="write takes one skeleton, not list"):
        write([y_shape, y_shape], tmp_path / "a.json")  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


# ---- bad input ------------------------------------------------------------------------------------


def read_error(path: Path, **options: Any) -> str:
    """Return the error message of a file that cannot be read, without the file name."""
    with pytest.raises(FormatError) as caught:
        list(read_all(path, **options))
    message = str(caught.value)
    assert message.startswith(f"{path.name}: ")
    assert "\n" not in message
    with pytest.raises(FormatError):
        read(path, **options)
    return message.removeprefix(f"{path.name}: ")


SUFFIXES = [".json", ".rsml", ".swc", ".graphml", ".geojson", ".csv", ".xml"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_paths_that_are_not_files(tmp_path: Path, suffix: str):
    path = tmp_path / f"ä b{suffix}"
    assert read_error(path) == "cannot be read (No such file or directory)"
    path.mkdir()
    assert read_error(path) == "is a folder, not a file"
    path.rmdir()
    path.write_bytes(b"")
    assert read_error(path) == "is empty"
    path.write_bytes(b" \n\n")
    assert read_error(path) == "is empty"
    if hasattr(os, "mkfifo"):
        path.unlink()
        os.mkfifo(path)
        assert read_error(path) == "is not a regular file"


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n\x00\x00\x00", "is a PNG image"),
        (b"\xff\xd8\xff\xe0\x00\x10JFIF", "is a JPEG image"),
        (b"PK\x03\x04\x14\x00", "is a ZIP archive"),
        (b"BM\x00\x00", "is a BMP image"),
        (b"1 0 \x00 binary", "is not a text file"),
    ],
)
def test_a_wrong_suffix(tmp_path: Path, suffix: str, data: bytes, kind: str):
    path = tmp_path / f"a{suffix}"
    path.write_bytes(data)
    assert read_error(path) == kind


@pytest.mark.parametrize(
    ("text", "suffix", "message"),
    [
        ("<rsml/>", ".swc", "looks like rsml, not swc: the suffix is wrong"),
        ("1 0 0 0 0 1 -1\n", ".rsml", "looks like swc, not rsml: the suffix is wrong"),
        ("1 0 0 0 0 1 -1\n", ".csv", "looks like swc, not csv: the suffix is wrong"),
        ('{"nodes": []}', ".csv", "looks like JSON, not csv: the suffix is wrong"),
        ("x,y,parent\n0,0,-1\n", ".swc", "looks like csv, not swc: the suffix is wrong"),
        ("<graphml/>", ".rsml", "looks like graphml, not rsml: the suffix is wrong"),
    ],
)
def test_a_suffix_of_another_format(tmp_path: Path, text: str, suffix: str, message: str):
    path = tmp_path / f"a{suffix}"
    path.write_text(text)
    assert read_error(path) == message


@pytest.mark.parametrize("name", ["a.json", "a.xml"])
def test_json_and_xml_of_unknown_formats(tmp_path: Path, name: str):
    (tmp_path / name).write_text('{"settings": 1}' if name == "a.json" else "<svg/>")
    assert "but in no supported format" in read_error(tmp_path / name)
    with pytest.raises(UnknownKindError):
        read(tmp_path / name)


@pytest.mark.parametrize("text", ["[1]", "7", '"a"', "true", "hello", "{'a': 1}", '{"a": }', "{]"])
def test_content_that_is_not_a_json_object(tmp_path: Path, text: str):
    (tmp_path / "a.json").write_text(text)
    assert read_error(tmp_path / "a.json").startswith(("is not a JSON object", "is not JSON (line 1"))


@pytest.mark.parametrize("text", ['{"nodes": [[1, 2]', '{"nodes": "a', '{"a": 1', '{"a"', "{"])
def test_truncated_json(tmp_path: Path, text: str):
    (tmp_path / "a.json").write_text(text)
    assert read_error(tmp_path / "a.json").startswith("is truncated (line 1")


def test_json_nested_too_deeply_or_not_utf_8(tmp_path: Path):
    path = tmp_path / "a.json"
    path.write_text('{"a":' * 200_000)
    assert read_error(path) == "is nested too deeply"
    path.write_bytes(b'{"a": "\xff"}')
    assert read_error(path) == "is not UTF-8 text (byte 7)"
    path.write_text('{"nodes": [' + "9" * 5000 + "]}")
    assert "is not readable as JSON" in read_error(path)


def test_a_file_without_permission(tmp_path: Path, y_shape: Skeleton, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "a.swc"
    write(y_shape, path)

    def deny(self: Path, *_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "open", deny)
    assert read_error(path) == "cannot be read (Permission denied)"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root ignores file permissions")
def test_a_folder_without_permission(tmp_path: Path, y_shape: Skeleton):
    folder = tmp_path / "locked"
    folder.mkdir()
    write(y_shape, folder / "a.swc")
    folder.chmod(0)
    try:
        assert read_error(folder / "a.swc") == "cannot be read (Permission denied)"
        with pytest.raises(FormatError, match=r"^b\.swc: cannot be written \(Permission denied\)"):
            write(y_shape, folder / "b.swc")
    finally:
        folder.chmod(0o700)


@pytest.mark.parametrize("name", WRITTEN)
def test_places_that_cannot_be_written_to(tmp_path: Path, y_shape: Skeleton, name: str):
    suffix = FORMATS[name].suffixes[0]
    (tmp_path / "file").write_text("here")
    (tmp_path / f"folder{suffix}").mkdir()
    for path in (tmp_path / "file" / f"a{suffix}", tmp_path / f"folder{suffix}"):
        with pytest.raises(FormatError, match=rf"^{path.name}: cannot be written") as caught:
            write(y_shape, path, format=name)
        assert "\n" not in str(caught.value)
    assert sorted(child.name for child in tmp_path.iterdir()) == ["file", f"folder{suffix}"]


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("kind", ["zeros", "letters", "one line", "numbers", "like the format"])
def test_200_mb_of_garbage_are_rejected_immediately(tmp_path: Path, suffix: str, kind: str):
    """Sparse files of 200 MB that begin like valid ones are rejected with little memory and time."""
    path = tmp_path / f"a{suffix}"
    good = {".json": b'["', ".rsml": b"<rsml", ".graphml": b"<graphml>&", ".xml": b"<file><level0>&", ".geojson": b"["}
    first = {
        "zeros": b"\x00",
        "letters": b"garbage\n" * 10_000,
        "one line": b"x" * 200_000,
        "numbers": b"1 2 3\n" * 10_000,
        "like the format": good.get(suffix, b"x,y,parent\n0,0,-1\n" if suffix == ".csv" else b"1 0 0 0 0 1 -1\n") * 2,
    }
    with path.open("wb") as file:
        file.write(first[kind])
        file.truncate(200_000_000)
    tracemalloc.start()
    begin = time.process_time()
    message = read_error(path)
    spent = time.process_time() - begin
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert message
    assert spent < 1
    assert peak < 20e6


def read_or_error(path: Path, name: str) -> list[Skeleton]:
    """Return the skeletons of a file, or an empty list if it is rejected with a one-line error."""
    try:
        return list(read_all(path, format=name))
    except FormatError as error:
        message = str(error)
    assert message.startswith(f"{path.name}: ")
    assert "\n" not in message
    return []


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
@settings(in_one_folder, max_examples=examples(25))
@given(data=st.data())
def test_broken_files_never_crash_the_reader(sample: Callable[..., Path], name: str, data: st.DataObject):
    """A truncated file or one with replaced bytes gives a skeleton or a one-line error."""
    good = sample(name).read_bytes()
    broken = bytearray(good[: data.draw(st.integers(0, len(good)))])
    for at in data.draw(st.lists(st.integers(0, max(0, len(broken) - 1)), max_size=4)):
        if broken:
            broken[at] = data.draw(st.sampled_from(b'019-.e"{}[],:<>/ \n#\x00\xff') | st.integers(0, 255))
    path = sample(name).with_name(f"broken{FORMATS[name].suffixes[0]}")
    path.write_bytes(bytes(broken))
    read_or_error(path, name)


def with_value(value: Any, path: list[Any], new: Any) -> Any:
    """Return a copy of a JSON value with the entry at a path replaced."""
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = with_value(value[path[0]], path[1:], new)
    return copy


@pytest.mark.slow
@pytest.mark.parametrize("name", JSON_FORMATS)
@settings(in_one_folder, max_examples=examples(60))
@given(data=st.data())
def test_wrong_values_never_crash_the_reader(sample: Callable[..., Path], name: str, data: st.DataObject):
    """A valid JSON file with any one value replaced gives skeletons or a one-line error."""
    document = json.loads(sample(name).read_text("utf-8"))
    place: list[Any] = []
    inner = document
    while isinstance(inner, dict | list) and inner and (not place or data.draw(st.integers(0, 4))):
        step = data.draw(st.sampled_from(sorted(inner)) if isinstance(inner, dict) else st.integers(0, len(inner) - 1))
        place.append(step)
        inner = inner[step]
    path = sample(name).with_name("wrong.json")
    path.write_text(json.dumps(with_value(document, place, data.draw(json_values))))
    for skeleton in read_or_error(path, name):
        # Everything that was read can be written again. SWC and CSV cannot store cycles.
        for other in ("json", "geojson", "swc", "csv") if skeleton.is_forest else ("json", "geojson"):
            write(skeleton, path.with_name("again.x"), format=other)


@pytest.mark.slow
@pytest.mark.parametrize("name", WRITTEN)
def test_large_skeletons_take_linear_time(tmp_path: Path, name: str):
    rng = np.random.default_rng(0)
    count = 10_000
    parents = np.maximum(np.arange(count) - 1 - (rng.random(count) < 0.05) * rng.integers(0, 200, count), 0)
    parents[0] = -1
    nodes = rng.random((count, 2)) * 1000
    skeleton = Skeleton.from_parents(nodes, parents, radius=rng.random(count), image_size=(1000, 1000))
    path = tmp_path / f"large{FORMATS[name].suffixes[0]}"
    begin = time.process_time()
    write(skeleton, path, format=name)
    again = read(path)
    assert time.process_time() - begin < 8
    assert again.length == pytest.approx(skeleton.length)
