"""Read and write files on local disks and in object storage (`s3://`, `gs://`) through Arrow's file systems."""

from __future__ import annotations

import errno
import functools
import os
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pyarrow import fs

from treeformer._util.files import atomic_write, check_writable, list_files
from treeformer._util.locks import file_lock
from treeformer._util.pools import thread_pool
from treeformer.errors import FormatError, TreeformerError

# Schemes whose address is a bucket and a key. The key is taken literally: it may contain "?", "#" and "%".
BUCKETS = ("s3", "gs")
LOCAL_SCHEME = "file://"
LOCK = ".lock"
# Number of requests for size and time of objects at once.
PARALLEL_REQUESTS = 32


class NameTooLongError(FormatError):
    """A file cannot be written because its name is too long."""


class FileEntry(NamedTuple):
    """A file in a listing."""

    path: str  # absolute path, or address with a scheme
    size: int  # number of bytes, -1 if there is no such file
    mtime: int  # time of the last modification, ns since 1970


def is_remote(path: str) -> bool:
    """Return True if a path is an address with a scheme other than `file://`."""
    return "://" in path and not path.startswith(LOCAL_SCHEME)


def absolute(path: str) -> str:
    """Return a local path as absolute path without `file://`, or an address without a slash at its end."""
    if is_remote(path):
        return path.rstrip("/")
    return os.path.normpath(Path(path.removeprefix(LOCAL_SCHEME)).absolute())


@functools.cache
def _file_system(scheme: str, bucket: str) -> Any:
    """Open a file system once per process and bucket. Credentials and endpoints come from the environment."""
    if scheme == "s3":
        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        # With delayed opening, a small object is one request instead of three.
        options = {"endpoint_override": endpoint, "allow_delayed_open": True}
        return fs.S3FileSystem(region=region or fs.resolve_s3_region(bucket), **options)
    if scheme == "gs":
        return fs.GcsFileSystem()
    return fs.FileSystem.from_uri(f"{scheme}://{bucket}/")[0]


def _locate(path: str) -> tuple[Any, str]:
    """Return the file system of an address, and the path within it."""
    scheme, _, rest = path.partition("://")
    bucket, _, key = rest.partition("/")
    return _file_system(scheme, bucket), rest if scheme in BUCKETS else f"/{key}"


@contextmanager
def _one_line_errors(path: str, what: str) -> Iterator[None]:
    """Turn the errors of a file system, which may be long, into one line."""
    try:
        yield
    except FileNotFoundError:
        raise FormatError(f"{path}: no such file") from None
    except (OSError, ValueError) as error:
        if isinstance(error, TreeformerError):
            raise
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        kind = NameTooLongError if getattr(error, "errno", None) == errno.ENAMETOOLONG else FormatError
        raise kind(f"{path}: cannot be {what} ({str(reason).splitlines()[0][:300]})") from None


def read_bytes(path: str, offset: int = 0, size: int | None = None) -> bytes:
    """Read a file from the byte `offset` on; fewer than `size` bytes if it ends before."""
    with _one_line_errors(path, "read"):
        if not is_remote(path):
            with Path(path).open("rb") as file:
                file.seek(offset)
                return file.read() if size is None else file.read(size)
        system, inner = _locate(path)
        with system.open_input_file(inner) as remote:
            remote.seek(offset)
            return bytes(remote.read() if size is None else remote.read(size))


def open_file(path: str) -> Any:
    """Open a file for reading at any position, as a binary Arrow file."""
    with _one_line_errors(path, "read"):
        system, inner = _locate(path) if is_remote(path) else (fs.LocalFileSystem(), path)
        return system.open_input_file(inner)


def list_folder(folder: str, without: str | None = None, marks: Collection[frozenset[str]] = ()) -> Iterator[FileEntry]:
    """List the files in a folder and its subfolders, sorted by name. Names that begin with a dot are ignored.

    So are the subfolder `without` and subfolders that have all files of one of the sets of names `marks`, which may
    begin with a dot. A file that is removed meanwhile has a size of -1.
    """
    if not is_remote(folder):
        excluded = None if without is None or is_remote(without) else Path(without)
        for file in list_files(Path(folder), without=excluded, marks=marks):
            yield _local_entry(str(file))
        return
    with _one_line_errors(folder, "read"):
        system, inner = _locate(folder)
        found = system.get_file_info(fs.FileSelector(inner, recursive=True))
    scheme = folder.partition("://")[0]
    prefix, excluded_prefix = inner.rstrip("/") + "/", f"{without}/" if without else None
    is_left_out = _marked_folders((str(info.path) for info in found), inner.rstrip("/"), marks)
    for info in sorted(found, key=lambda info: str(info.path)):
        path = f"{scheme}://{info.path.removeprefix('/')}" if scheme in BUCKETS else f"{scheme}://{info.path}"
        hidden = any(part.startswith(".") for part in info.path.removeprefix(prefix).split("/"))
        if info.type != fs.FileType.File or hidden or (excluded_prefix and path.startswith(excluded_prefix)):
            continue
        if not is_left_out(info.path.rpartition("/")[0]):
            yield FileEntry(path, info.size, info.mtime_ns or 0)


