"""Many images: which files are to be made of each, made one image at a time, so that a stop leaves whole files."""

from __future__ import annotations

import os
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from treeformer import formats
from treeformer._util.files import atomic_write_checked, list_files
from treeformer._util.images import IMAGE_SUFFIXES, open_image
from treeformer._util.pools import batches, prefetch_map, process_pool
from treeformer._util.progress import ProgressCallback
from treeformer.draw import draw
from treeformer.errors import FormatError, TreeformerError
from treeformer.inference.predictor import Predictor
from treeformer.skeleton import Skeleton

if TYPE_CHECKING:
    import pandas as pd

OVERLAY_ENDING = ".overlay.jpg"
OVERLAY_LONGEST_PX = 2048
OVERLAY_QUALITY = 90
# Images whose files one process writes at a time.
AT_ONCE = 4

Result = Skeleton | TreeformerError
Outcome = tuple[bool, str | None]  # of an image: whether there is no plant in it, and a line where it failed


@dataclass(frozen=True)
class ImageJob:
    """An image and the files that are to be made of it: skeletons by format, our own JSON first, and an overlay."""

    image: Path
    skeletons: dict[str, Path]
    overlay: Path | None

    def is_done(self) -> bool:
        """Whether an earlier run has made them all."""
        return all(path.is_file() for path in self.skeletons.values()) and (
            self.overlay is None or self.overlay.is_file()
        )

    def write(self, skeleton: Skeleton) -> None:
        """Write every file, each whole or not at all; what cannot be written is an error at the end."""
        refused = []
        for name, path in self.skeletons.items():
            try:
                formats.write(skeleton, path, format=name)
            except FormatError as error:
                refused.append(str(error))
        if self.overlay is not None:
            try:
                drawn = draw(open_image(self.image, longest_px=OVERLAY_LONGEST_PX), skeleton)
                with atomic_write_checked(self.overlay) as temporary:
                    drawn.save(temporary, quality=OVERLAY_QUALITY)
            except FormatError as error:
                refused.append(str(error))
        if refused:
            raise FormatError("; ".join(refused))


def plan(
    sources: Sequence[Path], output: Path, other_formats: Sequence[str] = (), overlay: bool = False
) -> list[ImageJob]:
    """What is to be made of the images named and of those in the folders named, at any depth.

    Results lie in `output` as the images lie below the folder that all of them share, so that two images of the
    same name never meet; where two differ in their suffix alone, or the results of two would have one name for another
    reason, the suffix stays in the names of their results. Names are compared as file systems do that ignore letter
    case, whether this one does or not.
    """
    suffixes = {"json": ".json"}
    for name in other_formats:
        suffix = formats.format_for_writing(Path(), name).suffixes[0]
        suffixes.setdefault(name, suffix if suffix not in suffixes.values() else f".{name}{suffix}")
    named = (image for source in sources for image in _images(source, output))
    # By their full names: one image may be named in two ways, and ".." must not lead out of the output.
    images = {os.path.normpath(image.absolute()): image for image in named}
    roots = [source if source.is_dir() else source.parent for source in sources]
    shared = os.path.commonpath([os.path.normpath(root.absolute()) for root in roots])
    places = [output / os.path.relpath(image, shared) for image in images]
    stems = _distinct_stems(places, [*suffixes.values(), *([OVERLAY_ENDING] if overlay else [])])
    return [
        ImageJob(
            image,
            {format_: Path(stem + suffix) for format_, suffix in suffixes.items()},
            Path(stem + OVERLAY_ENDING) if overlay else None,
        )
        for image, stem in zip(images.values(), stems, strict=True)
    ]


def _distinct_stems(places: Sequence[Path], endings: Sequence[str]) -> list[str]:
    """What comes before the endings: the places without their suffixes, but with them where two results would meet.

    With its suffix in it, a name may meet a further one: `b.png` beside `b.tif` is in the way of `b.png.jpg`. Names
    that differ in letter case alone get a number, since they are one name to the disks of many.
    """
    alike = Counter[str]()
    full = []
    for place in places:
        alike[_folded(str(place))] += 1
        number = alike[_folded(str(place))]
        full.append(str(place) if number == 1 else f"{place}-{number}")
    stems = [str(place.with_suffix("")) for place in places]
    while True:
        count = Counter(_folded(stem + ending) for stem in stems for ending in endings)
        meets = [any(count[_folded(stem + ending)] > 1 for ending in endings) for stem in stems]
        longer = [whole if met else stem for whole, stem, met in zip(full, stems, meets, strict=True)]
        if longer == stems:
            return stems
        stems = longer


