"""Compare the working size chosen per image with fixed sizes, on validation images.

PYTHONPATH=src python benchmarks/auto_scale.py default                   200 renders rescaled by 0.5 to 4, real sets
PYTHONPATH=src python benchmarks/auto_scale.py default --renders 40 --images 5 --sizes 512 1024
PYTHONPATH=src python benchmarks/auto_scale.py default --signal               the measured scale of every image

Renders have seeds of the split `valid`, which the test protocol does not use. The public sets are read from the folder
in TREEFORMER_DATA in their published size (osr-roots 2,500 px, barley-roots about 1,540 px), and left out if missing.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.protocol.sets import PUBLISHED_SIZE, TestSet

from treeformer import synthetic
from treeformer.data import Sample
from treeformer.errors import TreeformerError
from treeformer.inference.auto_scale import measure_scale
from treeformer.inference.predictor import Predictor
from treeformer.metrics import topo, topo_paper
from treeformer.skeleton import Skeleton

PRESETS = ("taproot", "seedling", "several", "vine", "orchard", "plate")
KINDS = (("paper", "paper"), ("paper", "photo"), *((preset, "photo") for preset in PRESETS))
FACTORS = (0.5, 0.71, 1.0, 1.41, 2.0, 2.83, 4.0)
FIRST_SEED = 100  # of the split; the first ones are used to calibrate edge scores
SIDE = 512
# A base is right if it is within this fraction of the longer side of the true one.
BASE_REACH = 0.05


class Row(NamedTuple):
    """Figures of one image at one size.

    Attributes:
        paper: TOPO F1 as in the paper's code.
        corrected: TOPO F1, corrected.
        length: predicted length over true length.
        bases: fraction of the plants with a predicted root near the true one.
        size: working size, px.
    """

    paper: float
    corrected: float
    length: float
    bases: float
    size: int


def renders(count: int) -> Iterator[Sample]:
    """Yield rendered validation images of all presets, rescaled by factors from 0.5 to 4."""
    for number in range(count):
        preset, style = KINDS[number % len(KINDS)]
        seed = synthetic.SPLITS["valid"][FIRST_SEED + number]
        image, skeleton = synthetic.make_image(preset, style, seed)
        factor = FACTORS[(number // len(KINDS) + number) % len(FACTORS)]
        side = round(SIDE * factor)
        resample = Image.Resampling.BICUBIC if factor > 1 else Image.Resampling.LANCZOS
        pixels = np.asarray(Image.fromarray(image).resize((side, side), resample))
        scale = side / SIDE
        moved = skeleton.transform([[scale, 0, 0], [0, scale, 0]], image_size=(side, side))
        yield Sample(pixels, moved, f"{preset}-{style}-{seed} x{factor}")


def real(name: str, splits: Sequence[str], count: int) -> Iterator[Sample]:
    """Yield the first images of splits of a public set in their published size.

    Args:
        name: the public set.
        splits: `valid` or `train`.
        count: largest number of images per split.

    Yields:
        The images.
    """
    for split in splits:
        dataset = TestSet("", public_set=name, size=PUBLISHED_SIZE, split=split).open()
        for index in range(min(count, len(dataset))):
            loaded = dataset.load(index)
            if isinstance(loaded, Sample):
                yield loaded


def judge(predictor: Predictor, sample: Sample, size: int | str) -> Row:
    """Predict one image at one size and compare it with the ground truth.

    Args:
        predictor: the model.
        sample: the image with its skeleton.
        size: working size, px, or "auto".

    Returns:
        The figures.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = predictor.predict(sample.image, working_size=size)  # type: ignore[arg-type]
    expected = sample.skeleton
    used = found.metadata["prediction"].get("chosen_working_size", size)
    return Row(
        topo_paper(found, expected).f1,
        topo(found, expected).f1,
        found.length / expected.length,
        bases(found, expected),
        int(used),
    )


def bases(found: Skeleton, ground_truth: Skeleton) -> float:
    """Return the fraction of true roots with a predicted root within 5 % of the longer side."""
    roots, expected = found.nodes[found.component_root], ground_truth.nodes[ground_truth.component_root]
    if not len(roots):
        return 0.0
    distance = np.hypot(*(expected[:, None] - roots).transpose(2, 0, 1)).min(axis=1)
    return float((distance <= BASE_REACH * max(ground_truth.image_size or (SIDE,))).mean())


def table(rows: dict[str, dict[int | str, list[Row]]]) -> str:
    """Return the table: one row per set and size, with the figures of `auto` on the same images beside it."""
    lines = [
        "| set | working size | images | TOPO F1 (paper) | TOPO F1, corrected | median error of length | bases right "
        "| auto minus this: paper, corrected |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, by_size in rows.items():
        for size, found in by_size.items():
            values = np.array([row[:4] for row in found])
            error = np.median(np.abs(values[:, 2] - 1))
            auto = np.array([row[:2] for row in by_size["auto"][: len(found)]])
            ahead = ", ".join(f"{value:+.3f}" for value in (auto - values[:, :2]).mean(axis=0))
            chosen = sorted({row.size for row in found})
            shown = f"auto ({', '.join(map(str, chosen))})" if size == "auto" else f"{size}"
            paper, corrected, _, right = values.mean(axis=0)
            lines.append(
                f"| {name} | {shown} | {len(found)} | {paper:.3f} | {corrected:.3f} | {error:.1%} | {right:.3f} "
                f"| {'' if size == 'auto' else ahead} |"
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", default="default", help="model folder or name, with a scale rule")
    parser.add_argument("--renders", type=int, default=200)
    parser.add_argument("--images", type=int, default=100, help="images per split of each real set")
    parser.add_argument("--splits", nargs="+", default=["valid"], choices=("valid", "train"))
    parser.add_argument("--sizes", nargs="+", type=int, default=[512, 1024, 2048])
    parser.add_argument("--threads", type=int)
    parser.add_argument("--signal", action="store_true", help="print what the first pass measures instead")
    arguments = parser.parse_args()
    predictor = Predictor(arguments.model, threads=arguments.threads)
    run(predictor, arguments)


def run(predictor: Predictor, arguments: argparse.Namespace) -> None:
    """Measure all sets and print the table."""
    sets = {"renders, rescaled": renders(arguments.renders)}
    sets |= {name: real(name, arguments.splits, arguments.images) for name in ("osr-roots", "barley-roots")}
    rows: dict[str, dict[int | str, list[Row]]] = {}
    for name, samples in sets.items():
        try:
            for sample in samples:
                if arguments.signal:
                    print(f"{sample.name}: {_signal(predictor, sample):.2f} px", flush=True)
                    continue
                for size in ("auto", *arguments.sizes):
                    rows.setdefault(name, {}).setdefault(size, []).append(judge(predictor, sample, size))
        except TreeformerError as error:
            print(f"{name}: {error}", file=sys.stderr)
    if not arguments.signal:
        print(table(rows))


def _signal(predictor: Predictor, sample: Sample) -> float:
    """Return what the first pass measures, px of the input."""
    rule = predictor.model.config.scale_rule
    if rule is None:
        raise TreeformerError("the model has no scale rule")
    size = predictor.engine.input_size
    found = predictor.predict(sample.image, working_size=size)
    return measure_scale(found, rule.signal) * size / max(found.image_size or (size,))


if __name__ == "__main__":
    main()
