"""Training runs in separate processes."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

# With several threads, sums differ in the last bits from run to run.
ONE_THREAD = os.environ | {"OMP_NUM_THREADS": "1"}
PRELOADED = ("lightning.fabric", "treeformer.training.command", "treeformer.training.loop", "tests.training.processes")

NEEDED = {"torch", "lightning", "numpy", "scipy", "PIL", "yaml"}
# All other packages that treeformer or its extras install. Machines for training may not have them.
OPTIONAL = (
    "typer", "rich", "click", "onnxruntime", "onnx", "onnxscript", "pandas", "networkx", "defusedxml", "tensorboard",
    "huggingface_hub", "matplotlib", "shapely", "pycocotools", "jsonschema", "lxml", "starlette", "uvicorn", "ray",
)  # fmt: skip
# Python runs this file at the start of every process.
BLOCK = """
import os, pathlib, sys
blocked, finders = {blocked!r}, list(sys.meta_path)
class Finder:
    # Blocked packages are absent: find_spec returns None, their metadata is missing, and importing them fails.
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in blocked:
            return None
        return next((spec for finder in finders if (spec := finder.find_spec(name, path, target))), None)
    def find_distributions(self, *context):
        for finder in finders:
            for found in getattr(finder, "find_distributions", lambda *_: ())(*context):
                if found.name.replace("-", "_") not in blocked:
                    yield found
sys.meta_path[:] = [Finder()]
for name in blocked:
    try:
        __import__(name)
    except ModuleNotFoundError:
        continue
    sys.exit(name + " is not blocked")
pathlib.Path(__file__).with_name(str(os.getpid()) + ".blocked").touch()
"""


def without_optional_packages(folder: Path) -> dict[str, str]:
    """Return an environment in which no process can import an optional package. Each leaves a file in the folder."""
    assert not NEEDED & set(OPTIONAL)
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(BLOCK.format(blocked=set(OPTIONAL)))
    return ONE_THREAD | {"PYTHONPATH": os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])}


def command(config_file: Path, out: Path, *arguments: str) -> list[str]:
    """Return the command line of a training run on the CPU."""
    return [sys.executable, "-m", "treeformer.training", *training_arguments(config_file, out, *arguments)]


def training_arguments(config_file: Path, out: Path, *arguments: str) -> list[str]:
    return [str(config_file), "-o", str(out), "--accelerator", "cpu", *arguments]


class ForkedProcess:
    """A process that is forked from one which has imported torch and Fabric.

    Importing them takes 12 s of CPU time, much longer than the runs of the tests. The process has its own process
    group and writes to a file.
    """

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(list(PRELOADED))
        descriptor, name = tempfile.mkstemp(prefix="treeformer-")
        os.close(descriptor)
        self._output = Path(name)
        self._process: BaseProcess = context.Process(target=_redirected, args=(name, function, *arguments))
        self._process.start()
        self.pid = self._process.pid or 0

    @property
    def exitcode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        """Return the exit code, None while the process runs."""
        return self._process.exitcode

    def join(self) -> None:
        self._process.join()

    def wait(self, timeout: float = 600) -> int:
        """Wait for the end and return the exit code."""
        self._process.join(timeout)
        assert self._process.exitcode is not None, "the process does not end"
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def output(self) -> str:
        """Wait for the end, remove the file with the output and return its text."""
        self.wait()
        text = self._output.read_text(errors="replace")
        self._output.unlink()
        return text


def _redirected(name: str, function: Callable[..., Any], *arguments: Any) -> None:
    os.setsid()
    descriptor = os.open(name, os.O_WRONLY | os.O_APPEND)
    for standard in (1, 2):
        os.dup2(descriptor, standard)
    sys.stdout, sys.stderr = (open(n, "w", buffering=1, closefd=False) for n in (1, 2))  # noqa: SIM115
    function(*arguments)


def _train(arguments: Sequence[str]) -> None:
    from treeformer.training.command import main

    sys.argv = ["train", *arguments]
    main()


class StartedProcess:
    """A process with a process group of its own, as a terminal or a scheduler starts it."""

    def __init__(self, arguments: Sequence[str]) -> None:
        with tempfile.NamedTemporaryFile(prefix="treeformer-", delete=False) as file:
            self._output = Path(file.name)
            self._process = subprocess.Popen(
                arguments, env=ONE_THREAD, start_new_session=True, stdout=file, stderr=subprocess.STDOUT
            )
        self.pid = self._process.pid

    @property
    def exitcode(self) -> int | None:
        return self._process.poll()

    def poll(self) -> int | None:
        """Return the exit code, None while the process runs."""
        return self._process.poll()

    def send_signal(self, number: int) -> None:
        self._process.send_signal(number)

    def output(self) -> str:
        """Wait for the end, remove the file with the output and return its text."""
        self._process.wait(600)
        text = self._output.read_text(errors="replace")
        self._output.unlink()
        return text


def start_training(config_file: Path, out: Path, *arguments: str) -> StartedProcess:
    """Start what `command` describes.

    A new interpreter, not a fork of one that has imported torch: worker processes of such a fork do not survive a
    signal to their group while they start.
    """
    return StartedProcess(command(config_file, out, *arguments))


def fork_training(config_file: Path, out: Path, *arguments: str) -> ForkedProcess:
    """Start what `command` describes as a fork, without worker processes."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    return ForkedProcess(_train, training_arguments(config_file, out, *arguments))


def wait_for(condition: Callable[[], bool], process: StartedProcess) -> None:
    """Wait until a condition is true while a process runs."""
    while not condition():
        assert process.poll() is None, process.output()
        time.sleep(0.02)


def signal_group(number: int, condition: Callable[[], bool], process: StartedProcess) -> None:
    """Send a signal to the group of a process once a condition is true, and check that it ends cleanly."""
    wait_for(condition, process)
    os.killpg(process.pid, number)
    output = process.output()
    assert "Traceback" not in output, output
    assert process.exitcode == 130
