"""Read one <root> element of RSML: its names, properties, functions and points, in all spellings in use."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np

from treeformer._util.arrays import FloatArray
from treeformer._util.text import decimal_number
from treeformer.errors import FormatError
from treeformer.formats.rsml.preserved import (
    KEPT,
    Record,
    points_checksum,
    records_in,
    sorted_records,
    unknown_attributes,
    unknown_element,
)
from treeformer.formats.xml import local_name
from treeformer.skeleton import Axis, AxisFunction

_ACCESSIONS = frozenset({"accession", "poaccession", "po-accession", "po_accession"})


@dataclass
class Root:
    """The content of one <root> element."""

    id: str = ""  # id, "" if missing
    label: str = ""  # label, "" if missing
    accession: str = ""  # ontology accession, "" if missing
    properties: dict[str, str] = field(default_factory=dict)  # plain properties by name
    functions: list[AxisFunction] = field(default_factory=list)  # functions whose samples are numbers
    points: FloatArray = field(default_factory=lambda: np.zeros((0, 2)))  # (P,2) px, from base to tip
    z: list[float | None] | None = None  # one value or None per point; None if no point has a z
    unknown: list[Record] = field(default_factory=list)  # records of elements and attributes that are not in the schema
    laterals: list[Element] = field(default_factory=list)  # the <root> elements, not yet read
    parent: int | None = None  # index of the parent root, None for order 0
    plant: int = 0  # index of the plant

    def axis(self, nodes: tuple[int, ...]) -> Axis:
        """Return the axis through these nodes, one per point. Preserved records get a checksum of the points."""
        metadata: dict[str, Any] = {}
        if self.unknown:
            metadata["unknown"] = sorted_records(self.unknown)
        if self.z is not None:
            metadata["z"] = self.z
        if metadata:
            metadata = {"rsml": metadata | {"points": points_checksum(self.points)}}
        return Axis(
            nodes=nodes,
            id=self.id,
            label=self.label,
            accession=self.accession,
            parent=self.parent,
            plant=self.plant,
            properties=self.properties,
            functions=tuple(self.functions),
            metadata=metadata,
        )


def read_root(element: Element, where: str) -> Root:
    """Read a <root> without its laterals, which are listed as elements. Error messages begin with `where`."""
    root = Root()
    names, root.unknown = read_names("root", element)
    root.id, root.label, root.accession = names["id"], names["label"], names["accession"]
    if root.id:
        where = f"{where} (id {root.id!r})"
    shapes: dict[str, Element] = {}
    for child in element:
        name = local_name(child.tag)
        if name in ("properties", "geometry", "functions", "annotations"):
            root.unknown += unknown_attributes(name, child.attrib)
        if name == "properties":
            read_properties(child, root.properties, root.unknown)
        elif name == "geometry":
            for shape in child:
                kind = local_name(shape.tag)
                if kind != "polyline" or kind in shapes:
                    root.unknown.append(unknown_element("geometry", shape))
                shapes.setdefault(kind, shape)
        elif name == "functions":
            root.functions += _read_functions(child, root.unknown)
        elif name == "annotations" and not (child.text or "").strip():
            root.unknown += [unknown_element("annotations", note) for note in child]
        elif name == "root":
            root.laterals.append(child)
        else:
            root.unknown.append(unknown_element("root", child))
    for kind in ("polyline", "rootnavspline"):
        if kind in shapes and not len(root.points):
            root.points, root.z = _read_points(shapes[kind], where)
    if _is_duplicated_point(root):
        root.points, root.z = root.points[:1], root.z and root.z[:1]
        root.functions = [replace(f, samples=f.samples[:1]) if _is_pair(f) else f for f in root.functions]
    if "polyline" in shapes and _has_more_than_points(shapes["polyline"]):
        root.unknown.append(unknown_element("polyline", shapes["polyline"]))
    return root


def read_names(of: str, element: Element) -> tuple[dict[str, str], list[Record]]:
    """Read id, label and accession of a "root" or "plant" in any of their spellings, "" if missing.

    The second result holds the records of all other attributes.
    """
    names: dict[str, str] = {}
    others: dict[str, str] = {}
    for attribute, value in element.attrib.items():
        name = local_name(attribute).lower()
        name = "accession" if name in _ACCESSIONS else name
        if name in ("id", "label", "accession") and name not in names and (of, name) != ("plant", "accession"):
            names[name] = value
        else:
            others[attribute] = value
    return {"id": "", "label": "", "accession": ""} | names, unknown_attributes(of, others)


def read_properties(element: Element, properties: dict[str, str], unknown: list[Record]) -> None:
    """Read a <properties> element: add plain properties (one text each) and, to `unknown`, records of the others."""
    for child in element:
        if child.tag == KEPT:
            for record in records_in(child):
                if record["of"] == "property" and "attribute" in record:
                    properties[record["attribute"]] = record["value"]
                else:
                    unknown.append(record)
        elif child.attrib or len(child) or "}" in child.tag or child.tag in properties:
            unknown.append(unknown_element("properties", child))
        else:
            properties[child.tag] = child.text or ""


def _read_functions(element: Element, unknown: list[Record]) -> list[AxisFunction]:
    """Return the functions whose samples are numbers. Invalid or extended functions are added to `unknown`."""
    functions = []
    for child in element:
        function = _read_function(child) if local_name(child.tag) == "function" else None
        if function is not None and function.samples:
            functions.append(function)
        if function is None or _has_more_than_samples(child):
            unknown.append(unknown_element("functions", child))
    return functions


def _read_function(element: Element) -> AxisFunction | None:
    """Read a function. Return None if it has no name, an invalid sample, or positions of some samples only."""
    attributes = {local_name(name).lower(): value for name, value in element.attrib.items()}
    samples = [_fields(sample) | {"": sample.text or ""} for sample in element if local_name(sample.tag) == "sample"]
    values = [_number(sample.get("value", sample[""])) for sample in samples]
    positions = [_number(sample["position"]) for sample in samples if "position" in sample]
    if "name" not in attributes or None in values or None in positions or len(positions) not in (0, len(values)):
        return None
    return AxisFunction(
        name=attributes["name"],
        samples=tuple(value for value in values if value is not None),
        domain=attributes.get("domain", "polyline"),
        origin=attributes.get("origin", ""),
        positions=tuple(position for position in positions if position is not None) or None,
    )


def _has_more_than_samples(function: Element) -> bool:
    return not {local_name(name).lower() for name in function.attrib} <= {"name", "domain", "origin"} or any(
        local_name(sample.tag) != "sample" or not _fields(sample).keys() <= {"value", "position"} for sample in function
    )


def _read_points(shape: Element, where: str) -> tuple[FloatArray, list[float | None] | None]:
    """Return the points (P,2) px, and their z if any point has one."""
    rows: list[tuple[float, float]] = []
    depths: list[float | None] = []
    for point in shape:
        if local_name(point.tag) != "point":
            continue
        fields: Mapping[str, str] = point.attrib
        if "x" not in fields or "y" not in fields:
            fields = _fields(point)
        rows.append((_coordinate("x", fields, len(rows), where), _coordinate("y", fields, len(rows), where)))
        depths.append(_coordinate("z", fields, len(rows) - 1, where) if "z" in fields else None)
    # Adding zero turns -0.0 into 0.0.
    points = np.asarray(rows, dtype=np.float64).reshape(-1, 2) + 0.0
    return points, None if all(z is None for z in depths) else depths


def _is_duplicated_point(root: Root) -> bool:
    """Return True if the line has two points that are equal in x, y, z and all samples: an axis of one node."""
    return (
        len(root.points) == 2
        and bool((root.points[0] == root.points[1]).all())
        and (root.z is None or root.z[0] == root.z[1])
        and all(f.samples[0] == f.samples[1] for f in root.functions if _is_pair(f))
    )


def _is_pair(function: AxisFunction) -> bool:
    return function.is_by_point and len(function.samples) == 2


def _coordinate(name: str, fields: Mapping[str, str], point: int, where: str) -> float:
    text = fields.get(name)
    value = None if text is None else _number(text)
    if value is None:
        problem = f"has no {name}" if text is None else f"has {name}={text.strip()[:40]!r}, not a finite number"
        raise FormatError(f"{where}: point {point + 1} {problem}")
    return value


def _number(text: str) -> float | None:
    """Return a finite number, written with a decimal point or comma. Return None for anything else."""
    try:
        value = decimal_number(text)
    except ValueError:
        try:
            value = decimal_number(text.replace(",", "."))
        except ValueError:
            return None
    return value if math.isfinite(value) else None


def _fields(element: Element) -> dict[str, str]:
    """Return the values of attributes and child elements by lower-case name."""
    fields = {local_name(child.tag).lower(): child.text or "" for child in element}
    return fields | {local_name(name).lower(): value for name, value in element.attrib.items()}


def _has_more_than_points(polyline: Element) -> bool:
    return bool(polyline.attrib) or any(
        local_name(point.tag) != "point" or not point.attrib.keys() <= {"x", "y", "z"} or len(point)
        for point in polyline
    )
