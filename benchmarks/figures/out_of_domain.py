"""The paper's out-of-domain panel: models trained on one domain, applied to other domains and unseen sets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.figures.panels import test_samples
from benchmarks.figures.predict import Models
from benchmarks.figures.sheet import Tile, sheet
from benchmarks.tables.domains import DOMAINS, SOURCES, make_ready
from benchmarks.tables.recipes import REAL, Run, Scale
from PIL import Image

from treeformer._util.files import atomic_write
from treeformer._util.images import open_image
from treeformer.data import FolderDataset, Sample
from treeformer.data import augmentation as augment
from treeformer.draw import draw, draw_comparison
from treeformer.errors import TreeformerError
from treeformer.metrics import evaluate_pair, summarize
from treeformer.skeleton import Skeleton

TRAINED_ON = ("synthetic", "osr-roots", "barley-roots")
SHOWN_ON = ("synthetic", "osr-roots", "barley-roots", "agar-plates", "branch-trees")
WITHOUT_GROUND_TRUTH = ("agar-plates",)
COMMAND = "`python -m benchmarks.figures out-of-domain --markdown` · TOPO F1 with paper code (corrected) of ours"
FIGURES = ("smd_paper", "smd", "topo_paper_f1", "topo_f1", "node_f1", "edge_f1", "forest_rate")


def images_of(name: str, data: Path, scale: Scale, count: int) -> list[Sample]:
    """Return the first images of a domain's test set, of agar-plates or of branch-trees.

    Args:
        name: name of the domain or set.
        data: folder of the prepared sets.
        scale: gives the size of the images.
        count: largest number of images.

    Returns:
        Samples of one size; none if the set is missing.
    """
    if name in DOMAINS:
        return test_samples(name, data, scale, range(count))
    side = (scale.side_px, scale.side_px)
    if not (SOURCES / name).is_dir():
        return []
    if name in WITHOUT_GROUND_TRUTH:
        found = []
        for path in sorted((SOURCES / name).glob("*.jpg"))[:count]:
            image = np.asarray(open_image(path))
            size = (image.shape[1], image.shape[0])
            found.append(whole_in_frame(Sample(image, Skeleton([], [], image_size=size), path.name), side))
        return found
    dataset = FolderDataset(make_ready(name, data), "valid")
    return [whole_in_frame(dataset[index], side) for index in range(min(count, len(dataset)))]


def whole_in_frame(sample: Sample, side: tuple[int, int]) -> Sample:
    """Fit a whole image and its skeleton into a frame.

    Args:
        sample: image and skeleton.
        side: (width, height) of the frame, px.

    Returns:
        The moved sample.
    """
    from treeformer.data.view import into_frame

    affine = into_frame((sample.image.shape[1], sample.image.shape[0]), side)
    return Sample(augment.warp(sample.image, affine, side), augment.move(sample.skeleton, affine, side), sample.name)


def out_of_domain(
    models: Models, data: Path, *, count: int, scale: Scale = REAL, trained_on: Sequence[str] = TRAINED_ON
) -> tuple[Image.Image, dict[str, Any]]:
    """Draw the panel and compute its figures.

    Args:
        models: the trained models.
        data: folder of the prepared sets.
        count: images per set.
        scale: size of images and models.
        trained_on: domains of the models.

    Returns:
        The panel, and the figures over the images with a ground truth, by `TRAINED on SHOWN`.

    Raises:
        TreeformerError: if the weights of all shown runs are missing.
    """
    runs = {name: Run(name, "sfs", 0) for name in trained_on}
    if not any(models.has(run) for run in runs.values()):
        raise TreeformerError(f"{models.runs}: no weights of the runs to be shown")
    tiles: list[list[Tile]] = []
    figures: dict[str, Any] = {}
    for shown in SHOWN_ON:
        samples = images_of(shown, data, scale, count)
        one_plant = shown in DOMAINS and DOMAINS[shown].one_plant
        line: list[Tile] = []
        for trained, run in runs.items():
            if not samples:
                line.append("images not available")
            elif not models.has(run):
                line.append("not run")
            else:
                images = (np.asarray(sample.image) for sample in samples)
                found = [models.skeleton(run, "ours", image, single_plant=one_plant) for image in images]
                image = Image.fromarray(samples[0].image)
                if shown in WITHOUT_GROUND_TRUTH:
                    line.append(draw(image, found[0]))
                    continue
                line.append(draw_comparison(image, found[0], samples[0].skeleton))
                rows = [evaluate_pair(tree, sample.skeleton) for tree, sample in zip(found, samples, strict=True)]
                summary = summarize(rows)
                figures[f"{trained} on {shown}"] = {"images": len(rows)} | {
                    name: [float(f"{n:.4g}") for n in (summary[name].value, summary[name].low, summary[name].high)]
                    for name in FIGURES
                }
        tiles.append(line)
    titles = [_line(shown, figures, trained_on) for shown in SHOWN_ON]
    return sheet([f"trained on {name}" for name in trained_on], titles, tiles), figures


def _line(shown: str, figures: dict[str, Any], trained_on: Sequence[str]) -> str:
    scores = [
        f"{trained} {figures[f'{trained} on {shown}']['topo_f1'][0]:.3f}"
        for trained in trained_on
        if f"{trained} on {shown}" in figures
    ]
    return f"{shown}; TOPO F1: {', '.join(scores)}" if scores else f"{shown}; no ground truth"


def write_figures(figures: dict[str, Any], path: Path) -> None:
    """Write the figures of the panel as JSON."""
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def read_figures(path: Path) -> dict[str, Any]:
    """Read the file that `write_figures` wrote."""
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise TreeformerError(f"{path}: no out-of-domain figures") from None
    return found


def as_markdown(figures: dict[str, Any]) -> str:
    """Return the figures as a table: one row per test set, one column per training domain."""

    def cell(trained: str, shown: str) -> str:
        found = figures.get(f"{trained} on {shown}")
        return f"{found['topo_paper_f1'][0]:.3f} ({found['topo_f1'][0]:.3f})" if found else "—"

    def line(shown: str) -> str:
        counts = {figures[key]["images"] for key in figures if key.endswith(f" on {shown}")}
        images = f"{shown}, {'/'.join(map(str, sorted(counts)))} images" if counts else f"{shown}, no ground truth"
        return f"| {images} | {' | '.join(cell(trained, shown) for trained in TRAINED_ON)} |"

    head = [f"| test set | {' | '.join(f'trained on {name}' for name in TRAINED_ON)} |", "|" + " --- |" * 4]
    return "\n".join([COMMAND, "", *head, *map(line, SHOWN_ON), ""])
