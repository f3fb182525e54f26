"""Calibrate the edge scores of a model on validation images: error per set, coefficients, reliability diagram.

PYTHONPATH=src python benchmarks/edge_calibration.py default                      the table, before and after a new fit
PYTHONPATH=src python benchmarks/edge_calibration.py default --figure edges.png   also the reliability diagram
PYTHONPATH=src python benchmarks/edge_calibration.py models/vines --write         also store the coefficients there

Rendered images have seeds of the split `valid`, which the test protocol does not use. The public sets are read from the
folder in TREEFORMER_DATA, in their published size, and left out if they are missing.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.protocol.sets import PUBLISHED_SIZE, TestSet

import treeformer.decoding.postprocess as postprocess
from treeformer.data import Sample
from treeformer.data.sample import Dataset
from treeformer.decoding.calibration import EdgeCalibration, calibrate, fit_calibration
from treeformer.errors import TreeformerError
from treeformer.hub.model_folder import ModelFolder, open_model, write_config
from treeformer.inference.predictor import Predictor
from treeformer.metrics import correct_edges, expected_calibration_error, reliability

PRESETS = (
    "taproot", "seedling", "several", "vine", "orchard", "plate", "orchard-row", "vineyard", "potted-shoot",
    "plate-rosette",
)  # fmt: skip
# Kinds of images: a fit without one of them says how well the scores of images of an unknown kind are calibrated.
KINDS = (
    {"paper paper", "paper photo"},
    {"taproot photo", "seedling photo", "several photo"},
    {"plate photo", "plate-rosette photo"},
    {"vine photo", "vineyard photo"},
    {"orchard photo", "orchard-row photo"},
    {"potted-shoot photo"},
    {"osr-roots"},
    {"barley-roots"},
)
# Edges with a calibrated score below this are more often wrong than right.
LOW_CONFIDENCE_THRESHOLD = 0.5


class Edges(NamedTuple):
    """Edges of the predicted trees of one set.

    Attributes:
        score: (E,) the network's scores.
        node_score: (E,) the lower node score of the two ends.
        is_correct: (E,) whether each edge is correct.
        length: (E,) in units of 1/512 of the image's longer side.
    """

    score: NDArray[np.float64]
    node_score: NDArray[np.float64]
    is_correct: NDArray[np.bool_]
    length: NDArray[np.float64]


def validation_sets(count: int) -> Iterator[tuple[str, Dataset]]:
    """Yield the names and the data sets for validation.

    Args:
        count: number of rendered images per set.

    Yields:
        Rendered sets, then the public sets that are there.
    """
    for preset, style in (("paper", "paper"), ("paper", "photo"), *((preset, "photo") for preset in PRESETS)):
        yield f"{preset} {style}", TestSet("", synthetic=f"{preset}:{style}:valid", count=count).open()
    for name in ("osr-roots", "barley-roots"):
        try:
            yield name, TestSet("", public_set=name, size=PUBLISHED_SIZE, split="valid").open()
        except TreeformerError as error:
            print(f"{name}: left out: {error}", file=sys.stderr)


def collect(predictor: Predictor, dataset: Dataset) -> Edges:
    """Predict a set and compare the edges with the ground truth.

    Args:
        predictor: a model without calibration.
        dataset: images with skeletons.

    Returns:
        All edges of the set.
    """
    found: list[tuple[NDArray[np.float64], ...]] = []
    for index in range(len(dataset)):
        loaded = dataset.load(index)
        if not isinstance(loaded, Sample):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = predictor.predict(loaded.image)
        assert tree.edge_score is not None
        assert tree.node_score is not None
        least = tree.node_score[tree.edges].min(axis=1) if len(tree.edges) else np.zeros(0)
        unit = 512 / max(tree.image_size or (512,))
        found.append((tree.edge_score, least, correct_edges(tree, loaded.skeleton), tree.edge_length * unit))
    return Edges(*(np.concatenate(parts) for parts in zip(*found, strict=True)))


def fit(sets: dict[str, Edges]) -> EdgeCalibration:
    """Fit the coefficients with the same weight for every set."""
    weight = np.concatenate([np.full(len(edges.score), 1 / len(edges.score)) for edges in sets.values()])
    score, node_score, is_correct, _ = (np.concatenate(parts) for parts in zip(*sets.values(), strict=True))
    return fit_calibration(score, node_score, is_correct, weight)


def table(sets: dict[str, Edges], coefficients: EdgeCalibration) -> str:
    """Return the table: errors of the network's and of the calibrated scores, and of fits without set or kind."""
    lines = [
        "| set | edges | correct | ECE, network | ECE, calibrated | ECE, fitted without this set "
        "| ECE, fitted without this kind | length below 0.5 | correct below 0.5 |",
        "|" + " --- |" * 9,
    ]
    for name, edges in sets.items():
        kind = next((kind for kind in KINDS if name in kind), {name})
        without = [{key: one for key, one in sets.items() if key not in left_out} for left_out in ({name}, kind)]
        columns = [f"{expected_calibration_error(edges.score, edges.is_correct):.3f}"]
        for chosen in (coefficients, *(fit(others) if others else coefficients for others in without)):
            score = calibrate(edges.score, edges.node_score, chosen)
            columns.append(f"{expected_calibration_error(score, edges.is_correct):.3f}")
        is_low = calibrate(edges.score, edges.node_score, coefficients) < LOW_CONFIDENCE_THRESHOLD
        share = edges.length[is_low].sum() / edges.length.sum()
        right = f"{edges.is_correct[is_low].mean():.2f} of {is_low.sum()}" if is_low.any() else "none"
        head = f"| {name} | {len(edges.score)} | {edges.is_correct.mean():.3f} "
        lines.append(f"{head}| {' | '.join(columns)} | {share:.1%} | {right} |")
    return "\n".join(lines)


