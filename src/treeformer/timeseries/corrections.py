"""Dates that were corrected in the editor, in the results of an earlier run: they are used, and never lost.

The editor saves them beside the RSML files, or in the place of the predictions.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from treeformer import formats
from treeformer._util.files import is_file
from treeformer.errors import FormatError, TreeformerError
from treeformer.formats.rsml.reader import resolution_px_per_mm
from treeformer.results.item import Origin, origin_in
from treeformer.results.layout import back_up
from treeformer.results.record import read_record
from treeformer.results.saved import is_own
from treeformer.skeleton import Skeleton
from treeformer.timeseries.folder import DateFile
from treeformer.timeseries.leftovers import changed_files, listed_writes
from treeformer.timeseries.predictions import checksum, is_correction, prediction_file


@dataclass(frozen=True)
class FoundFiles:
    """The files of earlier results in which the editor saves dates, as a run found them when it began.

    Attributes:
        checksums: Their checksums.
        time_ns: The time at which the run began, ns since 1970.
    """

    checksums: Mapping[Path, str]
    time_ns: int

    def is_unchanged(self, file: Path) -> bool:
        """Return True if no file was saved or removed since then."""
        return self.checksums.get(file) == checksum(file)


def found_files(dates: Sequence[DateFile], results: Path) -> FoundFiles:
    """Record what the editor has saved, before the dates are read."""
    time_ns = time.time_ns()
    files = (file for date in dates for file in _files(results, date.name))
    return FoundFiles({file: found for file in files if (found := checksum(file)) is not None}, time_ns)


def with_corrections(dates: Sequence[DateFile], results: Path) -> list[DateFile]:
    """Let the skeletons of dates be those that the editor saved in earlier results."""
    found = []
    for date in dates:
        file = _correction(results, date.name)
        is_used = file is not None and (date.skeleton is None or not _replaces(date.skeleton, file))
        found.append(replace(date, skeleton=file) if is_used else date)
    return found


def back_up_replaced(dates: Sequence[DateFile], results: Path, found: FoundFiles) -> Iterator[str]:
    """Copy what a person has made and this run replaces, before new results are written."""
    for date in dates:
        # If one of the two files is used, only the first is written.
        first, second = _files(results, date.name)
        is_used = date.skeleton in (first, second)
        for file in {first} - {date.skeleton} if is_used else (first, second):
            if date.skeleton is not None and found.is_unchanged(file) and is_correction(file):
                yield f"a newer skeleton replaces a correction, which is kept as {back_up(file)}"
    for file in changed_files(results, [f"rsml/{date.name}.rsml" for date in dates]):
        if not is_own(file.with_suffix(".json"), file):
            yield f"a file that the editor did not write is replaced, and kept as {back_up(file)}"
    for file in changed_files(results, [f"rsml/{date.name}.json" for date in dates]):
        if found.is_unchanged(file) and not is_correction(file):
            what = "a prediction with a scale" if is_own(file, file) else "a file that the editor did not write"
            yield f"{what} is replaced, and kept as {back_up(file)}"


def back_up_non_predictions(dates: Sequence[DateFile], results: Path) -> Iterator[str]:
    """Copy the files in the places of predictions that models did not write, before the dates are predicted."""
    for date in dates:
        file = prediction_file(results, date.name)
        if date.skeleton is None and is_file(file) and origin_in(file) is not Origin.prediction:
            yield f"a file that is not a prediction is replaced, and kept as {back_up(file)}"


def check_same_images(folder: Path, dates: Sequence[DateFile], results: Path) -> None:
    """Check that dates which were corrected in earlier results are those of the same folder of images."""
    try:
        record = read_record(results)
    except FormatError:
        record = None
    if record is None:
        return
    others = [source for source in record.source_paths() if source.exists()]
    if not others or any(source.samefile(folder) for source in others):
        return
    for date in dates:
        if (file := _correction(results, date.name)) is not None:
            raise TreeformerError(f"{file}: is a correction of a date in {others[0]}: choose another output folder")


def check_nothing_is_corrected(dates: Sequence[DateFile], results: Path) -> None:
    """Check that no date was corrected in the editor, before all are predicted again."""
    for date in dates:
        file = _correction(results, date.name)
        if file is not None:
            raise TreeformerError(f"{file}: was corrected in the editor: choose another output folder")


def update_corrections(
    skeletons: Sequence[Skeleton], names: Sequence[str], results: Path, found: FoundFiles
) -> list[Path]:
    """Give the files of the editor the ids and the scale of a new run, because it opens them and not the RSML files.

    A file gets the time at which the run began, so that what a person saves in the meantime is newer.
    """
    saved = []
    for skeleton, name in zip(skeletons, names, strict=True):
        file = _file(results, name)
        if not found.is_unchanged(file):
            saved.append(file)
        elif file.exists():
            with listed_writes(results, found.time_ns):
                formats.write(_with_one_scale(skeleton), file)
    return [file for file in saved if file.exists()]


def _with_one_scale(skeleton: Skeleton) -> Skeleton:
    """Return a skeleton in which a scale that was set in the editor is that of the RSML metadata."""
    editor, scale = skeleton.metadata.get("editor"), resolution_px_per_mm(skeleton)
    if scale is None or not (isinstance(editor, Mapping) and editor.get("px_per_mm")):
        return skeleton
    return skeleton.replace(metadata={**skeleton.metadata, "editor": {**editor, "px_per_mm": scale}})


def _file(results: Path, name: str) -> Path:
    return results / "rsml" / f"{name}.json"


def _files(results: Path, name: str) -> tuple[Path, Path]:
    """Return the two files in which the editor may have saved a date; they need not exist."""
    return _file(results, name), prediction_file(results, name)


def _correction(results: Path, name: str) -> Path | None:
    """Return the file of a date that the editor saved last, None if it saved none."""
    return max(filter(is_correction, _files(results, name)), key=lambda file: file.stat().st_mtime, default=None)


def _replaces(beside: Path, correction: Path) -> bool:
    """Return True if a skeleton beside an image is newer than the correction and was made or checked by a person.

    A prediction, and a file that cannot be read, are newer only by accident.
    """
    is_newer = beside.stat().st_mtime > correction.stat().st_mtime
    return is_newer and origin_in(beside) not in (None, Origin.prediction)
