"""List images: single files, folders, lists, Parquet and CSV tables, and WebDataset tar shards."""

from __future__ import annotations

import io
import os
import re
import tarfile
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, parquet

from treeformer._util.images import IMAGE_SUFFIXES
from treeformer._util.pools import batches
from treeformer.errors import FormatError
from treeformer.inference.batch import OUTPUT_MARKS, OVERLAY_ENDING
from treeformer.inference.cluster import storage
from treeformer.inference.cluster.storage import FileEntry

LIST_SUFFIX, TAR_SUFFIX = ".txt", ".tar"
# Between the name of a tar file and that of its member: "shards/0001.tar::plant.jpg".
MEMBER_MARK = re.compile(r"(?<=\.tar)::", re.IGNORECASE)
# Rows of a table, and paths of a list, that are handled at once.
ROWS_AT_ONCE = 65_536


class ImageEntry(NamedTuple):
    """An image that is to be predicted."""

    path: str  # absolute path or address; for a member of a tar file, the file and the member with "::" between them
    size: int  # number of bytes, -1 if unknown or if there is no such file
    mtime: int  # time of the last modification, ns since 1970; 0 if unknown
    offset: int = -1  # position of the member's bytes in the tar file, -1 if the image is a file of its own

    @property
    def file(self) -> str:
        """The file that contains the bytes of the image."""
        return self.path if self.offset < 0 else MEMBER_MARK.split(self.path, 1)[0]

    @property
    def name(self) -> str:
        """The name of the image without folders."""
        return PurePosixPath(self.path if self.offset < 0 else MEMBER_MARK.split(self.path, 1)[-1]).name


def list_images(sources: Sequence[str], without: str | None = None) -> Iterator[ImageEntry]:
    """List the images of all sources, in the order of the sources, without those in the folder of results `without`.

    Sources are images; folders, which are searched recursively for images and tar shards; `.txt` files with one path
    per line; `.parquet` and `.csv` tables with a column `path` and, optionally, `size` (bytes) and `mtime` (ns since
    1970); `.tar` shards. Each may be a path or an address such as `s3://bucket/key`. An image may occur twice if the
    sources overlap. Images that a list or a table names need not exist; a source without images is an error.
    """
    for given in sources:
        source = storage.absolute(given)
        found = False
        for image in _expand(source, without):
            found = True
            yield image
        if not found:
            raise FormatError(f"{given}: contains no image")


def _expand(source: str, without: str | None) -> Iterator[ImageEntry]:
    suffix = _suffix(source)
    if suffix == LIST_SUFFIX:
        yield from _from_list(source)
    elif suffix == ".parquet":
        yield from _from_parquet(source)
    elif suffix == ".csv":
        yield from _from_csv(source)
    elif storage.is_folder(source):
        for entry in storage.list_folder(source, without, OUTPUT_MARKS):
            if _suffix(entry.path) == TAR_SUFFIX:
                yield from _from_tar(entry)
            elif _is_image(entry.path):
                yield ImageEntry(*entry)
    else:
        entry = storage.entries([source])[0]
        if entry.size < 0:
            raise FormatError(f"{source}: no such file")
        if suffix == TAR_SUFFIX:
            yield from _from_tar(entry)
        elif source.lower().endswith((".tar.gz", ".tgz", ".tar.zst", ".tar.bz2", ".tar.xz")):
            raise FormatError(
                f"{source}: members of a compressed tar file cannot be read one by one; unpack it to .tar"
            )
        else:
            yield ImageEntry(*entry)


def _suffix(path: str) -> str:
    return PurePosixPath(path).suffix.lower()


def _is_image(path: str) -> bool:
    return _suffix(path) in IMAGE_SUFFIXES and not path.endswith(OVERLAY_ENDING)


def _from_tar(shard: FileEntry) -> Iterator[ImageEntry]:
    """List the images in a tar file. Only the headers are read."""
    try:
        with (
            storage.open_file(shard.path) as file,
            io.BufferedReader(file, 4096) as buffered,  # one request per header, not three
            tarfile.open(fileobj=buffered, mode="r:") as archive,
        ):
            for member in archive:
                if member.isreg() and _is_image(member.name) and not PurePosixPath(member.name).name.startswith("."):
                    name = f"{shard.path}::{member.name}"
                    yield ImageEntry(name, member.size, shard.mtime, member.offset_data)
    except (tarfile.TarError, OSError, EOFError) as error:
        raise FormatError(f"{shard.path}: not a readable tar file ({str(error).splitlines()[0][:200]})") from None


