"""The paper's qualitative panels for one domain: input, two-stage, unconstrained, test-time, ours, ground truth."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from benchmarks.figures.predict import Models
from benchmarks.figures.sheet import Tile, sheet
from benchmarks.tables.domains import DOMAINS
from benchmarks.tables.recipes import REAL, Run, Scale
from benchmarks.tables.spec import TABLES
from PIL import Image

from treeformer.data import Sample
from treeformer.draw import draw, draw_comparison
from treeformer.errors import TreeformerError
from treeformer.metrics import evaluate_pair

SHOWN = ("two-stage", "unconstrained", "test-time", "ours")
HEADINGS = ("input", "two-stage", "unconstrained", "test-time constraint", "ours", "ground truth")


def test_samples(domain: str, data: Path, scale: Scale, indices: Sequence[int]) -> list[Sample]:
    """Return test images of a domain.

    Args:
        domain: name of the domain.
        data: folder of the prepared sets.
        scale: size of the images.
        indices: indices in the test set; those beyond its end are ignored.

    Returns:
        The samples.
    """
    from treeformer.data.mixture import EvalDataset

    DOMAINS[domain].make_ready(data)
    run = Run(domain, "sfs", 0)
    config = run.test_images(run.config(data, scale=scale), scale)
    images = EvalDataset(config.valid, config)
    samples = [images[index][0] for index in indices if index < len(images)]
    return [sample for sample in samples if sample is not None]


def panel(
    domain: str, models: Models, data: Path, *, indices: Sequence[int], scale: Scale = REAL, seed: int = 0
) -> Image.Image:
    """Draw one row per test image: red is predicted, blue is ground truth, purple is both.

    Args:
        domain: name of the domain.
        models: the trained models; a method without weights is marked as not run.
        data: folder of the prepared sets.
        indices: indices in the test set.
        scale: size of images and models.
        seed: seed of the runs.

    Returns:
        The sheet.

    Raises:
        TreeformerError: if the weights of all runs of the domain are missing.
    """
    table = TABLES["table1"]
    rows = {row.name: row for row in table.rows}
    methods = [(rows[name], table.run_of(domain, rows[name], seed)) for name in SHOWN]
    if not any(models.has(run) for _, run in methods):
        raise TreeformerError(f"{models.runs}: no weights of any run on {domain}")
    samples = test_samples(domain, data, scale, indices)
    tiles: list[list[Tile]] = []
    names = []
    for sample in samples:
        image = Image.fromarray(sample.image)
        line: list[Tile] = [image]
        scores = []
        for row, run in methods:
            if not models.has(run):
                line.append("not run")
                continue
            found = models.skeleton(run, row.decoding, np.asarray(sample.image))
            line.append(draw_comparison(image, found, sample.skeleton))
            scores.append(f"{row.title} {evaluate_pair(found, sample.skeleton)['topo_f1']:.3f}")
        tiles.append([*line, draw(image, sample.skeleton)])
        names.append(f"{sample.name}; TOPO F1: {', '.join(scores)}")
    return sheet(HEADINGS, names, tiles)
