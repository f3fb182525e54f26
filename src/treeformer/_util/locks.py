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
    """Hold a lock while a block runs. The system releases it if the process dies.

    File systems that know no locks, and folders that cannot be written to, are treated as unlocked. So is a lock that
    another process does not release in time: a process that hangs must not keep a person from saving.

    Args:
        path: the lock file; it is created, with its folder, and stays.
        timeout_s: longest time to wait.

    Returns:
        A context manager.

    Example:
        >>> with file_lock(Path("results/.lock")):  # doctest: +SKIP
        ...     compare_and_write()
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
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


@contextmanager
def sole_lock(path: Path) -> Iterator[bool]:
    """Hold a lock while a block runs, without waiting for it. Its file is removed afterwards.

    The system releases the lock if the process dies. File systems that know no locks are treated as unlocked.

    Args:
        path: the lock file; it is created, with its folder.

    Returns:
        A context manager. Its value is False if another process, or another block of this one, holds the lock.

    Raises:
        OSError: if the file cannot be created.

    Example:
        >>> with sole_lock(Path("results/.lock")) as is_ours:  # doctest: +SKIP
        ...     assert is_ours
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
        is_ours = _try_lock(handle)
        if not is_ours or _is_file_of(path, handle):
            break
        os.close(handle)  # the process that held the lock has removed this file
    try:
        yield is_ours
    finally:
        if is_ours and os.name != "nt":
            path.unlink(missing_ok=True)
        os.close(handle)  # releases the lock
        if is_ours and os.name == "nt":  # pragma: no cover  # an open file cannot be removed
            with suppress(OSError):
                path.unlink()


def _is_file_of(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False


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
