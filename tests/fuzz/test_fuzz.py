"""A short run of `python -m tests.fuzz` with fixed cases, and checks that it finds defects and enforces its limits."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc and forks processes")


def fuzz(*arguments: str, code: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command line in a new process, after some code that plants a defect."""
    script = f"import sys, tests.fuzz.__main__ as fuzz\n{code}\nsys.exit(fuzz.main(sys.argv[1:]))"
    return subprocess.run([sys.executable, "-c", script, *arguments], cwd=ROOT, capture_output=True, text=True)


@pytest.mark.slow
def test_no_case_has_a_defect():
    done = fuzz("--files", "60", "--images", "50", "--folders", "4", "--jobs", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()}
    assert rows["file"][0] == "60"
    for kind in ("file", "image"):
        assert min(int(rows[kind][1]), int(rows[kind][2])) > 10, "most cases are refused, or most are accepted"


PLANTED = """
import tests.fuzz.cases as cases
def planted(seed, folder):
    if seed == 1:
        raise KeyError("gone")
    if seed == 2:
        raise cases.check_message(cases.TreeformerError("two\\nlines"))
    if seed == 3:
        while True:
            pass
    if seed == 4:
        bytearray(8 * 2**30)
    if seed == 5:
        bytearray(300 * 2**20)[::4096] = bytes(300 * 2**8)
    if seed == 6:
        import os
        os.abort()
    return seed == 0
cases.CASES["image"] = planted
import tests.fuzz.runner
tests.fuzz.runner.CPU_SECONDS = 2
tests.fuzz.runner.warm_up = lambda _folder: None
tests.fuzz.runner.MORE_MEMORY = 250 * 2**20
"""


@pytest.mark.slow
def test_defects_are_found_and_can_be_repeated():
    done = fuzz("--files", "0", "--images", "8", "--folders", "0", code=PLANTED)
    assert done.returncode == 1
    assert "foreign: KeyError: 'gone'" in done.stdout
    assert "    python -m tests.fuzz --case image:1\n" in done.stdout
    assert "foreign: AssertionError: the message is not one short line" in done.stdout
    assert "foreign: the process ended: SIGABRT" in done.stdout
    row = next(line.split() for line in done.stdout.splitlines() if line.split()[0] == "image")
    assert row[1:7] == ["8", "1", "1", "3", "1", "2"], done.stdout
    again = fuzz("--case", "image:1", code=PLANTED)
    assert again.returncode == 1
    assert "KeyError: 'gone'" in again.stderr


def test_cases_depend_on_their_seed_alone(tmp_path):
    from tests.fuzz.cases import document, generator, random_image, random_skeleton
    from tests.fuzz.mutations import mutate

    contents = []
    for folder in (tmp_path / "first", tmp_path / "second"):
        folder.mkdir()
        rng = generator("file", 5)
        data, _ = document(random_skeleton(rng), "rsml", folder)
        contents.append((mutate(data, rng), random_image(generator("image", 5), folder).read_bytes()))
    assert contents[0] == contents[1]