def _from_list(path: str) -> Iterator[ImageEntry]:
    with storage.open_file(path) as file, io.BufferedReader(file, 1 << 20) as lines:
        if lines.peek(len(BOM_UTF8)).startswith(BOM_UTF8):  # editors on Windows write it
            lines.read(len(BOM_UTF8))
        names = (line.decode("utf-8", "surrogateescape").rstrip("\r\n") for line in lines)
        yield from _with_details(path, (name for name in names if name.strip()))


def _from_parquet(path: str) -> Iterator[ImageEntry]:
    try:
        with storage.open_file(path) as file:
            table = parquet.ParquetFile(file)
            columns = [name for name in ("path", "size", "mtime") if name in table.schema_arrow.names]
            _check_columns(path, table.schema_arrow.names)
            for batch in table.iter_batches(ROWS_AT_ONCE, columns=columns):
                yield from _from_batch(path, batch)
    except (pa.ArrowException, OSError) as error:
        raise FormatError(f"{path}: not a readable Parquet file ({str(error).splitlines()[0][:200]})") from None


def _from_csv(path: str) -> Iterator[ImageEntry]:
    types = {"path": pa.string(), "size": pa.int64(), "mtime": pa.int64()}
    try:
        with storage.open_file(path) as file:
            for batch in csv.open_csv(file, convert_options=csv.ConvertOptions(column_types=types)):
                _check_columns(path, batch.schema.names)
                yield from _from_batch(path, batch)
    except (pa.ArrowException, OSError) as error:
        raise FormatError(f"{path}: not a readable CSV file ({str(error).splitlines()[0][:200]})") from None


def _check_columns(path: str, names: Sequence[str]) -> None:
    if "path" not in names:
        raise FormatError(f"{path}: there is no column 'path'")
    for name in ("path", "size", "mtime"):
        if list(names).count(name) > 1:
            raise FormatError(f"{path}: there are several columns {name!r}")


def _from_batch(path: str, batch: pa.RecordBatch) -> Iterator[ImageEntry]:
    rows = pa.table(batch) if isinstance(batch, pa.RecordBatch) else batch
    names = _texts(path, rows.column("path"))
    if {"size", "mtime"} <= set(rows.column_names):  # nothing has to be asked for
        sizes, times = (_whole_numbers(path, name, rows.column(name)) for name in ("size", "mtime"))
        for name, size, mtime in zip(names, sizes, times, strict=True):
            yield ImageEntry(_beside(path, name), -1 if size is None else size, mtime or 0)
    else:
        yield from _with_details(path, names)


def _texts(path: str, column: pa.ChunkedArray) -> list[str]:
    """Return the column `path`. Names of files may be any bytes, as in a list."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    is_bytes = pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)
    if column.null_count:
        raise FormatError(f"{path}: the column 'path' has empty cells")
    if not is_text and not is_bytes:
        raise FormatError(f"{path}: the column 'path' must be text, not {kind}")
    names: list[bytes] = column.cast(kind).cast(pa.large_binary()).to_pylist()
    return [name.decode("utf-8", "surrogateescape") for name in names]


def _whole_numbers(path: str, name: str, column: pa.ChunkedArray) -> list[int | None]:
    """Return a column as whole numbers. pandas turns whole numbers beside empty cells into fractions and NaN."""
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), None, column)
    try:
        numbers: list[int | None] = column.cast(pa.int64()).to_pylist()
    except pa.ArrowException as error:
        reason = str(error).splitlines()[0][:200]
        raise FormatError(f"{path}: the column {name!r} must be whole numbers ({reason})") from None
    return numbers


def _with_details(listing: str, names: Iterable[str]) -> Iterator[ImageEntry]:
    for chunk in batches((_beside(listing, name) for name in names), ROWS_AT_ONCE):
        for entry in storage.entries(chunk):
            yield ImageEntry(*entry)


def _beside(listing: str, name: str) -> str:
    """Return an absolute path. A relative one is relative to the folder of the list."""
    if "://" in name or name.startswith("/"):
        return storage.absolute(name)
    if storage.is_remote(listing):
        return storage.absolute(f"{listing.rpartition('/')[0]}/{name}")
    return storage.absolute(os.path.join(os.path.dirname(listing), name))  # noqa: PTH118, PTH120 - millions of names
