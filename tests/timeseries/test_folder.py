"""Folders as series: files, times, and the command `treeformer series`."""

from __future__ import annotations

import json
import os
from datetime import datetime

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from typer.testing import CliRunner

from tests.timeseries.series_factory import comb
from treeformer import Series, Skeleton, TreeformerError, write
from treeformer.cli import app
from treeformer.data.generate_series import generate_series
from treeformer.data.recipe import INCOMPLETE_NAME
from treeformer.inference.batch import plan
from treeformer.results.layout import SERIES_LIST
from treeformer.timeseries.folder import DateFile, find_dates, times_of


def image(path, time=None, zone=None):
    pixels = Image.fromarray(np.full((40, 40, 3), 200, dtype=np.uint8))
    exif = Image.Exif()
    if time:
        exif.get_ifd(0x8769)[36867] = time
    if zone:
        exif.get_ifd(0x8769)[0x9011] = zone
    pixels.save(path, exif=exif)


def named(*names):
    return [DateFile(name, None, None) for name in names]


@pytest.mark.parametrize(
    ("names", "times"),
    [
        (("plate3_day1", "plate3_day12"), [1, 12]),
        (("day-0.5", "day-2"), [0.5, 2]),
        (("a_2026-03-01", "a_2026-03-05"), [datetime(2026, 3, 1), datetime(2026, 3, 5)]),
        (("20260301_1230", "20260301-183015"), [datetime(2026, 3, 1, 12, 30), datetime(2026, 3, 1, 18, 30, 15)]),
        (("x2026-03-01T06h30", "x2026_03_02"), [datetime(2026, 3, 1, 6, 30), datetime(2026, 3, 2)]),
        (("2026-03-31", "2026-4-1"), [datetime(2026, 3, 31), datetime(2026, 4, 1)]),
        (("2026.3.31_0830", "2026.4.1"), [datetime(2026, 3, 31, 8, 30), datetime(2026, 4, 1)]),
        (("a7-01-2026-03-01", "a-7-01-20260302_0830"), [datetime(2026, 3, 1), datetime(2026, 3, 2, 8, 30)]),
        (("28.02.2026 day1", "2.3.2026 day3"), [1, 3]),
        (("2026_3_1", "2026_3_12"), [1, 12]),  # experiment 2026, plate 3
        (
            ("PXL_20260301_083015123", "PXL_20260301_083015"),
            [datetime(2026, 3, 1, 8, 30, 15, us) for us in (123000, 0)],
        ),
        (
            ("Image 2026-03-01 at 08.30.15", "Image 2026-03-01 at 8.30.15 PM"),
            [datetime(2026, 3, 1, hour, 30, 15) for hour in (8, 20)],
        ),
        (("19991399", "19991398"), [19991399, 19991398]),  # no such month: numbers
    ],
)
def test_times_in_names(names, times):
    assert times_of(named(*names), "name").values == times


@pytest.mark.slow
@given(st.lists(st.text(max_size=30), min_size=1, max_size=4))
def test_any_names_give_times_or_one_line(names):
    try:
        times = times_of(named(*names), "name").values
    except TreeformerError:
        return
    assert len(times) == len(names) == len(set(times))


@pytest.mark.parametrize(
    ("names", "source", "message"),
    [
        (("a", "b"), "name", "a: no date and no number in the name"),
        (("2026-03-30", "2026-04-31", "2026-3"), "name", "2026-04-31, 2026-3: no valid date in the name"),
        (("01.03.2026_0830", "02.03.2026_0915"), None, "01.03.2026_0830: a date in a name must begin with its year"),
        (("1-3-2026_1045", "2-3-2026_1045"), "name", "1-3-2026_1045: a date in a name must begin with its year"),
        (("2026-03-30", "2026-04-31"), None, "2026-04-31: no valid date in the name"),
        (("451", "451R"), "name", "451 and 451R have the same time"),
        (("a", "b"), "exif", "without an image there is no EXIF time"),
        (("a", "b"), None, "give a CSV file"),
        (("a", "b"), "missing.csv", "missing.csv: cannot be read"),
        (
            ("a", "b"),
            "names",
            "cannot be read as a table (No such file or directory); the times come from name, exif or",
        ),
    ],
)
def test_missing_times_are_one_line(names, source, message):
    with pytest.raises(TreeformerError) as error:
        times_of(named(*names), source)
    assert message in str(error.value)


