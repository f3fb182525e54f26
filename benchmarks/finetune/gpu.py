"""`gpu` runs `treeformer finetune` on a GPU, several runs side by side, and measures the model folders."""

from __future__ import annotations

import argparse
import csv
import itertools
import multiprocessing
import os
import shutil
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, fields
from pathlib import Path

from benchmarks.finetune.domains import CACHE, domain_images

from treeformer.errors import TreeformerError
from treeformer.inference.predictor import Predictor
from treeformer.metrics.report import Case, evaluate_cases
from treeformer.teaching import full_training
from treeformer.teaching.finetune import finetune
from treeformer.teaching.measuring import predict_images

MEASURES = ("topo_paper_f1", "topo_f1", "length_error")


@dataclass(frozen=True)
class Job:
    """One run.

    Attributes:
        domain: the domain, see `domain_images`.
        model: the start model.
        images: number of annotated images.
        choice: which images: 0 are the first, 1 the next, …
        steps: optimizer steps of the schedule.
        rate: peak learning rate.
        patient: do not stop if validation no longer improves.
    """

    domain: str
    model: str
    images: int
    choice: int
    steps: int
    rate: float
    patient: bool


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `gpu`."""
    parser.add_argument("--domain", default="vineyard")
    parser.add_argument("--model", default="default", help="start model, which has not seen the domain")
    parser.add_argument("--images", type=int, nargs="+", default=[10])
    parser.add_argument("--choices", type=int, default=1, help="runs with other images")
    parser.add_argument("--steps", type=int, nargs="+", default=[full_training.STEPS])
    parser.add_argument("--rates", type=float, nargs="+", default=[full_training.LEARNING_RATE])
    parser.add_argument("--patient", action="store_true", help="do not stop if validation no longer improves")
    parser.add_argument("--max-minutes", type=float, default=5.0, help="time limit of each run")
    parser.add_argument("--parallel", type=int, default=1, help="runs at the same time")
    parser.add_argument("--split", default="valid", help="split of the images to measure: valid or test")
    parser.add_argument("--count", type=int, default=40, help="images to measure")
    parser.add_argument("--side", type=int, default=512, help="side of images and input, px")
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("-o", "--output", type=Path, required=True)


def main(args: argparse.Namespace) -> None:
    """Measure the start model, run all jobs, and write one row for each as it ends."""
    jobs = [
        Job(args.domain, args.model, images, choice, steps, rate, args.patient)
        for images, choice, steps, rate in itertools.product(args.images, range(args.choices), args.steps, args.rates)
    ]
    domain_images(args.domain, args.split, args.count, args.cache, args.side)  # rendered once, not by every process
    domain_images(args.domain, "train", max(args.images) * args.choices, args.cache, args.side)
    names = [*(field.name for field in fields(Job)), "minutes", "threshold", *MEASURES]
    args.output.parent.mkdir(parents=True, exist_ok=True)
    pool = ProcessPoolExecutor(args.parallel, multiprocessing.get_context("spawn"), _take_cores, (args.parallel,))
    with args.output.open("w", newline="", encoding="utf-8") as file, pool:
        table = csv.DictWriter(file, names)
        table.writeheader()
        running = [pool.submit(_measured, args, args.model), *(pool.submit(_run, args, job) for job in jobs)]
        for done in as_completed(running):
            try:
                row = done.result()
            except Exception as error:  # the other runs go on
                print(f"a run failed: {error}", flush=True)
                continue
            table.writerow(row)
            file.flush()
            print(*(f"{name} {value}" for name, value in row.items()), flush=True)


def _take_cores(parallel: int) -> None:
    """Use a share of the cores in this process: otherwise each run would start as many threads as there are cores."""
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        number = multiprocessing.current_process()._identity[-1] - 1  # processes are numbered from 1
        share = max(1, len(cores) // parallel)
        first = number * share % len(cores)
        os.sched_setaffinity(0, cores[first : first + share])


def _run(args: argparse.Namespace, job: Job) -> dict[str, object]:
    """Fine-tune in this process and return the row of the table."""
    full_training.STEPS, full_training.LEARNING_RATE = job.steps, job.rate
    full_training.VALIDATE_EVERY = max(1, job.steps // 10)
    if job.patient:
        full_training.PATIENCE = 1000
    first = job.choice * job.images
    pool = domain_images(job.domain, "train", first + job.images, args.cache, args.side)[first:]
    name = "-".join(str(getattr(job, field.name)) for field in fields(Job)).replace("/", "_")
    folder, output = args.cache / f"images-{name}", args.cache / f"model-{name}"
    for old in (folder, output):
        shutil.rmtree(old, ignore_errors=True)
    folder.mkdir(parents=True)
    for image in pool:
        for path in (image.path, image.skeleton_file):
            shutil.copy(path, folder)
    began = time.monotonic()
    try:
        finetune(folder, output, start=job.model, max_minutes=args.max_minutes)
    except TreeformerError as error:
        return {**vars(job), "threshold": str(error)}
    minutes = (time.monotonic() - began) / 60
    return {**_measured(args, output), **vars(job), "minutes": f"{minutes:.1f}"}


def _measured(args: argparse.Namespace, model: str | Path) -> dict[str, object]:
    """Return the figures of a model on the images of the domain."""
    images = domain_images(args.domain, args.split, args.count, args.cache, args.side)
    predictor = Predictor(model)
    trees = predict_images(predictor, images)
    cases = [Case(image.name, tree, image.skeleton, None) for image, tree in zip(images, trees, strict=True)]
    summary = evaluate_cases(cases, workers=1).summary
    figures = {name: f"{summary[name].value:.3f}" for name in MEASURES}
    return {"domain": args.domain, "model": str(model), "threshold": predictor.model.config.node_threshold, **figures}
