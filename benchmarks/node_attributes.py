"""Measure predicted radii on rendered images, whose radii are known.

PYTHONPATH=src python benchmarks/node_attributes.py MODEL                    validation images of all presets
PYTHONPATH=src python benchmarks/node_attributes.py MODEL --split test --count 200

Every predicted node within 4 px of the true plant is compared with the radius at the nearest place of an edge. Wanted:
a median error of at most 15 % for radii of 2 px and more, and of 0.3 px below.
"""

from __future__ import annotations

import argparse
import sys
import warnings

import numpy as np
from numpy.typing import NDArray

from treeformer._util.geometry import project_onto_segments
from treeformer.data import Sample
from treeformer.errors import TreeformerError
from treeformer.inference.evaluate import synthetic_set
from treeformer.inference.predictor import Predictor
from treeformer.skeleton import Skeleton

PRESETS = ("paper", "taproot", "seedling", "several", "vine", "orchard", "plate")
REACH_PX = 4.0
THICK_PX = 2.0


def compare(found: Skeleton, ground_truth: Skeleton) -> NDArray[np.float64]:
    """Compare the radii of predicted nodes with those of the ground truth.

    Args:
        found: the prediction, with radii.
        ground_truth: the true skeleton, with radii.

    Returns:
        (M,2) predicted and true radius, px, of the nodes near the ground truth.
    """
    if found.radius is None or ground_truth.radius is None or not len(found) or not len(ground_truth.edges):
        return np.zeros((0, 2))
    begin, end = ground_truth.edges.T
    t, distance = project_onto_segments(found.nodes[:, None], ground_truth.nodes[begin], ground_truth.nodes[end])
    nearest = distance.argmin(axis=1)
    node = np.arange(len(found))
    along = t[node, nearest]
    radius = ground_truth.radius
    expected = (1 - along) * radius[begin[nearest]] + along * radius[end[nearest]]
    near = (distance[node, nearest] <= REACH_PX) & np.isfinite(expected) & np.isfinite(found.radius)
    return np.stack([found.radius[near], expected[near]], axis=1)


def row(name: str, pairs: NDArray[np.float64]) -> str:
    """Return one line of the table.

    Args:
        name: of the set.
        pairs: (M,2) predicted and true radius, px.

    Returns:
        The line, as Markdown.
    """
    predicted, expected = pairs.T
    thick = expected >= THICK_PX
    error = np.abs(predicted - expected)
    relative = f"{np.median(error[thick] / expected[thick]):.1%}" if thick.any() else ""
    absolute = f"{np.median(error[~thick]):.2f}" if (~thick).any() else ""
    bias = f"{np.median(predicted / np.maximum(expected, 0.1)):.2f}" if len(pairs) else ""
    return f"| {name} | {thick.sum()} | {relative} | {(~thick).sum()} | {absolute} | {bias} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", default="default", help="model folder or name, with attributes")
    parser.add_argument("--presets", nargs="+", default=list(PRESETS))
    parser.add_argument("--style", default="photo")
    parser.add_argument("--split", default="valid")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--threads", type=int)
    arguments = parser.parse_args()
    predictor = Predictor(arguments.model, threads=arguments.threads)
    lines = [
        "| set | nodes of 2 px and more | median error | thinner nodes | median error, px | median ratio |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    try:
        for preset in arguments.presets:
            dataset = synthetic_set(f"{preset}:{arguments.style}:{arguments.split}", arguments.count)
            parts = [np.zeros((0, 2))]
            for index in range(len(dataset)):
                loaded = dataset.load(index)
                if not isinstance(loaded, Sample):
                    continue
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found = predictor.predict(loaded.image)
                if len(found) and found.radius is None:
                    raise TreeformerError(f"{arguments.model}: this model predicts no radii")
                parts.append(compare(found, loaded.skeleton))
            lines.append(row(preset, np.concatenate(parts)))
    except TreeformerError as error:
        sys.exit(f"treeformer: {error}")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
