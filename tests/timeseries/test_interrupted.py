"""A `treeformer series` that is interrupted at any write: its files are known as its own, and no correction is lost."""

from __future__ import annotations

import itertools
import shutil
import threading

import pandas as pd
import pytest
from PIL import Image

from tests.timeseries.series_factory import comb
from treeformer import Series, read, write
from treeformer._util import files
from treeformer.cli.series import series
from treeformer.inference.batch import plan

DAYS = 3
BY_HAND, IN_EDITOR = 71.0, 83.0


@pytest.fixture(autouse=True)
def small_figures(monkeypatch):
    """Replace the figures by small ones that are different in each run, and the traits."""
    shades = itertools.cycle(range(256))
    for name in ("length_curves", "kymograph"):
        monkeypatch.setattr(f"treeformer.timeseries.figures.{name}", lambda *_: Image.new("L", (4, 4), next(shades)))
    monkeypatch.setattr("treeformer.timeseries.figures.animation", lambda *_: b"animation")
    monkeypatch.setattr(Series, "plants_over_time", lambda self, **_: pd.DataFrame({"plant": [1]}))


def write_dates(folder):
    for day in range(DAYS):
        write(comb(50 + 9 * day, []), folder / f"day{day}.json")


def run(folder, out, px_per_mm, **options):
    """Run the command; each scale gives other RSML files. Return True if it was interrupted."""
    try:
        series(folder, out, px_per_mm=px_per_mm, **options)  # parsing a command line takes half of the time
    except KeyboardInterrupt:
        return True
    return False


def run_until(monkeypatch, write_number, *arguments):
    """Run the command until it begins to rename a certain file, from 1. Return True if it was interrupted there."""
    numbers = itertools.count(1)
    replace_file = files._replace

    def interrupted(*paths):
        if next(numbers) == write_number:
            raise KeyboardInterrupt
        replace_file(*paths)

    with monkeypatch.context() as patch:
        patch.setattr(files, "_replace", interrupted)
        return run(*arguments)


def correct(out):
    """Correct one date in the editor, and change another one's RSML file in another program."""
    corrected = read(out / "rsml" / "day1.rsml")
    write(comb(IN_EDITOR, []).replace(metadata={**corrected.metadata, "editor": {}}), out / "rsml" / "day1.json")
    write(comb(BY_HAND, []), out / "rsml" / "day2.rsml")


def check_interruption(tmp_path, monkeypatch, write_number, earlier):
    """Interrupt two runs at a write, then finish one without one of the dates. Return True if they were interrupted."""
    folder, out = tmp_path / f"in{write_number}", tmp_path / f"out{write_number}"
    by_hand = None
    if earlier is None:
        write_dates(folder)
    else:
        shutil.copytree(tmp_path / "in", folder)
        shutil.copytree(earlier, out)
        by_hand = (out / "rsml" / "day2.rsml").read_bytes()
    for scale in (11, 12):
        was_interrupted = run_until(monkeypatch, write_number, folder, out, scale)
    (folder / "day0.json").unlink()
    assert not run(folder, out, 13, figures=False)

    expected = {"day1.rsml", "day2.rsml"} | ({"day1.json", "day2.orig.rsml"} if earlier is not None else set())
    assert {file.name for file in (out / "rsml").iterdir()} == expected
    assert not any((out / "kymographs").glob("*"))
    if by_hand is not None:
        assert (out / "rsml" / "day2.orig.rsml").read_bytes() == by_hand
        for suffix in (".json", ".rsml"):
            assert read(out / "rsml" / f"day1{suffix}").length == pytest.approx(IN_EDITOR)
    return was_interrupted


@pytest.fixture
def corrected(tmp_path):
    """Return the results of a run, with corrections by a person."""
    write_dates(tmp_path / "in")
    assert not run(tmp_path / "in", tmp_path / "earlier", 10)
    correct(tmp_path / "earlier")
    return tmp_path / "earlier"


@pytest.mark.slow
def test_after_an_interruption_at_any_write_only_corrections_of_a_person_are_kept(tmp_path, monkeypatch, corrected):
    numbers = itertools.takewhile(
        lambda number: check_interruption(tmp_path, monkeypatch, number, corrected), itertools.count(1)
    )
    assert len(list(numbers)) > 2 * DAYS + 8


@pytest.mark.slow
def test_after_a_first_run_that_is_interrupted_at_any_write_its_files_are_removed(tmp_path, monkeypatch):
    numbers = itertools.takewhile(
        lambda number: check_interruption(tmp_path, monkeypatch, number, None), itertools.count(1)
    )
    assert len(list(numbers)) > 2 * DAYS + 8


def test_after_an_interruption_at_the_animation_only_corrections_of_a_person_are_kept(tmp_path, monkeypatch, corrected):
    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("treeformer.timeseries.figures.animation", interrupted)
        assert run(tmp_path / "in", corrected, 11)
    (tmp_path / "in" / "day0.json").unlink()
    assert not run(tmp_path / "in", corrected, 12)
    names = ["day1.json", "day1.rsml", "day2.orig.rsml", "day2.rsml"]
    assert sorted(file.name for file in (corrected / "rsml").iterdir()) == names


def test_an_rsml_file_that_was_changed_while_figures_are_drawn_is_not_removed(tmp_path, monkeypatch):
    folder, out = tmp_path / "in", tmp_path / "out"
    write_dates(folder)

    def changing(*_):
        another = threading.Thread(target=write, args=(comb(BY_HAND, []), out / "rsml" / "day0.rsml"))
        another.start()  # a thread stands for another program
        another.join()
        return b"animation"

    with monkeypatch.context() as patch:
        patch.setattr("treeformer.timeseries.figures.animation", changing)
        assert not run(folder, out, 10)
    (folder / "day0.json").unlink()
    assert not run(folder, out, 11)
    assert [file.name for file in sorted((out / "rsml").iterdir())] == ["day0.rsml", "day1.rsml", "day2.rsml"]
    assert read(out / "rsml" / "day0.rsml").length == pytest.approx(BY_HAND)


def test_an_rsml_file_of_another_program_is_kept(corrected, tmp_path, capsys):
    run(tmp_path / "in", corrected, 11)
    copy = corrected / "rsml" / "day2.orig.rsml"
    assert f"a file that the editor did not write is replaced, and kept as {copy}\n" in capsys.readouterr().err
    assert read(copy).length == pytest.approx(BY_HAND)
    assert read(corrected / "rsml" / "day2.rsml").length == pytest.approx(50 + 9 * 2)
    run(tmp_path / "in", corrected, 12)
    assert "kept as" not in capsys.readouterr().err


def test_the_figures_that_python_writes_are_not_listed_as_images(tmp_path):
    Image.new("RGB", (300, 300)).save(tmp_path / "day1.png")
    Series([(1, comb(50, []))]).write(tmp_path / "results")
    assert (tmp_path / "results" / "lengths.png").is_file()
    assert [job.image.name for job in plan([tmp_path], tmp_path / "predicted")] == ["day1.png"]
