"""Data sets: a folder of images with a skeleton file beside each, and synthetic images made on the fly.

Both answer `len` and `load(index)`, which gives a `Sample`, or a `Skipped` that says in one line what is wrong with
the files: a value, not an exception, so that it passes through worker processes like any sample, and whoever
gathers the batches counts it in a `SkipReport`. `dataset[index]` raises instead.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from PIL import Image

from treeformer import formats
from treeformer._util.arrays import ImageArray
from treeformer._util.files import atomic_write
from treeformer._util.images import IMAGE_SUFFIXES, open_image
from treeformer.errors import TreeformerError
from treeformer.skeleton import Skeleton

SPLITS = ("train", "valid", "test")
MOST_REASONS = 20  # that a report spells out

# Programs differ by half a pixel about where an image begins: this far outside is on the border.
BORDER_TOLERANCE_PX = 1.0
# Photographs hardly compress: level 6 takes 3 times as long as level 1 and saves a twentieth of the size.
PNG_LEVEL = 1
# 3D2cut calls the skeleton of vine.jpeg vine_annotation.json.
ANNOTATION_ENDING = "_annotation"


@dataclass(frozen=True)
class Sample:
    """An image (H,W,3), uint8 RGB, and its skeleton, a forest inside it with `image_size` set."""

    image: ImageArray
    skeleton: Skeleton
    name: str


@dataclass(frozen=True)
class Skipped:
    """An image that cannot be used; `reason` is one line that names the file."""

    name: str
    reason: str


class Dataset(Protocol):
    """What training needs of a data set."""

    def __len__(self) -> int: ...

    def load(self, index: int) -> Sample | Skipped:
        """The sample, or why there is none."""
        ...


class SkipReport:
    """What was skipped, each image once however often it was tried; `str` gives it for the end of a run.

    >>> report = SkipReport([Skipped("a.png", "a.png: the image cannot be read")])
    >>> report.add(Skipped("a.png", "a.png: the image cannot be read"))
    >>> print(report)
    1 image was skipped
      a.png: the image cannot be read
    """

    def __init__(self, skipped: Iterable[Skipped] = ()) -> None:
        self._reasons: dict[str, str] = {}
        for one in skipped:
            self.add(one)

    def add(self, skipped: Skipped) -> None:
        """Count an image, once."""
        self._reasons.setdefault(skipped.name, skipped.reason)

    def merge(self, other: SkipReport) -> None:
        """Take over what another process skipped."""
        for one in other:
            self.add(one)

    def __iter__(self) -> Iterator[Skipped]:
        return iter(Skipped(name, reason) for name, reason in self._reasons.items())

    def __len__(self) -> int:
        return len(self._reasons)

    def __str__(self) -> str:
        heading = "1 image was skipped" if len(self) == 1 else f"{len(self)} images were skipped"
        shown = [f"  {reason}" for reason in itertools.islice(self._reasons.values(), MOST_REASONS)]
        rest = len(self) - len(shown)
        return "\n".join([heading, *shown, *([f"  and {rest} more"] if rest else [])])


def samples(dataset: Dataset, report: SkipReport | None = None) -> Iterator[Sample]:
    """All usable samples in order; what is not usable goes into the report."""
    for index in range(len(dataset)):
        loaded = dataset.load(index)
        if isinstance(loaded, Sample):
            yield loaded
        elif report is not None:
            report.add(loaded)


class FolderDataset:
    """The images of a folder, in order of name, each with one skeleton file of the same stem in any known format.

    Args:
        path: the folder.
        split: its sub-folder `train`, `valid` or `test`; None for a folder that has the images itself.

    `skipped` has what is out of place already by its name: an image without a skeleton file, or the reverse.
    An error where no pair is left.
    """

    def __init__(self, path: str | os.PathLike[str], split: str | None = None) -> None:
        self.path = Path(path)
        self.split = split
        self.folder = _split_folder(self.path, split)
        self.pairs, self.skipped = find_pairs(self.folder, prefix=f"{split}/" if split else "")
        if not self.pairs:
            why = f": {self.skipped[0].reason}" if self.skipped else ""
            raise TreeformerError(f"{self.folder}: no image with a skeleton file of the same name beside it{why}")

    def __len__(self) -> int:
        return len(self.pairs)

    def __repr__(self) -> str:
        return f"<FolderDataset {self.folder}: {len(self)} images>"

    def name(self, index: int) -> str:
        """The image's name within the data set, `train/0001.png`."""
        image = self.pairs[index][0]
        return f"{self.split}/{image.name}" if self.split else image.name

    def __getitem__(self, index: int) -> Sample:
        image, skeleton_file = self.pairs[index]
        return read_pair(image, skeleton_file, self.name(index))

    def load(self, index: int) -> Sample | Skipped:
        """The sample, or why there is none."""
        try:
            return self[index]
        except TreeformerError as error:
            return Skipped(self.name(index), str(error))


