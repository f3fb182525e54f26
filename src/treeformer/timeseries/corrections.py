"""Dates that were corrected in the editor, in the results of an earlier run: they are used, and never lost.

The editor saves them beside the RSML files, or in the place of the predictions.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from treeformer import formats
from treeformer._util.files import atomic_write, is_file
from treeformer.errors import FormatError, TreeformerError
from treeformer.formats.rsml.reader import resolution_px_per_mm
from treeformer.inference.image_record import read_record
from treeformer.inference.provenance import is_uncorrected
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
        """Return True if nobody has saved or removed a file since then."""
        return self.checksums.get(file) == checksum(file)


def found_files(dates: Sequence[DateFile], results: Path) -> FoundFiles:
    """Record what the editor has saved, before the dates are read.

    Args:
        dates: The dates.
        results: The folder of the results.

    Returns:
        The checksums of the files, and the time.
    """
    time_ns = time.time_ns()
    files = (file for date in dates for file in _files(results, date.name))
    return FoundFiles({file: found for file in files if (found := checksum(file)) is not None}, time_ns)


def with_corrections(dates: Sequence[DateFile], results: Path) -> list[DateFile]:
    """Let the skeletons of dates be those that the editor saved in earlier results.

    Args:
        dates: The dates.
        results: The folder of the results.

    Returns:
        The dates. A skeleton beside an image stays if it is newer than the correction, unless it is a prediction.
    """
    found = []
    for date in dates:
        file = _correction(results, date.name)
        is_used = file is not None and (date.skeleton is None or not _replaces(date.skeleton, file))
        found.append(replace(date, skeleton=file) if is_used else date)
    return found


def keep_replaced(dates: Sequence[DateFile], results: Path, found: FoundFiles) -> list[Path]:
    """Copy the corrections that newer skeletons replace, before new results are written.

    Args:
        dates: The dates, as `with_corrections` returns them.
        results: The folder of the results.
        found: The files when the run began. What was saved since then is not replaced.

    Returns:
        The copies, `NAME.orig.json` beside the correction.
    """
    kept = []
    for date in dates:
        if date.skeleton is None:
            continue
        # If one of the files is used, only the first is written.
        first, second = _files(results, date.name)
        replaced = {first} - {date.skeleton} if date.skeleton in (first, second) else {first, second}
        kept += [_copy_of(file) for file in sorted(replaced) if found.is_unchanged(file) and is_correction(file)]
    return kept


def keep_foreign_files(dates: Sequence[DateFile], results: Path, found: FoundFiles) -> list[Path]:
    """Copy the files in the folder `rsml` that neither a run nor the editor wrote, before new results are written.

    Args:
        dates: The dates.
        results: The folder of the results.
        found: The files when the run began. What was saved since then is not replaced.

    Returns:
        The copies, `NAME.orig.rsml` or `NAME.orig.json` beside the file.
    """
    rsml = changed_files(results, [f"rsml/{date.name}.rsml" for date in dates])
    json = changed_files(results, [f"rsml/{date.name}.json" for date in dates])
    others = [file for file in rsml if not _is_rsml_of_editor(file)]
    others += [file for file in json if found.is_unchanged(file) and not is_correction(file)]
    return [_copy_of(file) for file in others]


def keep_non_predictions(dates: Sequence[DateFile], results: Path) -> list[Path]:
    """Copy the files in the places of predictions that are none, before the dates are predicted.

    Args:
        dates: The dates. Those with a skeleton are not predicted.
        results: The folder of the results.

    Returns:
        The copies, `NAME.orig.json` beside the file.
    """
    files = [prediction_file(results, date.name) for date in dates if date.skeleton is None]
    return [_copy_of(file) for file in files if is_file(file) and not _is_prediction(file)]


def check_same_images(folder: Path, dates: Sequence[DateFile], results: Path) -> None:
    """Check that dates which were corrected in earlier results are those of the same folder of images.

    Args:
        folder: The folder of the dates.
        dates: The dates.
        results: The folder of the results, which records where its images are. They may have been moved since then.

    Raises:
        TreeformerError: If a correction belongs to a date of the same name in another folder.
    """
    try:
        record = read_record(results)
    except FormatError:
        record = None
    if record is None:
        return
    sources = [record.root / source for source in record.sources]
    others = [source for source in sources if source.exists()]
    if not others or any(source.samefile(folder) for source in others):
        return
    for date in dates:
        if (file := _correction(results, date.name)) is not None:
            raise TreeformerError(f"{file}: is a correction of a date in {others[0]}: choose another output folder")


def check_nothing_is_corrected(dates: Sequence[DateFile], results: Path) -> None:
    """Check that no date was corrected in the editor, before all are predicted again.

    Args:
        dates: The dates.
        results: The folder of the results.

    Raises:
        TreeformerError: If one was.
    """
    for date in dates:
        file = _correction(results, date.name)
        if file is not None:
            raise TreeformerError(f"{file}: was corrected in the editor: choose another output folder")


def update_corrections(
    skeletons: Sequence[Skeleton], names: Sequence[str], results: Path, found: FoundFiles
) -> list[Path]:
    """Give the files of the editor the ids and the scale of a new run, because it opens them and not the RSML files.

    A file gets the time at which the run began, so that what a person saves in the meantime is newer.

    Args:
        skeletons: The skeletons of the series, with their scale in the RSML metadata.
        names: Their names.
        results: The folder of the results.
        found: The files when the run began.

    Returns:
        The files that were saved since then, which stay as they are.
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


def _is_rsml_of_editor(file: Path) -> bool:
    """Return True for an RSML file that the editor wrote together with its JSON file, and nobody has changed since."""
    try:
        editor = formats.read(file.with_suffix(".json")).metadata.get("editor")
    except TreeformerError:
        return False
    written = editor.get("written") if isinstance(editor, Mapping) else None
    return isinstance(written, Mapping) and written.get("rsml") == checksum(file)


def _is_prediction(file: Path) -> bool:
    try:
        return is_uncorrected(formats.read(file))
    except TreeformerError:
        return False


def _replaces(beside: Path, correction: Path) -> bool:
    """Return True if a skeleton beside an image is newer than the correction and was made or checked by a person.

    A prediction, and a file that cannot be read, are newer only by accident.
    """
    if beside.stat().st_mtime <= correction.stat().st_mtime:
        return False
    try:
        return not is_uncorrected(formats.read(beside))
    except TreeformerError:
        return False


def _copy_of(file: Path) -> Path:
    """Copy a file to `NAME.orig.json`, or `NAME.orig-2.json` if that is another one, and return the copy."""
    data = file.read_bytes()
    for number in itertools.count(1):
        copy = file.with_name(f"{file.stem}.orig{'' if number == 1 else f'-{number}'}{file.suffix}")
        if copy.is_file() and copy.read_bytes() == data:
            break
        if not copy.exists():
            with atomic_write(copy) as temporary:
                temporary.write_bytes(data)
            break
    return copy
