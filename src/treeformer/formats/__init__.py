"""Reading and writing skeletons: one file a format, chosen by suffix, and by content where a suffix is shared."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

from treeformer.errors import FormatError
from treeformer.formats import branch_trees, coco, csv_table, geojson, graphml, labelme, node_link, single_guyot, swc
from treeformer.formats import native_json as own_json
from treeformer.formats._io import begins_json_object, read_head, read_json, reading
from treeformer.formats.rsml import reader as rsml
from treeformer.skeleton import Skeleton

__all__ = [
    "FORMATS",
    "SUFFIXES",
    "Format",
    "UnknownKindError",
    "find_format",
    "format_for_writing",
    "is_skeleton_file",
    "read",
    "read_all",
    "write",
]


class UnknownKindError(FormatError):
    """A file in order, but of none of the formats that share its suffix: a settings file in JSON, say."""


@dataclass(frozen=True, slots=True)
class Format:
    """A file format. `suffixes`: the first is that of new files. `write` is None where it is only read.

    `looks_like` tells from the first bytes of a file, and for JSON `matches` from the object it holds,
    whether it is of this format.
    """

    name: str
    suffixes: tuple[str, ...]
    description: str
    read: Callable[[Path], Skeleton]
    write: Callable[[Skeleton, Path], None] | None
    looks_like: Callable[[bytes], bool]
    matches: Callable[[Mapping[str, Any]], bool] | None = None
    from_json: Callable[[Mapping[str, Any]], Iterator[Skeleton]] | None = None

    def read_all(self, path: Path) -> Iterator[Skeleton]:
        """One skeleton an image."""
        if self.from_json is None:
            yield self.read(path)
        else:
            with reading(path):
                yield from self.from_json(read_json(path))


def _json(name: str, module: ModuleType, description: str, *suffixes: str) -> Format:
    write = getattr(module, "write", None)
    return Format(
        name, suffixes, description, module.read, write, begins_json_object, module.matches, from_json=module.skeletons
    )


def _text(name: str, module: ModuleType, description: str, *suffixes: str) -> Format:
    return Format(name, suffixes, description, module.read, getattr(module, "write", None), module.looks_like)


_ALL = (
    _json("json", own_json, "our own: everything a skeleton has", ".json"),
    _text("rsml", rsml, "RSML, Root System Markup Language; strict, as its schema wants it", ".rsml", ".xml"),
    Format(
        "rsml-smartroot",
        (".rsml", ".xml"),
        "RSML as SmartRoot reads it",
        rsml.read,
        partial(rsml.write, dialect="smartroot"),
        rsml.looks_like,
    ),
    _text("swc", swc, "SWC, a row a node", ".swc"),
    _text("graphml", graphml, "GraphML, for NetworkX, Gephi, yEd, Cytoscape", ".graphml", ".xml"),
    _json("node-link", node_link, "node-link JSON, for NetworkX and D3", ".json"),
    _json("geojson", geojson, "GeoJSON, a LineString an axis, a Point a node; pixels", ".geojson", ".json"),
    _json("labelme", labelme, "LabelMe, a linestrip an axis", ".json"),
    _json("coco", coco, "COCO keypoints, an annotation a plant", ".json"),
    _text("csv", csv_table, "a table, a row a node", ".csv"),
    _json("single-guyot", single_guyot, "annotations of the 3D2cut Single Guyot set (only read)", ".json"),
    _text("branch-trees", branch_trees, "XML of the branch-trees set (only read)", ".xml"),
)

FORMATS: Mapping[str, Format] = MappingProxyType({entry.name: entry for entry in _ALL})
"""Every format by name. Where several share a suffix, the first that is written is that of new files."""


SUFFIXES = frozenset(suffix for entry in _ALL for suffix in entry.suffixes)
"""All suffixes that are read."""


def is_skeleton_file(path: Path) -> bool:
    """Whether a file with a known suffix is meant as a skeleton, intact or not: what a folder's other files are not."""
    try:
        head = read_head(path)
        if path.suffix.lower() == ".json":
            document = read_json(path)
            return any(entry.matches(document) for entry in _ALL if entry.matches is not None)
    except FormatError:
        return True
    sharing = [entry for entry in _ALL if path.suffix.lower() in entry.suffixes]
    # A suffix that is shared with other kinds of files says little; .rsml or .swc says enough.
    return path.suffix.lower() not in (".xml", ".csv") or any(entry.looks_like(head) for entry in sharing)


