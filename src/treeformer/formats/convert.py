"""Convert a file or all files of a folder to another format. Failures of single files are reported."""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path, PurePosixPath
from typing import NamedTuple, TypeAlias

from treeformer._util.files import check_writable, is_backup
from treeformer._util.progress import ProgressCallback
from treeformer.errors import FormatError
from treeformer.formats import (
    FORMATS,
    Format,
    UnknownKindError,
    detect_format,
    find_format,
    format_for_writing,
    is_skeleton_file,
    read,
    read_all,
)
from treeformer.skeleton import Skeleton

FileId: TypeAlias = tuple[int, int]  # device and inode

# Characters that some file systems do not allow in names.
INVALID_IN_NAMES = re.compile(r'[\x00-\x1f<>:"|?*]')


@dataclass(frozen=True, slots=True)
class ConvertReport:
    """The result of a conversion."""

    written: tuple[Path, ...]  # files written
    failures: tuple[str, ...]  # one line per failure
    skipped: int  # number of files of no known format
    # number of names that occur in several formats, by the format that was converted
    preferred: Mapping[str, int] = field(default_factory=dict)
    # number of files that were passed over for these, by format
    passed_over: Mapping[str, int] = field(default_factory=dict)
    incomplete: int = 0  # number of written files from which content was left out that the format does not allow
    left_out: tuple[str, ...] = ()  # names of what was left out, sorted


def convert(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    to: str | None = None,
    from_: str | None = None,
    preserve: bool = False,
    progress: ProgressCallback | None = None,
) -> ConvertReport:
    """Convert a file, or every file of a known format in a folder and its subfolders.

    `to` is required if the target is a folder, which exists already or has no suffix; otherwise the suffix decides.
    Files in a folder get the stem of their source file, or of the image if the source file contains several images.
    With `from_`, only files with suffixes of that format are converted, and with `preserve` also content that the
    target format does not allow is written, such as <rootnavspline> in RSML. Failures of single files are in the
    report.

    If a name occurs in a folder in several formats, such as a.json and a.rsml, only one file is converted: that of the
    first format in the order of `FORMATS`. An output never replaces an input file or another output of the same run.
    Such conflicts are failures.
    """
    origin, destination = Path(source), Path(target)
    if from_ is not None:
        find_format(from_)
    try:
        is_folder, into_folder = stat.S_ISDIR(origin.stat().st_mode), destination.is_dir() or not destination.suffix
    except OSError as error:
        raise FormatError(f"{error.filename}: cannot be read ({error.strerror})") from None
    if is_folder or into_folder:
        batch = _Batch(_format_of_folder(to), from_, preserve)
        check_writable(destination)  # fail once here instead of once per file
    else:
        batch = _Batch(format_for_writing(destination, to), from_, preserve, single_target=destination)
    if is_folder:
        batch.gather(origin, destination)
        batch.prefer_one_per_name()
    else:
        batch.jobs.append(_Job(origin, origin.name, destination))
    return batch.run(progress, skip_unknown=is_folder and from_ is None)


def _format_of_folder(to: str | None) -> Format:
    if to is None:
        names = ", ".join(name for name, entry in FORMATS.items() if entry.write is not None)
        raise FormatError(f"a target folder requires a target format (--format): one of {names}")
    return format_for_writing(Path(), to)


class _Job(NamedTuple):
    """A file to convert, its name in messages, and its output folder."""

    path: Path
    name: str
    folder: Path


