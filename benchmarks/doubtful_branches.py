"""Count branches that hang on an edge of low confidence: do they exist?

PYTHONPATH=src python benchmarks/doubtful_branches.py --count 24
PYTHONPATH=src python benchmarks/doubtful_branches.py --model small --sets vineyard:photo --split valid

Images are predicted without `treeformer.decoding.doubtful`. A branch is everything behind an edge whose calibrated
score is below the model's `low_confidence_threshold`. It is sure if it has a node with a score of 0.5 or more. It
exists if at least half of its nodes lie within 8/512 of the image's longer side of the ground truth.
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import replace

import numpy as np
from scipy.spatial import cKDTree

from treeformer.decoding.doubtful import SURE
from treeformer.hub.model_folder import ModelFolder, open_model
from treeformer.inference.evaluate import synthetic_set
from treeformer.inference.predictor import Predictor
from treeformer.skeleton import Skeleton

PRESETS = (
    *("paper", "taproot", "seedling", "several", "vine", "orchard", "plate"),
    *("orchard-row", "vineyard", "potted-shoot", "plate-rosette"),
)
TOLERANCE = 8 / 512  # of the image's longer side
SPACING_PX = 2.0


def branches(skeleton: Skeleton, low_confidence: float) -> list[list[int]]:
    """Return the nodes behind each edge of low confidence."""
    assert skeleton.edge_score is not None
    traversal = skeleton.traversal
    below: list[list[int]] = [[node] for node in range(len(skeleton))]
    found = []
    for node in reversed(traversal.order):
        edge = traversal.edge[node]
        if edge >= 0:
            below[traversal.parents[node]] += below[node]
            if skeleton.edge_score[edge] < low_confidence:
                found.append(below[node])
    return found


def points_along(skeleton: Skeleton) -> np.ndarray:
    """Return points along all edges, (P,2) px."""
    start, end = skeleton.nodes[skeleton.edges[:, 0]], skeleton.nodes[skeleton.edges[:, 1]]
    parts = [skeleton.nodes]
    for first, last, length in zip(start, end, skeleton.edge_length, strict=True):
        parts.append(first + (last - first) * np.linspace(0, 1, 2 + int(length / SPACING_PX))[:, None])
    return np.concatenate(parts)


def count_branches(model: str, name: str, count: int) -> Counter[tuple[bool, bool]]:
    """Count the branches of a set by whether they are sure and whether they exist."""
    folder = open_model(model)
    low = folder.config.low_confidence_threshold
    assert low is not None, "the model does not say which scores are low"
    plain = ModelFolder(folder.path, replace(folder.config, low_confidence_threshold=None), folder.hashes)
    predictor = Predictor(plain)
    images = synthetic_set(name, count)
    counted: Counter[tuple[bool, bool]] = Counter()
    for number in range(count):
        sample = images[number]
        found = predictor.predict(sample.image)
        ground_truth = cKDTree(points_along(sample.skeleton))
        for nodes in branches(found, low):
            distance, _ = ground_truth.query(found.nodes[nodes])
            exists = (distance <= TOLERANCE * max(sample.image.shape[:2])).mean() >= 0.5
            counted[bool(found.node_score[nodes].max() >= SURE), bool(exists)] += 1
    return counted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="default")
    parser.add_argument("--sets", nargs="+", default=[f"{preset}:photo" for preset in PRESETS])
    parser.add_argument("--split", default="valid")
    parser.add_argument("--count", type=int, default=24)
    args = parser.parse_args()
    print("| set | unsure, false | unsure, true | sure, false | sure, true |\n|" + " --- |" * 5)
    total: Counter[tuple[bool, bool]] = Counter()
    cells = ((False, False), (False, True), (True, False), (True, True))
    for name in args.sets:
        counted = count_branches(args.model, f"{name}:{args.split}", args.count)
        total += counted
        print(f"| {name} | " + " | ".join(str(counted[cell]) for cell in cells) + " |", flush=True)
    print("| all | " + " | ".join(str(total[cell]) for cell in cells) + " |")


if __name__ == "__main__":
    main()
