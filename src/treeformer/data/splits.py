"""A split that leaks: the same plate, or the very same image, in two of training, validation and test."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from treeformer.data.datasets import SPLITS, FolderDataset
from treeformer.data.recipe import RECIPE_NAME, read_recipe
from treeformer.errors import TreeformerError


def check_splits(folder: str | os.PathLike[str]) -> dict[str, int]:
    """The number of images in each split of a folder data set; an error names both files where two splits leak.

    Images of the same name are of one plate, and so are those whose names agree in what the pattern `plate` of
    `dataset.yaml` matches, if there is one. Files with the same content are one image, whatever their names.
    """
    root = Path(folder)
    there = [split for split in SPLITS if (root / split).is_dir()]
    if not there:
        raise TreeformerError(f"{root}: no folder {', '.join(SPLITS)} in it: there is nothing to compare")
    images = {split: [pair[0] for pair in FolderDataset(root, split).pairs] for split in there}
    check_leaks(images, plate_rule((read_recipe(root) or {}).get("plate"), root / RECIPE_NAME))
    return {split: len(of_split) for split, of_split in images.items()}


def plate_rule(pattern: object, source: Path) -> Callable[[str], str]:
    """From an image's stem to its plate: the part a regular expression matches at its beginning, all without one.

    >>> rule = plate_rule("[0-9]+", Path("dataset.yaml"))
    >>> rule("426R"), rule("control")
    ('426', 'control')
    """
    if pattern is None:
        return lambda stem: stem
    try:
        expression = re.compile(str(pattern))
    except re.error as error:
        raise TreeformerError(f"{source}: plate is no regular expression ({error})") from None

    def plate(stem: str) -> str:
        found = expression.match(stem)
        return found[0] if found else stem

    return plate


def check_leaks(images: Mapping[str, Iterable[Path]], plate: Callable[[str], str] = lambda stem: stem) -> None:
    """An error that names both files where two splits share a plate or an image's content.

    images: the image files of each split; plate: from an image's stem to its plate.
    """
    seen_plate: dict[str, tuple[str, Path]] = {}
    seen_content: dict[bytes, tuple[str, Path]] = {}
    for split, of_split in images.items():
        for image in of_split:
            name = plate(image.stem)
            other_split, other = seen_plate.setdefault(name, (split, image))
            if other_split != split:
                raise TreeformerError(
                    f"the splits leak: {image} ({split}) is of the same plate {name!r} as {other} ({other_split})"
                )
            other_split, other = seen_content.setdefault(_content(image), (split, image))
            if other_split != split:
                raise TreeformerError(
                    f"the splits leak: {image} ({split}) is the same image as {other} ({other_split})"
                )


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError as error:
        raise TreeformerError(f"{path}: cannot be read ({error.strerror})") from None
