"""Read RSML, the Root System Markup Language, in all variants in use.

The axes are joined into one forest by the rules in `junctions`. `Axis.nodes` are exactly the points of the lines
in the file, so that reading and writing a file preserves its lines exactly. Further rules:

- The line of a root is its <polyline>, or its <rootnavspline> if there is none. Splines are preserved.
- Content that is not in the schema (unknown elements and attributes, values of the wrong type, plants without
  roots) is kept in `metadata["rsml"]["unknown"]` of the axis, plant or skeleton. `write` writes it back;
  `write_valid` leaves out what the schema does not allow.
- Plants without points are omitted. `metadata["rsml"]["empty_plants"]` is their number.
- A root of one point is an axis of one node. The schema requires two points, so the point is written twice. Two
  points that are equal in every respect are read as one.
- A root without points is not an axis. Its laterals belong to the nearest ancestor that has points.
- `radius` is half the function `diameter` if that has one sample per point. At a node shared by two axes, the
  first axis in the file determines the value.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np

from treeformer._util.arrays import FloatArray
from treeformer.errors import FormatError
from treeformer.formats._io import reading
from treeformer.formats.junctions import join_axes
from treeformer.formats.rsml.metadata import read_metadata, resolution_px_per_mm
from treeformer.formats.rsml.preserved import (
    FILE_ELEMENTS,
    KEPT,
    Record,
    records_in,
    rsml_values,
    sorted_records,
    unknown_attributes,
    unknown_element,
)
from treeformer.formats.rsml.root import Root, read_names, read_properties, read_root
from treeformer.formats.rsml.writer import write, write_valid
from treeformer.formats.xml import local_name, parse_fragment, parse_xml
from treeformer.skeleton import Axis, Plant, Skeleton

__all__ = ["looks_like", "read", "resolution_px_per_mm", "shares_unknown_content", "write", "write_valid"]

_STARTS_WITH_RSML = re.compile(r"(?:\s|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^>]*>)*+<(?:[\w.-]+:)?rsml[\s/>]", re.DOTALL)


def looks_like(head: bytes) -> bool:
    """Return True if a file that begins with these bytes is XML with the root element <rsml>.

    >>> looks_like(b"<?xml version='1.0'?><rsml>"), looks_like(b"<svg>")
    (True, False)
    """
    is_utf16 = head.startswith((b"\xff\xfe", b"\xfe\xff"))
    text = head.decode("utf-16" if is_utf16 else "utf-8-sig", errors="replace")
    return _STARTS_WITH_RSML.match(text) is not None


def read(path: Path) -> Skeleton:
    """Read all plants of an RSML file as one forest. Raise FormatError if the file is invalid."""
    rsml = parse_xml(path, root="rsml")
    with reading(path):
        return _File(path.name).skeleton(rsml)


def shares_unknown_content(skeleton: Skeleton, path: Path) -> bool:
    """Return True if a file is RSML and contains an element or attribute that is kept as unknown in the skeleton.

    The file, which may be missing or invalid, is then the one that the skeleton was read from, or a copy that preserves
    such content.
    """
    try:
        records = _unknown_records(skeleton)
        return bool(records) and path.is_file() and not records.isdisjoint(_unknown_records(read(path)))
    except (FormatError, OSError, TypeError):  # the writer reports invalid records and paths
        return False


def _unknown_records(skeleton: Skeleton) -> set[tuple[str, ...]]:
    of_plants, of_axes = [plant.metadata for plant in skeleton.plant_records], [axis.metadata for axis in skeleton.axes]
    owners = [skeleton.metadata, *of_plants, *of_axes]
    records = [record for metadata in owners for record in rsml_values(metadata).get("unknown", ())]
    return {tuple(str(record[key]) for key in sorted(record)) for record in records}


@dataclass
class _File:
    """The roots, plants and unknown records read so far. A root precedes its laterals."""

    name: str
    roots: list[Root] = field(default_factory=list)
    plants: list[Plant] = field(default_factory=list)
    unknown: list[Record] = field(default_factory=list)

    def skeleton(self, rsml: Element) -> Skeleton:
        metadata, image_name = self._read_file(rsml)
        joined = join_axes(
            [root.points for root in self.roots],
            [root.parent for root in self.roots],
            [root.plant for root in self.roots],
        )
        axes = [root.axis(nodes) for root, nodes in zip(self.roots, joined.axis_nodes, strict=True)]
        return Skeleton(
            joined.nodes,
            joined.edges,
            root=joined.roots,
            radius=_radius(axes, len(joined.nodes)),
            axes=axes,
            edge_axis=joined.edge_axis,
            plant=joined.plant,
            plant_records=self.plants,
            image_name=image_name,
            metadata={"rsml": metadata},
        )

    def _read_file(self, rsml: Element) -> tuple[dict[str, Any], str | None]:
        parts: dict[str, Element] = {}
        self.unknown += unknown_attributes("rsml", rsml.attrib)
        for child in rsml:
            name = local_name(child.tag)
            if name in ("metadata", "scene") and name not in parts:
                parts[name] = child
            else:
                self.unknown.append(unknown_element("rsml", child))
        if "scene" not in parts:
            raise FormatError(f"{self.name}: has no <scene>")
        metadata, image_name = read_metadata(parts.get("metadata", Element("metadata")), self.unknown)
        self.unknown += unknown_attributes("scene", parts["scene"].attrib)
        for child in parts["scene"]:
            if records := _scene_records(child):
                self.unknown += records
            elif local_name(child.tag) != "plant" or not self._read_plant(child):
                self.unknown.append(unknown_element("scene", child))
        metadata["empty_plants"] = sum(_is_plant(record) for record in self.unknown)
        if self.unknown:
            metadata["unknown"] = sorted_records(self.unknown)
        return metadata, image_name

    def _read_plant(self, element: Element) -> bool:
        """Add a plant and its roots. Return False, and add nothing, if no root has a point."""
        names, unknown = read_names("plant", element)
        properties: dict[str, str] = {}
        roots_before = len(self.roots)
        for child in element:
            name = local_name(child.tag)
            if name == "properties":
                unknown += unknown_attributes(name, child.attrib)
                read_properties(child, properties, unknown)
            elif name == "root":
                self._read_root(child, None, unknown)
            else:
                unknown.append(unknown_element("plant", child))
        if len(self.roots) == roots_before:
            return False
        self.unknown += [record for record in unknown if record["of"] in FILE_ELEMENTS]
        plant_records = sorted_records(record for record in unknown if record["of"] not in FILE_ELEMENTS)
        metadata = {"rsml": {"unknown": plant_records}} if plant_records else {}
        self.plants.append(Plant(names["id"], names["label"], properties, metadata))
        return True

    def _read_root(self, element: Element, parent: int | None, ancestor_unknown: list[Record]) -> None:
        """Add a root and then its laterals. A root without points is recorded in `ancestor_unknown`."""
        root = read_root(element, f"{self.name}: root {len(self.roots) + 1}")
        root.parent, root.plant = parent, len(self.plants)
        if len(root.points):
            parent, ancestor_unknown = len(self.roots), root.unknown
            self.roots.append(root)
        else:
            bare = Element(element.tag, element.attrib)
            bare.extend(child for child in element if child not in root.laterals)
            ancestor_unknown.append(unknown_element("plant" if parent is None else "root", bare))
        for lateral in root.laterals:
            self._read_root(lateral, parent, ancestor_unknown)


def _scene_records(element: Element) -> list[Record]:
    """Return the records that the writer stores in the scene if there is no plant, empty for other elements."""
    if local_name(element.tag) != "properties" or any(child.tag != KEPT for child in element):
        return []
    return [record for child in element for record in records_in(child) if record["of"] in FILE_ELEMENTS]


def _is_plant(record: Record) -> bool:
    return record["of"] == "scene" and "xml" in record and local_name(parse_fragment(record["xml"]).tag) == "plant"


def _radius(axes: Sequence[Axis], node_count: int) -> FloatArray | None:
    """Return half the diameters given per point, (N,) px, NaN if unknown. Return None if no axis has diameters."""
    radius = np.full(node_count, math.nan)
    has_diameters = False
    for axis in reversed(axes):  # so that the first axis determines the radius of a shared node
        for function in axis.functions:
            if (
                function.name == "diameter"
                and function.domain == "polyline"
                and len(function.samples) == len(axis.nodes)
            ):
                has_diameters = True
                diameter = np.asarray(function.samples)
                radius[list(axis.nodes)] = np.where(diameter >= 0, diameter / 2, math.nan)
                break
    return radius if has_diameters else None
