"""The command line: every mistake is one clear line."""

from __future__ import annotations

import os
import re

import pandas as pd
import pytest
import typer.main
from PIL import Image

import treeformer
from tests.messages import one_line
from treeformer import Skeleton
from treeformer.cli import app

BOMB = '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "c">]><rsml>&b;</rsml>'
OUTSIDE = '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><rsml>&b;</rsml>'


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("empty.rsml", ""),
        ("cut.rsml", "<rsml><metadata><version>1</ver"),
        ("cut.json", '{"format": "treeformer-skeleton", "version": 1, "nodes": [[1, 2'),
        ("image.rsml", "\x89PNG\r\n\x1a\n\x00\x00"),
        ("bomb.rsml", BOMB),
        ("outside.rsml", OUTSIDE),
        ("nan.json", '{"format": "treeformer-skeleton", "version": 1, "nodes": [[NaN, 2]], "edges": []}'),
        ("infinite.swc", "1 0 inf 2 0 1 -1\n"),
        ("edge.json", '{"format": "treeformer-skeleton", "version": 1, "nodes": [[1, 2]], "edges": [[0, 7]]}'),
        ("cycle.swc", "1 0 0 0 0 1 2\n2 0 1 1 0 1 1\n"),
        ("unknown.xyz", "hello"),
        ("mümmel ½.swc", "hello"),
    ],
)
def test_a_bad_file_is_one_line(run, tmp_path, name, content):
    (tmp_path / name).write_text(content, encoding="latin-1" if "PNG" in content else "utf-8")
    code, _, err = run("convert", tmp_path / name, tmp_path / "out.graphml")
    assert code == 2
    assert name in one_line(err)
    assert not (tmp_path / "out.graphml").exists()
    code, _, err = run("traits", tmp_path / name, "-o", tmp_path / "traits.csv")
    assert code == 2
    assert name in one_line(err)
    assert not (tmp_path / "traits.csv").exists()


@pytest.mark.slow
def test_two_hundred_megabytes_of_garbage_are_refused_quickly(run, tmp_path):
    noise = os.urandom(1 << 20)
    for name in ("big.json", "big.rsml", "big.swc", "big.csv", "big.graphml"):
        with (tmp_path / name).open("wb") as file:
            for _ in range(200):
                file.write(noise)
        code, _, err = run("convert", tmp_path / name, tmp_path / "out.json")
        assert code == 2
        assert name in err.splitlines()[0]
        (tmp_path / name).unlink()


def test_a_broken_file_does_not_stop_a_batch(run, plants, tmp_path):
    (plants / "broken.rsml").write_text("<rsml>")
    code, _, err = run("convert", plants, tmp_path / "out", "--format", "swc")
    assert code == 2
    assert "broken.rsml" in err.splitlines()[0]
    assert "2 files written" in err.splitlines()[-1]
    assert "1 failed" in err.splitlines()[-1]
    assert len(list((tmp_path / "out").iterdir())) == 2
    code, _, err = run("traits", plants, "-o", tmp_path / "t.csv")
    assert code == 2
    assert "2 rows from 2 files" in err.splitlines()[-1]
    assert len(pd.read_csv(tmp_path / "t.csv")) == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("convert", "none.rsml", "a.swc"), "none.rsml"),
        (("convert", "y.json", "a.xyz"), "a.xyz"),
        (("convert", "y.json", "a.json", "--format", "jpeg"), "jpeg"),
        (("convert", "y.json", "a.json", "--from", "rsml"), "y.json"),
        (("convert", "only images", "a", "--format", "swc"), "only images: no skeleton file in this folder"),
        (("convert", ".", "y.json/a", "--format", "swc"), "y.json/a: cannot be written to (Not a directory)"),
        (("traits", "none.swc"), "none.swc"),
        (("traits", "y.json", "--px-per-mm", "0"), "px_per_mm"),
        (("traits", "y.json", "--px-per-mm", "nan"), "px_per_mm"),
        (("traits", "y.json", "-o", "a.xlsx"), "a.xlsx: a table of traits must end in .csv"),
        (("traits", "y.json", "-o", "y.json/a.csv"), "y.json: cannot be written to"),
        (("draw", "none.png", "y.json", "-o", "a.png"), "none.png"),
        (("draw", "käm m.png", "y.json", "-o", "a.png"), "10×10"),
        (("draw", "käm m.png", "none.json", "-o", "a.png"), "none.json"),
        (("draw", "käm m.png", "käm m.rsml", "-o", "a.txt"), "a.txt"),
        (("generate", "~/a", "--count", "1"), "~/a: the shell has not replaced ~"),
        (("prepare", "osr-roots", ".", "~/a"), "~/a: the shell has not replaced ~"),
        (("finetune", ".", "-o", "~/a"), "~: the shell has not replaced ~"),
    ],
)
def test_a_mistake_is_one_line(run, plants, monkeypatch, arguments, message):
    monkeypatch.chdir(plants)
    (plants / "only images").mkdir()
    (plants / "only images" / "settings.json").write_text("{}")
    code, _, err = run(*arguments)
    assert code == 2
    assert message in one_line(err).replace("-", "_") or message in one_line(err)
    assert not list(plants.glob("a.*"))


