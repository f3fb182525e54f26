"""Run cases in processes of their own, with limits on CPU time and memory."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.fuzz.cases import CASES, warm_up

CPU_SECONDS = 10
# A case that waits, for example for a FIFO, uses no CPU time. The limit is generous, for busy machines.
WALL_SECONDS = 150.0
MORE_ADDRESS_SPACE = 3 * 2**30
MORE_MEMORY = 1.5 * 2**30

Result = Literal["refused", "accepted", "foreign", "time", "memory"]


@dataclass(frozen=True)
class Outcome:
    """The outcome of a case.

    Attributes:
        kind: the kind of the case.
        seed: its seed.
        result: "foreign" for an exception that is not a `TreeformerError`, and for a crash.
        detail: exception and place, or signal.
        cpu: CPU time, s.
        growth: peak of the resident memory above that at the start, bytes.
    """

    kind: str
    seed: int
    result: Result
    detail: str
    cpu: float
    growth: float


@dataclass
class _Child:
    kind: str
    seed: int
    folder: Path
    pipe: int
    deadline: float
    killed: bool = False


def run_cases(cases: Iterable[tuple[str, int]], jobs: int) -> Iterator[Outcome]:
    """Run cases in forked processes, `jobs` at a time, and yield the outcomes as the processes end.

    The calling process must have no threads.
    """
    waiting = iter(cases)
    running: dict[int, _Child] = {}
    with tempfile.TemporaryDirectory(prefix="treeformer-fuzz-") as name:
        warm_up(Path(name) / "warm-up")
        while True:
            while len(running) < jobs and (case := next(waiting, None)) is not None:
                process, child = _start(*case, Path(name))
                running[process] = child
            if not running:
                return
            for process, child in list(running.items()):
                ended, status, usage = os.wait4(process, os.WNOHANG)
                if ended:
                    del running[process]
                    yield _outcome(child, status, usage)
                elif time.monotonic() > child.deadline and not child.killed:
                    os.kill(process, signal.SIGKILL)
                    child.killed = True
            time.sleep(0.002)


def _start(kind: str, seed: int, base: Path) -> tuple[int, _Child]:
    folder = base / f"{kind}-{seed}"
    folder.mkdir()
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            os.close(reading)
            _run_in_child(kind, seed, folder, writing)
        finally:
            os._exit(70)
    os.close(writing)
    return process, _Child(kind, seed, folder, reading, time.monotonic() + WALL_SECONDS)


def _run_in_child(kind: str, seed: int, folder: Path, pipe: int) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    size, resident = (int(pages) * resource.getpagesize() for pages in Path("/proc/self/statm").read_text().split()[:2])
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 2))
    resource.setrlimit(resource.RLIMIT_AS, (size + MORE_ADDRESS_SPACE,) * 2)
    result, detail = run_case(kind, seed, folder)
    os.write(pipe, json.dumps([result, detail, resident]).encode()[:60_000])
    os._exit(0)


def run_case(kind: str, seed: int, folder: Path, raise_errors: bool = False) -> tuple[Result, str]:
    """Run one case in this process. Return its result, and exception and place if it is a defect."""
    # As in the test suite. Others, such as those of Pillow about broken metadata, are part of normal operation.
    warnings.simplefilter("ignore")
    warnings.filterwarnings("error", category=RuntimeWarning, module="treeformer")
    try:
        return ("accepted" if CASES[kind](seed, folder) else "refused"), ""
    except BaseException as error:
        if raise_errors:
            raise
        return ("memory" if isinstance(error, MemoryError) else "foreign"), _describe(error)


def _describe(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "/treeformer/" in frame.filename and "/tests/" not in frame.filename]
    where = (own or frames)[-1]
    place = "/".join(Path(where.filename).parts[-3:])
    message = (str(error).splitlines() or [""])[0][:160]
    return f"{type(error).__name__}: {message} ({place}:{where.lineno})"


def _outcome(child: _Child, status: int, usage: resource.struct_rusage) -> Outcome:
    with os.fdopen(child.pipe, "rb") as pipe:
        message = pipe.read()
    shutil.rmtree(child.folder, ignore_errors=True)
    cpu = usage.ru_utime + usage.ru_stime
    code = os.waitstatus_to_exitcode(status)
    scale = 1 if sys.platform == "darwin" else 1024
    result: Result
    if code == 0 and message:
        result, detail, resident = json.loads(message)
        growth = max(0.0, usage.ru_maxrss * scale - resident)
        if result in ("refused", "accepted") and growth > MORE_MEMORY:
            result, detail = "memory", f"used {growth / 2**30:.1f} GiB"
        return Outcome(child.kind, child.seed, result, detail, cpu, growth)
    if child.killed:
        result, detail = "time", f"took more than {WALL_SECONDS:.0f} s, CPU time {cpu:.1f} s"
    elif code in (-signal.SIGXCPU, -signal.SIGKILL) and cpu > CPU_SECONDS - 1:
        result, detail = "time", f"used more than {CPU_SECONDS} s of CPU time"
    else:
        name = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        result, detail = "foreign", f"the process ended: {name}"
    return Outcome(child.kind, child.seed, result, detail, cpu, 0.0)
