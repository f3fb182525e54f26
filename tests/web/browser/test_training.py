"""The button "Train…" in the page, with a process that only pretends to train."""

from __future__ import annotations

import socket
import threading

import pytest
import uvicorn

from tests.inference.fake_engine import line_engine, predictor
from tests.web.conftest import gradient
from tests.web.test_training import stub
from treeformer.web.app import create_app
from treeformer.web.folder import Workspace
from treeformer.web.services import Services

TOKEN = "token"


@pytest.fixture
def served(tmp_path):
    """The services and the address of a server in this process, whose model finds four nodes in every image."""
    for name in ("a.png", "b.png", "c.png"):
        gradient(tmp_path / "images" / name)
    services = Services.of(
        Workspace(tmp_path / "images", tmp_path / "images"),
        load=lambda _: predictor(line_engine()),
        train=stub("wait"),
        has_gpu=lambda: True,
    )
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        app = create_app(services, token=TOKEN, port=port)
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", ws="none", timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        yield services, f"http://127.0.0.1:{port}/?token={TOKEN}"
        server.should_exit = True
        thread.join(600)


@pytest.mark.slow
def test_train_reload_cancel_train_again_and_predict_the_rest(served, open_editor):
    services, address = served
    entries = {entry.image: entry for entry in services.workspace.entries()}
    for entry in entries.values():
        services.store.save_prediction(entry, predictor(line_engine()).predict(entry.path))
    editor = open_editor(address)
    page = editor.page
    page.get_by_role("button", name="Train…").click()
    assert page.get_by_role("button", name="Train", exact=True).is_disabled()  # nothing is corrected yet
    page.get_by_role("button", name="Close").click()
    editor.open("a.png")
    editor.press("Control+Enter")
    page.wait_for_selector('[data-image="a.png"] .state.accepted')
    accepted = entries["a.png"].result.read_bytes()

    page.get_by_role("button", name="Train…").click()
    page.get_by_label("Learn from images without corrections, too").check()
    assert page.get_by_text("The new model predicts the 2 images without corrections").count() == 1
    page.get_by_role("button", name="Train", exact=True).click()
    page.get_by_role("log").get_by_text("waiting").wait_for()
    page.reload()
    editor.wait_ready()
    box = page.locator("[data-training]")
    box.get_by_text("about 30 s left").wait_for()
    page.get_by_role("button", name="Cancel the training").click()
    page.locator('[data-training="cancelled"]').get_by_text("Cancelled.").wait_for()

    services.training.command = stub("succeed")
    page.get_by_role("button", name="Details…").click()
    assert page.get_by_label("Learn from images without corrections, too").is_checked(), "the same run continues"
    page.get_by_role("button", name="Train", exact=True).click()
    page.locator('[data-training="done"]').wait_for()
    assert page.get_by_text("F1 0.50 before, 0.75 after.").count() >= 1
    assert page.get_by_text("The model has learned from 1 image without corrections, too.").count() == 1
    page.get_by_role("button", name="Close", exact=True).last.click()
    shown = editor.js("c.image")
    assert shown in ("b.png", "c.png")
    services.predictions._load = lambda _: predictor(line_engine(scores=(0.9, 0.9, 0.9, 0.0)))
    page.get_by_role("button", name="Predict 2 again").click()
    box.wait_for(state="detached")
    # The open image, which was not changed, shows the new prediction.
    editor.wait("c.state.graph.size === 3")
    assert entries["a.png"].result.read_bytes() == accepted
    assert editor.save_state == "saved"
    page.select_option('[aria-label="Sort images"]', "next")
    page.wait_for_function("() => document.querySelectorAll('[data-image]')[2].dataset.image === 'a.png'")
