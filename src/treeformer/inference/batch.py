"""Predict many image files: plan the result files, then predict and write one image at a time.

Every file is written atomically. A run that is stopped leaves only complete files and can be resumed.
"""

from __future__ import annotations

import os
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from treeformer import formats
from treeformer._util.files import is_file, list_files
from treeformer._util.image_output import write_image
from treeformer._util.images import IMAGE_SUFFIXES, open_image
from treeformer._util.pools import batches, prefetch_map, process_pool
from treeformer._util.progress import ProgressCallback
from treeformer.draw import draw, low_confidence_edges
from treeformer.errors import FormatError, TreeformerError
from treeformer.formats.rsml.metadata import with_resolution
from treeformer.hub.model_folder import CONFIG, WEIGHTS
from treeformer.inference.predictor import Predictor
from treeformer.inference.views import view_agreement
from treeformer.skeleton import Skeleton

if TYPE_CHECKING:
    import pandas as pd

# The hidden file with which `treeformer series` marks its folder of results.
SERIES_LIST = ".treeformer-series"  # no suffix, as the record of the images
# The files that mark a subfolder whose images are no input: results of `treeformer series`, as in plate7/results, and
# models.
OUTPUT_MARKS = (frozenset({SERIES_LIST}), frozenset({WEIGHTS, CONFIG}))
OVERLAY_ENDING = ".overlay.jpg"
OVERLAY_LONGEST_PX = 2048
OVERLAY_QUALITY = 90
# Number of images whose files a writer process receives in one message.
IMAGES_PER_MESSAGE = 4

Result = Skeleton | TreeformerError
# Share of the length in edges of low confidence from which an image is counted as doubtful.
DOUBTFUL_FRACTION = 0.1


class Outcome(NamedTuple):
    """What became of one image.

    Attributes:
        is_empty: True if its skeleton has no node.
        is_doubtful: True if more than `DOUBTFUL_FRACTION` of its length lies in edges of low confidence.
        failure: the error message if the image failed, None otherwise.
        agreement: agreement of the views of the image, None if there was one view only.
    """

    is_empty: bool
    is_doubtful: bool
    failure: str | None
    agreement: float | None


@dataclass(frozen=True)
class ImageJob:
    """An image and the files that are made from it.

    Attributes:
        image: the image file.
        skeletons: one file per format, by format name. The first is "json", the native format.
        overlay: file of the skeleton drawn over the image, None if it is not requested.
        px_per_mm: resolution that the skeleton files state, pixels per millimeter; None if it is unknown.
    """

    image: Path
    skeletons: dict[str, Path]
    overlay: Path | None
    px_per_mm: float | None = None

    def is_done(self) -> bool:
        """Return True if all files exist."""
        return all(map(is_file, self.skeletons.values())) and (self.overlay is None or is_file(self.overlay))

    def write(self, skeleton: Skeleton) -> None:
        """Write every file atomically. If some cannot be written, write the others and then raise `FormatError`."""
        errors = []
        if self.px_per_mm is not None:
            skeleton = with_resolution(skeleton, self.px_per_mm)
        for name, path in self.skeletons.items():
            try:
                formats.write(skeleton, path, format=name)
            except FormatError as error:
                errors.append(str(error))
        if self.overlay is not None:
            try:
                drawn = draw(open_image(self.image, longest_px=OVERLAY_LONGEST_PX), skeleton)
                write_image(drawn, self.overlay, quality=OVERLAY_QUALITY)
            except FormatError as error:
                errors.append(str(error))
        if errors:
            raise FormatError("; ".join(errors))


