"""Measure the static page in Chromium against native ONNX Runtime with the same file of weights.

make page
PYTHONPATH=src python -m benchmarks.page
PYTHONPATH=src python -m benchmarks.page --runs 3 --threads
PYTHONPATH=src python -m benchmarks.page --agreement 40

Each run drops one of the example images (512×512 px) on the page and takes the seconds that its worker reports:
`page_s` for opening the image, the network and decoding, `page_network_s` for the network alone. The native seconds are
those of ONNX Runtime with one thread for the same images, taken in turns with the page, so that both meet the same load
of the machine. The first run of each is not counted. `network_ratio` compares network with network.
On a busy machine the seconds say little. `page_cpu_s` is the CPU time of all processes of the browser meanwhile (Linux
only), `native_cpu_s` that of ONNX Runtime, `cpu_ratio` their ratio.
`renderer_mb` is the largest resident memory of a process of the browser (Linux only).
`--threads` reloads the page once, after which the service worker isolates it and the model uses threads.
`longest_pause_ms` is the longest time between two turns of the page's event loop, `longest_task_ms` the longest task
that the browser reports for its main thread.
`--agreement` measures no times. It drops the example images and synthetic ones, half of them as PNG and half as JPEG,
and compares the page's trees with those of Python by the corrected TOPO F1: `same_weights` with the page's file of
weights in native ONNX Runtime, `model_folder` with the model folder, whose matrices have more digits.
"""

from __future__ import annotations

import argparse
import base64
import functools
import http.server
import io
import json
import os
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.editor import browser_cpu_s
from PIL import Image

from treeformer import examples
from treeformer.formats import native_json
from treeformer.hub.model_folder import open_model
from treeformer.inference.engine import RawPrediction
from treeformer.inference.onnx_engine import OnnxEngine
from treeformer.inference.predictor import Predictor
from treeformer.metrics import topo
from treeformer.synthetic import make_image

PAGE = Path(__file__).parents[1] / "dist" / "page"
DROP = """([name, data]) => {
  const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
  const transfer = new DataTransfer();
  transfer.items.add(new File([bytes], name, { type: name.endsWith("png") ? "image/png" : "image/jpeg" }));
  window.dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, cancelable: true }));
}"""
# The longest interval between turns of the page's event loop, and its longest task, ms.
WATCH = """() => {
  window.longest = 0;
  window.longestTask = 0;
  let last = performance.now();
  setInterval(() => {
    const now = performance.now();
    window.longest = Math.max(window.longest, now - last);
    last = now;
  }, 10);
  new PerformanceObserver((list) => {
    for (const task of list.getEntries()) window.longestTask = Math.max(window.longestTask, task.duration);
  }).observe({ type: "longtask" });
}"""
DOCUMENT = "() => JSON.parse(JSON.stringify(window.treeformer.controller.document(false)))"
OPEN = """(name) => {
  const c = window.treeformer?.controller;
  return c && c.image === name && c.ready && c.state.graph.size > 0;
}"""
SEED = 700_000


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serve files and print nothing."""

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


def native_session() -> Any:
    """Return a session of ONNX Runtime with one thread for the page's weights."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    (weights,) = (PAGE / "model").glob("*.onnx")
    return onnxruntime.InferenceSession(str(weights), options, providers=["CPUExecutionProvider"])


