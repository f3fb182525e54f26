"""The page "How good, how fast" and what it is made of."""

from __future__ import annotations

import json
import re
import shutil

import pytest
from benchmarks.protocol.measure import FOLDER, path_of, read
from benchmarks.protocol.sets import QUICK, SETS
from benchmarks.summary import accuracy, speed
from benchmarks.summary.__main__ import PAGE, label, main
from benchmarks.summary.gallery import MISSED, RIGHT, SHEETS, WRONG, judged, pick
from PIL import Image

from treeformer import Skeleton
from treeformer.errors import TreeformerError
from treeformer.metrics import summarize


@pytest.mark.slow
def test_the_page_is_up_to_date(tmp_path):
    copy = tmp_path / "page.md"
    shutil.copy(PAGE, copy)
    main(["--page", str(copy)])
    assert copy.read_text(encoding="utf-8") == PAGE.read_text(encoding="utf-8"), "python -m benchmarks.summary"


def test_the_figures_in_the_readme_are_those_of_the_shipped_weights():
    readme = (PAGE.parents[1] / "README.md").read_text(encoding="utf-8")
    command = (
        r"`treeformer evaluate (?:data/([a-z-]+) --split test )?--model default(?: --synthetic ([a-z-]+):photo:test)?"
    )
    names = {"paper": "photographs"}
    checked = set()
    for figures, public_set, preset in re.findall(rf"\| (\.\d+ / \.\d+) \| {command}", readme):
        name = f"{public_set} prepared" if public_set else names.get(preset, preset)
        if not name:
            continue  # drawings: the stored measurement has 100 images, README 300
        _, stored = accuracy.measured(label(), name) or pytest.fail(f"the shipped weights were not measured on {name}")
        summary = summarize(read(stored))
        expected = " / ".join(f"{summary[metric].value:.3f}".lstrip("0") for metric in ("topo_paper_f1", "topo_f1"))
        assert figures == expected, f"README: {name}"
        checked.add(name)
    assert checked == {"photographs", "osr-roots prepared", "barley-roots prepared", "orchard-row", "vineyard"}


def test_a_complete_measurement_is_preferred_to_a_quick_one(tmp_path):
    quick = path_of("model", "int8", QUICK["vine, quick"], tmp_path)
    quick.parent.mkdir(parents=True)
    assert accuracy.measured("model", "vine", tmp_path) is None
    quick.write_text("{}")
    assert accuracy.measured("model", "vine", tmp_path) == (QUICK["vine, quick"], quick)
    whole = path_of("model", "int8", SETS["vine"], tmp_path)
    whole.write_text("{}")
    assert accuracy.measured("model", "vine", tmp_path) == (SETS["vine"], whole)


def test_sets_without_a_measurement_are_dashes(tmp_path):
    with pytest.raises(TreeformerError, match="no measurements of model"):
        accuracy.by_set("model", tmp_path)
    _, stored = accuracy.measured(label(), "vine") or pytest.fail("the shipped weights were not measured on vine")
    copy = tmp_path / "model-int8" / stored.name
    copy.parent.mkdir()
    shutil.copy(stored, copy)
    table = accuracy.by_set("model", tmp_path)
    assert "| vines, rendered | 40 | 0." in table
    rows = [line for line in table.splitlines() if line.endswith("|")][2:]
    assert sum(" | — |" + " |" * 7 in row for row in rows) == len(accuracy.KINDS) - 1
    [vines] = [row for row in rows if "vines, rendered" in row and "[" in row]
    assert vines.count("—") == 3  # the ceiling, and tips and line, which older measurements lack


def test_a_measurement_has_tips_and_the_line():
    _, stored = accuracy.measured(label(), "barley-roots test2") or pytest.fail("barley-roots test2: not measured")
    figures = summarize(read(stored))
    [row] = [line for line in accuracy.by_set(label()).splitlines() if "other barley plates" in line]
    low, high = figures["tip_f1"].low, figures["tip_f1"].high
    assert f"| {figures['tip_f1'].value:.3f} [{low:.3f},\u00a0{high:.3f}] |" in row
    assert f"| {figures['predicted_line_p95_px'].median:.1f} / {figures['true_line_p95_px'].median:.1f} px |" in row


