"""From the images and annotations of a public set to a folder data set: the part that all sets share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from treeformer import formats
from treeformer._util.arrays import ImageArray
from treeformer._util.files import atomic_write
from treeformer._util.images import open_image
from treeformer._util.progress import ProgressCallback
from treeformer.data.datasets import SPLITS, fitted, write_pair
from treeformer.data.prepare.lines import lines_of, merge_overlaps, skeleton_of, snap, too_short, without
from treeformer.data.prepare.public_set import Notes, PrepareReport, PublicSet, SourceImage
from treeformer.data.recipe import claim
from treeformer.data.splits import check_leaks, check_splits, plate_rule
from treeformer.data.workers import for_each
from treeformer.errors import TreeformerError
from treeformer.skeleton import Skeleton

REPORT_NAME = "report.txt"

# A crop shows its plant with this much around it.
CROP_MARGIN_PX = 16
# A crop for one plant alone is no use where others show more than this share of its own length.
OTHERS_IN_CROP = 0.1


@dataclass(frozen=True)
class PrepareOptions:
    """The choices of one `prepare`, all made; see there."""

    size: int
    spacing_px: float
    one_image_per_plant: bool = False
    merge_overlaps: bool = True

    def __post_init__(self) -> None:
        if self.size < 32:
            raise TreeformerError(f"size is the longer side of an image, 32 px or more, not {self.size}")
        if not 0 <= self.spacing_px < self.size:
            raise TreeformerError(f"spacing must be from 0 (as annotated) to the image's size, not {self.spacing_px}")


@dataclass(frozen=True)
class _Task:
    source: SourceImage
    out: Path
    public_set: PublicSet
    options: PrepareOptions


def run(
    public_set: PublicSet, source: Path, out: Path, options: PrepareOptions, workers: int, progress: ProgressCallback
) -> PrepareReport:
    """Prepare a set; see `treeformer.data.prepare.prepare`."""
    if not source.is_dir():
        raise TreeformerError(f"{source}: no such folder")
    found, unpaired = public_set.find(source)
    if not found:
        raise TreeformerError(f"{source}: no image of {public_set.name} with its annotation beside it")
    by_split = {split: [one.image for one in found if one.split == split] for split in SPLITS}
    check_leaks(by_split, plate_rule(public_set.plate, source))
    report = PrepareReport(public_set.name, public_set.license)
    report.notes.dropped += [skipped.reason for skipped in unpaired]
    done = 0

    def gather(of_image: PrepareReport) -> None:
        nonlocal done
        done += 1
        report.add(of_image)
        progress(done, len(found))

    try:
        claim(out, _recipe(public_set, options))
        progress(0, len(found))
        for_each(_prepare_one, [_Task(one, out, public_set, options) for one in found], workers, gather)
        if not report.images:
            raise TreeformerError(f"{source}: nothing usable: {report.notes.dropped[0]}")
        if check_splits(out) != report.images:
            raise TreeformerError(f"{out}: holds images of another run beside these; choose an empty folder")
        with atomic_write(out / REPORT_NAME) as temporary:
            temporary.write_text(f"{report}\n", encoding="utf-8")
    except OSError as error:
        raise TreeformerError(f"{out}: cannot be written ({error.strerror or error})") from None
    return report


def _recipe(public_set: PublicSet, options: PrepareOptions) -> dict[str, Any]:
    recipe = {
        "made_by": f"treeformer prepare {public_set.name}",
        "license": public_set.license,
        "size": options.size,
        "spacing_px": options.spacing_px,
        "one_image_per_plant": options.one_image_per_plant,
        "merge_overlaps": options.merge_overlaps,
    }
    return recipe if public_set.plate is None else recipe | {"plate": public_set.plate}


def _prepare_one(task: _Task) -> PrepareReport:
    """Write what comes of one image; its own small report."""
    source, options = task.source, task.options
    report = PrepareReport(task.public_set.name, task.public_set.license)
    notes = Notes()
    try:
        original = open_image(source.image)
        forest = fitted(formats.read(source.annotation), original.size, source.annotation, source.image.name)
        image, forest = _scaled(original, forest, options.size)
        empty_plants = forest.metadata.get("rsml", {}).get("empty_plants", 0)
        if empty_plants:
            notes.dropped.append(f"{_count(empty_plants, 'plant')} without roots")
        forest = _tidied(forest, task, report, notes)
        if options.spacing_px > 0:
            forest = forest.resample(options.spacing_px)
        if len(forest.edges) == 0:
            notes.dropped.append("the image: it has no roots")
        elif not options.one_image_per_plant:
            _write(report, image, forest, task, source.image.stem)
        else:
            _write_crops(report, notes, image, forest, task)
    except TreeformerError as error:
        notes.dropped.append(f"the image: {error}")
    name = f"{source.split}/{source.image.name}"
    report.notes.dropped += [f"{name}: {note}" for note in notes.dropped]
    report.notes.changed += [f"{name}: {note}" for note in notes.changed]
    return report


def _scaled(original: Image.Image, skeleton: Skeleton, longer_side: int) -> tuple[ImageArray, Skeleton]:
    """Both at the wanted size; a smaller image stays as it is."""
    width, height = original.size
    factor = min(1.0, longer_side / max(width, height))
    size = max(1, round(width * factor)), max(1, round(height * factor))
    image = np.array(original if size == original.size else original.resize(size, Image.Resampling.LANCZOS))
    # Sides are rounded to whole pixels, so each direction has its own exact factor.
    return image, skeleton.transform([[size[0] / width, 0, 0], [0, size[1] / height, 0]], image_size=size)


def _tidied(forest: Skeleton, task: _Task, report: PrepareReport, notes: Notes) -> Skeleton:
    """Lines cleaned, merged, snapped and joined; without lines the graph as it is, but for its format's own data."""
    report.drawn_px = forest.length
    if not task.public_set.has_lines:
        return forest.replace(metadata={})
    lines = lines_of(forest)
    report.drawn_px = sum(line.length for line in lines)
    if task.public_set.clean is not None:
        lines, of_set = task.public_set.clean(lines)
        notes.dropped += of_set.dropped
        notes.changed += of_set.changed
    if task.options.merge_overlaps:
        lines, overlaps = merge_overlaps(lines)
        report.merged_px = overlaps.merged_px
        if overlaps.vanished:
            notes.dropped.append(f"{_count(overlaps.vanished, 'root')} all along others of the same plant")
    lines, distances = snap(lines)
    report.farthest_snap_px = float(distances.max(initial=0.0))
    short = too_short(lines)
    if short:
        notes.dropped.append(f"{_count(len(short), 'root')} shorter than a pixel")
    return skeleton_of(without(lines, short), forest)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _write(report: PrepareReport, image: ImageArray, skeleton: Skeleton, task: _Task, stem: str) -> None:
    inside = (skeleton.nodes >= 0).all() and (skeleton.nodes <= (image.shape[1], image.shape[0])).all()
    if not (skeleton.is_forest and inside):
        raise TreeformerError(f"{task.source.annotation}: does not come to a forest inside its image")
    write_pair(image, skeleton, task.out / task.source.split, stem)
    report.images[task.source.split] = report.images.get(task.source.split, 0) + 1
    report.plants += len(skeleton.plants)
    report.nodes += len(skeleton)


def _write_crops(report: PrepareReport, notes: Notes, image: ImageArray, forest: Skeleton, task: _Task) -> None:
    """One image a plant, cut out at the same scale."""
    limit = (image.shape[1], image.shape[0])
    for number, plant in enumerate(forest.plants, start=1):
        if plant.length == 0:
            notes.dropped.append(f"plant {number}: it has no length")
            continue
        left, top = np.maximum(np.floor(plant.nodes.min(axis=0)) - CROP_MARGIN_PX, 0).astype(int).tolist()
        right, bottom = np.minimum(np.ceil(plant.nodes.max(axis=0)) + CROP_MARGIN_PX, limit).astype(int).tolist()
        others = forest.crop(left, top, right, bottom).length / plant.length - 1
        if others > OTHERS_IN_CROP:
            notes.dropped.append(f"plant {number}: its crop shows others, {others:.0%} of its own length")
            continue
        crop = plant.crop(left, top, right, bottom)
        _write(report, image[top:bottom, left:right], crop, task, f"{task.source.image.stem}-{number}")
