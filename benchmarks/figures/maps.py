"""Draw the maps of the two-stage method, predicted by feature pyramid and hourglass, with the target maps."""

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
    """Draw node confidences (C,h,w): the highest class of each cell, white on black."""
    return _channel(nodes.max(axis=0))


def direction_image(directions: Any) -> Image.Image:
    """Draw directions (C,2,h,w), summed over classes: hue is the angle, brightness the length."""
    across, down = directions.sum(axis=0)
    hue = np.arctan2(down, across) / (2 * np.pi) % 1.0
    full = np.ones_like(hue)
    return Image.merge("HSV", [_channel(plane) for plane in (hue, full, np.hypot(across, down))]).convert("RGB")


def _channel(values: Any) -> Image.Image:
    """Convert values (h,w) in [0, 1] to gray levels."""
    return Image.fromarray(np.rint(255 * np.clip(values, 0.0, 1.0)).astype(np.uint8))


def _images(nodes: Any, directions: Any) -> list[Tile]:
    return [node_image(nodes), direction_image(directions)]


def maps(models: Models, data: Path, *, index: int = 0, scale: Scale = REAL) -> Image.Image:
    """Draw node confidence and branch direction of one test image: input, ground truth, FPN, hourglass.

    Args:
        models: the trained models.
        data: folder of the prepared sets.
        index: index of the image in the test set.
        scale: size of images and models.

    Returns:
        The sheet.

    Raises:
        TreeformerError: if the weights of all shown runs are missing.
    """
    from treeformer.nn.targets import Targets

    runs = {title: Run(DOMAIN, recipe, 0) for title, recipe in SHOWN.items()}
    if not any(models.has(run) for run in runs.values()):
        raise TreeformerError(f"{models.runs}: no weights of the runs to be shown")
    [sample] = test_samples(DOMAIN, data, scale, [index])
    ground_truth: list[Tile] = ["not run", "not run"]
    columns: list[list[Tile]] = []
    for run in runs.values():
        if not models.has(run):
            columns.append(["not run", "not run"])
            continue
        found = models.output(run, np.asarray(sample.image)).maps
        target = models.model(run).target(Targets.from_skeletons([sample.skeleton]).to(models.device), found)
        ground_truth, predicted = (
            _images(*(channels[0].float().cpu().numpy() for channels in pair)) for pair in (target, found)
        )
        columns.append(predicted)
    image = Image.fromarray(sample.image)
    tiles = [[image, ground_truth[row], *(column[row] for column in columns)] for row in range(2)]
    return sheet(["input", "ground truth", *SHOWN], ["node confidence", "branch direction"], tiles)
