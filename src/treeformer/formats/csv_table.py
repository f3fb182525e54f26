"""CSV tables with one row per node. They can store forests only.

The columns are `node,x,y,parent` and, if known, `radius,score,plant,axis,edge_score`. `parent` is the `node` of
another row; it is empty or -1 at a root. `axis` and `edge_score` belong to the edge to the parent. Reading
requires only `x`, `y` and `parent`. Without a column `node`, rows are numbered from 0.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from treeformer._util.arrays import FloatArray, IntArray
from treeformer._util.text import decimal_number, short_repr
from treeformer.errors import FormatError, SkeletonError
from treeformer.formats._io import numbered_lines, reading, write_text
from treeformer.formats.checks import find_cycle
from treeformer.formats.lines import skeleton_lines
from treeformer.skeleton import Axis, Skeleton

REQUIRED = ("x", "y", "parent")


def looks_like(head: bytes) -> bool:
    """Return True if the first line contains all required columns."""
    first = head.decode("utf-8-sig", "replace").splitlines()[:1]
    return bool(first) and set(REQUIRED) <= set(_columns(first[0]))


def _delimiter(header: str) -> str:
    """Return the delimiter that splits the header into most columns: comma, semicolon or tab."""
    return max(",;\t", key=lambda delimiter: len(_cells(header, delimiter)))


def _cells(line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:  # a zero byte or a cell of more than 128 KiB: no table
        return []


def _columns(header: str) -> list[str]:
    return [name.strip().strip('"').lower() for name in _cells(header, _delimiter(header))]


def read(path: Path) -> Skeleton:
    """Read a table. Unknown columns are ignored. Error messages identify the line."""
    lines = numbered_lines(path)
    with reading(path):
        _, header = next(lines, (0, ""))
        columns = _columns(header)
        for name in REQUIRED:
            if name not in columns:
                raise FormatError(f"{path.name}: has no column {name!r} (its first line is {short_repr(header)})")
            if columns.count(name) > 1:
                raise FormatError(f"{path.name}: has several columns {name!r} (its first line is {short_repr(header)})")
        try:
            rows = list(_rows(lines, columns, _delimiter(header), path))
        except csv.Error as error:
            raise FormatError(f"{path.name}: is not a valid CSV table ({error})") from None
        return _skeleton(rows, path)


def _rows(
    lines: Iterator[tuple[int, str]], columns: list[str], delimiter: str, path: Path
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the line number of each row and a dict of its non-empty cells."""
    table = csv.reader((line for _, line in lines), delimiter=delimiter)
    for cells in table:
        number = table.line_num + 1  # the header was read before
        if len(cells) > len(columns):
            raise FormatError(f"{path.name}: line {number} has {len(cells)} cells under {len(columns)} columns")
        row = {name: text for name, cell in zip(columns, cells, strict=False) if (text := cell.strip())}
        if row:
            yield number, row


def _skeleton(rows: list[tuple[int, dict[str, str]]], path: Path) -> Skeleton:
    def number(index: int, key: str) -> float:
        line, row = rows[index]
        try:
            value = decimal_number(row.get(key, ""))
        except ValueError:
            raise FormatError(
                f"{path.name}: line {line}: {key} is {short_repr(row.get(key, ''))}, not a number"
            ) from None
        if not math.isfinite(value):
            raise FormatError(f"{path.name}: line {line}: {key} is {short_repr(row[key])}, but must be finite")
        return value

    def given(key: str) -> bool:
        return any(key in row for _, row in rows)

    parents = _parents(rows, path)
    child = [index for index, parent in enumerate(parents) if parent >= 0]
    points = [(number(index, "x"), number(index, "y")) for index in range(len(rows))]
    optional: dict[str, Any] = {}
    if given("radius"):
        optional["radius"] = [
            number(index, "radius") if "radius" in row else math.nan for index, (_, row) in enumerate(rows)
        ]
    for key, argument in (("score", "node_score"), ("plant", "plant")):
        if given(key):
            optional[argument] = [number(index, key) for index in range(len(rows))]
    if given("edge_score"):
        optional["edge_score"] = [number(index, "edge_score") for index in child]
    skeleton = Skeleton.from_parents(points, np.asarray(parents, dtype=np.intp), **optional)
    if not given("axis"):
        return skeleton
    return _with_axes(skeleton, [number(index, "axis") if "axis" in rows[index][1] else -1.0 for index in child])


