"""Predict many image files: plan the result files, then predict and write one image at a time.

Every file is written atomically. A run that is stopped leaves only complete files and can be resumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from treeformer import formats
from treeformer._util.files import is_file
from treeformer._util.image_output import write_image
from treeformer._util.images import open_image
from treeformer._util.pools import batches, prefetch_map, process_pool
from treeformer._util.progress import ProgressCallback
from treeformer.draw import draw, low_confidence_edges
from treeformer.errors import FormatError, TreeformerError
from treeformer.formats.rsml.metadata import with_resolution
from treeformer.inference.predictor import Predictor
from treeformer.inference.views import view_agreement
from treeformer.results.item import Targets
from treeformer.results.layout import JSON, OVERLAY_ENDING
from treeformer.results.record import plan_items
from treeformer.skeleton import Skeleton

if TYPE_CHECKING:
    import pandas as pd

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
class ImageJob(Targets):
    """An image and the files that are made from it.

    Attributes:
        px_per_mm: resolution that the skeleton files state, pixels per millimeter; None if it is unknown.
    """

    px_per_mm: float | None = None

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
    """Choose the result files of all images; see `treeformer.results.record.plan_items`."""
    suffixes = {"json": JSON}
    for name in other_formats:
        suffix = formats.format_for_writing(Path(), name).suffixes[0]
        suffixes.setdefault(name, suffix if suffix not in suffixes.values() else f".{name}{suffix}")
    endings = [*suffixes.values(), *([OVERLAY_ENDING] if overlay else [])]
    items = plan_items(sources, output, endings=endings)
    return [ImageJob(item.image, item.stem, suffixes, overlay, px_per_mm) for item in items]


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
    """Predict all images and write their files. An image that fails does not stop the others."""
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
    """Measure all skeletons that exist, including those of earlier runs."""
    from treeformer.traits import measure_files

    paths = [job.json for job in jobs if is_file(job.json)]
    return measure_files(paths, px_per_mm=px_per_mm, progress=progress)
