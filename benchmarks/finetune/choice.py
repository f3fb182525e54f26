"""`choice` asks whether `treeformer next` names the images on which the model is worst."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from benchmarks.finetune.domains import CACHE, domain_images
from PIL import Image

from treeformer.finetuning import measuring, next_images
from treeformer.finetuning.annotated import AnnotatedImage
from treeformer.inference.predictor import Predictor
from treeformer.metrics import correct_edges, topo
from treeformer.skeleton import Skeleton


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--domain", nargs="+", default=["orchard-row", "vineyard"])
    parser.add_argument("--model", default="default", help="the model, which has not seen the domains")
    parser.add_argument("--side", type=int, default=512)
    parser.add_argument("--test-images", type=int, default=12)
    parser.add_argument("--cache", type=Path, default=CACHE)


def main(args: argparse.Namespace) -> None:
    """Print one row per domain."""
    print("| set | images | correlation | expected wrong | wrong | F1 of the first third | F1 of all |")
    print("|" + " --- |" * 7)
    for domain in args.domain:
        print(choice(domain, args.model, args.test_images, args.cache, args.side), flush=True)


def ranked(predictions: Sequence[Skeleton], images: Sequence[AnnotatedImage]) -> list[tuple[int, float]]:
    """Return index and expected number of wrong edges of the images, in the order of `treeformer next`."""
    doubts = [next_images.uncertainty(found) for found in predictions]
    features = [next_images.image_features(Image.open(image.path)) for image in images]
    return [(index, doubts[index]) for index, _, _ in next_images.rank(features, doubts)]


def choice(domain: str, model: str, count: int, cache: Path, side: int) -> str:
    """Return one row: does the order of `treeformer next` put the worst images first?"""
    from scipy.stats import spearmanr  # the import takes a second

    test = domain_images(domain, "test", count, cache, side)
    predictions = measuring.predict_images(Predictor(model), test)
    wrong = [float((~correct_edges(p, i.skeleton)).sum()) for p, i in zip(predictions, test, strict=True)]
    f1 = [topo(p, i.skeleton).f1 for p, i in zip(predictions, test, strict=True)]
    order = ranked(predictions, test)
    expected = dict(order)
    doubts = [np.nan_to_num(expected[index]) for index in range(len(test))]
    correlation = spearmanr(doubts, wrong).statistic
    first = [f1[index] for index, _ in order[: max(1, len(order) // 3)]]
    means = f"{np.mean(first):.3f} | {np.mean(f1):.3f}"
    return f"| {domain} | {len(test)} | {correlation:+.2f} | {sum(doubts):.0f} | {sum(wrong):.0f} | {means} |"