def _folded(name: str) -> str:
    """A name as file systems compare it that ignore letter case and how umlauts are put together."""
    return unicodedata.normalize("NFC", name.casefold())


def _images(source: Path, output: Path) -> Iterator[Path]:
    """The image itself, or those in a folder at any depth, in order of name; never our own overlays."""
    if not source.is_dir():
        if not source.exists():
            raise FormatError(f"{source}: no such file")
        yield source
        return
    found = False
    for file in list_files(source, without=output):
        if file.suffix.lower() in IMAGE_SUFFIXES and not file.name.endswith(OVERLAY_ENDING):
            found = True
            yield file
    if not found:
        raise FormatError(f"{source}: no image in this folder")


def check_no_annotation_is_lost(jobs: Sequence[ImageJob]) -> None:
    """An error where a result would replace a file beside its image that no earlier run has left there.

    Programs for annotation put `a.json` or `a.rsml` beside `a.jpg`, and so do data sets: with the images' own folder
    as output a prediction would take the place of the ground truth.
    """
    for job in jobs:
        there = [path for path in job.skeletons.values() if path.exists() and path.parent.samefile(job.image.parent)]
        if there and not _is_prediction(job.skeletons["json"]):
            raise FormatError(f"{there[0]}: is there, and no prediction: choose another folder for the results")


def _is_prediction(path: Path) -> bool:
    try:
        return formats.read(path).node_score is not None
    except FormatError:
        return False


@dataclass(frozen=True)
class BatchReport:
    """What came of it: images predicted now, those of them without a plant, and a line for each failure."""

    predicted: int
    empty: tuple[Path, ...]
    failures: tuple[str, ...]


def predict_files(
    jobs: Sequence[ImageJob],
    predictor: Predictor,
    *,
    workers: int = 2,
    processes: bool = False,
    progress: ProgressCallback | None = None,
    **options: Any,
) -> BatchReport:
    """Predict each image and write its files before the next one's; what fails is counted and the rest still done.

    Args:
        workers, processes: as for `Predictor.predict_many`. With processes, as many others write the files, of several
            images at the same time.
        progress: called with the number of images done and of all.
        options: further ones of `Predictor.predict_many`.
    """
    empty: list[Path] = []
    failures: list[str] = []
    images = [job.image for job in jobs]
    with closing(predictor.predict_many(images, workers=workers, processes=processes, **options)) as results:
        written = _written(zip(jobs, results, strict=True), workers if processes else 0)
        for done, (job, (is_empty, failure)) in enumerate(zip(jobs, written, strict=True), start=1):
            if is_empty:
                empty.append(job.image)
            if failure is not None:
                failures.append(failure)
            if progress is not None:
                progress(done, len(jobs))
    return BatchReport(len(jobs) - len(failures), tuple(empty), tuple(failures))


def _written(predicted: Iterable[tuple[ImageJob, Result]], writers: int) -> Iterator[Outcome]:
    """Write the files of each image, here or in processes; the outcomes in order."""
    if writers == 0:
        yield from map(_write, predicted)
        return
    with process_pool(writers) as pool:
        for outcomes in prefetch_map(pool, _write_all, batches(predicted, AT_ONCE), writers):
            yield from outcomes


def _write_all(predicted: list[tuple[ImageJob, Result]]) -> list[Outcome]:
    return [_write(one) for one in predicted]


def _write(predicted: tuple[ImageJob, Result]) -> Outcome:
    job, result = predicted
    is_empty = isinstance(result, Skeleton) and len(result) == 0
    try:
        if isinstance(result, TreeformerError):
            raise result
        job.write(result)
    except TreeformerError as error:
        return is_empty, f"{job.image}: {str(error).removeprefix(f'{job.image}: ')}"
    return is_empty, None


def traits_of(
    jobs: Sequence[ImageJob], *, px_per_mm: float | None = None, progress: ProgressCallback | None = None
) -> tuple[pd.DataFrame, list[str]]:
    """One table of all skeletons that are there, those of earlier runs included, a row a plant; a line a failure."""
    from treeformer.traits import measure_files

    paths = [path for job in jobs if (path := job.skeletons["json"]).is_file()]
    return measure_files(paths, px_per_mm=px_per_mm, progress=progress)
