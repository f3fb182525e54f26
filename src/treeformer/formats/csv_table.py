"""A CSV table, a row a node: node,x,y,parent and, where known, radius,score,plant,axis,edge_score. Forests only.

`parent` is the `node` of another row, or empty (or -1) at a root; `axis` and `edge_score` are those of
the edge to the parent. Only x, y and parent are needed for reading: without `node`, rows count from 0.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from treeformer._util.arrays import FloatArray, IntArray
from treeformer.errors import FormatError, SkeletonError
from treeformer.formats._io import numbered_lines, reading, write_text
from treeformer.formats.checks import own_ancestor, shown
from treeformer.formats.lines import lines_of
from treeformer.skeleton import Axis, Skeleton

NEEDED = ("x", "y", "parent")


def looks_like(head: bytes) -> bool:
    """Whether the first line names the columns that are needed."""
    first = head.decode("utf-8-sig", "replace").partition("\n")[0]
    return set(NEEDED) <= set(_columns(first))


def _delimiter(header: str) -> str:
    """The delimiter that splits the header into most columns: a comma, or what spreadsheets write instead."""
    return max(",;\t", key=header.count)


def _columns(header: str) -> list[str]:
    return [name.strip().strip('"').lower() for name in header.split(_delimiter(header))]


def read(path: Path) -> Skeleton:
    """Read a table; an error names the line. Columns that are not listed above are left out."""
    lines = numbered_lines(path)
    with reading(path):
        _, header = next(lines, (0, ""))
        columns = _columns(header)
        for name in NEEDED:
            if name not in columns:
                raise FormatError(f"{path.name}: has no column {name!r} (its first line is {shown(header)})")
        try:
            rows = list(_rows(lines, columns, _delimiter(header), path))
        except csv.Error as error:
            raise FormatError(f"{path.name}: is not a table ({error})") from None
        return _skeleton(rows, path)


def _rows(
    lines: Iterator[tuple[int, str]], columns: list[str], delimiter: str, path: Path
) -> Iterator[tuple[int, dict[str, str]]]:
    """Each row as a dict of its cells that are not empty, with the number of the line it stands in."""
    table = csv.reader((line for _, line in lines), delimiter=delimiter)
    for cells in table:
        number = table.line_num + 1  # the header has been read before
        if len(cells) > len(columns):
            raise FormatError(f"{path.name}: line {number} has {len(cells)} cells under {len(columns)} columns")
        row = {name: text for name, cell in zip(columns, cells, strict=False) if (text := cell.strip())}
        if row:
            yield number, row


def _skeleton(rows: list[tuple[int, dict[str, str]]], path: Path) -> Skeleton:
    def number(at: int, key: str) -> float:
        line, row = rows[at]
        try:
            value = float(row.get(key, "").replace("_", "?"))  # Python would read 1_0 as ten
        except ValueError:
            raise FormatError(f"{path.name}: line {line}: {key} is {shown(row.get(key, ''))}, not a number") from None
        if not math.isfinite(value):
            raise FormatError(f"{path.name}: line {line}: {key} is {row[key]}, but must be finite")
        return value

    def given(key: str) -> bool:
        return any(key in row for _, row in rows)

    parents = _parents(rows, path)
    child = [at for at, parent in enumerate(parents) if parent >= 0]
    points = [(number(at, "x"), number(at, "y")) for at in range(len(rows))]
    optional: dict[str, Any] = {}
    if given("radius"):
        optional["radius"] = [number(at, "radius") if "radius" in row else math.nan for at, (_, row) in enumerate(rows)]
    for key, argument in (("score", "node_score"), ("plant", "plant")):
        if given(key):
            optional[argument] = [number(at, key) for at in range(len(rows))]
    if given("edge_score"):
        optional["edge_score"] = [number(at, "edge_score") for at in child]
    skeleton = Skeleton.from_parents(points, np.asarray(parents, dtype=np.intp), **optional)
    if not given("axis"):
        return skeleton
    return _with_axes(skeleton, [number(at, "axis") if "axis" in rows[at][1] else -1.0 for at in child])


def _parents(rows: list[tuple[int, dict[str, str]]], path: Path) -> list[int]:
    """The row of each row's parent, -1 at roots."""
    row_of: dict[str, int] = {}
    for at, (line, row) in enumerate(rows):
        name = _plain_name(row.get("node", str(at)))
        if name in row_of:
            raise FormatError(f"{path.name}: line {line} repeats node {name} of line {rows[row_of[name]][0]}")
        row_of[name] = at
    parents = []
    for line, row in rows:
        name = _plain_name(row.get("parent", "-1"))
        if name not in row_of and name != "-1":
            raise FormatError(f"{path.name}: line {line} names parent {name}, which is not there")
        parents.append(row_of.get(name, -1))
    on_cycle = own_ancestor(parents)
    if on_cycle is not None:
        raise FormatError(f"{path.name}: line {rows[on_cycle][0]}: the node is its own ancestor")
    return parents


def _plain_name(name: str) -> str:
    """A node's name; 3.0, as a table program may write it, is 3."""
    return name.removesuffix(".0")


def _with_axes(skeleton: Skeleton, labels: list[float]) -> Skeleton:
    """Give each edge the axis that its label stands for; an axis begins on the one that leads to its first node."""
    names, index = np.unique(np.asarray([-1.0, *labels]), return_inverse=True)
    if names[0] < -1:
        raise SkeletonError(f"axis {names[0]} is below -1")
    edge_axis = index.ravel()[1:] - 1
    blank = skeleton.replace(axes=[Axis(nodes=())] * (len(names) - 1), edge_axis=edge_axis)
    axis_to = np.full(len(skeleton), -1, dtype=np.intp)  # the axis of the edge that leads to each node
    axis_to[skeleton.edges[:, 1]] = edge_axis
    axes: dict[int, Axis] = {}
    for line in lines_of(blank):
        if line.axis >= 0 and line.axis not in axes:
            base = line.nodes[0]
            parent = int(axis_to[base]) if axis_to[base] >= 0 else None
            axes[line.axis] = Axis(nodes=tuple(line.nodes), parent=parent, plant=int(skeleton.plant_of_node[base]))
    return skeleton.replace(axes=[axes[axis] for axis in range(len(names) - 1)], edge_axis=edge_axis)


def write(skeleton: Skeleton, path: Path) -> None:
    """Write a table with those of the columns that are known; -1 is the parent of a root. Cycles are an error.

    Of the axes only the number of each is held, and only where they were given; the image and metadata are not.
    """
    if not skeleton.is_forest:
        raise FormatError(f"{path.name}: a table of parents holds trees, and this skeleton has a cycle")
    parents = skeleton.parents
    first, second = skeleton.edges[:, 0], skeleton.edges[:, 1]
    child = np.where(parents[second] == first, second, first)
    columns: dict[str, list[Any]] = {
        "node": list(range(len(skeleton))),
        "x": skeleton.nodes[:, 0].tolist(),
        "y": skeleton.nodes[:, 1].tolist(),
        "parent": parents.tolist(),
    }

    def of_edges(values: FloatArray | IntArray) -> list[Any]:
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
        columns["axis"] = of_edges(skeleton.edge_axis)
    if skeleton.edge_score is not None:
        columns["edge_score"] = of_edges(skeleton.edge_score)
    rows = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    write_text(path, "\n".join(rows) + "\n")
