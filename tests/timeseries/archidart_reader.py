"""What archiDART makes of an RSML file with `rsml.date="age"`: a slow transcription of the rules of its reader.

It follows `rsmlToDART` and `rsmlToTable` of archiDART 3: points by the order of their attributes, ages from the first
attribute of the samples, laterals joined where their first point equals a point of the mother exactly, ages rounded up,
lengths per root and date, growth rates from the dates of the plant.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

MAX_ORDER = 7


@dataclass
class ReadRoot:
    """Attributes: length at each date of the plant; growth rate in the interval that ends at a date, by date."""

    id: str
    mother: str
    points: list[tuple[float, ...]]
    ages: list[float]
    length: dict[float, float] = field(default_factory=dict)
    growth: dict[float, float] = field(default_factory=dict)


def read_ages(path: Path) -> list[dict[str, ReadRoot]]:
    """Return the roots of each plant by id. Raise ValueError if archiDART would stop with an error."""
    document = ElementTree.parse(path).getroot()
    scene = document.find("scene")
    assert scene is not None
    plants = []
    for plant in scene:
        roots: dict[str, ReadRoot] = {}
        for element in plant.findall("root"):
            _read_root(element, None, 1, roots)
        if not roots:
            raise ValueError("a plant without roots")
        dates = sorted({math.ceil(age) for root in roots.values() for age in root.ages})
        if len(dates) < 2:
            raise ValueError(f"plant {plant.attrib}: one date, where a loop over 2:1 fails")
        interval = dict(zip(dates, [dates[0], *(b - a for a, b in pairwise(dates))], strict=True))
        for root in roots.values():
            _measure(root, dates, interval)
        plants.append(roots)
    return plants


def _read_root(element, mother: ReadRoot | None, order: int, roots: dict[str, ReadRoot]) -> None:
    if not element.attrib:
        raise ValueError("a root without attributes is not counted")
    if order > MAX_ORDER:
        return
    points = [tuple(float(value) for value in point.attrib.values()) for point in element.iterfind("geometry/*/point")]
    ages = []
    for function in element.iterfind("functions/function"):
        if "age" in function.attrib.values():
            ages = [float(next(iter(sample.attrib.values()))) for sample in function]
    if len(points) < 2 or len(ages) != len(points):
        raise ValueError(f"root {element.get('id')}: {len(points)} points and {len(ages)} ages")
    ages[0] = max(ages[:2])
    if mother is not None and points[0] not in mother.points:
        raise ValueError(f"root {element.get('id')}: does not begin at a point of its mother")
    root = ReadRoot(element.attrib["id"], "" if mother is None else mother.id, points, ages)
    roots[root.id] = root
    for child in element.findall("root"):
        _read_root(child, root, order + 1, roots)


def _measure(root: ReadRoot, dates: list[int], interval: dict[int, float]) -> None:
    reached, grown = dict.fromkeys(dates, 0.0), dict.fromkeys(dates, 0.0)
    position = 0.0
    for k in range(1, len(root.points)):
        step = math.dist(root.points[k - 1], root.points[k])
        position += step
        date = math.ceil(root.ages[k])
        reached[date] = max(reached[date], position)
        grown[date] += step
    longest = 0.0
    for date in dates:
        longest = max(longest, reached[date])
        root.length[date] = longest
        if grown[date]:
            if interval[date] <= 0:
                raise ValueError(f"an interval of {interval[date]}")
            root.growth[date] = grown[date] / interval[date]