def test_a_folder_without_write_permission_is_one_line(run, plants, tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    if os.access(closed, os.W_OK):
        pytest.skip("this user may write everywhere")
    code, _, err = run("convert", plants / "y.json", closed / "a.swc")
    assert code == 2
    assert "a.swc" in one_line(err)


def test_a_file_instead_of_a_folder_is_one_line(run, plants, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    code, _, err = run("convert", plants / "y.json", tmp_path / "file" / "a.swc")
    assert code == 2
    assert "Traceback" not in err


def test_the_demo_checks_its_output_folder_before_the_work(run, tmp_path, monkeypatch):
    monkeypatch.setattr("treeformer.inference.predictor.Predictor", None)  # not even loaded
    (tmp_path / "file").write_text("not a folder")
    code, _, err = run("demo", "-o", tmp_path / "file")
    assert code == 2
    assert one_line(err) == f"treeformer: {tmp_path / 'file'}: cannot be written to (Not a directory)"


@pytest.mark.slow
def test_an_empty_skeleton_works_with_every_command(run, tmp_path):
    """`treeformer predict` writes it if no plant was found."""
    json, rsml = tmp_path / "json", tmp_path / "rsml"
    treeformer.write(Skeleton([], [], image_size=(40, 50), image_name="bare.png"), json / "bare.json")
    Image.new("RGB", (40, 50), "white").save(json / "bare.png")
    for source, target, suffix in ((json, rsml, "rsml"), (rsml, tmp_path / "swc", "swc")):
        code, _, err = run("convert", source, target, "--format", suffix)
        assert (code, err.startswith("1 file written")) == (0, True), err
        assert len(treeformer.read(target / f"bare.{suffix}")) == 0
        for level in ("plant", "axis", "segment"):
            code, out, err = run("traits", target, "--level", level)
            rows = 1 if level == "plant" else 0
            assert (code, one_line(err)) == (0, f"{rows} row{'s' if rows == 0 else ''} from 1 file")
            assert len(out.splitlines()) == 1 + rows
            assert ("no plant" in out) is (level == "plant")
    code, out, err = run("evaluate", rsml, json, "--workers", 0, "-o", tmp_path / "report")
    assert (code, "1 image evaluated" in err) == (0, True), err
    assert pd.read_csv(tmp_path / "report" / "images.csv")["topo_f1"].tolist() == [1.0]
    assert run("draw", json / "bare.png", rsml / "bare.rsml", "-o", tmp_path / "bare.png")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("predict", "x.png"), "missing option '--output' / '-o'. See "),
        (("predict", "x.png", "-o", "out", "--workers", "many"), "invalid value for '--workers': "),
        (("traits", "--unknown"), "no such option: --unknown"),
        (("trait",), "no such command 'trait'"),
        (("next",), "missing argument 'FOLDER'. See "),
        (("train",), "the following arguments are required: CONFIG. See "),
        (("train", "a.yaml", "--devices", "many"), "argument --devices: invalid int value: 'many'. See "),
    ],
)
def test_wrong_options_and_arguments_are_one_line(run, arguments, message):
    code, out, err = run(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"treeformer: {message}")
    assert err.endswith(" --help\n")


