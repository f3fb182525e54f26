"""`curve` runs `treeformer finetune` with several numbers and choices of images, and measures the model folders."""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TypeVar

import numpy as np
from benchmarks.finetune import domains, table
from benchmarks.finetune.choice import ranked
from benchmarks.finetune.domains import domain_images

from treeformer.errors import TreeformerError
from treeformer.finetuning import whole_network
from treeformer.finetuning.annotated import AnnotatedImage
from treeformer.finetuning.finetune import finetune
from treeformer.finetuning.measuring import predict_images
from treeformer.inference.predictor import Predictor
from treeformer.metrics import differences
from treeformer.metrics.report import Case, Report, evaluate_cases

MEASURES = ("topo_paper_f1", "topo_f1", "length_error")
GAINS = ("topo_paper_f1", "topo_f1")
ORDERS = ("random", "next")
TRAINING_IMAGES = 60  # of a domain, from which the choices are drawn
VALIDATION = ("valid_before", "valid_after")  # corrected F1 of the run's own validation images
RESULTS = (
    "minutes",
    "threshold",
    *VALIDATION,
    *MEASURES,
    *(f"{name}_{part}" for name in GAINS for part in ("gain", "low", "high")),
)

Rows = tuple[dict[str, float], ...]
Row = TypeVar("Row")


@dataclass(frozen=True)
class Job:
    """One run.

    Attributes:
        domain: the domain, see `domain_images`.
        model: the start model.
        images: number of annotated images; 0 measures the model itself.
        choice: seed of the images to choose from.
        order: "random", or "next" for the order of `treeformer next`.
        steps: optimizer steps of the schedule on a GPU.
        rate: peak learning rate on a GPU.
        patient: do not stop on a GPU if validation no longer improves.
        unannotated: number of further images without annotation that are used.
    """

    domain: str
    model: str
    images: int = 0
    choice: int = 0
    order: str = "random"
    steps: int = whole_network.STEPS
    rate: float = whole_network.LEARNING_RATE
    patient: bool = False
    unannotated: int = 0

    @property
    def key(self) -> tuple[str, ...]:
        """The job as it is written in a table."""
        return tuple(str(value) for value in asdict(self).values())


