"""Know the files that runs wrote to a folder of results, and remove those of earlier runs, such as of renamed images.

A hidden file in the folder lists the files of the subfolders `FOLDERS` with their checksums. A file that anybody has
changed since, such as the editor, is not removed.

Each checksum is listed before its file gets its name. A run that is killed therefore leaves no file that a later run
takes for one that a person has changed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from treeformer._util.files import atomic_write_bytes, before_each_write, sha256
from treeformer.results.layout import SERIES_LIST

FOLDERS = ("rsml", "kymographs")


@contextmanager
def listed_writes(folder: Path, time_ns: int | None = None) -> Iterator[None]:
    """Within the block, list each file of the subfolders `FOLDERS` before it is written; see the module.

    The list marks the folder as results of a series, so that no figure is listed as an image.
    """
    checksums = _listed(folder)

    def enter(temporary: Path, target: Path) -> None:
        if time_ns is not None:
            os.utime(temporary, ns=(time_ns, time_ns))
        name = f"{target.parent.name}/{target.name}"
        if target != folder / name or not _is_in_subfolder(name):
            return
        # The run may be killed before the file gets its name: its present checksum stays, unless a person changed it.
        checksums[name] = [*_known(checksums, folder, name), sha256(temporary)]
        _write_list(folder, checksums)

    with before_each_write(enter):
        yield


def changed_files(folder: Path, names: Iterable[str]) -> list[Path]:
    """Find the files that are not as a run wrote them."""
    checksums = _listed(folder)
    return [folder / name for name in names if (folder / name).is_file() and not _known(checksums, folder, name)]


def remove_earlier(folder: Path, written: Iterable[str]) -> list[str]:
    """Remove what an earlier run wrote to the subfolders `FOLDERS` and this one did not, and list this run's files."""
    now = {name for name in written if _is_in_subfolder(name)}
    checksums = _listed(folder)
    removed = []
    for name in checksums.keys() - now:
        path = folder / name
        # The editor writes JSON beside RSML.
        if _is_in_subfolder(name) and _known(checksums, folder, name) and not path.with_suffix(".json").exists():
            path.unlink()
            removed.append(name)
    _write_list(folder, {name: checksums[name][-1:] for name in now & checksums.keys()})
    return sorted(removed)


def _listed(folder: Path) -> dict[str, list[str]]:
    """Return the checksums of the files by name, the newest last. A list that cannot be read is empty."""
    try:
        document = json.loads((folder / SERIES_LIST).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(document, dict):
        return {}
    # Former lists have one checksum per file.
    lists = {name: [found] if isinstance(found, str) else found for name, found in document.items()}
    return {name: found for name, found in lists.items() if isinstance(found, list)}


def _write_list(folder: Path, checksums: Mapping[str, Sequence[str]]) -> None:
    atomic_write_bytes(folder / SERIES_LIST, json.dumps(checksums, indent=1, sort_keys=True).encode() + b"\n")


def _known(checksums: Mapping[str, Sequence[str]], folder: Path, name: str) -> list[str]:
    """Return the checksum of a file if a run wrote it as it is now, nothing otherwise."""
    path = folder / name
    if "\0" in name or name not in checksums or not path.is_file():
        return []
    return [checksum] if (checksum := sha256(path)) in checksums[name] else []


def _is_in_subfolder(name: str) -> bool:
    return "\0" not in name and Path(name).parent.as_posix() in FOLDERS
