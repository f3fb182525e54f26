"""From one format to another: a file, or all files of a folder; what fails is counted and the rest still done."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import NamedTuple, TypeAlias

from treeformer._util.files import check_writable
from treeformer._util.progress import ProgressCallback
from treeformer.errors import FormatError
from treeformer.formats import (
    FORMATS,
    Format,
    UnknownKindError,
    find_format,
    format_for_writing,
    is_skeleton_file,
    read,
    read_all,
)
from treeformer.skeleton import Skeleton

FileId: TypeAlias = tuple[int, int]  # device and inode

# Characters that some file system does not allow in a name.
NOT_IN_NAMES = re.compile(r'[\x00-\x1f<>:"|?*]')


@dataclass(frozen=True, slots=True)
class ConvertReport:
    """What came of it: the files written, a line for each failure, and how many files were of no known format."""

    written: tuple[Path, ...]
    failures: tuple[str, ...]
    skipped: int


def convert(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    to: str | None = None,
    from_: str | None = None,
    progress: ProgressCallback | None = None,
) -> ConvertReport:
    """Convert a file into a file, or into a folder; or every file of a known format in a folder and those within it.

    Args:
        source: a file or a folder. In a folder, names that begin with a dot are passed over.
        target: a file, or a folder: one that exists, or a name without suffix. Files in a folder get the
            stem of the one they come from, those out of a file of many images the stem of the image.
        to: a name in `FORMATS`; needed for a folder, otherwise the target's suffix tells.
        from_: a name in `FORMATS`; of a folder only files with that format's suffixes are converted.
        progress: called with the number of files done and of all files, after each.

    No file replaces one that it was made from, nor one that was made in the same run: that is a failure.

    Raises:
        TreeformerError: where the arguments themselves are wrong; failures with single files are in the report.
    """
    origin, destination = Path(source), Path(target)
    if from_ is not None:
        find_format(from_)
    try:
        is_folder, into_folder = stat.S_ISDIR(origin.stat().st_mode), destination.is_dir() or not destination.suffix
    except OSError as error:
        raise FormatError(f"{error.filename}: cannot be read ({error.strerror})") from None
    if is_folder or into_folder:
        batch = _Batch(_format_of_folder(to), from_)
        check_writable(destination)  # one line, not one for every file
    else:
        batch = _Batch(format_for_writing(destination, to), from_, single_target=destination)
    if is_folder:
        batch.gather(origin, destination)
    else:
        batch.jobs.append(_Job(origin, origin.name, destination))
    return batch.run(progress, skip_unknown=is_folder and from_ is None)


def _format_of_folder(to: str | None) -> Format:
    if to is None:
        names = ", ".join(name for name, entry in FORMATS.items() if entry.write is not None)
        raise FormatError(f"a folder needs the format to convert to: one of {names}")
    return format_for_writing(Path(), to)


class _Job(NamedTuple):
    """A file to convert, its name in messages, and the folder its outcome goes to."""

    path: Path
    name: str
    folder: Path


@dataclass(slots=True)
class _Batch:
    entry: Format
    from_: str | None
    single_target: Path | None = None
    jobs: list[_Job] = field(default_factory=list)
    written: list[Path] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    skipped: int = 0
    made_from: dict[FileId, str] = field(default_factory=dict)

    def gather(self, folder: Path, target: Path) -> None:
        """All files below a folder with a suffix that is read; not those in the target, where that lies within."""
        suffixes = {s for name, entry in FORMATS.items() if self.from_ in (None, name) for s in entry.suffixes}
        target_id = _file_id(target)

        def unreadable(error: OSError) -> None:
            if Path(error.filename) == folder:
                raise FormatError(f"{folder}: cannot be read ({error.strerror})")
            self.failures.append(f"{Path(error.filename).relative_to(folder)}: cannot be read ({error.strerror})")

        for name, folders, files in os.walk(folder, onerror=unreadable):
            here = Path(name)
            seen = sorted(f for f in folders if not f.startswith("."))
            folders[:] = [f for f in seen if target_id is None or _file_id(here / f) != target_id]
            for file in sorted(f for f in files if not f.startswith(".")):
                # Tables of all kinds end in .csv: one without our columns is not meant as a skeleton.
                is_other_table = (
                    self.from_ is None and file.lower().endswith(".csv") and not is_skeleton_file(here / file)
                )
                if Path(file).suffix.lower() in suffixes and not is_other_table:
                    relative = here.relative_to(folder)
                    self.jobs.append(_Job(here / file, str(relative / file), target / relative))
                else:
                    self.skipped += 1

    def run(self, progress: ProgressCallback | None, *, skip_unknown: bool) -> ConvertReport:
        inputs = {_file_id(job.path) for job in self.jobs}
        for done, job in enumerate(self.jobs, start=1):
            try:
                for skeleton, output in self._outputs(job):
                    self._write(skeleton, output, job, inputs)
            except UnknownKindError as error:
                if skip_unknown:
                    self.skipped += 1
                else:
                    self._fail(job, error)
            except FormatError as error:
                self._fail(job, error)
            if progress is not None:
                progress(done, len(self.jobs))
        return ConvertReport(tuple(self.written), tuple(self.failures), self.skipped)

    def _outputs(self, job: _Job) -> Iterator[tuple[Skeleton, Path]]:
        """Each image of a file, and the file it is to become."""
        if self.single_target is not None:
            yield read(job.path, format=self.from_), self.single_target
            return
        suffix = self.entry.suffixes[0]
        images = read_all(job.path, format=self.from_)
        first, second = next(images, None), next(images, None)
        if first is None:
            raise FormatError(f"{job.path.name}: holds no images")
        if second is None:
            yield first, job.folder / (job.path.stem + suffix)
            return
        for number, image in enumerate(chain([first, second], images), start=1):
            stem = _stem(image.image_name or "") or f"{job.path.stem}-{number}"
            yield image, job.folder / (stem + suffix)

    def _write(self, skeleton: Skeleton, output: Path, job: _Job, inputs: set[FileId | None]) -> None:
        there = _file_id(output)
        try:
            if there is not None and there in inputs:
                raise FormatError(f"{output.name}: is itself to be converted and would be overwritten")
            if there in self.made_from:
                raise FormatError(f"{output.name}: was made from {self.made_from[there]} and would be overwritten")
            assert self.entry.write is not None
            self.entry.write(skeleton, output)
        except FormatError as error:
            self._fail(job, error)
            return
        self.written.append(output)
        new = _file_id(output)
        if new is not None:
            self.made_from[new] = job.name

    def _fail(self, job: _Job, error: FormatError) -> None:
        message = str(error).removeprefix(f"{job.path.name}: ")
        self.failures.append(" ".join(f"{job.name}: {message}".splitlines()))


def _stem(image_name: str) -> str:
    """The stem of an image's name as part of a file name, wherever the name comes from and whatever it holds."""
    stem = PurePosixPath(image_name.replace("\\", "/")).stem
    return NOT_IN_NAMES.sub("_", stem.encode("utf-8", "replace").decode())


def _file_id(path: Path) -> FileId | None:
    """What tells whether two names are one file, letter case and links considered; None where there is no file."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino
