"""`gpu-factors` varies one factor of the training on a GPU at a time, without validation and without an export."""

from __future__ import annotations

import argparse
import dataclasses
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.finetune import domains, table
from benchmarks.finetune.curve import MEASURES, TRAINING_IMAGES, Job, append_rows, chosen_images
from benchmarks.finetune.domains import domain_images

from treeformer._util.cores import usable_cores
from treeformer.data.config import SourceConfig
from treeformer.finetuning import measuring, plan, whole_network
from treeformer.finetuning.annotated import AnnotatedImage
from treeformer.hub import safetensors
from treeformer.hub.model_folder import ModelFolder, open_model
from treeformer.inference.predictor import Predictor
from treeformer.metrics.report import Case, evaluate_cases
from treeformer.models.export import load_trained, load_weights, with_tokens
from treeformer.models.treeformer import TreeFormer
from treeformer.training.config import TrainingConfig

Change = Callable[[TrainingConfig], TrainingConfig]
THRESHOLDS = (0.25, 0.3, 0.35)
# `treeformer finetune` sets one fifth of ten images aside.
TRAINED = 8


@dataclass(frozen=True)
class Variant:
    """One way to train.

    Attributes:
        change: changes the configuration of `whole_network`.
        images: number of the annotated images that are trained on.
        runs: number of runs with other seeds, whose weights are averaged.
        share: share of the trained weights in a mean with those of the start model.
    """

    change: Change = lambda config: config
    images: int = TRAINED
    runs: int = 1
    share: float = 1.0


def optimizer(**changes: float) -> Change:
    """Return a change of the optimizer."""
    return lambda config: replace(config, optimizer=replace(config.optimizer, **changes))


def own_sources(**changes: Any) -> Change:
    """Return a change of the source that draws windows on the annotated images."""

    def change(config: TrainingConfig) -> TrainingConfig:
        first, *others = config.data.train
        return replace(config, data=replace(config.data, train=(replace(first, **changes), *others)))

    return change


def synthetic(weight: float, presets: tuple[str, ...] = ()) -> Change:
    """Return a change of the share of synthetic images, relative to that of the recipe, or of their presets."""

    def change(config: TrainingConfig) -> TrainingConfig:
        *own, last = config.data.train
        last = replace(last, weight=weight * last.weight, presets=presets or last.presets)
        return replace(config, data=replace(config.data, train=(*own, *([last] if weight else []))))

    return change


def whole_images(weight: float) -> Change:
    """Return a change of the weight of whole images, relative to that of the recipe."""

    def change(config: TrainingConfig) -> TrainingConfig:
        first, whole, *others = config.data.train
        sources: tuple[SourceConfig, ...] = (first, replace(whole, weight=weight * whole.weight), *others)
        return replace(config, data=replace(config.data, train=sources))

    return change


def frozen(stages: int) -> Change:
    """Return a change of the number of frozen stages of the backbone."""
    return lambda config: replace(config, model_options={**config.model_options, "frozen_stages": stages})


def fields(**changes: Any) -> Change:
    """Return a change of fields of the configuration itself."""
    return lambda config: replace(config, **changes)


def all_of(*changes: Change) -> Change:
    """Return the changes one after the other."""

    def change(config: TrainingConfig) -> TrainingConfig:
        for one in changes:
            config = one(config)
        return config

    return change


LONGER = all_of(optimizer(backbone_factor=0.3), fields(batch_size=32, steps=300))

