"""Check single values of a JSON file. Error messages give the place, as in `nodes[3]`, and the invalid value.

All checks return the value and raise SkeletonError without a file name; `_io.reading` adds it.
"""

from __future__ import annotations

import math
from typing import Any

from treeformer._util.text import short_repr
from treeformer.errors import SkeletonError


def items(value: Any, place: str) -> list[Any]:
    """Check that a value is a list."""
    if not isinstance(value, list):
        raise SkeletonError(f"{place} is {short_repr(value)}, not a list")
    return value


def record(value: Any, place: str) -> dict[str, Any]:
    """Check that a value is an object."""
    if not isinstance(value, dict):
        raise SkeletonError(f"{place} is {short_repr(value)}, not an object")
    return value


def text(value: Any, place: str) -> str:
    """Check that a value is a string."""
    if not isinstance(value, str):
        raise SkeletonError(f"{place} is {short_repr(value)}, not a string")
    return value


def number(value: Any, place: str) -> float:
    """Check that a value is a number. Booleans are not numbers."""
    if type(value) in (int, float):
        try:
            return float(value)
        except OverflowError:
            pass
    raise SkeletonError(f"{place} is {short_repr(value)}, not a number")


def integer(value: Any, place: str) -> int:
    """Check that a value is an integer."""
    if type(value) is int and abs(value) < 2**53:
        return value
    raise SkeletonError(f"{place} is {short_repr(value)}, not an integer")


def numbers(value: Any, place: str, *, or_null: bool = False) -> list[float]:
    """Check that a value is a list of numbers; with `or_null`, null is accepted and becomes NaN."""
    row = items(value, place)
    if all(type(entry) is float for entry in row):
        return row
    return [
        math.nan if or_null and entry is None else number(entry, f"{place}[{index}]") for index, entry in enumerate(row)
    ]


def integers(value: Any, place: str) -> list[int]:
    """Check that a value is a list of integers."""
    return [integer(entry, f"{place}[{index}]") for index, entry in enumerate(items(value, place))]


def pairs(value: Any, place: str) -> list[list[Any]]:
    """Check that a value is a list of pairs. The entries of the pairs are not checked."""
    rows = items(value, place)
    for index, row in enumerate(rows):
        if not isinstance(row, list) or len(row) != 2:
            raise SkeletonError(f"{place}[{index}] is {short_repr(row)}, not a pair")
    return rows


def find_cycle(parents: list[int]) -> int | None:
    """Return a row that is its own ancestor, otherwise None; the parent of a root is -1.

    >>> find_cycle([-1, 0, 3, 2])
    2
    """
    visited_from = [-1] * len(parents)  # the row from which the traversal first reached each row
    for start in range(len(parents)):
        row = start
        while row >= 0 and visited_from[row] < 0:
            visited_from[row] = start
            row = parents[row]
        if row >= 0 and visited_from[row] == start:
            return row
    return None
