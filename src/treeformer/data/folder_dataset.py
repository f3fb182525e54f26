"""A data set in a folder: images, each with a skeleton file next to it."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any, Literal

import numpy as np
from PIL import Image

from treeformer import formats
from treeformer._util.arrays import ImageArray
from treeformer._util.files import atomic_write_bytes
from treeformer._util.image_output import encode_image
from treeformer._util.images import open_image
from treeformer.data.recipe import check_complete
from treeformer.data.sample import OpenedSample, Sample, Skipped
from treeformer.errors import TreeformerError
from treeformer.results import ChoiceWarning
from treeformer.results.item import Item, Origin, Reader, origin_of
from treeformer.results.layout import groups
from treeformer.results.policy import why_not_learned_from
from treeformer.skeleton import Skeleton

SPLITS = ("train", "valid", "test")

# Programs disagree by half a pixel about the origin of an image. Nodes this far outside are moved to the border.
BORDER_TOLERANCE_PX = 1.0
# Photographs hardly compress: level 6 takes 3 times as long as level 1 and saves 5 % of the size.
PNG_LEVEL = 1
JPEG_QUALITY = 92
ImageSuffix = Literal["png", "jpg"]
"""File types in which images are written."""


class FolderDataset:
    """The images of a folder, sorted by name, each with one skeleton file of the same stem in any known format.

    Predictions that were not corrected are no ground truth, nor are corrections that were not accepted: their
    samples are skipped.

    Args:
        path: the folder.
        split: its sub-folder `train`, `valid` or `test`; None if the folder itself contains the images.
        allow_incomplete: also open a folder that `treeformer generate` or `treeformer prepare` has not finished.
        include_unaccepted: use corrections that were not accepted, too.

    Attributes:
        path: the folder.
        split: the split, or None.
        folder: the folder that contains the images.
        pairs: image and skeleton file of each sample.
        include_unaccepted: as given.
        skipped: files without a partner, or with several.

    Raises:
        TreeformerError: if the folder or the split does not exist, is incomplete, or contains no pair of files.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        split: str | None = None,
        *,
        allow_incomplete: bool = False,
        include_unaccepted: bool = False,
    ) -> None:
        self.path, self.split, self.include_unaccepted = Path(path), split, include_unaccepted
        self.folder = _split_folder(self.path, split)
        if not allow_incomplete:
            check_complete(self.folder, may_be_part=self.folder.absolute().name in SPLITS)
        self.pairs, self.skipped = find_pairs(self.folder, prefix=f"{split}/" if split else "")
        if not self.pairs:
            reason = f": {self.skipped[0].reason}" if self.skipped else ""
            raise TreeformerError(f"{self.folder}: no image with a skeleton file of the same name{reason}")
        if line := Reader().choices(Item(image, image.with_suffix("")) for image, _ in self.pairs):
            warnings.warn(line, ChoiceWarning, stacklevel=2)

    def __len__(self) -> int:
        return len(self.pairs)

    def __repr__(self) -> str:
        return f"<FolderDataset {self.folder}: {len(self)} images>"

    def name(self, index: int) -> str:
        """Return the name of an image within the data set, such as `train/0001.png`."""
        image = self.pairs[index][0]
        return f"{self.split}/{image.name}" if self.split else image.name

    def __getitem__(self, index: int) -> Sample:
        image, skeleton_file = self.pairs[index]
        skeleton = self._read(skeleton_file)
        opened = open_image(image)
        fitted = fit_to_image(skeleton, opened.size, skeleton_file, image.name)
        return Sample(np.array(opened), fitted, self.name(index))

    def _read(self, file: Path) -> Skeleton:
        """Read a skeleton; raise `TreeformerError` if it is no ground truth."""
        skeleton = formats.read(file)
        if reason := why_not_learned_from(origin_of(skeleton), self.include_unaccepted):
            raise TreeformerError(f"{file}: {reason}")
        return skeleton

    def load(self, index: int) -> Sample | Skipped:
        """Return a sample, or the reason why it cannot be used."""
        try:
            return self[index]
        except TreeformerError as error:
            return Skipped(self.name(index), _reason(error, self.pairs[index][1]))

    def open(self, index: int) -> OpenedSample | Skipped:
        """Return a sample without its image if the skeleton file states the image size, otherwise with it.

        Its name is the path of the image, because training mixes folders with images of the same names.
        """
        image_file, skeleton_file = self.pairs[index]
        name = str(image_file)
        try:
            skeleton = self._read(skeleton_file)
            if skeleton.image_size is None:
                opened = open_image(image_file)
                fitted = fit_to_image(skeleton, opened.size, skeleton_file, image_file.name)
                return OpenedSample.of(Sample(np.array(opened), fitted, name))
            fitted = fit_to_image(skeleton, skeleton.image_size, skeleton_file, image_file.name)
        except TreeformerError as error:
            return Skipped(name, _reason(error, skeleton_file))

        def read_image() -> ImageArray:
            image = open_image(image_file)
            fit_to_image(fitted, image.size, skeleton_file, image_file.name)
            return np.array(image)

        return OpenedSample(fitted, name, read_image)


