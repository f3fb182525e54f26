"""Read and write skeletons. The suffix selects the format; if several share a suffix, the content decides."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

from treeformer.errors import FormatError
from treeformer.formats import (
    branch_trees,
    coco,
    csv_table,
    geojson,
    graphml,
    labelme,
    native_json,
    node_link,
    single_guyot,
    swc,
)
from treeformer.formats._io import begins_json_object, read_head, read_json, reading
from treeformer.formats.rsml import reader as rsml
from treeformer.skeleton import Skeleton

__all__ = [
    "FORMATS",
    "SUFFIXES",
    "Format",
    "LeftOutWarning",
    "UnknownKindError",
    "detect_format",
    "find_format",
    "format_for_writing",
    "is_skeleton_file",
    "read",
    "read_all",
    "write",
]


class UnknownKindError(FormatError):
    """An intact file in none of the formats that share its suffix, such as a JSON settings file."""


class LeftOutWarning(UserWarning):
    """A file was written without some content of the skeleton, because its format does not allow it."""


@dataclass(frozen=True, slots=True)
class Format:
    """A file format.

    Attributes:
        name: The name in `FORMATS`.
        suffixes: All suffixes of the format. New files get the first.
        description: One line for the user.
        read: Read a file of one image.
        write: Write a file, None if the format is read-only. Content that the skeleton has from a file of the same
            format is preserved, even if the format does not define it.
        looks_like: Return True if the first bytes of a file are of this format.
        matches: For JSON, return True if the object in the file is of this format. None for other formats.
        from_json: For JSON, yield the skeletons of an object, one per image. None for other formats.
        write_valid: Write a file without content that the format does not allow, and return the names of what was
            left out. None if `write` writes no such content.
    """

    name: str
    suffixes: tuple[str, ...]
    description: str
    read: Callable[[Path], Skeleton]
    write: Callable[[Skeleton, Path], None] | None
    looks_like: Callable[[bytes], bool]
    matches: Callable[[Mapping[str, Any]], bool] | None = None
    from_json: Callable[[Mapping[str, Any]], Iterator[Skeleton]] | None = None
    write_valid: Callable[[Skeleton, Path], tuple[str, ...]] | None = None

    def read_all(self, path: Path) -> Iterator[Skeleton]:
        """Yield one skeleton per image."""
        if self.from_json is None:
            yield self.read(path)
        else:
            with reading(path):
                yield from self.from_json(read_json(path))

    def save(self, skeleton: Skeleton, path: Path, *, preserve: bool = False) -> tuple[str, ...]:
        """Write a file.

        Args:
            skeleton: The skeleton.
            path: The file to write. An existing file is replaced.
            preserve: Also write content that the format does not allow.

        Returns:
            The names of what was left out.

        Raises:
            FormatError: If the format is read-only or cannot store the skeleton, or if the file cannot be written.
        """
        if self.write is None:
            raise FormatError(f"format {self.name!r} is read-only")
        if self.write_valid is not None and not preserve:
            return self.write_valid(skeleton, path)
        self.write(skeleton, path)
        return ()


def _json(name: str, module: ModuleType, description: str, *suffixes: str) -> Format:
    write = getattr(module, "write", None)
    return Format(
        name, suffixes, description, module.read, write, begins_json_object, module.matches, from_json=module.skeletons
    )


def _text(name: str, module: ModuleType, description: str, *suffixes: str) -> Format:
    return Format(name, suffixes, description, module.read, getattr(module, "write", None), module.looks_like)


_ALL = (
    _json("json", native_json, "native JSON: every field of a skeleton", ".json"),
    Format(
        "rsml",
        (".rsml", ".xml"),
        "RSML, Root System Markup Language; valid by its schema",
        rsml.read,
        rsml.write,
        rsml.looks_like,
        write_valid=rsml.write_valid,
    ),
    Format(
        "rsml-smartroot",
        (".rsml", ".xml"),
        "RSML as SmartRoot reads it",
        rsml.read,
        partial(rsml.write, dialect="smartroot"),
        rsml.looks_like,
    ),
    _text("swc", swc, "SWC, one row per node", ".swc"),
    _text("graphml", graphml, "GraphML, for NetworkX, Gephi, yEd, Cytoscape", ".graphml", ".xml"),
    _json("node-link", node_link, "node-link JSON, for NetworkX and D3", ".json"),
    _json("geojson", geojson, "GeoJSON in pixels, one LineString per axis, one Point per node", ".geojson", ".json"),
    _json("labelme", labelme, "LabelMe, one linestrip per axis", ".json"),
    _json("coco", coco, "COCO keypoints, one annotation per plant", ".json"),
    _text("csv", csv_table, "CSV table, one row per node", ".csv"),
    _json("single-guyot", single_guyot, "annotations of the 3D2cut Single Guyot set (read-only)", ".json"),
    _text("branch-trees", branch_trees, "XML of the branch-trees set (read-only)", ".xml"),
)

FORMATS: Mapping[str, Format] = MappingProxyType({entry.name: entry for entry in _ALL})
"""Every format by name. If several share a suffix, new files get the first one that can be written.

