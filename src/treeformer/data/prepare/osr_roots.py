"""osr-roots: oilseed rape on blue paper, one plant an image, a primary root with its laterals (RootNav 2.0)."""

from __future__ import annotations

from pathlib import Path

from treeformer.data.datasets import SPLITS, Skipped, find_pairs
from treeformer.data.prepare.public_set import PublicSet, SourceImage


def find(source: Path) -> tuple[list[SourceImage], list[Skipped]]:
    """The set comes in three folders; each image is a plate of its own."""
    found: list[SourceImage] = []
    skipped: list[Skipped] = []
    for split in SPLITS:
        if (source / split).is_dir():
            pairs, alone = find_pairs(source / split, f"{split}/")
            found += [SourceImage(image, annotation, split) for image, annotation in pairs]
            skipped += alone
    return found, skipped


OSR_ROOTS = PublicSet(
    name="osr-roots",
    license="BSD-3-Clause",
    size=1024,  # of 2,500: the finest laterals, 3 px across, are then just above a pixel
    spacing_px=8.0,
    find=find,
)
