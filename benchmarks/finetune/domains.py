"""Images of a domain, as photographs of a certain size, and their measures."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from treeformer import formats
from treeformer.data.datasets import FolderDataset, SyntheticDataset, write_pair
from treeformer.inference.predictor import Predictor
from treeformer.metrics import topo
from treeformer.synthetic import SPLITS
from treeformer.teaching import measuring
from treeformer.teaching.annotated import AnnotatedImage

DATA = Path(os.environ.get("TREEFORMER_DATA", Path(__file__).parents[3] / "shared" / "data"))
CACHE = Path("/tmp/finetune-cache")


def domain_images(domain: str, split: str, count: int, cache: Path, side: int) -> list[AnnotatedImage]:
    """Return images of a domain, rendered or reduced once and kept in the cache."""
    folder = cache / f"{domain}-{split}-{side}"
    if domain == "barley-roots":
        pairs = FolderDataset(DATA / domain, split)
        first = {pair[0].stem.rstrip("R"): index for index, pair in reversed(list(enumerate(pairs.pairs)))}
        indices = sorted(first.values())[:count] if split == "train" else list(range(len(pairs)))[:count]
        load: Callable[[int], object] = lambda number: pairs[indices[number]]  # noqa: E731
        count = min(count, len(indices))
    else:
        synthetic = SyntheticDataset(SPLITS[split][5000 : 5000 + count], (domain,), ("photo",), (side, side))
        load = synthetic.__getitem__
    images = []
    for number in range(count):
        stem = f"{number:03d}"
        if not (folder / f"{stem}.json").exists():
            sample = load(number)
            image, skeleton = sample.image, sample.skeleton  # type: ignore[attr-defined]
            longest = max(image.shape[:2])
            if longest > side:
                reduced = Image.fromarray(image)
                reduced.thumbnail((side, side), Image.Resampling.LANCZOS)
                factor = reduced.size[0] / image.shape[1]
                skeleton = skeleton.transform([[factor, 0, 0], [0, factor, 0]], image_size=reduced.size)
                image = np.asarray(reduced)
            write_pair(image, skeleton, folder, stem)
        skeleton = formats.read(folder / f"{stem}.json")
        skeleton = skeleton.replace(nodes=np.clip(skeleton.nodes, 0, skeleton.image_size))
        images.append(AnnotatedImage(folder / f"{stem}.png", folder / f"{stem}.json", stem, skeleton))
    return images


def measure(predictor: Predictor, images: Sequence[AnnotatedImage]) -> list[dict[str, float]]:
    """Return precision and recall of corrected TOPO per image, in the form that `differences` takes."""
    predictions = measuring.predict_images(predictor, images)
    scores = [topo(found, image.skeleton) for found, image in zip(predictions, images, strict=True)]
    return [{"topo_precision": one.precision, "topo_recall": one.recall, "topo_f1": one.f1} for one in scores]
