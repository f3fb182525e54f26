"""Convert the images and annotations of a public data set to a folder data set: the part that all data sets share."""

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
from treeformer.data.folder_dataset import SPLITS, fit_to_image, write_pair
from treeformer.data.prepare.lines import lines_of, merge_overlaps, skeleton_of, snap, too_short, without
from treeformer.data.prepare.public_set import Notes, PrepareReport, PublicSet, SourceImage
from treeformer.data.recipe import being_written, claim
from treeformer.data.splits import check_leaks, check_splits, plate_rule
from treeformer.data.workers import for_each
from treeformer.errors import FormatError, TreeformerError
from treeformer.skeleton import Skeleton

REPORT_NAME = "report.txt"
# Begins the note on an image that was dropped, unlike the notes on parts of images.
IMAGE_DROPPED = "the image: "

# Margin around a plant in its crop.
CROP_MARGIN_PX = 16
# A crop for one plant is dropped if the length of other plants in it exceeds this fraction of the plant's own length.
OTHERS_IN_CROP = 0.1


@dataclass(frozen=True)
class PrepareOptions:
    """The settings of `treeformer.data.prepare.prepare`, with defaults resolved."""

    size: int  # longer side of the prepared images, px
    spacing_px: float  # node spacing, px; 0 keeps the annotated nodes
    one_image_per_plant: bool = False  # write one cropped image per plant instead of whole images
    merge_overlaps: bool = True  # merge roots that are drawn on top of each other

    def __post_init__(self) -> None:
        if self.size < 32:
            raise TreeformerError(f"size, the longer side of an image, must be 32 px or more, not {self.size}")
        if not 0 <= self.spacing_px < self.size:
            raise TreeformerError(
                f"spacing must be from 0 (keep the annotated nodes) to the image's size, not {self.spacing_px}"
            )


class _WriteError(Exception):
    """An image could not be written, which ends the run."""


@dataclass(frozen=True)
class _Task:
    source: SourceImage
    out: Path
    public_set: PublicSet
    options: PrepareOptions


def run(
    public_set: PublicSet, source: Path, out: Path, options: PrepareOptions, workers: int, progress: ProgressCallback
) -> PrepareReport:
    """Convert a public data set; see `treeformer.data.prepare.prepare`."""
    if not source.is_dir():
        raise TreeformerError(f"{source}: no such folder")
    images, unpaired = public_set.find(source)
    if not images:
        raise TreeformerError(f"{source}: no image of {public_set.name} with its annotation next to it")
    by_split = {split: [image.image for image in images if image.split == split] for split in SPLITS}
    check_leaks(by_split, plate_rule(public_set.plate, source))
    report = PrepareReport(public_set.name, public_set.license)
    report.notes.dropped += [skipped.reason for skipped in unpaired]
    done = 0

    def gather(image_report: PrepareReport) -> None:
        nonlocal done
        done += 1
        report.add(image_report)
        progress(done, len(images))

    try:
        claim(out, _recipe(public_set, options))
        progress(0, len(images))
        with being_written(out):
            for_each(_prepare_image, [_Task(image, out, public_set, options) for image in images], workers, gather)
            if not report.images:
                notes = report.notes.dropped  # the first ones may name a dropped root, or a file without a partner
                reason = next((note for note in notes if IMAGE_DROPPED in note), notes[0])
                raise TreeformerError(f"{source}: no usable image: {reason}")
            if check_splits(out, allow_incomplete=True) != report.images:
                raise TreeformerError(f"{out}: also holds images of another run; choose an empty folder")
            with atomic_write(out / REPORT_NAME) as temporary:
                temporary.write_text(f"{report}\n", encoding="utf-8")
    except _WriteError as error:
        raise TreeformerError(f"{out}: {error}") from None
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


def _prepare_image(task: _Task) -> PrepareReport:
    """Prepare and write one image, and return a report on it."""
    source, options = task.source, task.options
    report = PrepareReport(task.public_set.name, task.public_set.license)
    notes = Notes()
    try:
        original = open_image(source.image)
        annotated = formats.read(source.annotation)
        forest = fit_to_image(annotated, original.size, source.annotation, source.image.name)
        image, forest = _scale_down(original, forest, options.size)
        empty_plants = forest.metadata.get("rsml", {}).get("empty_plants", 0)
        if empty_plants:
            notes.dropped.append(f"{_count(empty_plants, 'plant')} without roots")
        forest = _join_lines(forest, task, report, notes)
        if options.spacing_px > 0:
            forest = forest.resample(options.spacing_px)
        if len(forest.edges) == 0:
            notes.dropped.append(f"{IMAGE_DROPPED}it has no roots")
        elif not options.one_image_per_plant:
            _write(report, image, forest, task, source.image.stem)
        else:
            _write_crops(report, notes, image, forest, task)
    except TreeformerError as error:
        notes.dropped.append(f"{IMAGE_DROPPED}{error}")
    name = f"{source.split}/{source.image.name}"
    report.notes.dropped += [f"{name}: {note}" for note in notes.dropped]
    report.notes.changed += [f"{name}: {note}" for note in notes.changed]
    return report


def _scale_down(original: Image.Image, skeleton: Skeleton, longer_side: int) -> tuple[ImageArray, Skeleton]:
    """Scale an image and its skeleton to a longer side, px. A smaller image is not changed."""
    width, height = original.size
    factor = min(1.0, longer_side / max(width, height))
    size = max(1, round(width * factor)), max(1, round(height * factor))
    image = np.array(original if size == original.size else original.resize(size, Image.Resampling.LANCZOS))
    # Sides are rounded to whole pixels, so the exact factors of x and y differ.
    return image, skeleton.transform([[size[0] / width, 0, 0], [0, size[1] / height, 0]], image_size=size)


def _join_lines(forest: Skeleton, task: _Task, report: PrepareReport, notes: Notes) -> Skeleton:
    """Clean, merge, snap and join the lines of an annotation. An annotation that is a graph only loses its metadata."""
    report.drawn_px = forest.length
    if not task.public_set.has_lines:
        return forest.replace(metadata={})
    lines = lines_of(forest)
    report.drawn_px = sum(line.length for line in lines)
    if task.public_set.clean is not None:
        lines, cleaning_notes = task.public_set.clean(lines)
        notes.dropped += cleaning_notes.dropped
        notes.changed += cleaning_notes.changed
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
        raise TreeformerError(f"{task.source.annotation}: does not result in a forest inside its image")
    try:
        write_pair(image, skeleton, task.out / task.source.split, stem)
    except FormatError as error:  # the disk is full: not a reason to drop this image
        raise _WriteError(str(error)) from None
    report.images[task.source.split] = report.images.get(task.source.split, 0) + 1
    report.plants += len(skeleton.plants)
    report.nodes += len(skeleton)


def _write_crops(report: PrepareReport, notes: Notes, image: ImageArray, forest: Skeleton, task: _Task) -> None:
    """Write one cropped image per plant, at the same scale."""
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
