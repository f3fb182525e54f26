"""Which file the results of each image go to: no two of them meet, none leaves the output folder."""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path

import pytest

from treeformer.errors import TreeformerError
from treeformer.inference.batch import plan


def test_a_thousand_images_are_planned_and_each_has_a_place_of_its_own(tmp_path):
    for folder in range(10):
        (tmp_path / "in" / str(folder)).mkdir(parents=True)
        for number in range(100):
            (tmp_path / "in" / str(folder) / f"{number}.jpg").touch()
    jobs = plan([tmp_path / "in"], tmp_path / "out")
    assert len({job.skeletons["json"] for job in jobs}) == len(jobs) == 1000
    with pytest.raises(TreeformerError, match="no such file"):
        plan([tmp_path / "in", tmp_path / "none.jpg"], tmp_path / "out")


def results(jobs) -> list[str]:
    """Every file that is to be made, by its full name."""
    paths = [path for job in jobs for path in (*job.skeletons.values(), job.overlay) if path]
    return [os.path.normpath(path.absolute()) for path in paths]


def test_no_image_takes_the_place_of_another_ones_results(tmp_path):
    """A name that keeps its suffix, or that looks like an ending, may be the name of another result."""
    folder = tmp_path / "in"
    folder.mkdir()
    for name in ("a.png", "a.coco.png", "b.png", "b.tif", "b.png.jpg", "c.jpg"):
        (folder / name).touch()
    jobs = plan([folder], tmp_path / "out", ["coco"], overlay=True)
    assert len(set(results(jobs))) == 3 * len(jobs) == 18
    assert jobs[-1].skeletons["json"] == tmp_path / "out" / "c.json", "the others keep their short names"


@pytest.mark.parametrize(
    ("images", "expected"),
    [
        (("A.png", "a.jpg", "b.png"), ["A.png.json", "a.jpg.json", "b.json"]),
        (("A.png", "a.png"), ["A.png.json", "a.png-2.json"]),
        (("Day/a.png", "day/a.png"), ["Day/a.png.json", "day/a.png-2.json"]),
        (("\u00e4.png", "a\u0308.jpg"), ["a\u0308.jpg.json", "\u00e4.png.json"]),  # ä as one sign and as two
    ],
)
def test_results_do_not_meet_on_a_disk_that_ignores_letter_case(tmp_path, images, expected):
    places = [tmp_path / "in" / name for name in images]
    for place in places:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    if len({place.stat().st_ino for place in places}) < len(places):
        pytest.skip("a disk that ignores letter case holds no such images")
    jobs = plan([tmp_path / "in"], tmp_path / "out", ["coco"], overlay=True)
    assert [job.skeletons["json"].relative_to(tmp_path / "out").as_posix() for job in jobs] == expected
    assert len({unicodedata.normalize("NFC", name.casefold()) for name in results(jobs)}) == 3 * len(jobs)


def test_results_stay_in_the_output_however_the_images_are_named(tmp_path, monkeypatch):
    for name in ("here/a.png", "there/a.png"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path / "here")
    jobs = plan([Path(), Path("../there")], Path("out"))
    assert results(jobs) == [str(tmp_path / "here" / "out" / place / "a.json") for place in ("here", "there")]
    twice = plan([Path(), Path("a.png"), Path("../here/a.png"), tmp_path / "here" / "a.png"], Path("out"))
    assert results(twice) == [str(tmp_path / "here" / "out" / "a.json")], "one image, in whichever way it is named"
