"""Write RSML with the names of the schema (`strict`) or in the variant that SmartRoot reads (`smartroot`).

`write_valid` writes a file that is valid by the schema: elements and attributes that the schema does not allow are
left out. `write` preserves them, so that a file can be read and written again without loss.

A skeleton that was read from RSML is written as it was read. For all others:

- The axes are `Skeleton.axes`. A lateral begins exactly at a node of its parent. If some edges belong to no axis,
  all axes are inferred again, so that no edge is lost.
- Plants and roots without an id get '1', '1.1', '1.1.2'. Roots without an accession get that of a primary root
  (order 0) or a lateral root.
- If no axis has a function `diameter`, the axes with known radii get one.
- The mean score of the edges or nodes of an axis becomes its property `software-confidence`.
- A node without edges is written as a root with its point twice, because the schema requires two points. The
  reader converts it back to one node.
- An empty skeleton is written as a scene without plants, although the schema requires a plant. Without a file,
  the image would seem to have been skipped.

Preserved geometry, annotations and z are omitted if the points of the axis have changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np

from treeformer._util.arrays import FloatArray
from treeformer.errors import FormatError, SkeletonError
from treeformer.formats._io import write_text
from treeformer.formats.rsml.allowed import annotations_in, is_allowed, is_plant_annotations, names_in
from treeformer.formats.rsml.confidence import CONFIDENCE
from treeformer.formats.rsml.metadata import Dialect, decimal_text, metadata_lines
from treeformer.formats.rsml.preserved import (
    FILE_ELEMENTS,
    POINT_DEPENDENT,
    Record,
    points_checksum,
    records_at,
    rsml_values,
    wrapped_records,
)
from treeformer.formats.xml import MAX_DEPTH, attribute, content
from treeformer.skeleton import Axis, AxisFunction, Plant, Skeleton
from treeformer.skeleton.axes import plants_of_axes

PRIMARY_ROOT = "PO:0020127"
LATERAL_ROOT = "PO:0020121"
PLANT_ONTOLOGY = "http://www.plantontology.org/xml-dtd/po.dtd"

# Names accepted by every XML parser. A property with another name is written as a <tf:kept> element.
_ELEMENT_NAME = re.compile(r"[A-Za-z_À-ÖØ-öø-ÿ][A-Za-z0-9_.À-ÖØ-öø-ÿ-]*")
# <rsml>, <scene> and <plant> enclose the roots; the innermost contains <geometry>, <polyline> and <point>.
_MAX_ORDER = MAX_DEPTH - 7


def write(skeleton: Skeleton, path: Path, *, dialect: Dialect = "strict") -> None:
    """Write a forest as RSML, with all elements and attributes that were read and are not in the schema.

    "strict" uses the names of the schema. "smartroot" writes `ID` and `po:accession`, inch and DPI (72 if the scale is
    unknown), and no white space between points or samples.
    """
    if dialect not in get_args(Dialect):
        raise FormatError(f"{path.name}: RSML is written as {' or '.join(get_args(Dialect))}, not {dialect!r}")
    _write(skeleton, path, dialect, only_valid=False)


def write_valid(skeleton: Skeleton, path: Path) -> tuple[str, ...]:
    """Write a forest as RSML that is valid by the schema; return what was left out.

    These are names of elements, and of attributes after an "@".
    """
    return _write(skeleton, path, "strict", only_valid=True)


def _write(skeleton: Skeleton, path: Path, dialect: Dialect, *, only_valid: bool) -> tuple[str, ...]:
    try:
        writer = _Writer(skeleton, path.stem, dialect, only_valid=only_valid)
        text = "\n".join(writer.lines()) + "\n"
    except (FormatError, SkeletonError) as error:
        raise FormatError(f"{path.name}: {error}") from None
    except (AttributeError, KeyError, TypeError):
        raise FormatError(f"{path.name}: the metadata under 'rsml' is invalid") from None
    write_text(path, text)
    return tuple(sorted(writer.left_out))


class _Writer:
    def __init__(self, skeleton: Skeleton, file_stem: str, dialect: Dialect, *, only_valid: bool) -> None:
        _ = skeleton.parents  # raises an error if there is a cycle
        if (skeleton.edge_axis < 0).any():
            skeleton = skeleton.with_inferred_axes
        self.is_from_rsml = "rsml" in skeleton.metadata and skeleton.has_explicit_axes and not _has_only_notes(skeleton)
        skeleton = _with_axes_of_isolated_nodes(skeleton)
        if skeleton.axis_order.max(initial=0) > _MAX_ORDER:
            raise FormatError(f"RSML cannot represent axes of order above {_MAX_ORDER}")
        self.skeleton = skeleton
        self.file_stem = file_stem
        self.is_smartroot = dialect == "smartroot"
        self.dialect = dialect
        self.only_valid = only_valid
        self.left_out: set[str] = set()
        self.has_diameters = any(function.name == "diameter" for axis in skeleton.axes for function in axis.functions)
        self.confidence = _confidence(skeleton)
        self.laterals: dict[int | None, list[int]] = {None: []}
        for number, axis in enumerate(skeleton.axes):
            if axis.nodes:
                parent = axis.parent
                while parent is not None and not skeleton.axes[parent].nodes:
                    parent = skeleton.axes[parent].parent
                self.laterals.setdefault(parent, []).append(number)

    def lines(self) -> list[str]:
        start = f"<rsml{attribute('xmlns:po', PLANT_ONTOLOGY)}>" if self.is_smartroot else "<rsml>"
        lines = ['<?xml version="1.0" encoding="UTF-8"?>', start]
        lines += _indented(1, metadata_lines(self.skeleton, self.file_stem, self.dialect))
        lines.append("  <scene>")
        plant_of_axis = plants_of_axes(self.skeleton.axes, self.skeleton.plant_of_node).tolist()
        axes_of: dict[int, list[int]] = {}
        for number in self.laterals[None]:
            axes_of.setdefault(plant_of_axis[number], []).append(number)
        records = [record for record in _unknown(self.skeleton.metadata) if record["of"] in FILE_ELEMENTS]
        kept = self._without_invalid(records)
        for plant, axes in sorted(axes_of.items()):
            self._add_plant(plant, axes, kept, lines)
            kept = []
        lines += _indented(2, _properties({}, kept))  # not empty only if there is no plant
        return [*lines, "  </scene>", "</rsml>"]

    def _add_plant(self, number: int, axes: Sequence[int], kept: Sequence[Record], lines: list[str]) -> None:
        records = self.skeleton.plant_records
        plant = records[number] if number < len(records) else Plant()
        default_id = str(number + 1)
        lines.append(
            f"    <plant{self._name_attributes(plant.id or ('' if self.is_from_rsml else default_id), plant.label)}>"
        )
        unknown = self._without_invalid(_unknown(plant.metadata))
        notes: list[str] = []
        if self.only_valid:  # in its place; otherwise wrapped in <properties>, where a reader ignores it
            notes = [note for record in unknown if is_plant_annotations(record) for note in annotations_in(record)]
            unknown = [record for record in unknown if not is_plant_annotations(record)]
        lines += _indented(3, _properties(plant.properties, [*kept, *unknown]))
        for rank, axis in enumerate(axes, start=1):
            self._add_root(axis, 0, f"{plant.id or default_id}.{rank}", lines)
        lines += _indented(3, _annotations(notes))
        lines.append("    </plant>")

    def _without_invalid(self, records: list[Record]) -> list[Record]:
        """Return the records that are written. Note the names of those that are left out."""
        if not self.only_valid:
            return records
        allowed = [record for record in records if is_allowed(record)]
        self.left_out.update(name for record in records if not is_allowed(record) for name in names_in(record))
        return allowed

    def _add_root(self, number: int, order: int, default_id: str, lines: list[str]) -> None:
        axis = self.skeleton.axes[number]
        points = self.skeleton.nodes[list(axis.nodes)]
        values = rsml_values(axis.metadata)
        unknown, z = _unknown(axis.metadata), values.get("z")
        if values.get("points") != points_checksum(points):
            unknown, z = [record for record in unknown if record["of"] not in POINT_DEPENDENT], None
        unknown = self._without_invalid(unknown)
        properties = dict(axis.properties)
        if number in self.confidence:
            properties.setdefault(CONFIDENCE, decimal_text(self.confidence[number]))
        id_, accession = axis.id, axis.accession
        if not self.is_from_rsml:
            id_ = id_ or default_id
        if not self.is_from_rsml or self.is_smartroot:
            accession = accession or (LATERAL_ROOT if order else PRIMARY_ROOT)

        depth = 3 + order
        # archiDART needs an attribute on every root.
        lines.append(
            f"{'  ' * depth}<root{self._name_attributes(id_, axis.label, accession) or attribute('label', '')}>"
        )
        inner = _properties(properties, unknown)
        inner += ["<geometry>", *_indented(1, self._sequence("<polyline", "polyline", _points(points, z)))]
        inner += [*_indented(1, records_at(unknown, "geometry")), "</geometry>"]
        if functions := [function for function in self._functions(axis) if function.samples]:
            inner.append("<functions>")
            for function in functions:
                if len(axis.nodes) == 1 and function.is_by_point and len(function.samples) == 1:
                    function = replace(function, samples=function.samples * 2)  # as many as points
                inner += _indented(1, self._sequence(_function_start(function), "function", _samples(function)))
            inner.append("</functions>")
        inner += _annotations(records_at(unknown, "annotations"))
        lines += _indented(depth + 1, inner)
        for rank, lateral in enumerate(self.laterals.get(number, ()), start=1):
            self._add_root(lateral, order + 1, f"{default_id}.{rank}", lines)
        lines.append(f"{'  ' * depth}</root>")

    def _name_attributes(self, id_: str, label: str, accession: str = "") -> str:
        names = ("ID", "label", "po:accession") if self.is_smartroot else ("id", "label", "accession")
        return "".join(
            attribute(name, value) for name, value in zip(names, (id_, label, accession), strict=True) if value
        )

    def _functions(self, axis: Axis) -> tuple[AxisFunction, ...]:
        radius = self.skeleton.radius
        if radius is None or self.has_diameters:
            return axis.functions
        diameter = 2 * radius[list(axis.nodes)]
        if not np.isfinite(diameter).all():
            return axis.functions
        return (*axis.functions, AxisFunction("diameter", tuple(diameter.tolist()), "polyline", "base"))

    def _sequence(self, start: str, name: str, elements: list[str]) -> list[str]:
        """Return points or samples as lines. SmartRoot pairs them including white space, so it gets none."""
        if self.is_smartroot:
            return [f"{start}>{''.join(elements)}</{name}>"]
        return [f"{start}>", *_indented(1, elements), f"</{name}>"]


def _has_only_notes(skeleton: Skeleton) -> bool:
    """Return True if the RSML values are a scale or a software, which predictions and the editor add by themselves."""
    values = rsml_values(skeleton.metadata)
    return bool(values) and values.keys() <= {"unit", "resolution", "software"}


def _with_axes_of_isolated_nodes(skeleton: Skeleton) -> Skeleton:
    """Return the skeleton with an additional axis for every node that has no edge and no axis."""
    on_axes = {node for axis in skeleton.axes for node in axis.nodes}
    isolated = [node for node in np.flatnonzero(skeleton.degree == 0).tolist() if node not in on_axes]
    plant = skeleton.plant_of_node.tolist()
    axes = [*skeleton.axes, *(Axis((node,), plant=plant[node]) for node in isolated)]
    return skeleton.replace(axes=axes, edge_axis=skeleton.edge_axis) if isolated else skeleton


def _points(points: FloatArray, z: Sequence[float | None] | None) -> list[str]:
    rows = points.tolist()
    depths = [""] * len(rows) if z is None else ["" if d is None else f' z="{decimal_text(d)}"' for d in z]
    elements = [
        f'<point x="{decimal_text(x)}" y="{decimal_text(y)}"{depth}/>'
        for (x, y), depth in zip(rows, depths, strict=True)
    ]
    return elements * 2 if len(elements) == 1 else elements


def _function_start(function: AxisFunction) -> str:
    start = f"<function{attribute('name', function.name)}{attribute('domain', function.domain)}"
    return start + (attribute("origin", function.origin) if function.origin else "")


def _samples(function: AxisFunction) -> list[str]:
    positions = function.positions or ()
    if not np.isfinite([*function.samples, *positions]).all() or len(positions) not in (0, len(function.samples)):
        raise FormatError(
            f"RSML cannot represent the function {function.name!r}: samples and positions must be finite pairs"
        )
    if not positions:
        return [f'<sample value="{decimal_text(value)}"/>' for value in function.samples]
    pairs = zip(function.samples, positions, strict=True)
    return [f'<sample value="{decimal_text(value)}" position="{decimal_text(position)}"/>' for value, position in pairs]


def _properties(properties: Mapping[str, str], unknown: Sequence[Record]) -> list[str]:
    """Return <properties> with all records that have no other place, empty if there are none."""
    lines = []
    for name, value in properties.items():
        if _ELEMENT_NAME.fullmatch(name):
            lines.append(f"<{name}>{content(str(value))}</{name}>")
        else:
            lines += wrapped_records([{"of": "property", "attribute": name, "value": str(value)}])
    lines += records_at(unknown, "properties") + wrapped_records(unknown)
    return ["<properties>", *_indented(1, lines), "</properties>"] if lines else []


def _annotations(notes: Sequence[str]) -> list[str]:
    return ["<annotations>", *_indented(1, notes), "</annotations>"] if notes else []


def _unknown(metadata: Mapping[str, Any]) -> list[Record]:
    return list(rsml_values(metadata).get("unknown", ()))


def _confidence(skeleton: Skeleton) -> dict[int, float]:
    """Return the mean score of the edges, or else the nodes, of each axis. Values outside 0..1 are omitted."""
    means: dict[int, float] = {}
    if (score := skeleton.node_score) is not None:
        means = {k: float(score[list(axis.nodes)].mean()) for k, axis in enumerate(skeleton.axes) if axis.nodes}
    if skeleton.edge_score is not None:
        count = np.bincount(skeleton.edge_axis, minlength=len(skeleton.axes))
        total = np.bincount(skeleton.edge_axis, weights=skeleton.edge_score, minlength=len(skeleton.axes))
        means |= {k: float(total[k] / count[k]) for k in np.flatnonzero(count).tolist()}
    return {axis: mean for axis, mean in means.items() if 0 <= mean <= 1}


def _indented(depth: int, lines: Iterable[str]) -> list[str]:
    pad = "  " * depth
    return [pad + line for line in lines]
