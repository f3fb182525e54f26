"""Correct five real images through the page of the editor, and score the skeletons before and after.

PYTHONPATH=src python -m benchmarks.editor_correction             # images of TREEFORMER_DATA, or else ../shared/data
PYTHONPATH=src python -m benchmarks.editor_correction --images 450 --results out/

The images are predicted with the default model. The corrections below were chosen by comparing the prediction of
version 7 with the annotation: roots that are missing, end too early or join the wrong root, and tips that leave the
annotated roots. They are carried out in Chromium by mouse and keyboard, with a pause of --pause seconds before each;
`seconds` is what the editor counts as work, and depends on that pause. Places are px of the image.

| action | what the person does |
| --- | --- |
| bend | double click on an edge, drag the new node to its place |
| move | drag a node |
| delete | click a node, press Delete |
| trace, draw | press T or B, click along the root, press Enter |
| reroute | click a node, press X, press B, click where it belongs, along the root, and on the node again |
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.editor import READY, start_server

import treeformer
from treeformer.inference.predictor import Predictor
from treeformer.metrics import topo, topo_paper

CONTROLLER = "window.treeformer.controller"
SCALE = 1.5  # CSS px per image px while a place is corrected, less if it would not fit
SHOWN_PX = 600
STEPS = {"bend": 2, "reroute": 2}
SETS = {
    "C_osr_0129": "osr-roots",
    "C_osr_0134": "osr-roots",
    "450": "barley-roots",
    "454R": "barley-roots",
    "457": "barley-roots",
}
Place = tuple[float, float]
CORRECTIONS: dict[str, list[tuple[str, list[Place]]]] = {
    "C_osr_0129": [
        ("delete", [(941.0, 133.0)]),
        ("delete", [(895.1, 188.7)]),
    ],
    "C_osr_0134": [
        ("trace", [(1046.3, 2390.8), (984.0, 2385.0)]),
        ("trace", [(1116.4, 529.4), (1170.0, 541.0)]),
        ("trace", [(993.2, 740.8), (1052.0, 750.0)]),
        ("delete", [(997.7, 154.1)]),
        ("delete", [(966.2, 1145.3)]),
        ("delete", [(1009.9, 1186.8)]),
    ],
    "450": [
        ("reroute", [(315.6, 314.8), (339.2, 337.8)]),
        ("draw", [(274.1, 472.8), (259.0, 525.0), (248.0, 558.0)]),
        ("bend", [(745.6, 405.5), (774.0, 391.0)]),
        ("bend", [(1012.5, 396.5), (1001.0, 390.0)]),
        ("move", [(795.5, 273.5), (783.0, 289.0)]),
    ],
    "454R": [
        ("delete", [(439.6, 878.9)]),
        ("delete", [(386.7, 608.4)]),
        ("delete", [(343.6, 744.2)]),
        ("delete", [(360.6, 608.2)]),
        ("delete", [(1150.9, 503.9)]),
        ("delete", [(549.9, 1284.2)]),
        ("delete", [(1057.4, 472.8)]),
        ("reroute", [(546.0, 1148.6), (608.9, 1238.0)]),
        ("draw", [(472.6, 427.8), (425.0, 450.0), (385.0, 499.0)]),
        ("draw", [(709.7, 372.6), (712.0, 490.0), (722.0, 670.0), (744.0, 916.0), (780.0, 1092.0), (803.0, 1167.0)]),
        ("delete", [(741.2, 880.1)]),
    ],
    "457": [
        ("reroute", [(726.8, 356.5), (730.0, 387.0), (700.0, 406.0), (658.0, 444.0), (626.8, 465.5)]),
        ("reroute", [(355.8, 357.8), (368.0, 438.0), (385.0, 557.0), (385.0, 664.0), (378.0, 801.0), (359.0, 864.0)]),
        ("reroute", [(355.8, 357.8), (362.0, 401.0), (387.0, 454.0), (410.0, 543.0), (423.0, 599.0)]),
        ("draw", [(858.4, 611.5), (905.0, 665.0), (955.0, 739.0)]),
        ("draw", [(1112.6, 351.7), (1144.0, 383.0), (1184.0, 459.0), (1227.0, 558.0), (1255.0, 634.0)]),
        ("delete", [(332.1, 375.6)]),
        ("delete", [(681.0, 465.0)]),
        ("move", [(1268.8, 703.3), (1260.0, 673.0)]),
    ],
}


class Person:
    """Corrects the open image with mouse and keyboard.

    Args:
        page: the page of the editor.
        pause_s: how long the person looks before each correction.
    """

    def __init__(self, page: Any, pause_s: float) -> None:
        self.page, self.pause_s = page, pause_s

    def open(self, image: str) -> None:
        """Open an image of the list."""
        self.page.click(f'[data-image="{image}"]')
        self.page.wait_for_function(f"() => {CONTROLLER}?.image === {json.dumps(image)} && {CONTROLLER}.ready")

    def correct(self, action: str, places: list[Place]) -> None:
        """Carry out one correction. Raise if the page did not take it as one step of the history."""
        time.sleep(self.pause_s)
        x, y = (sum(values) / len(values) for values in zip(*places, strict=True))
        extent = max(max(values) - min(values) for values in zip(*places, strict=True))
        scale = min(SCALE, SHOWN_PX / max(1.0, extent))
        self.page.evaluate(
            f"() => {CONTROLLER}.stage.setView({CONTROLLER}.view.centeredOn({{x: {x}, y: {y}}}, {scale}))"
        )
        before = self.edits()
        getattr(self, f"_{action}")(places)
        mode = self.page.evaluate(f"() => {CONTROLLER}.state.mode")
        if self.edits() < before + STEPS.get(action, 1) or mode not in ("browse", "select"):
            raise RuntimeError(f"{action} at {places[0]} had no effect, or the tool is still active")

    def edits(self) -> int:
        """Return the number of actions so far."""
        return int(self.page.evaluate(f"() => {CONTROLLER}.document(false).metadata.editor.actions"))

    def _at(self, place: Place) -> Place:
        box = self.page.locator("canvas.drawing").bounding_box()
        scale, left, top = self.page.evaluate(
            f"() => (({{scale, left, top}}) => [scale, left, top])({CONTROLLER}.view)"
        )
        return box["x"] + (place[0] - left) * scale, box["y"] + (place[1] - top) * scale

    def _bend(self, places: list[Place]) -> None:
        self.page.mouse.dblclick(*self._at(places[0]))
        self._move(places)

    def _move(self, places: list[Place]) -> None:
        self.page.mouse.move(*self._at(places[0]))
        self.page.mouse.down()
        self.page.keyboard.down("Alt")  # do not merge with a node nearby
        self.page.mouse.move(*self._at(places[1]), steps=4)
        self.page.mouse.up()
        self.page.keyboard.up("Alt")

    def _delete(self, places: list[Place]) -> None:
        self.page.mouse.click(*self._at(places[0]))
        self.page.keyboard.press("Delete")

    def _reroute(self, places: list[Place]) -> None:
        self.page.mouse.click(*self._at(places[-1]))
        self.page.keyboard.press("x")
        self._click_along(places, "b")  # the last click ends the branch, because it joins two trees

    def _draw(self, places: list[Place]) -> None:
        self._click_along(places, "b")
        self.page.keyboard.press("Enter")

    def _trace(self, places: list[Place]) -> None:
        self._click_along(places, "t")
        self.page.keyboard.press("Enter")

    def _click_along(self, places: list[Place], key: str) -> None:
        self.page.keyboard.press("Escape")
        self.page.keyboard.press(key)
        for k, place in enumerate(places):
            time.sleep(0.45)  # two clicks within 0.4 s may be a double click
            self.page.mouse.click(*self._at(place))
            self.page.wait_for_function(f"() => !{CONTROLLER}.state.preview.busy")
            assert k or self.page.evaluate(f"() => {CONTROLLER}.state.hover?.kind === 'node'"), "no node to begin at"

    def accept(self) -> None:
        """Save the image as accepted."""
        self.page.keyboard.press("Control+Enter")
        self.page.wait_for_function(f"() => {CONTROLLER}?.save === 'saved'")


def scores(skeleton: treeformer.Skeleton, ground_truth: treeformer.Skeleton) -> dict[str, float]:
    """Return both variants of TOPO's F1."""
    size = skeleton.image_size
    return {
        "topo": topo(skeleton, ground_truth, image_size=size).f1,
        "topo_paper": topo_paper(skeleton, ground_truth, image_size=size).f1,
    }


