"""Dates that were corrected in the editor: a later `treeformer series` uses them, and never loses one."""

from __future__ import annotations

import hashlib
import os

import pytest
from PIL import Image
from typer.testing import CliRunner

from tests.inference.fake_engine import line_engine, predictor
from treeformer import Series, Skeleton, read, write
from treeformer.cli import app
from treeformer.formats.rsml.reader import resolution_px_per_mm


def run(*arguments):
    return CliRunner().invoke(app, ["series", *map(str, arguments)])


def make_plate(folder):
    folder.mkdir()
    for day in (1, 2):
        write(Skeleton([(9, 9), (9, 20 * day)], [(0, 1)], root=0, image_size=(99, 99)), folder / f"day{day}.json")
    return folder


def test_dates_that_were_corrected_in_the_editor_are_used_and_kept(tmp_path):
    images, out = make_plate(tmp_path / "plate"), tmp_path / "out"
    assert run(images, "-o", out, "--no-figures").exit_code == 0
    corrected = read(out / "rsml" / "day2.rsml").replace(metadata={"editor": {"accepted": True}})
    file = out / "rsml" / "day2.json"
    write(corrected.replace(nodes=[(9, 9), (9, 70)]), file)
    assert run(images, "-o", out, "--no-figures").exit_code == 0
    assert read(out / "rsml" / "day2.rsml").length == pytest.approx(61)
    kept = read(file)
    assert kept.length == pytest.approx(61)
    assert kept.metadata["editor"] == {"accepted": True}
    assert [axis.id for axis in kept.axes] == ["1.1"]

    before = file.read_bytes()
    later = file.stat().st_mtime + 5
    os.utime(images / "day2.json", (later, later))  # a newer skeleton beside the image
    found = run(images, "-o", out, "--no-figures")
    copy = file.with_name("day2.orig.json")
    assert f"replaces a correction, which is kept as {copy}" in found.stderr.replace("\n", "")
    assert found.exit_code == 0
    assert read(file).length == pytest.approx(31)
    assert copy.read_bytes() == before


def test_a_newer_prediction_beside_the_image_does_not_replace_a_correction(tmp_path):
    images, out = tmp_path / "plate", tmp_path / "out"
    images.mkdir()
    skeletons = [Skeleton([(9, 9), (9, 20 * day)], [(0, 1)], root=0, image_size=(99, 99)) for day in (1, 2)]
    for day, skeleton in enumerate(skeletons, start=1):
        write(skeleton.replace(edge_score=[0.9]), images / f"day{day}.json")
    assert run(images, "-o", out, "--no-figures").exit_code == 0
    file = out / "rsml" / "day2.json"
    write(skeletons[1].replace(nodes=[(9, 9), (9, 70)], metadata={"editor": {}}), file)
    later = file.stat().st_mtime + 5
    os.utime(images / "day2.json", (later, later))
    assert run(images, "-o", out, "--no-figures").exit_code == 0
    assert read(file).length == pytest.approx(61)
    assert not file.with_name("day2.orig.json").exists()


def test_corrected_dates_are_not_predicted_again(tmp_path):
    images, out = tmp_path / "plate", tmp_path / "out"
    (out / "rsml").mkdir(parents=True)
    images.mkdir()
    Image.new("RGB", (32, 32)).save(images / "day1.png")
    write(Skeleton([(9, 9)], [], root=0, metadata={"editor": {}}), out / "rsml" / "day1.json")
    found = run(images, "-o", out, "--predict")
    assert found.exit_code != 0
    assert "day1.json: was corrected in the editor" in str(found.exception or found.stderr)


