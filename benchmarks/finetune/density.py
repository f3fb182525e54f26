"""`density` counts the nodes per input, and what a limit of nodes does to the scale of training views."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from benchmarks.finetune.domains import DATA

from treeformer import synthetic
from treeformer.data.augmentation import STRONG
from treeformer.data.folder_dataset import FolderDataset
from treeformer.data.sample import OpenedSample
from treeformer.data.synthetic_dataset import SyntheticDataset
from treeformer.data.view import Source, View, draw_cropped_view, draw_view
from treeformer.synthetic import SPLITS

GRID_PX = 44.0


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--domain", nargs="+", default=["orchard-row", "vineyard"])
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--limits", type=int, nargs="+", default=[144, 440])


def main(args: argparse.Namespace) -> None:
    """Print one row per domain."""
    limits = " | ".join(f"views above {n} nodes | median scale" for n in args.limits)
    print(f"| set | images | nodes | most | ceiling, 192 tokens | 448 tokens | {limits} |")
    print("|" + " --- |" * (6 + 2 * len(args.limits)))
    for domain in args.domain:
        print(density(domain, args.count, args.limits), flush=True)


def density(domain: str, count: int, limits: Sequence[int], side: int = 512) -> str:
    """Return one row: nodes per input, token ceilings, and the scale of training views under limits of nodes."""
    if domain in synthetic.PRESETS:
        skeletons = [synthetic.generate(domain, SPLITS["train"][6000 + n], size=(side, side)) for n in range(count)]
    else:
        folder = FolderDataset(DATA / domain, "train" if (DATA / domain / "train").is_dir() else None)
        skeletons = [folder[n].skeleton for n in range(0, len(folder), max(1, len(folder) // count))][:count]
    whole = []
    for skeleton in skeletons:
        factor = side / max(skeleton.image_size or (side, side))
        size = tuple(round(factor * one) for one in skeleton.image_size or (side, side))
        whole.append(skeleton.transform([[factor, 0, 0], [0, factor, 0]], image_size=(size[0], size[1])))
    nodes = np.array([len(one.sample_at_grid_crossings(GRID_PX)) for one in whole])
    ceilings = [np.mean(np.minimum(nodes, tokens) / np.maximum(nodes, 1)) for tokens in (192, 448)]
    cells = [f"{nodes.mean():.0f}", f"{nodes.max()}", *(f"{ceiling:.2f}" for ceiling in ceilings)]
    for limit in limits:
        zooms, above = [], 0
        for number, skeleton in enumerate(whole):
            source = Source(SyntheticDataset(range(1)), (0,), 1.0, replace(STRONG, frame=(side, side)), 0.0, GRID_PX)
            opened = OpenedSample(skeleton, str(number), lambda: np.zeros((side, side, 3), np.uint8))
            first = draw_view(source, opened, np.random.default_rng(number), (side, side))
            above += len(first.skeleton) > limit
            view = draw_cropped_view(source, opened, np.random.default_rng(number), (side, side), limit)
            if isinstance(view, View) and view.affine is not None:
                zooms.append(float(np.sqrt(abs(np.linalg.det(view.affine[:, :2])))))
        cells += [f"{above / len(whole):.0%}", f"{np.median(zooms):.2f}" if zooms else ""]
    return f"| {domain} | {len(whole)} | " + " | ".join(cells) + " |"
