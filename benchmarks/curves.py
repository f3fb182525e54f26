"""Measure how well curves follow plants whose nodes lie at grid crossings, if the map of center lines is perfect.

PYTHONPATH=src python benchmarks/curves.py --presets vine taproot plate orchard --count 10

Distances are those of places along the true curves, every px, from the edges of the skeleton: median, 95th and 99th
percentile over all plants. "ms" is the processor time of `treeformer.decoding.curves.bend` per image.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch

from treeformer import Skeleton, synthetic
from treeformer._util.geometry import project_onto_segments
from treeformer.decoding.curves import bend
from treeformer.decoding.line_map import LineTile, along_edges
from treeformer.nn.center_line import LINE_STRIDE, in_bytes, line_pieces, line_targets

EVERYWHERE = (-np.inf, -np.inf, np.inf, np.inf)


def perfect_map(plant: Skeleton, side: int) -> LineTile:
    """Return the ground truth of the map as a tile."""
    pieces = torch.from_numpy(line_pieces(plant, 20_000))[None]
    presence, tangent, _ = line_targets(pieces, side // LINE_STRIDE, side // LINE_STRIDE)
    lines = torch.cat([presence[:, None].clamp(1e-6, 1 - 1e-6).logit(), tangent], dim=1)
    return LineTile.of(in_bytes(lines)[0].numpy(), (side, side), (0, 0), EVERYWHERE)


def distances(plant: Skeleton, found: Skeleton) -> np.ndarray:
    """Return the distances of places along a plant from the edges of a skeleton."""
    _, place = along_edges(plant.resample(1.0))
    begin, end = found.nodes[found.edges].transpose(1, 0, 2)
    parts = np.array_split(place, max(1, len(place) // 1000))
    return np.concatenate([project_onto_segments(part[:, None], begin, end)[1].min(axis=1) for part in parts])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--presets", nargs="+", default=["vine", "taproot", "plate", "orchard"])
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--side", type=int, default=512)
    parser.add_argument("--grid", type=float, default=44.0, help="spacing of the grid, px")
    arguments = parser.parse_args()
    print("| preset | skeleton | nodes | median, px | 95 %, px | 99 %, px | ms |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for preset in arguments.presets:
        rows: dict[str, list[tuple[np.ndarray, int, float]]] = {"straight edges": [], "curves": []}
        for seed in range(arguments.count):
            plant = synthetic.generate(preset, seed, size=(arguments.side, arguments.side))
            bare = plant.sample_at_grid_crossings(arguments.grid)
            straight = Skeleton(bare.nodes, bare.edges, root=bare.roots, image_size=bare.image_size)
            tile = perfect_map(plant, arguments.side)
            began = time.process_time()
            curved = bend(straight, [tile], np.ones(2))
            spent = time.process_time() - began
            rows["straight edges"].append((distances(plant, straight), len(straight), 0.0))
            rows["curves"].append((distances(plant, curved), len(curved), 1e3 * spent))
        for name, found in rows.items():
            middle, high, highest = np.percentile(np.concatenate([row[0] for row in found]), [50, 95, 99])
            nodes, spent = (np.mean([row[column] for row in found]) for column in (1, 2))
            print(f"| {preset} | {name} | {nodes:.0f} | {middle:.2f} | {high:.2f} | {highest:.2f} | {spent:.1f} |")


if __name__ == "__main__":
    main()