def test_every_measured_score_has_its_interval():
    table = accuracy.against_baselines(label())
    interval = r"\d\.\d{3} \[\d\.\d{3},\u00a0\d\.\d{3}\]"
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if re.search(r"\d\.\d{3}", line)]
    assert {row[0] for row in rows} >= {"two-stage", "GGT", "ours (SFS and spanning tree)"}
    for title, *cells in rows:
        for cell in cells[: len(accuracy.DOMAINS)]:
            assert cell == "—" or re.fullmatch(rf"{interval}<br>\({interval}\)", cell), title


def test_ratios_to_the_released_code_are_those_of_their_tables():
    text = " ".join(PAGE.read_text(encoding="utf-8").split())
    sentence = text.split("Against the released code and the alternatives:")[1].split("## ")[0]
    table = (PAGE.parent / "metrics.md").read_text(encoding="utf-8")
    ratios = [
        int(ratio)
        for row in re.findall(r"^\| `\w+_paper(?:, full graph)?` .*", table, re.MULTILINE)
        for ratio in row.split(" | ")[6].split(" / ")
    ]
    assert f"1/{min(ratios)} to 1/{max(ratios)}" in sentence
    [row] = re.findall(r"^\| 205 .*", (PAGE.parent / "sfs.md").read_text(encoding="utf-8"), re.MULTILINE)
    [ratio] = re.findall(r"\*\*(\d+)×\*\*", row)
    assert f"1/{ratio} of the time of NetworkX" in sentence


def test_every_set_of_the_page_exists():
    assert set(accuracy.KINDS) <= set(SETS)
    assert {name for names in SHEETS.values() for name in names} <= set(accuracy.KINDS)
    assert set(accuracy.DOMAINS.values()) <= set(accuracy.KINDS)
    assert FOLDER.is_dir()


def test_images_of_the_gallery_are_the_median_and_the_lowest():
    assert pick([0.9, 0.1, 0.5]) == (2, 1)
    assert pick([0.9, float("nan"), 0.5]) == (2, 1)
    assert pick([0.3]) == (0, 0)


def test_right_wrong_and_missed_lines_have_their_colors():
    image = Image.new("RGB", (125, 125), "white")
    ground_truth = Skeleton([(20, 20), (20, 60), (20, 100)], [(0, 1), (1, 2)], image_size=(125, 125))
    prediction = Skeleton([(20, 20), (20, 60), (100, 60)], [(0, 1), (1, 2)], image_size=(125, 125))
    page = judged(image, prediction, ground_truth)
    assert [page.getpixel(place) for place in ((20, 40), (60, 60), (20, 90))] == [RIGHT, WRONG, MISSED]


def test_speeds_of_both_kinds_of_machines(tmp_path):
    with pytest.raises(TreeformerError, match="no speeds are stored"):
        speed.table(tmp_path)
    stored = {
        "machine": "a processor, 4 cores",
        "versions": {"weights/default": "6", "paper": "random"},
        "cpu default": {"busy": 0.25, "peak_mb": 400.4},
        "gpu": "a GPU",
        "gpu paper": {"rate": 1500.0, "frame": 0.004, "memory": 2.0},
    }
    (tmp_path / "a.json").write_text(json.dumps(stored))
    table = speed.table(tmp_path)
    assert "| two cores of a processor, 4 cores | `default`, version 6 | 0.25 s of both cores | 4.0 | 400 MB |" in table
    assert "| a GPU | `paper`, random | 4.0 ms | 1,500 | 2.0 GiB on the GPU |" in table
    (tmp_path / "b.json").write_text("{")
    with pytest.raises(TreeformerError, match=r"b\.json: not a file of"):
        speed.table(tmp_path)
