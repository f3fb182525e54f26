"""The XML of the branch-trees set: a trunk under `level0`, branches under `level1`; read only.

Each is a list '[(x, y), …]' as text, of which only the numbers are read. The element `point` repeats
the lines of its level and is passed over. A branch's base lies a little off the trunk: see `junctions`.
"""

from __future__ import annotations

import re
from pathlib import Path, PureWindowsPath

import numpy as np

from treeformer._util.arrays import FloatArray
from treeformer.errors import FormatError
from treeformer.formats._io import reading
from treeformer.formats.checks import shown
from treeformer.formats.junctions import join_axes
from treeformer.formats.xml import parse_xml
from treeformer.skeleton import Axis, Skeleton

# Possessive throughout (++, ?+), so that no text, however long, makes the search go back over what it has read.
NUMBER = r"[-+]?+(?:\d++(?:\.\d*+)?+|\.\d++)(?:[eE][-+]?+\d++)?+"
POINT = re.compile(rf"\(\s*+({NUMBER})\s*+,\s*+({NUMBER})\s*+\)")
LEVEL = re.compile(r"level(\d+)")


def looks_like(head: bytes) -> bool:
    """Whether the head of an XML file has the elements <file> and <level0>."""
    return re.search(rb"<file[\s>]", head) is not None and re.search(rb"<level0[\s/>]", head) is not None


def read(path: Path) -> Skeleton:
    """Read a tree: axis 0 is the trunk, the others its branches."""
    root = parse_xml(path, "file")
    lines: list[FloatArray] = []
    parents: list[int | None] = []
    labels = []
    for level in root:
        name = LEVEL.fullmatch(level.tag)
        if name is None:
            continue
        if name[1] not in ("0", "1"):
            raise FormatError(f"{path.name}: has a <{level.tag}>: only a trunk and its branches are understood")
        for element in level:
            if element.tag == "point":
                continue
            number = element.get("num", "")
            place = f"<{level.tag}><{element.tag}{f' num={number!r}' if number else ''}>"
            line = _points(element.text or "", f"{path.name}: {place}")
            if name[1] == "0" and any(parent is None for parent in parents):
                raise FormatError(f"{path.name}: {place} is a second trunk")
            if name[1] == "1" and not lines:
                raise FormatError(f"{path.name}: {place} has no trunk")
            lines.append(line)
            parents.append(None if name[1] == "0" else 0)
            labels.append("trunk" if name[1] == "0" else "branch")
    if not lines:
        raise FormatError(f"{path.name}: has no trunk")
    joined = join_axes(lines, parents, [0] * len(lines))
    with reading(path):
        return Skeleton(
            joined.nodes,
            joined.edges,
            root=joined.roots,
            axes=[
                Axis(nodes=nodes, parent=parent, label=label)
                for nodes, parent, label in zip(joined.axis_nodes, parents, labels, strict=True)
            ],
            edge_axis=joined.edge_axis,
            plant=joined.plant,
            # The files were made on Windows, and name the image with its whole path there.
            image_name=PureWindowsPath(root.get("name", "")).name or None,
        )


def _points(text: str, place: str) -> FloatArray:
    """The points (P,2) of a list '[(x, y), …]'; an error where anything else stands between them."""
    rest = POINT.sub("", text)
    if rest.strip(" \t\r\n,[]"):
        raise FormatError(f"{place} is not a list of points: {shown(rest.strip(' ,[]'))}")
    points = np.asarray(POINT.findall(text), dtype=np.float64).reshape(-1, 2)
    if not len(points):
        raise FormatError(f"{place} has no points")
    if not np.isfinite(points).all():
        raise FormatError(f"{place} has a point that is not finite")
    return points
