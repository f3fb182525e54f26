"""RSML, the Root System Markup Language: a liberal reader; the writer is in `rsml_write`.

The axes become one forest by the rules in `junctions`, and `Axis.nodes` are exactly the points of the
file's lines, so that a file read and written has the same lines to the last bit. Besides:

- The line is <polyline>, else <rootnavspline>. A spline is kept and written back beside the line.
- What the schema has no place for (unknown nodes and attributes, values of the wrong type, plants
  without roots) is kept in `metadata["rsml"]["unknown"]` of the axis, plant or skeleton and written back.
- Plants without any point are left out; `metadata["rsml"]["empty_plants"]` is their number.
- A root of one point is an axis of one node. It is written with that point twice, as the schema wants two,
  and two points that are alike in everything are read as one. A root without points is no axis: its laterals
  go to the nearest root above that has some.
- `radius` is half the function `diameter` where that has one sample a point; at a node that two axes
  share, the value of the one that stands first in the file counts.
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
    KEPT,
    OF_THE_FILE,
    Record,
    in_order,
    kept_records,
    unknown_attributes,
    unknown_node,
)
from treeformer.formats.rsml.root import Root, read_names, read_properties, read_root
from treeformer.formats.rsml.writer import write
from treeformer.formats.xml import local_name, parse_fragment, parse_xml
from treeformer.skeleton import Axis, Plant, Skeleton

__all__ = ["looks_like", "read", "resolution_px_per_mm", "write"]

_BEGINS_WITH_RSML = re.compile(r"(?:\s|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^>]*>)*+<(?:[\w.-]+:)?rsml[\s/>]", re.DOTALL)


def looks_like(head: bytes) -> bool:
    """Whether a file that begins with these bytes is XML with the root element <rsml>.

    >>> looks_like(b"<?xml version='1.0'?><rsml>"), looks_like(b"<svg>")
    (True, False)
    """
    is_utf16 = head.startswith((b"\xff\xfe", b"\xfe\xff"))
    text = head.decode("utf-16" if is_utf16 else "utf-8-sig", errors="replace")
    return _BEGINS_WITH_RSML.match(text) is not None


def read(path: Path) -> Skeleton:
    """Read all plants of an RSML file as one Skeleton, a forest; FormatError in one line where it cannot be read."""
    rsml = parse_xml(path, root="rsml")
    with reading(path):
        return _File(path.name).skeleton(rsml)


@dataclass
class _File:
    """What has been read so far: roots in the file's order, a parent before its laterals."""

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
                self.unknown.append(unknown_node("rsml", child))
        if "scene" not in parts:
            raise FormatError(f"{self.name}: has no <scene>")
        metadata, image_name = read_metadata(parts.get("metadata", Element("metadata")), self.unknown)
        self.unknown += unknown_attributes("scene", parts["scene"].attrib)
        for child in parts["scene"]:
            if records := _kept_without_plants(child):
                self.unknown += records
            elif local_name(child.tag) != "plant" or not self._read_plant(child):
                self.unknown.append(unknown_node("scene", child))
        metadata["empty_plants"] = sum(_is_plant(record) for record in self.unknown)
        if self.unknown:
            metadata["unknown"] = in_order(self.unknown)
        return metadata, image_name

    def _read_plant(self, element: Element) -> bool:
        """Add a plant and its roots; False, and nothing added, where none of its roots has a point."""
        names, unknown = read_names("plant", element)
        properties: dict[str, str] = {}
        before = len(self.roots)
        for child in element:
            name = local_name(child.tag)
            if name == "properties":
                unknown += unknown_attributes(name, child.attrib)
                read_properties(child, properties, unknown)
            elif name == "root":
                self._read_root(child, None, unknown)
            else:
                unknown.append(unknown_node("plant", child))
        if len(self.roots) == before:
            return False
        self.unknown += [record for record in unknown if record["of"] in OF_THE_FILE]
        own = in_order(record for record in unknown if record["of"] not in OF_THE_FILE)
        self.plants.append(Plant(names["id"], names["label"], properties, {"rsml": {"unknown": own}} if own else {}))
        return True

    def _read_root(self, element: Element, parent: int | None, above: list[Record]) -> None:
        """Add a root and then its laterals; `above` takes what there is to say of a root without points."""
        root = read_root(element, f"{self.name}: root {len(self.roots) + 1}")
        root.parent, root.plant = parent, len(self.plants)
        if len(root.points):
            parent, above = len(self.roots), root.unknown
            self.roots.append(root)
        else:
            bare = Element(element.tag, element.attrib)
            bare.extend(child for child in element if child not in root.laterals)
            above.append(unknown_node("plant" if parent is None else "root", bare))
        for lateral in root.laterals:
            self._read_root(lateral, parent, above)


def _kept_without_plants(element: Element) -> list[Record]:
    """What the writer kept in the scene itself, having no plant to keep it in; nothing where the element is another."""
    if local_name(element.tag) != "properties" or any(child.tag != KEPT for child in element):
        return []
    return [record for child in element for record in kept_records(child) if record["of"] in OF_THE_FILE]


def _is_plant(record: Record) -> bool:
    return record["of"] == "scene" and "xml" in record and local_name(parse_fragment(record["xml"]).tag) == "plant"


def _radius(axes: Sequence[Axis], node_count: int) -> FloatArray | None:
    """(N,) px, half the diameters that the axes give point by point, NaN elsewhere; None where no axis gives any."""
    radius = np.full(node_count, math.nan)
    found = False
    for axis in reversed(axes):  # so that the first of those that share a node is written last
        for function in axis.functions:
            if (
                function.name == "diameter"
                and function.domain == "polyline"
                and len(function.samples) == len(axis.nodes)
            ):
                found = True
                diameter = np.asarray(function.samples)
                radius[list(axis.nodes)] = np.where(diameter >= 0, diameter / 2, math.nan)
                break
    return radius if found else None
