"""single-guyot: grapevines before pruning, the 3D2cut Single Guyot data set, with its own folders and splits.

The paper trains on 1,185 images, validates on 63 and tests on 255, at half of 1008×756 px. The test images have their
own folder. The validation images are not published; every twentieth by name is used (63 of 1,248). The annotated nodes
are kept, as in the paper, because they mark buds and cuts.
"""

from __future__ import annotations

from pathlib import Path

from treeformer.data.folder_dataset import find_pairs
from treeformer.data.prepare.public_set import PublicSet, SourceImage
from treeformer.data.sample import Skipped
from treeformer.errors import TreeformerError

TRAINING, TEST = "01-TrainAndValidationSet", "02-IndependentTestSet"
VALIDATION_EVERY = 20


def find(source: Path) -> tuple[list[SourceImage], list[Skipped]]:
    """Find the images NAME.jpeg with NAME_annotation.json in two folders, and files without a partner."""
    if not (source / TRAINING).is_dir():
        raise TreeformerError(f"{source}: has no folder {TRAINING}; expected the 3D2cut Single Guyot data set")
    pairs, skipped = find_pairs(source / TRAINING, f"{TRAINING}/")
    images = [
        SourceImage(image, annotation, "train" if rank % VALIDATION_EVERY else "valid")
        for rank, (image, annotation) in enumerate(pairs)
    ]
    if (source / TEST).is_dir():
        pairs, unpaired = find_pairs(source / TEST, f"{TEST}/")
        images += [SourceImage(image, annotation, "test") for image, annotation in pairs]
        skipped += unpaired
    return images, skipped


SINGLE_GUYOT = PublicSet(
    name="single-guyot",
    license="CC BY-NC-SA 4.0",
    size=504,
    spacing_px=0.0,
    find=find,
    has_lines=False,
)
