"""The notebook widget in Chromium: with a model in place of a notebook, and in JupyterLab if that is installed."""

from __future__ import annotations

import base64
import functools
import http.server
import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import treeformer
from tests.web.browser.conftest import Editor
from treeformer import examples
from treeformer.formats import native_json

pytest.importorskip("anywidget", reason="anywidget is missing: pip install -e '.[notebook]'")
STATIC = Path(treeformer.__file__).parent / "web" / "static" / "widget"
IMAGE = examples.FOLDER / "seedling.jpg"
START_S = 120

# What anywidget does: traits that both sides share, and a call of `render`.
PAGE = """<!doctype html>
<link rel="stylesheet" href="widget.css">
<input id="other">
<div id="widget" style="width: 1000px"></div>
"""
MODEL = """async (state) => {
  state._image = new DataView(Uint8Array.from(atob(state._image), (letter) => letter.charCodeAt(0)).buffer);
  const listeners = [];
  window.saved = [];
  window.model = {
    get: (name) => state[name],
    set(name, value) {
      if (state[name] === value) return;
      state[name] = value;
      for (const [event, callback] of [...listeners]) if (event === `change:${name}`) callback();
    },
    save_changes: () => window.saved.push(state._document),
    on: (event, callback) => listeners.push([event, callback]),
    off: (event, callback) => listeners.splice(listeners.findIndex((l) => l[0] === event && l[1] === callback), 1),
  };
  window.listeners = listeners;
  const { default: widget } = await import("/widget.js");
  window.stop = widget.render({ model, el: document.getElementById("widget") });
}"""
EXPOSE = """() => {
  const host = [...document.querySelectorAll("div")].find((div) => div.treeformer);
  if (!host?.treeformer.controller?.ready) return false;
  window.treeformer = { get controller() { return host.treeformer.controller; } };
  return true;
}"""


