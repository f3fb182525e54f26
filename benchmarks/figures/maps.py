"""The maps of the two-stage method, from the feature pyramid and from the hourglass, beside the true ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.figures.panels import test_samples
from benchmarks.figures.predict import Models
from benchmarks.figures.sheet import Tile, sheet
from benchmarks.tables.recipes import REAL, Run, Scale
from PIL import Image

from treeformer.errors import TreeformerError

DOMAIN = "vine"
SHOWN = {"FPN": "two-stage-classes", "hourglass": "hourglass-classes"}


def node_image(nodes: Any) -> Image.Image:
    """Node confidences (C,h,w), the surest class of each cell, white on black."""
    return _channel(nodes.max(axis=0))


def direction_image(directions: Any) -> Image.Image:
    """Directions (C,2,h,w), summed over the classes: the angle is the hue, the length the brightness."""
    across, down = directions.sum(axis=0)
    hue = np.arctan2(down, across) / (2 * np.pi) % 1.0
    full = np.ones_like(hue)
    return Image.merge("HSV", [_channel(one) for one in (hue, full, np.hypot(across, down))]).convert("RGB")


def _channel(values: Any) -> Image.Image:
    """(h,w), 0 to 1, as gray levels."""
    return Image.fromarray(np.rint(255 * np.clip(values, 0.0, 1.0)).astype(np.uint8))


def _images(nodes: Any, directions: Any) -> list[Tile]:
    return [node_image(nodes), direction_image(directions)]


def maps(models: Models, data: Path, *, index: int = 0, scale: Scale = REAL) -> Image.Image:
    """Two rows: node confidence and branch direction; columns input, ground truth, FPN, hourglass."""
    from treeformer.nn.targets import Targets

    runs = {title: Run(DOMAIN, recipe, 0) for title, recipe in SHOWN.items()}
    if not any(models.has(run) for run in runs.values()):
        raise TreeformerError(f"{models.runs}: no weights of any run that is shown here")
    [sample] = test_samples(DOMAIN, data, scale, [index])
    ground_truth: list[Tile] = ["not run yet", "not run yet"]
    columns: list[list[Tile]] = []
    for run in runs.values():
        if not models.has(run):
            columns.append(["not run yet", "not run yet"])
            continue
        found = models.output(run, np.asarray(sample.image)).maps
        goal = models.model(run).ground_truth(Targets.from_skeletons([sample.skeleton]).to(models.device), found)
        ground_truth, ours = (
            _images(*(channels[0].float().cpu().numpy() for channels in one)) for one in (goal, found)
        )
        columns.append(ours)
    image = Image.fromarray(sample.image)
    tiles = [[image, ground_truth[row], *(column[row] for column in columns)] for row in range(2)]
    return sheet(["input", "ground truth", *SHOWN], ["node confidence", "branch direction"], tiles)
