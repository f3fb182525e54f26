"""`treeformer predict`: the right files, complete, counted, and resumed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import treeformer
from tests.inference.fake_engine import ColorEngine, drawn, predictor, random_tree
from tests.inference.test_tiles import as_sets
from tests.messages import one_line
from treeformer.inference.batch import plan, predict_files
from treeformer.results.record import NAME as RECORD

TREE = random_tree(seed=1, count=30, size=(128, 128), longest_edge=60)


@pytest.fixture
def photos(tmp_path, monkeypatch) -> Path:
    """Return a folder of images, two of them with the same name. The default model is replaced by a `ColorEngine`."""
    stub = predictor(ColorEngine(TREE, 128))
    monkeypatch.setattr("treeformer.inference.predictor.Predictor", lambda *_, **__: stub)
    monkeypatch.setattr("treeformer.hub.model_folder.open_model", lambda _: stub.model)
    folder = tmp_path / "pho tös"
    (folder / "day 2").mkdir(parents=True)
    for name in ("a.png", "b.png", "b.tif", "day 2/a.png"):
        Image.fromarray(drawn(TREE)).save(folder / name)
    (folder / "notes.txt").write_text("no image")
    return folder


def names(folder: Path) -> list[str]:
    """Return the files of the results, without the record of the images."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and path.name != RECORD)


def test_a_folder_keeps_its_shape(run, photos, tmp_path):
    out = tmp_path / "out"
    code, _, err = run("predict", photos, "-o", out)
    assert code == 0, err
    assert one_line(err) == f"4 images predicted in {out}"
    assert names(out) == ["a.json", "b.png.json", "b.tif.json", "day 2/a.json"]
    for path in out.rglob("*.json"):
        skeleton = treeformer.read(path)
        assert as_sets(skeleton) == as_sets(TREE)
        assert skeleton.node_score is not None
        assert skeleton.edge_score is not None
        assert skeleton.plant.tolist() == [0] * 30


@pytest.mark.slow
def test_formats_overlays_and_traits(run, photos, tmp_path):
    out = tmp_path / "out"
    options = ["--format", "rsml", "--format", "coco", "--overlay", "--traits", out / "traits.csv", "--px-per-mm", 2]
    code, _, err = run("predict", photos / "a.png", photos / "day 2" / "a.png", "-o", out, *options)
    assert code == 0, err
    for folder in ("", "day 2/"):
        for ending in (".json", ".rsml", ".coco.json", ".overlay.jpg"):
            assert f"{folder}a{ending}" in names(out)
    assert Image.open(out / "a.overlay.jpg").size == (128, 128)
    assert treeformer.read(out / "a.rsml").length == pytest.approx(TREE.length, rel=1e-3)
    table = pd.read_csv(out / "traits.csv")
    assert table["total_length"].tolist() == pytest.approx([TREE.length / 2] * 2, rel=1e-4)


@pytest.mark.slow
def test_the_scale_is_stored_for_the_editor_and_for_other_programs(run, photos, tmp_path):
    code, _, err = run("predict", photos / "a.png", "-o", tmp_path, "--format", "rsml", "--px-per-mm", 11.8)
    assert code == 0, err
    for name in ("a.json", "a.rsml"):
        table = treeformer.measure(treeformer.read(tmp_path / name))
        assert table["unit"].tolist() == ["mm"]
        assert table["total_length"].tolist() == pytest.approx([TREE.length / 11.8], rel=1e-3)
    assert "<resolution>11.8</resolution>" in (tmp_path / "a.rsml").read_text()


@pytest.mark.slow
def test_results_beside_the_images_are_not_predicted_again(run, photos):
    for _ in range(2):
        code, _, err = run("predict", photos, "-o", photos, "--overlay")
        assert code == 0
        assert "4 images" in err
    within = photos / "results"
    for _ in range(2):
        assert "4 images" in run("predict", photos, "-o", within, "--overlay")[2]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes on this system")
def test_a_named_pipe_is_no_image(run, photos, tmp_path):
    os.mkfifo(photos / "pipe.png")
    code, _, err = run("predict", photos, "-o", tmp_path / "out")
    assert code == 2
    assert "pipe.png: the image cannot be read: Not a regular file" in err


