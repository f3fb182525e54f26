"""Prediction with Ray on a local cluster of two nodes: whatever is killed, every image once, equal to `predict`."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

if find_spec("ray") is None:  # importing it takes seconds in every test process
    pytest.skip("ray is not installed", allow_module_level=True)
if os.name == "nt":
    pytest.skip("clusters run Linux", allow_module_level=True)

from PIL import Image

from tests.inference.cluster_runs import JOB, fake_predictor, make_plan, plain_results, results, run_shard, write_images
from treeformer import TreeformerError, synthetic
from treeformer.inference.cluster.manifest import PARTS
from treeformer.inference.cluster.storage import Folder
from treeformer.inference.predictor import Predictor

ROOT = Path(__file__).parents[3]
# `make test-long` runs the tests with kills. They take minutes with 60 images for the real model and 2,000 for the
# test engine. The last test is a run without kills; those of shards are killed in test_shards.py.
REAL_IMAGES = int(os.environ.get("TREEFORMER_CLUSTER_IMAGES", "8"))
SMALL_IMAGES = int(os.environ.get("TREEFORMER_CLUSTER_SMALL_IMAGES", "500"))
GIVE_UP_SECONDS = 900

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster():
    """Start a cluster of one node with one CPU. Tests add the second node."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("RAY_raylet_start_wait_time_s", "180")
        environment.setenv("RAY_memory_monitor_refresh_ms", "0")  # the memory of this machine is not ours alone
        environment.setenv("RAY_enable_metrics_collection", "0")
        environment.setenv("TEST_ENGINE_SECONDS", "0.02")
        environment.setenv(
            "PYTHONPATH", os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
        )
        started = Cluster()
        persistently(started.add_node, **node_options())
        yield started
        started.shutdown()


def persistently(start: Callable, **options):
    """Start a node. Ray gives up after 30 seconds, which is short on a busy computer."""
    for _ in range(4):
        try:
            return start(**options)
        except Exception as error:
            if "timed out" not in str(error):
                raise
    return start(**options)


def node_options() -> dict:
    return {"num_cpus": 1, "include_dashboard": False, "object_store_memory": 80_000_000}


@pytest.fixture
def second_node(cluster):
    node = persistently(cluster.add_node, **node_options())
    cluster.wait_for_nodes()
    yield node
    if node in cluster.list_all_nodes():
        cluster.remove_node(node, allow_graceful=False)


@pytest.fixture
def driver(cluster):
    """Return a function that starts a process which continues the plan in a folder. It is killed after the test."""
    started: list[subprocess.Popen] = []

    def start(output: Path, *command: str) -> subprocess.Popen:
        arguments = command or ("-m", "tests.inference.cluster_runs", cluster.address, str(output))
        started.append(subprocess.Popen([sys.executable, *arguments], cwd=ROOT))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def actors_of(node) -> list[int]:
    """Return the processes on a node that hold a model."""
    raylet = node.all_processes["raylet"][0].process.pid
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(status.read_text().rpartition(") ")[2].split()[1])
            name = (status.parent / "cmdline").read_bytes()
        except OSError:
            continue
        if parent == raylet and name.startswith(b"ray::") and b"TaskActor" in name:
            found.append(int(status.parent.name))
    return found


def wait_for(condition: Callable[[], object], process: subprocess.Popen) -> bool:
    """Wait until a condition holds. Return False if the process ends before."""
    begin = time.monotonic()
    while not condition():
        if process.poll() is not None:
            return False
        assert time.monotonic() - begin < GIVE_UP_SECONDS, "nothing happens"
        time.sleep(0.02)
    return True


def done(output: Path) -> int:
    return len(Folder.at(str(output)).names(PARTS))


@pytest.mark.long
def test_kills_of_actor_node_and_driver(cluster, second_node, driver, tmp_path):
    """Kills after random numbers of tasks. What is killed comes back, except the second node."""
    images, output = tmp_path / "images", tmp_path / "out"
    write_images(images, SMALL_IMAGES)
    (images / "broken.png").write_bytes(b"broken")
    tasks = make_plan(output, images)
    moments = sorted(random.sample(range(1, len(tasks) * 3 // 4), 4))
    print("kills after", moments, "of", len(tasks), "tasks")

    process = driver(output)
    assert wait_for(lambda: done(output) >= moments[0] and actors_of(cluster.head_node), process)
    os.kill(random.choice(actors_of(cluster.head_node)), signal.SIGKILL)
    assert wait_for(lambda: done(output) >= moments[1], process)
    process.kill()
    process.wait()

    process = driver(output)
    assert wait_for(lambda: done(output) >= moments[2], process)
    cluster.remove_node(second_node, allow_graceful=False)
    assert wait_for(lambda: done(output) >= moments[3], process)
    process.kill()
    process.wait()
    assert done(output) < len(tasks), "the last driver has work"

    process = driver(output)
    process.wait(GIVE_UP_SECONDS)
    assert process.returncode == 0
    rows = results(output)
    plain = plain_results(images, tmp_path / "plain", fake_predictor())
    assert len(plain) == SMALL_IMAGES
    assert {path: row["skeleton"] for path, row in rows.items()} == plain | {str(images / "broken.png"): None}


@pytest.mark.long
def test_the_real_model_gives_what_predict_gives(cluster, second_node, driver, tmp_path):
    """The command itself, with the default model; an actor is killed."""
    images, output = tmp_path / "images", tmp_path / "out"
    images.mkdir()
    for seed in range(REAL_IMAGES):
        plant = synthetic.generate("paper", 150_000 + seed)
        Image.fromarray(synthetic.render(plant, "paper", seed)).save(images / f"{seed}.png")
    command = ["-m", "treeformer", "predict-cluster", str(images), "-o", str(output), "--engine", "onnx"]
    process = driver(output, *command, "--address", cluster.address, "--task-images", "2", "--no-traits")
    assert wait_for(lambda: done(output) >= 1 and actors_of(second_node), process)
    os.kill(actors_of(second_node)[0], signal.SIGKILL)
    process.wait(GIVE_UP_SECONDS)
    assert process.returncode == 0
    plain = plain_results(images, tmp_path / "plain", Predictor("default", engine="onnx", threads=1))
    assert len(plain) == REAL_IMAGES
    assert {path: row["skeleton"] for path, row in results(output).items()} == plain


def test_a_storage_that_refuses_ends_the_run_with_one_line_and_another_run_completes_it(cluster, tmp_path):
    import ray

    from treeformer.inference.cluster.ray_run import connection, predict_with_ray

    write_images(tmp_path / "images", 3)
    output = tmp_path / "out"
    tasks = make_plan(output, tmp_path / "images", task_images=1)
    (output / PARTS).write_text("a file where a folder should be")
    options = {"cpus_per_actor": 0.5, "workers": 0, "make_predictor": fake_predictor}
    with connection(cluster.address), pytest.raises(TreeformerError, match="3 of 3 tasks cannot be done") as error:
        predict_with_ray(Folder.at(str(output)), JOB, tasks, **options)
    assert not ray.is_initialized()
    assert "cannot be written" in str(error.value)
    assert "\n" not in str(error.value)
    (output / PARTS).unlink()
    assert run_shard(output, tasks=tasks[:1]).images == 1, "shards continue what Ray began, and Ray what shards began"
    with connection(cluster.address):
        predict_with_ray(Folder.at(str(output)), JOB, tasks, **options)
    plain = plain_results(tmp_path / "images", tmp_path / "plain", fake_predictor())
    assert {path: row["skeleton"] for path, row in results(output).items()} == plain
