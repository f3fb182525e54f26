"""Predict the tasks of a job with Ray Data: a pool of actors, each of which holds one model.

Tasks travel as rows of three numbers; an actor reads images from the storage and writes part files to it. A task whose
actor or node dies fails at once, instead of waiting for a replacement that a cluster without a free node never gets.
Ray Data goes on with the other tasks. What has no part file at the end is done in the next round.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa
import ray
import ray.data
from ray.exceptions import RayError

from treeformer._util.progress import ProgressCallback
from treeformer.errors import TreeformerError
from treeformer.inference.cluster.job import Job
from treeformer.inference.cluster.manifest import PARTS, Task
from treeformer.inference.cluster.run import RunReport
from treeformer.inference.cluster.storage import Folder
from treeformer.inference.cluster.worker import PredictorMaker, TaskRunner, load_predictor

# Tasks are sent to the actors in blocks. More blocks balance the load, fewer keep the stream of images unbroken.
BLOCKS_PER_ACTOR = 32
MAX_TASKS_PER_BLOCK = 64
# A round without any result is repeated this many times: a node that was lost may come back.
MAX_ROUNDS_WITHOUT_RESULT = 3

# Ray gives up if it does not start within 30 seconds, which is short on a busy computer.
START_ATTEMPTS = 3


class TaskActor:
    """An actor of the pool. Ray Data calls it with tables of tasks."""

    def __init__(self, folder: Folder, job: Job, options: dict[str, Any]) -> None:
        self.runner = TaskRunner(folder, job, **options)

    def __call__(self, table: pa.Table) -> Iterator[pa.Table]:
        """Predict tasks; yield one row per finished task. A storage error ends the table with a row that states it."""
        tasks = [Task(**row) for row in table.to_pylist()]
        try:
            for report in self.runner.run(tasks):
                yield pa.Table.from_pylist([asdict(report) | {"error": ""}], schema=REPORT_SCHEMA)
        except (TreeformerError, OSError) as error:
            row = {"part": "", "images": 0, "failed": 0, "error": " ".join(str(error).splitlines())}
            yield pa.Table.from_pylist([row], schema=REPORT_SCHEMA)


REPORT_SCHEMA = pa.schema(
    [("part", pa.string()), ("images", pa.int64()), ("failed", pa.int64()), ("error", pa.string())]
)


@contextlib.contextmanager
def connection(address: str | None = None, cpus: int | None = None) -> Iterator[None]:
    """Connect to a cluster, "auto" for the one on this computer, or start one with some CPUs; disconnect at the end."""
    if ray.is_initialized():
        yield
        return
    options: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
    if address is None:
        options |= {"num_cpus": cpus, "include_dashboard": False}
    for attempts_left in reversed(range(START_ATTEMPTS if address is None else 1)):
        try:
            ray.init(address=address or "local", **options)
            break
        except Exception as error:  # Ray's errors have no common base class
            if attempts_left == 0:
                reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
                raise TreeformerError(f"cannot connect to Ray ({reason})") from None
            ray.shutdown()
    try:
        yield
    finally:
        ray.shutdown()


def predict_with_ray(
    folder: Folder,
    job: Job,
    tasks: Sequence[Task],
    *,
    actors: int | None = None,
    cpus_per_actor: float = 1.0,
    gpus_per_actor: float = 0.0,
    workers: int = 2,
    batch: int | None = None,
    progress: ProgressCallback | None = None,
    make_predictor: PredictorMaker = load_predictor,
) -> RunReport:
    """Predict tasks with a pool of actors, in rounds, until every task has its part file. Needs a `connection`.

    All nodes read and write the folder. By default, there are as many actors as the cluster has CPUs or GPUs for, at
    the start of each round. The CPUs per actor are also its number of threads, rounded down, but at least 1; 0.5 GPUs
    let two actors share one, 0 predicts on the CPU. `workers` threads per actor read images ahead; `batch` is the
    number of tiles per batch. `progress` counts images. A round without progress is an error.
    """
    if cpus_per_actor <= 0 or gpus_per_actor < 0 or (actors is not None and actors < 1):
        raise TreeformerError("an actor needs CPUs, and a pool needs an actor")
    options = {"threads": max(1, int(cpus_per_actor)), "workers": workers, "batch": batch}
    arguments = {"folder": folder, "job": job, "options": {**options, "make_predictor": make_predictor}}
    resources = {"num_cpus": cpus_per_actor, "num_gpus": gpus_per_actor}
    total, images, failed = sum(task.count for task in tasks), 0, 0
    remaining, idle_rounds = list(tasks), 0
    while remaining:
        size = min(len(remaining), actors or _capacity(cpus_per_actor, gpus_per_actor))
        error = ""
        try:
            for row in _round(remaining, size, arguments, resources):
                error = row["error"] or error
                images, failed = images + row["images"], failed + row["failed"]
                if progress is not None:
                    progress(images, total)
        except RayError as failure:
            error = _reason(failure)
        finished = set(folder.names(PARTS))
        left = [task for task in remaining if task.part not in finished]
        idle_rounds = idle_rounds + 1 if len(left) == len(remaining) else 0
        if idle_rounds == MAX_ROUNDS_WITHOUT_RESULT:
            raise TreeformerError(f"{len(left)} of {len(tasks)} tasks cannot be done: {error or 'their actors die'}")
        remaining = left
        images = total - sum(task.count for task in left)  # reports of a node that died may be lost
    return RunReport(total, failed)


def _capacity(cpus: float, gpus: float) -> int:
    """Return how many actors the cluster can hold now."""
    available: dict[str, float] = ray.cluster_resources()
    by_cpu = math.floor(available.get("CPU", 0) / cpus + 1e-6)
    by_gpu = math.floor(available.get("GPU", 0) / gpus + 1e-6) if gpus else by_cpu
    if gpus and by_gpu == 0:
        raise TreeformerError("the cluster has no GPU: use --gpus-per-actor 0")
    return max(1, min(by_cpu, by_gpu))


def _round(
    tasks: list[Task], actors: int, arguments: dict[str, Any], resources: dict[str, float]
) -> Iterator[dict[str, Any]]:
    """Send all tasks through the pool once. Yield the reports of those that are finished."""
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    context.max_errored_blocks = -1
    context.execution_options.verbose_progress = False
    logging.getLogger("ray.data").setLevel(os.environ.get("TREEFORMER_RAY_LOG", "CRITICAL"))
    per_block = max(1, min(MAX_TASKS_PER_BLOCK, len(tasks) // (BLOCKS_PER_ACTOR * actors)))
    blocks = [
        pa.Table.from_pylist([asdict(task) for task in tasks[start : start + per_block]])
        for start in range(0, len(tasks), per_block)
    ]
    with warnings.catch_warnings():
        # Ray 2.64 drops the two last arguments without a replacement for them; pyproject.toml excludes it.
        warnings.simplefilter("ignore", DeprecationWarning)
        reports = ray.data.from_arrow(blocks).map_batches(
            TaskActor,
            batch_size=per_block,
            batch_format="pyarrow",
            compute=ray.data.ActorPoolStrategy(size=actors, max_tasks_in_flight_per_actor=2),
            fn_constructor_kwargs=arguments,
            **resources,
            max_restarts=-1,  # an actor that dies is started again, as soon as there is room,
            max_task_retries=0,  # but its tasks do not wait for it
        )
    yield from reports.iter_rows()


def _reason(error: RayError) -> str:
    """Return the last line of an error, which names the original exception."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:300] if lines else type(error).__name__