COLUMNS = (*(field.name for field in fields(Job)), *RESULTS)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `curve`."""
    domains.arguments(parser)
    parser.add_argument("--reference", help="model trained on the whole domain: the gains are a share of its gain")
    parser.add_argument("--images", type=int, nargs="+", default=[10])
    parser.add_argument("--choices", type=int, default=1, help="runs with other images")
    parser.add_argument("--order", nargs="+", choices=ORDERS, default=["random"])
    parser.add_argument("--pool", type=int, default=30, help="random images per choice from which `next` may choose")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--steps", type=int, nargs="+", default=[whole_network.STEPS])
    parser.add_argument("--rates", type=float, nargs="+", default=[whole_network.LEARNING_RATE])
    parser.add_argument("--patient", action="store_true", help="do not stop if validation no longer improves")
    parser.add_argument("--max-minutes", type=float, help="time limit of each run")
    parser.add_argument(
        "--unannotated", type=int, nargs="+", default=[0], help="further images without annotation, on a GPU"
    )


def main(args: argparse.Namespace) -> None:
    """Measure the start model and the reference, run the jobs that the table lacks, and print a summary."""
    combinations = itertools.product(
        args.images, range(args.choices), args.order, args.steps, args.rates, args.unannotated
    )
    jobs = [
        Job(args.domain, args.model, images, choice, order, steps, rate, args.patient, unannotated)
        for images, choice, order, steps, rate, unannotated in combinations
    ]
    domain_images(args.domain, args.split, args.count, args.cache, args.side)  # written once, not by every process
    domain_images(args.domain, "train", TRAINING_IMAGES + max(args.unannotated), args.cache, args.side)
    done = {job_key(row) for row in table.read_rows(args.output)}
    with ProcessPoolExecutor(
        args.parallel, multiprocessing.get_context("spawn"), take_cores, (args.parallel,)
    ) as processes:
        models = [name for name in (args.model, args.reference) if name]
        measured = {name: processes.submit(_measured, args, name) for name in models}
        start = measured[args.model].result()[1]
        for name, future in measured.items():
            if (job := Job(args.domain, name)).key not in done:
                table.append(args.output, {**asdict(job), **future.result()[0]}, COLUMNS)
        running = [processes.submit(_run, args, job, start) for job in jobs if job.key not in done]
        for row in results(running):
            table.append(args.output, row, COLUMNS)
            print(*(f"{name} {value}" for name, value in row.items()), flush=True)
    print("\n".join(summary(table.read_rows(args.output), args.domain, args.model, args.reference)))


def job_key(row: dict[str, str]) -> tuple[str, ...]:
    """Return `Job.key` of a row of the table."""
    return tuple(row[field.name] for field in fields(Job))


def summary(rows: Sequence[dict[str, str]], domain: str, model: str, reference: str | None) -> Iterator[str]:
    """Yield a Markdown table: per number of images the mean over the choices with its range, and the share of the gap.

    F1 is that of the paper's code / corrected.
    """
    rows = [row for row in rows if row["domain"] == domain and row["topo_f1"]]
    known = {row["model"]: row for row in rows if row["images"] == "0"}
    yield "| images | others | order | runs | F1, mean | range | share of the gap |"
    yield "|" + " --- |" * 7
    for name, label in ((model, "start model"), (reference, "trained on all images")):
        if name in known:
            yield f"| {label} | | | | {' / '.join(known[name][measure] for measure in GAINS)} | | |"
    own = [row for row in rows if row["model"] == model and row["images"] != "0"]
    groups = sorted({(int(row["images"]), int(row["unannotated"]), row["order"]) for row in own})
    for images, others, order in groups:
        key = (str(images), str(others), order)
        group = [row for row in own if (row["images"], row["unannotated"], row["order"]) == key]
        values = [[float(row[measure]) for row in group] for measure in GAINS]
        means = " / ".join(f"{np.mean(column):.3f}" for column in values)
        ranges = " / ".join(f"{min(column):.3f} to {max(column):.3f}" for column in values)
        shares = "-"
        if reference in known:
            gaps = [float(known[reference][measure]) - float(known[model][measure]) for measure in GAINS]
            gains = [np.mean([float(row[f"{measure}_gain"]) for row in group]) for measure in GAINS]
            shares = " / ".join(f"{gain / gap:.0%}" if gap > 0 else "-" for gain, gap in zip(gains, gaps, strict=True))
        yield f"| {images} | {others} | {order} | {len(group)} | {means} | {ranges} | {shares} |"


def chosen_images(pool: Sequence[AnnotatedImage], job: Job, size: int) -> list[AnnotatedImage]:
    """Return the images that are annotated.

    Args:
        pool: all training images of the domain.
        job: the run.
        size: number of random images, others for each choice, from which the order takes the first ones.
    """
    indices = np.random.default_rng([job.choice, 7]).permutation(len(pool))[:size]
    images = [pool[index] for index in indices]
    if job.order == "next":
        predictions = predict_images(Predictor(job.model), images)
        images = [images[index] for index, _ in ranked(predictions, images)]
    return images[: job.images]


def others_than(chosen: Sequence[AnnotatedImage], pool: Sequence[AnnotatedImage], count: int) -> list[AnnotatedImage]:
    """Return the first images of a pool that are not among the chosen ones."""
    names = {image.name for image in chosen}
    return [image for image in pool if image.name not in names][:count]


def copy_images(images: Sequence[AnnotatedImage], cache: Path, name: str) -> tuple[Path, Path]:
    """Copy the images of a run to a folder of their own. Results of an earlier run of this name are removed.

    Returns:
        The folder of the images, and that of the model, which does not exist.
    """
    name = name.replace("/", "_")
    folder, output = cache / f"images-{name}", cache / f"model-{name}"
    for old in (folder, output):
        shutil.rmtree(old, ignore_errors=True)
    folder.mkdir(parents=True)
    for image in images:
        for path in (image.path, image.skeleton_file):
            shutil.copy(path, folder)
    return folder, output


def results(running: Sequence[Future[Row]]) -> Iterator[Row]:
    """Yield the results of runs as they end, without those of failed runs."""
    for done in as_completed(running):
        try:
            yield done.result()
        except Exception as error:  # the other runs go on
            print(f"a run failed: {error}", flush=True)


def append_rows(
    args: argparse.Namespace,
    columns: Sequence[str],
    work: Callable[..., list[dict[str, object]]],
    jobs: Sequence[tuple[object, ...]],
) -> None:
    """Run jobs in --parallel processes and append the rows of each to the table as it ends."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(args.parallel, context, take_cores, (args.parallel,)) as processes:
        for rows in results([processes.submit(work, args, *job) for job in jobs]):
            for row in rows:
                table.append(args.output, row, columns)


