"""Validation while training: the averaged model on fixed pictures, judged by the project's own metrics."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

from treeformer.data import Sample
from treeformer.metrics import evaluate_pair
from treeformer.skeleton import Skeleton
from treeformer.training.config import TrainingConfig
from treeformer.training.stream import FixedPictures

BATCH = 32


class Validator:
    """Predicts every picture of the validation sources and averages the metrics over them."""

    def __init__(self, config: TrainingConfig, device: torch.device) -> None:
        self.pictures = FixedPictures(config.data.valid, config.data)
        self.workers = config.data.workers
        self.device = device
        self.bf16 = config.precision == "bf16"

    def measure(self, model: Any) -> dict[str, float]:
        """The mean of every metric over the pictures; `pictures` is how many there were."""
        was_training = model.training
        model.eval()
        pairs = [pair for batch in self._batches() for pair in self._predict(model, batch)]
        model.train(was_training)
        if self.workers:
            # Forking a process that holds a GPU is not safe.
            context = multiprocessing.get_context("spawn")
            with ProcessPoolExecutor(self.workers, mp_context=context) as pool:
                rows = list(pool.map(_judge, pairs, chunksize=4))
        else:
            rows = [_judge(pair) for pair in pairs]
        means = {name: float(np.nanmean([row[name] for row in rows])) for name in rows[0]} if rows else {}
        return means | {"pictures": float(len(rows))}

    def _batches(self) -> list[list[Sample]] | DataLoader[list[Sample]]:
        return DataLoader(
            self.pictures,  # type: ignore[arg-type]
            batch_size=BATCH,
            num_workers=self.workers,
            collate_fn=_usable,
        )

    @torch.no_grad()
    def _predict(self, model: Any, samples: list[Sample]) -> list[tuple[Skeleton, Skeleton]]:
        if not samples:
            return []
        images = torch.from_numpy(np.stack([sample.image for sample in samples])).to(self.device)
        # Compiling anew for a few batches of other shapes would take longer than they do.
        eager = torch.compiler.set_stance("force_eager")
        with eager, torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.bf16):
            output = model(images.permute(0, 3, 1, 2).float() / 255.0)
        size = (images.shape[2], images.shape[1])
        predictions = model.decode(output, image_size=size)
        return [(found, sample.skeleton) for found, sample in zip(predictions, samples, strict=True)]


def _usable(items: list[tuple[Sample | None, list[object]]]) -> list[Sample]:
    return [sample for sample, _ in items if sample is not None]


def _judge(pair: tuple[Skeleton, Skeleton]) -> dict[str, float]:
    return {name: float(value) for name, value in evaluate_pair(*pair).items()}