@pytest.mark.slow
def test_the_broken_is_skipped_and_counted_and_the_empty_is_named(run, photos, tmp_path):
    (photos / "broken.jpg").write_bytes(b"\xff\xd8\xff garbage")
    Image.new("RGB", (128, 128), "white").save(photos / "blank.png")
    code, _, err = run("predict", photos, "-o", tmp_path / "out", "--traits", tmp_path / "traits.csv")
    assert code == 2
    lines = err.splitlines()
    assert any("broken.jpg" in line for line in lines)
    assert any("blank.png: no plant was found" in line for line in lines)
    assert "5 images predicted" in lines[-1]
    assert "1 failed" in lines[-1]
    assert len(treeformer.read(tmp_path / "out" / "blank.json")) == 0
    assert len(pd.read_csv(tmp_path / "traits.csv")) == 5  # one row is that of the image without a plant


@pytest.mark.slow
def test_resume_does_what_is_missing_and_measures_all(run, photos, tmp_path):
    out = tmp_path / "out"
    run("predict", photos / "a.png", photos / "day 2" / "a.png", "-o", out)
    before = (out / "a.json").stat().st_mtime_ns
    code, _, err = run("predict", photos, "-o", out, "--resume", "--traits", tmp_path / "traits.csv")
    assert code == 0
    assert "2 images predicted" in err
    assert "2 skipped" in err
    assert (out / "a.json").stat().st_mtime_ns == before
    assert len(pd.read_csv(tmp_path / "traits.csv")) == 4
    code, _, err = run("predict", photos, "-o", out, "--resume", "--overlay")
    assert "4 images predicted" in err, "the overlays were missing"
    code, _, err = run("predict", photos, "-o", out, "--resume", "--overlay")
    assert code == 0
    assert "0 images predicted" in err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("none.png",), "none.png: no such file"),
        (("empty",), "empty: no image in this folder"),
        (("a.png", "--format", "jpeg"), "jpeg"),
        (("a.png", "--format", "single-guyot"), "read-only"),
        (("a.png", "--working-size", "big"), "big"),
        (("a.png", "--min-confidence", "7"), "confidence"),
        (("a.png", "--traits", "traits.txt"), "traits.txt"),
        (("a.png", "--traits", "t.csv", "--px-per-mm", "0"), "px_per_mm"),
        (("a.png", "--px-per-mm", "nan"), "px_per_mm"),
        (("a.png", "--batch", "0"), "batch"),
        (("a.png", "--traits", "notes.txt/t.csv"), "notes.txt: cannot be written to"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_written(run, photos, monkeypatch, arguments, message):
    monkeypatch.chdir(photos)
    Path("empty").mkdir()
    code, _, err = run("predict", *arguments, "-o", "out")
    assert code == 2
    assert message in one_line(err)
    assert not Path("out").exists()


def test_an_output_that_is_a_file_is_one_line_before_the_work(run, photos, monkeypatch):
    monkeypatch.chdir(photos)
    monkeypatch.setattr("treeformer.inference.predictor.Predictor", None)  # not even loaded
    code, _, err = run("predict", ".", "-o", "notes.txt")
    assert code == 2
    assert one_line(err).startswith("treeformer: notes.txt: cannot be written to")


@pytest.mark.parametrize("name", ["a.rsml", "a.json", "a.PNG"])
def test_an_output_with_the_name_of_a_file_is_one_line(run, photos, tmp_path, name):
    code, _, err = run("predict", photos / "a.png", "-o", tmp_path / "out" / name)
    assert code == 2
    assert one_line(err).endswith("--output is a folder; --format and --overlay choose the files in it")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_an_image_without_a_plant_is_no_failure_in_any_format(run, photos, tmp_path):
    Image.new("RGB", (128, 128), "white").save(photos / "blank.png")
    others = ["rsml", "rsml-smartroot", "swc", "graphml", "node-link", "geojson", "labelme", "coco", "csv"]
    options = [word for name in others for word in ("--format", name)]
    out = tmp_path / "out"
    command = ["predict", photos / "blank.png", "-o", out, "--overlay", "--traits", out / "traits.csv", *options]
    code, _, err = run(*command)
    assert code == 0
    assert err.splitlines() == [
        f"treeformer: {photos / 'blank.png'}: no plant was found, the skeleton is empty",
        f"1 image predicted in {out}, traits of 0 plants in {out / 'traits.csv'}",
    ]
    files = [path for path in out.iterdir() if path.name not in ("traits.csv", "blank.overlay.jpg", RECORD)]
    assert len(files) == 1 + len(others)
    assert [len(treeformer.read(path)) for path in files] == [0] * len(files)
    assert "0 images predicted" in run(*command, "--resume")[2]


def test_if_one_file_cannot_be_written_the_others_are(run, photos, tmp_path):
    out = tmp_path / "out"
    (out / "a.rsml").mkdir(parents=True)
    code, _, err = run("predict", photos / "a.png", "-o", out, "--format", "rsml", "--format", "coco", "--overlay")
    assert code == 2
    assert "a.rsml" in one_line(err)
    assert names(out) == ["a.coco.json", "a.json", "a.overlay.jpg"]


@pytest.mark.slow
def test_a_table_that_cannot_be_written_is_one_of_the_failures(run, photos, tmp_path):
    (photos / "broken.jpg").write_bytes(b"no image")
    table = tmp_path / "traits.csv"
    table.mkdir()
    code, _, err = run("predict", photos, "-o", tmp_path / "out", "--traits", table)
    assert code == 2
    broken, unwritten, done = err.splitlines()
    assert "broken.jpg" in broken
    assert unwritten == f"treeformer: {table}: cannot be written (Is a directory)"
    assert done == f"4 images predicted in {tmp_path / 'out'}, 2 failed"


@pytest.mark.slow
def test_a_result_of_an_earlier_run_that_cannot_be_measured_is_named(run, photos, tmp_path):
    run("predict", photos, "-o", tmp_path / "out")
    (tmp_path / "out" / "a.json").write_text("{")
    code, _, err = run("predict", photos, "-o", tmp_path / "out", "--resume", "--traits", tmp_path / "traits.csv")
    assert code == 2
    damaged, done = err.splitlines()
    assert damaged.startswith(f"treeformer: {tmp_path / 'out' / 'a.json'}: ")
    assert "traits of 3 plants" in done
    assert "1 failed" in done


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows limits whole paths")
def test_a_name_that_is_too_long_for_a_result_is_one_of_the_failures(run, photos, tmp_path):
    long = photos / f"{'l' * 251}.png"
    (photos / "b.png").rename(long)
    for options in ([], ["--resume", "--overlay"]):
        code, _, err = run("predict", photos, "-o", tmp_path / "out", "--traits", tmp_path / "traits.csv", *options)
        assert code == 2
        assert f"{long}: {long.stem}.json: cannot be written (File name too long)" in err
    assert names(tmp_path / "out")[:2] == ["a.json", "a.overlay.jpg"]
    assert len(pd.read_csv(tmp_path / "traits.csv")) == 3


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_a_name_that_is_no_utf_8_is_in_tables_and_reports(run, photos, tmp_path):
    """The byte is written as an escape sequence. The files themselves stay valid UTF-8."""
    out, odd = tmp_path / "out", os.fsdecode(b"gr\xfcn")
    (photos / "a.png").rename(photos / f"{odd}.png")
    code, _, err = run("predict", photos / f"{odd}.png", "-o", out, "--traits", tmp_path / "traits.csv")
    assert code == 0, err
    assert "gr\\udcfcn.json" in pd.read_csv(tmp_path / "traits.csv")["file"][0]
    code, written, _ = run("traits", out)
    assert code == 0
    assert "gr\\udcfcn.json" in written
    code, _, err = run("evaluate", out, out, "-o", tmp_path / "report")
    assert code == 0, err
    assert pd.read_csv(tmp_path / "report" / "images.csv")["image"].tolist() == ["gr\\udcfcn"]
    assert list(json.loads((tmp_path / "report" / "report.json").read_text("utf-8"))["by_image"]) == [odd]


def test_each_mistake_is_one_line_whatever_the_file_is_called(run, photos, tmp_path):
    (photos / "two\nlines.png").write_text("no image")
    code, _, err = run("predict", photos / "two\nlines.png", photos / "a.png", "-o", tmp_path / "out")
    assert code == 2
    assert len(err.splitlines()) == 2


def test_an_image_without_read_permission_is_one_of_the_failures(run, photos, tmp_path):
    (photos / "a.png").chmod(0)
    if os.access(photos / "a.png", os.R_OK):
        pytest.skip("this user may read everything")
    code, _, err = run("predict", photos / "a.png", photos / "b.png", "-o", tmp_path / "out")
    assert code == 2
    assert "a.png: the image cannot be read: Permission denied" in err
    assert names(tmp_path / "out") == ["b.json"]
    (photos / "day 2").chmod(0)
    code, _, err = run("predict", photos, "-o", tmp_path / "out")
    (photos / "day 2").chmod(0o700)
    assert code == 2
    assert "day 2: cannot be read" in one_line(err)


def test_a_model_that_is_not_there_is_one_line(run, tmp_path):
    Image.new("RGB", (9, 9)).save(tmp_path / "a.png")
    code, _, err = run("predict", tmp_path / "a.png", "-o", tmp_path / "out", "--model", tmp_path / "no model")
    assert code == 2
    assert "no model" in one_line(err)


def test_an_overlay_that_cannot_be_written_is_one_of_the_failures(photos, tmp_path):
    (tmp_path / "out" / "a.overlay.jpg").mkdir(parents=True)
    jobs = plan([photos], tmp_path / "out", overlay=True)
    report = predict_files(jobs, predictor(ColorEngine(TREE, 128)))
    assert report.predicted == len(jobs) - 1
    assert report.failures[0].startswith(f"{photos / 'a.png'}: a.overlay.jpg: cannot be written")
    assert (tmp_path / "out" / "a.json").is_file()


SLOW_RUN = """
import sys, time
from tests.inference.fake_engine import ColorEngine, predictor, random_tree
import treeformer.inference.predictor
engine = ColorEngine(random_tree(seed=1, count=30, size=(128, 128), longest_edge=60), 128)
class Slow:
    name, device, preferred_batch, input_size = "slow", sys.argv[3], 1, 128
    def __call__(self, images):
        time.sleep(0.05)
        return engine(images)
treeformer.inference.predictor.Predictor = lambda *_, **__: predictor(Slow())
from treeformer.__main__ import main
sys.argv = ["treeformer", "predict", sys.argv[1], "-o", sys.argv[2]]
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_ctrl_c_leaves_complete_files_and_says_so(photos, tmp_path, device):
    """With a GPU, `treeformer predict` starts worker processes, which also receive the Ctrl-C of a terminal."""
    for number in range(300):
        os.link(photos / "a.png", photos / f"copy {number}.png")
    out = tmp_path / "out"
    root = Path(__file__).parents[2]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)])}
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW_RUN, photos, out, device],
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )
    while len(list(out.glob("[!.]*.json"))) < 3 and process.poll() is None:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=600)  # returns when no process is left
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert "all files written so far are complete" in err
    files = [path for path in out.rglob("*") if path.is_file() and path.name != RECORD]
    assert 3 <= len(files) < 300
    for path in files:
        assert not path.name.startswith(".")
        assert len(treeformer.read(path)) == 30


@pytest.mark.slow
def test_processes_write_the_same_files_and_report_the_same(photos, tmp_path):
    (photos / "broken.jpg").write_bytes(b"no image")
    Image.new("RGB", (128, 128), "white").save(photos / "blank.png")
    reports = []
    for name, processes in (("threads", False), ("processes", True)):
        (tmp_path / name / "b.tif.json").mkdir(parents=True)  # the file cannot be written
        jobs = plan([photos], tmp_path / name, overlay=True)
        done = []
        engine = predictor(ColorEngine(TREE, 128))
        report = predict_files(
            jobs, engine, workers=1, processes=processes, batch=3, progress=lambda *state, done=done: done.append(state)
        )
        assert done == [(number, len(jobs)) for number in range(1, len(jobs) + 1)]
        reports.append(
            [report.predicted, report.empty, [line.replace(str(tmp_path / name), "") for line in report.failures]]
        )
    assert reports[0] == reports[1]
    assert names(tmp_path / "threads") == names(tmp_path / "processes")
    for file in names(tmp_path / "threads"):
        assert (tmp_path / "threads" / file).read_bytes() == (tmp_path / "processes" / file).read_bytes()


@pytest.mark.slow
def test_the_same_files_for_any_batch_and_number_of_workers(run, photos, tmp_path):
    wide = np.full((200, 300, 3), 255, np.uint8)
    wide[30:158, 100:228] = drawn(TREE)
    Image.fromarray(wide).save(photos / "wide.png")
    for name, options in (("one", ("--batch", 1, "--workers", 1)), ("many", ("--batch", 7, "--workers", 3))):
        assert run("predict", photos, "-o", tmp_path / name, "--working-size", "full", *options)[0] == 0
    assert names(tmp_path / "one") == names(tmp_path / "many")
    for name in names(tmp_path / "one"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "many" / name).read_bytes()