FACTORS: Mapping[str, Variant] = {
    "base": Variant(),
    "rate / 2": Variant(optimizer(learning_rate=whole_network.LEARNING_RATE / 2)),
    "rate x 2": Variant(optimizer(learning_rate=whole_network.LEARNING_RATE * 2)),
    "rate of the backbone x 3": Variant(optimizer(backbone_factor=0.3)),
    "rate of the backbone x 10": Variant(optimizer(backbone_factor=1.0)),
    "three stages frozen": Variant(frozen(3)),
    "weaker changes of colors": Variant(own_sources(augmentation="roots")),
    "zoom 0.5 to 2": Variant(own_sources(zoom=(0.5, 2.0))),
    "four times as many whole images": Variant(whole_images(4.0)),
    "no synthetic images": Variant(synthetic(0.0)),
    "four times as many synthetic images": Variant(synthetic(4.0)),
    "synthetic rows of trees, too": Variant(synthetic(1.0, (*plan.SYNTHETIC_PRESETS, "orchard-row", "potted-shoot"))),
    "300 steps": Variant(fields(steps=300)),
    "600 steps": Variant(fields(steps=600)),
    "batches of 32": Variant(fields(batch_size=32)),
    "all ten images": Variant(images=10),
    "mean of three runs": Variant(runs=3),
    "mean with the start model, 0.7": Variant(share=0.7),
    # Several factors at once: the backbone's rate x 3, batches of 32 and 300 steps, and what is named.
    "longer": Variant(LONGER),
    "longer, 600 steps": Variant(all_of(LONGER, fields(steps=600))),
    "longer, rate of the backbone x 10": Variant(all_of(LONGER, optimizer(backbone_factor=1.0))),
    "longer, weaker changes of colors": Variant(all_of(LONGER, own_sources(augmentation="roots"))),
    "longer, more whole images": Variant(all_of(LONGER, whole_images(4.0))),
    "longer, rate x 2": Variant(all_of(LONGER, optimizer(learning_rate=whole_network.LEARNING_RATE * 2))),
    "longer, all ten images": Variant(LONGER, images=10),
    "longer, mean with the start model, 0.8": Variant(LONGER, share=0.8),
}
KEY = ("domain", "model", "variant", "choice", "threshold")
COLUMNS = (*KEY, *MEASURES, "topo_precision", "topo_recall", "seconds")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `gpu-factors`."""
    domains.arguments(parser)
    parser.add_argument("--variants", nargs="+", choices=list(FACTORS), default=list(FACTORS), metavar="NAME")
    parser.add_argument("--choices", type=int, default=3, help="runs with other images")


def main(args: argparse.Namespace) -> None:
    """Measure the start model, train and measure the variants that the table lacks, and print a summary."""
    domain_images(args.domain, args.split, args.count, args.cache, args.side)  # written once, not by every process
    domain_images(args.domain, "train", TRAINING_IMAGES, args.cache, args.side)
    done = {(row["variant"], row["choice"]) for row in table.read_rows(args.output)}
    jobs = [("start model", 0), *((name, choice) for choice in range(args.choices) for name in args.variants)]
    append_rows(args, COLUMNS, _rows, [(name, choice) for name, choice in jobs if (name, str(choice)) not in done])
    print("\n".join(summary(table.read_rows(args.output))))


def summary(rows: list[dict[str, str]]) -> list[str]:
    """Return a Markdown table: one row per variant with its mean F1 of the paper's code / corrected per threshold."""
    lines = ["| variant | runs | " + " | ".join(f"{threshold:g}" for threshold in THRESHOLDS) + " |"]
    lines.append("| --- | --- |" + " --- |" * len(THRESHOLDS))
    for name in dict.fromkeys(row["variant"] for row in rows):
        mine = [row for row in rows if row["variant"] == name]
        cells = []
        for threshold in THRESHOLDS:
            here = [row for row in mine if float(row["threshold"]) == threshold]
            cells.append(" / ".join(f"{np.mean([float(row[key]) for row in here]):.3f}" for key in MEASURES[:2]))
        runs = len({row["choice"] for row in mine})
        lines.append(f"| {name} | {runs} | " + " | ".join(cells) + " |")
    return lines


