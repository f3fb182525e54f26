"""The paper's qualitative panels: input, two-stage, unconstrained, test-time, ours, ground truth, for one domain."""

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
    """Test images of a domain, by their places in the set."""
    from treeformer.data.mixture import EvalDataset

    DOMAINS[domain].make_ready(data)
    run = Run(domain, "sfs", 0)
    images = EvalDataset((found := run.test_images(run.config(data, scale=scale), scale)).valid, found)
    samples = [images[index][0] for index in indices if index < len(images)]
    return [sample for sample in samples if sample is not None]


def panel(
    domain: str, models: Models, data: Path, *, indices: Sequence[int], scale: Scale = REAL, seed: int = 0
) -> Image.Image:
    """A row a test image; red is predicted, blue is true, purple both. A method without weights says so."""
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
                line.append("not run yet")
                continue
            found = models.skeleton(run, row.decoding, np.asarray(sample.image))
            line.append(draw_comparison(image, found, sample.skeleton))
            scores.append(f"{row.title} {evaluate_pair(found, sample.skeleton)['topo_f1']:.3f}")
        tiles.append([*line, draw(image, sample.skeleton)])
        names.append(f"{sample.name}; TOPO F1: {', '.join(scores)}")
    return sheet(HEADINGS, names, tiles)