def plan(
    sources: Sequence[Path],
    output: Path,
    other_formats: Sequence[str] = (),
    overlay: bool = False,
    px_per_mm: float | None = None,
) -> list[ImageJob]:
    """Choose the result files of all images.

    Results have the same folder structure in `output` as the images below their common folder, so that results of
    images with the same name do not collide. If two images differ only in their suffix, or two results would get the
    same name for another reason, the result names keep the suffix of the image. Names that differ only in letter case
    count as the same, on every file system.

    Args:
        sources: images, and folders that are searched recursively.
        output: folder for the results.
        other_formats: names of formats to write in addition to JSON; see `treeformer.formats.FORMATS`.
        overlay: also draw each skeleton over its image.
        px_per_mm: resolution of the images, pixels per millimeter; None if it is unknown.

    Returns:
        One job per image.

    Raises:
        FormatError: if a source does not exist, a folder contains no image, the images are on several drives, or a
            format cannot be written.
    """
    suffixes = {"json": ".json"}
    for name in other_formats:
        suffix = formats.format_for_writing(Path(), name).suffixes[0]
        suffixes.setdefault(name, suffix if suffix not in suffixes.values() else f".{name}{suffix}")
    listed = (image for source in sources for image in _list_images(source, output))
    # By absolute path: one image may be listed in two ways, and ".." must not lead out of the output folder.
    images = {os.path.normpath(image.absolute()): image for image in listed}
    roots = [source if source.is_dir() else source.parent for source in sources]
    try:
        common = os.path.commonpath([os.path.normpath(root.absolute()) for root in roots])
    except ValueError:  # Windows
        raise FormatError("the images are on several drives: predict those of each drive in a run of its own") from None
    targets = [output / os.path.relpath(image, common) for image in images]
    stems = _distinct_stems(targets, [*suffixes.values(), *([OVERLAY_ENDING] if overlay else [])])
    return [
        ImageJob(
            image,
            {format_: Path(stem + suffix) for format_, suffix in suffixes.items()},
            Path(stem + OVERLAY_ENDING) if overlay else None,
            px_per_mm,
        )
        for image, stem in zip(images.values(), stems, strict=True)
    ]


def _distinct_stems(targets: Sequence[Path], endings: Sequence[str]) -> list[str]:
    """Return one stem per target: the path without its suffix, or with it if two results would get the same name.

    A name that keeps its suffix may collide with another one: `b.png` beside `b.tif` collides with `b.png.jpg`. Names
    that differ only in letter case get a number, because many file systems ignore case.
    """
    seen = Counter[str]()
    full = []
    for target in targets:
        seen[_folded(str(target))] += 1
        number = seen[_folded(str(target))]
        full.append(str(target) if number == 1 else f"{target}-{number}")
    stems = [str(target.with_suffix("")) for target in targets]
    while True:
        count = Counter(_folded(stem + ending) for stem in stems for ending in endings)
        collides = [any(count[_folded(stem + ending)] > 1 for ending in endings) for stem in stems]
        longer = [long if collision else stem for long, stem, collision in zip(full, stems, collides, strict=True)]
        if longer == stems:
            return stems
        stems = longer


def _folded(name: str) -> str:
    """Return a name as file systems compare it that ignore letter case and Unicode composition."""
    return unicodedata.normalize("NFC", name.casefold())


def _list_images(source: Path, output: Path) -> Iterator[Path]:
    """Yield the image itself, or all images below a folder, sorted by name, without results, overlays and figures."""
    if not source.is_dir():
        if not source.exists():
            raise FormatError(f"{source}: no such file")
        yield source
        return
    found = False
    for file in list_files(source, without=output, marks=OUTPUT_MARKS):
        if file.suffix.lower() in IMAGE_SUFFIXES and not file.name.endswith(OVERLAY_ENDING):
            found = True
            yield file
    if not found:
        raise FormatError(f"{source}: no image in this folder")


@dataclass(frozen=True)
class BatchReport:
    """The result of `predict_files`.

    Attributes:
        predicted: number of images that were predicted and written.
        empty: images without a plant.
        failures: one line per image that failed.
        doubtful: images with more than `DOUBTFUL_FRACTION` of their length in edges of low confidence.
        agreement: agreement of the views of each image, if there were several.
    """

    predicted: int
    empty: tuple[Path, ...]
    failures: tuple[str, ...]
    doubtful: tuple[Path, ...] = ()
    agreement: Mapping[Path, float] = field(default_factory=dict)


