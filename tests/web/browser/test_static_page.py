"""The static page in Chromium: drop an image, correct it, download it; offline; refusals. Needs `make page`.

The tests wait for what the page says about itself. The limit only ends a test whose page is stuck.
"""

from __future__ import annotations

import base64
import functools
import http.server
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treeformer
from tests.web.browser.conftest import Editor
from treeformer import examples
from treeformer.formats import native_json
from treeformer.hub.model_folder import open_model
from treeformer.inference.onnx_engine import OnnxEngine
from treeformer.inference.predictor import Predictor
from treeformer.metrics import topo
from treeformer.skeleton import Skeleton

PAGE = Path(__file__).parents[3] / "dist" / "page"
LIMIT_S = 600.0

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (PAGE / "sw.js").is_file(), reason="dist/page is missing: run make page"),
]

# Drop a file on the window, as a person does.
DROP = """([name, type, data]) => {
  const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
  const transfer = new DataTransfer();
  transfer.items.add(new File([bytes], name, { type }));
  window.dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, bubbles: true, cancelable: true }));
}"""


class Handler(http.server.SimpleHTTPRequestHandler):
    service_worker = threading.Event()

    def do_GET(self) -> None:
        if self.path.endswith("/sw.js"):
            self.service_worker.wait(LIMIT_S)
        super().do_GET()

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


class Site:
    """A plain web server for the page's files."""

    def __init__(self) -> None:
        handler = functools.partial(Handler, directory=str(PAGE))
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture(scope="module")
def python() -> Predictor:
    """Python's prediction with the page's weights."""
    onnxruntime = pytest.importorskip("onnxruntime")
    (settings,) = (PAGE / "model").glob("*.json")
    folder = open_model(json.loads(settings.read_text(encoding="utf-8"))["name"])
    engine = OnnxEngine(folder, threads=1)
    (weights,) = (PAGE / "model").glob("*.onnx")
    engine._session = onnxruntime.InferenceSession(str(weights), providers=["CPUExecutionProvider"])
    return Predictor(folder, engine=engine)


@pytest.fixture
def site() -> Iterator[Site]:
    Handler.service_worker.set()
    site = Site()
    yield site
    Handler.service_worker.set()
    site.stop()


@pytest.fixture
def open_page(browser, site) -> Iterator[Callable[..., Any]]:
    """Return a function that opens the page after a script. Errors of the page fail the test."""
    contexts, errors = [], []

    def open_page(script: str = "") -> Any:
        contexts.append(browser.new_context(viewport={"width": 1200, "height": 800}))
        page = contexts[-1].new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.set_default_timeout(1000 * LIMIT_S)
        page.add_init_script(script)
        page.goto(site.address)
        page.wait_for_selector("[data-model]")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not errors


@pytest.fixture
def page(open_page) -> Any:
    return open_page()


def drop(page: Any, name: str, data: bytes, kind: str = "image/jpeg") -> None:
    page.evaluate(DROP, [name, kind, base64.b64encode(data).decode()])


def wait_ready(page: Any) -> None:
    page.wait_for_selector('[data-model="ready"]')


def wait_predicted(page: Any, name: str) -> Editor:
    page.wait_for_selector(f'[data-image="{name}"] .state.predicted')
    editor = Editor(page)
    editor.wait(f"c.image === {name!r} && c.ready && c.state.graph.size > 0", LIMIT_S)
    return editor


def download(page: Any, label: str, folder: Path) -> Path:
    with page.expect_download() as waiting:
        page.get_by_role("button", name=label, exact=True).click()
    path = folder / waiting.value.suggested_filename
    waiting.value.save_as(path)
    return path


def skeleton_of(document: dict[str, Any]) -> Skeleton:
    return next(native_json.skeletons(document))


def test_drop_correct_download_and_reload_offline(page, site, python, tmp_path):
    path = examples.FOLDER / "seedling.jpg"
    drop(page, "seedling.jpg", path.read_bytes())
    editor = wait_predicted(page, "seedling.jpg")
    predicted = skeleton_of(editor.document)
    assert topo(python.predict(path), predicted).f1 >= 0.99

    # Delete a tip, then cut the edge above an inner node: the part below becomes a plant of its own.
    tip = next(node for node in editor.nodes.values() if node["parent"] is not None and not node["children"])
    editor.click(tip["x"], tip["y"])
    editor.press("Delete")
    editor.wait(f"c.state.graph.size === {len(predicted) - 1}", LIMIT_S)
    inner = next(node for node in editor.nodes.values() if node["parent"] is not None and node["children"])
    parent = editor.nodes[inner["parent"]]
    middle = (inner["x"] + parent["x"]) / 2, (inner["y"] + parent["y"]) / 2
    editor.zoom_to(*middle, 4)
    editor.click(*middle, "Control")
    editor.wait(f"c.state.graph.get({inner['id']}).parent === null", LIMIT_S)
    edited = skeleton_of(editor.document)
    assert len(edited.edges) == len(predicted.edges) - 2
    assert len(edited.plants) == len(predicted.plants) + 1

    rsml = treeformer.read(download(page, "RSML", tmp_path))
    assert rsml.image_name == "seedling.jpg"
    assert len(rsml) == len(edited) == len(predicted) - 1
    assert sorted(map(tuple, rsml.nodes.tolist())) == sorted(map(tuple, edited.nodes.tolist()))
    assert rsml.length == pytest.approx(edited.length)
    assert treeformer.read(download(page, "JSON", tmp_path)).edges.tolist() == edited.edges.tolist()
    header, row = download(page, "Traits", tmp_path).read_text(encoding="utf-8").splitlines()[:2]
    table = dict(zip(header.split(","), row.split(","), strict=True))
    assert table["image"] == "seedling.jpg"
    assert float(table["total_length"]) == pytest.approx(edited.plants[0].length, rel=1e-5)

    # Without the server: the page, the model, the image and the draft are in the browser as soon as it says so.
    wait_ready(page)
    page.wait_for_selector('[data-offline="true"]')
    page.wait_for_selector('[data-save="draft"]')
    site.stop()
    page.reload()
    editor = Editor(page)
    editor.wait(f"c.ready && c.state.graph.size === {len(predicted) - 1}", LIMIT_S)
    wait_ready(page)
    drop(page, "vine.jpg", (examples.FOLDER / "vine.jpg").read_bytes())
    assert len(wait_predicted(page, "vine.jpg").nodes) > 5


