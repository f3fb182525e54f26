"""Images of a domain, as photographs of a certain size, and their measures."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from treeformer import formats
from treeformer.data.folder_dataset import FolderDataset, write_pair
from treeformer.data.prepare import prepare
from treeformer.data.prepare.barley_roots import plate_number
from treeformer.data.synthetic_dataset import SyntheticDataset
from treeformer.finetuning import measuring
from treeformer.finetuning.annotated import AnnotatedImage
from treeformer.inference.predictor import Predictor
from treeformer.metrics import topo
from treeformer.synthetic import SPLITS

DATA = Path(os.environ.get("TREEFORMER_DATA", Path(__file__).parents[3] / "shared" / "data"))
CACHE = Path("/tmp/finetune-cache")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of commands that train on images of a domain and measure others."""
    parser.add_argument("--domain", default="vineyard")
    parser.add_argument("--model", default="default", help="start model, which has not seen the domain")
    parser.add_argument("--parallel", type=int, default=1, help="runs at the same time")
    parser.add_argument("--split", default="valid", help="split of the images to measure: valid or test")
    parser.add_argument("--count", type=int, default=40, help="images to measure")
    parser.add_argument("--side", type=int, default=512, help="side of images and input, px")
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("-o", "--output", type=Path, required=True)


def domain_images(domain: str, split: str, count: int, cache: Path, side: int) -> list[AnnotatedImage]:
    """Return images of a domain, or all if it has fewer. They are rendered or prepared once and kept in the cache.

    Training images of `barley-roots` are one per plate of the split `train`. All others are those of the splits `valid`
    and `test`, which have other plates.
    """
    pairs = (
        _barley(split, cache, side)[:count]
        if domain == "barley-roots"
        else _rendered(domain, split, count, cache, side)
    )
    return _annotated(pairs)


def public_images(name: str, splits: Sequence[str], cache: Path, side: int) -> list[AnnotatedImage]:
    """Return the images of some splits of a public set, prepared at `side` px once and kept in the cache."""
    return _annotated(_public_pairs(name, splits, cache, side))


def _annotated(pairs: Sequence[tuple[Path, Path]]) -> list[AnnotatedImage]:
    images = []
    for image, annotation in pairs:
        skeleton = formats.read(annotation)
        skeleton = skeleton.replace(nodes=np.clip(skeleton.nodes, 0, skeleton.image_size))
        images.append(AnnotatedImage(image, annotation, image.stem, skeleton))
    return images


def _public_pairs(name: str, splits: Sequence[str], cache: Path, side: int) -> list[tuple[Path, Path]]:
    folder = cache / f"{name}-{side}"
    if not (folder / "report.txt").exists():
        prepare(name, DATA / name, folder, size=side)
    return [pair for split in splits for pair in FolderDataset(folder, split).pairs]


def _barley(split: str, cache: Path, side: int) -> list[tuple[Path, Path]]:
    """Return images and skeletons of `barley-roots`, prepared at `side` px."""
    if split != "train":
        return _public_pairs("barley-roots", ("valid", "test"), cache, side)
    plates: dict[str, tuple[Path, Path]] = {}
    for image, annotation in _public_pairs("barley-roots", ("train",), cache, side):
        plates.setdefault(plate_number(image), (image, annotation))
    return list(plates.values())


def _rendered(domain: str, split: str, count: int, cache: Path, side: int) -> list[tuple[Path, Path]]:
    """Return images and skeletons of a preset."""
    folder = cache / f"{domain}-{split}-{side}"
    dataset = SyntheticDataset(SPLITS[split][5000 : 5000 + count], (domain,), ("photo",), (side, side))
    pairs = [(folder / f"{number:03d}.png", folder / f"{number:03d}.json") for number in range(count)]
    for number, (image, annotation) in enumerate(pairs):
        if not annotation.exists():
            sample = dataset[number]
            write_pair(sample.image, sample.skeleton, folder, image.stem)
    return pairs


def measure(predictor: Predictor, images: Sequence[AnnotatedImage]) -> list[dict[str, float]]:
    """Return precision and recall of corrected TOPO per image, in the form that `differences` takes."""
    predictions = measuring.predict_images(predictor, images)
    scores = [topo(found, image.skeleton) for found, image in zip(predictions, images, strict=True)]
    return [{"topo_precision": one.precision, "topo_recall": one.recall, "topo_f1": one.f1} for one in scores]
