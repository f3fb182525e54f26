"""A lock between processes: one file that only one of them holds at a time."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

RETRY_S = 0.02


@contextmanager
def file_lock(path: Path, timeout_s: float = 30.0) -> Iterator[None]:
    """Hold a lock while a block runs. The system releases it if the process dies; the lock file stays.

    File systems that know no locks, and folders that cannot be written to, are treated as unlocked. So is a lock that
    another process does not release in time: a process that hangs must not keep a person from saving.

    Example:
        >>> with file_lock(Path("results/.lock")):  # doctest: +SKIP
        ...     compare_and_write()
    """
    try:
        handle = _open(path)
    except OSError:
        yield
        return
    try:
        end = time.monotonic() + timeout_s
        while not _try_lock(handle) and time.monotonic() < end:
            time.sleep(RETRY_S)
        yield
    finally:
        os.close(handle)  # releases the lock


def take_lock(path: Path) -> int | None:
    """Take a lock without waiting: return the open file, which `os.close` releases, or None if the lock is held.

    It may be held by this process as well. The system releases it if the process dies; the lock file stays. File
    systems that know no locks are treated as unlocked.
    """
    handle = _open(path)
    if _try_lock(handle):
        return handle
    os.close(handle)
    return None


@contextmanager
def sole_lock(path: Path, timeout_s: float = 0.0) -> Iterator[bool]:
    """Hold a lock while a block runs, as `take_lock`; yield False if it is held elsewhere.

    The file is removed afterwards.

    Example:
        >>> with sole_lock(Path("results/.lock")) as is_ours:  # doctest: +SKIP
        ...     assert is_ours
    """
    end = time.monotonic() + timeout_s
    while True:
        while (handle := take_lock(path)) is not None and not _is_file_of(path, handle):
            os.close(handle)  # its last holder has removed this file
        if handle is not None or time.monotonic() >= end:
            break
        time.sleep(RETRY_S)
    if handle is None:
        yield False
        return
    try:
        yield True
    finally:
        if os.name != "nt":
            path.unlink(missing_ok=True)
        os.close(handle)  # releases the lock
        if os.name == "nt":  # pragma: no cover  # an open file cannot be removed
            with suppress(OSError):
                path.unlink()


def _is_file_of(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False


def _open(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    return os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)


def _try_lock(handle: int) -> bool:
    """Lock an open file without waiting. Return False only if another process holds it."""
    if os.name == "nt":  # pragma: no cover
        import msvcrt

        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        except PermissionError:
            return False
        except OSError:
            return True
        return True
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
