"""`self-training` trains on ten images, labels others with the result, and trains again on both, without validation."""

from __future__ import annotations

import argparse
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.finetune import domains, table
from benchmarks.finetune.curve import MEASURES, TRAINING_IMAGES, Job, append_rows, chosen_images, others_than
from benchmarks.finetune.domains import domain_images
from benchmarks.finetune.gpu_factors import TRAINED, live, measure, train_to_the_end

from treeformer._util.cores import usable_cores
from treeformer.finetuning import plan, pseudo_labels, whole_network
from treeformer.finetuning.annotated import AnnotatedImage
from treeformer.hub.model_folder import ModelFolder, open_model
from treeformer.inference.predictor import Predictor
from treeformer.metrics import topo
from treeformer.models.export import load_trained, load_weights
from treeformer.models.treeformer import TreeFormer

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
    append_rows(args, COLUMNS, _rows, [(choice,) for choice in args.choices if str(choice) not in done])
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
            (figures,) = measure(network, start, args, split, (start.config.node_threshold,)).values()
            rows.append(row | {key: f"{value:.4f}" for key, value in figures.items()})
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
    crops = replace(plan.crop_settings(start.config), side=side)
    sizes = plan.working_sizes(images, start.config)
    tokens = plan.choose_tokens(images, sizes, crops, load_weights(start).config.tokens)
    whole_network.write_scaled(images, sizes, folder / "images", side)
    if labeled:
        whole_network.write_scaled(labeled, plan.working_sizes(labeled, start.config), folder / "labeled", side)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    config = whole_network.training_config(
        start,
        folder / "images",
        tokens,
        replace(crops, max_nodes=tokens - 8),
        learning_rate=whole_network.LEARNING_RATE,
        workers=max(1, usable_cores() - 1) if device == "cuda" else 0,
        bf16=device == "cuda",
        pseudo=folder / "labeled" if labeled else None,
    )
    return train_to_the_end(replace(config, start_from=beginning), folder / "run")


def _label(network: TreeFormer, start: ModelFolder, others: list[AnnotatedImage], folder: Path) -> list[AnnotatedImage]:
    """Return the images on which views agree, with their labels."""
    engine, settings = live(network, start)
    folder.mkdir(parents=True)
    paths = [image.path for image in others]
    root = paths[0].parent
    agreement: dict[str, Any] = {}
    predictor = Predictor(settings, engine=engine)
    pseudo_labels.label_images(predictor, paths, root, folder, agreement, lambda count: False)
    return pseudo_labels.agreed(paths, root, folder, agreement)
