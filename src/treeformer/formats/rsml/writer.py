"""Writing RSML: valid by the schema (`strict`), or the way SmartRoot reads it (`smartroot`).

A skeleton that came from RSML is written as it was read. For any other:

- The axes are those of `Skeleton.axes`, and a lateral begins exactly at a node of its parent. If some
  edges belong to no axis, all axes are made anew by the rule, so that no edge is lost.
- Plants and roots without an id get '1', '1.1', '1.1.2'; roots without an accession get that of a
  primary (order 0) or a lateral root.
- If no axis has a function `diameter`, those along which the radius is known get one.
- Where edges or nodes have scores, their mean along an axis is its property `software-confidence`.
- A node without any edge, a plant of its own as a rule, is a root whose point stands twice, since the schema
  wants two; the reader makes one node of them.
- An empty skeleton is a scene without plants. The schema wants one, but the image shows none; without a file it
  would look like an image that was left out.

Kept geometry, annotations and z are left out where the points of the axis are no longer those read.
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
from treeformer.formats.rsml.metadata import Dialect, decimal_text, metadata_lines
from treeformer.formats.rsml.preserved import (
    OF_THE_FILE,
    OF_THE_POINTS,
    Record,
    placed,
    points_mark,
    rsml_values,
    wrapped,
)
from treeformer.formats.xml import MAX_DEPTH, attribute, content
from treeformer.skeleton import Axis, AxisFunction, Plant, Skeleton

PRIMARY_ROOT = "PO:0020127"
LATERAL_ROOT = "PO:0020121"
PLANT_ONTOLOGY = "http://www.plantontology.org/xml-dtd/po.dtd"

# Names that every XML parser takes; a property called otherwise is written as an element of our own.
_ELEMENT_NAME = re.compile(r"[A-Za-z_À-ÖØ-öø-ÿ][A-Za-z0-9_.À-ÖØ-öø-ÿ-]*")
# <rsml>, <scene> and <plant> stand above the roots, <geometry>, <polyline> and <point> within the last one.
_MAX_ORDER = MAX_DEPTH - 7


def write(skeleton: Skeleton, path: Path, *, dialect: Dialect = "strict") -> None:
    """Write a skeleton as RSML.

    dialect: "strict" keeps to the schema; "smartroot" writes `ID` and `po:accession`, inch and DPI (72 where
    no scale is known), and no white space between points or samples.
    """
    if dialect not in get_args(Dialect):
        raise FormatError(f"{path.name}: RSML is written as {' or '.join(get_args(Dialect))}, not {dialect!r}")
    try:
        text = "\n".join(_Writer(skeleton, path.stem, dialect).lines()) + "\n"
    except (FormatError, SkeletonError) as error:
        raise FormatError(f"{path.name}: {error}") from None
    except (AttributeError, KeyError, TypeError):
        raise FormatError(f"{path.name}: the metadata under 'rsml' is not as an RSML file gives it") from None
    write_text(path, text)


class _Writer:
    def __init__(self, skeleton: Skeleton, file_stem: str, dialect: Dialect) -> None:
        _ = skeleton.parents  # an error where there is a cycle
        if (skeleton.edge_axis < 0).any():
            skeleton = skeleton.with_inferred_axes
        self.is_from_rsml = "rsml" in skeleton.metadata and skeleton.has_explicit_axes
        skeleton = _with_axes_of_lone_nodes(skeleton)
        if skeleton.axis_order.max(initial=0) > _MAX_ORDER:
            raise FormatError(f"RSML cannot hold axes of an order above {_MAX_ORDER}")
        self.skeleton = skeleton
        self.file_stem = file_stem
        self.is_smartroot = dialect == "smartroot"
        self.dialect = dialect
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
        axes_of: dict[int, list[int]] = {}
        for number in self.laterals[None]:
            axes_of.setdefault(self.skeleton.axes[number].plant, []).append(number)
        kept = [record for record in _unknown(self.skeleton.metadata) if record["of"] in OF_THE_FILE]
        for plant, axes in sorted(axes_of.items()):
            self._add_plant(plant, axes, kept, lines)
            kept = []
        lines += _indented(2, _properties({}, kept))  # where there is no plant to keep it
        return [*lines, "  </scene>", "</rsml>"]

    def _add_plant(self, number: int, axes: Sequence[int], kept: Sequence[Record], lines: list[str]) -> None:
        records = self.skeleton.plant_records
        plant = records[number] if number < len(records) else Plant()
        counted = str(number + 1)
        lines.append(f"    <plant{self._names(plant.id or ('' if self.is_from_rsml else counted), plant.label)}>")
        lines += _indented(3, _properties(plant.properties, [*kept, *_unknown(plant.metadata)]))
        for rank, axis in enumerate(axes, start=1):
            self._add_root(axis, 0, f"{plant.id or counted}.{rank}", lines)
        lines.append("    </plant>")

    def _add_root(self, number: int, order: int, counted: str, lines: list[str]) -> None:
        axis = self.skeleton.axes[number]
        points = self.skeleton.nodes[list(axis.nodes)]
        values = rsml_values(axis.metadata)
        unknown, z = _unknown(axis.metadata), values.get("z")
        if values.get("points") != points_mark(points):
            unknown, z = [record for record in unknown if record["of"] not in OF_THE_POINTS], None
        properties = dict(axis.properties)
        if number in self.confidence:
            properties.setdefault("software-confidence", decimal_text(self.confidence[number]))
        id_, accession = axis.id, axis.accession
        if not self.is_from_rsml:
            id_ = id_ or counted
        if not self.is_from_rsml or self.is_smartroot:
            accession = accession or (LATERAL_ROOT if order else PRIMARY_ROOT)

        depth = 3 + order
        # archiDART needs an attribute on every root.
        lines.append(f"{'  ' * depth}<root{self._names(id_, axis.label, accession) or attribute('label', '')}>")
        inner = _properties(properties, unknown)
        inner += ["<geometry>", *_indented(1, self._sequence("<polyline", "polyline", _points(points, z)))]
        inner += [*_indented(1, placed(unknown, "geometry")), "</geometry>"]
        if functions := [function for function in self._functions(axis) if function.samples]:
            inner.append("<functions>")
            for function in functions:
                if len(axis.nodes) == 1 and function.is_by_point and len(function.samples) == 1:
                    function = replace(function, samples=function.samples * 2)  # as many as points
                inner += _indented(1, self._sequence(_function_start(function), "function", _samples(function)))
            inner.append("</functions>")
        if notes := placed(unknown, "annotations"):
            inner += ["<annotations>", *_indented(1, notes), "</annotations>"]
        lines += _indented(depth + 1, inner)
        for rank, lateral in enumerate(self.laterals.get(number, ()), start=1):
            self._add_root(lateral, order + 1, f"{counted}.{rank}", lines)
        lines.append(f"{'  ' * depth}</root>")

    def _names(self, id_: str, label: str, accession: str = "") -> str:
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
        """Points or samples; SmartRoot walks both in step, white space included, so it gets none."""
        if self.is_smartroot:
            return [f"{start}>{''.join(elements)}</{name}>"]
        return [f"{start}>", *_indented(1, elements), f"</{name}>"]


def _with_axes_of_lone_nodes(skeleton: Skeleton) -> Skeleton:
    """The skeleton with an axis for every node that has no edge and is on no axis."""
    on_axes = {node for axis in skeleton.axes for node in axis.nodes}
    lone = [node for node in np.flatnonzero(skeleton.degree == 0).tolist() if node not in on_axes]
    plant = skeleton.plant_of_node.tolist()
    axes = [*skeleton.axes, *(Axis((node,), plant=plant[node]) for node in lone)]
    return skeleton.replace(axes=axes, edge_axis=skeleton.edge_axis) if lone else skeleton


def _points(points: FloatArray, z: Sequence[float | None] | None) -> list[str]:
    rows = points.tolist()
    depths = [""] * len(rows) if z is None else ["" if d is None else f' z="{decimal_text(d)}"' for d in z]
    written = [
        f'<point x="{decimal_text(x)}" y="{decimal_text(y)}"{depth}/>'
        for (x, y), depth in zip(rows, depths, strict=True)
    ]
    return written * 2 if len(written) == 1 else written


def _function_start(function: AxisFunction) -> str:
    start = f"<function{attribute('name', function.name)}{attribute('domain', function.domain)}"
    return start + (attribute("origin", function.origin) if function.origin else "")


def _samples(function: AxisFunction) -> list[str]:
    positions = function.positions or ()
    if not np.isfinite([*function.samples, *positions]).all() or len(positions) not in (0, len(function.samples)):
        raise FormatError(
            f"RSML cannot hold the function {function.name!r}: samples and positions must be finite pairs"
        )
    if not positions:
        return [f'<sample value="{decimal_text(value)}"/>' for value in function.samples]
    pairs = zip(function.samples, positions, strict=True)
    return [f'<sample value="{decimal_text(value)}" position="{decimal_text(place)}"/>' for value, place in pairs]


def _properties(properties: Mapping[str, str], unknown: Sequence[Record]) -> list[str]:
    """<properties> with what has no other place in it, nothing where there is nothing to say."""
    lines = []
    for name, value in properties.items():
        if _ELEMENT_NAME.fullmatch(name):
            lines.append(f"<{name}>{content(str(value))}</{name}>")
        else:
            lines += wrapped([{"of": "property", "attribute": name, "value": str(value)}])
    lines += placed(unknown, "properties") + wrapped(unknown)
    return ["<properties>", *_indented(1, lines), "</properties>"] if lines else []


def _unknown(metadata: Mapping[str, Any]) -> list[Record]:
    return list(rsml_values(metadata).get("unknown", ()))


def _confidence(skeleton: Skeleton) -> dict[int, float]:
    """For each axis the mean score of its edges, else of its nodes; left out where it has none or it is not in 0..1."""
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
