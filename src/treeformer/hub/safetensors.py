"""Read and write safetensors files with NumPy only: a JSON header and raw bytes, so that nothing is unpickled."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeformer._util.files import atomic_write, check_is_regular_file
from treeformer._util.text import short_repr
from treeformer.errors import FormatError

DTYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "I16": np.dtype("<i2"),
    "I8": np.dtype("i1"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
}
# NumPy has no bfloat16. Its two bytes are the upper half of a float32, and it is read as float32.
BFLOAT16 = "BF16"
# Checkpoints of the largest network, with the state of the optimizer, have less than a quarter of this.
MAX_HEADER_BYTES = 1_000_000
MAX_ARRAYS = 10_000
MAX_DIMENSIONS = 8


@dataclass(frozen=True)
class Entry:
    """Position of one array in a file."""

    dtype: str  # type name of the format
    shape: tuple[int, ...]
    offset: int  # first byte, from the beginning of the file
    length: int  # bytes


def read(path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """Read all arrays of a file by name; bfloat16 becomes float32."""
    entries, _ = read_header(path)
    content = Path(path).read_bytes()
    return {name: _array(content, entry) for name, entry in entries.items()}


def read_header(path: str | os.PathLike[str]) -> tuple[dict[str, Entry], dict[str, str]]:
    """Read the positions of the arrays by name and the metadata, without the arrays."""
    try:
        check_is_regular_file(path)
        with Path(path).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            header_length = int.from_bytes(file.read(8), "little")
            if size < 8 or header_length > size - 8:
                raise FormatError(f"{path}: not a safetensors file (its header does not fit)")
            if header_length > MAX_HEADER_BYTES:
                raise FormatError(f"{path}: its header has {header_length:,} bytes, more than {MAX_HEADER_BYTES:,}")
            header = json.loads(file.read(header_length))
    except FormatError:
        raise
    except OSError as error:
        raise FormatError(f"{path}: {error.strerror or error}") from None
    except (ValueError, RecursionError):
        raise FormatError(f"{path}: not a safetensors file (its header is not JSON)") from None
    if not isinstance(header, dict):
        raise FormatError(f"{path}: not a safetensors file (its header is not a table)")
    if len(header) > MAX_ARRAYS:
        raise FormatError(f"{path}: has {len(header):,} arrays, more than {MAX_ARRAYS:,}")
    metadata = header.pop("__metadata__", {})
    if not (isinstance(metadata, dict) and all(isinstance(value, str) for value in metadata.values())):
        raise FormatError(f"{path}: its metadata is not text")
    start = 8 + header_length
    return {name: _entry(path, name, fields, start, size) for name, fields in header.items()}, metadata


def write(
    path: str | os.PathLike[str], arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str] | None = None
) -> None:
    """Write arrays by name; wide types come first, so that every array is aligned to its item size.

    Example:
        >>> write("ones.safetensors", {"a": np.ones(3, np.float16)})  # doctest: +SKIP
    """
    names = {dtype: name for name, dtype in DTYPES.items()}
    arrays = dict(sorted(arrays.items(), key=lambda item: -item[1].dtype.itemsize))
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    offset = 0
    for name, array in arrays.items():
        little = array.dtype.newbyteorder("<")
        if little not in names or name == "__metadata__":
            raise FormatError(f"{path}: array {short_repr(name)} of {array.dtype} cannot be stored as safetensors")
        header[name] = {
            "dtype": names[little],
            "shape": list(array.shape),
            "data_offsets": [offset, offset + array.nbytes],
        }
        offset += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > MAX_HEADER_BYTES or len(arrays) > MAX_ARRAYS:
        raise FormatError(f"{path}: {len(arrays):,} arrays are too many, or their names are too long")
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for array in arrays.values():
            file.write(np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).tobytes())


def _array(content: bytes, entry: Entry) -> NDArray[Any]:
    if entry.dtype == BFLOAT16:
        upper = np.frombuffer(content, "<u2", entry.length // 2, entry.offset).astype("<u4")
        return (upper << 16).view("<f4").reshape(entry.shape)
    dtype = DTYPES[entry.dtype]
    return np.frombuffer(content, dtype, entry.length // dtype.itemsize, entry.offset).reshape(entry.shape)


def _entry(path: str | os.PathLike[str], name: str, fields: object, start: int, file_size: int) -> Entry:
    """Return the position of one array after checking that it is inside the file and fits the shape."""
    if not isinstance(fields, dict):
        raise FormatError(f"{path}: array {short_repr(name)} is not described")
    dtype, shape, span = (
        fields.get("dtype"),
        _whole_numbers(fields.get("shape")),
        _whole_numbers(fields.get("data_offsets")),
    )
    if not (isinstance(dtype, str) and (dtype in DTYPES or dtype == BFLOAT16)):
        raise FormatError(f"{path}: array {short_repr(name)} has the unknown type {short_repr(dtype)}")
    if shape is None or len(shape) > MAX_DIMENSIONS or span is None or len(span) != 2:
        raise FormatError(f"{path}: array {short_repr(name)} has no valid shape or position")
    item_size = 2 if dtype == BFLOAT16 else DTYPES[dtype].itemsize
    begin, end = span
    # NumPy cannot represent an empty array whose other dimensions are too large.
    is_too_large = math.prod(max(side, 1) for side in shape) * item_size > np.iinfo(np.intp).max
    if is_too_large or end - begin != math.prod(shape) * item_size or start + end > file_size:
        raise FormatError(f"{path}: array {short_repr(name)} does not fit in the file")
    return Entry(dtype, tuple(shape), start + begin, end - begin)


def _whole_numbers(values: object) -> list[int] | None:
    """Return the values if they are a list of non-negative integers, None otherwise."""
    if isinstance(values, list) and all(type(value) is int and value >= 0 for value in values):
        return values
    return None
