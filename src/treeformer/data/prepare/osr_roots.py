"""osr-roots: oilseed rape on blue paper, one plant per image, a primary root with its laterals (RootNav 2.0)."""

from __future__ import annotations

from pathlib import Path

from treeformer.data.folder_dataset import SPLITS, find_pairs
from treeformer.data.prepare.public_set import PublicSet, SourceImage
from treeformer.data.sample import Skipped


def find(source: Path) -> tuple[list[SourceImage], list[Skipped]]:
    """Find the images in the folders `train`, `valid` and `test`, and files without a partner.

    Each image shows a plate of its own.
    """
    images: list[SourceImage] = []
    skipped: list[Skipped] = []
    for split in SPLITS:
        if (source / split).is_dir():
            pairs, unpaired = find_pairs(source / split, f"{split}/")
            images += [SourceImage(image, annotation, split) for image, annotation in pairs]
            skipped += unpaired
    return images, skipped


OSR_ROOTS = PublicSet(
    name="osr-roots",
    license="BSD-3-Clause",
    size=1024,  # of 2,500: the finest laterals, 3 px wide, become just over 1 px wide
    spacing_px=8.0,
    find=find,
)