@dataclass(slots=True)
class _Batch:
    entry: Format
    from_: str | None
    preserve: bool
    single_target: Path | None = None
    jobs: list[_Job] = field(default_factory=list)
    written: list[Path] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    skipped: int = 0
    preferred: Counter[str] = field(default_factory=Counter)
    passed_over: Counter[str] = field(default_factory=Counter)
    inputs: set[FileId | None] = field(default_factory=set)
    incomplete: int = 0
    left_out: set[str] = field(default_factory=set)
    source_of: dict[FileId, str] = field(default_factory=dict)

    def gather(self, folder: Path, target: Path) -> None:
        """Add all files below a folder that have a readable suffix, except backups and those in the target folder."""
        suffixes = {s for name, entry in FORMATS.items() if self.from_ in (None, name) for s in entry.suffixes}
        target_id = _file_id(target)

        def report_unreadable(error: OSError) -> None:
            if Path(error.filename) == folder:
                raise FormatError(f"{folder}: cannot be read ({error.strerror})")
            self.failures.append(f"{Path(error.filename).relative_to(folder)}: cannot be read ({error.strerror})")

        for name, folders, files in os.walk(folder, onerror=report_unreadable):
            current = Path(name)
            visible = sorted(f for f in folders if not f.startswith("."))
            folders[:] = [f for f in visible if target_id is None or _file_id(current / f) != target_id]
            for file in sorted(f for f in files if not f.startswith(".")):
                # Tables of all kinds end in .csv. Those without the required columns are not skeletons.
                is_other_table = (
                    self.from_ is None and file.lower().endswith(".csv") and not is_skeleton_file(current / file)
                )
                is_other = is_other_table or is_backup(current / file)
                if Path(file).suffix.lower() in suffixes and not is_other:
                    relative = current.relative_to(folder)
                    self.jobs.append(_Job(current / file, str(relative / file), target / relative))
                else:
                    self.skipped += 1

    def prefer_one_per_name(self) -> None:
        """Keep one job per name, see `find_copies`."""
        self.inputs = {_file_id(job.path) for job in self.jobs}
        copies = find_copies([job.path for job in self.jobs])
        self.preferred, self.passed_over = copies.preferred, copies.passed_over
        self.jobs = [job for job in self.jobs if job.path not in copies.files]

    def run(self, progress: ProgressCallback | None, *, skip_unknown: bool) -> ConvertReport:
        self.inputs |= {_file_id(job.path) for job in self.jobs}
        for done, job in enumerate(self.jobs, start=1):
            try:
                for skeleton, output in self._outputs(job):
                    self._write(skeleton, output, job)
            except UnknownKindError as error:
                if skip_unknown:
                    self.skipped += 1
                else:
                    self._fail(job, error)
            except FormatError as error:
                self._fail(job, error)
            if progress is not None:
                progress(done, len(self.jobs))
        return ConvertReport(
            tuple(self.written),
            tuple(self.failures),
            self.skipped,
            preferred=dict(self.preferred),
            passed_over=dict(self.passed_over),
            incomplete=self.incomplete,
            left_out=tuple(sorted(self.left_out)),
        )

    def _outputs(self, job: _Job) -> Iterator[tuple[Skeleton, Path]]:
        """Yield each skeleton of a file and the file to write it to."""
        if self.single_target is not None:
            yield read(job.path, format=self.from_), self.single_target
            return
        suffix = self.entry.suffixes[0]
        images = read_all(job.path, format=self.from_)
        first, second = next(images, None), next(images, None)
        if first is None:
            raise FormatError(f"{job.path.name}: contains no images")
        if second is None:
            yield first, job.folder / (job.path.stem + suffix)
            return
        for number, image in enumerate(chain([first, second], images), start=1):
            stem = _stem(image.image_name or "") or f"{job.path.stem}-{number}"
            yield image, job.folder / (stem + suffix)

    def _write(self, skeleton: Skeleton, output: Path, job: _Job) -> None:
        existing = _file_id(output)
        try:
            if existing is not None and existing in self.inputs:
                raise FormatError(f"{output.name}: is an input file and would be overwritten")
            if existing in self.source_of:
                raise FormatError(
                    f"{output.name}: was already written from {self.source_of[existing]} and would be overwritten"
                )
            left_out = self.entry.save(skeleton, output, preserve=self.preserve)
        except FormatError as error:
            self._fail(job, error)
            return
        self.written.append(output)
        self.incomplete += bool(left_out)
        self.left_out.update(left_out)
        new = _file_id(output)
        if new is not None:
            self.source_of[new] = job.name

    def _fail(self, job: _Job, error: FormatError) -> None:
        message = str(error).removeprefix(f"{job.path.name}: ")
        self.failures.append(" ".join(f"{job.name}: {message}".splitlines()))


class Copies(NamedTuple):
    """Files that hold a skeleton which is there in another format."""

    files: set[Path]
    preferred: Counter[str]  # number of names that occur in several formats, by the format that is no copy
    passed_over: Counter[str]  # number of copies by format


def find_copies(paths: Sequence[Path]) -> Copies:
    """Find skeletons that occur in several formats, as `treeformer predict --format` writes them: a.json, a.rsml.

    The file of the first format in the order of `FORMATS` is no copy. Broken files and files of unknown formats or of
    several images are never copies.
    """
    named: dict[Path, list[Path]] = {}
    for path in paths:
        named.setdefault(base_name(path), []).append(path)
    rank = {name: number for number, name in enumerate(FORMATS)}
    copies = Copies(set(), Counter(), Counter())
    for same in named.values():
        if len(same) == 1:
            continue
        formats = {path: name for path in same if (name := _format_of_single_image(path))}
        ranked = sorted(formats, key=lambda path: rank[formats[path]])
        if len(ranked) > 1:
            copies.preferred[formats[ranked[0]]] += 1
            copies.passed_over.update(formats[path] for path in ranked[1:])
            copies.files.update(ranked[1:])
    return copies


def base_name(path: Path) -> Path:
    """Return a path without its suffix and without the name of a format before it.

    `treeformer predict --format coco` writes a.json and a.coco.json for one image.

    >>> base_name(Path("a.json")) == base_name(Path("a.coco.json")), base_name(Path("2024.05.json")).name
    (True, '2024.05')
    """
    stem, _, last = path.stem.rpartition(".")
    return path.with_name(stem if stem and last in FORMATS else path.stem)


def _format_of_single_image(path: Path) -> str | None:
    """Return the name of a file's format, None if it is broken, unknown, or contains several images or none."""
    entry = detect_format(path)
    if entry is None:
        return None
    if entry.from_json is None:
        return entry.name
    try:
        return entry.name if len(list(islice(entry.read_all(path), 2))) == 1 else None
    except FormatError:
        return None


def _stem(image_name: str) -> str:
    """Return the stem of an image name, which may be a Windows path, as a valid part of a file name."""
    stem = PurePosixPath(image_name.replace("\\", "/")).stem
    return INVALID_IN_NAMES.sub("_", stem.encode("utf-8", "replace").decode())


def _file_id(path: Path) -> FileId | None:
    """Return the device and inode of a file, which are equal for two names of one file. None if it is missing."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino
