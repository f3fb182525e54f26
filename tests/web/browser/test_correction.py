"""A scripted correction by mouse and by keyboard, saved, loaded again and compared with Python."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw

import treeformer
from treeformer import Skeleton, formats

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def plate(real_data_module, tmp_path_factory) -> Path:
    """A folder with a real plate image."""
    folder = tmp_path_factory.mktemp("plates") / "images"
    folder.mkdir()
    shutil.copy(real_data_module / "plate-01.jpg", folder)
    return folder


@pytest.fixture(scope="module")
def real_data_module() -> Path:
    from tests.conftest import DATA_FOLDER

    path = DATA_FOLDER / "agar-plates"
    if not path.is_dir():
        pytest.skip(f"no real data: {path} is missing (set TREEFORMER_DATA)")
    return path


def isolated(nodes: dict[int, Any], wanted, count: int = 1) -> list[dict[str, Any]]:
    """Return nodes that satisfy a condition and are far from all others, the most isolated first."""
    points = {key: (node["x"], node["y"]) for key, node in nodes.items()}

    def room(node: dict[str, Any]) -> float:
        return min(math.dist(points[node["id"]], other) for key, other in points.items() if key != node["id"])

    found = sorted((node for node in nodes.values() if wanted(node)), key=room, reverse=True)
    assert len(found) >= count
    return found[:count]


def length(document: dict[str, Any]) -> float:
    nodes = np.asarray(document["nodes"])
    return sum(math.dist(nodes[a], nodes[b]) for a, b in document["edges"])


def same_forest(skeleton: Skeleton, document: dict[str, Any]) -> None:
    """Compare what was saved with what the page shows."""
    assert skeleton.is_forest
    np.testing.assert_allclose(skeleton.nodes, np.asarray(document["nodes"]), atol=1e-9)
    assert sorted(map(sorted, skeleton.edges.tolist())) == sorted(map(sorted, document["edges"]))
    assert sorted(skeleton.roots.tolist()) == sorted(document["roots"])


def test_real_plate_by_mouse_and_keyboard(plate, start_server, open_editor):
    results = plate.parent / "results"
    server = start_server(plate, results)
    editor = open_editor(server.address)
    page = editor.page

    page.get_by_role("button", name="Predict 1 missing").click()
    editor.wait("c.state.graph.size > 20", timeout_s=600)
    assert editor.save_state == "saved"
    predicted = treeformer.read(results / "plate-01.json")
    same_forest(predicted, editor.document)
    before = editor.nodes

    # By mouse: move a tip, insert on its edge, cut the edge.
    (tip,) = isolated(before, lambda n: not n["children"] and n["parent"] is not None)
    parent = before[tip["parent"]]
    editor.zoom_to(tip["x"], tip["y"], 6)
    editor.drag((tip["x"], tip["y"]), (tip["x"] + 5, tip["y"] + 4))
    moved = editor.nodes[tip["id"]]
    assert (moved["x"], moved["y"]) == pytest.approx((tip["x"] + 5, tip["y"] + 4), abs=0.5)
    assert moved["source"]["node"] == "edited"
    middle = ((moved["x"] + parent["x"]) / 2, (moved["y"] + parent["y"]) / 2)
    editor.zoom_to(*middle, 6)
    editor.double_click(*middle)
    assert len(editor.nodes) == len(before) + 1
    inserted = max(editor.nodes)
    assert editor.nodes[tip["id"]]["parent"] == inserted
    assert editor.nodes[inserted]["parent"] == parent["id"]
    quarter = ((3 * moved["x"] + middle[0]) / 4, (3 * moved["y"] + middle[1]) / 4)
    editor.click(*quarter, "Control")
    assert editor.nodes[tip["id"]]["parent"] is None, "the edge is cut"

    # By keyboard: undo and redo the cut, connect the cut node again, draw a branch from it, delete it.
    editor.press("Control+z")
    assert editor.nodes[tip["id"]]["parent"] == inserted
    editor.press("Control+Shift+z")
    assert editor.nodes[tip["id"]]["parent"] is None
    editor.click(moved["x"], moved["y"])
    editor.press("c")
    assert editor.js("c.state.mode") == "connect"
    editor.click(*middle)
    assert editor.nodes[tip["id"]]["parent"] == inserted or editor.nodes[inserted]["parent"] == tip["id"]

    size = len(editor.nodes)
    editor.click(moved["x"], moved["y"])
    editor.press("b")
    editor.zoom_to(moved["x"], moved["y"], 6)
    for k in range(1, 4):
        editor.click(moved["x"] + 8 * k, moved["y"] + 12 * k)
    editor.press("Enter")
    assert len(editor.nodes) == size + 3
    assert editor.nodes[max(editor.nodes)]["source"]["node"] == "drawn"
    editor.press("Delete")
    assert len(editor.nodes) == size + 2, "the last node is gone"
    editor.press("[", "]", "n")
    assert editor.js("c.state.selection.size") == 1

    # The review queue: walk, accept one place, cut at another.
    waiting = editor.js("c.state.review.length")
    editor.press("f", "Space")
    first = editor.js("c.state.reviewItem.key")
    editor.press("Enter")
    assert editor.js(f"c.state.review.every((item) => item.key !== {first!r})")
    assert editor.js("c.state.review.length") < waiting

    editor.save()
    shown = editor.document
    saved = treeformer.read(results / "plate-01.json")
    same_forest(saved, shown)
    record = saved.metadata["editor"]
    assert record["actions"] >= 7
    assert record["seconds"] > 0
    assert record["accepted"] is False
    assert len(record["node_source"]) == len(saved.nodes)
    assert len(record["edge_source"]) == len(saved.edges)
    assert {"predicted", "accepted", "edited", "drawn"} <= set(record["node_source"] + record["edge_source"])
    assert record["model"]["name"] == "default"

    # RSML has the same axes; a second load shows the same document.
    rsml = formats.read(results / "plate-01.rsml")
    assert rsml.is_forest
    assert float(treeformer.measure(rsml)["total_length"].sum()) == pytest.approx(length(shown), rel=0.01)
    page.reload()
    editor.wait_ready()
    again = editor.document
    assert again["nodes"] == shown["nodes"]
    assert again["edges"] == shown["edges"]
    assert again["axes"] == shown["axes"]
    assert (results / "plate-01.orig.json").is_file(), "the prediction is kept"

    # By keyboard alone, without a pointer over the canvas: move a node, draw a branch from it, cut, undo, redo, save.
    editor.press("Escape", "n")
    (chosen,) = editor.js("[...c.state.selection]")
    place, size = editor.nodes[chosen], len(editor.nodes)
    editor.press("Shift+f", "Alt+ArrowRight", "Alt+ArrowRight")
    assert editor.nodes[chosen]["x"] == pytest.approx(place["x"] + 2)
    editor.press("b", "Alt+Shift+ArrowRight", "Space", "Alt+Shift+ArrowRight", "Space", "Enter")
    assert len(editor.nodes) == size + 2
    drawn = sorted(editor.nodes)[-2:]
    assert [editor.nodes[key]["parent"] for key in drawn] == [chosen, drawn[0]]
    editor.press("[")
    assert editor.js("[...c.state.selection]") == [drawn[0]]
    editor.press("x")
    assert editor.nodes[drawn[0]]["parent"] is None
    editor.press("Control+z")
    assert editor.nodes[drawn[0]]["parent"] == chosen
    editor.press("Control+Shift+z")
    assert editor.nodes[drawn[0]]["parent"] is None
    editor.save()
    same_forest(treeformer.read(results / "plate-01.json"), editor.document)


@pytest.fixture(scope="module")
def drawing(tmp_path_factory) -> Path:
    """A folder with two drawings of a curved line, without results."""
    folder = tmp_path_factory.mktemp("drawn") / "images"
    folder.mkdir()
    for name in ("curve.png", "other.png"):
        image = Image.new("L", (400, 300), 230)
        points = [(x, 150 + 60 * math.sin(x / 50)) for x in range(40, 361, 4)]
        ImageDraw.Draw(image).line(points, fill=30, width=5)
        image.save(folder / name)
    return folder


def test_trace_follows_the_image_and_scale_gives_millimeters(drawing, start_server, open_editor):
    results = drawing.parent / "results"
    editor = open_editor(start_server(drawing, results).address)
    editor.open("curve.png")
    y = [150 + 60 * math.sin(x / 50) for x in (60, 340)]
    editor.press("t")
    editor.click(60, y[0])
    editor.page.mouse.move(*editor.at(340, y[1]))
    editor.wait("c.state.preview.line.length > 4")  # the path is shown before the click
    assert not editor.nodes
    editor.click(340, y[1])
    editor.wait("c.state.preview.line.length > 4 && !c.state.preview.busy")
    editor.press("Enter")
    nodes = np.array([(node["x"], node["y"]) for node in editor.nodes.values()])
    assert len(nodes) > 5
    off = np.abs(nodes[:, 1] - (150 + 60 * np.sin(nodes[:, 0] / 50)))
    assert off.max() < 1.5, "the path stays on the line, not on the straight way"
    assert {node["source"]["node"] for node in editor.nodes.values()} == {"traced"}

    # 100 px are 25 mm.
    editor.press("s")
    editor.drag((100, 280), (200, 280))
    editor.page.get_by_label("Length").fill("25")
    editor.press("Enter")
    editor.wait("c.state.graph.pxPerMm !== null")
    assert editor.js("c.state.graph.pxPerMm") == pytest.approx(4, rel=0.01)
    shown = editor.js("c.imageMeasures")
    total = next(row for row in shown if "length" in row["label"].lower())
    assert total["unit"] == "mm"
    assert total["value"] == pytest.approx(length(editor.document) / 4, rel=0.02)

    editor.save()
    skeleton = treeformer.read(results / "curve.json")
    assert skeleton.metadata["editor"]["px_per_mm"] == pytest.approx(4, rel=0.01)
    assert float(treeformer.measure(skeleton)["total_length"].sum()) == pytest.approx(total["value"], rel=0.01)

    editor.page.get_by_role("button", name="All traits per plant").click()
    editor.wait("c.table.current !== null")
    assert any(row["label"] == "total length" and row["unit"] == "mm" for row in editor.js("c.table.current.rows"))
    export = editor.page.get_by_role("link", name="Export table")
    assert "px_per_mm" not in export.get_attribute("href"), "other images have other scales"
    with editor.page.expect_download() as download:
        export.click()
    table = Path(download.value.path()).read_text()
    assert "curve.png" in table
    assert "total_length" in table


def test_draw_a_tree_from_nothing_and_accept_it(drawing, start_server, open_editor):
    """Annotation without a prediction, by keys and clicks; accepting opens the next image."""
    results = drawing.parent / "own"
    editor = open_editor(start_server(drawing, results).address)
    editor.open("other.png")
    editor.press("b")
    for point in ((50, 50), (100, 50), (150, 60), (200, 80)):
        editor.click(*point)
    editor.press("Enter")
    editor.click(100, 50)
    editor.press("b")
    editor.click(120, 120)
    editor.double_click(140, 200)
    nodes = editor.nodes
    assert len(nodes) == 6
    assert sum(node["parent"] is None for node in nodes.values()) == 1
    assert len({node["axis"] for node in nodes.values() if node["parent"] is not None}) == 2
    editor.click(200, 80)
    editor.press("r")
    root = next(node for node in editor.nodes.values() if node["parent"] is None)
    assert (root["x"], root["y"]) == pytest.approx((200, 80), abs=1)
    # Select all by lasso, move everything, delete a subtree.
    editor.press("l")
    editor.drag((380, 20), (380, 280), (20, 280), (20, 20))  # the toolbar is above the corner at the left
    assert editor.js("c.state.selection.size") == 6
    editor.press("Alt+ArrowRight")
    assert editor.nodes[root["id"]]["x"] == pytest.approx(root["x"] + 1)
    editor.press("Escape")
    editor.click(121, 120)
    editor.press("Shift+Delete")
    assert len(editor.nodes) == 4
    editor.press("Control+Enter")
    editor.page.wait_for_function("() => window.treeformer.controller?.image === 'curve.png'")
    document = json.loads((results / "other.json").read_text())
    assert document["metadata"]["editor"]["accepted"] is True
    editor.page.locator('[data-image="other.png"]').get_by_text("accepted").wait_for()  # after the next update
    assert len(treeformer.read(results / "other.rsml").nodes) == 4
