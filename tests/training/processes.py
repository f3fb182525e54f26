"""A training run in a process of its own, with those that it starts."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

# Sums over several threads come out differently each time, in the last bits.
ONE_THREAD = os.environ | {"OMP_NUM_THREADS": "1"}


def command(config_file: Path, out: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "treeformer.training", str(config_file), str(out), "--accelerator", "cpu", *arguments]


def wait_for(happened: Callable[[], bool], process: subprocess.Popen) -> None:
    while not happened():
        assert process.poll() is None
        time.sleep(0.02)


def end_all(number: int, once: Callable[[], bool], started: list[str]) -> None:
    """Run a command and send a signal to all its processes once something has happened: they end without a word."""
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(started, env=ONE_THREAD, start_new_session=True, **pipes)
    wait_for(once, process)
    os.killpg(process.pid, number)
    assert "Traceback" not in process.communicate(timeout=120)[1]
    assert process.returncode == 130
