"""Measure the page of the editor in Chromium: first view of a large image, frame times while panning many nodes.

PYTHONPATH=src python benchmarks/editor.py                        # 10,000 px, 2,000 nodes
PYTHONPATH=src python benchmarks/editor.py --side 4000 --nodes 500 --runs 1

A JPEG of --side × --side px and a forest of --nodes nodes are written to a temporary folder. Each run starts the server
anew, so that nothing is cached, and measures from the request of the page until all visible tiles are sharp and the
skeleton is shown. `split_s` says what that time was spent on, see `split`. The frame times are the intervals between
animation frames while the pointer drags the image, and the time that drawing takes in each of them:

- `pan_whole`: the whole image and all nodes are in view.
- `pan_full_size`: one px of the image is one px of the screen, where nodes are densest.
- `pan_dense`: the same with another forest, whose nodes are all in view.

`nodes_in_view` is their number before the drag. On a busy machine the intervals say little; `cpu_per_frame_ms`, the CPU
time of all processes of the browser (Linux only), still does.
`empty_page` moves one small element of an otherwise empty page: what the browser itself needs on this machine.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import treeformer
from treeformer import Skeleton

CONTROLLER = "window.treeformer.controller"
FRAMES = f"{CONTROLLER}.stage.frames"
# A mouse reports its place 125 times per second.
POINTER_S = 0.008
# Side of the part of the screen that holds all nodes in `pan_dense`.
DENSE_PX = 600
READY = "() => { const c = window.treeformer?.controller; return !!c && c.ready && c.stage.complete; }"


def write_image(path: Path, side: int) -> None:
    """Write a JPEG with structure at all scales, so that decoding costs what a photograph costs."""
    rng = np.random.default_rng(0)
    coarse = Image.fromarray(rng.integers(60, 200, (side // 50 + 1, side // 50 + 1), dtype=np.uint8))
    gray = np.asarray(coarse.resize((side, side), Image.Resampling.BICUBIC)).astype(np.int16)
    gray += rng.integers(-12, 13, gray.shape, dtype=np.int16)
    Image.fromarray(np.clip(gray, 0, 255).astype(np.uint8)).convert("RGB").save(path, quality=90)


def forest(side: int, count: int, part: float = 1.0) -> Skeleton:
    """Return plants side by side, each a random tree of up to 100 nodes, in the central part of an image."""
    rng = np.random.default_rng(1)
    plants = max(1, count // 100)
    nodes, edges, roots = [], [], []
    for plant in range(plants):
        first, here = len(nodes), count * (plant + 1) // plants - count * plant // plants
        roots.append(first)
        nodes.append((side * (plant + 0.5) / plants, 0.05 * side))
        for k in range(1, here):
            parent = first + (k - 1 if rng.random() < 0.8 else int(rng.integers(k)))
            dx, dy = rng.normal(0, 0.008 * side), abs(rng.normal(0.01 * side, 0.004 * side))
            x, y = nodes[parent]
            nodes.append((float(np.clip(x + dx, 0, side)), float(np.clip(y + dy, 0, side))))
            edges.append((parent, first + k))
    rng = np.random.default_rng(2)
    return Skeleton(
        side / 2 + part * (np.array(nodes) - side / 2),
        edges,
        root=roots,
        image_size=(side, side),
        edge_score=rng.random(len(edges)),
        node_score=rng.random(len(nodes)),
    )


def start_server(folder: Path, *options: str) -> tuple[subprocess.Popen[str], str]:
    """Serve a folder; return the process and the address."""
    command = [sys.executable, "-m", "treeformer", "edit", str(folder), *options, "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    match = re.search(r"http://\S+", process.stdout.readline())
    assert match is not None
    return process, match.group()


def browser_cpu_s() -> float | None:
    """Return the CPU time of all processes of the browser so far, None if the system does not tell."""
    ticks, parents, own = {}, {}, os.getpid()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, fields = stat.read_text().rpartition(")")[::2]
        except OSError:
            continue
        values = fields.split()
        pid = int(stat.parent.name)
        parents[pid] = int(values[1])
        if "chrom" in name:
            ticks[pid] = int(values[11]) + int(values[12])

    def is_ours(pid: int) -> bool:
        while pid > 1:
            if pid == own:
                return True
            pid = parents.get(pid, 0)
        return False

    ours = [ticks[pid] for pid in ticks if is_ours(pid)]
    return sum(ours) / os.sysconf("SC_CLK_TCK") if ours else None


def process_cpu_s(pid: int) -> float:
    """Return the CPU time of a process so far, 0 if the system does not tell."""
    try:
        values = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(values[11]) + int(values[12])) / os.sysconf("SC_CLK_TCK")


def empty_page(browser: Any, seconds: float) -> dict[str, float | None]:
    """Return first view and frame times of a page that does nothing: the least that this machine needs."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    begin = time.perf_counter()
    page.goto("data:text/html,<p style='position:absolute'>empty</p>")
    first_s = time.perf_counter() - begin
    page.evaluate(
        """() => {
            window.times = [];
            const p = document.querySelector('p');
            const frame = (time) => {
                p.style.left = `${times.push(time) % 200}px`;
                requestAnimationFrame(frame);
            };
            requestAnimationFrame(frame);
        }"""
    )
    cpu_s = browser_cpu_s()
    time.sleep(seconds)
    spent_s = browser_cpu_s()
    intervals = np.diff(page.evaluate("() => times"))
    page.close()
    return {
        "first_view_s": first_s,
        "interval_p50_ms": float(np.percentile(intervals, 50)),
        "interval_p95_ms": float(np.percentile(intervals, 95)),
        "below_25_ms": float((intervals < 25).mean()),
        "cpu_per_frame_ms": None if cpu_s is None or spent_s is None else 1000 * (spent_s - cpu_s) / len(intervals),
    }


