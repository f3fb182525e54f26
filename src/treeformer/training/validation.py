"""Validation during training: predict fixed images with the averaged model and compute the metrics."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

from treeformer._util.config import ConfigError
from treeformer._util.pools import quiet_process_pool
from treeformer.data import Sample
from treeformer.data.loader import ignore_signals, lower_priority
from treeformer.data.mixture import EvalDataset
from treeformer.metrics import evaluate_pair
from treeformer.skeleton import Skeleton
from treeformer.training.config import TrainingConfig

BATCH = 32

Rows = list[dict[str, float]]
"""Metrics by name, one dictionary per image."""


class Validator:
    """Predict every image of the validation sources and compare it with its target.

    A `with` block ends its worker processes.

    Attributes:
        images: the validation images.
        workers: number of worker processes.
        device: where the model runs.
        bf16: whether the forward pass runs under bfloat16 autocast.
        batch: images per forward pass.
        options: options of the model's forward pass.
    """

    def __init__(self, config: TrainingConfig, device: torch.device, batch: int = BATCH) -> None:
        self.images = EvalDataset(config.data.valid, config.data)
        if not len(self.images):
            raise ConfigError("data: there is no image to validate on")
        self.workers = config.data.workers
        self.device = device
        self.bf16 = config.precision == "bf16"
        self.batch = batch
        self.options = {"tokens": config.data.crowded_tokens} if config.data.crowded_every else {}
        self._pool: Executor | None = None

    def __enter__(self) -> Validator:
        return self

    def __exit__(self, *_error: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def measure(self, model: Any) -> dict[str, float]:
        """Return the mean of every metric over the images, and the number of images as `images`."""
        rows = self.evaluate(model)[""]
        if not rows:
            raise ConfigError(f"data: none of the {len(self.images)} images to validate on can be used")
        return means(rows)

    def evaluate(
        self, model: Any, decodings: Mapping[str, Mapping[str, Any]] | None = None, **options: Any
    ) -> dict[str, Rows]:
        """Compute every metric of every usable image, for one or several ways to decode. The network runs once.

        `decodings` has settings of the model's configuration by the name of a way; None is one way, "". `options` are
        those of the model's `decode`.
        """
        was_training = model.training
        model.eval()
        pairs: dict[str, list[tuple[Skeleton, Skeleton]]] = {name: [] for name in decodings or {"": {}}}
        for samples in self._batches():
            if not samples:
                continue
            output, size = self._predict(model, samples)
            for name, decoded in pairs.items():
                with changed_settings(model, (decodings or {}).get(name, {})):
                    predictions = model.decode(output, image_size=size, **options)
                targets = [sample.skeleton for sample in samples]
                decoded += zip(predictions, targets, strict=True)
        model.train(was_training)
        return {name: self._evaluate_pairs(decoded) for name, decoded in pairs.items()}

    def _evaluate_pairs(self, pairs: list[tuple[Skeleton, Skeleton]]) -> Rows:
        predictions, targets = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        if not self.workers:
            return [_to_floats(evaluate_pair(*pair)) for pair in pairs]
        if self._pool is None:
            self._pool = quiet_process_pool(self.workers, ignore_signals)
        return [_to_floats(row) for row in self._pool.map(evaluate_pair, predictions, targets, chunksize=4)]

    def _batches(self) -> list[list[Sample]] | DataLoader[list[Sample]]:
        return DataLoader(
            self.images,  # type: ignore[arg-type]
            batch_size=self.batch,
            num_workers=self.workers,
            collate_fn=_usable,
            worker_init_fn=lower_priority,
        )

    @torch.no_grad()
    def _predict(self, model: Any, samples: list[Sample]) -> tuple[Any, tuple[int, int]]:
        """Return the model's output for images of one size, and that size (width, height) px."""
        images = torch.from_numpy(np.stack([sample.image for sample in samples])).to(self.device)
        # Recompiling for a few batches of other shapes would take longer than running them.
        eager = torch.compiler.set_stance("force_eager")
        with eager, torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.bf16):
            output = model(images.permute(0, 3, 1, 2).float() / 255.0, **self.options)
        return output, (images.shape[2], images.shape[1])


def means(rows: Rows) -> dict[str, float]:
    """Return the mean of every metric, ignoring NaN, and the number of rows as `images`."""
    figures = {}
    for name in rows[0] if rows else ():
        known = [row[name] for row in rows if not math.isnan(row[name])]  # of lines none, while nothing is found yet
        figures[name] = float(np.mean(known)) if known else math.nan
    return figures | {"images": float(len(rows))}


@contextmanager
def changed_settings(model: Any, settings: Mapping[str, Any]) -> Iterator[None]:
    """Change settings of a model's configuration for the duration of a `with` block."""
    original = model.config
    model.config = replace(original, **settings)
    try:
        yield
    finally:
        model.config = original


def _usable(items: list[tuple[Sample | None, list[object]]]) -> list[Sample]:
    return [sample for sample, _ in items if sample is not None]


def _to_floats(row: dict[str, float]) -> dict[str, float]:
    return {name: float(value) for name, value in row.items()}