COMMANDS = {name: command.params for name, command in typer.main.get_command(app).commands.items()}
NEEDING_ARGUMENTS = ["train", *(name for name, params in COMMANDS.items() if any(one.required for one in params))]


def test_arguments_are_named_in_capitals():
    arguments = [one for params in COMMANDS.values() for one in params if one.param_type_name == "argument"]
    assert len(arguments) > 10
    assert [one.name for one in arguments if not (one.metavar or "").isupper()] == []


@pytest.mark.parametrize("name", NEEDING_ARGUMENTS)
def test_a_command_without_its_arguments_is_one_line(run, name):
    code, out, err = run(name)
    assert (code, out) == (2, "")
    assert re.fullmatch(rf"treeformer: .*(missing|required).* See .* {name} --help", one_line(err))


@pytest.mark.parametrize("name", COMMANDS)
def test_an_unknown_option_is_one_line(run, name):
    given = ("a.yaml",) if name == "train" else ()
    code, out, err = run(name, *given, "--nonsense")
    assert (code, out) == (2, "")
    assert "--nonsense" in one_line(err)


def test_without_arguments_the_help_is_printed_once(run):
    code, out, err = run()
    assert (code, err) == (2, "")
    assert out.count("Usage:") == 1


@pytest.mark.slow
def test_names_that_begin_with_a_dash_get_a_hint(run, tmp_path, monkeypatch, comb):
    monkeypatch.chdir(tmp_path)
    treeformer.write(comb, tmp_path / "-comb.json")
    code, _, err = run("traits", "-comb.json")
    assert (code, err) == (2, "treeformer: the name -comb.json begins with a dash: write ./-comb.json\n")
    assert run("traits", "./-comb.json")[0] == 0
    for name in ("-other.json", "-" + "x" * 5000):  # no such file: no hint
        code, _, err = run("traits", name)
        assert (code, "begins with a dash" in err) == (2, False)


def test_drawings_and_tables_do_not_overwrite_their_input(run, plants):
    image, skeleton, table = plants / "käm m.png", plants / "käm m.rsml", plants / "käm m.csv"
    assert run("convert", skeleton, table)[0] == 0
    before = image.read_bytes(), table.read_bytes()
    for command in (("draw", image, skeleton, "-o", image), ("traits", plants, "-o", table)):
        code, _, err = run(*command)
        assert code == 2
        assert "would overwrite it" in one_line(err)
    assert (image.read_bytes(), table.read_bytes()) == before


@pytest.mark.parametrize("option", [("--tokens", "320"), ("--node-threshold", "0.4"), ("--card", "card.md")])
def test_settings_of_a_model_for_the_web_page_are_refused(run, tmp_path, option):
    """They were ignored."""
    code, _, err = run("export", "default", "--web", "-o", tmp_path / "page", *option)
    assert code == 2
    assert "--web writes the model as it is" in one_line(err)
    assert not (tmp_path / "page").exists()


def test_an_unknown_choice_is_one_plain_line(run):
    code, _, err = run("finetune", "photos", "-o", "mine", "--device", "tpu")
    assert code == 2
    expected = "treeformer: invalid value for '--device': 'tpu' is not one of 'auto', 'cpu', 'cuda'. See "
    assert one_line(err).startswith(expected)