def split(page: Any) -> dict[str, float]:
    """Return what the first view of the open page was spent on, s.

    `page`: until its scripts run and send the first request. `lists`: until the image is asked for. `decoding`: until
    the server has the first tile. `tiles`: until all tiles are there, drawn or not.
    """
    entry = "(e) => [e.name, e.startTime, e.responseStart, e.responseEnd]"
    rows = page.evaluate(f"() => performance.getEntriesByType('resource').map({entry})")

    def of(part: str) -> list[list[float]]:
        return [row[1:] for row in rows if part in row[0]]

    first = min(row[0] for row in of("/api/"))
    asked = min(row[0] for row in of("/api/pyramid"))
    tile = min(row[1] for row in of("/api/tile"))
    last = max(row[2] for row in of("/api/tile"))
    parts = {"page": first, "lists": asked - first, "decoding": tile - asked, "tiles": last - tile}
    return {name: ms / 1000 for name, ms in parts.items()}


def zoom_to_nodes(page: Any) -> None:
    """Show the image at full size where most nodes are."""
    page.evaluate(
        f"""() => {{
            const c = {CONTROLLER};
            const nodes = c.state.graph.nodes.values();
            const view = (at) => c.view.centeredOn(at, 1 / devicePixelRatio);
            const count = (at) => nodes.filter((node) => view(at).contains(node)).length;
            let [best, most] = [nodes[0], -1];
            for (let k = 0; k < nodes.length; k += Math.ceil(nodes.length / 200)) {{
                const found = count(nodes[k]);
                if (found > most) [best, most] = [nodes[k], found];
            }}
            c.stage.setView(view(best));
        }}"""
    )
    page.wait_for_function(READY, timeout=60_000)


def nodes_in_view(page: Any) -> int:
    """Return the number of nodes in view."""
    return int(
        page.evaluate(
            f"() => {CONTROLLER}.state.graph.nodes.values().filter((n) => {CONTROLLER}.view.contains(n)).length"
        )
    )


