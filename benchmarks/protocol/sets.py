"""The test sets of the protocol.

They are frozen: presets, seeds, counts and sizes never change. New scenes become new sets.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from treeformer._util.arrays import ImageArray
from treeformer.data import FolderDataset, Sample, Skipped
from treeformer.data.augmentation import move, warp
from treeformer.data.prepare import prepare
from treeformer.data.sample import Dataset
from treeformer.errors import TreeformerError
from treeformer.inference.evaluate import synthetic_set
from treeformer.skeleton import Skeleton

SOURCES = Path(os.environ.get("TREEFORMER_DATA", Path(__file__).parents[3] / "shared" / "data"))
# Where they are, if the folder has another name than the set.
SOURCE_NAMES = {"single-guyot": "guyot-vines"}
PREPARED = Path("data") / "protocol"
# Test renders with Blender, made as docs/lab/blender.md says.
BLENDER = Path("data") / "blender"
# Larger than any published image: `prepare` never enlarges, so images keep their size.
PUBLISHED_SIZE = 100_000
# Shifts of the real images, px at their own size; with and without a flip from left to right.
SHIFTS = ((0.0, 0.0), (5.5, 0.0), (0.0, 5.5), (-3.5, 3.5))
FLIPS = (False, True)
# Presets that were added after the first measurements.
NEW_PRESETS = ("orchard-row", "vineyard", "potted-shoot", "plate-rosette", "empty")
DEFAULT_QUICK_COUNT, QUICK_COUNT = 40, {"drawings": 100, "photographs": 100}
STANDARD_COUNT = 100


@dataclass(frozen=True)
class TestSet:
    """One test set.

    Attributes:
        name: key of the set in files and tables.
        synthetic: `PRESET:STYLE:SPLIT` of a rendered set, empty for a real one.
        count: number of rendered images.
        public_set: name of a public set that `treeformer prepare` knows, empty for a rendered one.
        folder: folder data set that is read as it is, if the set is neither generated nor prepared.
        test_folder: folder of the public set that is prepared instead of its folder `test`.
        size: longer side that the public set is prepared at, px; None for the set's own default.
        split: split of the public set.
        varied: measure every image in all flips and shifts.
        resampled: the model places nodes of curves on a grid, so the ceiling is the ground truth sampled there.
        working_size: passed to `Predictor.predict_many`; None for the model's default.
    """

    name: str
    synthetic: str = ""
    count: int = 0
    public_set: str = ""
    folder: Path | None = None
    test_folder: str = ""
    size: int | None = None
    split: str = "test"
    varied: bool = False
    resampled: bool = True
    working_size: int | None = None

    def open(self, workers: int = 1) -> Dataset:
        """Return the data set, prepared in `data/protocol` if it is a public one."""
        if self.synthetic:
            return synthetic_set(self.synthetic, self.count)
        if self.folder is not None:
            return FolderDataset(self.folder, self.split)
        folder = PREPARED / f"{self.public_set}-{self.test_folder}{self.size or 'default'}"
        if not (folder / "report.txt").exists():
            prepare(self.public_set, source_of(self), folder, size=self.size, workers=workers)
        dataset = FolderDataset(folder, self.split)
        return VariedDataset(dataset) if self.varied else dataset


def source_of(test_set: TestSet) -> Path:
    """Return the folder of a public set; with `test_folder` one that has nothing but that folder, as `test`."""
    source = SOURCES / SOURCE_NAMES.get(test_set.public_set, test_set.public_set)
    wanted = source / test_set.test_folder
    if not wanted.is_dir():
        raise TreeformerError(f"{wanted}: no such folder; TREEFORMER_DATA names the folder of the public sets")
    if not test_set.test_folder:
        return source
    view = PREPARED / "sources" / f"{test_set.public_set}-{test_set.test_folder}"
    view.mkdir(parents=True, exist_ok=True)
    if not (view / "test").is_symlink():
        (view / "test").symlink_to(wanted.absolute())
    return view


class VariedDataset:
    """Every image of a data set in all flips and shifts, so that small sets give steadier means."""

    def __init__(self, dataset: FolderDataset) -> None:
        self.dataset = dataset
        self.variants = [(flip, shift) for flip in FLIPS for shift in SHIFTS]

    def __len__(self) -> int:
        return len(self.dataset) * len(self.variants)

    def load(self, index: int) -> Sample | Skipped:
        """Return one variant of one image, or why there is none; variants of an image follow each other."""
        image, variant = divmod(index, len(self.variants))
        loaded = self.dataset.load(image)
        if isinstance(loaded, Skipped):
            return loaded
        flip, shift = self.variants[variant]
        pixels, skeleton = varied(loaded.image, loaded.skeleton, flip, shift)
        return Sample(pixels, skeleton, f"{loaded.name} {'flipped' if flip else 'upright'} {shift}")


def varied(
    image: ImageArray, skeleton: Skeleton, flip: bool, shift: tuple[float, float]
) -> tuple[ImageArray, Skeleton]:
    """Flip and shift an image and its skeleton.

    Args:
        image: (H,W,3).
        skeleton: in pixels of the image.
        flip: mirror from left to right.
        shift: (x, y) px.

    Returns:
        Image of the same size, and the skeleton cut at its border.
    """
    if not flip and shift == (0.0, 0.0):
        return image, skeleton
    size = (image.shape[1], image.shape[0])
    across = -1.0 if flip else 1.0
    affine = np.array([[across, 0.0, (size[0] if flip else 0.0) + shift[0]], [0.0, 1.0, shift[1]]])
    return warp(image, affine, size), move(skeleton, affine, size)


def _real(public_set: str, size: int | None) -> Iterator[TestSet]:
    prepared = TestSet(f"{public_set} prepared", public_set=public_set, size=size)
    published = replace(prepared, name=f"{public_set} published", size=PUBLISHED_SIZE)
    yield prepared
    yield replace(prepared, name=f"{prepared.name}, flips and shifts", varied=True)
    yield published
    for working_size in (512, 1024, 2048):
        yield replace(published, name=f"{published.name} at {working_size}", working_size=working_size)


SETS: dict[str, TestSet] = {
    one.name: one
    for one in (
        TestSet("drawings", synthetic="paper:paper:test", count=2000, resampled=False),
        TestSet("photographs", synthetic="paper:photo:test", count=2000, resampled=False),
        *_real("osr-roots", 1024),
        *_real("barley-roots", 512),
        TestSet("barley-roots test2", public_set="barley-roots", test_folder="test2", size=PUBLISHED_SIZE),
        TestSet("single-guyot prepared", public_set="single-guyot"),
        TestSet("single-guyot published", public_set="single-guyot", size=PUBLISHED_SIZE),
        *(
            TestSet(preset, synthetic=f"{preset}:photo:test", count=200)
            for preset in ("taproot", "seedling", "several", "vine", "orchard", "plate", *NEW_PRESETS)
        ),
        *(TestSet(f"{scene} in Blender", folder=BLENDER / scene) for scene in ("vineyard", "orchard")),
    )
}


def _fewer(ending: str, counts: dict[str, int], count: int) -> dict[str, TestSet]:
    """Return the rendered sets with fewer images, from the beginning."""
    sets = (one for one in SETS.values() if one.synthetic)
    return {
        f"{one.name}, {ending}": replace(one, name=f"{one.name}, {ending}", count=counts.get(one.name, count))
        for one in sets
    }


# To decide whether new weights are worse.
QUICK = _fewer("quick", QUICK_COUNT, DEFAULT_QUICK_COUNT)
HUNDRED = _fewer("100 images", {}, STANDARD_COUNT)
STANDARD: dict[str, TestSet] = {
    name: one
    for name, one in (SETS | HUNDRED).items()
    if not (one.varied or one.working_size or (one.synthetic and name in SETS))
}
"""What every version is measured on: all sets once, the rendered ones with 100 images each."""
# The real validation images, to decide whether new weights are worse on them.
VALIDATION: dict[str, TestSet] = {
    valid.name: valid
    for valid in (
        *(replace(one, name=f"{one.name} of validation images", split="valid") for one in SETS.values() if one.varied),
        # For models that have not seen the set: its 190 training images tell how well they transfer.
        replace(SETS["single-guyot prepared"], name="single-guyot prepared, transfer", split="train"),
        replace(SETS["single-guyot published"], name="single-guyot published, transfer", split="train"),
    )
}
ALL = SETS | QUICK | HUNDRED | VALIDATION
