"""The two roots of the editor: images, and results with the same sub-folders. Lists images and their states.

A request names an image by its path relative to the images root. Only images that the listing found are accepted, so
a request cannot reach any other file. Files of the editor itself (drafts, thumbnails) are in `.treeformer` in the
results root.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from treeformer import formats
from treeformer.errors import FormatError, TreeformerError
from treeformer.results.item import About, Item, Origin, Reader
from treeformer.results.layout import OWN_FOLDER, is_image
from treeformer.results.record import is_below, plan_items, read_record
from treeformer.web.errors import RequestError
from treeformer.web.security import check_inside


@dataclass(frozen=True)
class Entry:
    """One image.

    Attributes:
        image: path relative to the images root, with forward slashes. Requests use it as the name of the image.
        item: the file, and the place of its results.
    """

    image: str
    item: Item

    @property
    def path(self) -> Path:
        """The image file."""
        return self.item.image

    @property
    def stem(self) -> Path:
        """Path of the results without suffix, absolute."""
        return self.item.stem

    @property
    def result(self) -> Path:
        """The result in the native format."""
        return self.item.json

    @property
    def rsml(self) -> Path:
        """The result in RSML."""
        return self.item.rsml


@dataclass(frozen=True)
class Summary:
    """What the list shows of a result.

    Attributes:
        state: "missing", "predicted", "edited", "accepted" or "failed".
        expected_errors: sum of (1 - edge_score) over the edges that were not checked; None if there are no scores.
        plants: number of plants, None if there is no result.
        nodes: number of nodes, None if there is no result.
        error: why it failed, None otherwise.
        version: changes whenever the file changes, None if there is no result.
        origin: what the result is, see `treeformer.results.item.Origin`; None if there is none.
        open_places: number of edges of low confidence that no person has checked.
    """

    state: str
    expected_errors: float | None = None
    plants: int | None = None
    nodes: int | None = None
    error: str | None = None
    version: str | None = None
    origin: Origin | None = None
    open_places: int = 0


MISSING = Summary("missing")


class Workspace:
    """Images and their results.

    `sources`, the images and folders that are listed, are relative to `images_root`, and `stems`, the paths of results
    without suffix, to `results_root`; images without a stem are planned as `treeformer predict` does.

    Attributes:
        images_root: resolved.
        results_root: resolved.
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
        self._sources = tuple(source for source in sources if source == "." or is_below(source))
        self._stems = {
            (self.images_root / image).resolve(): stem for image, stem in (stems or {}).items() if is_below(stem)
        }
        self._entries: dict[str, Entry] = {}
        self.reader = Reader(self._check)
        self._failures: dict[str, str] = {}
        self._lock = threading.Lock()
        if not self.refresh():
            raise FormatError(f"{images_root}: there is no image in the folder")

    def own_folder(self, name: str) -> Path:
        """Return the path of a folder of the editor's own files in the results root; it need not exist."""
        folder = self.results_root / OWN_FOLDER / name
        check_inside(self.results_root, folder)
        return folder

    def sources(self) -> list[Path]:
        """Return the images and folders that are listed; some may have been deleted."""
        return [self.images_root / source for source in self._sources]

    def refresh(self) -> list[Entry]:
        """Search the folders again. Return the images in order."""
        self.reader.refresh()
        paths = self.sources()
        present = [path for path in paths if path.exists()] or paths
        items = plan_items(present, self.results_root, self._stems, self.reader)
        entries = {entry.image: entry for item in items if (entry := self._entry_of(item)) is not None}
        with self._lock:
            self._entries = entries
        return list(entries.values())

    def _entry_of(self, item: Item) -> Entry | None:
        """Return the entry of an image, None for a name that is not Unicode, or a path out of the root."""
        path = Path(os.path.normpath(item.image))
        try:
            image = path.relative_to(self.images_root).as_posix()
            image.encode()
            if path.is_symlink():
                check_inside(self.images_root, path)
        except (ValueError, RequestError):
            return None
        return Entry(image, Item(path, item.stem)) if is_image(path) else None  # others are given by name

    def _check(self, folder: Path) -> None:
        check_inside(self.results_root if folder.is_relative_to(self.results_root) else self.images_root, folder)

    def entries(self) -> list[Entry]:
        """Return the images that the last search found, in order."""
        with self._lock:
            return list(self._entries.values())

    def entry(self, image: object) -> Entry:
        """Return a listed image by its name."""
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
        """Return the skeleton file of an image, as all commands choose it; None if it has no skeleton."""
        self.reader.refresh()
        return self._file(entry)

    def _file(self, entry: Entry) -> Path | None:
        path = self.reader.choose(entry.item)
        if path is None:
            return None
        check_inside(self.results_root if path.is_relative_to(self.results_root) else self.images_root, path)
        try:
            self.reader.about(path)
        except formats.UnknownKindError:
            return None
        except TreeformerError:
            pass  # a damaged skeleton
        return path

    def current_files(self, entries: Iterable[Entry]) -> list[Path | None]:
        """Return the skeleton file of each image; folders are listed once."""
        self.reader.refresh()
        return [self._file(entry) for entry in entries]

    def note_failure(self, entry: Entry, error: str | None) -> None:
        """Remember that the prediction of an image failed, or with None that it did not."""
        with self._lock:
            self._failures.pop(entry.image, None)
            if error is not None:
                self._failures[entry.image] = error

    def summaries(self, entries: Iterable[Entry]) -> list[Summary]:
        """Return the state of each image. A file is read again only if its size or time has changed.

        Folders are listed once each, so that images without a result cost nothing.
        """
        self.reader.refresh()
        return [self._summary(entry) for entry in entries]

    def worst_first(self) -> list[Entry]:
        """Return the images in the order in which the page lists them: most expected errors first, accepted last."""
        entries = self.entries()

        def place(row: tuple[Entry, Summary]) -> tuple[int, float]:
            errors = row[1].expected_errors
            return (1, 0.0) if errors is None else (2 if row[1].state == "accepted" else 0, -errors)

        return [entry for entry, _ in sorted(zip(entries, self.summaries(entries), strict=True), key=place)]

    def _summary(self, entry: Entry) -> Summary:
        try:
            path = self._file(entry)
            if path is not None:
                return summary_of(self.reader.about(path))
        except (TreeformerError, OSError) as error:
            return Summary("failed", error=str(error))
        failure = self._failures.get(entry.image)
        return MISSING if failure is None else Summary("failed", error=failure)


