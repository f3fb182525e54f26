"""Reports: two folders in, tables, files and a sheet out; nothing is left out silently."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import treeformer
from treeformer import Skeleton, TreeformerError
from treeformer.inference.batch import plan
from treeformer.metrics.report import Case, evaluate_cases, folder_cases


@pytest.fixture
def folders(tmp_path, comb):
    """Three ground truths in two formats; one prediction is right, one is off, one is missing, one is too many."""
    big = comb.transform([[10, 0, 0], [0, 10, 0]], image_size=(400, 500))
    ground_truth, prediction = tmp_path / "ground truth", tmp_path / "prediction"
    for name, suffix in (("a", ".rsml"), ("b", ".json"), ("c", ".json")):
        treeformer.write(big, ground_truth / f"{name}{suffix}")
        Image.new("RGB", (400, 500), "gray").save(ground_truth / f"{name}.png")
    treeformer.write(big, prediction / "a.json")
    treeformer.write(big.replace(nodes=big.nodes + 30.0), prediction / "b.swc")
    treeformer.write(big, prediction / "other.json")
    return prediction, ground_truth


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


def test_less_than_no_workers_is_one_line(folders):
    with pytest.raises(TreeformerError, match="workers must be 0"):
        evaluate_cases(folder_cases(*folders)[0], workers=-1)


def test_a_report_is_written_whole(folders, tmp_path):
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
    assert "edge_f1" in [str(cell) for cell in report.table().columns[0].cells]


def test_what_cannot_be_judged_is_named_and_the_rest_goes_on(folders):
    prediction, ground_truth = folders
    (prediction / "c.json").write_text('{"format": "treeformer-skeleton", "version": 1, "nodes": [[0')
    report = evaluate_cases(folder_cases(prediction, ground_truth)[0])
    assert len(report.rows) == 2
    assert len(report.failures) == 1
    assert report.failures[0].startswith("c: ")


def test_sizes_come_from_images_or_are_asked_for(tmp_path, comb):
    bare = comb.replace(image_size=None)
    cases = [Case("x", bare, bare)]
    with pytest.raises(TreeformerError, match="image size"):
        evaluate_cases(cases)
    assert evaluate_cases(cases, image_size=(40, 50)).rows[0]["node_f1"] == 1.0
    Image.new("RGB", (40, 50)).save(tmp_path / "x.png")
    assert evaluate_cases([Case("x", bare, bare, tmp_path / "x.png")]).rows[0]["node_f1"] == 1.0


def test_empty_folders_and_double_names_are_one_line(tmp_path, folders):
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


def test_of_a_prediction_in_several_formats_the_json_counts(folders):
    """As `treeformer predict --format rsml` leaves them."""
    prediction, ground_truth = folders
    for suffix in (".csv", ".geojson", ".swc"):
        treeformer.write(Skeleton([(0, 0)], [], image_size=(400, 500)), prediction / f"a{suffix}")
    cases, _ = folder_cases(prediction, ground_truth)
    assert [case.prediction.name for case in cases if case.prediction] == ["a.json", "b.swc"]


def test_sub_folders_are_judged_as_predict_lays_them_out(tmp_path, comb):
    """Two images of one name in two folders, with images beside the ground truths; other formats beside a prediction."""
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


def test_folders_laid_out_differently_are_one_line_and_no_zero(tmp_path, comb):
    treeformer.write(comb, tmp_path / "predicted" / "day1" / "a.json")
    treeformer.write(comb, tmp_path / "ground truth" / "a.json")
    with pytest.raises(TreeformerError, match=r"no name in common: here day1/a, there a$"):
        folder_cases(tmp_path / "predicted", tmp_path / "ground truth")


def test_many_without_a_partner_are_one_line(folders, monkeypatch, capfd):
    from treeformer.cli import main

    ground_truth = folders[1]
    for number in range(20):
        (ground_truth / f"c{number:02}.json").write_bytes((ground_truth / "c.json").read_bytes())
    monkeypatch.setattr(sys, "argv", ["treeformer", "evaluate", *map(str, folders)])
    with contextlib.suppress(SystemExit):
        main()
    assert ": c, c00, c01, c02, c03, c04, c05, c06, c07, c08 and 11 more\n" in capfd.readouterr().err


def test_a_file_in_place_of_a_folder_is_one_line(folders, monkeypatch, capfd):
    from treeformer.cli import main

    monkeypatch.setattr(sys, "argv", ["treeformer", "evaluate", str(folders[0]), str(folders[1] / "b.json")])
    with pytest.raises(SystemExit):
        main()
    assert capfd.readouterr().err.endswith("b.json: a file; evaluate compares two folders\n")


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
