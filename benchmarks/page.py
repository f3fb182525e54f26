"""Measure the static page in Chromium against native ONNX Runtime with the same file of weights.

make page
PYTHONPATH=src python benchmarks/page.py
PYTHONPATH=src python benchmarks/page.py --runs 3 --threads
PYTHONPATH=src python benchmarks/page.py --sensitivity

Each run drops one of the example images (512×512 px) on the page and takes the seconds that its worker reports: opening
the image, the network, decoding. The native seconds are those of ONNX Runtime with one thread for the same images,
taken in turns with the page, so that both meet the same load of the machine. The first run of each is not counted.
`renderer_mb` is the largest resident memory of a process of the browser (Linux only).
`--threads` reloads the page once, after which the service worker isolates it and the model uses threads.
`--sensitivity` measures no page: it compares native predictions with and without graph optimizations, TOPO F1 per
example image. Both have the same weights and differ in the order of sums only, as the page and native code do.
"""

from __future__ import annotations

import argparse
import base64
import functools
import http.server
import json
import os
import shutil
import statistics
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from treeformer import examples
from treeformer.inference.engine import RawPrediction
from treeformer.inference.predictor import Predictor
from treeformer.metrics import topo

PAGE = Path(__file__).parents[1] / "dist" / "page"
DROP = """([name, data]) => {
  const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
  const transfer = new DataTransfer();
  transfer.items.add(new File([bytes], name, { type: "image/jpeg" }));
  window.dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, cancelable: true }));
}"""
# The longest interval between turns of the page's event loop, ms.
WATCH = """() => {
  window.longest = 0;
  let last = performance.now();
  setInterval(() => {
    const now = performance.now();
    window.longest = Math.max(window.longest, now - last);
    last = now;
  }, 10);
}"""


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serve files and print nothing."""

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


def native_session(*, is_optimized: bool = True) -> Any:
    """Return a session of ONNX Runtime with one thread for the page's weights."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    if not is_optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
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


def sensitivity() -> dict[str, float]:
    """Return TOPO F1 between native predictions with and without graph optimizations, and its mean."""
    predictors = [Predictor(engine=SessionEngine(native_session(is_optimized=flag))) for flag in (True, False)]
    scores = {}
    for source in examples.IMAGES:
        first, second = (predictor.predict(source) for predictor in predictors)
        scores[source.name] = round(topo(first, second).f1, 4)
    return scores | {"mean": round(statistics.mean(scores.values()), 4)}


def main() -> None:
    """Measure and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=6, help="predictions that are counted")
    parser.add_argument("--threads", action="store_true", help="let the page use threads")
    parser.add_argument("--sensitivity", action="store_true", help="compare two native sessions instead")
    arguments = parser.parse_args()
    if not (PAGE / "sw.js").is_file():
        raise SystemExit("dist/page is missing: run make page")
    if arguments.sensitivity:
        print(json.dumps(sensitivity(), indent=2))
        return
    from playwright.sync_api import sync_playwright

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(PAGE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    session = native_session()
    native, page_seconds = [], []
    with sync_playwright() as driver:
        path = os.environ.get("TREEFORMER_CHROMIUM") or shutil.which("chromium")
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = browser.new_page()
        start = time.perf_counter()
        page.goto(f"http://127.0.0.1:{server.server_port}/")
        page.wait_for_selector('[data-model="ready"]', timeout=300_000)
        load = time.perf_counter() - start
        if arguments.threads:
            page.reload()
            page.wait_for_selector('[data-model="ready"]', timeout=300_000)
        page.evaluate(WATCH)
        for run in range(arguments.runs + 1):
            source = examples.IMAGES[run % len(examples.IMAGES)]
            name = f"run-{run}.jpg"
            page.evaluate(DROP, [name, base64.b64encode(source.read_bytes()).decode()])
            page.wait_for_selector(f'[data-image="{name}"] .state.predicted', timeout=300_000)
            page_seconds.append(float(page.get_attribute("[data-model]", "data-seconds")))
            pixels = np.asarray(Image.open(source).convert("RGB"))[None]
            start = time.perf_counter()
            session.run(None, {"images": pixels})
            native.append(time.perf_counter() - start)
        status = page.inner_text(".status")
        longest, memory = page.evaluate("() => window.longest"), renderer_mb()
        browser.close()
    result = {
        "status": status,
        "load_s": round(load, 1),
        "page_s": round(statistics.median(page_seconds[1:]), 2),
        "native_s": round(statistics.median(native[1:]), 2),
        "ratio": round(statistics.median(page_seconds[1:]) / statistics.median(native[1:]), 2),
        "longest_pause_ms": round(longest),
        "renderer_mb": round(memory),
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
