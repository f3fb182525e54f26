"""A lock between processes: exclusive, released when the holder ends, and no obstacle if it cannot be had."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from treeformer._util.locks import file_lock, take_lock

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


def test_a_lock_is_taken_once_until_it_is_released(tmp_path):
    path = tmp_path / "sub" / "lock"
    handle = take_lock(path)
    assert handle is not None
    assert take_lock(path) is None
    os.close(handle)
    handle = take_lock(path)
    assert handle is not None
    os.close(handle)
