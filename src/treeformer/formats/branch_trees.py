"""Read the XML of the branch-trees dataset: a trunk under `level0` and branches under `level1`.

Each line is a list '[(x, y), …]' as text. The element `point` repeats the lines of its level and is ignored.
The base of a branch usually lies slightly off the trunk; see `junctions` for how they are joined.
"""

from __future__ import annotations

import re
from pathlib import Path, PureWindowsPath

import numpy as np

from treeformer._util.arrays import FloatArray
from treeformer._util.text import short_repr
from treeformer.errors import FormatError
from treeformer.formats._io import reading
from treeformer.formats.junctions import join_axes
from treeformer.formats.xml import parse_xml
from treeformer.skeleton import Axis, Skeleton

# All quantifiers are possessive (++, ?+), so that no input causes backtracking.
NUMBER = r"[-+]?+(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][-+]?+[0-9]++)?+"
POINT = re.compile(rf"\(\s*+({NUMBER})\s*+,\s*+({NUMBER})\s*+\)")
LEVEL = re.compile(r"level([0-9]+)")


def looks_like(head: bytes) -> bool:
    """Return True if the head of an XML file has the elements <file> and <level0>."""
    return re.search(rb"<file[\s>]", head) is not None and re.search(rb"<level0[\s/>]", head) is not None


def read(path: Path) -> Skeleton:
    """Read a tree. Axis 0 is the trunk; all others are its branches."""
    root = parse_xml(path, "file")
    lines: list[FloatArray] = []
    parents: list[int | None] = []
    labels = []
    for level in root:
        match = LEVEL.fullmatch(level.tag)
        if match is None:
            continue
        is_trunk = match[1] == "0"
        if match[1] not in ("0", "1"):
            raise FormatError(
                f"{path.name}: has a <{level.tag}>: only level0 (trunk) and level1 (branches) are supported"
            )
        for element in level:
            if element.tag == "point":
                continue
            number = element.get("num", "")
            place = f"<{level.tag}><{element.tag}{f' num={number!r}' if number else ''}>"
            line = _points(element.text or "", f"{path.name}: {place}")
            if is_trunk and any(parent is None for parent in parents):
                raise FormatError(f"{path.name}: {place} is a second trunk")
            if not is_trunk and not lines:
                raise FormatError(f"{path.name}: {place} has no trunk")
            lines.append(line)
            parents.append(None if is_trunk else 0)
            labels.append("trunk" if is_trunk else "branch")
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
            # The attribute is the full Windows path of the image.
            image_name=PureWindowsPath(root.get("name", "")).name or None,
        )


def _points(text: str, place: str) -> FloatArray:
    """Return the points (P,2) of a list '[(x, y), …]'. Raise FormatError if it contains anything else."""
    rest = POINT.sub("", text)
    if rest.strip(" \t\r\n,[]"):
        raise FormatError(f"{place} is not a list of points: {short_repr(rest.strip(' ,[]'))}")
    points = np.asarray(POINT.findall(text), dtype=np.float64).reshape(-1, 2)
    if not len(points):
        raise FormatError(f"{place} has no points")
    if not np.isfinite(points).all():
        raise FormatError(f"{place} has a point that is not finite")
    return points
