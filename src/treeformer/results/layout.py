"""Which files belong to an image, by their names alone; see docs/results.md.

An image `a.jpg` has the stem `a`, and its skeleton files are `a.json`, `a.rsml` and so on. The order in which these are
preferred, the names of results and those of backups are decided here only. No other part lists a user's folder.
"""

from __future__ import annotations

import itertools
import os
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from treeformer._util.files import atomic_write_bytes, is_backup, list_files
from treeformer._util.images import IMAGE_SUFFIXES
from treeformer.errors import FormatError
from treeformer.formats import SUFFIXES, is_skeleton_file
from treeformer.formats.convert import base_name, preference
from treeformer.hub.model_folder import CONFIG, WEIGHTS

JSON, RSML = ".json", ".rsml"
OVERLAY_ENDING = ".overlay.jpg"
# In the 3D2cut data set, the annotation of vine.jpeg is vine_annotation.json.
ANNOTATION_ENDING = "_annotation"
# Hidden files have no suffix, so that a search for *.json does not find them.
SERIES_LIST = ".treeformer-series"
# The editor's own files in the folder of the results, such as drafts.
OWN_FOLDER = ".treeformer"
# The files that mark a subfolder whose images are no input: results of `treeformer series`, and models.
OUTPUT_MARKS = (frozenset({SERIES_LIST}), frozenset({WEIGHTS, CONFIG}))
MAX_BACKUPS = 1000


def is_image(path: Path | str) -> bool:
    """Return True for the path or address of an image that is an input: overlays are results."""
    name = PurePosixPath(path.name if isinstance(path, Path) else path).name
    suffix = os.path.splitext(name)[1]  # noqa: PTH122
    return suffix.lower() in IMAGE_SUFFIXES and not name.startswith(".") and not name.endswith(OVERLAY_ENDING)


def list_images(source: Path, results: Path | None = None) -> Iterator[Path]:
    """Yield the image itself, or all images below a folder, sorted by name, without results, overlays and models."""
    if not source.is_dir():
        if not source.exists():
            raise FormatError(f"{source}: no such file")
        yield source
        return
    images = filter(is_image, list_files(source, without=results, marks=OUTPUT_MARKS))
    first = next(images, None)
    if first is None:
        raise FormatError(f"{source}: no image in this folder")
    yield from itertools.chain([first], images)


def result_stems(sources: Sequence[Path], results: Path, endings: Sequence[str] = (JSON,)) -> dict[Path, Path]:
    """Choose the path of the results of all images, without suffix.

    Results have the same folder structure as the images below their common folder, so that results of images with the
    same name do not collide. If two images differ only in their suffix, or two results would get the same name for
    another reason, the names keep the suffix of the image. Names that differ only in letter case count as the same.
    """
    listed = (image for source in sources for image in list_images(source, results))
    # By absolute path: one image may be listed in two ways, and ".." must not lead out of the folder of results.
    images = {os.path.normpath(image.absolute()): image for image in listed}
    roots = [source if source.is_dir() else source.parent for source in sources]
    try:
        common = os.path.commonpath([os.path.normpath(root.absolute()) for root in roots])
    except ValueError:  # Windows
        raise FormatError("the images are on several drives: predict those of each drive in a run of its own") from None
    targets = [results / os.path.relpath(image, common) for image in images]
    return dict(zip(images.values(), map(Path, _distinct_stems(targets, endings)), strict=True))


def _distinct_stems(targets: Sequence[Path], endings: Sequence[str]) -> list[str]:
    """Return one stem per target: the path without its suffix, or with it if two results would get the same name.

    A name that keeps its suffix may collide with another one: `b.png` beside `b.tif` collides with `b.png.jpg`. Names
    that differ only in letter case get a number, because many file systems ignore case.
    """
    seen = Counter[str]()
    full = []
    for target in targets:
        seen[_folded(str(target))] += 1
        number = seen[_folded(str(target))]
        full.append(str(target) if number == 1 else f"{target}-{number}")
    stems = [str(target.with_suffix("")) for target in targets]
    while True:
        count = Counter(_folded(stem + ending) for stem in stems for ending in endings)
        collides = [any(count[_folded(stem + ending)] > 1 for ending in endings) for stem in stems]
        longer = [long if collision else stem for long, stem, collision in zip(full, stems, collides, strict=True)]
        if longer == stems:
            return stems
        stems = longer


