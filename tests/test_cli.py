"""The command line: every command works."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer
from PIL import Image
from rich.text import Text

import treeformer
from tests.inference.fake_engine import line_engine, predictor
from treeformer import synthetic
from treeformer._util.images import IMAGE_SUFFIXES
from treeformer.cli import app
from treeformer.examples import EXAMPLE, IMAGES, SEEDS
from treeformer.results.layout import list_skeletons
from treeformer.traits import COMPACT_COLUMNS


@pytest.mark.slow
def test_version_and_help(run):
    assert run("--version")[1].strip() == f"treeformer {treeformer.__version__}"
    code, out, _ = run("--help")
    assert code == 0
    commands = (
        "predict", "convert", "formats", "traits", "draw", "evaluate", "generate", "prepare", "train", "export", "info",
        "demo",
    )  # fmt: skip
    assert [word for word in re.findall(r"^\W*(\w+) ", out, re.M) if word in commands] == list(commands)
    for command in commands:
        code, text, _ = run(command, "--help")
        assert code == 0
        assert "examples" in text.lower()
        assert f"treeformer {command}" in text[text.lower().rindex("examples") :]


def test_the_help_of_predict_lists_all_image_types(run):
    text = run("predict", "--help")[1].lower()
    for suffix in IMAGE_SUFFIXES - {".jpg", ".tif"}:
        assert suffix.removeprefix(".") in text


def test_nothing_of_a_help_text_is_lost():
    """Help texts are Rich markup, in which words in brackets are tags and are not shown."""
    lost = [
        f"{name} {parameter.name}"
        for name, command in typer.main.get_command(app).commands.items()
        for parameter in command.params
        if (text := getattr(parameter, "help", None)) and Text.from_markup(text).plain != text
    ]
    assert not lost


@pytest.mark.slow
def test_it_starts_as_a_program():
    done = subprocess.run([sys.executable, "-m", "treeformer", "formats"], capture_output=True, text=True, check=True)
    assert "rsml-smartroot" in done.stdout


@pytest.mark.slow
def test_on_a_narrow_screen_nothing_is_cut(run, plants, monkeypatch):
    """Names of formats, figures and paths must be complete."""
    monkeypatch.setenv("COLUMNS", "40")
    _, formats, _ = run("formats")
    _, figures, _ = run("evaluate", plants, plants, "--image-size", 40, 50)
    _, model, _ = run("info", "default")
    for table in (formats, figures, model.partition("architecture")[0]):
        assert len(table.splitlines()) > 1
        assert "…" not in table


@pytest.mark.slow
def test_characters_that_the_terminal_cannot_show_are_escaped():
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "treeformer", "info", "default"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert "512 \\xd7 512 px" in done.stdout


@pytest.mark.slow
def test_convert_a_file_and_a_folder(run, plants, tmp_path, comb):
    assert run("convert", plants / "käm m.rsml", tmp_path / "a.swc")[0] == 0
    assert treeformer.read(tmp_path / "a.swc").length == comb.length
    code, _, err = run("convert", plants, tmp_path / "out", "--format", "geojson")
    assert code == 0
    assert "2 files written" in err
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["käm m.geojson", "y.geojson"]
    assert run("convert", plants / "y.json", tmp_path / "b.json", "--format", "node-link")[0] == 0
    assert '"links"' in (tmp_path / "b.json").read_text() or '"edges"' in (tmp_path / "b.json").read_text()


def test_convert_after_a_prediction_in_two_formats(run, tmp_path, y_shape):
    """`treeformer predict photos/ -o results --format rsml` writes a.json and a.rsml for each image."""
    for name in ("a", "b"):
        for suffix in ("json", "rsml"):
            treeformer.write(y_shape, tmp_path / "results" / f"{name}.{suffix}")
    code, out, err = run("convert", tmp_path / "results", tmp_path / "out", "--format", "swc")
    assert (code, out) == (0, "")
    assert err.splitlines() == [
        "treeformer: 2 names in several formats: json preferred, 2 other files passed over (rsml)",
        f"2 files written to {tmp_path / 'out'}",
    ]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a.swc", "b.swc"]
    code, _, err = run("convert", tmp_path / "results" / "a.rsml", tmp_path / "one.swc")
    assert (code, len(err.splitlines())) == (0, 1)


def test_convert_to_rsml_leaves_out_what_rsml_does_not_allow(run, tmp_path):
    for name, spline in (("a", "<rootnavspline/>"), ("b", "<rootnavspline/>"), ("c", "")):
        (tmp_path / f"{name}.rsml").write_text(
            "<rsml><scene><plant><root><geometry><polyline><point x='0' y='0'/><point x='0' y='9'/></polyline>"
            f"{spline}</geometry></root></plant></scene></rsml>"
        )
    code, _, err = run("convert", tmp_path, tmp_path / "out", "--format", "rsml")
    assert code == 0
    line = "treeformer: 2 files: elements that RSML does not allow were left out (rootnavspline); --preserve keeps them"
    assert err.splitlines() == [line, f"3 files written to {tmp_path / 'out'}"]
    assert "rootnavspline" not in (tmp_path / "out" / "a.rsml").read_text()
    code, _, err = run("convert", tmp_path / "a.rsml", tmp_path / "new" / "kept.rsml", "--preserve")
    assert (code, len(err.splitlines())) == (0, 1)
    assert "<rootnavspline" in (tmp_path / "new" / "kept.rsml").read_text()


@pytest.mark.slow
def test_traits_of_a_folder(run, plants, tmp_path):
    code, _, err = run("traits", plants, "-o", tmp_path / "traits.csv")
    assert code == 0
    assert "2 rows from 2 files" in err
    table = pd.read_csv(tmp_path / "traits.csv")
    assert sorted(table["total_length"]) == [14.0, 70.0]
    assert list(table) == list(COMPACT_COLUMNS)
    assert sorted(table["image"]) == ["käm m.rsml", "y.json"]
    code, _, _ = run("traits", plants, "--all", "-o", tmp_path / "all.csv")
    assert code == 0
    table = pd.read_csv(tmp_path / "all.csv")
    assert list(table)[:3] == ["image", "file", "plant"]
    assert "scanline_counts_p95" in table
    code, out, _ = run("traits", plants / "y.json", "--px-per-mm", 2, "--column-names", "sleap-roots")
    assert code == 0
    assert "network_length" in out
    assert ",7.0," in out


@pytest.mark.slow
def test_traits_of_folders_in_folders_and_of_one_skeleton_in_two_formats(run, plants, tmp_path, y_shape):
    """`treeformer predict photos/ --format rsml` writes such folders."""
    for name in ("y.json", "y.rsml", "2024.05.json", "2024.06.json", ".hidden.json"):
        treeformer.write(y_shape, plants / "day 2" / name)
    treeformer.write(y_shape, plants / "day 2" / "y.coco.json", format="coco")
    code, _, err = run("traits", plants, "-o", tmp_path / "traits.csv")
    assert code == 0
    assert err.splitlines() == [
        "treeformer: 1 name in several formats: json preferred, 2 other files passed over (rsml, coco)",
        f"5 rows from 5 files in {tmp_path / 'traits.csv'}",
    ]


def test_traits_after_corrections_measures_each_plant_once(run, tmp_path, y_shape, comb):
    """The editor writes a.json and a.rsml, and keeps the prediction as a.orig.json."""
    for name, skeleton in (("a.json", y_shape), ("a.rsml", y_shape), ("a.orig.json", comb)):
        treeformer.write(skeleton, tmp_path / name)
    tables = []
    for files in ([tmp_path], sorted(tmp_path.glob("*.json")), [tmp_path / "a.json"], [tmp_path, tmp_path / "a.json"]):
        code, out, _ = run("traits", *files)
        assert code == 0
        tables.append(out)
    assert len(set(tables)) == 1
    assert len(tables[0].splitlines()) == 2
    code, out, _ = run("traits", tmp_path / "a.orig.json")
    assert (code, len(out.splitlines())) == (0, 2)
    assert out != tables[0]


def test_traits_measures_each_file_once(run, tmp_path, monkeypatch, y_shape, comb):
    treeformer.write(comb, tmp_path / "day" / "b.json")
    treeformer.write(y_shape, tmp_path / "day" / "a.json")
    (tmp_path / "link.json").symlink_to(tmp_path / "day" / "a.json")
    (tmp_path / "linked").symlink_to(tmp_path / "day", target_is_directory=True)
    monkeypatch.chdir(tmp_path)
    same = ["day/../day/a.json", tmp_path / "day" / "a.json", "link.json", "linked/a.json"]
    assert list_skeletons([Path("day/b.json"), *map(Path, same), Path("day"), Path("linked")]) == [
        Path("day/b.json"),
        Path("day/../day/a.json"),
    ]
    code, out, err = run("traits", "day/a.json", *same)
    assert (code, err.splitlines(), len(out.splitlines())) == (0, ["1 row from 1 file"], 2)


@pytest.mark.slow
def test_a_table_of_traits_in_the_folder_is_not_taken_for_a_skeleton(run, plants):
    for _ in range(2):
        code, _, err = run("traits", plants, "-o", plants / "traits.csv")
        assert code == 0, err
    code, _, err = run("convert", plants, plants.parent / "out", "--format", "swc")
    assert code == 0, err
    assert "2 files written" in err


def test_draw_and_compare(run, plants, tmp_path):
    image, skeleton = plants / "käm m.png", plants / "käm m.rsml"
    assert run("draw", image, skeleton, "-o", tmp_path / "new" / "a.png")[0] == 0
    assert run("draw", image, skeleton, "-o", tmp_path / "b.jpg", "--compare", skeleton)[0] == 0
    assert Image.open(tmp_path / "new" / "a.png").size == Image.open(tmp_path / "b.jpg").size == (40, 50)


@pytest.mark.slow
def test_the_demo_writes_files_without_a_model(run, tmp_path, monkeypatch):
    monkeypatch.setattr("treeformer.hub.model_folder.DEFAULT_FOLDER", tmp_path / "no model")
    code, out, _ = run("demo", "-o", tmp_path)
    assert code == 0
    for line in out.splitlines()[-4:]:
        assert Path(line.split()[-1]).stat().st_size > 0


@pytest.mark.slow
def test_the_demo_predicts_if_there_is_a_model(run, tmp_path, monkeypatch):
    finds_a_line = predictor(line_engine(side=512))
    monkeypatch.setattr("treeformer.hub.model_folder.DEFAULT_FOLDER", tmp_path)
    monkeypatch.setattr("treeformer.inference.predictor.Predictor", lambda *_, **__: finds_a_line)
    code, out, _ = run("demo", "-o", tmp_path / "out")
    assert code == 0
    for image in IMAGES:
        assert f"\n{image.stem} " in out
        for ending in (".json", ".rsml", ".overlay.jpg"):
            assert (tmp_path / "out" / (image.stem + ending)).stat().st_size > 0
    assert (tmp_path / "out" / "traits.csv").stat().st_size > 0
    assert Image.open(tmp_path / "out" / "comparison.png").size[0] > 400


@pytest.mark.slow
def test_the_examples_match_their_seeds():
    for preset, (style, seed) in SEEDS.items():
        image, skeleton = synthetic.make_image(preset, style, seed)
        path = EXAMPLE.with_name(f"{preset}.jpg")
        assert np.abs(np.asarray(Image.open(path), dtype=int) - image).mean() < 6
        assert treeformer.read(path.with_suffix(".rsml")).length == pytest.approx(skeleton.length, rel=1e-3)