def read_pair(image_file: Path, skeleton_file: Path, name: str) -> Sample:
    """One image with its skeleton, checked against each other; an error names the file at fault."""
    image = open_image(image_file)
    skeleton = formats.read(skeleton_file)
    return Sample(np.array(image), fitted(skeleton, image.size, skeleton_file, image_file.name), name)


def write_pair(image: ImageArray, skeleton: Skeleton, folder: Path, stem: str) -> None:
    """Write an image as PNG and its skeleton as our own JSON beside it, the skeleton last, neither ever by half."""
    with atomic_write(folder / f"{stem}.png") as temporary:
        Image.fromarray(image).save(temporary, format="PNG", compress_level=PNG_LEVEL)
    formats.write(skeleton.replace(image_name=f"{stem}.png"), folder / f"{stem}.json")


def has_pair(folder: Path, stem: str) -> bool:
    """Whether `write_pair` has come to its end there."""
    return (folder / f"{stem}.png").is_file() and (folder / f"{stem}.json").is_file()


def fitted(skeleton: Skeleton, size: tuple[int, int], skeleton_file: Path, image_name: str) -> Skeleton:
    """The skeleton as that of an image of this (width, height); an error where it is none, or no forest."""
    width, height = size
    if skeleton.image_size not in (None, size):
        was_width, was_height = skeleton.image_size
        raise TreeformerError(
            f"{skeleton_file}: is of an image of {was_width}×{was_height} px, but {image_name} has {width}×{height} px"
        )
    if not skeleton.is_forest:
        raise TreeformerError(f"{skeleton_file}: has a cycle: neither a tree nor a forest")
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
    there = [name for name in SPLITS if (path / name).is_dir()]
    if split is None:
        if there and not any(_is_image(entry) for entry in path.iterdir()):
            raise TreeformerError(f"{path}: choose a split, one of {', '.join(there)}")
        return path
    if split not in there:
        has = f"it has {', '.join(there)}" if there else f"there is no folder {' or '.join(SPLITS)} in it"
        raise TreeformerError(f"{path}: no split {split!r}: {has}")
    return path / split


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in IMAGE_SUFFIXES and not path.name.startswith(".")


def find_pairs(folder: Path, prefix: str = "") -> tuple[list[tuple[Path, Path]], list[Skipped]]:
    """The images of a folder with their skeleton files, in order of name, and what has no partner or more than one.

    prefix: put before the names of what is skipped, as `train/`.
    """
    images: dict[str, list[Path]] = {}
    skeletons: dict[str, list[Path]] = {}
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith(".") or not entry.is_file():
            continue
        if _is_image(entry):
            images.setdefault(entry.stem, []).append(entry)
        elif entry.suffix.lower() in formats.SUFFIXES:
            skeletons.setdefault(entry.stem.removesuffix(ANNOTATION_ENDING), []).append(entry)
    pairs, skipped = [], []
    for stem in sorted(images.keys() | skeletons.keys()):
        of_stem = images.get(stem, []), skeletons.get(stem, [])
        match of_stem:
            case [image], [skeleton]:
                pairs.append((image, skeleton))
                continue
            case [], [skeleton, *_]:
                at_fault, reason = skeleton, "no image of the same name beside it"
            case [image, *_], []:
                at_fault, reason = image, "no skeleton file of the same name beside it"
            case several, [_]:
                at_fault, reason = several[0], f"{several[1].name} has the same name: which is the image?"
            case [image, *_], several:
                at_fault, reason = image, f"both {several[0].name} and {several[1].name} are beside it: which holds?"
        skipped.append(Skipped(prefix + at_fault.name, f"{at_fault}: {reason}"))
    return pairs, skipped


@dataclass(frozen=True)
class SyntheticDataset:
    """Images made on the fly from their seeds, nothing stored; seeds take turns through presets, then looks.

    seeds: one an image; `treeformer.synthetic.SPLITS` has the ranges of training, validation and test.
    size: (width, height) px.
    """

    seeds: range
    presets: tuple[str, ...] = ("paper",)
    styles: tuple[str, ...] = ("paper",)
    size: tuple[int, int] = (512, 512)

    def __post_init__(self) -> None:
        if not (self.seeds and self.presets and self.styles):
            raise TreeformerError("a synthetic data set needs seeds, a preset and a look")

    def __len__(self) -> int:
        return len(self.seeds)

    def __getitem__(self, index: int) -> Sample:
        from treeformer import synthetic

        seed = self.seeds[index]
        turn, kind = divmod(seed, len(self.presets))
        preset, style = self.presets[kind], self.styles[turn % len(self.styles)]
        image, skeleton = synthetic.make_image(preset, style, seed, self.size)
        return Sample(image, skeleton, f"{preset}-{style}-{seed}")

    def load(self, index: int) -> Sample | Skipped:
        """The sample; never skipped."""
        return self[index]
