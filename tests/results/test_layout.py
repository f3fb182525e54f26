"""Names: what is an image, which skeleton file comes first, and where originals are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from treeformer.errors import FormatError
from treeformer.results import layout
from treeformer.results.layout import Listing, back_up, groups, is_image


def touch(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text(name)
    return folder


def test_images():
    names = ("a.png", "A.JPG", "s3://plants/a.tif", "a.overlay.jpg", ".a.png", "a.json", "png", "a.png.json")
    assert [name for name in names if is_image(name)] == ["a.png", "A.JPG", "s3://plants/a.tif"]
    assert is_image(Path("x/a.png"))
    assert not is_image(Path("x/.a.png"))


def test_one_order_of_preference(tmp_path):
    names = ["a.json", "a.rsml", "a.xml", "a.swc", "a.graphml", "a.geojson", "a.csv"]
    names += ["a_annotation.json", "a.coco.json"]
    touch(tmp_path, *reversed(names), "b.json", "a.txt", ".a.json", "a.orig.json", "a.orig-2.rsml")
    assert [file.name for file in Listing().skeletons(tmp_path / "a")] == names
    assert Listing().skeletons(tmp_path / "missing" / "a") == []


def test_the_files_of_a_folder_by_name(tmp_path):
    touch(tmp_path, "a.png", "a.jpg", "a.json", "b.png", "b_annotation.json", "c.coco.json", "c.json", "d.overlay.jpg")
    found = {
        name: ([one.name for one in images], [one.name for one in skeletons])
        for name, images, skeletons in groups(tmp_path)
    }
    assert found == {
        "a": (["a.jpg", "a.png"], ["a.json"]),
        "b": (["b.png"], ["b_annotation.json"]),
        "c": ([], ["c.json", "c.coco.json"]),
    }


def test_originals_are_numbered_and_kept_once(tmp_path):
    file = touch(tmp_path, "a.json") / "a.json"
    assert back_up(file).name == back_up(file).name == "a.orig.json"
    file.write_text("other")
    assert back_up(file).name == "a.orig-2.json"
    file.write_text("third")
    assert back_up(file, lambda stem: stem.name == "a.orig-3").name == "a.orig-4.json"
    assert sorted(path.read_text() for path in tmp_path.glob("a.orig*")) == ["a.json", "other", "third"]


def test_too_many_originals_are_one_line(tmp_path, monkeypatch):
    file = touch(tmp_path, "a.json") / "a.json"
    monkeypatch.setattr(layout, "MAX_BACKUPS", 3)
    for text in "ab":
        file.write_text(text)
        back_up(file)
    file.write_text("c")
    with pytest.raises(FormatError, match=r"^a\.json: there are too many originals of this file$"):
        back_up(file)