def figure(sets: dict[str, Edges], coefficients: EdgeCalibration, path: Path) -> None:
    """Draw the reliability diagram: fraction of correct edges over the mean score, 15 bins of equal mass per set.

    Args:
        sets: the edges.
        coefficients: of the calibrated scores.
        path: the image to write.
    """
    from matplotlib.figure import Figure

    drawing = Figure(figsize=(9, 4.5), layout="constrained")
    axes = drawing.subplots(1, 2, sharex=True, sharey=True)
    for ax, title in zip(axes, ("the network's score", "calibrated score"), strict=True):
        ax.plot([0, 1], [0, 1], color="0.7", linewidth=1)
        for number, (name, edges) in enumerate(sets.items()):
            score = edges.score
            if ax is axes[1]:
                score = calibrate(edges.score, edges.node_score, coefficients)
            bins = reliability(score, edges.is_correct)
            style = "o-" if number < 10 else "s--"  # there are ten colors
            x, y = [one.score for one in bins], [one.correct for one in bins]
            ax.plot(x, y, style, markersize=3, linewidth=1, label=name, color=f"C{number % 10}")
        ax.set_xlabel(title)
    axes[0].set_ylabel("fraction of correct edges")
    axes[0].legend(fontsize=7)
    drawing.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", default="default", help="model folder or name")
    parser.add_argument("--count", type=int, default=40, help="rendered images per set")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--figure", type=Path, help="write the reliability diagram to this image")
    parser.add_argument("--write", action="store_true", help="store coefficients and threshold in the model folder")
    arguments = parser.parse_args()
    postprocess.SCORE_DIGITS = 9  # the fit needs the scores that are calibrated, not the rounded ones
    model = open_model(arguments.model)
    plain = ModelFolder(model.path, replace(model.config, edge_calibration=None), model.hashes)
    predictor = Predictor(plain, threads=arguments.threads)
    sets = {name: collect(predictor, dataset) for name, dataset in validation_sets(arguments.count)}
    coefficients = fit(sets)
    print(table(sets, coefficients))
    print("coefficients:", [round(value, 4) for value in coefficients])
    if arguments.figure:
        figure(sets, coefficients, arguments.figure)
    if arguments.write:
        rounded = tuple(round(value, 4) for value in coefficients)
        changed = replace(model.config, edge_calibration=rounded, low_confidence_threshold=LOW_CONFIDENCE_THRESHOLD)
        write_config(model.path, changed)


if __name__ == "__main__":
    main()
