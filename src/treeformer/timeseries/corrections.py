"""Dates that were corrected in the editor, in the results of an earlier run: they are used, and never lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from treeformer import formats
from treeformer.errors import TreeformerError
from treeformer.inference.provenance import is_from_editor
from treeformer.skeleton import Skeleton
from treeformer.timeseries.folder import DateFile


def with_corrections(dates: Sequence[DateFile], results: Path) -> list[DateFile]:
    """Let the skeletons of dates be those that the editor saved in earlier results.

    Args:
        dates: The dates.
        results: The folder of the results.

    Returns:
        The dates. A skeleton beside an image that is newer than the correction stays.
    """
    found = []
    for date in dates:
        file = _file(results, date.name)
        is_newer = date.skeleton is not None and _is_newer(date.skeleton, file)
        found.append(replace(date, skeleton=file) if _is_correction(file) and not is_newer else date)
    return found


def check_nothing_is_corrected(dates: Sequence[DateFile], results: Path) -> None:
    """Check that no date was corrected in the editor, before all are predicted again.

    Args:
        dates: The dates.
        results: The folder of the results.

    Raises:
        TreeformerError: If one was.
    """
    for date in dates:
        file = _file(results, date.name)
        if _is_correction(file):
            raise TreeformerError(f"{file}: was corrected in the editor: choose another output folder")


def update_corrections(skeletons: Sequence[Skeleton], names: Sequence[str], results: Path) -> None:
    """Give the files of the editor the ids of a new run, because the editor opens them and not the RSML files.

    Args:
        skeletons: The skeletons of the series.
        names: Their names.
        results: The folder of the results.
    """
    for skeleton, name in zip(skeletons, names, strict=True):
        if _file(results, name).exists():
            formats.write(skeleton, _file(results, name))


def _file(results: Path, name: str) -> Path:
    return results / "rsml" / f"{name}.json"


def _is_correction(file: Path) -> bool:
    try:
        return file.is_file() and is_from_editor(formats.read(file))
    except TreeformerError:
        return False


def _is_newer(first: Path, second: Path) -> bool:
    return second.exists() and first.stat().st_mtime > second.stat().st_mtime
