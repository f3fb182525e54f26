"""Random changes to the bytes of a file, and to the values of a JSON document."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np

NUMBERS = (
    "1e16", "1e308", "-1e308", "1e999", "NaN", "-Infinity", "-1", "0", "0.5", "1e-320", "9007199254740993",
    "18446744073709551616", "-2147483649", "1" + "0" * 400, "0x10", "1_000", "٣", "1,5", "",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 0.5, 1e16, 1e308, float("nan"), float("inf"), 10**30, 10**400, "", "1", "\x00", "a\nb",
    "ä" * 5000, "\ud800", [], {}, [[]], [None], {"a": {}}, [1, 2], [[1, 2], [3]], list(range(3000)),
)  # fmt: skip
NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
ELEMENT = re.compile(rb"<(\w+)\b[^<>]*/>|<(\w+)\b[^<>]*>.{0,1000}?</\2>", re.DOTALL)
DEPTHS = (50, 900, 5000, 200_000)


def mutate(data: bytes, rng: np.random.Generator) -> bytes:
    """Return a copy with one to three random changes; half of the time only such that often leave a valid file."""
    mutations = GENTLE if rng.random() < 0.5 else MUTATIONS
    for _ in range(int(rng.choice([1, 1, 2, 3]))):
        data = mutations[int(rng.integers(len(mutations)))](data, rng)
    return data


def flip_bytes(data: bytes, rng: np.random.Generator) -> bytes:
    """Replace up to 16 bytes; half of the time only among the first 200, where headers are."""
    array = bytearray(data)
    end = min(len(array), 200) if rng.random() < 0.5 else len(array)
    for place in rng.integers(0, max(end, 1), int(rng.integers(1, 17))):
        if place < len(array):
            array[place] = int(rng.integers(256))
    return bytes(array)


def _span(data: bytes, rng: np.random.Generator, longest: int = 400) -> tuple[int, int]:
    first = int(rng.integers(len(data) + 1))
    return first, min(len(data), first + int(rng.integers(1, longest)))


def truncate(data: bytes, rng: np.random.Generator) -> bytes:
    return data[: int(rng.integers(len(data) + 1))]


def delete(data: bytes, rng: np.random.Generator) -> bytes:
    first, last = _span(data, rng)
    return data[:first] + data[last:]


def duplicate(data: bytes, rng: np.random.Generator) -> bytes:
    first, last = _span(data, rng)
    return data[:last] + data[first:last] * int(rng.integers(1, 4)) + data[last:]


def insert(data: bytes, rng: np.random.Generator) -> bytes:
    first, _ = _span(data, rng)
    return data[:first] + rng.bytes(int(rng.integers(1, 40))) + data[first:]


def change_number(data: bytes, rng: np.random.Generator) -> bytes:
    """Replace a number by an extreme one; sometimes replace ten numbers."""
    for _ in range(1 if rng.random() < 0.7 else 10):
        found = list(NUMBER.finditer(data[:200_000]))
        if not found:
            return data
        match = found[int(rng.integers(len(found)))]
        data = data[: match.start()] + NUMBERS[int(rng.integers(len(NUMBERS)))].encode() + data[match.end() :]
    return data


def swap_numbers(data: bytes, rng: np.random.Generator) -> bytes:
    """Replace a number by another one of the same file: indices then point to other nodes."""
    found = list(NUMBER.finditer(data[:200_000]))
    if not found:
        return data
    first, second = (found[int(rng.integers(len(found)))] for _ in range(2))
    return data[: first.start()] + second[0] + data[first.end() :]


def encode(data: bytes, rng: np.random.Generator) -> bytes:
    """Write the text in another encoding, with or without a byte order mark."""
    text = data.decode("utf-8", errors="replace")
    codec = ("utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1", "cp037")[int(rng.integers(7))]
    return text.encode(codec, errors="replace")


def nest(data: bytes, rng: np.random.Generator) -> bytes:
    """Insert a deep nesting of lists, tables or elements."""
    opening, closing = ((b"[", b"]"), (b'{"a":', b"}"), (b"<g>", b"</g>"))[int(rng.integers(3))]
    depth = DEPTHS[int(rng.integers(len(DEPTHS)))]
    first, _ = _span(data, rng)
    middle = b"1" if rng.random() < 0.5 else data[first : first + 50]
    closed = closing * (depth if rng.random() < 0.7 else 0)
    return data[:first] + opening * depth + middle + closed + data[first:]


def nest_element(data: bytes, rng: np.random.Generator) -> bytes:
    """Repeat an XML element inside or after itself."""
    found = list(ELEMENT.finditer(data[:20_000]))
    if not found:
        return duplicate(data, rng)
    match = found[int(rng.integers(len(found)))]
    inside = match[0].find(b">") + 1
    place = match.start() + inside if rng.random() < 0.5 else match.end()
    return data[:place] + match[0] * int(rng.integers(1, 5)) + data[place:]


def empty(_data: bytes, rng: np.random.Generator) -> bytes:
    return (b"", b"\n", b"\x00" * 64, b" " * 9, b"\xef\xbb\xbf", b"null", b"[]", b"{}")[int(rng.integers(8))]


def change_line_ends(data: bytes, rng: np.random.Generator) -> bytes:
    return data.replace(b"\n", (b"\r\n", b"\r", b"\n\n", b"\x0b", b"\xe2\x80\xa8")[int(rng.integers(5))])


def change_json(data: bytes, rng: np.random.Generator) -> bytes:
    """Change up to five values of a JSON document; other files get an extreme number."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return change_number(data, rng)
    for _ in range(int(rng.integers(1, 6))):
        document = change_value(document, rng)
    return json.dumps(document).encode()


def change_value(document: Any, rng: np.random.Generator) -> Any:
    """Return the document with one random value replaced, removed, wrapped or repeated."""
    if not isinstance(document, dict | list) or not document or rng.random() < 0.08:
        return VALUES[int(rng.integers(len(VALUES)))] if rng.random() < 0.8 else [document]
    document = document.copy()
    keys = list(document) if isinstance(document, dict) else list(range(len(document)))
    key = keys[int(rng.integers(len(keys)))]
    action = rng.random()
    if action < 0.65:
        document[key] = change_value(document[key], rng)
    elif action < 0.8:
        del document[key]
    elif isinstance(document, list):
        document += [document[key]] * int(rng.integers(1, 4))
    else:
        document[("", "id", "nodes", "ä", f"{key} ")[int(rng.integers(5))]] = document[key]
    return document


Mutation = Callable[[bytes, np.random.Generator], bytes]
GENTLE: tuple[Mutation, ...] = (change_number, swap_numbers, nest_element, change_line_ends, change_json)
MUTATIONS: tuple[Mutation, ...] = (
    *GENTLE, change_json, flip_bytes, truncate, delete, duplicate, insert, encode, nest, empty,
)  # fmt: skip
