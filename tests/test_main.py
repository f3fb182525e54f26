"""The `treeformer` command from its first line on: Ctrl-C is one line, however little is imported yet."""

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

# What `pip` makes of the entry point, after the start of Python itself, in which nothing of ours can be said. A shell
# that starts the tests in the background may have SIGINT ignored, and processes inherit that.
START = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from treeformer.__main__ import main
"""
# An import that takes long, and three places where it may be just then.
SLOW_IMPORT = """
class SlowImport:
    def find_spec(self, name, *_):
        if name == MODULE:
            print("started", flush=True)
            PLACE()

def plainly():
    for _ in range(6000):
        time.sleep(0.01)  # a signal just before a long sleep would not wake it

def where_exceptions_are_only_reported():
    class Garbage:
        def __del__(self):
            plainly()
    Garbage()

def where_a_class_is_made():
    class Field:
        def __set_name__(self, *_):
            plainly()
    class Made:
        field = Field()

sys.meta_path.insert(0, SlowImport())
main()
"""


def interrupted(program: str, *arguments: object, delay_s: float = 0.0) -> str:
    """What a program that prints a line and goes on says on standard error when Ctrl-C comes that much later."""
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
    # Where it came inside of exec(), as in the making of a dataclass, Python ends by the signal: 130 to a shell, too.
    assert process.returncode in (130, -signal.SIGINT), errors
    return errors


def interrupt(process: subprocess.Popen[str], times: int = 3) -> str:
    """Compiled modules of SciPy swallow about one Ctrl-C in a hundred while they are imported: one presses again."""
    process.send_signal(signal.SIGINT)
    try:
        return process.communicate(timeout=10)[1]
    except subprocess.TimeoutExpired:
        if times == 1:
            raise
        return interrupt(process, times - 1)


@pytest.mark.parametrize("place", ["plainly", "where_exceptions_are_only_reported", "where_a_class_is_made"])
@pytest.mark.parametrize("module", ["treeformer.cli", "rich.progress", "numpy"])
def test_ctrl_c_in_an_import_is_one_line(module, place):
    program = START + SLOW_IMPORT.replace("MODULE", repr(module)).replace("PLACE", place)
    errors = interrupted(program, "formats")
    assert errors.startswith("treeformer: stopped")
    assert len(errors.splitlines()) == 1


@pytest.mark.parametrize("delay_s", [0.01, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0, 1.5])
def test_ctrl_c_at_any_moment_is_one_line(tmp_path, delay_s):
    program = START + "print('started', flush=True)\nmain()"
    errors = interrupted(program, "generate", tmp_path / "out", "--count", 100_000, "--workers", 0, delay_s=delay_s)
    assert errors.startswith("treeformer: stopped")
    assert len(errors.splitlines()) == 1


def test_the_command_that_is_installed_is_the_one_tested_here():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["scripts"] == {"treeformer": "treeformer.__main__:main"}
