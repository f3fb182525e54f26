"""Files appear whole or not at all."""

from __future__ import annotations

import errno
import os

import pytest

from treeformer._util.files import atomic_write, check_writable
from treeformer.errors import TreeformerError


def test_a_file_appears_when_it_is_done(tmp_path):
    target = tmp_path / "new folder" / "ä b.txt"
    with atomic_write(target) as temporary:
        temporary.write_text("one")
        assert not target.exists()
        assert temporary.suffix == ".txt"
    assert target.read_text() == "one"
    assert target.stat().st_mode & 0o777 == 0o666 & ~_umask()
    assert list(target.parent.iterdir()) == [target]


def test_nothing_is_left_of_a_failure(tmp_path):
    target = tmp_path / "a.txt"
    target.write_text("old")
    with pytest.raises(KeyboardInterrupt), atomic_write(target) as temporary:
        temporary.write_text("half")
        raise KeyboardInterrupt
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_an_error_names_the_file_that_was_meant(tmp_path):
    (tmp_path / "file").write_text("in the way of a folder")
    target = tmp_path / "file" / "a.txt"
    with pytest.raises(OSError, match=r"a\.txt") as error, atomic_write(target):
        pass
    assert error.value.filename == str(target)
    assert isinstance(error.value, NotADirectoryError), "not that a file of this name exists"


def test_an_error_while_writing_names_the_file_that_was_meant(tmp_path):
    target = tmp_path / "a.txt"
    with pytest.raises(OSError, match="No space") as full, atomic_write(target):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert full.value.filename == str(target)
    target.mkdir()
    with pytest.raises(IsADirectoryError) as in_the_way, atomic_write(target):
        pass
    assert in_the_way.value.filename == str(target), "not the temporary file"
    with pytest.raises(FileNotFoundError) as another, atomic_write(target):
        (tmp_path / "other").read_text()
    assert another.value.filename == str(tmp_path / "other")
    with pytest.raises(OSError, match=r"^encoder error$"), atomic_write(target):
        raise OSError("encoder error")


def test_a_folder_is_checked_before_the_work(tmp_path):
    (tmp_path / "file").write_text("in the way of a folder")
    for place in (tmp_path, tmp_path / "new" / "newer"):
        check_writable(place)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    for place in (tmp_path / "file", tmp_path / "file" / "new"):
        with pytest.raises(TreeformerError, match="cannot be written to") as error:
            check_writable(place)
        assert str(error.value).startswith(str(place))


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
