"""Evaluation of a model on folder and synthetic data sets."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

import treeformer
from tests.inference.fake_engine import ColorEngine, drawn, predictor, random_tree
from tests.messages import one_line
from treeformer import TreeformerError
from treeformer.data import FolderDataset
from treeformer.inference.evaluate import evaluate_model, synthetic_set
from treeformer.metrics import evaluate_pair

TREE = random_tree(seed=1, count=30, size=(128, 128), longest_edge=60)


@pytest.fixture
def dataset(tmp_path):
    """Return a folder data set of one split: an image that the engine knows, an empty one, and a broken one."""
    folder = tmp_path / "set" / "test"
    folder.mkdir(parents=True)
    for name in ("known", "unknown", "broken"):
        Image.fromarray(drawn(TREE)).save(folder / f"{name}.png")
        treeformer.write(TREE, folder / f"{name}.json")
    Image.fromarray(np.full((128, 128, 3), 255, np.uint8)).save(folder / "unknown.png")
    (folder / "broken.png").write_bytes(b"broken")
    return tmp_path / "set"


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_the_figures_are_those_of_the_predictions(dataset, workers):
    by_color = predictor(ColorEngine(TREE, 128))
    calls = []
    report, skipped = evaluate_model(
        by_color, FolderDataset(dataset, "test"), workers=workers, progress=lambda *call: calls.append(call)
    )
    assert [case.name for case in report.cases] == ["test/known.png", "test/unknown.png"]
    assert report.rows[0] == pytest.approx(evaluate_pair(TREE, TREE), abs=1e-4, nan_ok=True)
    assert report.rows[1]["node_f1"] == 0
    assert report.cases[0].image == dataset / "test" / "known.png"
    assert "broken.png" in str(skipped)
    assert calls[-1] == (2, 2)


def test_synthetic_sets_have_names():
    mixed = synthetic_set("taproot,vine:paper:valid", 3)
    assert [mixed[i].name for i in range(3)] == ["taproot-paper-100000", "vine-paper-100001", "taproot-paper-100002"]
    assert synthetic_set("paper:paper", 5).seeds == range(120_000, 120_005)
    for name, count, message in (
        ("pine:paper:test", 5, "pine"),
        ("paper:crayon:test", 5, "crayon"),
        ("paper", 5, "style"),
        ("paper:paper:exam", 5, "exam"),
        ("paper:paper:test:more", 5, "PRESET:STYLE:SPLIT"),
        ("paper:paper:test", 0, "between 1 and 20000, not 0"),
    ):
        with pytest.raises(TreeformerError, match=message):
            synthetic_set(name, count)


@pytest.mark.slow
def test_evaluate_a_model_from_the_command_line(run, dataset, tmp_path, monkeypatch):
    monkeypatch.setattr("treeformer.inference.predictor.Predictor", lambda *_, **__: predictor(ColorEngine(TREE, 128)))
    arguments = ["evaluate", dataset, "--model", "default", "--split", "test", "-o", tmp_path / "out", "--workers", 1]
    code, out, err = run(*arguments)
    assert code == 0, err
    assert "node_f1" in out
    assert "broken.png" in err
    assert "2 images evaluated" in err
    assert (tmp_path / "out" / "worst.png").exists()
    code, out, err = run("evaluate", "--model", "default", "--synthetic", "paper:paper:test", "--count", 1)
    assert code == 0, err
    assert "1 image evaluated" in err
    single_plant = []

    def spy(*arguments, **options):
        single_plant.append(options["single_plant"])
        return evaluate_model(*arguments, **options)

    monkeypatch.setattr("treeformer.inference.evaluate.evaluate_model", spy)
    assert run(*arguments, "--single-plant")[0] == run(*arguments)[0] == 0
    assert single_plant == [True, False]


def test_a_synthetic_set_has_500_images_unless_stated(run, monkeypatch):
    counts = []

    def stop(_name, count):
        counts.append(count)
        raise TreeformerError("that is enough")

    monkeypatch.setattr("treeformer.inference.evaluate.synthetic_set", stop)
    arguments = ("evaluate", "--model", "default", "--synthetic", "paper:paper:test")
    assert run(*arguments)[0] == run(*arguments, "--count", 0)[0] == 2
    assert counts == [500, 0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "PRED and GROUND_TRUTH"),
        (("somewhere",), "PRED and GROUND_TRUTH"),
        (("somewhere", "elsewhere", "--split", "test"), "--model is missing"),
        (("--synthetic", "paper:paper:test"), "--model is missing"),
        (("somewhere", "elsewhere", "--single-plant"), "--model is missing"),
        (("--model", "default"), "one data set"),
        (("somewhere", "--model", "default", "--synthetic", "paper:paper:test"), "one data set"),
        (("somewhere", "--model", "default"), "somewhere: no such folder"),
        (("--model", "default", "--synthetic", "paper:paper:test", "--split", "valid"), "--split is for a folder"),
        (("somewhere", "--model", "default", "--images", "photos"), "--images and --image-size are for two folders"),
        (("somewhere", "--model", "default", "--image-size", 40, 50), "--images and --image-size are for two folders"),
        (("somewhere", "--model", "default", "--count", 500), "--count is the number of images of --synthetic"),
        (("somewhere", "elsewhere", "--radius", 0), "--radius must be a positive number of pixels, not 0"),
        (("--model", "default", "--synthetic", "paper:paper:test", "--radius", "nan"), "--radius must be a positive"),
        (("somewhere", "elsewhere", "--count", 5), "--count is the number of images of --synthetic"),
    ],
)
def test_a_mistake_is_one_line(run, arguments, message):
    code, _, err = run("evaluate", *arguments)
    assert code == 2
    assert message in one_line(err)
