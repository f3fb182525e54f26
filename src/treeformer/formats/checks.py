"""Values out of a JSON file, checked one by one: an error names the place, as in `nodes[3]`, and what stands there.

They raise SkeletonError without a file name; `source.reading` adds it.
"""

from __future__ import annotations

import math
from typing import Any

from treeformer.errors import SkeletonError


def shown(value: object) -> str:
    """A value as an error message quotes it: short, in one line.

    >>> shown([1.5] * 50)
    '[1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5…'
    """
    text = " ".join(repr(value).split())
    return text if len(text) <= 40 else text[:39] + "…"


def items(value: Any, place: str) -> list[Any]:
    """A list."""
    if not isinstance(value, list):
        raise SkeletonError(f"{place} is {shown(value)}, not a list")
    return value


def record(value: Any, place: str) -> dict[str, Any]:
    """An object."""
    if not isinstance(value, dict):
        raise SkeletonError(f"{place} is {shown(value)}, not an object")
    return value


def text(value: Any, place: str) -> str:
    """A string."""
    if not isinstance(value, str):
        raise SkeletonError(f"{place} is {shown(value)}, not a text")
    return value


def number(value: Any, place: str) -> float:
    """A number; true and false are none."""
    if type(value) in (int, float):
        try:
            return float(value)
        except OverflowError:
            pass
    raise SkeletonError(f"{place} is {shown(value)}, not a number")


def whole(value: Any, place: str) -> int:
    """A whole number."""
    if type(value) is int and abs(value) < 2**53:
        return value
    raise SkeletonError(f"{place} is {shown(value)}, not a whole number")


def numbers(value: Any, place: str, *, or_null: bool = False) -> list[float]:
    """A list of numbers, where wanted with null for NaN."""
    row = items(value, place)
    if all(type(entry) is float for entry in row):
        return row
    return [math.nan if or_null and entry is None else number(entry, f"{place}[{at}]") for at, entry in enumerate(row)]


def wholes(value: Any, place: str) -> list[int]:
    """A list of whole numbers."""
    return [whole(entry, f"{place}[{at}]") for at, entry in enumerate(items(value, place))]


def pairs(value: Any, place: str) -> list[list[Any]]:
    """A list of pairs, of whatever."""
    rows = items(value, place)
    for at, row in enumerate(rows):
        if not isinstance(row, list) or len(row) != 2:
            raise SkeletonError(f"{place}[{at}] is {shown(row)}, not a pair")
    return rows


def own_ancestor(parents: list[int]) -> int | None:
    """A row that is its own ancestor, None where there is none; `parents` has a row's index for each row, -1 at roots.

    >>> own_ancestor([-1, 0, 3, 2])
    2
    """
    seen_from = [-1] * len(parents)  # the row from which the walk upwards first came by
    for start in range(len(parents)):
        row = start
        while row >= 0 and seen_from[row] < 0:
            seen_from[row] = start
            row = parents[row]
        if row >= 0 and seen_from[row] == start:
            return row
    return None
