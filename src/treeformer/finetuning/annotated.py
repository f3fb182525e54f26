"""Read a folder of images with skeletons beside them, check every pair, and say what was found.

`treeformer.results` finds the skeleton of each image and says what it is: accepted and annotated ones are ground truth.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from treeformer._util.arrays import FloatArray, ImageArray
from treeformer._util.images import open_image
from treeformer.data.folder_dataset import fit_to_image
from treeformer.data.recipe import check_complete
from treeformer.errors import TreeformerError
from treeformer.inference.auto_scale import measure_scale
from treeformer.results.item import Origin, Reader, open_places, origin_of
from treeformer.results.policy import OPTION, why_not_learned_from
from treeformer.results.record import find_items
from treeformer.skeleton import Skeleton

# Side to which images are reduced for the check whether a skeleton follows anything visible, px.
CHECK_PX = 1024
# The skeleton is compared with copies of itself that are displaced by this fraction of the image's longer side.
DISPLACEMENT = 0.06
# Places along the skeleton at which the contrast is measured, px of the reduced image.
CHECK_SPACING_PX = 4.0
# Scales are called mixed if the largest exceeds the smallest by this factor.
MIXED_SCALES = 4.0
MAX_LISTED = 20


@dataclass(frozen=True)
class AnnotatedImage:
    """An image with its ground truth.

    Attributes:
        path: the image file.
        skeleton_file: the file of the skeleton.
        name: path of the image below the folder, with forward slashes.
        skeleton: the skeleton, in px of the upright image, with `image_size` set.
    """

    path: Path
    skeleton_file: Path
    name: str
    skeleton: Skeleton

    @property
    def size(self) -> tuple[int, int]:
        """(width, height) of the image, px."""
        assert self.skeleton.image_size is not None  # set by `fit_to_image`
        return self.skeleton.image_size

    @property
    def plants(self) -> int:
        """Number of plants."""
        return len(set(self.skeleton.plant_of_node.tolist()))

    @property
    def spacing_px(self) -> float:
        """Median distance of neighboring keypoints, px; NaN if there are fewer than two."""
        return measure_scale(self.skeleton, "spacing")


@dataclass(frozen=True)
class Survey:
    """What a folder contains.

    Attributes:
        folder: the folder.
        images: the usable images with their ground truth, by name.
        unusable: one line per pair that cannot be used, with the reason.
        uncorrected: images whose skeleton is a prediction that was not corrected.
        unaccepted: images whose correction was not accepted, with the number of its open places.
        choices: one line about images with several skeleton files, None if there are none.
        includes_unaccepted: whether the unaccepted ones are among the usable images.
        without_skeleton: images without a skeleton file.
        misplaced: names of usable images whose skeleton may lie beside the plant.
    """

    folder: Path
    images: tuple[AnnotatedImage, ...] = ()
    unusable: tuple[str, ...] = ()
    uncorrected: tuple[Path, ...] = ()
    without_skeleton: tuple[Path, ...] = ()
    misplaced: tuple[str, ...] = ()
    unaccepted: tuple[tuple[Path, int], ...] = ()
    choices: str | None = None
    includes_unaccepted: bool = False

    def lines(self, *, pseudo_labels: bool = False) -> list[str]:
        """Return the report for people: what was found, and what cannot be used and why."""
        use = "used for pseudo-labels" if pseudo_labels else "not used"
        nodes = sum(len(image.skeleton) for image in self.images)
        plants = sum(image.plants for image in self.images)
        found = [
            f"{self.folder}: {_count(len(self.images), 'annotated image')}, {_count(plants, 'plant')}, "
            f"{_count(nodes, 'node')}"
        ]
        if self.images:
            sides = [max(image.size) for image in self.images]
            found.append(f"image size {_range(sides)} px (longer side)")
        measured = [(image.spacing_px, max(image.size)) for image in self.images if np.isfinite(image.spacing_px)]
        if measured:
            spacing = [value for value, _ in measured]
            relative = [512 * value / side for value, side in measured]
            found.append(
                f"distance of neighboring keypoints {_range(spacing)} px, median {np.median(spacing):.0f} px; "
                f"{np.median(relative):.0f} px if the images are reduced to 512 px"
            )
            if max(spacing) > MIXED_SCALES * min(spacing):
                found.append("the scales are mixed: every image is trained at its own working size")
        empty = [shown_name(image.path, self.folder) for image in self.images if not len(image.skeleton)]
        if empty:
            found.append(
                f"{_count(len(empty), 'image')} without a plant, used as examples of background: {_listed(empty)}"
            )
        if self.misplaced:
            found.append(
                f"{_count(len(self.misplaced), 'skeleton')} used, but to be checked: there is less to see along "
                f"them than beside them: {_listed(list(self.misplaced))}"
            )
        if self.uncorrected:
            names = [shown_name(path, self.folder) for path in self.uncorrected]
            found.append(
                f"{_count(len(names), 'image')} with a prediction that was not corrected, {use}: {_listed(names)}"
            )
        if self.unaccepted:
            places = sum(count for _, count in self.unaccepted)
            names = [f"{shown_name(path, self.folder)} ({count})" for path, count in self.unaccepted]
            found.append(
                f"{_count(len(names), 'correction')} not accepted, with {_count(places, 'open place')}, "
                f"{'used' if self.includes_unaccepted else f'not used without {OPTION}'}: {_listed(names)}"
            )
        if self.choices:
            found.append(self.choices)
        if self.without_skeleton:
            names = [shown_name(path, self.folder) for path in self.without_skeleton]
            found.append(f"{_count(len(names), 'image')} without a skeleton, {use}: {_listed(names)}")
        return (
            found
            + [f"not used: {reason}" for reason in self.unusable[:MAX_LISTED]]
            + ([f"not used: {len(self.unusable) - MAX_LISTED} more"] if len(self.unusable) > MAX_LISTED else [])
        )


def survey(
    folder: str | os.PathLike[str], after_each: Callable[[], None] = lambda: None, *, include_unaccepted: bool = False
) -> Survey:
    """Read and check all images of a folder and its sub-folders, with their skeletons."""
    root = Path(folder)
    if not root.is_dir():
        raise TreeformerError(f"{root}: no such folder")
    images: list[AnnotatedImage] = []
    unusable: list[str] = []
    uncorrected, without, misplaced, unaccepted = [], [], [], []
    reader = Reader()
    for path, skeleton_file in find_skeletons(root, reader):
        after_each()
        if skeleton_file is None:
            without.append(path)
            continue
        try:
            skeleton = reader.read(skeleton_file)
            origin = origin_of(skeleton)
            if origin is Origin.correction:
                unaccepted.append((path, open_places(skeleton)))
            elif origin is Origin.prediction:
                uncorrected.append(path)
            if why_not_learned_from(origin, include_unaccepted):
                continue
            image = open_image(path)
            fitted = fit_to_image(skeleton, image.size, skeleton_file, path.name)
            image.thumbnail((CHECK_PX, CHECK_PX))
            if looks_misplaced(np.asarray(image), fitted):
                misplaced.append(shown_name(path, root))
        except TreeformerError as error:
            unusable.append(reason(error, path, skeleton_file, root))
            continue
        images.append(AnnotatedImage(path, skeleton_file, shown_name(path, root), fitted))
    return Survey(
        root,
        tuple(images),
        tuple(unusable),
        tuple(uncorrected),
        tuple(without),
        tuple(misplaced),
        tuple(unaccepted),
        reader.choices(find_items(root)),
        include_unaccepted,
    )


def find_skeletons(folder: Path, reader: Reader | None = None) -> list[tuple[Path, Path | None]]:
    """Find the images of a folder and the skeleton file of each; see `treeformer.results`."""
    items, reader = find_items(folder), reader or Reader()
    for place in dict.fromkeys(item.image.parent for item in items):
        check_complete(place)
    return [(item.image, reader.choose(item)) for item in items]


def shown_name(path: Path, root: Path) -> str:
    """Return the path of a file relative to a folder, with forward slashes, as messages show it."""
    try:
        return Path(os.path.relpath(path, root)).as_posix()
    except ValueError:  # pragma: no cover  # two drives of Windows
        return str(path)


def reason(error: TreeformerError, image: Path, skeleton_file: Path | None, root: Path) -> str:
    """Return why a pair cannot be used, with the path of the file that is wrong relative to the folder.

    The messages of readers begin with the name of the file, which may occur in several sub-folders.
    """
    text = str(error)
    for file in (image,) if skeleton_file is None else (image, skeleton_file):
        for beginning in (f"{file}: ", f"{file.name}: "):
            if text.startswith(beginning):
                return f"{shown_name(file, root)}: {text.removeprefix(beginning)}"
    return f"{shown_name(image, root)}: {text}"


def looks_misplaced(image: ImageArray, skeleton: Skeleton) -> bool:
    """Return True if a skeleton seems to lie beside the plant.

    The local contrast along the skeleton is compared with that along eight displaced copies.
    """
    if not len(skeleton.edges):
        return False
    height, width = image.shape[:2]
    assert skeleton.image_size is not None
    scaled = skeleton.nodes * (width / skeleton.image_size[0])
    dense = skeleton.replace(nodes=scaled, image_size=(width, height), radius=None).resample(CHECK_SPACING_PX)
    contrast = _local_contrast(image)
    reach = DISPLACEMENT * max(width, height)
    angles = np.arange(8) * np.pi / 4
    copies = [_mean_at(contrast, dense.nodes + reach * np.array([np.cos(a), np.sin(a)])) for a in angles]
    return bool(_mean_at(contrast, dense.nodes) < np.median(copies))


def _local_contrast(image: ImageArray) -> FloatArray:
    """Return (H,W) the largest difference of a pixel's surroundings from their own surroundings, nearby."""
    from scipy import ndimage

    pixels = image.astype(np.float64)
    difference = ndimage.gaussian_filter(pixels, (1, 1, 0)) - ndimage.gaussian_filter(pixels, (8, 8, 0))
    strength: FloatArray = ndimage.maximum_filter(np.abs(difference).max(axis=2), size=7)
    return strength


def _mean_at(values: FloatArray, points: FloatArray) -> float:
    """Return the mean of (H,W) values at points (N,2) px; points outside are moved to the border."""
    column, row = np.clip(points.T, 0, np.array([[values.shape[1] - 1], [values.shape[0] - 1]])).astype(np.intp)
    return float(values[row, column].mean())


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _range(values: list[float] | list[int]) -> str:
    low, high = min(values), max(values)
    return f"{low:.0f}" if round(low) == round(high) else f"{low:.0f} to {high:.0f}"


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return ", ".join(names[:MAX_LISTED]) + more
