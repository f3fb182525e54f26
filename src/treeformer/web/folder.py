"""The two roots of the editor: images, and results with the same sub-folders. Lists images and their states.

A request names an image by its path relative to the images root. Only images that the listing found are accepted, so
a request cannot reach any other file. Files of the editor itself (drafts, thumbnails) are in `.treeformer` in the
results root.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from treeformer import formats
from treeformer._util.images import IMAGE_SUFFIXES
from treeformer.errors import FormatError, TreeformerError
from treeformer.formats.rsml.confidence import has_scores
from treeformer.inference.batch import plan
from treeformer.inference.image_record import belongs_to_another, read_record
from treeformer.skeleton import Skeleton
from treeformer.web.errors import RequestError
from treeformer.web.security import check_inside

OWN_FOLDER = ".treeformer"
RESULT_SUFFIX, RSML_SUFFIX = ".json", ".rsml"
# The result, and the formats that are imported if there is none, in this order.
SUFFIXES = (RESULT_SUFFIX, RSML_SUFFIX, ".swc", ".graphml", ".geojson", ".xml")
# Sources of what no person has checked; "imported" is from a file that names no model.
UNCHECKED = ("predicted", "imported")


@dataclass(frozen=True)
class Entry:
    """One image.

    Attributes:
        image: path relative to the images root, with forward slashes. Requests use it as the name of the image.
        path: the file.
        stem: path of its results without suffix, absolute.
    """

    image: str
    path: Path
    stem: Path

    @property
    def result(self) -> Path:
        """The result in the native format."""
        return self.stem.with_name(self.stem.name + RESULT_SUFFIX)

    @property
    def rsml(self) -> Path:
        """The result in RSML."""
        return self.stem.with_name(self.stem.name + RSML_SUFFIX)


@dataclass(frozen=True)
class Summary:
    """What the list shows of a result.

    Attributes:
        state: "missing", "predicted", "edited", "accepted" or "failed".
        expected_errors: sum of (1 - edge_score) over the edges that nobody has checked; None if there are no scores.
        plants: number of plants, None if there is no result.
        nodes: number of nodes, None if there is no result.
        error: why it failed, None otherwise.
        version: changes whenever the file changes, None if there is no result.
    """

    state: str
    expected_errors: float | None = None
    plants: int | None = None
    nodes: int | None = None
    error: str | None = None
    version: str | None = None


MISSING = Summary("missing")


class Workspace:
    """Images and their results.

    Args:
        images_root: folder of the images.
        results_root: folder of the results; it need not exist.
        sources: images and folders below `images_root` that are listed, relative to it.
        stems: path of the result without suffix, relative to `results_root`, by image; others are planned as
            `treeformer predict` does.

    Attributes:
        images_root: resolved.
        results_root: resolved.

    Raises:
        TreeformerError: if the images root is not a folder, or there is no image in it.
    """

    def __init__(
        self,
        images_root: Path,
        results_root: Path,
        sources: Sequence[str] = (".",),
        stems: Mapping[str, str] | None = None,
    ) -> None:
        if not images_root.is_dir():
            raise FormatError(f"{images_root}: no such folder of images")
        if results_root.exists() and not results_root.is_dir():
            raise FormatError(f"{results_root}: is not a folder")
        self.images_root, self.results_root = images_root.resolve(), results_root.resolve()
        self._sources = tuple(source for source in sources if source == "." or _is_plain(source))
        self._stems = dict(stems or {})
        self._entries: dict[str, Entry] = {}
        self._summaries: dict[Path, tuple[tuple[int, int], Summary]] = {}
        self._image_names: dict[Path, tuple[tuple[int, int], str | None]] = {}
        self._failures: dict[str, str] = {}
        self._lock = threading.Lock()
        if not self.refresh():
            raise FormatError(f"{images_root}: there is no image in the folder")

    def own_folder(self, name: str) -> Path:
        """Return the path of a folder of the editor's own files in the results root; it need not exist.

        Raises:
            RequestError: if it leads out of the results root.
        """
        folder = self.results_root / OWN_FOLDER / name
        check_inside(self.results_root, folder)
        return folder

    def sources(self) -> list[Path]:
        """Return the images and folders that are listed; some may have been deleted."""
        return [self.images_root / source for source in self._sources]

    def refresh(self) -> list[Entry]:
        """Search the folders again. Return the images in order."""
        paths = self.sources()
        jobs = plan([path for path in paths if path.exists()] or paths, self.results_root, ("rsml",))
        entries: dict[str, Entry] = {}
        planned: list[tuple[str, Path, str]] = []
        for job in jobs:
            path = Path(os.path.normpath(job.image))
            try:
                image = path.relative_to(self.images_root).as_posix()
                image.encode()
                if path.is_symlink():
                    check_inside(self.images_root, path)
            except (ValueError, RequestError):  # a name that is not Unicode, or a path out of the root
                continue
            if path.suffix.lower() not in IMAGE_SUFFIXES:  # given by name
                continue
            stem = job.skeletons["json"].relative_to(self.results_root).as_posix()[: -len(RESULT_SUFFIX)]
            planned.append((image, path, stem))
        listed = {image for image, *_ in planned}
        taken = {stem for image, stem in self._stems.items() if image in listed}
        for image, path, stem in planned:
            chosen = self._stems.get(image)
            if chosen is None or not _is_plain(chosen):
                chosen, number = self._earlier_stem(path, stem) or stem, 1
                while chosen in taken:  # a recorded result of another image
                    number += 1
                    chosen = f"{image}-{number}"
                taken.add(chosen)
            entries[image] = Entry(image, path, self.results_root / chosen)
        with self._lock:
            self._entries = entries
        return list(entries.values())

    def _earlier_stem(self, path: Path, stem: str) -> str | None:
        """Return the stem that the results of an image had before another image of its name was added.

        Args:
            path: the image, such as `a.png`.
            stem: path of its results without suffix, relative to the results root: `a.png` if there is an `a.jpg`, too.

        Returns:
            `a` if `a.json` states that it belongs to `a.png`, otherwise None.
        """
        if PurePosixPath(stem).name != path.name:
            return None
        earlier = stem[: -len(path.suffix)]
        file = self.results_root / f"{earlier}{RESULT_SUFFIX}"
        try:
            check_inside(self.results_root, file)
            return earlier if self._image_name(file) == path.name else None
        except RequestError:
            return None

    def _image_name(self, file: Path) -> str | None:
        """Return the name of the image that a skeleton file states, None if it states none or cannot be read."""
        try:
            version = _version(file)
            if self._image_names.get(file, (None, None))[0] != version:
                self._image_names[file] = (version, formats.read(file).image_name)
        except (OSError, TreeformerError):
            return None
        return self._image_names[file][1]

    def entries(self) -> list[Entry]:
        """Return the images that the last search found, in order."""
        with self._lock:
            return list(self._entries.values())

    def entry(self, image: object) -> Entry:
        """Return a listed image by its name.

        Raises:
            RequestError: if there is no such image, or it has become a link that leads out of the images root.
        """
        with self._lock:
            entry = self._entries.get(image) if isinstance(image, str) else None
        if entry is None:
            raise RequestError("There is no such image in the folder.", 404)
        check_inside(self.images_root, entry.path)
        check_inside(self.results_root, entry.result)
        check_inside(self.results_root, entry.rsml)
        return entry

    def is_result_stem(self, stem: Path) -> bool:
        """Return True if results of a listed image have this path without suffix."""
        with self._lock:
            return any(entry.stem == stem for entry in self._entries.values())

    def current_file(self, entry: Entry) -> Path | None:
        """Return the skeleton file of an image: its result, or else the first file that can be imported."""
        found = self._current(entry, _Names())
        return None if found is None else found[0]

    def _current(self, entry: Entry, names: _Names) -> tuple[Path, Summary] | None:
        """Return the file and its summary. Files in the results root come before files beside the image."""
        beside = entry.path.with_suffix("")
        for root, stem in dict.fromkeys(((self.results_root, entry.stem), (self.images_root, beside))):
            present = names.of(root, stem.parent)
            for suffix in SUFFIXES:
                path = stem.with_name(stem.name + suffix)
                if path.name in present:
                    check_inside(root, path)
                    is_shared = stem != entry.stem and entry.stem.name == entry.path.name  # by a.png and a.jpg
                    if is_shared and belongs_to_another(self._image_name(path), entry.path):
                        continue
                    if (summary := self._cached_summary(path)) is not MISSING:
                        return path, summary
        return None

    def note_failure(self, entry: Entry, error: str | None) -> None:
        """Remember that the prediction of an image failed, or with None that it did not.

        Args:
            entry: the image.
            error: one sentence.
        """
        with self._lock:
            self._failures.pop(entry.image, None)
            if error is not None:
                self._failures[entry.image] = error

    def summaries(self, entries: Iterable[Entry]) -> list[Summary]:
        """Return the state of each image. A file is read again only if its size or time has changed.

        Folders are listed once each, so that images without a result cost nothing.
        """
        names = _Names()
        return [self._summary(entry, names) for entry in entries]

    def worst_first(self) -> list[Entry]:
        """Return the images in the order in which the page lists them: most expected errors first, accepted last."""
        entries = self.entries()

        def place(row: tuple[Entry, Summary]) -> tuple[int, float]:
            errors = row[1].expected_errors
            return (1, 0.0) if errors is None else (2 if row[1].state == "accepted" else 0, -errors)

        return [entry for entry, _ in sorted(zip(entries, self.summaries(entries), strict=True), key=place)]

    def _summary(self, entry: Entry, names: _Names) -> Summary:
        try:
            found = self._current(entry, names)
        except (TreeformerError, OSError) as error:
            return Summary("failed", error=str(error))
        if found is not None:
            return found[1]
        failure = self._failures.get(entry.image)
        return MISSING if failure is None else Summary("failed", error=failure)

    def _cached_summary(self, path: Path) -> Summary:
        """Return the summary of a file, `MISSING` if it is not a skeleton."""
        version = _version(path)
        cached = self._summaries.get(path)
        if cached is not None and cached[0] == version:
            return cached[1]
        try:
            summary = replace(summarize(formats.read(path)), version="{:x}-{:x}".format(*version))
        except formats.UnknownKindError:
            summary = MISSING
        except TreeformerError as error:
            summary = Summary("failed", error=str(error))
        self._summaries[path] = (version, summary)
        return summary


class _Names:
    """The names in each folder, listed once."""

    def __init__(self) -> None:
        self._folders: dict[Path, frozenset[str]] = {}

    def of(self, root: Path, folder: Path) -> frozenset[str]:
        """Return the names in a folder below a root, none if there is no such folder. Raise if it is outside."""
        if folder not in self._folders:
            check_inside(root, folder)
            try:
                self._folders[folder] = frozenset(path.name for path in folder.iterdir())
            except OSError:
                self._folders[folder] = frozenset()
        return self._folders[folder]


def _version(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_mtime_ns, status.st_size


def editor_data(skeleton: Skeleton) -> Mapping[str, Any] | None:
    """Return what the editor has stored in the metadata of a skeleton, None if it did not save the skeleton."""
    data = skeleton.metadata.get("editor")
    return data if isinstance(data, Mapping) else None


def summarize(skeleton: Skeleton) -> Summary:
    """Return the state of a result.

    Files that the editor did not save are "predicted" if they have scores, otherwise "edited": people made them.
    """
    editor = editor_data(skeleton)
    state = "predicted" if editor is None and has_scores(skeleton) else "edited"
    if editor is not None and editor.get("accepted") is True:
        state = "accepted"
    plants = len(set(skeleton.plant_of_node.tolist()))
    return Summary(state, _expected_errors(skeleton, editor, state), plants, len(skeleton))


def _expected_errors(skeleton: Skeleton, editor: Mapping[str, Any] | None, state: str) -> float | None:
    if state == "accepted":
        return 0.0
    if skeleton.edge_score is None:
        return None
    doubt: list[float] = [min(1.0, max(0.0, 1.0 - score)) for score in skeleton.edge_score.tolist()]
    sources = editor.get("edge_source") if editor is not None else None
    if isinstance(sources, list) and len(sources) == len(doubt):
        doubt = [value for value, source in zip(doubt, sources, strict=True) if source in UNCHECKED]
    return round(math.fsum(doubt), 6)


def _is_plain(stem: str) -> bool:
    """Return True if a path is relative and stays below its root."""
    path = PurePosixPath(stem)
    is_absolute = path.is_absolute() or PureWindowsPath(stem).drive or "\\" in stem
    return bool(path.parts) and not is_absolute and ".." not in path.parts


def open_workspace(images: Path, results: Path | None = None) -> Workspace:
    """Find the two roots of the editor.

    Args:
        images: a folder of images, one image, or a folder of results that `treeformer predict` or `treeformer series`
            has written.
        results: folder of the results. None uses the folder of the images, or `images` itself if it has a record of
            where its images are.

    Returns:
        The images and their results.

    Raises:
        TreeformerError: if there is no such folder, no image in it, or its record is invalid.
    """
    if not images.exists():
        raise FormatError(f"{images}: no such file or folder")
    if images.is_file() and images.suffix.lower() not in IMAGE_SUFFIXES:
        raise FormatError(f"{images}: is not an image; give the folder of the images, an image or a folder of results")
    record = read_record(images) if images.is_dir() else None
    if record is not None and results is None:
        if not record.root.is_dir():
            raise FormatError(f"{images}: its images were in {record.root}, which does not exist")
        return Workspace(record.root, images, record.sources, record.stems)
    root, sources = (images, (".",)) if images.is_dir() else (images.parent, (images.name,))
    output = results if results is not None else root
    record = read_record(output) if output.is_dir() else None
    stems: dict[str, str] = {}
    if record is not None:
        for image, stem in record.stems.items():
            path = Path(os.path.normpath(record.root / image))
            if path.is_relative_to(root.resolve()) or path.is_relative_to(root.absolute()):
                base = root.resolve() if path.is_relative_to(root.resolve()) else root.absolute()
                stems[path.relative_to(base).as_posix()] = stem
    return Workspace(root, output, sources, stems)