class Handler(http.server.SimpleHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/":
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(PAGE.encode())
        else:
            super().do_GET()

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(STATIC)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def skeleton_of(text: str) -> treeformer.Skeleton:
    return next(native_json.skeletons(json.loads(text)))


def first_tip(editor: Editor) -> dict[str, Any]:
    return next(node for node in editor.nodes.values() if node["parent"] is not None and not node["children"])


def test_edits_reach_the_model_and_the_model_reaches_the_editor(browser, address):
    original = treeformer.read(IMAGE.with_suffix(".rsml"))
    state = treeformer.edit_widget(original, IMAGE, height=500).get_state()
    shared = {name: state[name] for name in ("_document", "_size", "_name", "height")}
    shared["_image"] = base64.b64encode(state["_image"]).decode()
    context = browser.new_context(viewport={"width": 1100, "height": 700})
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(address)
    page.evaluate(MODEL, shared)
    page.wait_for_function(EXPOSE)
    editor = Editor(page)
    editor.wait("c.stage.complete")
    assert page.locator("#widget > div").bounding_box()["height"] == 500
    assert len(editor.nodes) == len(original)

    tip = first_tip(editor)
    editor.click(tip["x"], tip["y"])
    editor.press("Delete")
    page.wait_for_function("window.saved.length === 1")
    edited = skeleton_of(page.evaluate("window.saved[0]"))
    assert len(edited) == len(original) - 1
    assert [tip["x"], tip["y"]] not in edited.nodes.tolist()
    editor.press("Control+z")
    page.wait_for_function("window.saved.length === 2")
    assert len(skeleton_of(page.evaluate("window.saved[1]"))) == len(original)
    editor.press("Control+Shift+z")
    page.wait_for_function("window.saved.length === 3")

    # Keys that are typed elsewhere do not edit.
    page.focus("#other")
    page.keyboard.press("Control+z")
    page.wait_for_timeout(300)
    assert page.evaluate("window.saved.length") == 3
    assert len(editor.nodes) == len(original) - 1

    # The notebook sets another skeleton, and the height.
    page.evaluate("(text) => window.model.set('_document', text)", state["_document"])
    page.wait_for_function(EXPOSE)
    editor.wait(f"c.state.graph.size === {len(original)}")
    page.evaluate("() => window.model.set('height', 400)")
    assert page.locator("#widget > div").bounding_box()["height"] == 400
    page.evaluate("() => window.stop()")
    assert page.evaluate("() => [window.listeners.length, document.querySelectorAll('canvas').length]") == [0, 0]
    context.close()
    assert not errors


CELLS = f"""
import treeformer
image = {str(IMAGE)!r}
widget = treeformer.edit_widget(treeformer.read(image.replace(".jpg", ".rsml")), image, height=420)
widget
"""


def notebook(*cells: str) -> dict[str, Any]:
    rows = [
        {"cell_type": "code", "id": f"cell{k}", "metadata": {}, "outputs": [], "execution_count": None, "source": cell}
        for k, cell in enumerate(cells)
    ]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": rows, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


@pytest.fixture
def lab(tmp_path) -> Iterator[str]:
    """Start JupyterLab with one notebook; yield its address."""
    pytest.importorskip("jupyterlab", reason="jupyterlab is missing: pip install jupyterlab")
    pytest.importorskip("ipykernel")
    cells = notebook(CELLS.strip(), "print('nodes', len(widget.skeleton))")
    (tmp_path / "edit.ipynb").write_text(json.dumps(cells), encoding="utf-8")
    folders = {name: str(tmp_path / name) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR")}
    with (tmp_path / "log").open("w") as log:
        command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--IdentityProvider.token=test"]
        options = ["--ServerApp.port=0", "--ip=127.0.0.1", f"--ServerApp.root_dir={tmp_path}"]
        process = subprocess.Popen([*command, *options], stdout=log, stderr=log, env=os.environ | folders)
    try:
        yield _wait_for(tmp_path, process) + "lab/tree/edit.ipynb?token=test&reset"
    finally:
        process.terminate()
        process.wait(30)


def _wait_for(folder: Path, process: subprocess.Popen[bytes]) -> str:
    """Return the address of a server of JupyterLab as soon as it answers."""
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        assert process.poll() is None, (folder / "log").read_text()
        for file in (folder / "JUPYTER_RUNTIME_DIR").glob("jpserver-*.json"):
            try:
                url = str(json.loads(file.read_text(encoding="utf-8"))["url"])
                urllib.request.urlopen(f"{url}api?token=test", timeout=5).close()
                return url
            except (OSError, ValueError):
                pass
        time.sleep(0.3)
    raise AssertionError((folder / "log").read_text())


def run_cell(page: Any, index: int) -> None:
    """Run a cell. JupyterLab forgets the request if its connection to the kernel is not complete."""
    cell = page.locator(".jp-CodeCell").nth(index)
    for _ in range(START_S // 5):
        cell.locator(".cm-content").click()
        page.keyboard.press("Shift+Enter")
        for _ in range(10):
            page.wait_for_timeout(500)
            if cell.locator(".jp-InputPrompt").inner_text().strip() != "[ ]:":
                return
    raise AssertionError("the cell does not run")


@pytest.mark.slow
@pytest.mark.skipif("TREEFORMER_JUPYTERLAB" not in os.environ, reason="set TREEFORMER_JUPYTERLAB to test in JupyterLab")
def test_edits_in_jupyterlab_are_the_skeleton_of_the_widget(browser, lab, tmp_path):
    original = treeformer.read(IMAGE.with_suffix(".rsml"))
    context = browser.new_context(viewport={"width": 1300, "height": 900})
    page = context.new_page()
    page.set_default_timeout(START_S * 1000)
    page.goto(lab)
    page.wait_for_selector(".jp-Notebook .jp-Cell")
    run_cell(page, 0)
    page.wait_for_function(EXPOSE)
    editor = Editor(page)
    editor.wait("c.stage.complete")
    tip = first_tip(editor)
    editor.click(tip["x"], tip["y"])
    editor.press("Delete")
    editor.wait(f"c.state.graph.size === {len(original) - 1}")
    # JupyterLab would delete the cell at "d d". The editor may insert nodes.
    editor.press("d", "d", "Escape", "Escape")
    page.wait_for_timeout(1000)
    if os.environ.get("TREEFORMER_SCREENSHOTS"):
        page.screenshot(path=Path(os.environ["TREEFORMER_SCREENSHOTS"]) / "widget.png")
    assert page.locator(".jp-CodeCell").count() == 2
    run_cell(page, 1)
    page.wait_for_selector(f"text=nodes {len(editor.nodes)}")
    context.close()
