"""The button "Train on my corrections": a child process, its progress, its end, and predictions with its model."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pytest

import treeformer
from tests.inference.fake_engine import line_engine, predictor
from tests.web.conftest import document, gradient, saved
from treeformer.finetuning.annotated import find_skeletons
from treeformer.finetuning.next_images import rank_folder
from treeformer.finetuning.work_folder import work_folder_of, write_plan
from treeformer.formats.rsml.metadata import with_resolution
from treeformer.inference.batch import plan
from treeformer.results.record import read_record, write_record
from treeformer.web import training
from treeformer.web.folder import Workspace, open_workspace

STUB = Path(__file__).with_name("stub_finetune.py")


def stub(end: str) -> tuple[str, ...]:
    return (sys.executable, "-S", "-E", str(STUB), end)


def status(client) -> dict:
    return client.get("/api/training").json()


def ended(client) -> dict:
    client.services.training.join(600)
    return status(client)


def finished(client, job: str) -> dict:
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline:
        found = next(one for one in client.get("/api/jobs").json()["jobs"] if one["job"] == job)
        if found["state"] not in ("waiting", "running"):
            return found
        time.sleep(0.01)
    raise AssertionError("the job does not end")


@pytest.fixture
def models() -> list[str]:
    """The models that were loaded."""
    return []


@pytest.fixture
def trainer(workspace, make_client, models):
    def make(end: str = "succeed", command: tuple[str, ...] | None = None, **options):
        load = lambda model: (models.append(model), predictor(line_engine()))[1]  # noqa: E731
        return make_client(workspace, train=command or stub(end), load=load, **options)

    return make


@pytest.mark.slow
def test_it_trains_and_then_predicts_only_what_was_not_corrected(trainer, folder, models):
    client, results = trainer(), folder / "results"
    finished(client, client.post("/api/predict-missing", json={}).json()["job"])
    gradient(folder / "images" / "d.png")
    gradient(folder / "images" / "e.png")
    client.get("/api/images")
    saved(client, "a.png")
    saved(client, "b.jpg", accepted=True)
    draft = {"image": "e.png", "document": document(), "revision": None, "window": "w"}
    assert client.put("/api/draft", json=draft).status_code == 200
    (results / "sub" / "ä c.rsml").write_text("an older RSML")
    before = {path: path.read_bytes() for path in results.rglob("*") if path.is_file()}
    assert client.post("/api/training", json={"max_minutes": 7}).status_code == 202
    end = ended(client)
    assert (end["state"], end["before"], end["after"], end["model"]) == ("done", 0.5, 0.75, "trained-1")
    assert end["lines"] == ["results: 1 annotated image", "step 3 of 9", "F1 0.500 before, 0.750 after"]
    target = results / ".treeformer" / "models" / "trained-1"
    assert json.loads((target / "arguments.json").read_text()) == [
        str(results), "-o", str(target), "--progress", "json", "--model", "default", "--max-minutes", "7",
    ]  # fmt: skip
    assert models == ["default"]
    # Nothing is predicted before it is asked for.
    assert {path: path.read_bytes() for path in before} == before

    job = finished(client, client.post("/api/predict-again", json={}).json()["job"])
    assert (job["state"], job["done"], job["total"], job["error"]) == ("done", 3, 3, None)
    assert models == ["default", str(target)]
    changed = {path.relative_to(results).as_posix() for path in before if path.read_bytes() != before[path]}
    assert changed <= {"sub/ä c.json", "sub/ä c.rsml"}
    assert (results / "sub" / "ä c.orig.rsml").read_text() == "an older RSML"
    assert len(treeformer.read(results / "sub" / "ä c.rsml")) == 4
    assert (results / "d.json").exists()
    # The next training gets another name and starts from the same model.
    client.post("/api/training", json={})
    assert ended(client)["model"] == "trained-2"
    assert "default" in (target.with_name("trained-2") / "arguments.json").read_text()


def test_a_prediction_is_replaced_only_as_it_was_made(client, folder):
    """Each condition on its own: saved by a person, of another program, with a draft, another file."""
    store, entry = client.services.store, client.services.workspace.entry("a.png")
    made = predictor(line_engine()).predict(entry.path)
    again = made.replace(nodes=made.nodes + 1)
    assert store.save_prediction(entry, made)
    assert not store.save_prediction(entry, again)
    assert store.save_prediction(entry, again, replace=True)
    assert (treeformer.read(entry.result).nodes == again.nodes).all()
    revision = client.get("/api/skeleton", params={"image": "a.png"}).json()["revision"]
    store.save_draft(entry, document(), revision, "w")
    assert not store.save_prediction(entry, made, replace=True)
    store.delete_draft(entry, "w")
    for metadata in ({"editor": {"accepted": False}}, {"prediction": None}):
        treeformer.write(again.replace(metadata={**again.metadata, **metadata}), entry.result)
        assert not store.save_prediction(entry, made, replace=True)
    treeformer.write(again.replace(edge_score=None, node_score=None), entry.result)
    assert not store.save_prediction(entry, made, replace=True)
    entry.result.write_text("no JSON")
    assert not store.save_prediction(entry, made, replace=True)
    entry.result.unlink()
    treeformer.write(again, entry.rsml)
    assert not store.save_prediction(entry, made, replace=True)


def test_a_new_prediction_keeps_the_scale_of_the_earlier_one(client):
    store, entry = client.services.store, client.services.workspace.entry("a.png")
    made = predictor(line_engine()).predict(entry.path)
    treeformer.write(with_resolution(made, 11.8), entry.result)
    assert store.save_prediction(entry, made.replace(nodes=made.nodes + 1), replace=True)
    assert treeformer.measure(treeformer.read(entry.result))["unit"].tolist() == ["mm"]


def test_an_f1_of_zero_is_a_figure(trainer):
    client = trainer("no-plant")
    saved(client, "a.png", accepted=True)
    client.post("/api/training", json={})
    end = ended(client)
    assert (end["state"], end["before"], end["after"]) == ("done", 0.0, 0.0)


def test_progress_is_shown_and_it_can_be_cancelled_and_dismissed(trainer, folder):
    client = trainer("wait")
    saved(client, "a.png", accepted=True)
    client.post("/api/training", json={})
    deadline = time.monotonic() + 600
    while "waiting" not in status(client)["lines"]:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    seen = status(client)
    assert (seen["state"], seen["stage"], seen["done"], seen["total"]) == ("running", "training", 4, 9)
    assert seen["seconds_left"] == 30
    again = client.post("/api/training", json={})
    assert (again.status_code, again.json()["error"]) == (409, "A training is running already.")
    assert client.delete("/api/training").status_code == 200
    end = ended(client)
    assert (end["state"], end["seconds_left"], end["model"]) == ("cancelled", None, None)
    assert end["lines"][-1].startswith("Cancelled.")
    assert client.services.predictions.model == "default"
    assert client.delete("/api/training").json()["state"] == "idle"


def test_the_end_of_the_server_ends_the_process(trainer):
    client = trainer("wait")
    saved(client, "a.png", accepted=True)
    client.post("/api/training", json={})
    process = client.services.training._process
    assert process.poll() is None
    if sys.platform != "win32":  # Ctrl-C in the terminal does not reach it
        assert os.getsid(process.pid) == process.pid
    client.services.training.close()
    assert process.poll() is not None


def test_two_editors_of_a_folder_train_different_models(trainer):
    def target(client) -> str:
        assert client.post("/api/training", json={}).status_code == 202
        arguments = client.services.training._process.args
        return Path(arguments[arguments.index("-o") + 1]).name

    first, second = trainer("wait"), trainer("wait")
    saved(first, "a.png", accepted=True)
    assert [target(first), target(second)] == ["trained-1", "trained-2"]
    # A cancelled run has not used its name and is continued.
    for client in (first, second):
        client.services.training.close()
    assert target(second) == "trained-1"
    second.services.training.close()
    # Nor has one that could not be started.
    assert trainer(command=("no-such-program",)).post("/api/training", json={}).status_code == 500
    assert target(first) == "trained-1"


def test_what_goes_wrong_is_one_line(trainer, folder, monkeypatch):
    client = trainer("fail")
    answer = client.post("/api/training", json={})
    assert (answer.status_code, answer.json()["error"]) == (409, "Accept at least one image first.")
    saved(client, "a.png", accepted=True)
    for minutes in (0, -1, "x", True, 1e9, [5]):
        answer = client.post("/api/training", json={"max_minutes": minutes})
        assert answer.status_code == 400
        assert "\n" not in answer.json()["error"]
    client.post("/api/training", json={})
    end = ended(client)
    assert (end["state"], end["lines"][-1]) == ("failed", "the disk is too full")
    client = trainer(command=("no-such-program",))
    answer = client.post("/api/training", json={})
    assert answer.status_code == 500
    assert answer.json()["error"].startswith("The training cannot be started")
    assert status(client)["state"] == "idle"
    monkeypatch.setattr(training, "NEEDED", ("json", "no_such_package"))
    client = trainer(command=training.COMMAND)
    assert status(client)["missing_packages"] == ["no_such_package"]
    answer = client.post("/api/training", json={})
    assert answer.status_code == 409
    assert "treeformer[train,export]" in answer.json()["error"]


def test_images_without_corrections_are_learned_from_on_request(trainer, folder):
    client = trainer(has_gpu=lambda: True)
    assert client.get("/api/gpu").json() == {"gpu": True}
    saved(client, "a.png", accepted=True)
    assert client.post("/api/training", json={"unannotated": True}).status_code == 202
    end = ended(client)
    assert (end["state"], end["unannotated"], end["pseudo_labels"]) == ("done", True, 1)
    assert end["lines"][2] == "pseudo-labels: 1 of 2 images"
    assert json.loads((Path(end["folder"]) / "arguments.json").read_text())[-1] == "--unannotated"
    # The choice is kept when the page asks to train again, and can be changed.
    assert client.delete("/api/training").json()["unannotated"] is True
    client.post("/api/training", json={"unannotated": False})
    end = ended(client)
    assert (end["state"], end["unannotated"], end["pseudo_labels"]) == ("done", False, None)
    assert "--unannotated" not in (Path(end["folder"]) / "arguments.json").read_text()


def test_corrections_that_were_not_accepted_are_learned_from_on_request(trainer):
    client = trainer()
    saved(client, "a.png")
    row = next(row for row in client.get("/api/images").json()["images"] if row["image"] == "a.png")
    assert (row["state"], row["origin"], row["open_places"]) == ("edited", "correction", 0)
    answer = client.post("/api/training", json={})
    assert answer.status_code == 409
    hint = ", or include the corrections that were not accepted"
    assert answer.json()["error"] == f"Accept at least one image first{hint}."
    for value in (1, "true", None):
        answer = client.post("/api/training", json={"include_unaccepted": value})
        assert (answer.status_code, answer.json()["error"]) == (400, "include_unaccepted must be true or false.")
    client.post("/api/training", json={"include_unaccepted": True})
    end = ended(client)
    assert json.loads((Path(end["folder"]) / "arguments.json").read_text())[-1] == "--include-unaccepted"


def test_learning_from_other_images_is_refused_without_a_gpu_or_such_images(trainer):
    with_gpu, without = trainer("wait", has_gpu=lambda: True), trainer("wait")
    assert without.get("/api/gpu").json() == {"gpu": False}
    saved(without, "a.png", accepted=True)
    for value in (1, "true", None, [True]):
        answer = without.post("/api/training", json={"unannotated": value})
        assert (answer.status_code, answer.json()["error"]) == (400, "unannotated must be true or false.")
    answer = without.post("/api/training", json={"unannotated": True})
    assert answer.status_code == 409
    assert answer.json()["error"] == "Learning from images without corrections needs a GPU, and torch sees none."
    for image in ("b.jpg", "sub/ä c.png"):
        saved(without, image, accepted=True)
    answer = with_gpu.post("/api/training", json={"unannotated": True})
    assert answer.status_code == 409
    assert answer.json()["error"] == "There is no image without corrections to learn from."
    assert [status(client)["state"] for client in (with_gpu, without)] == ["idle", "idle"]


@pytest.mark.parametrize("unannotated", [True, False])
def test_an_editor_that_is_started_again_knows_what_was_interrupted(trainer, folder, unannotated):
    work = work_folder_of(folder / "results" / ".treeformer" / "models" / "trained-2")
    (work.parent / "trained-1").mkdir(parents=True)
    work.mkdir()
    assert status(trainer())["unannotated"] is False
    write_plan(work, {"fingerprint": "0", "unannotated": unannotated})
    assert status(trainer())["unannotated"] is unannotated


def test_the_process_finds_images_and_corrections_in_either_place(trainer, folder, make_client):
    client = trainer()
    saved(client, "a.png", accepted=True)
    client.post("/api/training", json={})
    ended(client)
    found = {path.name: file for path, file in find_skeletons(folder / "results")}
    assert found == {"a.png": folder / "results" / "a.json", "b.jpg": None, "ä c.png": None}
    beside = make_client(Workspace(folder / "images", folder / "images"), train=stub("succeed"))
    saved(beside, "b.jpg", accepted=True)
    beside.post("/api/training", json={})
    model = Path(ended(beside)["folder"])
    gradient(model / "overlays" / "b.png")  # drawings of validation images are no images to predict
    assert {row["image"] for row in beside.get("/api/images").json()["images"]} == {"a.png", "b.jpg", "sub/ä c.png"}
    assert not (folder / "images" / ".treeformer-images").exists()


@pytest.fixture
def trained_on(make_client):
    """Return a function that opens paths as `treeformer edit` does, starts to train, and lists what is trained on."""

    def make(
        images: Path, *corrected: str, results: Path | None = None, unannotated: bool = False
    ) -> dict[str, Path | None]:
        client = make_client(open_workspace(images, results), train=stub("wait"), has_gpu=lambda: True)
        for image in corrected:
            saved(client, image, accepted=True)
        assert client.post("/api/training", json={"unannotated": unannotated}).status_code == 202
        folder = Path(client.services.training._process.args[len(stub("wait"))])
        found = {path.name: file and file.resolve() for path, file in find_skeletons(folder)}
        recipes = [(one / "dataset.yaml").exists() for one in (folder, client.services.workspace.results_root)]
        assert recipes[0] == recipes[1]
        client.services.training.close()
        return found

    return make


def test_only_the_listed_images_are_trained_on(trained_on, tmp_path):
    photos, results = tmp_path / "photos", tmp_path / "results"
    for name in ("p0.png", "p1.png", "p2.png"):
        gradient(photos / name)
        (photos / name).with_suffix(".json").write_text(json.dumps(document(editor={"accepted": True})))
    (photos / "dataset.yaml").write_text("plate: p")
    assert trained_on(photos / "p0.png") == {"p0.png": photos / "p0.json"}
    assert [entry.image for entry in open_workspace(photos).entries()] == ["p0.png", "p1.png", "p2.png"]
    found = trained_on(photos / "p1.png", "p1.png", results=results)
    assert found == {"p1.png": results / "p1.json"}
    assert trained_on(results) == found
    # Results of a folder, of which one image is opened.
    assert len(trained_on(photos, results=results)) == 3
    assert trained_on(photos / "p1.png", results=results) == found
    assert not [*results.rglob(".trained-*"), *photos.rglob(".trained-*")]


def test_the_record_of_the_results_is_not_widened(trained_on, tmp_path):
    photos, results = tmp_path / "photos", tmp_path / "results"
    sources = [gradient(photos / name) for name in ("p0.png", "p1.png")]
    gradient(photos / "p2.png")
    results.mkdir()
    write_record(results, sources, plan(sources, results))
    before = read_record(results)
    assert trained_on(results, "p0.png") == {"p0.png": results / "p0.json", "p1.png": None}
    assert read_record(results) == before
    sources[1].unlink()  # what is listed still is trained on
    assert trained_on(results) == {"p0.png": results / "p0.json"}
    assert read_record(results) == before


def test_images_without_corrections_that_the_record_lacks_are_found_if_they_are_asked_for(trained_on, tmp_path):
    photos, results = tmp_path / "photos", tmp_path / "results"
    sources = [gradient(photos / name) for name in ("p0.png", "p1.png")]
    results.mkdir()
    write_record(results, sources[:1], plan(sources[:1], results))
    found = {"p0.png": results / "p0.json"}
    assert trained_on(photos, "p0.png", results=results) == found
    assert trained_on(photos, results=results, unannotated=True) == found | {"p1.png": None}


def test_images_behind_a_symbolic_link_are_recorded_once(trained_on, tmp_path):
    results, image = tmp_path / "results", gradient(tmp_path / "photos" / "p0.png")
    (tmp_path / "link").symlink_to(tmp_path / "photos")
    source = tmp_path / "link" / image.name
    results.mkdir()
    write_record(results, [source], plan([source], results))
    trained_on(results, "p0.png")
    assert [entry.image for entry in open_workspace(results).entries()] == ["p0.png"]


def test_the_order_is_that_of_treeformer_next(client, folder):
    """Thumbnails of small images have all their pixels, so both orders agree; JPEG changes them little."""
    for k, name in enumerate(("d.png", "e.png", "f.png", "g.png")):
        gradient(folder / "images" / name, (60 + 20 * k, 80 - 10 * k))
    client.get("/api/images")
    for name, scores in {"d": [0.9, 0.2, 0.3], "e": [0.1, 0.2, 0.1], "f": [0.9, 0.9, 0.8]}.items():
        made = document() | {"edge_score": scores}
        (folder / "results").mkdir(exist_ok=True)
        (folder / "results" / f"{name}.json").write_text(json.dumps(made))
    saved(client, "a.png")
    saved(client, "g.png", accepted=True)
    found = client.get("/api/next").json()["images"]
    assert set(found) == {"b.jpg", "d.png", "e.png", "f.png", "sub/ä c.png"}
    for name in ("b.jpg", "sub/ä c.png"):
        (folder / "images" / name).unlink()
    client.get("/api/images")
    client.services.training._record(client.services.workspace.entries())
    ranked, failures = rank_folder(folder / "results")
    assert not failures
    assert client.get("/api/next").json()["images"] == [one.path.name for one in ranked]


def test_an_unreadable_image_is_not_ranked(client, folder):
    (folder / "images" / "a.png").write_bytes(b"no image")
    assert set(client.get("/api/next").json()["images"]) == {"b.jpg", "sub/ä c.png"}
