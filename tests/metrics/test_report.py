"""Reports: two folders in, tables, files and a sheet of images out. Nothing is omitted silently."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import treeformer
from treeformer import Skeleton, TreeformerError
from treeformer.inference.batch import plan
from treeformer.metrics.report import Case, Report, evaluate_cases, folder_cases
from treeformer.metrics.report_tables import dominated


@pytest.fixture
def folders(tmp_path, comb):
    """Three ground truths in two formats. One prediction is correct, one wrong, one missing and one superfluous."""
    big = comb.transform([[10, 0, 0], [0, 10, 0]], image_size=(400, 500))
    ground_truth, prediction = tmp_path / "ground_truth", tmp_path / "prediction"
    for name, suffix in (("a", ".rsml"), ("b", ".json"), ("c", ".json")):
        treeformer.write(big, ground_truth / f"{name}{suffix}")
        Image.new("RGB", (400, 500), "gray").save(ground_truth / f"{name}.png")
    treeformer.write(big, prediction / "a.json")
    treeformer.write(big.replace(nodes=big.nodes + 30.0), prediction / "b.swc")
    treeformer.write(big, prediction / "other.json")
    return prediction, ground_truth


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 1, 2])
def test_folders_are_paired_by_name(folders, workers):
    cases, extra = folder_cases(*folders)
    calls = []
    report = evaluate_cases(cases, workers=workers, progress=lambda *call: calls.append(call))
    assert extra == ["other.json"]
    assert [case.name for case in report.cases] == ["a", "b", "c"]
    assert report.missing == ("c",)
    assert [row["edge_f1"] for row in report.rows] == [1.0, 0.0, 0.0]
    assert report.rows[2]["topo_f1"] == 0.0
    assert calls[-1] == (3, 3)


def test_the_json_of_the_editor_is_the_ground_truth_and_that_of_a_prediction_is_not(folders):
    prediction, ground_truth = folders
    corrected = treeformer.read(ground_truth / "a.rsml").replace(metadata={"editor": {"accepted": True}})
    treeformer.write(corrected, ground_truth / "a.json")
    assert folder_cases(prediction, ground_truth)[0][0].ground_truth.name == "a.json"
    treeformer.write(corrected.replace(metadata={}), ground_truth / "a.json")
    with pytest.raises(TreeformerError, match=r"has the same name; keep only one of them"):
        folder_cases(prediction, ground_truth)


def test_a_negative_number_of_workers_is_one_line(folders):
    with pytest.raises(TreeformerError, match="workers must be 0"):
        evaluate_cases(folder_cases(*folders)[0], workers=-1)


@pytest.mark.slow
def test_a_report_is_written_completely(folders, tmp_path):
    report = evaluate_cases(folder_cases(*folders)[0])
    paths = report.write(tmp_path / "out")
    images, summary = pd.read_csv(paths[0]), pd.read_csv(paths[1], index_col="figure")
    assert images["image"].tolist() == ["a", "b", "c"]
    assert summary.loc["edge_f1", "value"] == pytest.approx(1 / 3)
    document = json.loads(paths[2].read_text())
    assert document["missing"] == ["c"]
    assert document["by_image"]["a"]["edge_f1"] == 1.0
    sheet = np.asarray(Image.open(paths[3]))
    assert (sheet[..., 2].astype(int) - sheet[..., 1] > 60).any()  # the ground truth's blue
    metrics, line, keypoints = report.tables()
    assert "edge_f1" in metrics.columns[0].cells
    # Of the comb that lies 30 px away, three crossings are within the gate of 10.85 px: 3 · 21.7 of 700 px.
    assert [float(cell.split()[0]) for cell in line.columns[1].cells] == pytest.approx([54.65, 36.43], abs=0.1)
    # Three combs of 4 tips and 3 branch points: one prediction is right, one lies 30 px away, one is missing.
    tips, branch_points, _ = zip(*(column.cells for column in keypoints.columns), strict=True)
    assert tips == ("tips", "12", "8", "4", "0.500", "0.333", "0.400", "0.000 to 1.000")
    assert branch_points[:4] == ("branch points", "9", "6", "3")


def test_an_image_that_dominates_a_mean_is_named():
    rows = [{"smd": 1e-5, "smd_paper": 1e-5, "length_error": error} for error in (0.1, -0.1, 0.1, -0.1, 0.1, -900.0)]
    [remark] = dominated("abcdef", rows)
    assert remark == "100 % of length_error is from one image, f: see the median image"
    assert not dominated("abcde", rows[:5])
    assert not dominated("ef", rows[4:])  # of two images one always contributes more


def test_failures_are_reported_and_the_rest_is_evaluated(folders):
    prediction, ground_truth = folders
    (prediction / "c.json").write_text('{"format": "treeformer-skeleton", "version": 1, "nodes": [[0')
    report = evaluate_cases(folder_cases(prediction, ground_truth)[0])
    assert len(report.rows) == 2
    assert len(report.failures) == 1
    assert report.failures[0].startswith("c: ")


@pytest.mark.slow
def test_a_prediction_far_outside_costs_no_other_row(folders):
    prediction, ground_truth = folders
    for name, factor in (("a", 20.0), ("b", 20_000.0)):
        skeleton = treeformer.read(ground_truth / ("a.rsml" if name == "a" else "b.json"))
        treeformer.write(skeleton.replace(nodes=factor * skeleton.nodes), prediction / f"{name}.json")
    report = evaluate_cases(folder_cases(prediction, ground_truth)[0], workers=1)
    assert len(report.rows) == 3
    assert report.failures == ()
    assert report.worst_sheet().size[0] > 0


def fail_on_b(prediction, ground_truth, **_):
    """Replace `evaluate_pair`. The prediction b is displaced by 30 px."""
    if len(prediction) and prediction.nodes.min() >= 30:
        raise FAILURE[0]
    return dict.fromkeys(("topo_f1", "edge_f1"), 0.5)


FAILURE: list[Exception] = [ValueError()]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("two\nlines"), "ValueError: two"),
        (FloatingPointError("overflow"), "FloatingPointError: overflow"),
        (OverflowError("too large"), "OverflowError: too large"),
        (MemoryError(), "MemoryError"),
    ],
)
def test_an_unexpected_error_costs_one_row_and_names_the_files(folders, monkeypatch, error, reason):
    monkeypatch.setattr("treeformer.metrics.report.evaluate_pair", fail_on_b)
    monkeypatch.setitem(globals(), "FAILURE", [error])
    report = evaluate_cases(folder_cases(*folders)[0])
    assert [case.name for case in report.cases] == ["a", "c"]
    files = f"{folders[0] / 'b.swc'} and {folders[1] / 'b.json'}"
    assert report.failures == (f"b: {files} cannot be evaluated ({reason})",)


@pytest.mark.slow
def test_an_unexpected_error_in_a_worker_process_costs_one_row(folders):
    """The processes of the pool are new interpreters, so the error must come from the files themselves."""
    cases = folder_cases(*folders)[0]
    broken = Case("broken", Unreadable(), cases[0].ground_truth)  # type: ignore[arg-type]
    skeleton = treeformer.read(folders[1] / "b.json")
    far = Case("far", skeleton.replace(nodes=20_000 * skeleton.nodes), skeleton)
    report = evaluate_cases([cases[0], broken, far, *cases[1:]], workers=2)
    assert [case.name for case in report.cases] == ["a", "far", "b", "c"]
    assert len(report.failures) == 1
    assert report.failures[0].startswith("broken: ")
    assert report.failures[0].endswith("cannot be evaluated (FloatingPointError: no number)")


class Unreadable(Skeleton):
    """A skeleton whose image size cannot be determined."""

    def __init__(self) -> None:
        pass

    @property
    def image_size(self):
        raise FloatingPointError("no number")

    def __reduce__(self):
        return Unreadable, ()


@pytest.mark.slow
def test_an_unreadable_image_does_not_cost_the_report(folders, tmp_path):
    report = evaluate_cases(folder_cases(*folders)[0])
    (folders[1] / "a.png").write_bytes(b"no image")
    (folders[0] / "b.swc").unlink()
    assert all(path.is_file() for path in report.write(tmp_path / "out"))


@pytest.mark.slow
def test_large_images_are_drawn_reduced(comb, tmp_path):
    large = comb.transform([[1e3, 0, 0], [0, 1e3, 0]], image_size=(40_000, 50_000))
    report = evaluate_cases([Case("large", large, large)])
    sheet = np.asarray(report.worst_sheet())
    assert sheet.shape[1] == 420
    assert (sheet.min(axis=2) < 200).any()


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["sheet", "image file", "last rename"])
def test_a_report_that_fails_changes_no_file(folders, tmp_path, monkeypatch, moment):
    report = evaluate_cases(folder_cases(*folders)[0])
    out = tmp_path / "out"
    Report(report.cases[:1], report.rows[:1], (), ()).write(out)
    before = contents(out)
    if moment == "sheet":
        monkeypatch.setattr(Report, "worst_sheet", lambda _self: 1 / 0)
    elif moment == "image file":
        monkeypatch.setattr(Image.Image, "save", lambda *_: 1 / 0)
    else:
        (out / "worst.png").unlink()
        (out / "worst.png").mkdir()
        del before["worst.png"]
    with pytest.raises((ZeroDivisionError, OSError)):
        report.write(out)
    if moment == "last rename":
        (out / "worst.png").rmdir()
    assert contents(out) == before


KILLED_BETWEEN_FILES = """
import os, pathlib, signal, sys
replace = pathlib.Path.replace
def killed(self, target, left=[int(sys.argv.pop())]):
    left[0] -= 1
    if left[0] < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return replace(self, target)
