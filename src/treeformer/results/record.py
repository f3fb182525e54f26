"""Where the images of a folder of results are, so that every command finds them; see docs/results.md.

The record is the hidden file `.treeformer-images` in the folder, which `predict`, `series` and `edit` write. All its
paths are relative, with forward slashes: images and results can be moved together. Several runs share one record.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath, PureWindowsPath

from treeformer._util.files import atomic_write
from treeformer._util.locks import sole_lock
from treeformer.errors import FormatError, TreeformerError
from treeformer.results.item import Item, Reader
from treeformer.results.layout import JSON, result_stems

NAME = ".treeformer-images"  # no suffix, so that a search for *.json does not find it
LOCK, LOCK_S = f"{NAME}.lock", 30.0
FORMAT = "treeformer-images"
MAX_BYTES = 1 << 28


@dataclass(frozen=True)
class ImageRecord:
    """The images that belong to a folder of results.

    Attributes:
        root: the folder of the images, absolute.
        sources: the images and folders that were given, relative to `root`; "." is the root itself.
        stems: path of the result without its suffix, relative to the results, by image, relative to `root`.
    """

    root: Path
    sources: tuple[str, ...] = (".",)
    stems: Mapping[str, str] = field(default_factory=dict)

    def moved_to(self, root: Path) -> ImageRecord:
        """Return the same record relative to a folder that contains the present root."""
        below = Path(os.path.relpath(self.root, root)).as_posix()

        def moved(path: str) -> str:
            return os.path.normpath(f"{below}/{path}").replace(os.sep, "/")

        return ImageRecord(
            root, tuple(map(moved, self.sources)), {moved(image): stem for image, stem in self.stems.items()}
        )

    def source_paths(self) -> list[Path]:
        """Return the images and folders that were given."""
        return [self.root / source for source in self.sources]


def find_items(folder: Path) -> list[Item]:
    """Return the images of a folder, or those that a folder of results records, with the places of their results."""
    record = read_record(folder)
    if record is None:
        return plan_items([folder], folder)
    recorded = {(record.root / image).resolve(): stem for image, stem in record.stems.items()}
    return plan_items(record.source_paths(), folder, recorded)


def plan_items(
    sources: Sequence[Path],
    results: Path,
    recorded: Mapping[Path, str] | None = None,
    reader: Reader | None = None,
    endings: Sequence[str] = (JSON,),
) -> list[Item]:
    """Return the images of several sources with the places of their results.

    The results of `a.png` and `a.jpg` are `a.png.json` and `a.jpg.json`. But if `a.json` is older than `a.jpg` and
    states that it belongs to `a.png`, it stays the result of that image. No two images have the same place.

    `recorded` are paths of results without suffix, relative to `results`, by resolved image; see `ImageRecord`.
    """
    recorded, reader = recorded or {}, reader or Reader()
    planned = result_stems(sources, results, endings)
    known = {image: at for image in planned if recorded and (at := recorded.get(image.resolve())) is not None}
    taken = {results / stem for stem in known.values()}
    items: list[Item] = []
    for image, first in planned.items():
        if image in known:
            stem = results / known[image]
        else:
            stem, number = _earlier_stem(image, first, reader), 1
            while stem in taken:  # a recorded result of another image
                number += 1
                stem = first.with_name(f"{image.name}-{number}")
            taken.add(stem)
        items.append(Item(image, stem))
    return items


def _earlier_stem(image: Path, stem: Path, reader: Reader) -> Path:
    """Return the stem that the results of an image had before another image of its name was added."""
    if stem.name != image.name:
        return stem
    earlier, older = stem.with_name(image.stem), stem.with_name(f"{image.stem}{JSON}")
    try:
        is_older = older in reader.listing.skeletons(earlier) and reader.about(older).image_name == image.name
    except TreeformerError:
        return stem
    return earlier if is_older else stem


def is_below(path: str) -> bool:
    """Return True if a path of a record is relative and stays below its root."""
    pure = PurePosixPath(path)
    is_absolute = pure.is_absolute() or PureWindowsPath(path).drive or "\\" in path
    return bool(pure.parts) and not is_absolute and ".." not in pure.parts


def write_record(output: Path, sources: Sequence[Path], items: Iterable[Item]) -> None:
    """Add images to the record of a folder of results. A record that cannot be read is replaced.

    `sources` are the images and folders that were given. Images on another drive than the results have no relative
    path; they are not recorded.
    """
    results = _absolute(output)
    roots = [source if source.is_dir() else source.parent for source in sources]
    try:
        root = Path(os.path.commonpath([_absolute(path) for path in roots]))
        new = ImageRecord(
            root,
            tuple(_relative(source, root) for source in sources),
            {_relative(item.image, root): _relative(item.stem, results) for item in items},
        )
    except ValueError:  # another drive
        return
    with sole_lock(output / LOCK, LOCK_S):  # two predictions into one folder must not lose each other's images
        try:
            new = _merged(output, new)
            images = _relative(new.root, results)
        except ValueError:
            return
        document = {"format": FORMAT, "version": 1, "images": images, "sources": new.sources, "results": new.stems}
        with atomic_write(output / NAME) as temporary:
            temporary.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _merged(output: Path, new: ImageRecord) -> ImageRecord:
    """Return the record in a folder with the images of a new one added; raise ValueError for another drive."""
    try:
        old = read_record(output)
    except FormatError:
        return new
    if old is None:
        return new
    common = Path(os.path.commonpath([old.root, new.root]))
    old, new = old.moved_to(common), new.moved_to(common)
    taken = set(new.stems.values())
    kept = {image: stem for image, stem in old.stems.items() if stem not in taken}
    return ImageRecord(common, tuple(dict.fromkeys(old.sources + new.sources)), kept | dict(new.stems))


def read_record(folder: Path) -> ImageRecord | None:
    """Return the record in a folder of results, None if it has none."""
    path = folder / NAME
    try:
        if path.stat().st_size > MAX_BYTES:
            raise FormatError(f"{path}: is too large")
        document = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FormatError(f"{path}: cannot be read ({error.strerror or error})") from None
    except (ValueError, RecursionError):
        raise FormatError(f"{path}: is not JSON") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT or document.get("version") != 1:
        raise FormatError(f"{path}: is not a record of images that this version of treeformer can read")
    images, sources, stems = (document.get(key) for key in ("images", "sources", "results"))
    if not (
        isinstance(images, str)
        and isinstance(sources, list)
        and isinstance(stems, dict)
        and all(isinstance(text, str) and "\0" not in text for text in (images, *sources, *stems, *stems.values()))
    ):
        raise FormatError(f"{path}: is damaged")
    return ImageRecord(_absolute(folder / images), tuple(sources), stems)


def _absolute(path: Path) -> Path:
    return Path(os.path.normpath(path.absolute()))


def _relative(path: Path, root: Path) -> str:
    return os.path.relpath(_absolute(path), root).replace(os.sep, "/")
