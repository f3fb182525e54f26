"""SWC: one row per node, `index type x y z radius parent`, in pixels.

Parents precede their children; the parent of a root is -1. Comments and the type and z of each node have no
counterpart in a Skeleton. They are kept in `metadata["swc"]` and written back as long as the nodes are
unchanged. Indices are renumbered from 1. A radius below 0 means unknown.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from treeformer._util.arrays import FloatArray
from treeformer._util.text import decimal_number, short_repr
from treeformer.errors import FormatError
from treeformer.formats._io import numbered_lines, reading, write_text
from treeformer.formats.checks import find_cycle
from treeformer.skeleton import Skeleton

HEADER = " index type x y z radius parent"
COLUMNS = HEADER.split()
INTEGER_COLUMNS = ("index", "type", "parent")
UNKNOWN_RADIUS = -1.0
LINE_END = re.compile("\r\n?|\n")
# A zero byte makes a file binary. UTF-8 has no surrogates, except those that stand for undecodable bytes.
UNWRITABLE = re.compile("[\0\ud800-\udc7f\udd00-\udfff]")


def looks_like(head: bytes) -> bool:
    """Return True if the first line that is not a comment has at least seven numbers."""
    for line in head.split(b"\n"):
        if line.strip() and not line.lstrip().startswith(b"#"):
            try:
                return len([decimal_number(word) for word in line.decode().split()]) >= len(COLUMNS)
            except ValueError:
                return False
    return head.lstrip().startswith(b"#")


def read(path: Path) -> Skeleton:
    """Read an SWC file. Rows may be in any order. Error messages identify the line.

    Columns beyond the seventh are ignored.
    """
    comments: list[str] = []
    values: list[list[float]] = []  # x y z radius
    types: list[int] = []
    parent_index: list[int] = []
    line_of: list[int] = []
    row_of: dict[int, int] = {}
    for number, line in numbered_lines(path):
        text = line.strip()
        if not text:
            continue
        if text.startswith("#"):
            comments.append(line[line.index("#") + 1 :])
            continue
        try:
            index, kind, *numbers, parent = _row(text)
        except ValueError as error:
            raise FormatError(f"{path.name}: line {number}: {error}") from None
        if index in row_of:
            raise FormatError(f"{path.name}: line {number} repeats index {index} of line {line_of[row_of[index]]}")
        row_of[index] = len(values)
        line_of.append(number)
        types.append(kind)
        values.append(numbers)
        parent_index.append(parent)
    if not values and not comments:
        raise FormatError(f"{path.name}: is empty")

    parents = []
    for number, parent in zip(line_of, parent_index, strict=True):
        if parent >= 0 and parent not in row_of:
            raise FormatError(f"{path.name}: line {number} refers to parent {parent}, which does not exist")
        parents.append(row_of[parent] if parent >= 0 else -1)
    on_cycle = find_cycle(parents)
    if on_cycle is not None:
        raise FormatError(f"{path.name}: line {line_of[on_cycle]}: the node is its own ancestor")

    table = np.asarray(values, dtype=np.float64).reshape(-1, 4)
    radius = np.where(table[:, 3] < 0, math.nan, table[:, 3])
    with reading(path):
        return Skeleton.from_parents(
            table[:, :2],
            np.asarray(parents, dtype=np.intp),
            radius=None if np.isnan(radius).all() else radius,
            metadata=_kept(table[:, :2], types, table[:, 2].tolist(), comments),
        )


def write(skeleton: Skeleton, path: Path) -> None:
    """Write a forest as SWC. Scores, axes, plants and the image are not stored.

    Nodes keep their order if each parent precedes its children; otherwise they are sorted by depth.
    """
    if not skeleton.is_forest:
        raise FormatError(f"{path.name}: SWC can store only forests, but this skeleton has a cycle")
    parents = skeleton.parents
    order = np.arange(len(skeleton))
    if (parents >= order).any():
        order = np.argsort(skeleton.depth, kind="stable")
    index = np.empty(len(order), dtype=np.intp)
    index[order] = np.arange(1, len(order) + 1)
    radius = np.full(len(skeleton), math.nan) if skeleton.radius is None else skeleton.radius

    comments, types, heights = _kept_values(skeleton)
    lines = ["#" + comment for comment in comments]
    points = skeleton.nodes.tolist()
    radii = np.where(np.isnan(radius), UNKNOWN_RADIUS, radius).tolist()
    parent_index = np.where(parents < 0, -1, index[parents]).tolist()
    for row, node in enumerate(order.tolist(), start=1):
        x, y = points[node]
        lines.append(f"{row} {types[node]} {x!r} {y!r} {heights[node]!r} {radii[node]!r} {parent_index[node]}")
    if not lines:  # an empty file is no SWC file
        lines = ["#" + HEADER]
    write_text(path, "\n".join(lines) + "\n")


def _row(text: str) -> tuple[int, int, float, float, float, float, int]:
    """Return the seven values of a line. Raise ValueError if one of them is invalid."""
    words = text.split(None, len(COLUMNS))
    if len(words) < len(COLUMNS):
        raise ValueError(f"has {len(words)} of {len(COLUMNS)} columns: {short_repr(text)}")
    values = []
    for column, word in zip(COLUMNS, words, strict=False):
        try:
            value = decimal_number(word)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise ValueError(f"{column} is {short_repr(word)}, not a finite number")
        if column in INTEGER_COLUMNS and (value != math.floor(value) or abs(value) >= 2**53):
            raise ValueError(f"{column} is {short_repr(word)}, not an integer")
        values.append(value)
    index, kind, x, y, z, radius, parent = values
    return int(index), int(kind), x, y, z, radius, int(parent)


def _kept(nodes: FloatArray, types: list[int], heights: list[float], comments: list[str]) -> dict[str, Any]:
    """Return the metadata specific to SWC, without values that equal the defaults of the writer."""
    kept: dict[str, Any] = {}
    if comments != [HEADER]:
        kept["comments"] = comments
    if any(types):
        kept["type"] = types
    if any(heights):
        kept["z"] = heights
    if "type" in kept or "z" in kept:
        kept["nodes"] = _digest(nodes)
    return {"swc": kept} if kept else {}


def _kept_values(skeleton: Skeleton) -> tuple[list[str], list[int], list[float]]:
    """Return the comments, and the type and z of each node. Missing or invalid metadata gives the defaults."""
    kept = skeleton.metadata.get("swc")
    kept = kept if isinstance(kept, Mapping) else {}
    comments = kept.get("comments", [HEADER])
    if not isinstance(comments, list):
        comments = [HEADER]
    lines = [line for comment in comments for line in LINE_END.split(UNWRITABLE.sub("\ufffd", str(comment)))]
    same_nodes = kept.get("nodes") == _digest(skeleton.nodes)

    def column(key: str) -> list[float]:
        values: Any = kept.get(key) if same_nodes else None
        if not isinstance(values, list) or len(values) != len(skeleton):
            return [0.0] * len(skeleton)
        return [value if type(value) in (int, float) and math.isfinite(value) else 0.0 for value in values]

    return lines, [int(kind) for kind in column("type")], [float(z) for z in column("z")]


def _digest(nodes: FloatArray) -> str:
    """Return a fingerprint of the nodes. It shows whether stored types and z still belong to them."""
    return hashlib.sha256(np.ascontiguousarray(nodes + 0.0, dtype="<f8").tobytes()).hexdigest()[:16]
