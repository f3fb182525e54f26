"""branch-trees: whole trees at 512×512 px, coarsely annotated with the trunk and main branches.

The data set is meant for pre-training, so it has no test split.
"""

from __future__ import annotations

import re
from pathlib import Path

from treeformer.data.folder_dataset import find_pairs
from treeformer.data.prepare.public_set import PublicSet, SourceImage
from treeformer.data.sample import Skipped

# Every tenth image is used for validation.
VALIDATION_EVERY = 10


def find(source: Path) -> tuple[list[SourceImage], list[Skipped]]:
    """Find the images, which are all in one folder, and files without a partner.

    In numerical order, every tenth is used for validation.
    """
    pairs, skipped = find_pairs(source)
    pairs.sort(key=lambda pair: (_number(pair[0]), pair[0].name))
    return [
        SourceImage(image, annotation, "valid" if rank % VALIDATION_EVERY == VALIDATION_EVERY - 1 else "train")
        for rank, (image, annotation) in enumerate(pairs)
    ], skipped


def _number(image: Path) -> int:
    digits = re.search(r"\d+", image.stem)
    return int(digits[0]) if digits else -1


BRANCH_TREES = PublicSet(
    name="branch-trees",
    license="CreativeML Open RAIL++-M",
    size=512,
    spacing_px=8.0,
    find=find,
)
