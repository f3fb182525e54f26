"""Files: found below a folder, and written so that nothing is ever left by half, nor found impossible after hours."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from treeformer.errors import FormatError, TreeformerError

if TYPE_CHECKING:
    import pandas as pd


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary file beside `path` to write to; renamed to `path` when the block ends, gone if it fails.

    Missing parent folders are made. Where the system says no, the error names `path`.

    >>> with atomic_write("table.csv") as temporary:  # doctest: +SKIP
    ...     temporary.write_text("a,b")
    """
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{target.stem[:40]}-", suffix=target.suffix, dir=target.parent)
    except FileExistsError:  # what stands where a folder has to be
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(target)) from None
    except OSError as error:
        error.filename = str(target)  # the user knows this name, and not that of a temporary file
        raise
    os.close(handle)
    temporary = Path(name)
    try:
        # mkstemp makes files private; a result should get the rights any new file would have.
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        yield temporary
        temporary.replace(target)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        # A full disk names no file, a folder in the way the temporary one. (Where there is no errno, a name would take
        # the place of what the error says.)
        if isinstance(error, OSError) and error.errno is not None and str(error.filename) in ("None", name):
            error.filename = str(target)
        raise


@contextmanager
def atomic_write_checked(path: Path) -> Iterator[Path]:
    """A temporary file that takes the name `path` when all went well (see `atomic_write`); errors are one line."""
    try:
        with atomic_write(path) as temporary:
            yield temporary
    except OSError as error:
        raise FormatError(f"{path.name}: cannot be written ({error.strerror or error})") from None


def write_table(table: pd.DataFrame, path: str | os.PathLike[str]) -> None:
    """Write a table without its index as CSV, always UTF-8: bytes in a file's name that are none stand as `\\udce4`."""
    with atomic_write(path) as temporary:
        table.to_csv(temporary, index=False, errors="backslashreplace")


def check_writable(path: str | os.PathLike[str]) -> None:
    """An error, in one line, where no file can be written to a folder, whether it exists yet or not; leaves nothing."""
    folder = Path(path).absolute()
    try:
        nearest = next(place for place in (folder, *folder.parents) if place.exists())
        with tempfile.TemporaryFile(dir=nearest):
            pass
    except OSError as error:
        raise TreeformerError(f"{path}: cannot be written to ({error.strerror or error})") from None


def list_files(folder: Path, without: Path | None = None) -> Iterator[Path]:
    """The files in a folder and, after them, those in its folders, at any depth, in order of name.

    Names that begin with a dot are passed over. without: a folder that is passed over where it lies within.
    A folder that may not be looked into is an error of one line.
    """
    for name, folders, files in os.walk(folder, onerror=_unreadable):
        here = Path(name)
        inside = sorted(one for one in folders if not one.startswith("."))
        folders[:] = [one for one in inside if without is None or (here / one).absolute() != without.absolute()]
        yield from (here / file for file in sorted(files) if not file.startswith("."))


def _unreadable(error: OSError) -> NoReturn:
    raise FormatError(f"{error.filename}: cannot be read ({error.strerror})")
