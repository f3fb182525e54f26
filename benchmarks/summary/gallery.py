"""Images of the page: for each rendered set a typical prediction and the worst one."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
from benchmarks.figures.sheet import Tile, sheet
from benchmarks.protocol.measure import read
from benchmarks.protocol.sets import SETS
from benchmarks.summary.accuracy import KINDS, measured
from PIL import Image, ImageDraw

from treeformer import Skeleton
from treeformer._util.image_output import write_image
from treeformer.data import Sample
from treeformer.errors import TreeformerError
from treeformer.inference.predictor import Predictor
from treeformer.metrics import correct_edges, evaluate_pair

QUALITY = 65
PALER = 0.5  # share of white in the image below the lines
LINE = 1 / 125  # width of the lines, of the image's longer side
# Told apart by color-blind readers, too, and visible on leaves, sky, soil and agar that are paler.
RIGHT, WRONG, MISSED = (0, 75, 190), (225, 80, 0), (0, 0, 0)
SHEETS = {
    "gallery-roots": ("drawings", "taproot", "seedling", "several", "plate", "plate-rosette"),
    "gallery-shoots": ("photographs", "vine", "orchard", "potted-shoot", "vineyard", "orchard-row"),
}
"""Names of the images with the sets they show. Images of public sets are not part of the repository."""


def gallery(label: str, folder: Path) -> list[Path]:
    """Draw the sheets.

    Args:
        label: of the shipped weights in the stored results.
        folder: of the image files.

    Returns:
        The files written.
    """
    predictor = Predictor("default", precision="int8")
    written = []
    for name, sets in SHEETS.items():
        tiles, titles = [], []
        for one in sets:
            line, title = _line(predictor, label, one)
            tiles.append(line)
            titles.append(title)
        columns = ("a typical image", "its prediction", "the worst image", "its prediction")
        written.append(folder / f"{name}.webp")
        write_image(sheet(columns, titles, tiles), written[-1], quality=QUALITY, method=6)
    return written


def pick(scores: list[float]) -> tuple[int, int]:
    """Return the index of the median score and of the lowest one; NaN counts as lowest."""
    order = np.argsort(np.nan_to_num(np.asarray(scores), nan=-1.0), kind="stable")
    return int(order[len(order) // 2]), int(order[0])


def judged(image: Image.Image, prediction: Skeleton, ground_truth: Skeleton) -> Image.Image:
    """Draw which edges are right, which are wrong and which are missed, over the paler image.

    Args:
        image: the image of both skeletons.
        prediction: the predicted skeleton.
        ground_truth: the ground truth. The parts of it that are missed are its edges that are not correct by
            `correct_edges`, with the roles of the two exchanged.

    Returns:
        An RGB image of the same size.
    """
    page = Image.blend(image.convert("RGB"), Image.new("RGB", image.size, "white"), PALER)
    pen, width = ImageDraw.Draw(page), max(1, round(LINE * max(image.size)))
    found, right = correct_edges(ground_truth, prediction), correct_edges(prediction, ground_truth)
    layers = ((ground_truth, ~found, MISSED), (prediction, right, RIGHT), (prediction, ~right, WRONG))
    for skeleton, chosen, color in layers:
        for begin, end in skeleton.nodes[skeleton.edges[chosen]].tolist():
            pen.line([*begin, *end], fill=color, width=width)
    return page


def _line(predictor: Predictor, label: str, name: str) -> tuple[list[Tile], str]:
    found = measured(label, name)
    if found is None:
        raise TreeformerError(f"{name}: no measurement of {label}")
    test_set, path = found
    names = json.loads(path.read_text(encoding="utf-8"))["images"]
    scores = [_f1(row) for row in read(path)]
    dataset = SETS[name].open()
    tiles: list[Tile] = []
    shown = []
    for index in pick(scores):
        sample = dataset.load(index)
        if not isinstance(sample, Sample) or sample.name != names[index]:
            raise TreeformerError(f"{test_set.name}: image {index} is not {names[index]}")
        skeleton = predictor.predict(sample.image)
        image = Image.fromarray(sample.image)
        tiles += [image, judged(image, skeleton, sample.skeleton)]
        shown.append(evaluate_pair(skeleton, sample.skeleton)["topo_f1"])
    return tiles, f"{KINDS[name]}; corrected TOPO F1 {shown[0]:.2f} and {shown[1]:.2f}"


def _f1(row: dict[str, float]) -> float:
    precision, recall = row["topo_precision"], row["topo_recall"]
    total = precision + recall
    return 2 * precision * recall / total if total else (0.0 if total == 0 else math.nan)
