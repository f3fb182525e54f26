"""Length of a model's main axes relative to the ground truth, for several values of `min_reach_fraction`.

PYTHONPATH=src python benchmarks/predicted_axes.py --sets osr-roots barley-roots --split train valid
PYTHONPATH=src python benchmarks/predicted_axes.py --sets --synthetic taproot vine --count 10

The first column uses the axes of the prediction, the others one fraction for all plants: 0 follows the straightest
path, as for files without axes, 1 the longest path. The length of all axes of order 0 (the trait `primary_length`,
summed over plants) is divided by that of the ground truth. `TREEFORMER_DATA` is the folder of the public sets.
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
FRACTIONS = (0.0, 0.25, 1 / 3, 0.5, 1.0)

Pair = tuple[Skeleton, Skeleton]


def pairs_of_files(model: Predictor, folder: Path, splits: list[str]) -> Iterator[Pair]:
    """Yield ground truth and prediction of every image with an RSML file of the same name."""
    for image in sorted(path for split in splits for path in (folder / split).rglob("*")):
        ground_truth = image.with_suffix(".rsml")
        if image.suffix.lower() in IMAGE_SUFFIXES and ground_truth.exists():
            yield formats.read(ground_truth), model.predict(image)


def pairs_of_synthetic(model: Predictor, preset: str, count: int) -> Iterator[Pair]:
    """Yield ground truth and prediction of validation images of a preset."""
    style = "paper" if preset == "paper" else "photo"
    for sample in synthetic_set(f"{preset}:{style}:valid", count):
        yield sample.skeleton, model.predict(sample.image)


def primary_length(skeleton: Skeleton) -> float:
    return float(treeformer.measure(skeleton)["primary_length"].sum())


def report(name: str, pairs: Iterator[Pair]) -> None:
    ratios = []
    for ground_truth, found in pairs:
        if not ground_truth.has_explicit_axes:
            raise SystemExit(f"{name}: the ground truth has no axes")
        length = primary_length(ground_truth)
        variants = [found, *(found.infer_axes(fraction) for fraction in FRACTIONS)]
        ratios.append([primary_length(v) / length if len(v) else 0.0 for v in variants])
    if not ratios:
        raise SystemExit(f"{name}: no images with RSML files in {SOURCES}")
    cells = [f"{ratio.mean():.2f}, {np.abs(ratio - 1).mean():.2f}" for ratio in np.array(ratios).T]
    print(f"| {name} | {len(ratios)} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="default")
    parser.add_argument("--sets", nargs="*", default=["osr-roots", "barley-roots"])
    parser.add_argument("--split", nargs="+", default=["test"])
    parser.add_argument("--synthetic", nargs="*", default=[], metavar="PRESET")
    parser.add_argument("--count", type=int, default=10, help="images per synthetic preset")
    options = parser.parse_args()
    model = Predictor(options.model, engine="onnx")
    fractions = " | ".join(f"{fraction:.2f}" for fraction in FRACTIONS)
    print(f"| set | images | as predicted: mean, mean error | fraction {fractions} |")
    print(f"|{' --- |' * (3 + len(FRACTIONS))}")
    for name in options.sets:
        report(f"{name}, {' and '.join(options.split)}", pairs_of_files(model, SOURCES / name, options.split))
    for preset in options.synthetic:
        report(f"synthetic `{preset}`", pairs_of_synthetic(model, preset, options.count))


if __name__ == "__main__":
    main()