def predict_files(
    jobs: Sequence[ImageJob],
    predictor: Predictor,
    *,
    workers: int = 2,
    processes: bool = False,
    progress: ProgressCallback | None = None,
    **options: Any,
) -> BatchReport:
    """Predict all images and write their files. An image that fails does not stop the others.

    Args:
        jobs: the images and their result files; see `plan`.
        predictor: the model.
        workers: as for `Predictor.predict_many`.
        processes: as for `Predictor.predict_many`. Another `workers` processes then write the files.
        progress: called with the number of finished images and the total.
        options: further keyword arguments of `Predictor.predict_many`.

    Returns:
        The numbers of predicted and empty images, and the failures.

    Raises:
        TreeformerError: if an option is invalid.
    """
    empty: list[Path] = []
    doubtful: list[Path] = []
    failures: list[str] = []
    agreement: dict[Path, float] = {}
    images = [job.image for job in jobs]
    with closing(predictor.predict_many(images, workers=workers, processes=processes, **options)) as results:
        outcomes = _write_results(zip(jobs, results, strict=True), workers if processes else 0)
        for done, (job, outcome) in enumerate(zip(jobs, outcomes, strict=True), start=1):
            if outcome.is_empty:
                empty.append(job.image)
            if outcome.is_doubtful:
                doubtful.append(job.image)
            if outcome.agreement is not None:
                agreement[job.image] = outcome.agreement
            if outcome.failure is not None:
                failures.append(outcome.failure)
            if progress is not None:
                progress(done, len(jobs))
    return BatchReport(len(jobs) - len(failures), tuple(empty), tuple(failures), tuple(doubtful), agreement)


def _write_results(predicted: Iterable[tuple[ImageJob, Result]], writers: int) -> Iterator[Outcome]:
    """Write the files of each image, in this process or in others. Yield the outcomes in order."""
    if writers == 0:
        yield from map(_write, predicted)
        return
    with process_pool(writers) as pool:
        for outcomes in prefetch_map(pool, _write_all, batches(predicted, IMAGES_PER_MESSAGE), writers):
            yield from outcomes


def _write_all(predicted: list[tuple[ImageJob, Result]]) -> list[Outcome]:
    return [_write(pair) for pair in predicted]


def _write(predicted: tuple[ImageJob, Result]) -> Outcome:
    job, result = predicted
    is_empty = isinstance(result, Skeleton) and len(result) == 0
    is_doubtful = isinstance(result, Skeleton) and low_confidence_fraction(result) > DOUBTFUL_FRACTION
    agreement = view_agreement(result) if isinstance(result, Skeleton) else None
    failure = None
    try:
        if isinstance(result, TreeformerError):
            raise result
        job.write(result)
    except TreeformerError as error:
        failure = f"{job.image}: {str(error).removeprefix(f'{job.image}: ')}"
    return Outcome(is_empty, is_doubtful, failure, agreement)


def low_confidence_fraction(skeleton: Skeleton) -> float:
    """Return the share of a skeleton's length that lies in edges of low confidence; 0 if it has no length."""
    length = skeleton.edge_length
    total = float(length.sum())
    return float(length[low_confidence_edges(skeleton)].sum()) / total if total > 0 else 0.0


def traits_of(
    jobs: Sequence[ImageJob], *, px_per_mm: float | None = None, progress: ProgressCallback | None = None
) -> tuple[pd.DataFrame, list[str]]:
    """Measure all skeletons that exist, including those of earlier runs.

    Args:
        jobs: the images and their result files.
        px_per_mm: resolution of the images, pixels per millimeter. None uses the resolution stored in
            each file, or pixels.
        progress: called with the number of measured files and the total.

    Returns:
        One table with one row per plant, and one line per file that could not be measured.

    Raises:
        TreeformerError: if `px_per_mm` is not positive.
    """
    from treeformer.traits import measure_files

    paths = [path for job in jobs if is_file(path := job.skeletons["json"])]
    return measure_files(paths, px_per_mm=px_per_mm, progress=progress)
