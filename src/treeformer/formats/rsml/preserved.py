"""Preserve RSML content that is not in the schema, as plain records that are written back.

A record has the key `of`, the element in which it was found, and either `xml`, or `attribute` (the name, with a
namespace in braces) and `value`. Other programs add content to three elements: <geometry>, <annotations> and
<properties>. Records of these are written back in place. All others are wrapped in an element of the treeformer
namespace within <properties>, which other programs ignore. Records of the whole file are written into the first
plant, or into the scene if there is no plant. `allowed` decides which records a valid file may contain.
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

# Elements outside all plants. Their records belong to the file.
FILE_ELEMENTS = frozenset({"rsml", "metadata", "image", "scene"})
# Elements to which other programs add content, and in which they accept that of others.
OPEN_ELEMENTS = frozenset({"geometry", "annotations", "properties"})
# Elements whose content is valid only for the points that were read, not after the axis is moved or resampled.
POINT_DEPENDENT = frozenset({"geometry", "polyline", "annotations", "functions"})


def rsml_values(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the RSML values in the metadata of a skeleton, plant or axis, empty if there are none."""
    values = metadata.get("rsml")
    return values if isinstance(values, Mapping) else {}


def points_checksum(points: FloatArray) -> int:
    """Return a checksum that shows whether the points (P,2) of an axis are still those that were read."""
    return zlib.crc32(np.ascontiguousarray(points, dtype="<f8").tobytes())


def unknown_element(of: str, element: Element) -> Record:
    """Return the record of an element that is not in the schema; `of` is the name of the element around it."""
    return {"of": of, "xml": fragment(element)}


def unknown_attributes(of: str, attributes: Mapping[str, str]) -> list[Record]:
    """Return one record per attribute of the element `of` that is not in the schema."""
    return [{"of": of, "attribute": name, "value": value} for name, value in attributes.items()]


def sorted_records(records: Iterable[Record]) -> list[Record]:
    """Sort records by their element, so that the order does not depend on where they were written back."""
    return sorted(records, key=lambda record: (record["of"], "xml" in record))


def records_in(kept: Element) -> list[Record]:
    """Return the records stored in a <tf:kept> element."""
    of = kept.get("of", "")
    if "attribute" in kept.attrib:
        return unknown_attributes(of, {kept.attrib["attribute"]: kept.text or ""})
    return [unknown_element(of, child) for child in kept]


def kept_element(record: Record) -> str:
    """Return a record as a <tf:kept> element."""
    start = f'<tf:kept xmlns:tf="{NAMESPACE}"{attribute("of", record["of"])}'
    if "xml" in record:
        return f"{start}>{checked_xml(record)}</tf:kept>"
    return f"{start}{attribute('attribute', record['attribute'])}>{content(record['value'])}</tf:kept>"


def records_at(records: Sequence[Record], of: str) -> list[str]:
    """Return the XML of the records that are written back into an element, one of `OPEN_ELEMENTS`."""
    return [checked_xml(record) for record in records if record["of"] == of and "xml" in record]


def wrapped_records(records: Iterable[Record]) -> list[str]:
    """Return the records that cannot be written back in place, as <tf:kept> elements."""
    return [kept_element(record) for record in records if record["of"] not in OPEN_ELEMENTS or "xml" not in record]


def checked_xml(record: Record) -> str:
    """Return the XML of a record unchanged. Raise FormatError if it is not one complete element."""
    parse_fragment(record["xml"])
    return record["xml"]
