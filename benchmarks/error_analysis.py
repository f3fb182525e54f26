"""Analyze a model's errors: are they in nodes or edges, and where do they occur?

PYTHONPATH=src python benchmarks/error_analysis.py --synthetic paper:paper:valid --count 60

One part of the model at a time is replaced by the ground truth, and the rest is evaluated. The increase of F1 is the
cost of that part. Missed nodes are then listed by the distance to their nearest neighbor, and missed edges between
found nodes by the distance to the nearest other node.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from treeformer.decoding.decode import decode
from treeformer.hub.model_folder import open_model
from treeformer.inference.evaluate import synthetic_set
from treeformer.inference.open_engine import open_engine
from treeformer.metrics import topo_paper
from treeformer.skeleton import Skeleton

RADIUS_PX = 8.0  # largest distance between a found node and its ground truth
FAR = 1e4
SPACINGS_PX = (0.0, 4.0, 8.0, 16.0, np.inf)


class Case(NamedTuple):
    """The ground truth of an image and the network's output. `found` maps true nodes to candidates."""

    ground_truth: Skeleton
    size: tuple[int, int]
    numbers: tuple[np.ndarray, ...]  # node score (K,), points (K,2), edge cost (K,K), root logit (K,)
    found: dict[int, int]


def cases(model: str, dataset: str, count: int, precision: str) -> Iterator[Case]:
    folder = open_model(model)
    engine = open_engine(folder, "onnx", precision=precision)
    for sample in synthetic_set(dataset, count):
        score, points, cost, root = (array[0] for array in engine(sample.image[None])[:4])
        likely = np.flatnonzero(score >= folder.config.node_threshold)
        numbers = (score[likely], points[likely], cost[np.ix_(likely, likely)], root[likely])
        apart = np.hypot(*(numbers[1][:, None] - sample.skeleton.nodes).transpose(2, 0, 1))
        rows, columns = linear_sum_assignment(np.where(apart < RADIUS_PX, apart, FAR))
        found = {int(j): int(i) for i, j in zip(rows, columns, strict=True) if apart[i, j] < RADIUS_PX}
        yield Case(sample.skeleton, (sample.image.shape[1], sample.image.shape[0]), numbers, found)


def without_nodes(ground_truth: Skeleton, kept: list[int]) -> np.ndarray:
    """Return the edges of the ground truth among the nodes `kept`; neighbors of a removed node are joined.

    Args:
        ground_truth: the skeleton.
        kept: node numbers.

    Returns:
        (E,2) indices into `kept`.
    """
    neighbors = {node: set() for node in range(len(ground_truth))}
    for left, right in ground_truth.edges.tolist():
        neighbors[left].add(right)
        neighbors[right].add(left)
    for node in sorted(neighbors.keys() - set(kept)):
        around = sorted(neighbors.pop(node))
        for other in around:
            neighbors[other].discard(node)
        for other in around[1:]:
            neighbors[around[0]].add(other)
            neighbors[other].add(around[0])
    index_of = {node: index for index, node in enumerate(kept)}
    edges = [(index_of[a], index_of[b]) for a in kept for b in sorted(neighbors[a]) if a < b]
    return np.array(edges, dtype=np.intp).reshape(-1, 2)


def tree_of(numbers: tuple[np.ndarray, ...], size: tuple[int, int]) -> Skeleton:
    return decode(*numbers, node_threshold=0.0, image_size=size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="default")
    parser.add_argument("--synthetic", default="paper:paper:valid", metavar="PRESET:STYLE:SPLIT")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--precision", default="auto", choices=["auto", "float32", "int8"])
    arguments = parser.parse_args()
    scores: dict[str, list[tuple[float, float]]] = {}
    node_gap: list[tuple[float, bool]] = []
    edge_gap: list[tuple[float, bool]] = []
    for case in cases(arguments.model, arguments.synthetic, arguments.count, arguments.precision):
        ground_truth, kept = case.ground_truth, sorted(case.found)
        chosen = [case.found[node] for node in kept]
        score, points, cost, root = case.numbers
        only_true = (score[chosen], points[chosen], cost[np.ix_(chosen, chosen)], root[chosen])
        edges = without_nodes(ground_truth, kept)
        guesses = {
            "as predicted": tree_of(case.numbers, case.size),
            "false nodes left out": tree_of(only_true, case.size),
            "false nodes left out, edges from the ground truth": Skeleton(points[chosen], edges),
        }
        for name, guess in guesses.items():
            topo = topo_paper(guess, ground_truth, image_size=case.size)
            scores.setdefault(name, []).append((topo.precision, topo.recall))
        nodes = ground_truth.nodes
        apart = np.hypot(*(nodes[:, None] - nodes).transpose(2, 0, 1)) + np.diag(np.full(len(nodes), np.inf))
        node_gap += [(float(apart[node].min()), node in case.found) for node in range(len(nodes))]
        predicted = {tuple(sorted(edge)) for edge in guesses["false nodes left out"].edges.tolist()}
        for left, right in edges.tolist():
            edge_gap.append((gap(nodes, kept[left], kept[right]), tuple(sorted((left, right))) in predicted))
    print(f"{arguments.model} on {arguments.count} images of {arguments.synthetic}")
    print(f"\n{'TOPO (paper)':45} precision  recall      F1")
    for name, rows in scores.items():
        precision, recall = np.mean(rows, axis=0)
        print(f"{name:45} {precision:9.3f} {recall:7.3f} {2 * precision * recall / (precision + recall):7.3f}")
    show("nodes, by distance to the nearest other node", node_gap)
    show("edges between found nodes, by distance to the nearest other node", edge_gap)


def gap(nodes: np.ndarray, left: int, right: int) -> float:
    """Return the distance from the segment between two nodes to the nearest other node, px."""
    segment = nodes[right] - nodes[left]
    along = np.clip((nodes - nodes[left]) @ segment / max(segment @ segment, 1e-9), 0, 1)
    distance = np.hypot(*(nodes - nodes[left] - along[:, None] * segment).T)
    distance[[left, right]] = np.inf
    return float(distance.min())


def show(title: str, rows: list[tuple[float, bool]]) -> None:
    distance, right = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    print(f"\n{title}")
    for low, high in pairwise(SPACINGS_PX):
        in_range = (distance >= low) & (distance < high)
        if in_range.any():
            print(f"  {low:4g} to {high:4g} px: {right[in_range].mean():6.3f} found of {in_range.sum()}")
    print(f"  all: {right.mean():6.3f} found of {len(right)}")


if __name__ == "__main__":
    main()