def _rows(args: argparse.Namespace, name: str, choice: int) -> list[dict[str, object]]:
    """Train a variant and return one row per node threshold."""
    began = time.monotonic()
    network = load_weights(open_model(args.model))
    if name in FACTORS:
        pool = domain_images(args.domain, "train", TRAINING_IMAGES, args.cache, args.side)
        chosen = chosen_images(pool, Job(args.domain, args.model, images=10, choice=choice), 30)
        folder = args.cache / f"{args.domain}-{name.replace(' ', '-').replace('/', 'by')}-{choice}"
        network = trained(FACTORS[name], open_model(args.model), chosen, folder, args.side)
    seconds = time.monotonic() - began
    figures = measure(network, open_model(args.model), args, args.split)
    base = {"domain": args.domain, "model": args.model, "variant": name, "choice": choice, "seconds": f"{seconds:.0f}"}
    return [
        {**base, "threshold": threshold, **{key: f"{value:.4f}" for key, value in row.items()}}
        for threshold, row in figures.items()
    ]


def trained(variant: Variant, start: ModelFolder, chosen: list[AnnotatedImage], folder: Path, side: int) -> TreeFormer:
    """Train a variant as `treeformer finetune` does on a GPU, to the end of its schedule."""
    shutil.rmtree(folder, ignore_errors=True)
    images = chosen[: variant.images]
    network = load_weights(start)
    sizes = plan.working_sizes(images, start.config)
    crops = replace(plan.crop_settings(start.config), side=side)
    tokens = plan.choose_tokens(images, sizes, crops, network.config.tokens)
    crops = replace(crops, max_nodes=tokens - 8)
    whole_network.write_scaled(images, sizes, folder / "images", side)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    weights: list[dict[str, np.ndarray]] = []
    for seed in range(variant.runs):
        config = whole_network.training_config(
            start,
            folder / "images",
            tokens,
            replace(crops, seed=seed),
            learning_rate=whole_network.LEARNING_RATE,
            workers=max(1, usable_cores() - 1) if device == "cuda" else 0,
            bf16=device == "cuda",
        )
        config = variant.change(config)
        best = train_to_the_end(config, folder / f"run-{seed}")
        weights.append({key: np.asarray(value, np.float32) for key, value in safetensors.read(best).items()})
    result = load_trained(best)
    before = network.state_dict()
    mean = {}
    for key in weights[0]:
        after = torch.from_numpy(np.mean([one[key] for one in weights], axis=0))
        old = before.get(key, after)  # parts that the start model lacks are new
        mean[key] = variant.share * after + (1 - variant.share) * old
    result.load_state_dict(mean)
    shutil.rmtree(folder)
    return with_tokens(result, tokens) if tokens != result.config.tokens else result


def train_to_the_end(config: TrainingConfig, folder: Path) -> Path:
    """Train without validation, and return the file of the weights."""
    weights, _ = whole_network.train_whole(
        replace(config, validate_every=config.steps),
        folder,
        minutes=60,
        device="cuda" if torch.cuda.is_available() else "cpu",
        measure=lambda model: {"topo_f1": 0.0},
    )
    assert weights is not None
    return weights


def live(network: TreeFormer, start: ModelFolder) -> tuple[measuring.RememberingEngine, ModelFolder]:
    """Return a network as an engine, and the settings of the start model for it."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    folder = ModelFolder(start.path, replace(start.config, settings=dataclasses.asdict(network.config)), start.hashes)
    return measuring.RememberingEngine(measuring.LiveEngine(network.to(device), folder, device=device)), folder


def measure(
    network: TreeFormer,
    start: ModelFolder,
    args: argparse.Namespace,
    split: str,
    thresholds: tuple[float, ...] = THRESHOLDS,
) -> dict[float, dict[str, float]]:
    """Return the figures of a network at each node threshold, on images of a split."""
    images = domain_images(args.domain, split, args.count, args.cache, args.side)
    engine, folder = live(network, start)
    figures = {}
    for threshold in thresholds:
        changed = ModelFolder(start.path, replace(folder.config, node_threshold=threshold), start.hashes)
        trees = measuring.predict_images(Predictor(changed, engine=engine), images)
        cases = [Case(image.name, tree, image.skeleton, None) for image, tree in zip(images, trees, strict=True)]
        report = evaluate_cases(cases, workers=1).summary
        figures[threshold] = {name: report[name].value for name in (*MEASURES, "topo_precision", "topo_recall")}
    return figures
