"""Fixtures shared by all tests: small named skeletons, real data if available, and the command line."""

from __future__ import annotations

import os

# Test processes run in parallel, one per core: more threads would slow each other down. Set before torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import gc
import signal
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import contextmanager
from importlib.util import cache_from_source, find_spec
from pathlib import Path

import pytest
from hypothesis import settings
from PIL import Image

import treeformer
from tests.strategies import EXAMPLES
from treeformer import Skeleton

# Collecting tests makes no garbage, and tests make little: Python looks for it seldom.
gc.disable()

# Shells start background jobs with Ctrl-C ignored. The programs that tests interrupt would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No deadlines, because times on shared machines are unreliable. In continuous integration a run must be repeatable.
settings.register_profile("random", deadline=None, max_examples=EXAMPLES)
settings.register_profile("repeatable", deadline=None, max_examples=EXAMPLES, derandomize=True)
settings.load_profile("repeatable" if os.environ.get("CI") else "random")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node) -> None:
    """Tell a worker of pytest-xdist whether torch was never imported, so that no package is compiled yet."""
    torch = find_spec("torch")
    compiled = torch is None or torch.origin is None or Path(cache_from_source(torch.origin)).exists()
    node.workerinput["first_imports"] = not compiled


@pytest.hookimpl(wrapper=True)
def pytest_collection(session):
    """Let one worker import everything before the others if nothing is compiled: otherwise each compiles it."""
    worker = getattr(session.config, "workerinput", {})
    if not worker.get("first_imports"):
        return (yield)
    with one_process_first(Path(tempfile.gettempdir()) / f"treeformer-{worker['testrunuid']}.lock"):
        return (yield)


def pytest_collection_finish() -> None:
    """Exclude modules and tests from garbage collection: half a million objects took half a second every time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


DATA_FOLDER = Path(os.environ.get("TREEFORMER_DATA", Path(__file__).parents[2] / "shared" / "data"))


@pytest.fixture(scope="session")
def real_data() -> Callable[[str], Path]:
    """Return the folder of a real data set by name; skip the test if it is missing."""

    def folder(name: str) -> Path:
        path = DATA_FOLDER / name
        if not path.is_dir():
            pytest.skip(f"no real data: {path} is missing (set TREEFORMER_DATA)")
        return path

    return folder


@pytest.fixture(scope="session")
def untrained_folder(tmp_path_factory) -> Path:
    """Return the model folder of `tests.models.untrained.network`, which is exported once for all test processes."""
    from tests.models.untrained import SIDE, THRESHOLDS, network
    from treeformer.models.export import save_pretrained

    root = tmp_path_factory.getbasetemp()
    root = root.parent if "PYTEST_XDIST_WORKER" in os.environ else root
    path, part = root / "untrained", root / "untrained.part"
    with one_process_at_a_time(root / "untrained.lock"):
        if not path.exists():
            save_pretrained(network(), part, input_size=SIDE, card="# Tiny\n\nUntrained.", **THRESHOLDS)
            part.rename(path)
    return path


@contextmanager
def one_process_at_a_time(path: Path):
    """Hold the lock of a file, if the operating system has such locks."""
    with path.open("a") as file:
        if os.name == "posix":
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def one_process_first(path: Path):
    """Make all processes but one wait for the end of its block, if the operating system has locks of files."""
    if os.name != "posix":
        yield
        return
    import fcntl

    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(file, fcntl.LOCK_SH)  # any number of processes at a time
        yield
        path.unlink(missing_ok=True)


@pytest.fixture(scope="module")
def one_thread():
    """Limit torch to one thread: parallel tests with more threads take ten times as long."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def y_shape() -> Skeleton:
    """A stem of 4 px and two arms of 5 px each; root at the bottom."""
    return Skeleton([(5, 9), (5, 5), (2, 1), (8, 1)], [(0, 1), (1, 2), (1, 3)], root=0, image_size=(10, 10))


@pytest.fixture
def comb() -> Skeleton:
    """A straight main axis of 40 px down the image and a tooth of 10 px to the right at 10, 20 and 30 px."""
    nodes = [(10, 0), (10, 10), (10, 20), (10, 30), (10, 40), (20, 10), (20, 20), (20, 30)]
    edges = [(0, 1), (1, 2), (2, 3), (3, 4), (1, 5), (2, 6), (3, 7)]
    return Skeleton(nodes, edges, root=0, image_size=(40, 50))


@pytest.fixture
def ring() -> Skeleton:
    """A square of four nodes and a tail: the smallest graph that is not a tree."""
    return Skeleton([(0, 0), (4, 0), (4, 4), (0, 4), (8, 4)], [(0, 1), (1, 2), (2, 3), (3, 0), (2, 4)])


@pytest.fixture
def run(capfd, monkeypatch):
    """Return a function that runs `treeformer ARGUMENTS` and returns exit code, standard output and error."""
    from treeformer.cli import main

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["treeformer", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
            sys.exit(0)
        out, err = capfd.readouterr()
        assert "Traceback" not in err
        return stop.value.code or 0, out, err

    return call


@pytest.fixture
def plants(tmp_path, comb, y_shape) -> Path:
    """Return a folder with two skeleton files, one with a space and an umlaut in its name, and an image."""
    folder = tmp_path / "Mühle 1"
    folder.mkdir()
    treeformer.write(comb, folder / "käm m.rsml")
    treeformer.write(y_shape, folder / "y.json")
    Image.new("RGB", (40, 50), "white").save(folder / "käm m.png")
    return folder
