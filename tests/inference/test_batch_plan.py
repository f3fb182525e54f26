"""The result files of a batch: no two have the same name, none is outside the output folder."""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path

import pytest

from treeformer.errors import TreeformerError
from treeformer.inference.batch import plan


def test_a_thousand_images_have_distinct_results(tmp_path):
    for folder in range(10):
        (tmp_path / "in" / str(folder)).mkdir(parents=True)
        for number in range(100):
            (tmp_path / "in" / str(folder) / f"{number}.jpg").touch()
    jobs = plan([tmp_path / "in"], tmp_path / "out")
    assert len({job.skeletons["json"] for job in jobs}) == len(jobs) == 1000
    with pytest.raises(TreeformerError, match="no such file"):
        plan([tmp_path / "in", tmp_path / "none.jpg"], tmp_path / "out")


def results(jobs) -> list[str]:
    """Return the absolute path of every result file."""
    paths = [path for job in jobs for path in (*job.skeletons.values(), job.overlay) if path]
    return [os.path.normpath(path.absolute()) for path in paths]


def test_results_of_different_images_never_collide(tmp_path):
    """A name that keeps its suffix, or that looks like an ending, may be the name of another result."""
    folder = tmp_path / "in"
    folder.mkdir()
    for name in ("a.png", "a.coco.png", "b.png", "b.tif", "b.png.jpg", "c.jpg"):
        (folder / name).touch()
    jobs = plan([folder], tmp_path / "out", ["coco"], overlay=True)
    assert len(set(results(jobs))) == 3 * len(jobs) == 18
    assert jobs[-1].skeletons["json"] == tmp_path / "out" / "c.json", "names without a collision stay short"


@pytest.mark.parametrize(
    ("images", "expected"),
    [
        (("A.png", "a.jpg", "b.png"), ["A.png.json", "a.jpg.json", "b.json"]),
        (("A.png", "a.png"), ["A.png.json", "a.png-2.json"]),
        (("Day/a.png", "day/a.png"), ["Day/a.png.json", "day/a.png-2.json"]),
        (("\u00e4.png", "a\u0308.jpg"), ["a\u0308.jpg.json", "\u00e4.png.json"]),  # ä as one and as two code points
    ],
)
def test_results_do_not_collide_on_a_file_system_that_ignores_letter_case(tmp_path, images, expected):
    paths = [tmp_path / "in" / name for name in images]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    if len({path.stat().st_ino for path in paths}) < len(paths):
        pytest.skip("this file system ignores letter case and cannot contain these images")
    jobs = plan([tmp_path / "in"], tmp_path / "out", ["coco"], overlay=True)
    assert [job.skeletons["json"].relative_to(tmp_path / "out").as_posix() for job in jobs] == expected
    assert len({unicodedata.normalize("NFC", name.casefold()) for name in results(jobs)}) == 3 * len(jobs)


def test_results_stay_in_the_output_folder_for_any_path_to_the_images(tmp_path, monkeypatch):
    for name in ("first/a.png", "second/a.png"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path / "first")
    jobs = plan([Path(), Path("../second")], Path("out"))
    assert results(jobs) == [str(tmp_path / "first" / "out" / name / "a.json") for name in ("first", "second")]
    twice = plan([Path(), Path("a.png"), Path("../first/a.png"), tmp_path / "first" / "a.png"], Path("out"))
    assert results(twice) == [str(tmp_path / "first" / "out" / "a.json")], "four paths to one image"


def test_images_on_two_drives_are_one_line(tmp_path, monkeypatch):
    """On Windows, paths on different drives have no common folder."""

    def different_drives(_paths):
        raise ValueError("Paths don't have the same drive")

    (tmp_path / "a.jpg").touch()
    monkeypatch.setattr(os.path, "commonpath", different_drives)
    with pytest.raises(TreeformerError, match=r"^the images are on several drives: "):
        plan([tmp_path / "a.jpg"], tmp_path / "out")


def test_drawings_below_a_model_folder_are_not_listed(tmp_path):
    for name in ("a.jpg", "mine/overlays/00-a.jpg"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert len(plan([tmp_path], tmp_path / "out")) == 2
    for name in ("config.json", "model.safetensors"):
        (tmp_path / "mine" / name).touch()
    assert [job.image.name for job in plan([tmp_path], tmp_path / "out")] == ["a.jpg"]
    assert len(plan([tmp_path / "mine" / "overlays"], tmp_path / "out")) == 1
