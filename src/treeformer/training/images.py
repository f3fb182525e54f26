"""What an ordinary run trains on: batches of images from the configured sources, and their gradients."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from treeformer import data
from treeformer.data.loader import TimedBatches, on_device, shut_down, strip_worker_tracebacks, training_loader
from treeformer.data.mixture import MixtureDataset
from treeformer.training.checkpoint import RunState
from treeformer.training.config import TrainingConfig
from treeformer.training.guided import GuidedBatch, guided_batches
from treeformer.training.setup import batch_sizes, make_distillation, uses_cuda_graphs
from treeformer.training.step import CudaGraphSteps, TrainingStep

if TYPE_CHECKING:
    from lightning.fabric import Fabric


class ImageWork:
    """Batches of images, and the gradient of a model on one or several devices, see `loop.Work`.

    Made before other processes are started, so that a mistake in the configuration is found once.
    """

    def __init__(self, config: TrainingConfig, model: Any) -> None:
        self.config, self.model = config, model
        self.distillation = make_distillation(config, model)
        sources = [source for source in config.data.train if not source.path or source.path not in config.data.exclude]
        self.stream = MixtureDataset(sources, config.data, config.seed)
        self.warmup: MixtureDataset | None = None
        if config.data.warmup_image_steps:
            self.warmup = MixtureDataset(
                sources, replace(config.data, image_size=config.data.warmup_image_size), config.seed
            )
        self.skips = data.SkipReport()

    def launch(self, fabric: Fabric) -> None:
        """Move the model to the device, compile it if configured, and choose how its gradient is computed."""
        config, bf16 = self.config, self.config.precision == "bf16"
        self.fabric = fabric
        self.sizes = batch_sizes(config, self.model, fabric.world_size)
        self.images_per_batch = self.sizes.mean * fabric.world_size
        if self.distillation is not None:
            self.distillation.teacher.to(fabric.device)
        self.model.to(memory_format=torch.channels_last)
        if config.compile:
            self.model.compile_parts()
        self.step = fabric.setup_module(TrainingStep(self.model, bf16=bf16, distillation=self.distillation))
        self.graphs: CudaGraphSteps | None = None
        if uses_cuda_graphs(fabric, self.model):
            self.graphs = CudaGraphSteps(self.model, bf16=bf16, distillation=self.distillation)

    @contextmanager
    def batches(self, state: RunState) -> Iterator[tuple[TimedBatches, Iterable[GuidedBatch]]]:
        """Load the batches from a state on. The first result measures how long they are waited for."""
        config, fabric = self.config, self.fabric
        loader = training_loader(
            self.stream,
            self.sizes,
            start=state.position,
            step=state.step,
            rank=fabric.global_rank,
            world=fabric.world_size,
            workers=config.data.workers,
            pin=fabric.device.type == "cuda",
            warmup=self.warmup,
        )
        arriving = TimedBatches(on_device(strip_worker_tracebacks(loader), fabric.device))
        # A resumed run fills the pool of repeated batches anew, in another order.
        guided = guided_batches(
            arriving,
            self.distillation,
            bf16=config.precision == "bf16",
            reuse=config.distillation.reuse if self.distillation else 1,
            pool_size=config.distillation.pool,
            seed=hash((config.seed, state.step, fabric.global_rank)),
        )
        try:
            yield arriving, guided
        finally:
            shut_down(loader)
        if len(self.skips):
            fabric.print(str(self.skips))

    def gradient(self, guided: GuidedBatch) -> dict[str, Tensor]:
        """Set the gradient of every parameter to that of a batch. Return the losses by name."""
        batch, guide, is_new = guided
        for skipped in batch.skipped if is_new else ():
            self.skips.add(skipped)
        nodes = batch.targets.mask.sum().clamp(min=1).float()
        if self.fabric.world_size > 1:
            # With sums divided by the mean count, the mean gradient is the one of a single large batch.
            nodes = torch.as_tensor(self.fabric.all_reduce(nodes, reduce_op="mean"))
        tokens = self.config.data.crowded_tokens if batch.is_crowded else None
        if self.graphs is not None:  # each graph has gradients of its own, which it overwrites
            return self.graphs(batch, nodes, tokens, guide)
        self.model.zero_grad(set_to_none=True)
        losses: dict[str, Tensor] = self.step(batch.images, batch.targets, nodes, tokens, guide)
        self.fabric.backward(losses["loss"])
        return losses
