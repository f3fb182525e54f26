"""Measure the street mover's distance of a perfect prediction, as the paper's code computes it.

PYTHONPATH=src python benchmarks/smd_floor.py --count 200

The paper's code places 500 points at equal steps along the edges, in the order of the node numbers. The same tree with
other node numbers has its points elsewhere on the same edges, so its distance to itself is not 0. No prediction is
expected to be better, because its numbering cannot match that of the ground truth. The exact distance ignores numbers.
"""

from __future__ import annotations

import argparse
from itertools import pairwise

import numpy as np

from treeformer.inference.evaluate import synthetic_set
from treeformer.metrics import Estimate, street_mover_distance, street_mover_distance_paper, summarize
from treeformer.skeleton import Skeleton

NODE_COUNTS = (0, 21, 41, 61, 81, 100)


def renumbered(ground_truth: Skeleton, order: np.ndarray) -> Skeleton:
    """Return the same tree with its nodes in another order."""
    return Skeleton(ground_truth.nodes[order], np.argsort(order)[ground_truth.edges])


def distances(ground_truth: Skeleton, size: tuple[int, int], random: np.random.Generator) -> dict[str, float]:
    """Return the distances of the ground truth to itself under three numberings."""
    orders = {
        "original": np.arange(len(ground_truth)),
        "random": random.permutation(len(ground_truth)),
        "left to right": np.argsort(ground_truth.nodes[:, 0], kind="stable"),
    }
    found = {}
    for name, order in orders.items():
        answer = renumbered(ground_truth, order)
        found[f"{name}, paper code"] = street_mover_distance_paper(answer, ground_truth, image_size=size)
        found[f"{name}, exact"] = street_mover_distance(answer, ground_truth, image_size=size)
    return found


def line(name: str, estimate: Estimate) -> str:
    """Format a row of the table."""
    return f"{name:40} {estimate.value:.2e}  [{estimate.low:.2e}, {estimate.high:.2e}]"


def main() -> None:
    """Parse the command line, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--synthetic", default="paper:paper:test", metavar="PRESET:STYLE:SPLIT")
    parser.add_argument("--count", type=int, default=200, help="number of images")
    options = parser.parse_args()
    random = np.random.default_rng(0)
    rows, nodes = [], []
    for sample in synthetic_set(options.synthetic, options.count):
        height, width = sample.image.shape[:2]
        rows.append(distances(sample.skeleton, (width, height), random))
        nodes.append(len(sample.skeleton))
    print(
        f"{options.count} images of {options.synthetic}: distance of the ground truth to itself with renumbered nodes"
    )
    for name, estimate in summarize(rows).items():
        print(line(name, estimate))
    for low, high in pairwise(NODE_COUNTS):
        of_size = [row for row, count in zip(rows, nodes, strict=True) if low <= count < high]
        if of_size:
            name = f"random, paper code, {low} to {high - 1} nodes ({len(of_size)})"
            print(line(name, summarize(of_size)["random, paper code"]))


if __name__ == "__main__":
    main()
