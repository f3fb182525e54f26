"""branch-trees: whole trees, 512×512, a trunk and its main branches, coarse: for pre-training, so without a test."""

from __future__ import annotations

import re
from pathlib import Path

from treeformer.data.datasets import Skipped, find_pairs
from treeformer.data.prepare.public_set import PublicSet, SourceImage

# Every tenth image is for validation.
VALIDATION_EVERY = 10


def find(source: Path) -> tuple[list[SourceImage], list[Skipped]]:
    """All images lie in one folder; in order of number, every tenth goes to `valid`, none to `test`."""
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
