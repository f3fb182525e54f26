"""Train the whole network with the ordinary training loop: the mode for a GPU."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from treeformer._util.images import open_image
from treeformer.data.config import DataConfig, SourceConfig
from treeformer.data.folder_dataset import has_pair, write_pair
from treeformer.finetuning.annotated import AnnotatedImage
from treeformer.finetuning.crops import SYNTHETIC_PRESETS, CropSettings
from treeformer.finetuning.progress import Listener, Report, Stop
from treeformer.hub.model_folder import ModelFolder
from treeformer.training import loop
from treeformer.training.config import OptimizerConfig, TrainingConfig

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
DENSE_BATCH_SIZE = 8
# Batches whose images have more nodes than this are dense: fewer images, more tokens.
DENSE_FROM = 144
ZOOM = (0.7, 1.4)


def write_scaled(images: Sequence[AnnotatedImage], working_px: Sequence[int], folder: Path, side: int) -> None:
    """Write images and skeletons at their working size. Pairs that exist are kept.

    Args:
        images: the images.
        working_px: length to which the longer side of each is scaled, px.
        folder: receives the pairs.
        side: side of the network's input, px. No image becomes smaller than this.

    Raises:
        OSError: if the disk is full.
    """
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
    crops: CropSettings,
    *,
    learning_rate: float,
    workers: int,
    bf16: bool,
    pseudo: Path | None = None,
    validated_once: bool = False,
) -> TrainingConfig:
    """Return the configuration of the run.

    Args:
        start: the start model.
        data: folder with the images at their working size.
        tokens: largest number of tokens.
        crops: input size, nodes and the share of synthetic images.
        learning_rate: peak learning rate.
        workers: processes that load images.
        bf16: train in bfloat16.
        pseudo: folder with images that have pseudo-labels. With them there are more steps.
        validated_once: validate the last weights only. A few validation images choose others by chance.

    Returns:
        The configuration.
    """
    own = max(1, crops.synthetic_every - 1)
    plain = SourceConfig(
        split="", grid_px=crops.grid_px, spacing_px=0.0 if crops.grid_px else crops.spacing_px, path=str(data)
    )
    shares = {data: 1.0} if pseudo is None else {data: ANNOTATED_SHARE, pseudo: 1 - ANNOTATED_SHARE}
    train = []
    for path, share in shares.items():
        weight = own * share
        train += [
            replace(plain, path=str(path), weight=weight, dense_weight=weight, augmentation="strong", zoom=ZOOM),
            replace(plain, path=str(path), weight=weight / 4),  # whole images, as in a first pass
        ]
    steps = STEPS if pseudo is None else LONGER_WITH_PSEUDO * STEPS
    validate_every = steps if validated_once else VALIDATE_EVERY
    if crops.synthetic_every:
        train.append(replace(plain, path="", split="train", presets=SYNTHETIC_PRESETS, styles=("photo",)))
    ordinary = min(tokens, int(start.config.settings.get("tokens", tokens)))
    dense = tokens > ordinary
    return TrainingConfig(
        name="finetune",
        model="default",
        model_options={**start.config.settings, "tokens": ordinary},
        start_from=str(start.path),
        data=DataConfig(
            train=tuple(train),
            image_size=crops.side,
            max_nodes=min(DENSE_FROM, ordinary - 8),
            dense_every=2 if dense else 0,
            dense_batch_size=DENSE_BATCH_SIZE,
            dense_max_nodes=tokens - 32,
            dense_tokens=tokens,
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
    measure: Callable[[Any], dict[str, float]],
    listen: Listener,
    should_stop: Stop,
) -> tuple[Path | None, float]:
    """Train, or continue an interrupted run.

    Args:
        config: the configuration of the run.
        folder: folder of checkpoints and logs.
        minutes: time limit of the whole run, minutes.
        device: "cpu" or "cuda".
        measure: returns validation figures of a model.
        listen: receives progress.
        should_stop: asked at every progress report.

    Returns:
        The file of the best weights, None if there are none; and the best validation score.

    Raises:
        KeyboardInterrupt: if `should_stop` returns True, or after Ctrl-C. The run can be resumed.
        TreeformerError: if the loss diverges.
    """

    def show(step: int, steps: int, figures: dict[str, float]) -> None:
        text = ""
        if "valid_topo_f1" in figures:
            text = f"step {step} of {steps}: validation F1 {figures['valid_topo_f1']:.3f}"
        listen(Report("training", text, step, steps, None, figures))
        if should_stop():
            raise KeyboardInterrupt

    resume = (folder / loop.CHECKPOINT).exists()
    state = loop.train(
        config, folder, resume=resume, max_minutes=minutes, accelerator=device, show=show, measure=measure
    )
    best = folder / loop.BEST
    return (best if best.exists() else None), state.best_score if math.isfinite(state.best_score) else -1.0
