"""Training runs in separate processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

# With several threads, sums differ in the last bits from run to run.
ONE_THREAD = os.environ | {"OMP_NUM_THREADS": "1"}


def command(config_file: Path, out: Path, *arguments: str) -> list[str]:
    """Return the command line of a training run on the CPU."""
    return [
        sys.executable,
        "-m",
        "treeformer.training",
        str(config_file),
        "-o",
        str(out),
        "--accelerator",
        "cpu",
        *arguments,
    ]


def wait_for(condition: Callable[[], bool], process: subprocess.Popen) -> None:
    """Wait until a condition is true while a process runs."""
    while not condition():
        assert process.poll() is None
        time.sleep(0.02)


def signal_group(number: int, condition: Callable[[], bool], arguments: list[str]) -> None:
    """Run a command, send a signal to its process group once a condition is true, and check that it ends cleanly."""
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(arguments, env=ONE_THREAD, start_new_session=True, **pipes)
    wait_for(condition, process)
    os.killpg(process.pid, number)
    assert "Traceback" not in process.communicate(timeout=600)[1]
    assert process.returncode == 130
