"""`self-training` trains on ten images, labels others with the result, and trains again on both, without validation."""

from __future__ import annotations

import argparse
import dataclasses
import multiprocessing
import shutil
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.finetune import domains, table
from benchmarks.finetune.curve import MEASURES, TRAINING_IMAGES, Job, chosen_images, others_than, results, take_cores
from benchmarks.finetune.domains import domain_images
from benchmarks.finetune.gpu_factors import TRAINED

from treeformer._util.cores import usable_cores
from treeformer.hub.model_folder import ModelFolder, open_model
from treeformer.inference.predictor import Predictor
from treeformer.metrics import topo
from treeformer.metrics.report import Case, evaluate_cases
from treeformer.models.export import load_trained, load_weights
from treeformer.models.treeformer import TreeFormer
from treeformer.teaching import full_training, measuring, plan, pseudo_labels, views
from treeformer.teaching.annotated import AnnotatedImage
from treeformer.teaching.crops import CropSettings
from treeformer.teaching.progress import ignore, never

SPLITS = ("valid", "test")
STAGES = ("start model", "first", "second, from the first", "second, from the start model")
COLUMNS = (
    *("domain", "model", "choice", "others", "labeled", "label_f1", "stage", "split"),
    *(*MEASURES, "topo_precision", "topo_recall", "seconds"),
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `self-training`."""
    domains.arguments(parser)
    parser.add_argument("--choices", type=int, nargs="+", default=[0, 1, 2], help="seeds of the images to choose from")
    parser.add_argument("--others", type=int, default=100, help="images without annotation")


def main(args: argparse.Namespace) -> None:
    """Run all choices and print a summary: the mean F1 of each stage, of the paper's code / corrected."""
    for split in SPLITS:  # written once, not by every process
        domain_images(args.domain, split, args.count, args.cache, args.side)
    domain_images(args.domain, "train", TRAINING_IMAGES + args.others, args.cache, args.side)
    done = {row["choice"] for row in table.read_rows(args.output)}
    with ProcessPoolExecutor(
        args.parallel, multiprocessing.get_context("spawn"), take_cores, (args.parallel,)
    ) as processes:
        running = [processes.submit(_rows, args, choice) for choice in args.choices if str(choice) not in done]
        for rows in results(running):
            for row in rows:
                table.append(args.output, row, COLUMNS)
    print("\n".join(summary(table.read_rows(args.output))))


def summary(rows: list[dict[str, str]]) -> list[str]:
    """Return a Markdown table: per stage and split the F1 of the paper's code / corrected, precision and recall."""
    lines = ["| stage | runs | " + " | ".join(f"{split}, F1 | precision | recall" for split in SPLITS) + " |"]
    lines.append("|" + " --- |" * (2 + 3 * len(SPLITS)))
    for stage in STAGES:
        mine = [row for row in rows if row["stage"] == stage]
        if not mine:
            continue
        cells = []
        for split in SPLITS:
            here = [row for row in mine if row["split"] == split]
            means = {key: np.mean([float(row[key]) for row in here]) for key in (*MEASURES, *COLUMNS[-3:-1])}
            cells.append(" / ".join(f"{means[key]:.3f}" for key in MEASURES[:2]))
            cells += [f"{means[key]:.3f}" for key in ("topo_precision", "topo_recall")]
        lines.append(f"| {stage} | {len({row['choice'] for row in mine})} | " + " | ".join(cells) + " |")
    return lines


def _rows(args: argparse.Namespace, choice: int) -> list[dict[str, Any]]:
    """Train both times and return one row per stage and split."""
    start = open_model(args.model)
    everything = domain_images(args.domain, "train", TRAINING_IMAGES + args.others, args.cache, args.side)
    chosen = chosen_images(everything[:TRAINING_IMAGES], Job(args.domain, args.model, images=10, choice=choice), 30)
    others = others_than(chosen, everything, args.others)
    work = args.cache / f"self-training-{args.domain}-{choice}"
    shutil.rmtree(work, ignore_errors=True)
    rows: list[dict[str, Any]] = []
    known: dict[str, Any] = {"domain": args.domain, "model": args.model, "choice": choice, "others": len(others)}

    def note(stage: str, network: TreeFormer, began: float) -> None:
        seconds = time.monotonic() - began
        for split in SPLITS:
            row = {**known, "stage": stage, "split": split, "seconds": f"{seconds:.0f}"}
            rows.append(row | {key: f"{value:.4f}" for key, value in _measure(network, start, args, split).items()})
            print(*rows[-1].values(), flush=True)

    began = time.monotonic()
    if choice == args.choices[0]:
        note("start model", load_weights(start), began)
    began = time.monotonic()
    train = chosen[:TRAINED]
    weights = _train(start, train, [], str(start.path), work / "first", args.side)
    first = load_trained(weights)
    note("first", first, began)
    began = time.monotonic()
    labeled = _label(first, start, others, work / "labels")
    annotated = {image.path: image.skeleton for image in others}
    known |= {
        "labeled": len(labeled),
        "label_f1": f"{np.mean([topo(image.skeleton, annotated[image.path]).f1 for image in labeled]):.4f}",
    }
    print(known, f"labeling {time.monotonic() - began:.0f} s", flush=True)
    for stage, beginning in zip(STAGES[2:], (str(weights), str(start.path)), strict=True):
        began = time.monotonic()
        folder = work / stage.replace(" ", "-").replace(",", "")
        note(stage, load_trained(_train(start, train, labeled, beginning, folder, args.side)), began)
    shutil.rmtree(work)
    return rows


def _train(
    start: ModelFolder,
    images: list[AnnotatedImage],
    labeled: list[AnnotatedImage],
    beginning: str,
    folder: Path,
    side: int,
) -> Path:
    """Train as `treeformer finetune` does on a GPU, to the end of the schedule. Return the file of the weights."""
    grid = float(start.config.settings["grid_px"])  # type: ignore[arg-type]  # settings hold any JSON value
    crops = CropSettings(side, plan.MAX_TOKENS, grid_px=grid, synthetic_every=plan.SYNTHETIC_EVERY)
    sizes = plan.working_sizes(images, start.config)
    tokens = plan.choose_tokens(images, sizes, crops, load_weights(start).config.tokens)
    full_training.write_scaled(images, sizes, folder / "images", side)
    if labeled:
        full_training.write_scaled(labeled, plan.working_sizes(labeled, start.config), folder / "labeled", side)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    config = full_training.training_config(
        start,
        folder / "images",
        tokens,
        replace(crops, max_nodes=tokens - 8),
        learning_rate=full_training.LEARNING_RATE,
        workers=max(1, usable_cores() - 1) if device == "cuda" else 0,
        bf16=device == "cuda",
        pseudo=folder / "labeled" if labeled else None,
    )
    config = replace(config, start_from=beginning, validate_every=config.steps)
    best, _ = full_training.train_whole(
        config,
        folder / "run",
        minutes=60,
        device=device,
        measure=lambda model: {"topo_f1": 0.0},
        listen=ignore,
        should_stop=never,
    )
    assert best is not None
    return best


def _engine(network: TreeFormer, start: ModelFolder) -> tuple[views.RememberingEngine, ModelFolder]:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    folder = ModelFolder(start.path, replace(start.config, settings=dataclasses.asdict(network.config)), start.hashes)
    return views.RememberingEngine(measuring.LiveEngine(network.to(device), folder, device=device)), folder


def _label(network: TreeFormer, start: ModelFolder, others: list[AnnotatedImage], folder: Path) -> list[AnnotatedImage]:
    """Return the images on which views agree, with their labels."""
    engine, settings = _engine(network, start)
    folder.mkdir(parents=True)
    paths = [image.path for image in others]
    root = paths[0].parent
    agreement: dict[str, Any] = {}
    predictor = Predictor(settings, engine=engine)
    pseudo_labels.label_images(predictor, paths, root, folder, agreement, lambda count: False)
    return pseudo_labels.agreed(paths, root, folder, agreement)


def _measure(network: TreeFormer, start: ModelFolder, args: argparse.Namespace, split: str) -> dict[str, float]:
    images = domain_images(args.domain, split, args.count, args.cache, args.side)
    engine, settings = _engine(network, start)
    trees = measuring.predict_images(Predictor(settings, engine=engine), images)
    cases = [Case(image.name, tree, image.skeleton, None) for image, tree in zip(images, trees, strict=True)]
    report = evaluate_cases(cases, workers=1).summary
    return {name: report[name].value for name in (*MEASURES, "topo_precision", "topo_recall")}
