"""Read annotations of the 3D2cut Single Guyot dataset (grapevines), `*_annotation.json`.

The features of a vine are under `VineImage[0].VineFeature[0]`. Each has a `FeatureID`, its `FeatureCoordinates`
and the `ParentID` of the feature it grows from. All other fields, such as the classes of nodes and edges, are
kept in `metadata["single_guyot"]`; the fields of the features are in node order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from treeformer._util.text import short_repr
from treeformer.errors import SkeletonError
from treeformer.formats import checks
from treeformer.formats._io import read_json, reading
from treeformer.skeleton import Skeleton

OWN_FIELDS = ("FeatureID", "FeatureCoordinates", "ParentID")
NO_PARENT = ("", "-1", "none", "null", "nan")
# All quantifiers are possessive (++, ?+), so that no input causes backtracking. 1_0 is no number.
NUMBER = re.compile(r"(?<![\w.+-])[-+]?+(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][-+]?+[0-9]++)?+(?![\w.])")
IMAGE_NAME_FIELDS = ("ImageName", "FileName", "ImageFileName", "Name")


def matches(document: Mapping[str, Any]) -> bool:
    """Return True if a JSON object has a `VineImage`."""
    return "VineImage" in document


def read(path: Path) -> Skeleton:
    """Read an annotation. Error messages identify the feature."""
    with reading(path):
        return next(skeletons(read_json(path)))


def skeletons(document: Mapping[str, Any]) -> Iterator[Skeleton]:
    """Yield the single skeleton of an annotation."""
    image = checks.record(_first(document.get("VineImage"), "VineImage"), "VineImage[0]")
    place = "VineImage[0].VineFeature"
    features = checks.items(image.get("VineFeature"), place)
    if features and isinstance(features[0], list):
        features, place = features[0], f"{place}[0]"
    rows = [checks.record(feature, f"{place}[{index}]") for index, feature in enumerate(features)]
    row_of: dict[str, int] = {}
    for index, row in enumerate(rows):
        name = _name(row.get("FeatureID"))
        if name in NO_PARENT:
            raise SkeletonError(f"{place}[{index}] has no FeatureID")
        if name in row_of:
            raise SkeletonError(f"{place}[{index}] repeats the FeatureID {name}")
        row_of[name] = index
    parents = []
    for index, row in enumerate(rows):
        parent = _name(row.get("ParentID"))
        if parent not in row_of and parent.lower() not in NO_PARENT:
            raise SkeletonError(f"{place}[{index}] has ParentID {parent}, which does not exist")
        # A feature that is its own parent is the root of the vine.
        parents.append(-1 if row_of.get(parent, index) == index else row_of[parent])
    on_cycle = checks.find_cycle(parents)
    if on_cycle is not None:
        raise SkeletonError(f"{place}[{on_cycle}] is its own ancestor")
    points = [
        _point(row.get("FeatureCoordinates"), f"{place}[{index}].FeatureCoordinates") for index, row in enumerate(rows)
    ]
    kept = {
        "image": {key: value for key, value in image.items() if key != "VineFeature"},
        "features": [{key: value for key, value in row.items() if key not in OWN_FIELDS} for row in rows],
    }
    names = [image[field] for field in IMAGE_NAME_FIELDS if isinstance(image.get(field), str) and image[field]]
    yield Skeleton.from_parents(
        points,
        np.asarray(parents, dtype=np.intp),
        image_name=names[0] if names else None,
        metadata={"single_guyot": {key: value for key, value in kept.items() if any(value)}},
    )


def _first(value: Any, place: str) -> Any:
    """Return the first entry of a list, or the value itself if it is not a list."""
    if isinstance(value, list):
        if not value:
            raise SkeletonError(f"{place} is empty")
        return value[0]
    return value


def _name(value: Any) -> str:
    """Return an id as a string. 3, 3.0 and "3" are equal."""
    return "" if value is None else str(value).strip().removesuffix(".0")


def _point(value: Any, place: str) -> tuple[float, float]:
    """Return x and y from a list, an object with x and y, or a string such as "12.5, 40"."""
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], list | dict):
        value = value[0]
    if isinstance(value, dict):
        by_name = {key.lower(): entry for key, entry in value.items()}
        value = [by_name.get("x"), by_name.get("y")]
    if isinstance(value, str):
        value = [float(word) for word in NUMBER.findall(value)]
    row = checks.items(value, place)
    if len(row) < 2:
        raise SkeletonError(f"{place} is {short_repr(row)}, not x and y")
    numbers = [float(entry) if isinstance(entry, str) and NUMBER.fullmatch(entry.strip()) else entry for entry in row]
    return checks.number(numbers[0], place), checks.number(numbers[1], place)