def test_corrected_dates_get_the_scale_of_a_new_run(tmp_path):
    images, out = make_plate(tmp_path / "plate"), tmp_path / "out"
    assert run(images, "-o", out, "--no-figures", "--px-per-mm", 10).exit_code == 0
    for day, editor in ((1, {}), (2, {"px_per_mm": 10})):  # the scale of the second date was set in the editor
        date = read(out / "rsml" / f"day{day}.rsml")
        write(date.replace(metadata={**date.metadata, "editor": editor}), out / "rsml" / f"day{day}.json")
    assert run(images, "-o", out, "--no-figures", "--px-per-mm", 20).exit_code == 0
    first, second = (read(out / "rsml" / f"day{day}.json") for day in (1, 2))
    assert [resolution_px_per_mm(date) for date in (first, second)] == pytest.approx([20, 20])
    assert [date.metadata["editor"].get("px_per_mm") for date in (first, second)] == [None, pytest.approx(20)]


@pytest.mark.parametrize("place", ["rsml", "skeletons"])
def test_a_correction_is_kept_if_the_images_are_in_the_folder_of_the_results(tmp_path, place):
    images = make_plate(tmp_path / "plate")
    correction = tmp_path / place / "day2.json"
    write(Skeleton([(9, 9), (9, 70)], [(0, 1)], root=0, metadata={"editor": {}}), correction)
    before = correction.read_bytes()
    os.utime(correction, (5, 5))
    found = run(images, "-o", tmp_path, "--no-figures")
    copy = correction.with_name("day2.orig.json")
    assert f"replaces a correction, which is kept as {copy}" in found.stderr.replace("\n", "")
    assert copy.read_bytes() == before
    assert read(tmp_path / "rsml" / "day2.rsml").length == pytest.approx(31)


def test_a_correction_is_not_used_for_a_date_of_this_name_on_another_plate(tmp_path):
    out = tmp_path / "out"
    first, second = (make_plate(tmp_path / name) for name in ("plate1", "plate2"))
    for folder in (first, second):
        for day in (1, 2):
            Image.new("RGB", (99, 99)).save(folder / f"day{day}.png")
    assert run(first, "-o", out, "--no-figures").exit_code == 0
    file = out / "rsml" / "day2.json"
    write(Skeleton([(9, 9), (9, 70)], [(0, 1)], root=0, metadata={"editor": {}}), file)
    before = file.read_bytes()
    found = run(second, "-o", out, "--no-figures")
    assert str(found.exception) == f"{file}: is a correction of a date in {first}: choose another output folder"
    assert file.read_bytes() == before
    first.rename(tmp_path / "moved")
    assert run(tmp_path / "moved", "-o", out, "--no-figures").exit_code == 0
    assert read(out / "rsml" / "day2.rsml").length == pytest.approx(61)


def correction(length, **editor):
    return Skeleton([(9, 9), (9, 9 + length)], [(0, 1)], root=0, image_size=(99, 99), metadata={"editor": editor})


@pytest.fixture
def during_the_run(monkeypatch):
    """Return a function that lets a person do something while the next run works."""

    def call(action):
        def working(*arguments, **options):
            action()
            return Series(*arguments, **options)

        monkeypatch.setattr("treeformer.timeseries.Series", working)

    return call


@pytest.mark.parametrize("is_first", [False, True])
def test_a_correction_that_is_saved_during_a_run_is_used_by_the_next_one(tmp_path, during_the_run, is_first):
    images, out = make_plate(tmp_path / "plate"), tmp_path / "out"
    file = out / "rsml" / "day2.json"
    if not is_first:
        write(correction(40), file)
    during_the_run(lambda: write(correction(61, accepted=True), file))
    found = run(images, "-o", out, "--no-figures")
    assert f"{file} was saved during this run: run the command again to use it" in found.stderr.replace("\n", "")
    assert read(out / "rsml" / "day2.rsml").length == pytest.approx(31 if is_first else 40)
    assert (read(file).length, read(file).metadata["editor"]) == (61, {"accepted": True})
    during_the_run(lambda: None)
    assert "was saved during this run" not in run(images, "-o", out, "--no-figures").stderr
    assert read(out / "rsml" / "day2.rsml").length == pytest.approx(61)
    assert sorted(path.name for path in file.parent.glob("*.json")) == ["day2.json"]