def _folded(name: str) -> str:
    """Return a name as file systems compare it that ignore letter case and Unicode composition."""
    return unicodedata.normalize("NFC", name.casefold())


class Listing:
    """The skeleton files in folders. Each folder is listed once, after `check`, which may raise an error."""

    def __init__(self, check: Callable[[Path], object] = lambda _: None) -> None:
        self._check = check
        self._folders: dict[Path, dict[str, list[Path]]] = {}

    def skeletons(self, stem: Path) -> list[Path]:
        """Return the skeleton files of a stem, the preferred one first: `a.json`, `a.rsml`, …, then `a.coco.json`."""
        if stem.parent not in self._folders:
            self._check(stem.parent)
            self._folders[stem.parent] = _by_stem(_skeleton_files(stem.parent))
        return self._folders[stem.parent].get(stem.name, [])


def _skeleton_files(folder: Path) -> list[Path]:
    """Return the files in a folder whose names are those of skeletons, the preferred ones of a name first."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if not entry.name.startswith(".") and entry.is_file()]
    except OSError:
        return []
    files = (folder / name for name in names if os.path.splitext(name)[1].lower() in SUFFIXES)  # noqa: PTH122
    return sorted((file for file in files if not is_backup(file)), key=lambda file: (*preference(file), file.name))


def _by_stem(files: Sequence[Path]) -> dict[str, list[Path]]:
    """Return files by stem, and by what is left of the stem without the name of a format or `ANNOTATION_ENDING`."""
    found: dict[str, list[Path]] = {}
    for file in files:
        found.setdefault(file.stem, []).append(file)
    for file in files:
        if (short := _short_name(file)) != file.stem:
            found.setdefault(short, []).append(file)
    return found


def _short_name(file: Path) -> str:
    return base_name(file).name.removesuffix(ANNOTATION_ENDING)


class Group(NamedTuple):
    """The files of one name in a folder.

    Attributes:
        name: the name without suffix.
        images: the images of this name; more than one differ in their suffix.
        skeletons: the skeleton files of this name, the preferred one first.
    """

    name: str
    images: list[Path]
    skeletons: list[Path]


def groups(folder: Path) -> list[Group]:
    """Return the images and skeleton files in a folder by name, without its sub-folders, sorted by name."""
    images: dict[str, list[Path]] = {}
    for entry in sorted(folder.iterdir()):
        if is_image(entry) and entry.is_file():
            images.setdefault(entry.stem, []).append(entry)
    skeletons: dict[str, list[Path]] = {}
    for file in _skeleton_files(folder):
        name = file.stem if file.stem in images else _short_name(file)
        skeletons.setdefault(name, []).append(file)
    return [Group(name, images.get(name, []), skeletons.get(name, [])) for name in sorted({*images, *skeletons})]


def list_skeletons(paths: Sequence[Path], exclude: Path | None = None) -> list[Path]:
    """List skeleton files, each once. Folders are searched recursively, without hidden files and originals.

    Paths and links that lead to the same file count once. An original among the files is left out as well if the file
    that replaced it is there: `plates/*.json` matches both.
    """
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            known = (file for file in list_files(path) if file.suffix.lower() in SUFFIXES and file != exclude)
            skeletons = [file for file in known if not is_backup(file) and is_skeleton_file(file)]
            if not skeletons:
                raise FormatError(f"{path}: no skeleton file in this folder")
            found += skeletons
        elif not is_backup(path) or len(paths) == 1:
            found.append(path)
    first: dict[str, Path] = {}
    for path in found:
        first.setdefault(os.path.realpath(path), path)
    return list(first.values())


def back_up(path: Path, is_taken: Callable[[Path], bool] = lambda _: False) -> Path:
    """Copy a file to `NAME.orig.SUFFIX`, or `NAME.orig-2.SUFFIX` if that is another original; return the copy.

    `is_taken` returns True for a path without suffix that is that of the results of another image.
    """
    data = path.read_bytes()
    for number in range(1, MAX_BACKUPS):
        stem = path.with_name(f"{path.stem}.orig{'' if number == 1 else f'-{number}'}")
        copy = stem.with_name(stem.name + path.suffix)
        if is_taken(stem) or copy.is_symlink():
            continue
        if not copy.exists():
            atomic_write_bytes(copy, data)
            return copy
        if copy.is_file() and copy.read_bytes() == data:
            return copy
    raise FormatError(f"{path.name}: there are too many originals of this file")
