"""COCO keypoints: one annotation a plant, with a `skeleton` of its own; a file may hold many images.

COCO proper has one list of edges for all objects of a category; plants differ, so each annotation
carries its own `skeleton` (pairs of keypoint numbers from 1), and where it has none its category's is
taken. `roots`, `radius`, `node_score` and `edge_score` are further fields that other readers pass over.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from treeformer.errors import FormatError, SkeletonError
from treeformer.formats import checks
from treeformer.formats._io import json_text, read_json, reading, write_text
from treeformer.skeleton import Skeleton

CATEGORY = {"id": 1, "name": "plant", "supercategory": "plant", "keypoints": [], "skeleton": []}

# COCO's marks of a keypoint: 0 not labeled, 1 labeled but hidden, 2 visible.
VISIBLE = 2


def matches(document: Mapping[str, Any]) -> bool:
    """Whether a JSON object has COCO's lists of images and annotations."""
    return isinstance(document.get("images"), list) and isinstance(document.get("annotations"), list)


def read(path: Path) -> Skeleton:
    """Read a COCO file of one image; for those of many there is `read_all`."""
    document = read_json(path)
    with reading(path):
        count = len(checks.items(document.get("images"), "images"))
        if count != 1:
            raise SkeletonError(f"holds {count} images, not one: use read_all, or convert it into a folder")
        return next(skeletons(document))


def read_all(path: Path) -> Iterator[Skeleton]:
    """One skeleton an image, in the order of the file's images."""
    with reading(path):
        yield from skeletons(read_json(path))


def skeletons(document: Mapping[str, Any]) -> Iterator[Skeleton]:
    """One skeleton for each image of a COCO object; annotations without keypoints are left out and counted."""
    category_edges: dict[str | int, Any] = {}
    for at, entry in enumerate(checks.items(document.get("categories", []), "categories")):
        category = checks.record(entry, f"categories[{at}]")
        category_edges[_name(category.get("id"), f"categories[{at}].id")] = category.get("skeleton", [])
    images: dict[str | int, dict[str, Any]] = {}
    for at, entry in enumerate(checks.items(document.get("images"), "images")):
        image = checks.record(entry, f"images[{at}]")
        name = _name(image.get("id"), f"images[{at}].id")
        if name in images:
            raise SkeletonError(f"images[{at}] repeats the id {checks.shown(name)}")
        images[name] = image
    of_image: dict[str | int, list[tuple[str, dict[str, Any]]]] = {name: [] for name in images}
    for at, entry in enumerate(checks.items(document.get("annotations"), "annotations")):
        place = f"annotations[{at}]"
        annotation = checks.record(entry, place)
        name = _name(annotation.get("image_id"), f"{place}.image_id")
        if name not in images:
            raise SkeletonError(f"{place} names image {checks.shown(name)}, which is not there")
        of_image[name].append((place, annotation))
    for at, (name, image) in enumerate(images.items()):
        with_keypoints = [(place, annotation) for place, annotation in of_image[name] if annotation.get("keypoints")]
        parts = []
        for place, annotation in with_keypoints:
            category_name = _name(annotation.get("category_id", 0), f"{place}.category_id")
            parts.append(_part(annotation, place, category_edges.get(category_name, [])))
        yield _image(image, f"images[{at}]", parts, ignored=len(of_image[name]) - len(with_keypoints))


@dataclass(slots=True)
class _Part:
    """The graph of one annotation: points, pairs of their positions, and NaN for each value that is not given."""

    points: list[tuple[float, float]]
    edges: list[tuple[int, int]]
    roots: list[int]
    radius: list[float]
    node_score: list[float]
    edge_score: list[float]


def _part(annotation: Mapping[str, Any], place: str, category_edges: Any) -> _Part:
    points, keypoint = _keypoints(annotation["keypoints"], f"{place}.keypoints")
    position = {number: at for at, number in enumerate(keypoint)}
    skeleton = annotation.get("skeleton")
    edges, rows = [], []
    for row, pair in enumerate(checks.pairs(category_edges if skeleton is None else skeleton, f"{place}.skeleton")):
        ends = [checks.whole(end, f"{place}.skeleton[{row}]") for end in pair]
        for end in ends:
            if not 1 <= end <= len(annotation["keypoints"]) // 3:
                raise SkeletonError(f"{place}.skeleton[{row}] names keypoint {end}, which is not there")
        if ends[0] in position and ends[1] in position:
            edges.append((position[ends[0]], position[ends[1]]))
            rows.append(row)

    def column(key: str, wanted: Iterable[int]) -> list[float]:
        values = checks.numbers(annotation.get(key, []), f"{place}.{key}", or_null=True)
        return [values[row] if row < len(values) else math.nan for row in wanted]

    roots = checks.wholes(annotation.get("roots", []), f"{place}.roots")
    return _Part(
        points,
        edges,
        [position[root] for root in roots if root in position],
        column("radius", (number - 1 for number in keypoint)),
        column("node_score", (number - 1 for number in keypoint)),
        column("edge_score", rows),
    )


def _image(image: Mapping[str, Any], place: str, parts: list[_Part], ignored: int) -> Skeleton:
    """The forest of one image, a plant an annotation."""
    start = [0, *accumulate(len(part.points) for part in parts)]
    optional: dict[str, Any] = {}
    for key in ("radius", "node_score", "edge_score"):
        values = [value for part in parts for value in getattr(part, key)]
        missing = sum(math.isnan(value) for value in values)
        # A radius may be unknown here and there; scores are all there or not at all.
        if values and (missing == 0 or (key == "radius" and missing < len(values))):
            optional[key] = values
    width, height = image.get("width"), image.get("height")
    if width is not None and height is not None:
        optional["image_size"] = (checks.whole(width, f"{place}.width"), checks.whole(height, f"{place}.height"))
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
    """Write one image that pycocotools opens, a row an annotation. Axes and metadata are not held."""
    image: dict[str, Any] = {"id": 1, "file_name": skeleton.image_name or ""}
    if skeleton.image_size is not None:
        image["width"], image["height"] = skeleton.image_size
    try:
        plants = skeleton.plants
    except SkeletonError as error:
        raise FormatError(f"{path.name}: {error}, which COCO cannot hold") from None
    head = json_text({"images": [image], "categories": [CATEGORY]}, path)
    rows = ",\n".join(json_text(_annotation(plant, at), path) for at, plant in enumerate(plants, start=1))
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
    """The points that are labeled, and the number of each from 1."""
    flat = checks.numbers(value, place)
    if len(flat) % 3:
        raise SkeletonError(f"{place} has {len(flat)} numbers, not three a keypoint")
    rows = [(x, y, at + 1) for at, (x, y, mark) in enumerate(zip(*[iter(flat)] * 3, strict=True)) if mark > 0]
    return [(x, y) for x, y, _ in rows], [number for _, _, number in rows]


def _name(value: Any, place: str) -> str | int:
    if not isinstance(value, str | int):
        raise SkeletonError(f"{place} is {checks.shown(value)}, not a number")
    return value