def _marked_folders(paths: Iterable[str], root: str, marks: Collection[frozenset[str]]) -> Callable[[str], bool]:
    """Return a function that is True for the folders below a root that are marked, or lie in one; see `list_folder`."""
    names: dict[str, set[str]] = {}
    of_marks = frozenset[str]().union(*marks)
    for path in paths:
        parent, _, name = path.rpartition("/")
        if name in of_marks:
            names.setdefault(parent, set()).add(name)
    marked = {parent for parent, found in names.items() if any(mark <= found for mark in marks)}
    known = {root: False, "": False}

    def is_marked(folder: str) -> bool:
        if folder not in known:
            known[folder] = folder in marked or is_marked(folder.rpartition("/")[0])
        return known[folder]

    return is_marked


def entries(paths: list[str]) -> list[FileEntry]:
    """Return size and time of files, those in object storage by parallel requests. A missing file has a size of -1."""
    if not any(map(is_remote, paths)):
        return [_local_entry(path) for path in paths]
    with thread_pool(PARALLEL_REQUESTS) as pool:
        return list(pool.map(_entry, paths))


def _entry(path: str) -> FileEntry:
    if not is_remote(path):
        return _local_entry(path)
    with _one_line_errors(path, "read"):
        system, inner = _locate(path)
        info = system.get_file_info(inner)
    exists = info.type == fs.FileType.File
    return FileEntry(path, info.size if exists else -1, (info.mtime_ns or 0) if exists else 0)


def _local_entry(path: str) -> FileEntry:
    try:
        status = os.stat(path)  # noqa: PTH116 - millions of files: a Path object each would take longer than the call
    except (OSError, ValueError):  # ValueError: a name with a NUL character
        return FileEntry(path, -1, 0)
    return FileEntry(path, status.st_size, status.st_mtime_ns)


def is_folder(path: str) -> bool:
    """Return True if a path is a folder, or the beginning of the names of objects up to a slash."""
    if not is_remote(path):
        return Path(path).is_dir()
    with _one_line_errors(path, "read"):
        system, inner = _locate(path)
        return bool(system.get_file_info(inner).type == fs.FileType.Directory)


@dataclass(frozen=True)
class Folder:
    """A folder for results, on a disk or in object storage. Every write is atomic."""

    path: str  # absolute path, or address with a scheme

    @staticmethod
    def at(path: str) -> Folder:
        """Return the folder at a path or an address."""
        return Folder(absolute(path))

    def file(self, name: str) -> str:
        """Return the path of a file in the folder; `name` may contain slashes."""
        return f"{self.path}/{name}"

    def check_writable(self) -> None:
        """Check that files can be written; nothing stays behind."""
        if not is_remote(self.path):
            check_writable(self.path)
            return
        probe = f"write-check-{os.urandom(8).hex()}"
        self.write(probe, b"")
        self.delete(probe)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes out of a block, on disks that know locks. Object storage knows none."""
        if is_remote(self.path):
            yield
            return
        with file_lock(Path(self.file(LOCK))):
            yield

    def exists(self, name: str) -> bool:
        """Return True if there is a file of that name."""
        return entries([self.file(name)])[0].size >= 0

    def read(self, name: str) -> bytes:
        """Return the content of a file; raise `FormatError` if it cannot be read."""
        return read_bytes(self.file(name))

    def write(self, name: str, data: bytes) -> None:
        """Write a file; missing folders are created.

        An object appears as a whole or not at all; a local file is renamed when it is complete.
        """
        with self.writing(name) as file:
            file.write(data)

    @contextmanager
    def writing(self, name: str) -> Iterator[Any]:
        """Open a binary file for writing that appears under its name only if the block succeeds."""
        path = self.file(name)
        with _one_line_errors(path, "written"):
            if not is_remote(path):
                with atomic_write(path) as temporary, temporary.open("wb") as file:
                    yield file
                return
            system, inner = _locate(path)
            stream = system.open_output_stream(inner)
            try:
                yield stream
                stream.close()
            except BaseException:
                # Arrow completes an upload even if its stream is discarded. The incomplete object must not stay.
                with suppress(OSError, ValueError):
                    stream.close()
                with suppress(OSError, ValueError):
                    system.delete_file(inner)
                raise

    def delete(self, name: str) -> None:
        """Delete a file if it exists."""
        path = self.file(name)
        if not is_remote(path):
            Path(path).unlink(missing_ok=True)
        elif self.exists(name):
            with _one_line_errors(path, "deleted"):
                system, inner = _locate(path)
                system.delete_file(inner)

    def names(self, below: str, accept: Callable[[str], bool] = lambda _: True) -> list[str]:
        """Return the accepted names of the files directly in a subfolder, sorted; empty if it does not exist."""
        path = self.file(below)
        if not is_remote(path):
            found = [entry.name for entry in os.scandir(path)] if Path(path).is_dir() else []
        else:
            with _one_line_errors(path, "read"):
                system, inner = _locate(path)
                selector = fs.FileSelector(inner, allow_not_found=True)
                found = [info.base_name for info in system.get_file_info(selector) if info.type == fs.FileType.File]
        return sorted(name for name in found if not name.startswith(".") and accept(name))
