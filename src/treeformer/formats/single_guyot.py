"""Annotations of the 3D2cut Single Guyot set (grapevines), `*_annotation.json`; read only.

The features of the vine are under `VineImage[0].VineFeature[0]`, each with a `FeatureID`, its
`FeatureCoordinates` and the `ParentID` of the feature it grows from. All other fields, the classes of
nodes and edges among them, are kept in `metadata["single_guyot"]`, those of a feature in node order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from treeformer.errors import SkeletonError
from treeformer.formats import checks
from treeformer.formats._io import read_json, reading
from treeformer.skeleton import Skeleton

OWN_FIELDS = ("FeatureID", "FeatureCoordinates", "ParentID")
NO_PARENT = ("", "-1", "none", "null", "nan")
NUMBER = re.compile(r"[-+]?+(?:\d++(?:\.\d*+)?+|\.\d++)(?:[eE][-+]?+\d++)?+")
IMAGE_NAME_FIELDS = ("ImageName", "FileName", "ImageFileName", "Name")


def matches(document: Mapping[str, Any]) -> bool:
    """Whether a JSON object has a VineImage."""
    return "VineImage" in document


def read(path: Path) -> Skeleton:
    """Read an annotation; an error names the feature."""
    with reading(path):
        return next(skeletons(read_json(path)))


def skeletons(document: Mapping[str, Any]) -> Iterator[Skeleton]:
    """The one skeleton of an annotation."""
    image = checks.record(_first(document.get("VineImage"), "VineImage"), "VineImage[0]")
    place = "VineImage[0].VineFeature"
    features = checks.items(image.get("VineFeature"), place)
    if features and isinstance(features[0], list):
        features, place = features[0], f"{place}[0]"
    rows = [checks.record(feature, f"{place}[{at}]") for at, feature in enumerate(features)]
    row_of: dict[str, int] = {}
    for at, row in enumerate(rows):
        name = _name(row.get("FeatureID"))
        if name in NO_PARENT:
            raise SkeletonError(f"{place}[{at}] has no FeatureID")
        if name in row_of:
            raise SkeletonError(f"{place}[{at}] repeats the FeatureID {name}")
        row_of[name] = at
    parents = []
    for at, row in enumerate(rows):
        parent = _name(row.get("ParentID"))
        if parent not in row_of and parent.lower() not in NO_PARENT:
            raise SkeletonError(f"{place}[{at}] has ParentID {parent}, which is not there")
        # A feature that names itself is where the vine begins.
        parents.append(-1 if row_of.get(parent, at) == at else row_of[parent])
    on_cycle = checks.own_ancestor(parents)
    if on_cycle is not None:
        raise SkeletonError(f"{place}[{on_cycle}] is its own ancestor")
    points = [_place(row.get("FeatureCoordinates"), f"{place}[{at}].FeatureCoordinates") for at, row in enumerate(rows)]
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
    """The first entry of a list, or what stands there without one."""
    if isinstance(value, list):
        if not value:
            raise SkeletonError(f"{place} is empty")
        return value[0]
    return value


def _name(value: Any) -> str:
    """An id as text, whether it is written as text or as a number: 3, 3.0 and "3" are one."""
    return "" if value is None else str(value).strip().removesuffix(".0")


def _place(value: Any, place: str) -> tuple[float, float]:
    """x and y, out of a list, an object with x and y, or a text such as "12.5, 40"."""
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], list | dict):
        value = value[0]
    if isinstance(value, dict):
        by_name = {key.lower(): entry for key, entry in value.items()}
        value = [by_name.get("x"), by_name.get("y")]
    if isinstance(value, str):
        value = [float(word) for word in NUMBER.findall(value)]
    row = checks.items(value, place)
    if len(row) < 2:
        raise SkeletonError(f"{place} is {checks.shown(row)}, not x and y")
    numbers = [float(entry) if isinstance(entry, str) and NUMBER.fullmatch(entry.strip()) else entry for entry in row]
    return checks.number(numbers[0], place), checks.number(numbers[1], place)
