"""One folder on the path of a user: every command takes the same skeleton file for an image, and says which.

The folder is predicted, opened in the editor, measured, evaluated, learned from, followed over time, predicted on a
cluster and exported. The model is replaced by an engine that finds the drawn tree.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import treeformer
from tests.inference.fake_engine import ColorEngine, drawn, predictor, random_tree
from treeformer.results import ChoiceWarning
from treeformer.results.item import Origin, origin_of

SIDE = 64
TREE = random_tree(seed=1, count=8, size=(SIDE, SIDE), longest_edge=40)
STUB = predictor(ColorEngine(TREE, SIDE))
# What a person did with each image, and what its file then is. The names begin with a date for the series.
ORIGINS = {
    "day1-untouched": Origin.prediction,
    "day2-scaled": Origin.prediction,
    "day3-corrected": Origin.correction,
    "day4-accepted": Origin.accepted,
    "day5-annotated": Origin.annotation,
}
TAKEN = {f"{name}.png": f"{name}{'.rsml' if 'annotated' in name else '.json'}" for name in ORIGINS}
GROUND_TRUTH = ["day4-accepted.png", "day5-annotated.png"]
CHOICE = "1 image has several skeleton files; used: day5-annotated.rsml (not day5-annotated.swc)"


@pytest.fixture(autouse=True)
def stub_model(monkeypatch):
    monkeypatch.setattr("treeformer.inference.predictor.Predictor", lambda *_, **__: STUB)
    monkeypatch.setattr("treeformer.hub.model_folder.open_model", lambda *_, **__: STUB.model)


@pytest.fixture
def photos(tmp_path, run) -> Path:
    """Return a folder that was predicted and then opened in the editor."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for name in ORIGINS:
        if "annotated" not in name:
            Image.fromarray(drawn(TREE)).save(folder / f"{name}.png")
    assert run("predict", folder, "-o", folder)[0] == 0
    for file in folder.glob("*.json"):  # the engine is sure of everything
        found = treeformer.read(file)
        treeformer.write(found.replace(edge_score=np.where(np.arange(len(found.edges)) < 2, 0.1, 0.9)), file)
    # An image that somebody else has annotated joins them, in two formats.
    Image.fromarray(drawn(TREE)).save(folder / "day5-annotated.png")
    for suffix in (".rsml", ".swc"):
        treeformer.write(TREE, folder / f"day5-annotated{suffix}")
    edit(folder, "day2-scaled.png", scale=4.0)
    edit(folder, "day3-corrected.png", move=1.0)
    edit(folder, "day4-accepted.png", move=1.0, accepted=True)
    return folder


def edit(folder: Path, image: str, move: float = 0.0, scale: float | None = None, accepted: bool = False) -> None:
    """Open, change and save an image as the page does."""
    from treeformer.web.folder import open_workspace
    from treeformer.web.saving import Store

    workspace = open_workspace(folder)
    store, entry = Store(workspace), workspace.entry(image)
    loaded = json.loads(json.dumps(store.load(entry)))
    document = loaded["document"]
    document["nodes"][0][0] += move
    document["metadata"] = {**document["metadata"], "editor": {"px_per_mm": scale}}
    answer = store.save(entry, document, loaded["revision"], accepted=accepted)
    assert [Path(name).suffix for name in answer["files"]] == [".json", ".rsml"]


def test_the_files_are_what_the_person_did(photos):
    found = {Path(name).stem: origin_of(treeformer.read(photos / name)) for name in TAKEN.values()}
    assert found == ORIGINS


def test_predict_keeps_the_work_of_a_person(photos, run):
    before = {path: path.read_bytes() for path in photos.iterdir() if path.is_file()}
    code, _, err = run("predict", photos, "-o", photos)
    assert code == 2
    assert "day3-corrected.json: was corrected in the editor" in err
    assert {path: path.read_bytes() for path in before} == before
    untouched = [photos / f"{name}.png" for name in ("day1-untouched", "day2-scaled")]
    assert run("predict", *untouched, "-o", photos)[0] == 0
    scaled = treeformer.read(photos / "day2-scaled.json")
    assert treeformer.measure(scaled)["unit"].tolist() == ["mm"], "the scale that a person has set is kept"
    # A new prediction beside an annotation becomes the file of the image, which is said.
    err = run("predict", photos, "-o", photos, "--resume")[2]
    assert "used: day5-annotated.json (not day5-annotated.rsml, day5-annotated.swc)" in err


def test_traits(photos, tmp_path, run):
    code, _, err = run("traits", photos, "-o", tmp_path / "traits.csv")
    assert code == 0
    assert [Path(name).name for name in pd.read_csv(tmp_path / "traits.csv")["file"]] == list(TAKEN.values())
    assert "4 names in several formats: json and rsml preferred, 4 other files passed over (rsml, swc)" in err