pathlib.Path.replace = killed
from treeformer.cli import main
main()
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="sends a signal")
@pytest.mark.parametrize("renamed", [0, 2])
def test_a_killed_evaluation_leaves_complete_files(folders, tmp_path, renamed):
    """Every file is complete, and report.json is there only if all others are."""
    out = tmp_path / "out"
    arguments = ["evaluate", *map(str, folders), "-o", str(out), "--workers", "1", str(renamed)]
    killed = subprocess.run([sys.executable, "-c", KILLED_BETWEEN_FILES, *arguments], capture_output=True)
    assert killed.returncode == -signal.SIGKILL
    visible = [path for path in out.iterdir() if not path.name.startswith(".")]
    assert len(visible) == renamed
    assert not (out / "report.json").exists()
    for path in visible:
        if path.suffix == ".csv":
            assert len(pd.read_csv(path)) > 2
        else:
            Image.open(path).load()
    evaluate_cases(folder_cases(*folders)[0]).write(out)
    assert len(list(out.iterdir())) == 4, "temporary files were left behind"


def test_sizes_come_from_images_or_arguments(tmp_path, comb):
    bare = comb.replace(image_size=None)
    cases = [Case("x", bare, bare)]
    with pytest.raises(TreeformerError, match="image size"):
        evaluate_cases(cases)
    assert evaluate_cases(cases, image_size=(40, 50)).rows[0]["node_f1"] == 1.0
    Image.new("RGB", (40, 50)).save(tmp_path / "x.png")
    assert evaluate_cases([Case("x", bare, bare, tmp_path / "x.png")]).rows[0]["node_f1"] == 1.0


