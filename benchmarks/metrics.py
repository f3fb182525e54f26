"""Measure the time of the metrics on large trees; prints a Markdown table.

    python benchmarks/metrics.py

Each time is the minimum over several repeats of the processor time of all threads, which hardly depends on other
programs on the machine. "released code" is the time of the paper's code for the same metric on trees of 100 and 200
nodes (SMD 256 and 773 ms, TOPO about 1.8 s), and the ratio is the speedup. The last column is the exponent with which
the time grows with the number of nodes, from the smallest to the largest tree.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from treeformer import Skeleton
from treeformer.metrics import (
    keypoints,
    line_distance,
    street_mover_distance,
    street_mover_distance_paper,
    structure,
    topo,
    topo_paper,
)

SIZE = (512, 512)
JITTER_PX = 2.0
MISSING = 0.05
NODES = (100, 200, 400, 800)
RELEASED_MS = {"street_mover_distance": (256, 773), "topo": (1800, 1800)}


def grown_tree(nodes: int, rng: np.random.Generator) -> Skeleton:
    """Grow a random tree upward from the bottom of the image until it has `nodes` nodes."""
    step = 0.45 * min(SIZE) / math.sqrt(nodes)
    points, heading, children, edges = [(SIZE[0] / 2, 0.95 * SIZE[1])], [-math.pi / 2], [0], []
    while len(points) < nodes:
        base = int(rng.integers(max(0, len(points) - 1 - nodes // 3), len(points)))
        angle = heading[base] + rng.normal(0, 0.35) + (rng.choice([-0.8, 0.8]) if children[base] else 0.0)
        length = step * rng.uniform(0.6, 1.5)
        point = (points[base][0] + length * math.cos(angle), points[base][1] + length * math.sin(angle))
        if children[base] == 3 or not all(0 < value < side for value, side in zip(point, SIZE, strict=True)):
            heading[base] += 0.5
            continue
        edges.append((base, len(points)))
        children[base] += 1
        children.append(0)
        points.append(point)
        heading.append(angle)
    return Skeleton(points, edges, image_size=SIZE)


def prediction_of(ground_truth: Skeleton, rng: np.random.Generator) -> Skeleton:
    """Return the tree with noise on its nodes and some tips removed."""
    tips = np.flatnonzero(ground_truth.degree == 1)[1:]
    gone = rng.choice(tips, size=min(len(tips), math.ceil(MISSING * len(ground_truth))), replace=False)
    kept = np.setdiff1d(np.arange(len(ground_truth)), gone)
    number = np.full(len(ground_truth), -1)
    number[kept] = np.arange(len(kept))
    edges = number[ground_truth.edges]
    nodes = ground_truth.nodes[kept] + rng.normal(0, JITTER_PX, (len(kept), 2))
    return Skeleton(nodes, edges[(edges >= 0).all(axis=1)], image_size=SIZE)


def minimum_ms(call: Callable[[], object], repeats: int) -> float:
    """Return the minimum processor time of a call."""
    best = math.inf
    for _ in range(repeats):
        begin = time.process_time()
        call()
        best = min(best, time.process_time() - begin)
    return 1000 * best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--trees", type=int, default=5, help="trees per size; times are means over them")
    options = parser.parse_args()
    metrics: dict[str, Callable[[Skeleton, Skeleton], object]] = {
        "street_mover_distance": street_mover_distance,
        "street_mover_distance_paper": street_mover_distance_paper,
        "topo": topo,
        "topo_paper": topo_paper,
        "topo_paper, full graph": partial(topo_paper, keypoints=False),
        "structure": structure,
        "keypoints": keypoints,
        "line_distance": line_distance,
    }
    pairs = {}
    for nodes in NODES:
        rng = np.random.default_rng(nodes)
        trees = [grown_tree(nodes, rng) for _ in range(options.trees)]
        pairs[nodes] = [(prediction_of(tree, rng), tree) for tree in trees]
    for metric in metrics.values():
        metric(*pairs[NODES[0]][0])  # imports
    sizes = " | ".join(f"{nodes} nodes" for nodes in NODES)
    print(f"| metric | {sizes} | released code, 100 / 200 | ratio, 100 / 200 | growth |")
    print("| --- " * (len(NODES) + 4) + "|")
    for name, metric in metrics.items():
        times = [
            float(np.mean([minimum_ms(partial(metric, *pair), options.repeats) for pair in pairs[nodes]]))
            for nodes in NODES
        ]
        released = next((ms for start, ms in RELEASED_MS.items() if name.startswith(start)), None)
        growth = math.log(times[-1] / times[0]) / math.log(NODES[-1] / NODES[0])
        cells = [f"{ms:.1f} ms" for ms in times]
        if released:
            cells += [f"{released[0]} / {released[1]} ms"]
            cells += [" / ".join(f"{slow / fast:.0f}" for slow, fast in zip(released, times, strict=False))]
        else:
            cells += ["", ""]
        print(f"| `{name}` | {' | '.join(cells)} | n^{growth:.1f} |")


if __name__ == "__main__":
    main()