def test_times_from_exif(tmp_path):
    image(tmp_path / "a.jpg", "2026:03:01 10:00:00")
    image(tmp_path / "b.jpg", "2026:03:02 22:00:00")
    assert times_of(find_dates(tmp_path)).values == [datetime(2026, 3, 1, 10), datetime(2026, 3, 2, 22)]
    image(tmp_path / "c.jpg")
    with pytest.raises(TreeformerError, match=r"c\.jpg: no time in its EXIF data"):
        times_of(find_dates(tmp_path), "exif")


def test_exif_times_are_preferred_to_the_counter_of_a_camera(tmp_path):
    image(tmp_path / "IMG_7000.jpg", "2026:03:01 10:00:00")
    image(tmp_path / "IMG_7001.jpg", "2026:03:03 10:00:00")
    times = times_of(find_dates(tmp_path))
    assert str(times) == "times from EXIF, 2026-03-01 10:00:00 to 2026-03-03 10:00:00"
    image(tmp_path / "IMG_7002.jpg")
    assert str(times_of(find_dates(tmp_path))) == "times from the last numbers in the names, 7000 to 7002"
    image(tmp_path / "IMG_7002.jpg", "2026:03:03 10:00:00")  # the same as another: the clock is wrong
    assert times_of(find_dates(tmp_path)).values == [7000, 7001, 7002]


def test_time_zones_of_exif(tmp_path):
    """The clocks change between the images."""
    image(tmp_path / "a.jpg", "2026:03:29 01:30:00", "+01:00")
    image(tmp_path / "b.jpg", "2026:03:29 03:30:00", "+02:00")
    assert times_of(find_dates(tmp_path)).values == [datetime(2026, 3, 29, 0, 30), datetime(2026, 3, 29, 1, 30)]
    image(tmp_path / "c.jpg", "2026:03:29 04:30:00")
    with pytest.raises(TreeformerError, match="the time of a has a time zone and that of c has none"):
        times_of(find_dates(tmp_path))


def test_names_with_dots_in_a_table(tmp_path):
    path = tmp_path / "times.csv"
    path.write_text("name,time\nt1,1\nt1.5,7\nplate/t2.png,9\nt2.json,9\n")
    assert times_of(named("t1", "t1.5", "t2"), str(path)).values == [1, 7, 9]


def test_a_pipe_is_no_table(tmp_path):
    os.mkfifo(tmp_path / "times.csv")
    with pytest.raises(TreeformerError, match="Not a regular file"):
        times_of(named("a"), str(tmp_path / "times.csv"))


@pytest.mark.parametrize(
    ("table", "times"),
    [
        ("name,time\na,1.5\nb.png,3\n", [1.5, 3]),
        ("\ufeffname;time\na;1.5\nb.png;3\n", [1.5, 3]),
        ("name;time\na;1,5\nb;3\n", [1.5, 3]),
        ("\ufeffTime,Image\n2026-03-01,a\n2026-03-02T12:00,b\n", [datetime(2026, 3, 1), datetime(2026, 3, 2, 12)]),
    ],
)
def test_times_in_a_table(tmp_path, table, times):
    path = tmp_path / "times.csv"
    path.write_text(table, encoding="utf-8")
    assert times_of(named("a", "b"), str(path)).values == times


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("a,b\n1,2\n", "needs the columns name and time"),
        ("", "needs the columns name and time"),
        ("name,time\n", "has no rows"),
        ("name,time\na,1\nb,nan\n", "the time of b, 'nan', is not a finite number"),
        ("name,time\na,1\nb,2026-03-01\n", "times.csv: the time of a is a number and that of b a date"),
        ("name,time\na,1\na.png,5\nb,2\n", "a has two times, 1.0 and 5.0"),
        ("name,time\na,2026-03-01T00:00+02:00\nb,2026-03-01\n", "of a has a time zone and that of b has none"),
        ("name,time\na,1\n", "no time for b"),
        ("name,time\na,soon\nb,2\n", "the time of a, 'soon', is neither a number nor an ISO date"),
    ],
)
def test_bad_tables_are_one_line(tmp_path, table, message):
    path = tmp_path / "times.csv"
    path.write_text(table)
    with pytest.raises(TreeformerError, match=message):
        times_of(named("a", "b"), str(path))


