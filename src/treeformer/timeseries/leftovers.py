"""Remove the files of an earlier run from a folder of results, such as the dates of images that were renamed.

A hidden file in the folder lists the files that a run wrote, with their checksums. A file that anybody has changed
since, such as the editor, is not removed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from treeformer._util.files import atomic_write_bytes
from treeformer.inference.batch import SERIES_LIST

FOLDERS = ("rsml", "kymographs")


def mark_results(folder: Path) -> None:
    """Mark a folder as results of a series before the first figure is written, so that no figure is listed as an image.

    The list of an earlier run stays.

    Raises:
        OSError: If the mark cannot be written.
    """
    if not (folder / SERIES_LIST).is_file():
        atomic_write_bytes(folder / SERIES_LIST, b"{}\n")


def remove_earlier(folder: Path, written: Iterable[str]) -> list[str]:
    """Remove what an earlier run wrote to the subfolders `FOLDERS` and this one did not, and list this run's files.

    Args:
        folder: The folder of the results.
        written: The names of the files that this run wrote, relative to the folder, with forward slashes.

    Returns:
        The names of the removed files.

    Raises:
        OSError: If a file cannot be removed or the list cannot be written.
    """
    now = {name for name in written if _is_in_subfolder(name)}
    removed = []
    for name, checksum in _earlier(folder / SERIES_LIST).items():
        path = folder / name
        if name in now or not _is_in_subfolder(name) or not path.is_file():
            continue
        # The editor writes JSON beside RSML.
        if _checksum(path) == checksum and not path.with_suffix(".json").exists():
            path.unlink()
            removed.append(name)
    document = {name: _checksum(folder / name) for name in sorted(now)}
    atomic_write_bytes(folder / SERIES_LIST, json.dumps(document, indent=1).encode() + b"\n")
    return removed


def _earlier(path: Path) -> dict[str, str]:
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _is_in_subfolder(name: str) -> bool:
    return "\0" not in name and Path(name).parent.as_posix() in FOLDERS


def _checksum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
