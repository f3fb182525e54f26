"""Atomic writes and the check for writable folders."""

from __future__ import annotations

import errno
import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from PIL import Image

from treeformer._util import files
from treeformer._util.files import (
    TEMPORARY_NAME,
    atomic_write,
    atomic_write_bytes,
    before_each_write,
    check_is_regular_file,
    check_writable,
    is_file,
    remove_leftovers,
    sha256,
    write_table,
)
from treeformer._util.image_output import encode_image, write_image
from treeformer.errors import FormatError, TreeformerError


def test_a_file_appears_when_it_is_complete(tmp_path):
    target = tmp_path / "new folder" / "ä b.txt"
    with atomic_write(target) as temporary:
        temporary.write_text("text")
        assert not target.exists()
        assert temporary.suffix == ".txt"
    assert target.read_text() == "text"
    assert target.stat().st_mode & 0o777 == 0o666 & ~_umask()
    assert list(target.parent.iterdir()) == [target]


def test_a_failure_leaves_nothing_behind(tmp_path):
    target = tmp_path / "a.txt"
    target.write_text("old")
    with pytest.raises(KeyboardInterrupt), atomic_write(target) as temporary:
        temporary.write_text("half")
        raise KeyboardInterrupt
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_function_sees_each_file_before_it_is_renamed(tmp_path):
    target, seen = tmp_path / "a.txt", []
    target.write_text("old")

    def observe(*paths):
        seen.append([path.read_text() for path in paths])
        if len(seen) == 2:
            raise OSError(errno.ENOSPC, "full", str(tmp_path / "list"))

    with before_each_write(observe):
        atomic_write_bytes(target, b"new")
        with pytest.raises(OSError, match="list"):
            atomic_write_bytes(target, b"newer")
    assert list(tmp_path.iterdir()) == [target]
    atomic_write_bytes(target, b"last")
    assert seen == [["new", "old"], ["newer", "new"]]


def test_an_error_names_the_target_file(tmp_path):
    (tmp_path / "file").write_text("in the way of a folder")
    target = tmp_path / "file" / "a.txt"
    with pytest.raises(OSError, match=r"a\.txt") as error, atomic_write(target):
        pass
    assert error.value.filename == str(target)
    assert isinstance(error.value, NotADirectoryError), "not FileExistsError"


def test_an_error_while_writing_names_the_target_file(tmp_path):
    target = tmp_path / "a.txt"
    with pytest.raises(OSError, match="No space") as full, atomic_write(target):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert full.value.filename == str(target)
    target.mkdir()
    with pytest.raises(IsADirectoryError) as is_folder, atomic_write(target):
        pass
    assert is_folder.value.filename == str(target), "not the temporary file"
    with pytest.raises(FileNotFoundError) as another, atomic_write(target):
        (tmp_path / "other").read_text()
    assert another.value.filename == str(tmp_path / "other")
    with pytest.raises(OSError, match=r"^encoder error$"), atomic_write(target):
        raise OSError("encoder error")


def test_a_folder_is_checked_without_creating_anything(tmp_path):
    (tmp_path / "file").write_text("in the way of a folder")
    for path in (tmp_path, tmp_path / "new" / "newer"):
        check_writable(path)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    for path in (tmp_path / "file", tmp_path / "file" / "new"):
        with pytest.raises(TreeformerError, match="cannot be written to") as error:
            check_writable(path)
        assert str(error.value).startswith(str(path))


def test_a_tilde_that_the_shell_has_left_is_no_folder(tmp_path, monkeypatch):
    """Shells leave the ~ of `--output=~/results` as it is."""
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    for path in ("~", "~/results"):
        with pytest.raises(TreeformerError, match=f"^{path}: the shell has not replaced ~ by the home folder"):
            check_writable(path)
    check_writable("~results")
    (tmp_path / "~").mkdir()  # somebody wants this name
    check_writable("~/results")
    write_table(pd.DataFrame({"a": [1]}), "~/table.csv")
    assert (tmp_path / "~" / "table.csv").read_text().split() == ["a", "1"]
    assert not list((tmp_path / "home").iterdir())