def test_files_of_a_folder(tmp_path):
    image(tmp_path / "d1.png")
    image(tmp_path / "d2.png")
    image(tmp_path / "d2.overlay.jpg")
    for name in ("d2.rsml", "d2.json", "d3.rsml"):
        write(comb(50, []), tmp_path / name)
    (tmp_path / "notes.txt").write_text("")
    (tmp_path / "other.json").write_text("{}")
    found = [(d.name, d.image and d.image.name, d.skeleton and d.skeleton.name) for d in find_dates(tmp_path)]
    assert found == [("d1", "d1.png", None), ("d2", "d2.png", "d2.json"), ("d3", None, "d3.rsml")]


def test_a_folder_without_dates_is_an_error(tmp_path):
    with pytest.raises(TreeformerError, match="no image and no skeleton"):
        find_dates(tmp_path)
    with pytest.raises(TreeformerError, match="no such folder"):
        find_dates(tmp_path / "none")


@pytest.mark.slow
def test_the_command_on_generated_series(tmp_path):
    report = generate_series(tmp_path / "data", dates=4, count=1, preset="seedling", seed=105, size=(200, 200))
    assert (report.created, report.kept) == (4, 0)
    again = generate_series(tmp_path / "data", dates=4, count=2, preset="seedling", seed=105, size=(200, 200))
    assert (again.created, again.kept) == (4, 4)
    out = tmp_path / "out"
    result = CliRunner().invoke(app, ["series", str(tmp_path / "data" / "000105"), "-o", str(out), "--px-per-mm", "4"])
    assert result.exit_code == 0, result.output
    table = pd.read_csv(out / "axes_over_time.csv")
    assert table["unit"].unique().tolist() == ["mm"]
    assert table["time"].nunique() >= 3
    assert table["image"].str.startswith("day-").all()
    assert (out / "animation.webp").is_file()
    assert len(list((out / "rsml").iterdir())) == 4


@pytest.mark.parametrize("place", [".", "000105"])
def test_a_series_that_was_not_generated_to_the_end_is_refused(tmp_path, place):
    for day in range(2):
        write(comb(50 + 9 * day, []), tmp_path / "000105" / f"day-{day:03}.json")
    (tmp_path / place / INCOMPLETE_NAME).touch()
    error = run(tmp_path / "000105", "-o", tmp_path / "out").exception
    assert isinstance(error, TreeformerError)
    assert str(error).startswith(f"{tmp_path / '000105'}: is incomplete, because the command that wrote it was stopped")
    assert str(tmp_path / place / INCOMPLETE_NAME) in str(error)
    assert not (tmp_path / "out").exists()


