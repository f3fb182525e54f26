"""Detect leaks between splits: the same plate or the same image in two of training, validation and test."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from treeformer._util.files import sha256
from treeformer._util.text import short_repr
from treeformer.data.folder_dataset import SPLITS, FolderDataset
from treeformer.data.recipe import RECIPE_NAME, read_recipe
from treeformer.errors import TreeformerError


def check_splits(folder: str | os.PathLike[str], *, allow_incomplete: bool = False) -> dict[str, int]:
    """Check a folder data set for leaks and count its images.

    Images show the same plate if their names are equal, or if their names agree in the part that matches the pattern
    `plate` of `dataset.yaml`. Files with the same content are the same image, whatever their names.

    Args:
        folder: the folder of the data set.
        allow_incomplete: as for `FolderDataset`.

    Returns:
        The number of images per split.

    Raises:
        TreeformerError: if two splits share a plate or an image, or the folder has no splits or is incomplete.
    """
    root = Path(folder)
    splits = [split for split in SPLITS if (root / split).is_dir()]
    if not splits:
        raise TreeformerError(f"{root}: has no folder {', '.join(SPLITS)}: nothing to compare")
    images = {
        split: [pair[0] for pair in FolderDataset(root, split, allow_incomplete=allow_incomplete).pairs]
        for split in splits
    }
    check_leaks(images, plate_rule((read_recipe(root) or {}).get("plate"), root / RECIPE_NAME))
    return {split: len(split_images) for split, split_images in images.items()}


def plate_rule(pattern: object, source: Path) -> Callable[[str], str]:
    """Return a function from an image's stem to the name of its plate.

    It is what `pattern`, a regular expression, matches at the beginning of the stem; the whole stem if this is nothing,
    or without a pattern. `source` is the file that contains the pattern, for the error message.

    Example:
        >>> rule = plate_rule("[0-9]+", Path("dataset.yaml"))
        >>> rule("426R"), rule("control")
        ('426', 'control')
    """
    if pattern is None:
        return lambda stem: stem
    if not isinstance(pattern, str):
        raise TreeformerError(f"{source}: plate must be a text, not {short_repr(pattern)}")
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise TreeformerError(f"{source}: plate is not a regular expression ({error})") from None

    def plate(stem: str) -> str:
        match = expression.match(stem)
        return match[0] if match and match[0] else stem

    return plate


def check_leaks(images: Mapping[str, Iterable[Path]], plate: Callable[[str], str] = lambda stem: stem) -> None:
    """Check that no two splits share an image, or a plate, as `plate` derives it from an image's stem."""
    by_plate: dict[str, tuple[str, Path]] = {}
    by_content: dict[str, tuple[str, Path]] = {}
    for split, split_images in images.items():
        for image in split_images:
            name = plate(image.stem)
            other_split, other = by_plate.setdefault(name, (split, image))
            if other_split != split:
                raise TreeformerError(
                    f"the splits leak: {image} ({split}) shows the same plate {name!r} as {other} ({other_split})"
                )
            other_split, other = by_content.setdefault(sha256(image), (split, image))
            if other_split != split:
                raise TreeformerError(
                    f"the splits leak: {image} ({split}) is the same image as {other} ({other_split})"
                )
