"""Predictions in the background of the editor's server, through the HTTP interface."""

from __future__ import annotations

import time

import pytest

import treeformer
from tests.inference.fake_engine import line_engine, predictor
from tests.web.conftest import saved, states


def finished(client, key):
    """Wait for a job. There is no limit of time: a job that never ends is a test that never ends."""
    while True:
        job = next(job for job in client.get("/api/jobs").json()["jobs"] if job["job"] == key)
        if job["state"] not in ("waiting", "running"):
            return job
        time.sleep(0.01)


def test_predict_missing_images_in_the_background(client, folder):
    saved(client, "a.png")
    before = (folder / "results" / "a.json").read_bytes()
    answer = client.post("/api/predict-missing", json={})
    assert answer.status_code == 202
    job = finished(client, answer.json()["job"])
    assert (job["state"], job["done"], job["total"], job["error"]) == ("done", 2, 2, None)
    assert states(client) == {"a.png": "edited", "b.jpg": "predicted", "sub/ä c.png": "predicted"}
    assert (folder / "results" / "a.json").read_bytes() == before
    assert len(treeformer.read(folder / "results" / "sub" / "ä c.json")) == 4


def test_predict_one_image_returns_the_skeleton_and_saves_only_the_first(client, folder):
    key = client.post("/api/predict", json={"image": "a.png", "working_size": None, "region": None}).json()["job"]
    job = finished(client, key)
    assert job["state"] == "done"
    assert len(job["document"]["nodes"]) == 4
    before = (folder / "results" / "a.json").read_bytes()
    key = client.post("/api/predict", json={"image": "a.png", "working_size": "full", "region": None}).json()["job"]
    assert finished(client, key)["state"] == "done"
    assert (folder / "results" / "a.json").read_bytes() == before


def test_several_views_are_predicted_if_requested(client):
    assert client.get("/api/session").json()["max_views"] == 6
    for request in ({"views": 3}, {"views": 3, "region": [0, 0, 64, 64]}):
        key = client.post("/api/predict", json={"image": "a.png"} | request).json()["job"]
        job = finished(client, key)
        assert job["state"] == "done"
        assert job["document"]["metadata"]["prediction"]["views"] == 3


@pytest.mark.slow
def test_the_progress_of_one_image_is_in_tiles(client):
    key = client.post("/api/predict", json={"image": "b.jpg", "working_size": "full"}).json()["job"]
    job = finished(client, key)
    assert job["done"] == job["total"] > 100  # tiles of 64 px cover 700×600 px


def test_the_prediction_of_a_region_is_in_px_of_the_image_and_not_saved(client, folder):
    region = [100, 200, 164, 264]
    key = client.post("/api/predict", json={"image": "b.jpg", "region": region}).json()["job"]
    job = finished(client, key)
    assert job["state"] == "done", job
    assert sorted(job["document"]["nodes"]) == [[110, 230], [120, 230], [130, 230], [140, 230]]
    assert job["document"]["image_size"] == [700, 600]
    assert not (folder / "results" / "b.json").exists()


@pytest.mark.parametrize(
    "change",
    [
        {"working_size": 0}, {"working_size": "half"}, {"working_size": True}, {"working_size": 1.5},
        {"region": [0, 0, 5]}, {"region": [0, 0, 2, 2]}, {"region": [0, 0, "x", 9]}, {"region": [1e9, 0, 2e9, 9]},
        {"image": "no.png"}, {"image": 5}, {"views": 0}, {"views": 7}, {"views": "2"}, {"views": None},
    ],
)  # fmt: skip
def test_an_invalid_prediction_is_refused(client, change):
    assert client.post("/api/predict", json={"image": "a.png"} | change).status_code in (400, 404, 422)
    assert client.get("/api/jobs").json() == {"jobs": []}


def test_an_unreadable_image_fails_and_is_listed_as_failed(client, folder):
    (folder / "images" / "b.jpg").write_bytes(b"not an image")
    job = finished(client, client.post("/api/predict-missing", json={}).json()["job"])
    assert job["state"] == "failed"
    assert "b.jpg" in job["error"]
    assert states(client) == {"a.png": "predicted", "b.jpg": "failed", "sub/ä c.png": "predicted"}
    answer = client.get("/api/pyramid", params={"image": "b.jpg"})
    assert answer.status_code == 422
    assert "b.jpg" in answer.json()["error"]


def test_a_job_can_be_cancelled_while_it_waits_and_while_it_runs(workspace, make_client, folder):
    import threading

    reached, go_on = threading.Event(), threading.Event()
    engine = line_engine()

    class Slow:
        name, device, preferred_batch, input_size = "slow", "cpu", 1, 64

        def __call__(self, images):
            reached.set()
            go_on.wait()
            return engine(images)

    client = make_client(workspace, load=lambda _: predictor(Slow()))
    running = client.post("/api/predict-missing", json={}).json()["job"]
    waiting = client.post("/api/predict", json={"image": "a.png"}).json()["job"]
    reached.wait()
    for key in (running, waiting):
        assert client.delete("/api/jobs", params={"job": key}).status_code == 200
    go_on.set()
    assert finished(client, running)["state"] == "cancelled"
    assert finished(client, waiting)["state"] == "cancelled"
    assert not list(folder.glob("results/**/*.json"))
    assert client.delete("/api/jobs", params={"job": "none"}).status_code == 404