def renderer_mb() -> float:
    """Return the largest resident memory of the processes below this one, MB."""
    parents, memory = {}, {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            lines = (entry / "status").read_text().splitlines()
        except OSError:
            continue
        fields = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
        parents[int(entry.name)] = int(fields["PPid"])
        memory[int(entry.name)] = int(fields.get("VmHWM", "0 kB").split()[0]) / 1e3

    def is_below(process: int) -> bool:
        while process in parents and process != os.getpid():
            process = parents[process]
        return process == os.getpid()

    return max((memory[process] for process in parents if process != os.getpid() and is_below(process)), default=0.0)


class SessionEngine:
    """An engine that runs a session; see `treeformer.inference.engine.Engine`."""

    name, device, preferred_batch, input_size = "onnx", "cpu", 1, 512

    def __init__(self, session: Any) -> None:
        self.session = session

    def __call__(self, images: Any) -> RawPrediction:
        """Predict images, (B,S,S,3) RGB."""
        names = [output.name for output in self.session.get_outputs() if output.name in RawPrediction._fields]
        return RawPrediction(**dict(zip(names, self.session.run(names, {"images": images}), strict=True)))


def agreement_images(count: int) -> Iterator[tuple[str, bytes]]:
    """Yield names and files: the example images, then synthetic ones as PNG and JPEG in turns."""
    for source in examples.IMAGES[:count]:
        yield source.name, source.read_bytes()
    presets = ("taproot", "seedling", "vine", "orchard", "several")
    for index in range(count - len(examples.IMAGES)):
        style = ("photo", "paper")[index // 2 % 2]
        size = ((512, 512), (640, 480), (900, 700))[index % 3]
        pixels, _ = make_image(presets[index % 5], style, SEED + index, size)
        kind = ("png", "jpeg")[index % 2]
        buffer = io.BytesIO()
        Image.fromarray(pixels).save(buffer, kind, **({"quality": 90} if kind == "jpeg" else {}))
        yield f"{presets[index % 5]}-{index}.{kind}", buffer.getvalue()


def agreement(page: Any, images: Iterable[tuple[str, bytes]]) -> dict[str, dict[str, float]]:
    """Return the TOPO F1 of the page's trees with Python's, per image."""
    (settings,) = (PAGE / "model").glob("*.json")
    folder = open_model(json.loads(settings.read_text(encoding="utf-8"))["name"])
    predictors = {
        "same_weights": Predictor(folder, engine=SessionEngine(native_session())),
        "model_folder": Predictor(folder, engine=OnnxEngine(folder, threads=1, precision="int8")),
    }
    rows: dict[str, dict[str, float]] = {}
    for name, data in images:
        page.evaluate(DROP, [name, base64.b64encode(data).decode()])
        page.wait_for_selector(f'[data-image="{name}"] .state.predicted', timeout=600_000)
        page.wait_for_function(OPEN, arg=name)
        tree = next(native_json.skeletons(page.evaluate(DOCUMENT)))
        with tempfile.TemporaryDirectory() as temporary:
            path = Path(temporary) / name
            path.write_bytes(data)
            trees = {key: predictor.predict(path) for key, predictor in predictors.items()}
        rows[name] = {key: round(topo(expected, tree).f1, 4) for key, expected in trees.items()}
        print(name, rows[name], file=sys.stderr, flush=True)
    return rows


def summary(rows: dict[str, dict[str, float]]) -> dict[str, Any]:
    """Return the means of `agreement` over all images and per file format."""
    keys = ("same_weights", "model_folder")
    chosen = {"all": rows, "png": [name for name in rows if name.endswith("png")]}
    chosen["jpeg"] = [name for name in rows if name not in chosen["png"]]
    return {
        kind: {key: round(statistics.mean(rows[name][key] for name in names), 4) for key in keys}
        | {"images": len(names), "at_least_0.99": sum(rows[name]["same_weights"] >= 0.99 for name in names)}
        for kind, names in chosen.items()
        if names
    }


def main() -> None:
    """Measure and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=6, help="predictions that are counted")
    parser.add_argument("--threads", action="store_true", help="let the page use threads")
    parser.add_argument("--agreement", type=int, metavar="N", help="compare trees of N images instead of times")
    arguments = parser.parse_args()
    if not (PAGE / "sw.js").is_file():
        raise SystemExit("dist/page is missing: run make page")
    from playwright.sync_api import sync_playwright

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(PAGE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    session = native_session()
    native, page_seconds, network_seconds = [], [], []
    native_cpu: list[float] = []
    page_cpu: list[float] = []
    with sync_playwright() as driver:
        path = os.environ.get("TREEFORMER_CHROMIUM") or shutil.which("chromium")
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = browser.new_page()
        start = time.perf_counter()
        page.goto(f"http://127.0.0.1:{server.server_port}/")
        page.wait_for_selector('[data-model="ready"]', timeout=300_000)
        load = time.perf_counter() - start
        if arguments.agreement:
            print(json.dumps(summary(agreement(page, agreement_images(arguments.agreement))), indent=2))
            browser.close()
            return
        if arguments.threads:
            page.reload()
            page.wait_for_selector('[data-model="ready"]', timeout=300_000)
        page.evaluate(WATCH)
        for run in range(arguments.runs + 1):
            source = examples.IMAGES[run % len(examples.IMAGES)]
            name = f"run-{run}.jpg"
            cpu_s = browser_cpu_s()
            page.evaluate(DROP, [name, base64.b64encode(source.read_bytes()).decode()])
            page.wait_for_selector(f'[data-image="{name}"] .state.predicted', timeout=300_000)
            if cpu_s is not None:
                page_cpu.append((browser_cpu_s() or 0.0) - cpu_s)
            page_seconds.append(float(page.get_attribute("[data-model]", "data-seconds")))
            network_seconds.append(float(page.get_attribute("[data-model]", "data-network-seconds")))
            pixels = np.asarray(Image.open(source).convert("RGB"))[None]
            start, cpu = time.perf_counter(), time.process_time()
            session.run(None, {"images": pixels})
            native.append(time.perf_counter() - start)
            native_cpu.append(time.process_time() - cpu)
        status = page.inner_text(".status")
        longest, task = page.evaluate("() => [window.longest, window.longestTask]")
        memory = renderer_mb()
        browser.close()
    result = {
        "status": status,
        "load_s": round(load, 1),
        "page_s": round(statistics.median(page_seconds[1:]), 2),
        "page_network_s": round(statistics.median(network_seconds[1:]), 2),
        "native_s": round(statistics.median(native[1:]), 2),
        "ratio": round(statistics.median(page_seconds[1:]) / statistics.median(native[1:]), 2),
        "network_ratio": round(statistics.median(network_seconds[1:]) / statistics.median(native[1:]), 2),
        "longest_pause_ms": round(longest),
        "longest_task_ms": round(task),
        "renderer_mb": round(memory),
    }
    if page_cpu:
        page_s, native_s = statistics.median(page_cpu[1:]), statistics.median(native_cpu[1:])
        result |= {
            "page_cpu_s": round(page_s, 2),
            "native_cpu_s": round(native_s, 2),
            "cpu_ratio": round(page_s / native_s, 2),
        }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
