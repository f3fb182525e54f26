"""COCO keypoints: one annotation per plant. A file may contain many images.

Standard COCO has one list of edges for all objects of a category. Plants differ, so each annotation has its own
`skeleton`: pairs of keypoint numbers, from 1. The `skeleton` of the category is used if an annotation has none.
The additional fields `roots`, `radius`, `node_score` and `edge_score` are ignored by other readers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from treeformer._util.text import short_repr
from treeformer.errors import FormatError, SkeletonError
from treeformer.formats import checks
from treeformer.formats._io import json_text, read_json, reading, write_text
from treeformer.skeleton import Skeleton
from treeformer.skeleton.provenance import prediction_record

CATEGORY = {"id": 1, "name": "plant", "supercategory": "plant", "keypoints": [], "skeleton": []}

# Visibility of a COCO keypoint: 0 not labeled, 1 labeled but hidden, 2 visible.
VISIBLE = 2


def matches(document: Mapping[str, Any]) -> bool:
    """Return True if a JSON object has the lists `images` and `annotations`."""
    return isinstance(document.get("images"), list) and isinstance(document.get("annotations"), list)


def read(path: Path) -> Skeleton:
    """Read a COCO file of one image. Use `read_all` for files of several images."""
    document = read_json(path)
    with reading(path):
        count = len(checks.items(document.get("images"), "images"))
        if count != 1:
            raise SkeletonError(f"contains {count} images, not one: use read_all, or convert it into a folder")
        return next(skeletons(document))


def read_all(path: Path) -> Iterator[Skeleton]:
    """Yield one skeleton per image, in the order of the images in the file."""
    with reading(path):
        yield from skeletons(read_json(path))


def skeletons(document: Mapping[str, Any]) -> Iterator[Skeleton]:
    """Yield one skeleton per image of a COCO object. Annotations without keypoints are ignored but counted."""
    category_edges: dict[str | int, Any] = {}
    for index, entry in enumerate(checks.items(document.get("categories", []), "categories")):
        category = checks.record(entry, f"categories[{index}]")
        category_edges[_name(category.get("id"), f"categories[{index}].id")] = category.get("skeleton", [])
    images: dict[str | int, dict[str, Any]] = {}
    for index, entry in enumerate(checks.items(document.get("images"), "images")):
        image = checks.record(entry, f"images[{index}]")
        name = _name(image.get("id"), f"images[{index}].id")
        if name in images:
            raise SkeletonError(f"images[{index}] repeats the id {short_repr(name)}")
        images[name] = image
    annotations: dict[str | int, list[tuple[str, dict[str, Any]]]] = {name: [] for name in images}
    for index, entry in enumerate(checks.items(document.get("annotations"), "annotations")):
        place = f"annotations[{index}]"
        annotation = checks.record(entry, place)
        name = _name(annotation.get("image_id"), f"{place}.image_id")
        if name not in images:
            raise SkeletonError(f"{place} refers to image {short_repr(name)}, which does not exist")
        annotations[name].append((place, annotation))
    for index, (name, image) in enumerate(images.items()):
        with_keypoints = [(place, entry) for place, entry in annotations[name] if entry.get("keypoints")]
        parts = []
        for place, annotation in with_keypoints:
            category_name = _name(annotation.get("category_id", 0), f"{place}.category_id")
            parts.append(_part(annotation, place, category_edges.get(category_name, [])))
        yield _image(image, f"images[{index}]", parts, ignored=len(annotations[name]) - len(with_keypoints))


@dataclass(slots=True)
class _Part:
    """The graph of one annotation. Edges are pairs of point indices; missing values are NaN."""

    points: list[tuple[float, float]]
    edges: list[tuple[int, int]]
    roots: list[int]
    radius: list[float]
    node_score: list[float]
    edge_score: list[float]


def _part(annotation: Mapping[str, Any], place: str, category_edges: Any) -> _Part:
    points, keypoint = _keypoints(annotation["keypoints"], f"{place}.keypoints")
    position = {number: index for index, number in enumerate(keypoint)}
    skeleton = annotation.get("skeleton")
    edges, rows = [], []
    for row, pair in enumerate(checks.pairs(category_edges if skeleton is None else skeleton, f"{place}.skeleton")):
        ends = [checks.integer(end, f"{place}.skeleton[{row}]") for end in pair]
        for end in ends:
            if not 1 <= end <= len(annotation["keypoints"]) // 3:
                raise SkeletonError(f"{place}.skeleton[{row}] refers to keypoint {end}, which does not exist")
        if ends[0] in position and ends[1] in position:
            edges.append((position[ends[0]], position[ends[1]]))
            rows.append(row)

    def column(key: str, indices: Iterable[int]) -> list[float]:
        values = checks.numbers(annotation.get(key, []), f"{place}.{key}", or_null=True)
        return [values[index] if index < len(values) else math.nan for index in indices]

    roots = checks.integers(annotation.get("roots", []), f"{place}.roots")
    return _Part(
        points,
        edges,
        [position[root] for root in roots if root in position],
        column("radius", (number - 1 for number in keypoint)),
        column("node_score", (number - 1 for number in keypoint)),
        column("edge_score", rows),
    )


def _image(image: Mapping[str, Any], place: str, parts: list[_Part], ignored: int) -> Skeleton:
    """Return the forest of one image, with one plant per annotation."""
    start = [0, *accumulate(len(part.points) for part in parts)]
    optional: dict[str, Any] = {}
    for key in ("radius", "node_score", "edge_score"):
        values = [value for part in parts for value in getattr(part, key)]
        missing = sum(math.isnan(value) for value in values)
        # Single radii may be unknown. Scores must be complete.
        if values and (missing == 0 or (key == "radius" and missing < len(values))):
            optional[key] = values
    width, height = image.get("width"), image.get("height")
    if width is not None and height is not None:
        optional["image_size"] = (checks.integer(width, f"{place}.width"), checks.integer(height, f"{place}.height"))
    if image.get("file_name"):
        optional["image_name"] = checks.text(image["file_name"], f"{place}.file_name")
    return Skeleton(
        [point for part in parts for point in part.points],
        [(first + u, first + v) for first, part in zip(start, parts, strict=False) for u, v in part.edges],
        root=[first + root for first, part in zip(start, parts, strict=False) for root in part.roots],
        plant=[plant for plant, part in enumerate(parts) for _ in part.points],
        metadata={"coco": {"ignored_annotations": ignored}} if ignored else {},
        **optional,
    )


def write(skeleton: Skeleton, path: Path) -> None:
    """Write a COCO file of one image, with one annotation per plant. No edge may join two plants.

    Axes are not stored. Of the metadata, only the record of a prediction is written.
    """
    image: dict[str, Any] = {"id": 1, "file_name": skeleton.image_name or ""}
    if skeleton.image_size is not None:
        image["width"], image["height"] = skeleton.image_size
    try:
        plants = skeleton.plants
    except SkeletonError as error:
        raise FormatError(f"{path.name}: {error}, which COCO cannot represent") from None
    record = prediction_record(skeleton)
    info = {"info": {"prediction": record}} if record else {}
    head = json_text({**info, "images": [image], "categories": [CATEGORY]}, path)
    rows = ",\n".join(json_text(_annotation(plant, index), path) for index, plant in enumerate(plants, start=1))
    write_text(path, head[:-1] + ', "annotations": [\n' + rows + "\n]}\n")


def _annotation(plant: Skeleton, number: int) -> dict[str, Any]:
    low, high = plant.nodes.min(axis=0), plant.nodes.max(axis=0)
    width, height = (high - low).tolist()
    visible = np.full((len(plant), 1), float(VISIBLE))
    annotation: dict[str, Any] = {
        "id": number,
        "image_id": 1,
        "category_id": CATEGORY["id"],
        "iscrowd": 0,
        "bbox": [*low.tolist(), width, height],
        "area": width * height,
        "num_keypoints": len(plant),
        "keypoints": np.hstack([plant.nodes, visible]).ravel().tolist(),
        "skeleton": (plant.edges + 1).tolist(),
        "roots": (plant.roots + 1).tolist(),
    }
    if plant.radius is not None:
        annotation["radius"] = [None if math.isnan(radius) else radius for radius in plant.radius.tolist()]
    for key, values in (("node_score", plant.node_score), ("edge_score", plant.edge_score)):
        if values is not None:
            annotation[key] = values.tolist()
    return annotation


def _keypoints(value: Any, place: str) -> tuple[list[tuple[float, float]], list[int]]:
    """Return the labeled points and their keypoint numbers, from 1."""
    flat = checks.numbers(value, place)
    if len(flat) % 3:
        raise SkeletonError(f"{place} has {len(flat)} numbers, not three per keypoint")
    rows = [(x, y, index + 1) for index, (x, y, mark) in enumerate(zip(*[iter(flat)] * 3, strict=True)) if mark > 0]
    return [(x, y) for x, y, _ in rows], [number for _, _, number in rows]


def _name(value: Any, place: str) -> str | int:
    if not isinstance(value, str | int):
        raise SkeletonError(f"{place} is {short_repr(value)}, not a number")
    return value
