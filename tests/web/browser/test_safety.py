"""Nothing is lost: drafts after a crash, two windows on one image, a server that goes away."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest

import treeformer
from tests.web.browser.pages import folder

pytestmark = pytest.mark.slow


@pytest.fixture
def images(tmp_path):
    return folder(tmp_path, "a.png")


def move_tip(editor, dx: float) -> None:
    """Move the tip of the lowest tooth to the right."""
    x, y = editor.js("(() => { const n = c.state.graph.nodes.values()[6]; return [n.x, n.y]; })()")
    editor.drag((x, y), (x + dx, y))
    assert editor.js("c.state.graph.nodes.values()[6].x") == pytest.approx(x + dx, abs=1)
    editor.page.mouse.move(*editor.at(300, 40))


def tip(path) -> float:
    return float(treeformer.read(path).nodes[6, 0])


def test_crash_of_the_server_during_autosave(images, start_server, open_editor):
    """The server is killed while drafts are being written; the last complete one is offered again."""
    results = images.parent / "results"
    server = start_server(images, results)
    editor = open_editor(server.address)
    original = (results / "a.json").read_bytes()
    move_tip(editor, 40)
    editor.page.wait_for_selector('[data-save="draft"]')
    # Write drafts as fast as possible and kill the server in the middle.
    editor.page.evaluate(
        """() => { const c = window.treeformer.controller;
        window.writing = setInterval(() => { c.session.changed(); void c.session.flush(); }, 5); }"""
    )
    time.sleep(0.3)
    server.kill()
    editor.page.wait_for_selector('[data-save="offline"]')
    assert editor.js("c.state.graph.nodes.values()[6].x") == pytest.approx(220, abs=1), "the page keeps the work"
    assert (results / "a.json").read_bytes() == original

    editor = open_editor(start_server(images, results).address)
    editor.page.get_by_text("Unsaved work of an earlier session was recovered").wait_for()
    assert editor.js("c.state.graph.nodes.values()[6].x") == pytest.approx(220, abs=1)
    editor.page.get_by_role("button", name="Keep it").click()
    editor.save()
    assert tip(results / "a.json") == pytest.approx(220, abs=1)
    assert not list((results / ".treeformer" / "drafts").glob("*.json"))


def test_discarded_draft_can_be_undone(images, start_server, open_editor):
    server = start_server(images, images.parent / "results")
    editor = open_editor(server.address)
    move_tip(editor, 40)
    editor.page.wait_for_selector('[data-save="draft"]')
    editor.page.context.close()  # the browser crashes

    editor = open_editor(server.address)
    editor.page.get_by_role("button", name="Discard it").click()
    editor.wait("c.state.graph.nodes.values()[6].x === 180")
    editor.press("Control+z")
    assert editor.js("c.state.graph.nodes.values()[6].x") == pytest.approx(220, abs=1)


def test_two_windows(images, start_server, open_editor):
    """The second save is told; every choice keeps both versions reachable."""
    results = images.parent / "results"
    server = start_server(images, results)
    first = open_editor(server.address)
    second = open_editor(server.address.split("?")[0], context=first.page.context)
    move_tip(first, 30)
    move_tip(second, 60)
    first.save()
    assert tip(results / "a.json") == pytest.approx(210, abs=1)

    second.press("Control+s")
    dialog = second.page.get_by_role("dialog")
    dialog.wait_for()
    assert "Nothing has been overwritten" in dialog.inner_text()
    assert tip(results / "a.json") == pytest.approx(210, abs=1)
    # Later: the work stays in a draft, the file as it is, and the question comes again.
    dialog.get_by_role("button", name="Decide later").click()
    second.page.wait_for_selector('[data-save="draft"]')
    second.press("Control+s")
    dialog.wait_for()
    dialog.get_by_role("button", name="Keep mine").click()
    second.page.wait_for_selector('[data-save="saved"]')
    assert tip(results / "a.json") == pytest.approx(240, abs=1)
    second.press("Control+z")
    assert second.js("c.state.graph.nodes.values()[6].x") == pytest.approx(210, abs=1), "undo reaches the other version"
    second.press("Control+Shift+z")

    # Now the first window is behind. It takes the other version; its own is one step back.
    move_tip(first, 10)
    first.press("Control+s")
    dialog = first.page.get_by_role("dialog")
    dialog.wait_for()
    dialog.get_by_role("button", name="Load theirs").click()
    first.wait("Math.abs(c.state.graph.nodes.values()[6].x - 240) < 1")
    assert first.save_state == "saved"
    first.press("Control+z")
    assert first.js("c.state.graph.nodes.values()[6].x") == pytest.approx(220, abs=1)

    # A copy: mine is downloaded, theirs is shown.
    second.press("Control+s")
    second.page.wait_for_selector('[data-save="saved"]')
    first.press("Control+s")
    dialog.wait_for()
    with first.page.expect_download() as download:
        dialog.get_by_role("button", name="Save mine as a copy").click()
    copy = json.loads(Path(download.value.path()).read_text())
    assert copy["nodes"][6][0] == pytest.approx(220, abs=1)
    assert np.isclose(tip(results / "a.json"), 240, atol=1)


def test_work_on_an_older_version_is_offered(images, start_server, open_editor):
    """A draft that began from a result which another program replaced is not loaded, but offered."""
    results = images.parent / "results"
    server = start_server(images, results)
    editor = open_editor(server.address)
    move_tip(editor, 40)
    editor.page.wait_for_selector('[data-save="draft"]')
    editor.page.context.close()
    document = json.loads((results / "a.json").read_text())
    document["nodes"][6][0] = 300.0
    (results / "a.json").write_text(json.dumps(document))

    editor = open_editor(server.address)
    assert editor.js("c.state.graph.nodes.values()[6].x") == 300
    editor.page.get_by_role("button", name="Load it").click()
    editor.wait("Math.abs(c.state.graph.nodes.values()[6].x - 220) < 1")
    editor.press("Control+s")
    editor.page.get_by_role("dialog").wait_for()
    assert tip(results / "a.json") == 300


def test_foreign_file_is_kept(tmp_path, start_server, open_editor):
    """An RSML file is the starting point; the first save keeps it as NAME.orig.rsml."""
    images = folder(tmp_path, "a.png")
    results = tmp_path / "results"
    skeleton = treeformer.read(results / "a.json")
    (results / "a.json").unlink()
    treeformer.write(skeleton, results / "a.rsml")
    original = (results / "a.rsml").read_bytes()
    editor = open_editor(start_server(images, results).address)
    assert len(editor.nodes) == 7
    editor.press("Control+a", "Alt+ArrowRight")
    editor.save()
    assert (results / "a.orig.rsml").read_bytes() == original
    assert treeformer.read(results / "a.json").nodes[:, 0].max() == pytest.approx(181)


def test_an_image_stays_open_while_its_work_cannot_be_stored(tmp_path, start_server, open_editor):
    """Without a server there is no draft: the work can be kept as a file, and is given up only if somebody says so."""
    images = folder(tmp_path, "a.png", "b.png")
    server = start_server(images, tmp_path / "results")
    editor = open_editor(server.address)
    server.kill()
    move_tip(editor, 40)
    editor.press(".")
    question = editor.page.get_by_text("The last changes of a.png could not be stored")
    question.wait_for()
    assert editor.js("c.image") == "a.png"
    assert editor.js("c.state.graph.nodes.values()[6].x") == pytest.approx(220, abs=1)
    with editor.page.expect_download() as download:
        editor.page.get_by_role("button", name="Save a copy").click()
    copy = tmp_path / download.value.suggested_filename
    download.value.save_as(copy)
    assert copy.name == "a.copy.json"
    assert tip(copy) == pytest.approx(220, abs=1)
    assert editor.js("c.image") == "a.png"
    editor.page.get_by_role("button", name="Leave and lose them").click()
    editor.wait("c.image === 'b.png'")