def summary_of(about: About) -> Summary:
    """Return what the list shows of a skeleton file. Annotations are shown as edited: people made them."""
    states = {Origin.prediction: "predicted", Origin.accepted: "accepted"}
    return Summary(
        states.get(about.origin, "edited"),
        about.expected_errors,
        about.plants,
        about.nodes,
        version=about.version,
        origin=about.origin,
        open_places=about.open_places,
    )


def open_workspace(images: Path, results: Path | None = None) -> Workspace:
    """Find the two roots of the editor: from images, or from a folder of results, which records where its images are.

    Without `results`, results are in the folder of the images, or in the folder of results that was given.
    """
    if not images.exists():
        raise FormatError(f"{images}: no such file or folder")
    if images.is_file() and not is_image(images):
        raise FormatError(f"{images}: is not an image; give the folder of the images, an image or a folder of results")
    record = read_record(images) if images.is_dir() else None
    if record is not None and results is None:
        if not record.root.is_dir():
            raise FormatError(f"{images}: its images were in {record.root}, which does not exist")
        return Workspace(record.root, images, record.sources, record.stems)
    root, sources = (images, (".",)) if images.is_dir() else (images.parent, (images.name,))
    output = results if results is not None else root
    record = read_record(output) if output.is_dir() else None
    stems = {} if record is None else {str(record.root / image): stem for image, stem in record.stems.items()}
    return Workspace(root, output, sources, stems)