def test_evaluate_a_model(photos, tmp_path, run):
    code, _, err = run("evaluate", photos, "--model", "default", "-o", tmp_path / "report", "--workers", 0)
    assert code == 0
    assert list(pd.read_csv(tmp_path / "report" / "images.csv")["image"]) == GROUND_TRUTH
    assert CHOICE in err
    assert "day3-corrected.json: was corrected but not accepted; --include-unaccepted uses it; left out" in err
    for name in ("day1-untouched", "day2-scaled"):
        assert f"{name}.json: is a prediction that was not corrected; left out" in err
    err = run("evaluate", photos, "--model", "default", "--include-unaccepted", "--workers", 0)[2]
    assert "3 images evaluated" in err


def test_evaluate_two_folders(photos, tmp_path):
    from treeformer.metrics.report import folder_cases

    (photos / "day5-annotated.swc").unlink()  # two files of another program are ambiguous there
    cases, _ = folder_cases(photos, photos)
    assert [case.ground_truth.name for case in cases] == list(TAKEN.values())
    assert [case.prediction.name for case in cases] == list(TAKEN.values())


def test_finetune(photos):
    pytest.importorskip("torch")
    from treeformer.finetuning.annotated import find_skeletons, survey

    assert {image.name: file.name for image, file in find_skeletons(photos)} == TAKEN
    found = survey(photos)
    assert [image.name for image in found.images] == GROUND_TRUTH
    assert [image.skeleton_file.name for image in found.images] == [TAKEN[name] for name in GROUND_TRUTH]
    assert [path.name for path in found.uncorrected] == ["day1-untouched.png", "day2-scaled.png"]
    assert CHOICE in found.lines()
    line = "1 correction not accepted, with 2 open places, not used without --include-unaccepted"
    assert f"{line}: day3-corrected.png (2)" in found.lines()
    assert len(survey(photos, include_unaccepted=True).images) == 3


def test_the_training_dialog(photos):
    pytest.importorskip("starlette")
    from treeformer.web.folder import open_workspace

    workspace = open_workspace(photos)
    found = workspace.summaries(workspace.entries())
    assert dict(zip(ORIGINS, (one.origin for one in found), strict=True)) == ORIGINS
    assert [one.open_places for one in found] == [2, 2, 2, 0, 0]


def test_train(photos):
    from treeformer.data import FolderDataset, SkipReport, samples

    with pytest.warns(ChoiceWarning) as said:
        dataset = FolderDataset(photos)
    assert [str(one.message) for one in said] == [CHOICE]
    assert {image.name: file.name for image, file in dataset.pairs} == TAKEN
    report = SkipReport(dataset.skipped)
    assert [sample.name for sample in samples(dataset, report)] == GROUND_TRUTH
    assert len(report) == 3


@pytest.mark.slow
def test_series(photos, tmp_path, run):
    from treeformer.timeseries.folder import find_dates

    assert {date.image.name: date.skeleton.name for date in find_dates(photos)} == TAKEN
    code, _, err = run("series", photos, "-o", tmp_path / "series", "--no-figures", "--no-register")
    assert code == 0, err
    assert CHOICE in err
    for name in ("day4-accepted", "day5-annotated"):
        written, taken = (
            treeformer.read(path)
            for path in (tmp_path / "series" / "rsml" / f"{name}.rsml", photos / TAKEN[f"{name}.png"])
        )
        assert written.length == pytest.approx(taken.length, rel=1e-3)


@pytest.mark.slow
def test_predict_cluster(photos, tmp_path):
    pytest.importorskip("pyarrow")
    from tests.inference.cluster_runs import make_plan, run_shard
    from treeformer.inference.cluster.collect import collect, read_results
    from treeformer.inference.cluster.storage import Folder

    make_plan(tmp_path / "cluster", photos)
    run_shard(tmp_path / "cluster")
    results = Folder.at(str(tmp_path / "cluster"))
    collect(results)
    paths = [Path(str(path)).name for table in read_results(results) for path in table["path"]]
    assert sorted(paths) == list(TAKEN), "results and copies beside the images are no input"


def test_export_of_the_table(photos):
    pytest.importorskip("starlette")
    from treeformer.web.folder import open_workspace
    from treeformer.web.saving import Store
    from treeformer.web.tables import folder_table

    workspace = open_workspace(photos)
    table = folder_table(workspace, Store(workspace), None)
    assert dict(zip(table["image"], table["file"], strict=True)) == TAKEN
    assert dict(zip(table["image"], table["unit"], strict=True)) == {
        image: "mm" if "scaled" in image else "px" for image in TAKEN
    }


def test_files_of_an_earlier_version_stay_corrections(photos):
    """Earlier versions stored `metadata.editor` with every save, and did not say what was saved."""
    from treeformer.finetuning.annotated import survey

    file = photos / "day1-untouched.json"
    old = treeformer.read(file)
    editor = {"accepted": False, "saved": "2025-01-01T00:00:00+00:00", "written": {"json": "0" * 64}}
    treeformer.write(old.replace(metadata={**old.metadata, "editor": editor}), file)
    assert origin_of(treeformer.read(file)) is Origin.correction
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = survey(photos)
    line = "2 corrections not accepted, with 4 open places, not used without --include-unaccepted"
    assert f"{line}: day1-untouched.png (2), day3-corrected.png (2)" in found.lines()
    assert np.isfinite([image.spacing_px for image in found.images]).all()
