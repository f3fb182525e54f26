"""Measure the upper bound of the two-stage method: accuracy and time of the second stage on target maps.

PYTHONPATH=src python benchmarks/two_stage_ceiling.py --preset paper --count 20

A perfect first stage would give these figures. Images have 512×512 px. Seeds from 100,000 on belong to the validation
split. Times are processor times of one core.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch

from treeformer import Skeleton, synthetic
from treeformer.baselines.two_stage.model import MapOutput, TwoStage, TwoStageConfig
from treeformer.baselines.two_stage.target_maps import Maps
from treeformer.metrics import evaluate_pair
from treeformer.nn.targets import Targets

SIZE = (512, 512)
FIGURES = ("node_f1", "edge_f1", "exact_rate", "topo_paper_f1", "smd_paper")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="paper")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--classes", type=int, nargs="+", default=[1])
    parser.add_argument("--search-px", type=float, default=9.0)
    parser.add_argument("--seed", type=int, default=100_000)
    parser.add_argument("--powers", nargs="+", default=["1.1,4", "1,1"], help="powers of distance and alignment")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    seeds = range(arguments.seed, arguments.seed + arguments.count)
    ground_truths = [synthetic.generate(arguments.preset, seed) for seed in seeds]
    nodes = np.mean([len(ground_truth) for ground_truth in ground_truths])
    print(f"{arguments.preset}, {len(ground_truths)} images, {nodes:.0f} nodes per image")
    print("classes, edges, powers |", *FIGURES, "root right | ms per image: draw maps, decode")
    for classes in arguments.classes:
        config = TwoStageConfig(classes=classes, node_search_px=arguments.search_px, max_nodes=400)
        model = TwoStage(config)
        began = time.process_time()
        maps = [target_maps(model, ground_truth) for ground_truth in ground_truths]
        drawing = time.process_time() - began
        for edges in ("mst", "dijkstra"):
            for powers in arguments.powers:
                distance, alignment = (float(power) for power in powers.split(","))
                formula = {"distance_power": distance, "alignment_power": alignment}
                began = time.process_time()
                found = [model.decode(one, edges=edges, image_size=SIZE, **formula)[0] for one in maps]
                decoding = time.process_time() - began
                rows = [evaluate_pair(ours, true) for ours, true in zip(found, ground_truths, strict=True)]
                means = [f"{np.nanmean([row[figure] for row in rows]):.3g}" for figure in FIGURES]
                right = np.mean([root_is_right(ours, true) for ours, true in zip(found, ground_truths, strict=True)])
                times = f"{1e3 * drawing / len(ground_truths):.0f} {1e3 * decoding / len(ground_truths):.0f}"
                print(classes, edges, powers, "|", *means, f"{right:.2f}", "|", times, flush=True)


def target_maps(model: TwoStage, ground_truth: Skeleton) -> MapOutput:
    classes = model.config.classes
    like = Maps(torch.empty(1, classes, *SIZE[::-1]), torch.empty(1, classes, 2, *SIZE[::-1]))
    return MapOutput(model.target(Targets.from_skeletons([ground_truth]), like))


def root_is_right(found: Skeleton, ground_truth: Skeleton) -> bool:
    return found.root is not None and np.hypot(*(found.nodes[found.root] - ground_truth.nodes[ground_truth.root])) < 4


if __name__ == "__main__":
    main()