def test_empty_folders_and_duplicate_names_are_one_line(tmp_path, folders):
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(TreeformerError, match="no skeleton file"):
        folder_cases(empty, folders[1])
    with pytest.raises(TreeformerError, match="cannot be read"):
        folder_cases(tmp_path / "none", folders[1])
    treeformer.write(Skeleton([(0, 0)], []), folders[1] / "a.swc")
    with pytest.raises(TreeformerError, match="same name"):
        folder_cases(*folders)
    with pytest.raises(TreeformerError, match="same name"):
        folder_cases(folders[1], folders[0])  # neither of them in .json


def test_json_is_preferred_among_several_formats(folders):
    """`treeformer predict --format rsml` writes such files."""
    prediction, ground_truth = folders
    for suffix in (".csv", ".geojson", ".swc"):
        treeformer.write(Skeleton([(0, 0)], [], image_size=(400, 500)), prediction / f"a{suffix}")
    cases, _ = folder_cases(prediction, ground_truth)
    assert [case.prediction.name for case in cases if case.prediction] == ["a.json", "b.swc"]


def test_sub_folders_as_predict_writes_them(tmp_path, comb):
    """Two images of the same name in two folders, next to their ground truths; predictions in several formats."""
    for day in ("day1", "day2/late"):
        (tmp_path / "photos" / day).mkdir(parents=True)
        Image.new("RGB", (40, 50), "gray").save(tmp_path / "photos" / day / "a.png")
    prediction, ground_truth = tmp_path / "photos" / "results", tmp_path / "photos"
    shifted = comb.replace(nodes=comb.nodes + 9.0)
    for job, found in zip(plan([ground_truth], prediction, ["rsml", "coco"]), (comb, shifted), strict=True):
        job.write(found)
        treeformer.write(comb, job.image.with_suffix(".rsml"))
    cases, extra = folder_cases(prediction, ground_truth)
    assert extra == []
    assert [case.image for case in cases] == [ground_truth / "day1" / "a.png", ground_truth / "day2" / "late" / "a.png"]
    report = evaluate_cases(cases)
    assert [case.name for case in report.cases] == ["day1/a", "day2/late/a"]
    assert report.missing == ()
    assert report.rows[0]["edge_f1"] == 1.0
    assert report.rows[1]["edge_f1"] < 1.0

    (ground_truth / "day1" / "a.rsml").rename(ground_truth / "day1" / "b.rsml")
    cases, extra = folder_cases(prediction, ground_truth)
    assert [(case.name, case.prediction is None) for case in cases] == [("day1/b", True), ("day2/late/a", False)]
    assert extra == [str(Path("day1") / "a.json")]