def main() -> None:
    """Run the benchmark and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", nargs="*", default=list(CORRECTIONS), help="names without suffix")
    parser.add_argument("--results", type=Path, help="keep the skeletons here; predictions in it are used again")
    parser.add_argument("--pause", type=float, default=0.1, help="seconds of looking before each correction")
    parser.add_argument("--screenshots", type=Path, help="write a PNG of each corrected image here")
    parser.add_argument("--chromium", default=os.environ.get("TREEFORMER_CHROMIUM") or shutil.which("chromium"))
    options = parser.parse_args()
    if not options.chromium:
        sys.exit("no Chromium: install it, or name it with --chromium")
    from playwright.sync_api import sync_playwright

    data = Path(os.environ.get("TREEFORMER_DATA", Path(__file__).parents[2] / "shared" / "data"))
    report: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name, sync_playwright() as driver:
        images, results = Path(name) / "images", options.results or Path(name) / "results"
        images.mkdir()
        predictor = None
        for image in options.images:
            shutil.copy(data / SETS[image] / "test" / f"{image}.jpg", images)
            if not (results / f"{image}.json").exists():
                predictor = predictor or Predictor()
                treeformer.write(predictor.predict(images / f"{image}.jpg"), results / f"{image}.json")
        process, address = start_server(images, "--results", str(results))
        try:
            browser = driver.chromium.launch(executable_path=options.chromium, args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.set_default_timeout(180_000)
            page.goto(address)
            page.wait_for_function(READY)
            person = Person(page, options.pause)
            for image in options.images:
                ground_truth = treeformer.read(data / SETS[image] / "test" / f"{image}.rsml")
                before = scores(treeformer.read(results / f"{image}.json"), ground_truth)
                person.open(f"{image}.jpg")
                for correction in CORRECTIONS[image]:
                    person.correct(*correction)
                if options.screenshots:
                    options.screenshots.mkdir(parents=True, exist_ok=True)
                    page.keyboard.press("f")
                    page.wait_for_function(READY)
                    page.screenshot(path=options.screenshots / f"{image}.png")
                person.accept()
                skeleton = treeformer.read(results / f"{image}.json")
                editor = skeleton.metadata["editor"]
                report[image] = {
                    "corrections": len(CORRECTIONS[image]),
                    "actions": editor["actions"],
                    "seconds": editor["seconds"],
                    "before": before,
                    "after": scores(skeleton, ground_truth),
                }
            browser.close()
        finally:
            process.kill()
            process.wait()
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
