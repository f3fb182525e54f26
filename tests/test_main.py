"""The `treeformer` command: Ctrl-C prints one line, even while modules are imported."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.name != "posix", reason="sends SIGINT to a process")

ROOT = Path(__file__).parents[1]

STOPPED = "treeformer: stopped; all files written so far are complete\n"

# The script that `pip` creates for the entry point. A shell that starts the tests in the background may ignore SIGINT,
# and processes inherit that.
START = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from treeformer.__main__ import main
"""
# A slow import, and three situations in which it may be interrupted.
SLOW_IMPORT = """
class SlowImport:
    def find_spec(self, name, *_):
        if name == MODULE:
            print("started", flush=True)
            PLACE()

def in_a_function():
    for _ in range(6000):
        time.sleep(0.01)  # a signal just before one long sleep would not interrupt it

def in_a_finalizer():
    class Garbage:
        def __del__(self):
            in_a_function()
    Garbage()

def in_a_class_definition():
    class Field:
        def __set_name__(self, *_):
            in_a_function()
    class Owner:
        field = Field()

sys.meta_path.insert(0, SlowImport())
main()
"""


def interrupted(program: str, *arguments: object, delay_s: float = 0.0) -> str:
    """Send Ctrl-C `delay_s` after a program has printed a line; return its standard error."""
    process = subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        time.sleep(delay_s)
        errors = interrupt(process)
    finally:
        process.kill()
    # Inside exec(), which creates dataclasses, Python ends by the signal; a shell reports 130 for it, too.
    assert process.returncode in (130, -signal.SIGINT), errors
    return errors


def interrupt(process: subprocess.Popen[str], times: int = 3) -> str:
    """Send Ctrl-C up to three times: compiled modules of SciPy ignore about one in a hundred during their import."""
    process.send_signal(signal.SIGINT)
    try:
        return process.communicate(timeout=60)[1]
    except subprocess.TimeoutExpired:
        if times == 1:
            raise
        return interrupt(process, times - 1)


@pytest.mark.slow
@pytest.mark.parametrize("place", ["in_a_function", "in_a_finalizer", "in_a_class_definition"])
@pytest.mark.parametrize("module", ["treeformer.cli", "rich.progress", "numpy"])
def test_ctrl_c_in_an_import_prints_one_line(module, place):
    program = START + SLOW_IMPORT.replace("MODULE", repr(module)).replace("PLACE", place)
    errors = interrupted(program, "formats")
    assert errors == STOPPED


# Ctrl-C arrives before each part of the line is written.
IMPATIENT = """
import _thread, io, os

class Impatient(io.TextIOBase):
    def write(self, text):
        os.kill(os.getpid(), signal.SIGINT)
        _thread.interrupt_main()
        return sys.__stderr__.write(text)

sys.stderr = Impatient()
"""


def test_ctrl_c_while_the_line_is_printed_is_ignored():
    program = START + IMPATIENT + SLOW_IMPORT.replace("MODULE", "'treeformer.cli'").replace("PLACE", "in_a_function")
    assert interrupted(program, "formats") == STOPPED


@pytest.mark.slow
@pytest.mark.parametrize("delay_s", [0.01, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0, 1.5])
def test_ctrl_c_at_any_moment_prints_one_line(tmp_path, delay_s):
    program = START + "print('started', flush=True)\nmain()"
    errors = interrupted(program, "generate", tmp_path / "out", "--count", 100_000, "--workers", 0, delay_s=delay_s)
    assert errors == STOPPED


def test_the_installed_command_is_the_tested_one():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["scripts"] == {"treeformer": "treeformer.__main__:main"}
