"""Run a job: plan its images, then predict the unfinished tasks in this process or with Ray."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from treeformer._util.progress import ProgressCallback
from treeformer.errors import TreeformerError
from treeformer.hub.model_folder import open_model
from treeformer.inference import provenance
from treeformer.inference.cluster import job as jobs
from treeformer.inference.cluster import manifest
from treeformer.inference.cluster.collect import failed_ids
from treeformer.inference.cluster.job import Job
from treeformer.inference.cluster.manifest import Task
from treeformer.inference.cluster.rows import format_endings
from treeformer.inference.cluster.sources import list_images
from treeformer.inference.cluster.storage import Folder
from treeformer.inference.cluster.worker import PredictorMaker, TaskRunner, load_predictor
from treeformer.inference.options import PredictionOptions
from treeformer.inference.views import check_views
from treeformer.traits import check_px_per_mm


@dataclass(frozen=True)
class RunReport:
    """The result of a run."""

    images: int  # images that this run predicted
    failed: int  # images with an error


def plan(
    folder: Folder,
    job: Job,
    sources: Sequence[str] = (),
    *,
    task_images: int | None = None,
    retry_failed: bool = False,
    model_hash: str | None = None,
) -> list[Task]:
    """List the images, add those that are new to the plan, and return the tasks without results.

    Without sources, see `list_images`, the plan stays as it is. With `retry_failed`, images whose result is an error
    are planned again. The hash of the model saves opening the model of the job.
    """
    if model_hash is None:
        model = open_model(job.model)
        PredictionOptions(model, job.working_size, job.single_plant, job.min_confidence)  # checks the values
        model_hash = provenance.model_hash(model)
    check_views(job.views)
    format_endings(job.formats)
    check_px_per_mm(job.px_per_mm)
    if not sources:
        jobs.read_planned_settings(folder)
    folder.check_writable()
    settings_hash = jobs.open_job(folder, job, model_hash)
    if sources:
        images = list_images(sources, without=folder.path)
        manifest.add_images(folder, images, settings_hash, task_images=task_images)
    if retry_failed:
        manifest.add_again(folder, failed_ids(folder))
    return manifest.unfinished(folder)


def parse_shard(text: str) -> tuple[int, int]:
    """Parse "i/n", such as "1/8" for the first of eight shards, to the number of the shard, from 0, and of shards."""
    match = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise TreeformerError(f"a shard is given as i/n with i from 1 to n, such as 1/8, not {text!r}")
    return int(match[1]) - 1, int(match[2])


def predict_shard(
    folder: Folder,
    job: Job,
    tasks: Sequence[Task],
    shard: tuple[int, int] = (0, 1),
    *,
    threads: int | None = None,
    workers: int = 2,
    batch: int | None = None,
    progress: ProgressCallback | None = None,
    make_predictor: PredictorMaker = load_predictor,
) -> RunReport:
    """Predict the tasks of one shard, (number from 0, number of shards), in this process.

    Task k belongs to shard k mod n. The division depends on numbers only, so n may change between runs. `threads` are
    those of the network, `workers` threads that read images ahead, `batch` the tiles per batch. `progress` counts
    images.
    """
    own = [task for task in tasks if task.number % shard[1] == shard[0]]
    if not own:
        return RunReport(0, 0)
    total, images, failed = sum(task.count for task in own), 0, 0
    runner = TaskRunner(folder, job, threads=threads, workers=workers, batch=batch, make_predictor=make_predictor)
    for report in runner.run(own):
        images, failed = images + report.images, failed + report.failed
        if progress is not None:
            progress(images, total)
    return RunReport(images, failed)
