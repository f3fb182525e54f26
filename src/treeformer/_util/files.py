"""Recursive file listing, atomic writes, removal of leftovers, and an early check for a writable output folder."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from treeformer.errors import FormatError, TreeformerError

if TYPE_CHECKING:
    import pandas as pd


# `.NAME-PID-RANDOM.SUFFIX`: the temporary files of `atomic_write`, and nothing else.
TEMPORARY_NAME = re.compile(r"\..{1,40}-(\d{1,9})-[0-9a-f]{16}(\.[^.]*)?", re.DOTALL)
# Names without suffix of the files that the editor keeps before it replaces them: NAME.orig, NAME.orig-2.
BACKUP_STEM = re.compile(r"(.+)\.orig(?:-\d+)?", re.DOTALL)
# File systems that cannot synchronize a file report one of these.
NO_FSYNC = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP)

IS_WINDOWS = os.name == "nt"
# Virus scanners, indexers and readers of Windows keep a file open for a moment: how long to wait for them.
REPLACE_S, RETRY_S = 2.0, 0.05
# Names of the temporary files that this process is writing.
_in_use: set[str] = set()
# What `before_each_write` calls.
_observer: ContextVar[Callable[[Path, Path], None] | None] = ContextVar("_observer", default=None)


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Write a file atomically: to a temporary file that is renamed to `path` if the block succeeds, deleted otherwise.

    The temporary file is flushed to the disk before it is renamed, so that a full disk or a power failure never leaves
    an incomplete file under the final name. Missing parent folders are created. The `filename` of an `OSError` is
    `path`.

    The yielded path of the temporary file is in the same folder and has the same suffix: `.NAME-PID-RANDOM.SUFFIX`. A
    killed process leaves it behind, see `remove_leftovers`.

    The block must notice errors while it writes. Pillow does not if it writes JPEG to a file: use `write_image`.

    Example:
        >>> with atomic_write("table.csv") as temporary:  # doctest: +SKIP
        ...     temporary.write_text("a,b")
    """
    target = Path(path)
    temporary = _temporary_beside(target)
    _in_use.add(temporary.name)
    try:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except FileExistsError:  # a file is in the place of a parent folder
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(target)) from None
        except OSError as error:
            error.filename = str(target)
            raise
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        yield temporary
        _flush_to_disk(temporary)
        if (observe := _observer.get()) is not None:
            observe(temporary, target)
        _replace(temporary, target)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        # Users know `path`, not the name of the temporary file. If the disk is full, the error has no file name.
        # Without an errno, a file name would replace the error's message.
        if isinstance(error, OSError) and error.errno is not None and str(error.filename) in ("None", str(temporary)):
            error.filename = str(target)
        raise
    finally:
        _in_use.discard(temporary.name)


@contextmanager
def before_each_write(observe: Callable[[Path, Path], None]) -> Iterator[None]:
    """Within the block, call `observe(temporary file, target)` before `atomic_write` renames a complete file.

    If it raises an error, the target stays as it was. Writes of other threads are not observed.
    """
    token = _observer.set(observe)
    try:
        yield
    finally:
        _observer.reset(token)


@contextmanager
def temporary_file(path: Path) -> Iterator[Path]:
    """Yield a free temporary name beside a file, in the form of `atomic_write`, and remove the file afterwards.

    Nothing keeps the file open: Windows could not open it a second time.
    """
    temporary = _temporary_beside(path)
    _in_use.add(temporary.name)
    try:
        yield temporary
    finally:
        with suppress(OSError):
            temporary.unlink()
        _in_use.discard(temporary.name)


def atomic_write_bytes(path: str | os.PathLike[str], data: bytes) -> None:
    """Write bytes to a file atomically."""
    with atomic_write(path) as temporary:
        temporary.write_bytes(data)


def remove_leftovers(folder: str | os.PathLike[str]) -> int:
    """Remove the temporary files that killed processes left in a folder and its subfolders; return their number.

    Only regular files whose name `atomic_write` could have chosen are removed, and only if no process with the number
    in the name is running. This assumes that all processes that write to the folder run on this computer: on a network
    drive, call it only if no other computer is writing.
    """
    removed = 0
    for parent, _, files in os.walk(folder):
        for name in files:
            match = TEMPORARY_NAME.fullmatch(name)
            path = Path(parent, name)
            if match is None or path.is_symlink() or not path.is_file() or _is_being_written(name, int(match[1])):
                continue
            with suppress(OSError):
                path.unlink()
                removed += 1
    return removed


