"""How long a model's main axes are, beside the true ones, by the share of the farthest way that an axis must lead.

PYTHONPATH=src python benchmarks/predicted_axes.py --sets osr-roots barley-roots --split train valid
PYTHONPATH=src python benchmarks/predicted_axes.py --sets --synthetic taproot vine --count 10

First with the axes that the prediction has, then with one share for all: 0 is the rule for files without axes, the
straightest way; 1 is the longest way. Of each image the length of all axes of order 0 (the trait `primary_length`,
summed over plants) is divided by that of the ground truth, whose axes were given by hand or by a grammar. `TREEFORMER_DATA`
names the folder of the public sets.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import treeformer
from treeformer import formats
from treeformer._util.images import IMAGE_SUFFIXES
from treeformer.inference.evaluate import synthetic_set
from treeformer.inference.predictor import Predictor
from treeformer.skeleton import Skeleton

SOURCES = Path(os.environ.get("TREEFORMER_DATA", Path(__file__).parents[2] / "shared" / "data"))
SHARES = (0.0, 0.25, 1 / 3, 0.5, 1.0)

Pair = tuple[Skeleton, Skeleton]


def pairs_of_files(model: Predictor, folder: Path, splits: list[str]) -> Iterator[Pair]:
    """True and predicted skeleton of every image that has its RSML beside it."""
    for image in sorted(path for split in splits for path in (folder / split).rglob("*")):
        ground_truth = image.with_suffix(".rsml")
        if image.suffix.lower() in IMAGE_SUFFIXES and ground_truth.exists():
            yield formats.read(ground_truth), model.predict(image)


def pairs_of_synthetic(model: Predictor, preset: str, count: int) -> Iterator[Pair]:
    """The same of rendered images, of those seeds that nothing is trained or tested on."""
    style = "paper" if preset == "paper" else "photo"
    for sample in synthetic_set(f"{preset}:{style}:valid", count):
        yield sample.skeleton, model.predict(sample.image)


def primary_length(skeleton: Skeleton) -> float:
    return float(treeformer.measure(skeleton)["primary_length"].sum())


def report(name: str, pairs: Iterator[Pair]) -> None:
    ratios = []
    for ground_truth, found in pairs:
        if not ground_truth.has_explicit_axes:
            raise SystemExit(f"{name}: its ground truth has no axes")
        length = primary_length(ground_truth)
        ways = [found, *(found.infer_axes(share) for share in SHARES)]
        ratios.append([primary_length(one) / length if len(one) else 0.0 for one in ways])
    if not ratios:
        raise SystemExit(f"{name}: no images with RSML beside them in {SOURCES}")
    cells = [f"{one.mean():.2f}, {np.abs(one - 1).mean():.2f}" for one in np.array(ratios).T]
    print(f"| {name} | {len(ratios)} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="default")
    parser.add_argument("--sets", nargs="*", default=["osr-roots", "barley-roots"])
    parser.add_argument("--split", nargs="+", default=["test"])
    parser.add_argument("--synthetic", nargs="*", default=[], metavar="PRESET")
    parser.add_argument("--count", type=int, default=10, help="images of each synthetic preset")
    options = parser.parse_args()
    model = Predictor(options.model, engine="onnx")
    shares = " | ".join(f"{share:.2f}" for share in SHARES)
    print(f"| set | images | as predicted: mean, mean error | share {shares} |")
    print(f"|{' --- |' * (3 + len(SHARES))}")
    for name in options.sets:
        report(f"{name}, {' and '.join(options.split)}", pairs_of_files(model, SOURCES / name, options.split))
    for preset in options.synthetic:
        report(f"synthetic `{preset}`", pairs_of_synthetic(model, preset, options.count))


if __name__ == "__main__":
    main()
