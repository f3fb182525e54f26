"""Open and write files for all formats. Every error is one line that begins with the file name."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from treeformer._util.files import atomic_write_checked
from treeformer.errors import FormatError, SkeletonError

# Enough to recognize the format of a file of any size.
HEAD_BYTES = 1 << 14

# Lines of tables and SWC files are far shorter. A longer line is rejected before it is read completely.
MAX_LINE_LENGTH = 1 << 16

# JSON is read into memory at once. The largest public annotation files have a quarter of this size.
MAX_JSON_BYTES = 1 << 30

# First bytes of binary files that often have a wrong suffix.
BINARY_KINDS = {
    b"\x89PNG": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"II*\x00": "a TIFF image",
    b"MM\x00*": "a TIFF image",
    b"GIF8": "a GIF image",
    b"BM": "a BMP image",
    b"%PDF": "a PDF document",
    b"PK\x03\x04": "a ZIP archive",
    b"\x1f\x8b": "a gzip archive",
    b"\x80\x02": "a pickle",
}
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


def read_head(path: Path) -> bytes:
    """Return the first bytes of a text file; raise `FormatError` if it is missing, unreadable, empty or binary."""
    with reading(path):
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise FormatError(f"{path.name}: is a folder, not a file")
        if not stat.S_ISREG(mode):
            raise FormatError(f"{path.name}: is not a regular file")
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    if not head.strip():
        raise FormatError(f"{path.name}: is empty")
    is_binary = b"\x00" in head and not head.startswith(UTF16_MARKS)
    for mark, kind in BINARY_KINDS.items():
        # Text may begin with a two-byte mark, so such a mark counts only in files that contain a zero byte.
        if head.startswith(mark) and (is_binary or len(mark) > 2):
            raise FormatError(f"{path.name}: is {kind}")
    if is_binary:
        raise FormatError(f"{path.name}: is not a text file")
    return head


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Convert errors raised while a file is read into a FormatError that begins with the file name."""
    try:
        yield
    except FormatError:
        raise
    except SkeletonError as error:
        raise FormatError(f"{path.name}: {error}") from None
    except OSError as error:
        raise FormatError(f"{path.name}: cannot be read ({error.strerror or error})") from None


def write_text(path: Path, text: str) -> None:
    """Write text as UTF-8, atomically. Surrogate escapes become the undecodable bytes they stand for."""
    with atomic_write_checked(path) as temporary:
        temporary.write_bytes(text.encode("utf-8", "surrogateescape"))


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text file with their numbers, from 1. They end in a line feed, a carriage return, or both.

    A line that is longer than `MAX_LINE_LENGTH` or contains a zero byte is an error.
    """
    with reading(path), path.open(encoding="utf-8", errors="surrogateescape") as file:
        number = 0
        while line := file.readline(MAX_LINE_LENGTH):
            number += 1
            if len(line) == MAX_LINE_LENGTH:
                raise FormatError(f"{path.name}: line {number} is longer than {MAX_LINE_LENGTH} characters")
            if "\0" in line:  # the tail of a file after a power failure, or UTF-16
                raise FormatError(f"{path.name}: line {number} contains a zero byte: not a text file in UTF-8")
            if number == 1:
                line = line.removeprefix("\ufeff")
            yield number, line.removesuffix("\n")


def begins_json_object(head: bytes) -> bool:
    """Return True if a file that begins with these bytes may contain a JSON object.

    >>> begins_json_object(b' {"nodes": ['), begins_json_object(b"{garbage}")
    (True, False)
    """
    return re.match(rb"(?:\xef\xbb\xbf)?\s*\{\s*(?:[\"}]|$)", head) is not None


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file. NaN and Infinity are rejected."""

    def reject(literal: str) -> None:
        raise FormatError(f"{path.name}: contains {literal}, which is not valid JSON")

    with reading(path):
        size = path.stat().st_size
        if size > MAX_JSON_BYTES:
            raise FormatError(f"{path.name}: {size >> 20} MiB is too large for a JSON file of skeletons")
        if not begins_json_object(read_head(path)):
            raise FormatError(f"{path.name}: is not a JSON object")
        data = path.read_bytes()
    try:
        document = json.loads(data.decode("utf-8-sig"), parse_constant=reject)
    except FormatError:
        raise
    except UnicodeDecodeError as error:
        raise FormatError(f"{path.name}: is not UTF-8 text (byte {error.start})") from None
    except json.JSONDecodeError as error:
        problem = (
            "is truncated" if error.pos >= len(error.doc.rstrip()) or "Unterminated" in error.msg else "is not JSON"
        )
        raise FormatError(f"{path.name}: {problem} (line {error.lineno}, column {error.colno}: {error.msg})") from None
    except RecursionError:
        raise FormatError(f"{path.name}: is nested too deeply") from None
    except ValueError as error:  # an integer with thousands of digits
        raise FormatError(f"{path.name}: is not readable as JSON ({error})") from None
    if not isinstance(document, dict):
        raise FormatError(f"{path.name}: is not a JSON object")
    return document


def json_text(value: Any, path: Path) -> str:
    """Return a value as one line of JSON, in ASCII if UTF-8 cannot encode it. Floats are exact.

    Mappings, NumPy values and paths are converted to plain JSON types. Errors mention `path`.
    """
    try:
        text = _READABLE_JSON.encode(value)
        if not text.isascii():
            text.encode()
        return text
    except UnicodeEncodeError:
        return _ASCII_JSON.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise FormatError(f"{path.name}: cannot be stored as JSON ({error})") from None


def _to_plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"a value of type {type(value).__name__}")


_READABLE_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=_to_plain)
# For text that UTF-8 cannot encode, such as an undecodable file name.
_ASCII_JSON = json.JSONEncoder(ensure_ascii=True, allow_nan=False, default=_to_plain)
