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
    """The result of a run.

    Attributes:
        images: number of images that this run predicted.
        failed: how many of them have an error.
    """

    images: int
    failed: int


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

    Args:
        folder: folder for the results.
        job: the job; it must be the one that the folder was started with.
        sources: images, folders, lists, tables or tar shards; see `list_images`. None continues with the plan as it is.
        task_images: images per task, for new images. None chooses.
        retry_failed: also plan images again whose result is an error.
        model_hash: hash of the model. None opens the model of the job.

    Returns:
        The tasks that are to be done.

    Raises:
        TreeformerError: if the model, a source or an option is invalid, the folder belongs to another job, or there are
            neither sources nor a plan.
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
    """Parse "i/n", such as "1/8" for the first of eight shards.

    Returns:
        The number of the shard, from 0, and the number of shards.

    Raises:
        TreeformerError: if the text is not of this form, or i is not between 1 and n.
    """
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
    """Predict the tasks of one shard in this process.

    Task k belongs to shard k mod n. The division depends on numbers only, so n may change between runs.

    Args:
        folder: folder of the job.
        job: the job.
        tasks: the tasks that are to be done; see `plan`.
        shard: number of the shard, from 0, and number of shards.
        threads: number of CPU threads of the network, None for all.
        workers: number of threads that read images ahead.
        batch: tiles per batch, None lets the engine decide.
        progress: called with the number of finished images and the total.
        make_predictor: function that loads the model.

    Returns:
        The number of images.

    Raises:
        TreeformerError: if the model cannot be loaded, or the storage refuses a file.
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
