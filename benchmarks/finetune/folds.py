"""`folds`: cross-validation over all images of a public set by `treeformer finetune` on the other folds."""

from __future__ import annotations

import argparse
import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from benchmarks.finetune import table
from benchmarks.finetune.curve import MEASURES, copy_images, measured_on, results, take_cores
from benchmarks.finetune.domains import CACHE, public_images

from treeformer.finetuning.annotated import AnnotatedImage
from treeformer.finetuning.finetune import finetune
from treeformer.metrics import summarize

# Test images first: the first fold is then the published split, if it has as many images.
SPLITS = ("test", "valid", "train")
# The F1 of a set is computed from its mean precision and recall.
STORED = (*MEASURES, *(f"{name}_{part}" for name in ("topo_paper", "topo") for part in ("precision", "recall")))
COLUMNS = ("set", "model", "fold", "image", "trained", *STORED)
START = "start"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `folds`."""
    parser.add_argument("--set", default="osr-roots", help="a public set in TREEFORMER_DATA with one image per plate")
    parser.add_argument("--model", required=True, help="start model, which has seen no image of the set")
    parser.add_argument("--folds", type=int, default=4)
    parser.add_argument("--only", type=int, nargs="+", help="numbers of the folds to train, from 0; by default all")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--max-minutes", type=float, help="time limit of each run")
    parser.add_argument("--parallel", type=int, default=1, help="runs at the same time")
    parser.add_argument("--side", type=int, default=1024, help="longer side of the images, px")
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("-o", "--output", type=Path, required=True)


def main(args: argparse.Namespace) -> None:
    """Measure the start model on all images, each fold with its own model, and print the means with intervals."""
    images = public_images(args.set, SPLITS, args.cache, args.side)
    rows = table.read_rows(args.output)
    done = {row["fold"] for row in rows if (row["set"], row["model"]) == (args.set, args.model)}
    numbers = [str(number) for number in (range(args.folds) if args.only is None else args.only)]
    jobs = [name for name in (START, *numbers) if name not in done]
    with ProcessPoolExecutor(
        args.parallel, multiprocessing.get_context("spawn"), take_cores, (args.parallel,)
    ) as processes:
        for measured in results([processes.submit(_measured, args, name, images) for name in jobs]):
            for row in measured:
                table.append(args.output, row, COLUMNS)
    rows = [row for row in table.read_rows(args.output) if (row["set"], row["model"]) == (args.set, args.model)]
    print("\n".join(summary(rows)))


def fold_of(images: Sequence[AnnotatedImage], folds: int, number: int) -> tuple[list[AnnotatedImage], ...]:
    """Return the images of a fold, which are measured, and all others, which are trained on.

    Folds are consecutive parts of nearly equal size.
    """
    bounds = [len(images) * index // folds for index in range(folds + 1)]
    first, end = bounds[number], bounds[number + 1]
    return list(images[first:end]), [*images[:first], *images[end:]]


def summary(rows: Sequence[dict[str, str]]) -> Iterator[str]:
    """Yield a Markdown table: the start model and the models of the folds, each on the images of all folds present."""
    yield "| model | images | TOPO F1, paper's code | TOPO F1, corrected | error of the length |"
    yield "|" + " --- |" * 5
    trained = [row for row in rows if row["fold"] != START]
    start = [row for row in rows if row["fold"] == START]
    parts = [(f"fold {fold}", [row for row in trained if row["fold"] == fold]) for fold in _folds(trained)]
    for label, part in (("start model", start), *parts, ("fine-tuned, all folds", trained)):
        if part:
            figures = summarize([{name: float(row[name]) for name in STORED} for row in part])
            found = [figures[name] for name in MEASURES]
            cells = " | ".join(f"{one.value:.3f} [{one.low:.3f}, {one.high:.3f}]" for one in found)
            yield f"| {label} | {len(part)} | {cells} |"


def _folds(rows: Sequence[dict[str, str]]) -> list[str]:
    return sorted({row["fold"] for row in rows}, key=int)


def _measured(args: argparse.Namespace, name: str, images: Sequence[AnnotatedImage]) -> list[dict[str, object]]:
    """Measure the start model, or train without the images of a fold and measure these. Return one row per image."""
    held_out, others = list(images), []
    model: str | Path = args.model
    if name != START:
        held_out, others = fold_of(images, args.folds, int(name))
        folder, output = copy_images(others, args.cache, f"{args.set}-{Path(args.model).name}-fold{name}")
        outcome = finetune(folder, output, start=args.model, max_minutes=args.max_minutes, device=args.device)
        model = outcome.folder
    report, _ = measured_on(held_out, model)
    common = {"set": args.set, "model": args.model, "fold": name, "trained": len(others)}
    return [
        {**common, "image": image.name, **{name: f"{row[name]:.4f}" for name in STORED}}
        for image, row in zip(held_out, report.rows, strict=True)
    ]