:meta hide-value:
"""


SUFFIXES = frozenset(suffix for entry in _ALL for suffix in entry.suffixes)
"""All suffixes that can be read."""


def is_skeleton_file(path: Path) -> bool:
    """Return True if a file with a known suffix contains a skeleton, or is broken and may have contained one."""
    try:
        head = read_head(path)
        if path.suffix.lower() == ".json":
            document = read_json(path)
            return any(entry.matches(document) for entry in _ALL if entry.matches is not None)
    except FormatError:
        return True
    sharing = [entry for entry in _ALL if path.suffix.lower() in entry.suffixes]
    # Files of many kinds end in .xml or .csv, so their content decides. Other suffixes are unambiguous.
    return path.suffix.lower() not in (".xml", ".csv") or any(entry.looks_like(head) for entry in sharing)


def detect_format(path: Path) -> Format | None:
    """Return the format of a file by its suffix and content, None if it is broken or of no supported format."""
    candidates = [entry for entry in _ALL if path.suffix.lower() in entry.suffixes]
    try:
        if path.suffix.lower() == ".json":
            document = read_json(path)
            matching = [entry for entry in candidates if entry.matches is not None and entry.matches(document)]
        else:
            head = read_head(path)
            matching = [entry for entry in candidates if entry.looks_like(head)]
    except FormatError:
        return None
    return matching[0] if matching else None


def read(path: str | os.PathLike[str], *, format: str | None = None) -> Skeleton:
    """Read the skeleton of one image, a forest if the image shows several plants.

    Args:
        path: The file. Its suffix selects the format; if several formats share the suffix, the content decides.
        format: A name in `FORMATS`. None selects the format by suffix and content.

    Returns:
        The skeleton, in pixels.

    Raises:
        FormatError: If the file cannot be read, is invalid, or contains several images or none.

    Example:
        >>> read("plant.rsml").is_forest  # doctest: +SKIP
        True
    """
    skeletons = list(islice(read_all(path, format=format), 2))
    if len(skeletons) != 1:
        raise FormatError(
            f"{Path(path).name}: contains {'several' if skeletons else 'no'} images, not one: "
            "use read_all, or convert it into a folder"
        )
    return skeletons[0]


def read_all(path: str | os.PathLike[str], *, format: str | None = None) -> Iterator[Skeleton]:
    """Read one skeleton per image. COCO files may contain many images, files of other formats contain one.

    Args:
        path: The file. Its suffix selects the format; if several formats share the suffix, the content decides.
        format: A name in `FORMATS`. None selects the format by suffix and content.

    Returns:
        An iterator over the skeletons, in pixels. It may raise FormatError itself.

    Raises:
        FormatError: If the file cannot be read or is invalid.
    """
    file = Path(path)
    head = read_head(file)
    if format is not None:
        return find_format(format).read_all(file)
    candidates = [entry for entry in _ALL if file.suffix.lower() in entry.suffixes]
    if not candidates:
        raise FormatError(f"{file.name}: {_unknown_suffix(file, _ALL)}")
    if file.suffix.lower() == ".json":
        return _read_json_kind(file, candidates)
    matching = [entry for entry in candidates if entry.looks_like(head)]
    if not matching and file.suffix.lower() == ".xml":
        raise UnknownKindError(f"{file.name}: is XML, but in no supported format ({_names('.xml')})")
    if not matching:
        for entry in _ALL:
            if entry.looks_like(head):
                actual = "JSON" if entry.matches else entry.name
                raise FormatError(f"{file.name}: looks like {actual}, not {candidates[0].name}: the suffix is wrong")
    return (matching or candidates)[0].read_all(file)


def _read_json_kind(file: Path, candidates: list[Format]) -> Iterator[Skeleton]:
    """Read a JSON file whose suffix is shared by several formats. The object in the file decides."""
    document = read_json(file)
    for entry in candidates:
        if entry.matches is not None and entry.from_json is not None and entry.matches(document):
            with reading(file):
                yield from entry.from_json(document)
            return
    raise UnknownKindError(f"{file.name}: is JSON, but in no supported format ({_names('.json')})")


def write(
    skeleton: Skeleton, path: str | os.PathLike[str], *, format: str | None = None, preserve: bool = False
) -> None:
    """Write a skeleton atomically.

    A skeleton that was read from RSML may have elements and attributes that RSML does not allow, such as
    `<rootnavspline>`. They are left out of a new file, and a `LeftOutWarning` lists them. They are kept if the file
    that contains them is overwritten.

    Args:
        skeleton: The skeleton.
        path: The file to write. An existing file is replaced; missing folders are created.
        format: A name in `FORMATS`. None selects the format by suffix; `.json` is the native format.
        preserve: Also write content that the format does not allow.

    Raises:
        FormatError: If `skeleton` is something else, if the format is unknown or cannot store the skeleton, or if the
            file cannot be written.

    Example:
        >>> write(Skeleton([(0, 0), (3, 4)], [(0, 1)]), "line.swc")  # doctest: +SKIP
    """
    if not isinstance(skeleton, Skeleton):
        raise FormatError(f"write takes one skeleton, not {type(skeleton).__name__}")
    file = Path(path)
    entry = format_for_writing(file, format)
    if entry.write_valid is not None and not preserve:
        preserve = rsml.shares_unknown_content(skeleton, file)
    left_out = entry.save(skeleton, file, preserve=preserve)
    if left_out:
        message = f"{file.name}: elements that RSML does not allow were left out ({', '.join(left_out)})"
        warnings.warn(f"{message}; preserve=True keeps them", LeftOutWarning, stacklevel=2)


def format_for_writing(path: Path, name: str | None = None) -> Format:
    """Return the format of a new file.

    Args:
        path: The file to write. Only its suffix is used.
        name: A name in `FORMATS`. None selects the first writable format with the suffix of `path`.

    Returns:
        A format that can be written.

    Raises:
        FormatError: If the format or the suffix is unknown, or if the format is read-only.
    """
    writable = [entry for entry in _ALL if entry.write is not None]
    if name is not None:
        entry = find_format(name, [entry.name for entry in writable])
        if entry.write is None:
            raise FormatError(f"format {name!r} is read-only")
        return entry
    for entry in writable:
        if path.suffix.lower() == entry.suffixes[0]:
            return entry
    raise FormatError(f"{path.name}: {_unknown_suffix(path, writable)}")


def find_format(name: str, choices: Iterable[str] = FORMATS) -> Format:
    """Return a format.

    Args:
        name: The name of the format.
        choices: The names that the message of an error lists.

    Returns:
        The format.

    Raises:
        FormatError: If the format is unknown.
    """
    if name not in FORMATS:
        raise FormatError(f"unknown format {name!r}, choose one of {', '.join(choices)}")
    return FORMATS[name]


def _unknown_suffix(path: Path, entries: Sequence[Format]) -> str:
    suffixes = ", ".join(dict.fromkeys(entry.suffixes[0] for entry in entries))
    problem = f"unknown suffix {path.suffix!r}" if path.suffix else "has no suffix"
    return f"{problem} (known suffixes: {suffixes})"


def _names(suffix: str) -> str:
    return ", ".join(entry.name for entry in _ALL if suffix in entry.suffixes)