def test_different_layouts_are_an_error_and_not_a_score_of_zero(tmp_path, comb):
    treeformer.write(comb, tmp_path / "predicted" / "day1" / "a.json")
    treeformer.write(comb, tmp_path / "ground_truth" / "a.json")
    with pytest.raises(TreeformerError, match=r"no name in common: the first names are day1/a and a$"):
        folder_cases(tmp_path / "predicted", tmp_path / "ground_truth")


@pytest.mark.slow
def test_many_missing_predictions_are_one_line(folders, monkeypatch, capfd):
    from treeformer.cli import main

    ground_truth = folders[1]
    for number in range(20):
        (ground_truth / f"c{number:02}.json").write_bytes((ground_truth / "c.json").read_bytes())
    monkeypatch.setattr(sys, "argv", ["treeformer", "evaluate", *map(str, folders), "--workers", "1"])
    with contextlib.suppress(SystemExit):
        main()
    assert ": c, c00, c01, c02, c03, c04, c05, c06, c07, c08 and 11 more\n" in capfd.readouterr().err


def test_a_file_instead_of_a_folder_is_one_line(folders, monkeypatch, capfd):
    from treeformer.cli import main

    monkeypatch.setattr(sys, "argv", ["treeformer", "evaluate", str(folders[0]), str(folders[1] / "b.json")])
    with pytest.raises(SystemExit):
        main()
    assert capfd.readouterr().err.endswith("b.json: is a file; evaluate compares two folders\n")


@pytest.mark.slow
def test_the_command(folders, tmp_path, monkeypatch, capfd):
    from treeformer.cli import main

    arguments = ["evaluate", *map(str, folders), "-o", str(tmp_path / "out")]
    monkeypatch.setattr(sys, "argv", ["treeformer", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    out, err = capfd.readouterr()
    assert not stop.value.code
    assert "topo_f1" in out
    assert "treeformer: 1 image without a prediction, counted as an empty skeleton: c\n" in err
    assert "treeformer: 1 prediction without a ground truth of the same name, left out: other.json\n" in err
    assert "3 images evaluated" in err