def take_cores(parallel: int) -> None:
    """Use a share of the cores in this process: otherwise each run would start as many threads as there are cores."""
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        number = multiprocessing.current_process()._identity[-1] - 1  # processes are numbered from 1
        share = max(1, len(cores) // parallel)
        first = number * share % len(cores)
        os.sched_setaffinity(0, cores[first : first + share])


def _run(args: argparse.Namespace, job: Job, start: Rows) -> dict[str, object]:
    """Fine-tune in this process and return the row of the table."""
    whole_network.STEPS, whole_network.LEARNING_RATE = job.steps, job.rate
    whole_network.VALIDATE_EVERY = max(1, job.steps // 10)
    if job.patient:
        whole_network.PATIENCE = 1000
    pool = domain_images(job.domain, "train", TRAINING_IMAGES + job.unannotated, args.cache, args.side)
    chosen = chosen_images(pool[:TRAINING_IMAGES], job, args.pool)
    folder, output = copy_images(chosen, args.cache, "-".join(job.key))
    for image in others_than(chosen, pool, job.unannotated):
        shutil.copy(image.path, folder)
    began = time.monotonic()
    try:
        outcome = finetune(
            folder,
            output,
            start=job.model,
            max_minutes=args.max_minutes,
            device=args.device,
            unannotated=job.unannotated > 0,
        )
    except TreeformerError as error:
        return {**asdict(job), "threshold": str(error)}
    minutes = (time.monotonic() - began) / 60
    figures, rows = _measured(args, output)
    gains = differences(rows, start)
    figures |= {
        f"{measure}_{part}": f"{getattr(gains[measure], attribute):+.3f}"
        for measure in GAINS
        for part, attribute in (("gain", "value"), ("low", "low"), ("high", "high"))
    }
    validated = (f"{scores['topo_f1']:.3f}" for scores in (outcome.before, outcome.after))
    return {**asdict(job), **figures, **dict(zip(VALIDATION, validated, strict=True)), "minutes": f"{minutes:.1f}"}


def _measured(args: argparse.Namespace, model: str | Path) -> tuple[dict[str, object], Rows]:
    """Return the figures of a model on the images of the domain, and the metrics of each image."""
    images = domain_images(args.domain, args.split, args.count, args.cache, args.side)
    report, threshold = measured_on(images, model)
    figures = {name: f"{report.summary[name].value:.3f}" for name in MEASURES}
    return {"threshold": threshold, **figures}, report.rows


def measured_on(images: Sequence[AnnotatedImage], model: str | Path) -> tuple[Report, float]:
    """Return the measures of a model on annotated images, and its node threshold."""
    predictor = Predictor(model)
    trees = predict_images(predictor, images)
    cases = [Case(image.name, tree, image.skeleton, None) for image, tree in zip(images, trees, strict=True)]
    return evaluate_cases(cases, workers=1), predictor.model.config.node_threshold