@pytest.mark.parametrize("place", ["plate", "out/skeletons"])
def test_what_is_saved_elsewhere_during_a_run_is_newer_than_what_the_run_writes(tmp_path, during_the_run, place):
    images, out = make_plate(tmp_path / "plate"), tmp_path / "out"
    file = out / "rsml" / "day2.json"
    write(correction(40), file)
    during_the_run(lambda: write(correction(61), tmp_path / place / "day2.json"))
    assert run(images, "-o", out, "--no-figures").exit_code == 0
    assert read(file).length == pytest.approx(40)
    during_the_run(lambda: None)
    found = run(images, "-o", out, "--no-figures")
    assert read(file).length == pytest.approx(61)
    copy = file.with_name("day2.orig.json")
    assert f"a newer skeleton replaces a correction, which is kept as {copy}" in found.stderr.replace("\n", "")
    assert read(copy).length == pytest.approx(40)


def test_rsml_that_the_editor_saved_is_not_kept_as_a_file_of_another_program(tmp_path):
    images, out = make_plate(tmp_path / "plate"), tmp_path / "out"
    assert run(images, "-o", out, "--no-figures").exit_code == 0
    file = out / "rsml" / "day2.rsml"
    write(correction(61), file)
    written = {"rsml": hashlib.sha256(file.read_bytes()).hexdigest()}
    write(correction(61, written=written), file.with_suffix(".json"))
    assert "kept as" not in run(images, "-o", out, "--no-figures").stderr
    assert read(file).length == pytest.approx(61)
    assert sorted(path.name for path in file.parent.iterdir()) == ["day1.rsml", "day2.json", "day2.rsml"]


def test_json_of_another_program_is_kept(tmp_path):
    images, out = make_plate(tmp_path / "plate"), tmp_path / "out"
    assert run(images, "-o", out, "--no-figures").exit_code == 0
    file = out / "rsml" / "day2.json"
    write(read(out / "rsml" / "day2.rsml").resample(8), file)  # as a script does
    before = file.read_bytes()
    found = run(images, "-o", out, "--no-figures")
    copy = file.with_name("day2.orig.json")
    assert f"a file that the editor did not write is replaced, and kept as {copy}" in found.stderr.replace("\n", "")
    assert copy.read_bytes() == before
    assert read(file).length == read(out / "rsml" / "day2.rsml").length == pytest.approx(31)

    (images / "day3.json").write_bytes((images / "day2.json").read_bytes())  # the file of the run itself changes
    found = run(images, "-o", out, "--no-figures", "--px-per-mm", 10)
    assert found.exit_code == 0
    assert "kept as" not in found.stderr
    assert len(list(file.parent.glob("day2.orig*"))) == 1


def test_a_file_in_the_place_of_a_prediction_is_kept(tmp_path, monkeypatch):
    stub = predictor(line_engine())
    monkeypatch.setattr("treeformer.inference.predictor.Predictor", lambda *_, **__: stub)
    images, out = tmp_path / "plate", tmp_path / "out"
    images.mkdir()
    for day in (1, 2):
        Image.new("RGB", (99, 99), "white").save(images / f"day{day}.png")
    command = (images, "-o", out, "--no-figures", "--views", 1)
    assert run(*command).exit_code == 0
    file = out / "skeletons" / "day2.json"
    assert "kept as" not in run(*command).stderr
    write(Skeleton([(9, 9), (9, 70)], [(0, 1)], root=0), file)
    before = file.read_bytes()
    found = run(*command, "--resume")
    copy = file.with_name("day2.orig.json")
    assert f"a file that is not a prediction is replaced, and kept as {copy}" in found.stderr.replace("\n", "")
    assert copy.read_bytes() == before
    assert read(file).node_score is not None