def _is_being_written(name: str, process: int) -> bool:
    """Return True if the process that created a temporary file may still be writing it."""
    if process == os.getpid():  # in a container, every run may have the same process number
        return name in _in_use
    if os.name != "posix":  # on Windows, `os.kill` would interrupt the process
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _temporary_beside(path: Path) -> Path:
    """Return a new name that matches `TEMPORARY_NAME`, in the folder of a file and with its suffix."""
    # Absolute, because pandas takes a relative path that begins with ~ for one in the home folder.
    return path.absolute().parent / f".{path.stem[:40]}-{os.getpid()}-{os.urandom(8).hex()}{path.suffix}"


def _replace(temporary: Path, target: Path) -> None:
    """Rename a complete temporary file. Windows refuses while another program has the target open: try again."""
    end = time.monotonic() + (REPLACE_S if IS_WINDOWS else 0.0)
    while True:
        try:
            temporary.replace(target)
        except PermissionError:
            if time.monotonic() >= end:
                raise
            time.sleep(RETRY_S)
        else:
            return


def _flush_to_disk(path: Path) -> None:
    handle = os.open(path, os.O_RDWR)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in NO_FSYNC:
            raise
    finally:
        os.close(handle)


@contextmanager
def atomic_write_checked(path: Path) -> Iterator[Path]:
    """Write a file as `atomic_write` does; errors are a `FormatError`."""
    try:
        with atomic_write(path) as temporary:
            yield temporary
    except OSError as error:
        raise FormatError(f"{path.name}: cannot be written ({error.strerror or error})") from None


def write_table(table: pd.DataFrame, path: str | os.PathLike[str]) -> None:
    r"""Write a table as CSV in UTF-8, without its index. Bytes of file names that are not UTF-8 become `\udce4`."""
    with atomic_write(path) as temporary:
        table.to_csv(temporary, index=False, errors="backslashreplace")


def check_is_regular_file(path: str | os.PathLike[str]) -> None:
    """Raise `OSError` if a path is not a regular file: opening a pipe blocks."""
    mode = Path(path).stat().st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "Not a regular file", str(path))


def check_writable(path: str | os.PathLike[str]) -> None:
    """Check that files can be written to a folder, which need not exist; nothing is created.

    Paths that begin with a ~ which the shell has not replaced, as in `--output=~/results`, are errors.
    """
    if Path(path).parts[:1] == ("~",) and not Path("~").exists():
        raise TreeformerError(f"{path}: the shell has not replaced ~ by the home folder; write the full path")
    folder = Path(path).absolute()
    try:
        nearest = next(parent for parent in (folder, *folder.parents) if parent.exists())
        with tempfile.TemporaryFile(dir=nearest):
            pass
    except OSError as error:
        raise TreeformerError(f"{path}: cannot be written to ({error.strerror or error})") from None


def list_files(folder: Path, without: Path | None = None, marks: Collection[frozenset[str]] = ()) -> Iterator[Path]:
    """List the files in a folder and its subfolders at any depth, ordered by name, those of a folder first.

    Names that begin with a dot are ignored, as are the subfolder `without` and subfolders that have all files of one of
    the sets of names `marks`, which may begin with a dot.
    """
    for name, folders, files in os.walk(folder, onerror=_raise_unreadable):
        parent = Path(name)
        if parent != folder and any(mark.issubset(files) for mark in marks):
            folders.clear()
            continue
        visible = sorted(child for child in folders if not child.startswith("."))
        folders[:] = [
            child for child in visible if without is None or (parent / child).absolute() != without.absolute()
        ]
        yield from (parent / file for file in sorted(files) if not file.startswith("."))


def is_file(path: Path) -> bool:
    """Return True if there is a file at a path, False for a name that is too long; `Path.is_file` may raise."""
    return os.path.isfile(path)  # noqa: PTH113


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, hexadecimal."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise FormatError(f"{path}: cannot be read ({error.strerror or error})") from None


def is_backup(path: Path) -> bool:
    """Return True if a file is the original that the editor kept of another: `NAME.orig.rsml` beside `NAME.rsml`.

    A file of this name alone is not a backup.
    """
    match = BACKUP_STEM.fullmatch(path.stem)
    return match is not None and path.with_name(match[1] + path.suffix).is_file()


def _raise_unreadable(error: OSError) -> NoReturn:
    raise FormatError(f"{error.filename}: cannot be read ({error.strerror})")
