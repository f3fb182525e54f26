"""A lock between processes: exclusive, released when the holder ends, and no obstacle if it cannot be had."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from treeformer._util.locks import file_lock, sole_lock, take_lock

HOLD = """
import sys, time
from pathlib import Path
from treeformer._util.locks import file_lock
with file_lock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_another_process_waits_until_the_holder_ends(tmp_path):
    path = tmp_path / "locks" / "save"
    with subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        begin = time.monotonic()
        with file_lock(path, timeout_s=0.3):  # gives up waiting
            assert time.monotonic() - begin >= 0.3
        holder.kill()
    with file_lock(path, timeout_s=0):
        pass


def test_a_folder_that_cannot_be_used_is_no_obstacle(tmp_path):
    (tmp_path / "file").write_text("")
    with file_lock(tmp_path / "file" / "lock"):
        pass


def test_a_sole_lock_is_refused_while_it_is_held_and_leaves_no_file(tmp_path):
    path = tmp_path / "locks" / "run"
    with sole_lock(path) as first, sole_lock(path) as second:
        assert (first, second) == (True, False)
    assert not path.exists()
    with sole_lock(path) as again:
        assert again
    hold = HOLD.replace("file_lock", "sole_lock")
    with subprocess.Popen([sys.executable, "-c", hold, str(path)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        with sole_lock(path) as is_ours:
            assert not is_ours
        holder.kill()
    with sole_lock(path) as is_ours:  # the file of the killed process is there
        assert is_ours


def test_a_lock_is_taken_once_until_it_is_released(tmp_path):
    path = tmp_path / "sub" / "lock"
    handle = take_lock(path)
    assert handle is not None
    assert take_lock(path) is None
    os.close(handle)
    handle = take_lock(path)
    assert handle is not None
    os.close(handle)
