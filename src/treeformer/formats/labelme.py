"""LabelMe: one `linestrip` per axis. `group_id` is the plant.

A line is joined to another line of the same plant if one of its ends lies exactly on a point of the other, unless
they are already connected: a plant is a tree, and roots that cross at a point stay separate. A `point` labeled
"root" marks the root of a plant. A `point` labeled "node" is a node without edges.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from treeformer._util.text import short_repr
from treeformer.errors import FormatError, SkeletonError
from treeformer.formats import checks
from treeformer.formats._io import json_text, read_json, reading, write_text
from treeformer.formats.lines import Group, Line, Point, join_at_ends, skeleton_lines
from treeformer.skeleton import Plant, Skeleton
from treeformer.skeleton.provenance import prediction_record

# The version of the LabelMe file format that is written. LabelMe 4 and 5 can open it.
LABELME_VERSION = "5.0.1"


def matches(document: Mapping[str, Any]) -> bool:
    """Return True if a JSON object has the list `shapes`."""
    return isinstance(document.get("shapes"), list)


def read(path: Path) -> Skeleton:
    """Read a LabelMe file. Shapes that are not lines are counted in the metadata and ignored."""
    with reading(path):
        return next(skeletons(read_json(path)))


def skeletons(document: Mapping[str, Any]) -> Iterator[Skeleton]:
    """Yield the single skeleton of a LabelMe object."""
    lines: list[tuple[list[Point], Group]] = []
    marks: list[tuple[Point, Group, bool]] = []  # roots (True) and nodes without edges (False)
    ignored = 0
    for index, entry in enumerate(checks.items(document.get("shapes"), "shapes")):
        shape = checks.record(entry, f"shapes[{index}]")
        kind, label, group = shape.get("shape_type"), shape.get("label"), shape.get("group_id")
        is_mark = kind == "point" and label in ("root", "node")
        if kind not in ("linestrip", "line") and not is_mark:
            ignored += 1
            continue
        if not isinstance(group, int | str | None):
            raise SkeletonError(f"shapes[{index}].group_id is {short_repr(group)}, not a number")
        points = [
            (checks.number(x, f"shapes[{index}].points[{k}]"), checks.number(y, f"shapes[{index}].points[{k}]"))
            for k, (x, y) in enumerate(checks.pairs(shape.get("points"), f"shapes[{index}].points"))
        ]
        if is_mark:
            marks += [(point, group, label == "root") for point in points]
        else:
            lines.append((points, group))
    if ignored and not lines and not marks:
        raise SkeletonError(f"has no linestrip and no line, only {ignored} other shapes")
    nodes, groups, edges, node_at = join_at_ends(lines)
    roots = []
    for point, group, is_root in marks:
        if (group, point) not in node_at:
            node_at[group, point] = len(nodes)
            nodes.append(point)
            groups.append(group)
        if is_root:
            roots.append(node_at[group, point])
    optional: dict[str, Any] = {}
    width, height = document.get("imageWidth"), document.get("imageHeight")
    if width is not None and height is not None:
        optional["image_size"] = (checks.integer(width, "imageWidth"), checks.integer(height, "imageHeight"))
    if document.get("imagePath"):
        optional["image_name"] = checks.text(document["imagePath"], "imagePath")
    skeleton = Skeleton(
        nodes,
        edges,
        root=roots,
        metadata={"labelme": {"ignored_shapes": ignored}} if ignored else {},
        **optional,
    )
    yield _with_plants(skeleton, groups)


def _with_plants(skeleton: Skeleton, groups: list[Any]) -> Skeleton:
    """Assign one plant per group, and one per component without a group. Without groups, plants stay unset."""
    if all(group is None for group in groups):
        return skeleton
    named = sorted({group for group in groups if group is not None}, key=lambda group: (isinstance(group, str), group))
    number: dict[Any, int] = {group: plant for plant, group in enumerate(named)}
    plant = []
    for group, component in zip(groups, skeleton.component.tolist(), strict=True):
        key = ("component", component) if group is None else group
        plant.append(number.setdefault(key, len(number)))
    # Groups 0, 1, 2, … are plant numbers, as `write` stores them, and need no records.
    records = [Plant(id=str(group)) for group in named] if named != list(range(len(named))) else []
    return skeleton.replace(plant=plant, plant_records=records)


def _marked_roots(skeleton: Skeleton, lines: Sequence[Line]) -> list[int]:
    """Return the first root of each tree, as the reader joins the lines: trees of a plant that touch become one."""
    keys = list(zip(skeleton.plant_of_node.tolist(), map(tuple, skeleton.nodes.tolist()), strict=True))
    joined = [([keys[node][1] for node in line.nodes], keys[line.nodes[0]][0]) for line in lines]
    nodes, _, edges, node_at = join_at_ends(joined)
    tree_of_node = Skeleton(nodes, edges).component.tolist()
    marked: dict[Any, int] = {}
    for root in skeleton.roots.tolist():
        key = keys[root]
        marked.setdefault(tree_of_node[node_at[key]] if key in node_at else key, root)
    return list(marked.values())


def write(skeleton: Skeleton, path: Path) -> None:
    """Write a LabelMe file. Radii and scores are not stored; no edge may join two plants.

    Coinciding nodes of a plant are merged on reading, so that trees which touch become one, with the first root. Of the
    metadata, only the record of a prediction is written. LabelMe keeps it.
    """
    plant = skeleton.plant_of_node
    joins_plants = plant[skeleton.edges[:, 0]] != plant[skeleton.edges[:, 1]]
    if joins_plants.any():
        raise FormatError(
            f"{path.name}: edge {int(joins_plants.argmax())} joins two plants, which LabelMe cannot represent"
        )
    points = skeleton.nodes.tolist()
    shapes = []

    def add(kind: str, label: str, nodes: list[int]) -> None:
        shapes.append(
            {
                "label": label,
                "points": [points[node] for node in nodes],
                "group_id": int(plant[nodes[0]]),
                "shape_type": kind,
                "flags": {},
            }
        )

    lines = skeleton_lines(skeleton)
    for line in lines:
        label = skeleton.axes[line.axis].label if line.axis >= 0 else ""
        add("linestrip", label or "axis", line.nodes)
    isolated = (skeleton.degree == 0).nonzero()[0].tolist()
    for node in isolated:
        add("point", "node", [node])
    for node in _marked_roots(skeleton, lines):
        add("point", "root", [node])
    width, height = skeleton.image_size or (None, None)
    head = json_text({"version": LABELME_VERSION, "flags": {}}, path)
    tail: dict[str, Any] = {"imagePath": skeleton.image_name or "", "imageData": None}
    tail |= {"imageHeight": height, "imageWidth": width}
    if record := prediction_record(skeleton):
        tail["prediction"] = record
    rows = ",\n".join(json_text(shape, path) for shape in shapes)
    write_text(path, head[:-1] + ', "shapes": [\n' + rows + "\n],\n" + json_text(tail, path)[1:] + "\n")
