"""Opening and writing files for all formats: what is wrong with one is said in one line that begins with its name."""

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

# Enough to tell what a file holds, whatever its size.
HEAD_BYTES = 1 << 14

# A line of a table or of an SWC file that is longer than this is no such line: it is given up unread.
LINE_BYTES = 1 << 16

# JSON is read as a whole; the largest sets of annotations in use are a quarter of this.
JSON_BYTES = 1 << 30

# First bytes of files that are often found under a wrong name.
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
    """The first bytes of a file; an error where it is not there, no file, empty, out of reach or plainly not text."""
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
        # A mark of two bytes may begin a text; one that a zero byte follows does not.
        if head.startswith(mark) and (is_binary or len(mark) > 2):
            raise FormatError(f"{path.name}: is {kind}")
    if is_binary:
        raise FormatError(f"{path.name}: is not a text file")
    return head


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turns what can go wrong while a file is read into one line that begins with its name."""
    try:
        yield
    except FormatError:
        raise
    except SkeletonError as error:
        raise FormatError(f"{path.name}: {error}") from None
    except OSError as error:
        raise FormatError(f"{path.name}: cannot be read ({error.strerror or error})") from None


def write_text(path: Path, text: str) -> None:
    """Write UTF-8, with the bytes that a file name or a comment could not be decoded from as they were."""
    with atomic_write_checked(path) as temporary:
        temporary.write_bytes(text.encode("utf-8", "surrogateescape"))


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a text file with their numbers from 1, without line ends; one far too long is an error."""
    with reading(path), path.open("rb") as file:
        number = 0
        while line := file.readline(LINE_BYTES):
            number += 1
            if len(line) == LINE_BYTES:
                raise FormatError(f"{path.name}: line {number} is longer than {LINE_BYTES} bytes")
            if number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")
            yield number, line.decode("utf-8", "surrogateescape").rstrip("\r\n")


def begins_json_object(head: bytes) -> bool:
    """Whether a file that begins so may hold a JSON object.

    >>> begins_json_object(b' {"nodes": ['), begins_json_object(b"{garbage}")
    (True, False)
    """
    return re.match(rb"(?:\xef\xbb\xbf)?\s*\{\s*(?:[\"}]|$)", head) is not None


def read_json(path: Path) -> dict[str, Any]:
    """The object that a JSON file holds. NaN and Infinity, which JSON does not have, are errors."""

    def refuse(literal: str) -> None:
        raise FormatError(f"{path.name}: holds {literal}, which is not JSON")

    with reading(path):
        size = path.stat().st_size
        if size > JSON_BYTES:
            raise FormatError(f"{path.name}: {size >> 20} MiB is too large for a JSON file of skeletons")
        if not begins_json_object(read_head(path)):
            raise FormatError(f"{path.name}: is not a JSON object")
        data = path.read_bytes()
    try:
        document = json.loads(data.decode("utf-8-sig"), parse_constant=refuse)
    except FormatError:
        raise
    except UnicodeDecodeError as error:
        raise FormatError(f"{path.name}: is not UTF-8 text (byte {error.start})") from None
    except json.JSONDecodeError as error:
        what = "is cut short" if error.pos >= len(error.doc.rstrip()) or "Unterminated" in error.msg else "is not JSON"
        raise FormatError(f"{path.name}: {what} (line {error.lineno}, column {error.colno}: {error.msg})") from None
    except RecursionError:
        raise FormatError(f"{path.name}: is nested too deep") from None
    except ValueError as error:  # a whole number of thousands of digits
        raise FormatError(f"{path.name}: is not readable as JSON ({error})") from None
    if not isinstance(document, dict):
        raise FormatError(f"{path.name}: is not a JSON object")
    return document


def json_text(value: Any, path: Path) -> str:
    """JSON in one row, floats exact; an error that names the file `path` for what JSON cannot hold."""
    try:
        text = _READABLE_JSON.encode(value)
        if not text.isascii():
            text.encode()
        return text
    except UnicodeEncodeError:
        return _ASCII_JSON.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise FormatError(f"{path.name}: JSON cannot hold this ({error})") from None


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"a value of type {type(value).__name__}")


_READABLE_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=_plain)
# For texts that UTF-8 cannot hold, such as a file name that could not be decoded.
_ASCII_JSON = json.JSONEncoder(ensure_ascii=True, allow_nan=False, default=_plain)
