"""Record in a folder of results where the images are, so that `treeformer edit RESULTS` finds them.

The record is the hidden file `.treeformer-images` in the folder. All its paths are relative, with forward slashes:
images and results can be moved together. Results of several runs share one record.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from treeformer._util.files import atomic_write
from treeformer._util.locks import sole_lock
from treeformer.errors import FormatError
from treeformer.inference.batch import ImageJob

NAME = ".treeformer-images"  # no suffix, so that nobody who searches for *.json takes it for a result
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


def write_record(output: Path, sources: Sequence[Path], jobs: Sequence[ImageJob]) -> None:
    """Add images to the record of a folder of results. A record that cannot be read is replaced.

    Images on another drive than the results have no relative path; they are not recorded.

    Args:
        output: the folder of the results.
        sources: the images and folders that were given.
        jobs: the images with their result files.

    Raises:
        OSError: if the record cannot be written.
    """
    results = _absolute(output)
    roots = [source if source.is_dir() else source.parent for source in sources]
    try:
        root = Path(os.path.commonpath([_absolute(path) for path in roots]))
        new = ImageRecord(
            root,
            tuple(_relative(source, root) for source in sources),
            {_relative(job.image, root): _relative(job.skeletons["json"], results)[: -len(".json")] for job in jobs},
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
    """Return the record in a folder of results, None if it has none.

    Raises:
        FormatError: if the record is invalid.
    """
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


def belongs_to_another(image_name: str | None, image: Path) -> bool:
    """Check whether a skeleton `a.json` states that it belongs to another image of its name, `a.png` beside `a.jpg`.

    Args:
        image_name: the name of the image that the skeleton states, None if it states none.
        image: the image with which its file shares its name.

    Returns:
        True if it states another image that exists.
    """
    other = Path(image_name or "")
    is_neighbor = other.name == image_name and other.stem == image.stem and other.name != image.name
    return is_neighbor and image.with_name(other.name).is_file()