def _parents(rows: list[tuple[int, dict[str, str]]], path: Path) -> list[int]:
    """Return the row index of each row's parent, -1 at roots."""
    row_of: dict[str, int] = {}
    for index, (line, row) in enumerate(rows):
        name = _plain_name(row.get("node", str(index)))
        if name in row_of:
            raise FormatError(f"{path.name}: line {line} repeats node {name} of line {rows[row_of[name]][0]}")
        row_of[name] = index
    parents = []
    for line, row in rows:
        name = _plain_name(row.get("parent", "-1"))
        if name not in row_of and name != "-1":
            raise FormatError(f"{path.name}: line {line} refers to parent {name}, which does not exist")
        parents.append(row_of.get(name, -1))
    on_cycle = find_cycle(parents)
    if on_cycle is not None:
        raise FormatError(f"{path.name}: line {rows[on_cycle][0]}: the node is its own ancestor")
    return parents


def _plain_name(name: str) -> str:
    """Return a node's name. Spreadsheet programs may write 3 as 3.0."""
    return name.removesuffix(".0")


def _with_axes(skeleton: Skeleton, labels: list[float]) -> Skeleton:
    """Assign each edge to the axis of its label. The parent of an axis is the axis of the edge to its first node."""
    names, index = np.unique(np.asarray([-1.0, *labels]), return_inverse=True)
    if names[0] < -1:
        raise SkeletonError(f"axis {names[0]} is below -1")
    edge_axis = index.ravel()[1:] - 1
    blank = skeleton.replace(axes=[Axis(nodes=())] * (len(names) - 1), edge_axis=edge_axis)
    incoming_axis = np.full(len(skeleton), -1, dtype=np.intp)  # the axis of the edge from the parent to each node
    incoming_axis[skeleton.edges[:, 1]] = edge_axis
    axes: dict[int, Axis] = {}
    for line in skeleton_lines(blank):
        if line.axis >= 0 and line.axis not in axes:
            base = line.nodes[0]
            parent = int(incoming_axis[base]) if incoming_axis[base] >= 0 else None
            axes[line.axis] = Axis(nodes=tuple(line.nodes), parent=parent, plant=int(skeleton.plant_of_node[base]))
    return skeleton.replace(axes=[axes[axis] for axis in range(len(names) - 1)], edge_axis=edge_axis)


def write(skeleton: Skeleton, path: Path) -> None:
    """Write a forest as a table with the columns that are known. The parent of a root is -1.

    Only the index of each explicit axis is stored. Inferred axes, the image and the metadata are not.
    """
    if not skeleton.is_forest:
        raise FormatError(f"{path.name}: a table of parents can store only forests, but this skeleton has a cycle")
    parents = skeleton.parents
    first, second = skeleton.edges[:, 0], skeleton.edges[:, 1]
    child = np.where(parents[second] == first, second, first)
    columns: dict[str, list[Any]] = {
        "node": list(range(len(skeleton))),
        "x": skeleton.nodes[:, 0].tolist(),
        "y": skeleton.nodes[:, 1].tolist(),
        "parent": parents.tolist(),
    }

    def edge_column(values: FloatArray | IntArray) -> list[Any]:
        column: list[Any] = [""] * len(skeleton)
        for node, value in zip(child.tolist(), values.tolist(), strict=True):
            column[node] = value
        return column

    if skeleton.radius is not None:
        columns["radius"] = ["" if math.isnan(radius) else radius for radius in skeleton.radius.tolist()]
    if skeleton.node_score is not None:
        columns["score"] = skeleton.node_score.tolist()
    if skeleton.plant is not None:
        columns["plant"] = skeleton.plant.tolist()
    if skeleton.has_explicit_axes:
        columns["axis"] = edge_column(skeleton.edge_axis)
    if skeleton.edge_score is not None:
        columns["edge_score"] = edge_column(skeleton.edge_score)
    rows = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    write_text(path, "\n".join(rows) + "\n")