def read(path: str | os.PathLike[str], *, format: str | None = None) -> Skeleton:
    """Read the skeleton of one image, a forest where it has several plants.

    Args:
        path: the file; its suffix tells the format, and its content where several share a suffix.
        format: a name in `FORMATS`, where the suffix does not tell.

    Raises:
        FormatError: one line that names the file and what is wrong with it.

    >>> read("plant.rsml").is_forest  # doctest: +SKIP
    True
    """
    found = list(islice(read_all(path, format=format), 2))
    if len(found) != 1:
        raise FormatError(
            f"{Path(path).name}: holds {'several' if found else 'no'} images, not one: "
            "use read_all, or convert it into a folder"
        )
    return found[0]


def read_all(path: str | os.PathLike[str], *, format: str | None = None) -> Iterator[Skeleton]:
    """Read one skeleton an image: many from a file of many (COCO), one from any other; arguments as for `read`."""
    file = Path(path)
    head = read_head(file)
    if format is not None:
        return find_format(format).read_all(file)
    candidates = [entry for entry in _ALL if file.suffix.lower() in entry.suffixes]
    if not candidates:
        raise FormatError(f"{file.name}: {_unknown_suffix(file, _ALL)}")
    if file.suffix.lower() == ".json":
        return _read_json_kind(file, candidates)
    alike = [entry for entry in candidates if entry.looks_like(head)]
    if not alike and file.suffix.lower() == ".xml":
        raise UnknownKindError(f"{file.name}: is not XML of a kind that is read here ({_names('.xml')})")
    if not alike:
        for entry in _ALL:
            if entry.looks_like(head):
                what = "JSON" if entry.matches else entry.name
                raise FormatError(f"{file.name}: looks like {what}, not {candidates[0].name}: the suffix is wrong")
    return (alike or candidates)[0].read_all(file)


def _read_json_kind(file: Path, candidates: list[Format]) -> Iterator[Skeleton]:
    """Read a JSON file whose suffix several formats share: the object it holds tells which it is."""
    document = read_json(file)
    for entry in candidates:
        if entry.matches is not None and entry.from_json is not None and entry.matches(document):
            with reading(file):
                yield from entry.from_json(document)
            return
    raise UnknownKindError(f"{file.name}: is not JSON of a kind that is read here ({_names('.json')})")


def write(skeleton: Skeleton, path: str | os.PathLike[str], *, format: str | None = None) -> None:
    """Write a skeleton; the suffix tells the format unless `format` does (`.json` is our own). Never half a file.

    >>> write(Skeleton([(0, 0), (3, 4)], [(0, 1)]), "line.swc")  # doctest: +SKIP
    """
    file = Path(path)
    entry = format_for_writing(file, format)
    assert entry.write is not None
    entry.write(skeleton, file)


def format_for_writing(path: Path, name: str | None = None) -> Format:
    """The format of a new file: the one named, else the first with its suffix that can be written."""
    if name is not None:
        entry = find_format(name)
        if entry.write is None:
            raise FormatError(f"format {name!r} is only read, not written")
        return entry
    written = [entry for entry in _ALL if entry.write is not None]
    for entry in written:
        if path.suffix.lower() == entry.suffixes[0]:
            return entry
    raise FormatError(f"{path.name}: {_unknown_suffix(path, written)}")


def find_format(name: str) -> Format:
    """The format of that name; an error that lists all of them where there is none."""
    if name not in FORMATS:
        raise FormatError(f"there is no format {name!r}: one of {', '.join(FORMATS)}")
    return FORMATS[name]


def _unknown_suffix(path: Path, entries: Sequence[Format]) -> str:
    suffixes = ", ".join(dict.fromkeys(entry.suffixes[0] for entry in entries))
    what = f"the suffix {path.suffix!r} tells no format" if path.suffix else "has no suffix to tell the format"
    return f"{what} (known are {suffixes})"


def _names(suffix: str) -> str:
    return ", ".join(entry.name for entry in _ALL if suffix in entry.suffixes)
