"""single-guyot: grapevines before pruning, the 3D2cut Single Guyot set, in its own folders and split.

The paper trains on 1,185 images, validates on 63 and tests on 255, at half the size of 1008×756. The test images
have their own folder; which images are for validation is not published, so every twentieth by name is taken
(63 of 1,248). Nodes stay those of the annotation, as in the paper: they stand where buds and cuts are.
"""

from __future__ import annotations

from pathlib import Path

from treeformer.data.datasets import Skipped, find_pairs
from treeformer.data.prepare.public_set import PublicSet, SourceImage
from treeformer.errors import TreeformerError

TRAINING, TEST = "01-TrainAndValidationSet", "02-IndependentTestSet"
VALIDATION_EVERY = 20


def find(source: Path) -> tuple[list[SourceImage], list[Skipped]]:
    """Images NAME.jpeg with NAME_annotation.json, in the two folders of the set."""
    if not (source / TRAINING).is_dir():
        raise TreeformerError(f"{source}: no folder {TRAINING} in it: is it the 3D2cut Single Guyot set?")
    pairs, skipped = find_pairs(source / TRAINING, f"{TRAINING}/")
    found = [
        SourceImage(image, annotation, "train" if rank % VALIDATION_EVERY else "valid")
        for rank, (image, annotation) in enumerate(pairs)
    ]
    if (source / TEST).is_dir():
        pairs, alone = find_pairs(source / TEST, f"{TEST}/")
        found += [SourceImage(image, annotation, "test") for image, annotation in pairs]
        skipped += alone
    return found, skipped


SINGLE_GUYOT = PublicSet(
    name="single-guyot",
    license="CC BY-NC-SA 4.0",
    size=504,
    spacing_px=0.0,
    find=find,
    has_lines=False,
)
