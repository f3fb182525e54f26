"""LabelMe: a `linestrip` an axis, `group_id` = plant.

Lines of one plant are joined where an end of one lies exactly on a point of another, unless they hang
together already: a plant is a tree, and roots that cross in a point are two. A `point` labeled
"root" marks the node where a plant begins, one labeled "node" a node without edges.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from treeformer.errors import FormatError, SkeletonError
from treeformer.formats import checks
from treeformer.formats._io import json_text, read_json, reading, write_text
from treeformer.formats.lines import Group, Place, join_at_ends, lines_of
from treeformer.skeleton import Plant, Skeleton

# The version of the LabelMe file format that is written; all of LabelMe 4 and 5 open it.
LABELME_VERSION = "5.0.1"


def matches(document: Mapping[str, Any]) -> bool:
    """Whether a JSON object has LabelMe's list of shapes."""
    return isinstance(document.get("shapes"), list)


def read(path: Path) -> Skeleton:
    """Read a LabelMe file; shapes that are no lines are left out and counted in the metadata."""
    with reading(path):
        return next(skeletons(read_json(path)))


def skeletons(document: Mapping[str, Any]) -> Iterator[Skeleton]:
    """The one skeleton of a LabelMe object."""
    lines: list[tuple[list[Place], Group]] = []
    marks: list[tuple[Place, Group, bool]] = []  # points that are roots, or nodes without edges
    ignored = 0
    for at, entry in enumerate(checks.items(document.get("shapes"), "shapes")):
        shape = checks.record(entry, f"shapes[{at}]")
        kind, label, group = shape.get("shape_type"), shape.get("label"), shape.get("group_id")
        is_mark = kind == "point" and label in ("root", "node")
        if kind not in ("linestrip", "line") and not is_mark:
            ignored += 1
            continue
        if not isinstance(group, int | str | None):
            raise SkeletonError(f"shapes[{at}].group_id is {checks.shown(group)}, not a number")
        points = [
            (checks.number(x, f"shapes[{at}].points[{k}]"), checks.number(y, f"shapes[{at}].points[{k}]"))
            for k, (x, y) in enumerate(checks.pairs(shape.get("points"), f"shapes[{at}].points"))
        ]
        if is_mark:
            marks += [(point, group, label == "root") for point in points]
        else:
            lines.append((points, group))
    if ignored and not lines and not marks:
        raise SkeletonError(f"has no linestrip and no line, only {ignored} other shapes")
    nodes, groups, edges, node_at = join_at_ends(lines)
    roots = []
    for place, group, is_root in marks:
        if (group, place) not in node_at:
            node_at[group, place] = len(nodes)
            nodes.append(place)
            groups.append(group)
        if is_root:
            roots.append(node_at[group, place])
    optional: dict[str, Any] = {}
    width, height = document.get("imageWidth"), document.get("imageHeight")
    if width is not None and height is not None:
        optional["image_size"] = (checks.whole(width, "imageWidth"), checks.whole(height, "imageHeight"))
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
    """One plant a group; lines without one are a plant for each connected piece. Without any, nothing is stated."""
    if all(group is None for group in groups):
        return skeleton
    named = sorted({group for group in groups if group is not None}, key=lambda group: (isinstance(group, str), group))
    number: dict[Any, int] = {group: plant for plant, group in enumerate(named)}
    plant = []
    for group, component in zip(groups, skeleton.component.tolist(), strict=True):
        key = ("piece", component) if group is None else group
        plant.append(number.setdefault(key, len(number)))
    # A group that is its plant's own number, as we write it, says nothing more.
    records = [Plant(id=str(group)) for group in named] if named != list(range(len(named))) else []
    return skeleton.replace(plant=plant, plant_records=records)


def write(skeleton: Skeleton, path: Path) -> None:
    """Write a LabelMe file. Radii, scores and metadata are not held; nodes in one place become one."""
    plant = skeleton.plant_of_node
    across = plant[skeleton.edges[:, 0]] != plant[skeleton.edges[:, 1]]
    if across.any():
        raise FormatError(f"{path.name}: edge {int(across.argmax())} joins two plants, which LabelMe cannot hold")
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

    for line in lines_of(skeleton):
        label = skeleton.axes[line.axis].label if line.axis >= 0 else ""
        add("linestrip", label or "axis", line.nodes)
    lone = (skeleton.degree == 0).nonzero()[0].tolist()
    for node in lone:
        add("point", "node", [node])
    for node in skeleton.roots.tolist():
        add("point", "root", [node])
    width, height = skeleton.image_size or (None, None)
    head = json_text({"version": LABELME_VERSION, "flags": {}}, path)
    tail = {"imagePath": skeleton.image_name or "", "imageData": None, "imageHeight": height, "imageWidth": width}
    rows = ",\n".join(json_text(shape, path) for shape in shapes)
    write_text(path, head[:-1] + ', "shapes": [\n' + rows + "\n],\n" + json_text(tail, path)[1:] + "\n")