def pan(page: Any, seconds: float) -> dict[str, float | None]:
    """Drag the image back and forth; return statistics of the frames, ms."""
    visible = nodes_in_view(page)
    box = page.locator("canvas.drawing").bounding_box()
    x, y = box["x"] + 0.5 * box["width"], box["y"] + 0.5 * box["height"]
    page.evaluate(f"() => {{ {FRAMES}.intervals.length = {FRAMES}.costs.length = 0; }}")
    page.mouse.move(x, y)
    page.mouse.down(button="middle")
    end = time.perf_counter() + seconds
    cpu_s = browser_cpu_s()
    step = 0
    while (now := time.perf_counter()) < end:
        step += 1
        due = end - seconds + step * POINTER_S
        if due > now:
            time.sleep(due - now)
        page.mouse.move(x + 200 * np.sin(step / 15), y + 120 * np.sin(step / 23))
    spent_s = browser_cpu_s()
    page.mouse.up(button="middle")
    frames = page.evaluate(f"() => [{FRAMES}.intervals, {FRAMES}.costs]")
    intervals, costs = (np.array(one) for one in frames)
    return {
        "nodes_in_view": visible,
        "frames": len(intervals),
        "interval_p50_ms": float(np.percentile(intervals, 50)),
        "interval_p95_ms": float(np.percentile(intervals, 95)),
        "below_25_ms": float((intervals < 25).mean()),
        "cpu_per_frame_ms": None if cpu_s is None or spent_s is None else 1000 * (spent_s - cpu_s) / len(costs),
        "drawing_p50_ms": float(np.percentile(costs, 50)),
        "drawing_p95_ms": float(np.percentile(costs, 95)),
    }


def main() -> None:
    """Run the benchmark and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--side", type=int, default=10_000, help="side of the image, px")
    parser.add_argument("--nodes", type=int, default=2_000, help="number of nodes")
    parser.add_argument("--runs", type=int, default=5, help="number of first views")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long to pan")
    parser.add_argument("--chromium", default=os.environ.get("TREEFORMER_CHROMIUM") or shutil.which("chromium"))
    parser.add_argument("--screenshot", type=Path, help="write the last view to this PNG")
    options = parser.parse_args()
    if not options.chromium:
        sys.exit("no Chromium: install it, or name it with --chromium")
    from playwright.sync_api import sync_playwright

    report: dict[str, Any] = {"side_px": options.side, "nodes": options.nodes, "load": os.getloadavg()[0]}
    with tempfile.TemporaryDirectory() as name, sync_playwright() as driver:
        folder = Path(name)
        write_image(folder / "large.jpg", options.side)
        treeformer.write(forest(options.side, options.nodes), folder / "large.json")
        report["jpeg_mb"] = round((folder / "large.jpg").stat().st_size / 1e6, 1)
        browser = driver.chromium.launch(executable_path=options.chromium, args=["--no-sandbox"])
        report["empty_page"] = empty_page(browser, options.seconds)
        times, splits, server_cpu, browser_cpu = [], [], [], []
        for run in range(options.runs):
            shutil.rmtree(folder / ".treeformer", ignore_errors=True)  # thumbnails of the run before
            process, address = start_server(folder)
            try:
                page = browser.new_page(viewport={"width": 1280, "height": 800})
                cpu_s = browser_cpu_s(), process_cpu_s(process.pid)
                begin = time.perf_counter()
                page.goto(address)
                page.wait_for_function(READY, timeout=60_000, polling="raf")
                times.append(time.perf_counter() - begin)
                if cpu_s[0] is not None:
                    browser_cpu.append((browser_cpu_s() or 0.0) - cpu_s[0])
                    server_cpu.append(process_cpu_s(process.pid) - cpu_s[1])
                splits.append(split(page))
                if run == options.runs - 1:
                    report["pan_whole"] = pan(page, options.seconds)
                    zoom_to_nodes(page)
                    report["pan_full_size"] = pan(page, options.seconds)
                    treeformer.write(
                        forest(options.side, options.nodes, DENSE_PX / options.side), folder / "large.json"
                    )
                    page.reload()
                    page.wait_for_function(READY, timeout=60_000)
                    zoom_to_nodes(page)
                    report["pan_dense"] = pan(page, options.seconds)
                    if options.screenshot:
                        page.screenshot(path=options.screenshot)
                page.close()
            finally:
                process.kill()
                process.wait()
        report["first_view_s"] = {"median": statistics.median(times), "all": [round(one, 2) for one in times]}
        report["split_s"] = {part: statistics.median(one[part] for one in splits) for part in splits[0]}
        if browser_cpu:
            report["first_view_cpu_s"] = {
                "browser": statistics.median(browser_cpu),
                "server": statistics.median(server_cpu),
            }
        browser.close()
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