def test_a_file_is_on_the_disk_before_it_is_renamed(tmp_path, monkeypatch):
    events = []
    fsync, replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (events.append("fsync"), fsync(handle)))
    monkeypatch.setattr(Path, "replace", lambda self, target: (events.append("rename"), replace(self, target)))
    atomic_write_bytes(tmp_path / "a", b"content")
    assert events == ["fsync", "rename"]
    assert (tmp_path / "a").read_bytes() == b"content"


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_an_error_of_the_disk_leaves_nothing_behind(tmp_path, monkeypatch, code):
    def failing(_handle):
        raise OSError(code, os.strerror(code))

    (tmp_path / "a").write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(OSError, match=os.strerror(code)) as error:
        atomic_write_bytes(tmp_path / "a", b"new")
    assert error.value.filename == str(tmp_path / "a")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]


def test_a_file_system_without_synchronization_is_accepted(tmp_path, monkeypatch):
    def unsupported(_handle):
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(os, "fsync", unsupported)
    atomic_write_bytes(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"new"


def soft_noise(side: int = 450) -> Image.Image:
    """An image whose JPEG file has about 60 kB. Pillow writes so much at once, and ignores that less was written."""
    return Image.effect_noise((side // 3, side // 3), 200).convert("RGB").resize((side, side))


LIMITED = """
import resource, signal, sys
from PIL import Image
from treeformer._util.image_output import encode_image, write_image
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
image = Image.open(sys.argv[2])
limit = len(encode_image(image, sys.argv[1][-4:])) - 100
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
write_image(image, sys.argv[1])
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs a limit on the size of files")
@pytest.mark.parametrize("suffix", [".jpg", ".png"])
def test_a_short_write_is_an_error(tmp_path, suffix):
    """The kernel writes all but the last 100 bytes, as on a full disk."""
    target = tmp_path / "out" / f"a{suffix}"
    soft_noise().save(tmp_path / "noise.png")
    command = [sys.executable, "-c", LIMITED, str(target), str(tmp_path / "noise.png")]
    result = subprocess.run(command, capture_output=True, text=True)
    assert f"FormatError: a{suffix}: cannot be written (File too large)" in result.stderr
    assert list(target.parent.iterdir()) == []


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 256 kB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("there is no mount command")
    if mounted.returncode:
        pytest.skip(f"mounting is not permitted: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_nothing_is_left_on_a_full_disk(small_disk):
    image = soft_noise()
    needed = len(encode_image(image, ".jpg"))
    (small_disk / "filler").write_bytes(bytes(262_144 - needed // 4096 * 4096))  # the last page of the JPEG is missing
    for name in ("a.jpg", "a.png"):
        with pytest.raises(FormatError, match=rf"^{name}: cannot be written \(No space left on device\)$"):
            write_image(image, small_disk / name)
    with pytest.raises(OSError, match="No space left") as error:
        atomic_write_bytes(small_disk / "a.bin", bytes(needed))
    assert error.value.filename == str(small_disk / "a.bin")
    assert [path.name for path in small_disk.iterdir()] == ["filler"]
    (small_disk / "filler").unlink()
    write_image(image, small_disk / "a.jpg")
    with Image.open(small_disk / "a.jpg") as written:
        written.load()


KILLED = """
import os, signal, sys
from treeformer._util.files import atomic_write
with atomic_write(sys.argv[1]) as temporary:
    temporary.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(os.name != "posix", reason="process numbers are checked on POSIX only")
def test_leftovers_of_killed_processes_are_removed(tmp_path):
    for name in ("a.jpg", "deep/er/no suffix", "deep/ä.b.json"):
        killed = subprocess.run([sys.executable, "-c", KILLED, tmp_path / name])
        assert killed.returncode == -signal.SIGKILL
    assert len([path for path in tmp_path.rglob(".*") if path.is_file()]) == 3
    assert remove_leftovers(tmp_path) == 3
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert remove_leftovers(tmp_path) == 0
    assert remove_leftovers(tmp_path / "missing") == 0


@pytest.mark.skipif(os.name != "posix", reason="process numbers are checked on POSIX only")
def test_other_files_stay(tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    kept = [
        f".a-{gone.pid}-0123456789abcde.jpg",  # too short
        f".a-{gone.pid}-0123456789abcdeg.jpg",  # not hexadecimal
        f".a-{gone.pid}-0123456789abcdef.jpg.bak",
        f"a-{gone.pid}-0123456789abcdef.jpg",
        ".a-x-0123456789abcdef.jpg",
        ".a-0-0123456789abcdef.jpg",  # process 0 is this process group
        f".a-{os.getppid()}-0123456789abcdef.jpg",
        f".old-{gone.pid}-drawings",
    ]
    for name in kept:
        (tmp_path / name).write_text("")
    (tmp_path / f".folder-{gone.pid}-0123456789abcdef").mkdir()
    (tmp_path / f".link-{gone.pid}-0123456789abcdef").symlink_to(tmp_path / kept[0])
    before = set(tmp_path.iterdir())
    assert remove_leftovers(tmp_path) == 0
    assert set(tmp_path.iterdir()) == before
    (tmp_path / f".a-{gone.pid}-0123456789abcdef.jpg").write_text("")
    assert remove_leftovers(tmp_path) == 1


def test_files_that_are_being_written_stay(tmp_path):
    with atomic_write(tmp_path / "a.txt") as temporary:
        assert TEMPORARY_NAME.fullmatch(temporary.name)[1] == str(os.getpid())
        temporary.write_text("text")
        assert remove_leftovers(tmp_path) == 0
    assert (tmp_path / "a.txt").read_text() == "text"
    # Of an earlier process with the same number, as in a container.
    temporary.write_text("half")
    assert remove_leftovers(tmp_path) == 1
    assert not files._in_use


@pytest.mark.skipif(os.name != "posix", reason="pipes need POSIX")
def test_only_regular_files_are_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").touch()
    check_is_regular_file(tmp_path / "file")
    with pytest.raises(OSError, match="Not a regular file"):
        check_is_regular_file(tmp_path / "pipe")
    with pytest.raises(IsADirectoryError):
        check_is_regular_file(tmp_path)
    with pytest.raises(FileNotFoundError):
        check_is_regular_file(tmp_path / "missing")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_the_checksum_of_a_file_is_that_of_its_bytes(tmp_path):
    file = tmp_path / "a.bin"
    file.write_bytes(bytes(range(256)) * 5000)  # more than one block
    assert sha256(file) == hashlib.sha256(file.read_bytes()).hexdigest()
    with pytest.raises(FormatError, match=r"none: cannot be read \(No such file"):
        sha256(tmp_path / "none")


def test_a_name_that_is_too_long_is_no_file(tmp_path):
    (tmp_path / "a").write_bytes(b"")
    assert [is_file(tmp_path / name) for name in ("a", "b", "l" * 300)] == [True, False, False]


def test_windows_gets_time_to_close_a_file(tmp_path, monkeypatch):
    """There, nobody can replace a file that another program has open. Virus scanners open every new one."""
    refusals = 0

    def replace(self, target, rename=Path.replace):
        nonlocal refusals
        if refusals < 3:
            refusals += 1
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self), None, str(target))
        return rename(self, target)

    (tmp_path / "a").write_bytes(b"old")
    monkeypatch.setattr(Path, "replace", replace)
    with pytest.raises(PermissionError):  # elsewhere it means something else
        atomic_write_bytes(tmp_path / "a", b"new")
    monkeypatch.setattr(files, "IS_WINDOWS", True)
    atomic_write_bytes(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"new"
    refusals = -(10**9)
    monkeypatch.setattr(files, "REPLACE_S", 0.1)
    with pytest.raises(PermissionError) as error:
        atomic_write_bytes(tmp_path / "a", b"newer")
    assert error.value.filename == str(tmp_path / "a")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
