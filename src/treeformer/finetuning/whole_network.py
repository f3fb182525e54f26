"""Train on a GPU: the whole network in the ordinary training loop, from annotated images to the best weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from treeformer._util.cores import usable_cores
from treeformer._util.images import open_image
from treeformer.data.config import DataConfig, SourceConfig
from treeformer.data.folder_dataset import has_pair, write_pair
from treeformer.finetuning import measuring, plan
from treeformer.finetuning.annotated import AnnotatedImage
from treeformer.finetuning.pseudo_labels import label_unannotated
from treeformer.finetuning.run import Run, SavedRun, Task, Trained, finish_training, never
from treeformer.hub.model_folder import ModelFolder
from treeformer.inference.predictor import Predictor
from treeformer.models.export import load_trained, with_tokens
from treeformer.models.treeformer import TreeFormer
from treeformer.training import loop
from treeformer.training.config import OptimizerConfig, TrainingConfig
from treeformer.training.validation import changed_settings

# Few steps that end with a small learning rate: a long schedule fits ten images too closely before it falls
# (docs/lab/finetuning.md).
STEPS = 150
# Peak learning rate of the whole network.
LEARNING_RATE = 2e-4
VALIDATE_EVERY = 15
# With pseudo-labels there are more images and, by this factor, more steps.
LONGER_WITH_PSEUDO = 2
# Share of the annotated images among these and those with pseudo-labels.
ANNOTATED_SHARE = 0.4
# Validations without improvement after which training stops.
PATIENCE = 5
WARMUP_STEPS = 50
BATCH_SIZE = 16
CROWDED_BATCH_SIZE = 8
# Batches whose images have more nodes than this are crowded: fewer images, more tokens.
CROWDED_FROM = 144
ZOOM = (0.7, 1.4)
# Training lasts at least this long, s.
MIN_SECONDS = 30.0
# By about this much, the F1 of one image differs by chance between two trained networks.
IMAGE_NOISE = 0.1


def write_scaled(images: Sequence[AnnotatedImage], working_px: Sequence[int], folder: Path, side: int) -> None:
    """Write images and skeletons at their working size. Pairs that exist are kept."""
    for number, (image, longest) in enumerate(zip(images, working_px, strict=True)):
        stem = f"{number:05d}"
        if has_pair(folder, stem):
            continue
        pixels = np.asarray(open_image(image.path, longest_px=max(longest, side)))
        height, width = pixels.shape[:2]
        factor = width / image.size[0]
        scaled = image.skeleton.transform([[factor, 0, 0], [0, factor, 0]], image_size=(width, height))
        write_pair(pixels, scaled, folder, stem)


def training_config(
    start: ModelFolder,
    data: Path,
    tokens: int,
    crops: plan.CropSettings,
    *,
    learning_rate: float,
    workers: int,
    bf16: bool,
    pseudo: Path | None = None,
    validated_once: bool = False,
) -> TrainingConfig:
    """Return the configuration of the run."""
    own = max(1, crops.synthetic_every - 1)
    plain = SourceConfig(
        split="", grid_px=crops.grid_px, spacing_px=0.0 if crops.grid_px else crops.spacing_px, path=str(data)
    )
    shares = {data: 1.0} if pseudo is None else {data: ANNOTATED_SHARE, pseudo: 1 - ANNOTATED_SHARE}
    train = []
    for path, share in shares.items():
        weight = own * share
        train += [
            replace(plain, path=str(path), weight=weight, crowded_weight=weight, augmentation="strong", zoom=ZOOM),
            replace(plain, path=str(path), weight=weight / 4),  # whole images, as in a first pass
        ]
    steps = STEPS if pseudo is None else LONGER_WITH_PSEUDO * STEPS
    validate_every = steps if validated_once else VALIDATE_EVERY
    if crops.synthetic_every:
        train.append(replace(plain, path="", split="train", presets=plan.SYNTHETIC_PRESETS, styles=("photo",)))
    ordinary = min(tokens, int(start.config.settings.get("tokens", tokens)))
    crowded = tokens > ordinary
    return TrainingConfig(
        name="finetune",
        model="default",
        model_options={**start.config.settings, "tokens": ordinary},
        start_from=str(start.path),
        data=DataConfig(
            train=tuple(train),
            image_size=crops.side,
            max_nodes=min(CROWDED_FROM, ordinary - 8),
            crowded_every=2 if crowded else 0,
            crowded_batch_size=CROWDED_BATCH_SIZE,
            crowded_max_nodes=tokens - 32,
            crowded_tokens=tokens,
            workers=workers,
        ),
        optimizer=OptimizerConfig(learning_rate=learning_rate, warmup_steps=WARMUP_STEPS, ema_decay=0.99),
        batch_size=BATCH_SIZE,
        steps=steps,
        validate_every=validate_every,
        patience_epochs=PATIENCE,
        epoch_images=validate_every * BATCH_SIZE,
        precision="bf16" if bf16 else "32",
        seed=crops.seed,
    )


def train_whole(
    config: TrainingConfig,
    folder: Path,
    *,
    minutes: float,
    device: str,
    measure: loop.Measure,
    show: loop.Show | None = None,
    should_stop: Callable[[], bool] = never,
    say: Callable[[str], None] = lambda _line: None,
) -> tuple[Path | None, float]:
    """Train, or continue an interrupted run. Return the file of the best weights, if any, and their score."""
    state = loop.train(
        config,
        folder,
        resume=(folder / loop.CHECKPOINT).exists(),
        max_minutes=minutes,
        accelerator=device,
        show=show,
        measure=measure,
        should_stop=should_stop,
        say=say,
    )
    best = folder / loop.BEST
    return (best if best.exists() else None), state.best_score if math.isfinite(state.best_score) else -1.0


def train_whole_network(run: Run, task: Task, saved: SavedRun) -> Trained:
    """Train the whole network. Used on the CPU by tests only.

    With images without annotation it is trained twice: on the annotated images, and on these and the others with the
    labels of the first network. Both trainings run to the end of their schedule, whatever validation says before: a
    first network that two unusual images have chosen labels all others worse.
    """
    network, chosen, split = task.network, task.chosen, task.split
    device = "cuda" if torch.cuda.is_available() else "cpu"
    write_scaled(split.train, task.working_px, run.work / "images", task.crops.side)

    def measure(model: Any) -> dict[str, float]:
        engine = measuring.LiveEngine(model, chosen, device=device)
        with changed_settings(model, {"tokens": network.config.tokens}):
            if not split.valid:
                return run.figures(Predictor(chosen, engine=engine), task.measured)
            return measuring.best_threshold(engine, chosen, task.judged[: task.budget.views], run.check_stop)[1]

    network.to(device)
    began = run.clock()
    start_score = measure(network)["topo_f1"]
    measured = task.budget.views if split.valid else len(task.measured)
    rest = task.budget.seconds((run.clock() - began) * task.budget.views / max(1, measured))
    run.say("plan", f"training the whole network on {device}: at most {math.ceil(run.seconds / 60)} minutes in all")
    if saved.first is None:
        left = max(MIN_SECONDS, (run.left - rest) / (2 if task.unannotated else 1))
        weights, score = _train(run, task, run.work / "run", device, left, rest, measure)
        if weights is None or (split.valid and score <= start_score):
            return Trained(None, start_score)
        saved.first = score
        saved.write(run.work)
    best, labeled = run.work / "run" / loop.BEST, 0
    if task.unannotated:
        best, labeled = _train_again(run, task, saved, device, rest, measure, start_score)
    trained = _load(best, network)
    engine = measuring.LiveEngine(trained.to(device), chosen, device=device)
    return finish_training(run, task, trained, engine)._replace(labeled=labeled)


def _train(
    run: Run,
    task: Task,
    folder: Path,
    device: str,
    seconds: float,
    rest: float,
    measure: loop.Measure,
    pseudo: Path | None = None,
    start_from: Path | None = None,
) -> tuple[Path | None, float]:
    """Train, or continue an interrupted training. Return the file of the best weights and their validation score."""
    config = training_config(
        task.start,
        run.work / "images",
        task.network.config.tokens,
        task.crops,
        learning_rate=LEARNING_RATE,
        workers=min(8, usable_cores()) if device == "cuda" else 0,
        bf16=device == "cuda",
        pseudo=pseudo,
        validated_once=bool(task.unannotated),
    )
    if start_from is not None:
        config = replace(config, start_from=str(start_from))
    return train_whole(
        config,
        folder,
        minutes=seconds / 60,
        device=device,
        measure=measure,
        show=run.show_training(rest),
        should_stop=run.should_stop,
        say=lambda line: run.say("training", line),
    )


def _train_again(
    run: Run, task: Task, saved: SavedRun, device: str, rest: float, measure: loop.Measure, start_score: float
) -> tuple[Path, int]:
    """Train again with images that the first network labels. Return the better weights, and how many images helped.

    The second training counts if its score is above that of the start model, and not below that of the first training
    by more than chance explains.
    """
    first = run.work / "run" / loop.BEST
    labels = label_unannotated(run, task, saved, _load(first, task.network).to(device), device)
    if not labels:
        return first, 0
    pseudo = run.work / "labeled-images"
    write_scaled(labels, plan.working_sizes(labels, task.chosen.config), pseudo, task.crops.side)
    left = max(MIN_SECONDS, run.left - rest)
    again, score = _train(run, task, run.work / "run-2", device, left, rest, measure, pseudo, first)
    count, first_score = len(task.split.valid), saved.first
    assert first_score is not None, "the first training is complete"
    if again is None or (count and score <= max(start_score, first_score - 2 * IMAGE_NOISE / math.sqrt(count))):
        run.say("training", "images without annotation did not help; the first training counts")
        return first, 0
    return again, len(labels)


def _load(weights: Path, like: TreeFormer) -> TreeFormer:
    """Return the network of a file of weights, with the number of tokens of another network."""
    trained = load_trained(weights)
    return with_tokens(trained, like.config.tokens) if trained.config.tokens != like.config.tokens else trained