def test_the_model_is_stored_even_if_the_service_worker_comes_late(open_page, site):
    """On a busy machine the model is downloaded before the service worker answers for the page."""
    Handler.service_worker.clear()
    page = open_page()
    wait_ready(page)
    assert page.get_attribute("[data-model]", "data-offline") == "false"
    Handler.service_worker.set()
    page.wait_for_selector('[data-offline="true"]')
    site.stop()
    page.reload()
    wait_ready(page)


def test_a_download_has_the_branch_that_is_being_drawn(page, tmp_path):
    drop(page, "seedling.jpg", (examples.FOLDER / "seedling.jpg").read_bytes())
    editor = wait_predicted(page, "seedling.jpg")
    count = len(editor.nodes)
    editor.press("b")
    for x in (150, 250, 350):
        editor.click(x, 480)
    document = json.loads(download(page, "JSON", tmp_path).read_text(encoding="utf-8"))
    assert len(document["nodes"]) == count + 3
    # While an image is loaded, the editor is empty.
    page.evaluate("() => { window.treeformer.controller.ready = false; }")
    page.get_by_role("button", name="JSON", exact=True).click()
    page.get_by_text("seedling.jpg is not loaded; nothing was downloaded.").wait_for()


def test_a_row_of_the_outline_is_no_file(page):
    """The frame around the page shows that a file may be dropped. A drop on a row would leave it there."""
    drop(page, "seedling.jpg", (examples.FOLDER / "seedling.jpg").read_bytes())
    wait_predicted(page, "seedling.jpg")
    page.locator("summary", has_text="Outline").click()
    rows = page.locator("[data-row]")
    rows.nth(1).drag_to(rows.nth(2))
    assert page.locator(".dragging").count() == 0
    page.evaluate("""() => {
      const transfer = new DataTransfer();
      transfer.items.add(new File([], "a.png"));
      window.dispatchEvent(new DragEvent("dragover", { dataTransfer: transfer }));
    }""")
    page.wait_for_selector(".dragging")


def test_a_text_file_is_refused_in_one_sentence(page):
    drop(page, "notes.png", b"these are notes, not pixels", "image/png")
    page.wait_for_selector("text=notes.png: this is not an image in a format that the page can read.")
    drop(page, "broken.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x08\0\0\0\x08\x08\x02\0\0\0abcd", "image/png")
    page.wait_for_selector("text=broken.png: the image is damaged or too large for this browser.")
    huge = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\xff\xff\0\0\xff\xff\x08\x02\0\0\0abcd"
    drop(page, "huge.png", huge, "image/png")
    page.wait_for_selector("text=huge.png: the image has more than 100 megapixels: reduce it first.")


def test_a_browser_without_simd_gets_one_sentence(open_page):
    page = open_page("WebAssembly.validate = () => false")
    alert = page.get_by_role("alert")
    alert.wait_for()
    assert "This browser has no WebAssembly SIMD, which prediction needs." in alert.inner_text()
    drop(page, "seedling.jpg", (examples.FOLDER / "seedling.jpg").read_bytes())
    page.wait_for_selector('[data-image="seedling.jpg"]')  # it can still be drawn by hand


def test_predictions_agree_with_python(page, python, tmp_path):
    """Same weights, pixels decoded and scaled by the browser: EXIF orientation, a JPEG of 20 megapixels, 16 bits."""
    from PIL import Image

    turned = Image.open(examples.FOLDER / "orchard.jpg")
    exif = turned.getexif()
    exif[0x0112] = 6
    turned.save(tmp_path / "turned.jpg", exif=exif, quality=95)
    large = Image.open(examples.FOLDER / "vine.jpg").resize((4472, 4472), Image.Resampling.BICUBIC)
    large.save(tmp_path / "large.jpg", quality=90)
    gray = np.asarray(Image.open(examples.FOLDER / "paper.jpg").convert("L")).astype(np.uint16) * 16
    Image.fromarray(gray).save(tmp_path / "gray16.png")
    scores = {}
    for path in [examples.FOLDER / "taproot.jpg", *sorted(tmp_path.iterdir())]:
        drop(page, path.name, path.read_bytes())
        found = skeleton_of(wait_predicted(page, path.name).document)
        expected = python.predict(path)
        assert found.image_size == expected.image_size
        scores[path.name] = topo(expected, found).f1
    # Pillow reduces a large JPEG while it decodes it, the page averages blocks of its pixels: similar, not equal.
    assert scores.pop("large.jpg") >= 0.8
    assert np.mean(list(scores.values())) >= 0.99, scores
