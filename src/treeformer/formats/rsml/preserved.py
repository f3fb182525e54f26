"""What an RSML file says and the schema has no place for: kept as plain records, and written back.

A record names in `of` the element it was found in, and has either `xml`, or `attribute` (its name,
with a namespace in braces) and `value`. The schema leaves three places open: other geometry,
annotations and properties. Records of these go back where they were; all others are wrapped in an
element of our own namespace within <properties>, those of the whole file in the first plant's
(in the scene's where there is no plant), where other programs pass them over and the reader finds them again.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np

from treeformer._util.arrays import FloatArray
from treeformer.formats.xml import attribute, content, fragment, parse_fragment

Record = dict[str, str]

NAMESPACE = "urn:treeformer:rsml"
KEPT = f"{{{NAMESPACE}}}kept"

# Found outside all plants, and so kept with the file.
OF_THE_FILE = frozenset({"rsml", "metadata", "image", "scene"})
# Where the schema lets any element stand.
OPEN = frozenset({"geometry", "annotations", "properties"})
# True only of the points that were read: out of date as soon as the axis is moved or resampled.
OF_THE_POINTS = frozenset({"geometry", "polyline", "annotations", "functions"})


def rsml_values(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """What RSML left in the metadata of a skeleton, plant or axis; nothing where it was not RSML."""
    found = metadata.get("rsml")
    return found if isinstance(found, Mapping) else {}


def points_mark(points: FloatArray) -> int:
    """A number that tells whether the points (P,2) of an axis are still those that were read."""
    return zlib.crc32(np.ascontiguousarray(points, dtype="<f8").tobytes())


def unknown_node(of: str, element: Element) -> Record:
    """The record of a node that the schema has no place for; `of`: the element it was found in."""
    return {"of": of, "xml": fragment(element)}


def unknown_attributes(of: str, attributes: Mapping[str, str]) -> list[Record]:
    """The records of attributes that the schema does not have."""
    return [{"of": of, "attribute": name, "value": value} for name, value in attributes.items()]


def in_order(records: Iterable[Record]) -> list[Record]:
    """Sorted by the element they are of, so that it does not matter where in the file they were written back."""
    return sorted(records, key=lambda record: (record["of"], "xml" in record))


def kept_records(kept: Element) -> list[Record]:
    """The records that one of our own elements holds."""
    of = kept.get("of", "")
    if "attribute" in kept.attrib:
        return unknown_attributes(of, {kept.attrib["attribute"]: kept.text or ""})
    return [unknown_node(of, child) for child in kept]


def kept_line(record: Record) -> str:
    """A record as an element of our own."""
    start = f'<tf:kept xmlns:tf="{NAMESPACE}"{attribute("of", record["of"])}'
    if "xml" in record:
        return f"{start}>{checked_xml(record)}</tf:kept>"
    return f"{start}{attribute('attribute', record['attribute'])}>{content(record['value'])}</tf:kept>"


def placed(records: Sequence[Record], of: str) -> list[str]:
    """The XML of the records that go back into one of the open places."""
    return [checked_xml(record) for record in records if record["of"] == of and "xml" in record]


def wrapped(records: Iterable[Record]) -> list[str]:
    """The records that have no open place to go back to, as elements of our own."""
    return [kept_line(record) for record in records if record["of"] not in OPEN or "xml" not in record]


def checked_xml(record: Record) -> str:
    """The record's XML as it is; an error where it is not one whole element and would break the file."""
    parse_fragment(record["xml"])
    return record["xml"]