def _reason(error: TreeformerError, skeleton_file: Path) -> str:
    """Return the message of an error with the path of the skeleton. Readers state its name, as other folders have."""
    text, beginning = str(error), f"{skeleton_file.name}: "
    return f"{skeleton_file}: {text.removeprefix(beginning)}" if text.startswith(beginning) else text


def write_pair(image: ImageArray, skeleton: Skeleton, folder: Path, stem: str, *, suffix: ImageSuffix = "png") -> None:
    """Write an image and its ground truth as native JSON next to it. Both files are written atomically.

    The skeleton is written last, so that its presence means that the pair is complete.
    """
    name = f"{stem}.{suffix}"
    options: dict[str, Any] = {"quality": JPEG_QUALITY} if suffix == "jpg" else {"compress_level": PNG_LEVEL}
    if origin_of(skeleton) not in (Origin.accepted, Origin.annotation):  # the caller says that it is ground truth
        skeleton = skeleton.replace(metadata={**skeleton.metadata, "editor": {"accepted": True}})
    atomic_write_bytes(folder / name, encode_image(Image.fromarray(image), f".{suffix}", **options))
    formats.write(skeleton.replace(image_name=name), folder / f"{stem}.json")


def has_pair(folder: Path, stem: str, *, suffix: ImageSuffix = "png") -> bool:
    """Return True if `write_pair` has written both files."""
    return (folder / f"{stem}.{suffix}").is_file() and (folder / f"{stem}.json").is_file()


def fit_to_image(skeleton: Skeleton, size: tuple[int, int], skeleton_file: Path, image_name: str) -> Skeleton:
    """Check that a skeleton belongs to an image, and set its image size and name.

    Nodes up to `BORDER_TOLERANCE_PX` outside the image are moved to its border.
    """
    width, height = size
    if skeleton.image_size not in (None, size):
        other_width, other_height = skeleton.image_size
        raise TreeformerError(
            f"{skeleton_file}: belongs to an image of {other_width}×{other_height} px, "
            f"but {image_name} has {width}×{height} px"
        )
    if not skeleton.is_forest:
        raise TreeformerError(f"{skeleton_file}: has a cycle and is not a forest")
    outside = ~((skeleton.nodes >= -BORDER_TOLERANCE_PX) & (skeleton.nodes <= np.add(size, BORDER_TOLERANCE_PX)))
    if outside.any():
        node = int(np.flatnonzero(outside.any(axis=1))[0])
        x, y = skeleton.nodes[node].tolist()
        raise TreeformerError(
            f"{skeleton_file}: node {node} at ({x:.1f}, {y:.1f}) is outside {image_name} of {width}×{height} px"
        )
    return skeleton.replace(nodes=np.clip(skeleton.nodes, 0, size), image_size=size, image_name=image_name)


def _split_folder(path: Path, split: str | None) -> Path:
    if not path.is_dir():
        raise TreeformerError(f"{path}: no such folder")
    splits = [name for name in SPLITS if (path / name).is_dir()]
    if split is None:
        if splits and not any(group.images for group in groups(path)):
            raise TreeformerError(f"{path}: choose a split, one of {', '.join(splits)}")
        return path
    if split not in splits:
        available = f"it has {', '.join(splits)}" if splits else f"it has no folder {', '.join(SPLITS)}"
        raise TreeformerError(f"{path}: no split {split!r}: {available}")
    return path / split


def find_pairs(folder: Path, prefix: str = "") -> tuple[list[tuple[Path, Path]], list[Skipped]]:
    """Pair the images of a folder with their skeleton files; see `treeformer.results`."""
    pairs, skipped, reader = [], [], Reader()
    for group in groups(folder):
        match group.images, group.skeletons:
            case [image], [skeleton]:
                pairs.append((image, skeleton))
                continue
            case [image], [_, *_]:
                chosen = reader.choose(Item(image, image.with_suffix("")))
                assert chosen is not None
                pairs.append((image, chosen))
                continue
            case [], [file, *_]:
                reason = "no image of the same name"
            case [file], []:
                reason = "no skeleton file of the same name"
            case [file, other, *_], _:
                reason = f"ambiguous: the image {other.name} has the same name"
        skipped.append(Skipped(prefix + file.name, f"{file}: {reason}"))
    return pairs, skipped