def test_the_command_keeps_going_if_a_file_is_damaged(tmp_path):
    for day in range(3):
        write(comb(50 + 9 * day, []), tmp_path / f"day{day}.rsml")
    text = (tmp_path / "day1.rsml").read_text()
    (tmp_path / "day1.rsml").write_text(text[: len(text) // 2])
    result = CliRunner().invoke(app, ["series", str(tmp_path), "-o", str(tmp_path / "out"), "--no-figures"])
    assert result.exit_code == 2
    assert len(pd.read_csv(tmp_path / "out" / "axes_over_time.csv")) == 2
    assert not (tmp_path / "out" / "lengths.png").exists()


def test_the_results_may_not_be_written_among_the_images(tmp_path):
    write(comb(50, []), tmp_path / "day1.rsml")
    result = CliRunner().invoke(app, ["series", str(tmp_path), "-o", str(tmp_path)])
    assert result.exit_code != 0
    assert isinstance(result.exception, TreeformerError)


def run(*arguments):
    return CliRunner().invoke(app, ["series", *map(str, arguments)])


@pytest.mark.parametrize(
    ("option", "message"),
    [(("--px-per-mm", "-3"), "--px-per-mm must be a positive number, not -3"), (("--tolerance", "0"), "--tolerance")],
)
def test_options_are_checked_before_images_are_predicted(tmp_path, option, message):
    image(tmp_path / "day1.png")
    result = run(tmp_path, "-o", tmp_path / "out", "--model", "/no/such/model", *option)
    assert message in str(result.exception)


def test_a_skeleton_with_a_cycle_is_named_and_left_out(tmp_path):
    for day in range(2):
        write(comb(50 + 9 * day, []), tmp_path / f"day{day}.json")
    cycle = Skeleton([(0, 0), (9, 9), (9, 0)], [(0, 1), (1, 2), (2, 0)])
    write(cycle, tmp_path / "day2.json")
    result = run(tmp_path, "-o", tmp_path / "out", "--no-figures")
    assert result.exit_code == 2
    assert "treeformer: day2.json: " in result.output
    assert len(pd.read_csv(tmp_path / "out" / "axes_over_time.csv")) == 2


def test_an_unreadable_image_beside_a_skeleton_has_a_white_background(tmp_path):
    for day in range(2):
        write(comb(20 + 9 * day, []), tmp_path / f"day{day}.json")
        image(tmp_path / f"day{day}.png")
    (tmp_path / "day1.png").write_bytes((tmp_path / "day1.png").read_bytes()[:60])
    result = run(tmp_path, "-o", tmp_path / "out")
    assert result.exit_code == 2
    assert "its background is white" in result.output
    assert (tmp_path / "out" / "animation.webp").is_file()
    assert (tmp_path / "out" / ".treeformer-images").is_file()


def test_the_default_tolerance_is_that_of_the_image(tmp_path, monkeypatch):
    """SWC files do not hold the size of the image."""
    write(comb(20, []), tmp_path / "day1.swc")
    Image.fromarray(np.full((1000, 2000), 200, dtype=np.uint8)).save(tmp_path / "day1.png")
    made = []
    monkeypatch.setattr("treeformer.timeseries.Series", lambda *a, **k: made.append(Series(*a, **k)) or made[0])
    assert run(tmp_path, "-o", tmp_path / "out", "--no-figures").exit_code == 0
    assert made[0].tolerance_px == pytest.approx(0.015 * 2000)


def test_files_of_an_earlier_run_are_removed_unless_they_were_changed(tmp_path):
    folder, out = tmp_path / "in", tmp_path / "out"
    for day in range(4):
        write(comb(50 + 9 * day, []), folder / f"day{day}.json")
    assert run(folder, "-o", out, "--no-figures").exit_code == 0
    write(comb(70, []), out / "rsml" / "day1.rsml")  # as the editor does
    write(comb(70, []), out / "rsml" / "mine.rsml")
    for day in (0, 1):
        (folder / f"day{day}.json").unlink()
    assert run(folder, "-o", out, "--no-figures").exit_code == 0
    assert sorted(file.name for file in (out / "rsml").iterdir()) == [
        "day1.rsml",
        "day2.rsml",
        "day3.rsml",
        "mine.rsml",
    ]


def test_a_line_says_that_some_plants_have_no_kymograph(tmp_path, monkeypatch):
    monkeypatch.setattr("treeformer.timeseries.output.MAX_KYMOGRAPHS", 1)
    nodes = [(20, 5), (20, 45), (60, 5), (60, 45)]
    write(Skeleton(nodes, [(0, 1), (2, 3)], root=[0, 2], image_size=(80, 80)), tmp_path / "day1.json")
    result = run(tmp_path, "-o", tmp_path / "out")
    assert "kymographs: only of the first 1 of 2 plants" in result.output
    assert len(list((tmp_path / "out" / "kymographs").iterdir())) == 1


def test_the_figures_of_a_series_are_not_listed_as_images(tmp_path):
    """The results are in a folder below the images, as many keep them."""
    for day in (1, 2):
        write(comb(40 + 20 * day, []), tmp_path / f"day{day}.json")
        Image.new("RGB", (300, 300)).save(tmp_path / f"day{day}.png")
    assert run(tmp_path, "-o", tmp_path / "results").exit_code == 0
    assert (tmp_path / "results" / "lengths.png").is_file()
    assert [job.image.name for job in plan([tmp_path], tmp_path / "predicted")] == ["day1.png", "day2.png"]


def interrupted(*_, **__):
    raise KeyboardInterrupt


@pytest.mark.parametrize("figure", ["kymograph", "animation"])
def test_figures_of_an_interrupted_series_are_not_listed_as_images(tmp_path, monkeypatch, figure):
    for day in (1, 2):
        write(comb(40 + 20 * day, []), tmp_path / f"day{day}.json")
        Image.new("RGB", (300, 300)).save(tmp_path / f"day{day}.png")
    monkeypatch.setattr(f"treeformer.timeseries.figures.{figure}", interrupted)
    assert run(tmp_path, "-o", tmp_path / "results").exit_code == 130
    assert (tmp_path / "results" / "lengths.png").is_file()
    assert [job.image.name for job in plan([tmp_path], tmp_path / "predicted")] == ["day1.png", "day2.png"]


def test_an_interrupted_series_keeps_the_list_of_the_earlier_run(tmp_path, monkeypatch):
    folder, out = tmp_path / "in", tmp_path / "out"
    for day in range(3):
        write(comb(50 + 9 * day, []), folder / f"day{day}.json")
    assert run(folder, "-o", out).exit_code == 0
    before = json.loads((out / SERIES_LIST).read_bytes())
    monkeypatch.setattr("treeformer.timeseries.figures.kymograph", interrupted)
    assert run(folder, "-o", out).exit_code == 130
    after = json.loads((out / SERIES_LIST).read_bytes())
    assert before.keys() == after.keys() == {"kymographs/1.1.png", *(f"rsml/day{day}.rsml" for day in range(3))}
    assert after["kymographs/1.1.png"] == before["kymographs/1.1.png"]


@pytest.mark.parametrize(
    "content", ["[]", "{", '{"rsml/day0.rsml": 1, "rsml/\\u0000": ["a"], "../in/day1.json": ["a"]}']
)
def test_a_damaged_list_of_files_is_replaced(tmp_path, content):
    folder, out = tmp_path / "in", tmp_path / "out"
    for day in range(2):
        write(comb(50 + 9 * day, []), folder / f"day{day}.json")
    out.mkdir()
    (out / SERIES_LIST).write_text(content)
    assert run(folder, "-o", out, "--no-figures").exit_code == 0
    assert json.loads((out / SERIES_LIST).read_bytes()).keys() == {"rsml/day0.rsml", "rsml/day1.rsml"}
    assert (folder / "day1.json").is_file()


def test_only_the_first_warnings_are_shown(tmp_path, monkeypatch):
    monkeypatch.setattr("treeformer.cli.series.MAX_WARNINGS", 1)
    for day in range(4):
        empty = Skeleton([], [], image_size=(300, 300), image_name=f"day{day}.png")
        write(empty if day else comb(90, []), tmp_path / f"day{day}.json")
    found = run(tmp_path, "-o", tmp_path / "out", "--no-figures")
    assert found.stderr.count("no plant at time") == 1
    assert "treeformer: and 2 more such lines; compare length and monotone_length" in found.stderr


@pytest.mark.parametrize("name", ["coco", "labelme"])
def test_files_of_several_formats_beside_an_image_are_one_date(tmp_path, name):
    skeleton = Skeleton([(9, 9), (9, 20)], [(0, 1)], root=0, image_size=(99, 99))
    for day in (1, 2):
        image(tmp_path / f"day{day}.png")
        write(skeleton, tmp_path / f"day{day}.json")
        write(skeleton, tmp_path / f"day{day}.{name}.json", format=name)
    dates = find_dates(tmp_path)
    assert [date.name for date in dates] == ["day1", "day2"]
    assert [date.skeleton.name for date in dates] == ["day1.json", "day2.json"]
