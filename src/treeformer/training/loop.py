"""The training loop: AdamW on a stream of images, with averaged weights, on one device or on many machines."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from treeformer import data
from treeformer._util.config import ConfigError
from treeformer._util.files import check_writable, remove_leftovers
from treeformer.data.loader import (
    Batch,
    TimedBatches,
    on_device,
    shut_down,
    strip_worker_tracebacks,
    training_loader,
)
from treeformer.data.mixture import MixtureDataset
from treeformer.errors import TreeformerError
from treeformer.training import checkpoint
from treeformer.training.config import TrainingConfig
from treeformer.training.guided import GuidedBatch, guided_batches
from treeformer.training.logger import NoLog, RunLog
from treeformer.training.meter import StepMeter
from treeformer.training.setup import (
    batch_sizes,
    make_distillation,
    make_fabric,
    make_model,
    model_folder_of,
    parameter_groups,
    sole_run,
    uses_cuda_graphs,
)
from treeformer.training.signals import DeferredSignals
from treeformer.training.step import CudaGraphSteps, Distillation, TrainingStep
from treeformer.training.validation import Validator

if TYPE_CHECKING:
    from lightning.fabric import Fabric

CHECKPOINT, BEST = "checkpoint.safetensors", "best.safetensors"
# Steps with a non-finite loss or gradient change nothing. This many in a row end the run.
MAX_BAD_STEPS = 20
LOG_EVERY = 20
# The first steps of every call compile, select convolutions and wait for the first images.
WARM_UP_STEPS = 5


class TrainingError(TreeformerError):
    """A run cannot continue. Its last good checkpoint is kept."""


def train(
    config: TrainingConfig,
    out: Path,
    *,
    resume: bool = False,
    max_minutes: float | None = None,
    training_minutes: float | None = None,
    accelerator: str = "auto",
    devices: int = 1,
    machines: int = 1,
    show: Callable[[int, int, dict[str, float]], None] | None = None,
    measure: Callable[[Any], dict[str, float]] | None = None,
) -> checkpoint.RunState:
    """Train until `config.steps`, a time limit, or no improvement for `config.patience_epochs`.

    The output folder receives checkpoint.safetensors (to resume from), best.safetensors (averaged weights of the best
    validation), log.csv, and TensorBoard events if TensorBoard is installed.

    Args:
        config: the configuration of the run.
        out: output folder.
        resume: continue from the checkpoint in the output folder.
        max_minutes: time limit of the whole run, over all calls, minutes. With `training_minutes`, time limit of this
            call, after which the run can be resumed.
        training_minutes: time limit of the training steps alone, over all calls, minutes.
        accelerator: "auto", "cpu" or "cuda".
        devices: number of GPUs or CPU processes per machine.
        machines: number of machines.
        show: called now and then with the step, the number of steps, and figures by name.
        measure: called with the model with averaged weights; returns validation figures by name. None validates on
            `config.data.valid`.

    Returns:
        How far the run has come.

    Raises:
        TreeformerError: for a mistake in the configuration or an option, an unusable checkpoint, a diverged loss, or
            another run that writes to the same folder.
        KeyboardInterrupt: after Ctrl-C or SIGTERM. The checkpoint has then been written.
    """
    _check(out, resume, max_minutes, training_minutes)
    fabric = make_fabric(accelerator, devices, machines)
    torch.set_float32_matmul_precision("high")
    torch.manual_seed(config.seed)
    torch.backends.cudnn.benchmark = True
    # Find mistakes in the configuration before other processes are started, which would fail as well.
    model = make_model(config, with_weights=not resume)
    distillation = make_distillation(config, model)
    sources = [source for source in config.data.train if not source.path or source.path not in config.data.exclude]
    stream = MixtureDataset(sources, config.data, config.seed)
    early = None
    if config.data.early_steps:
        early = MixtureDataset(sources, replace(config.data, image_size=config.data.early_size), config.seed)
    validator = None if measure else Validator(config, fabric.device)
    if validator is not None:
        validator.images.check_sources()
    fabric.launch()
    with ExitStack() as stack:
        stack.enter_context(sole_run(out, fabric))
        if distillation is not None:
            distillation.teacher.to(fabric.device)
        model.to(memory_format=torch.channels_last)
        optimizer = torch.optim.AdamW(parameter_groups(model, config.optimizer), fused=True)
        average = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
        if config.compile:
            model.compile_parts()
        step = TrainingStep(model, bf16=config.precision == "bf16", distillation=distillation)
        step_module, optimizer = fabric.setup(step, optimizer)
        average = {name: tensor.to(fabric.device) for name, tensor in average.items()}
        state = checkpoint.RunState()
        if resume:
            state = checkpoint.restore(out / CHECKPOINT, model, average, optimizer.optimizer)
        if fabric.is_global_zero:  # the only process that writes
            remove_leftovers(out)
        limits = (max_minutes, training_minutes)
        if validator is not None and fabric.is_global_zero:
            measure = stack.enter_context(validator).measure
        run = TrainingRun(config, out, fabric, model, average, optimizer, state, limits, show, measure, distillation)
        stack.callback(run.log.close)
        with run.signals.defer():
            run.loop(step_module, stream, early)
    return state


class TrainingRun:
    """The objects of one run, and its loop.

    Args:
        config: the configuration of the run.
        out: output folder.
        fabric: the launched devices.
        model: the model, on the device.
        average: averaged weights by name, on the device.
        optimizer: the optimizer, as Fabric wraps it.
        state: how far the run has come; changed in place.
        limits: `max_minutes` and `training_minutes` of `train`.
        show: called with the step, the number of steps, and figures by name.
        measure: returns validation figures of a model. Used in the first process only.
        distillation: a teacher to learn from, or None.

    Attributes:
        limit_s: `max_minutes` in s, infinite if there is no limit.
        training_limit_s: `training_minutes` in s, infinite if there is no limit.
        sizes: images per step in this process.
        dense_tokens: object tokens of the model in dense batches.
        skips: images that could not be used.
        log: the log of the run.
        averages: the tensors of `average`.
        weights: the model's tensors in the same order.
        signals: signals that ask the run to stop.
        distillation: a teacher to learn from, or None.
        graphs: the captured steps, None if steps are not replayed as CUDA graphs.
        rates: peak learning rate of each parameter group.
    """

    def __init__(
        self,
        config: TrainingConfig,
        out: Path,
        fabric: Fabric,
        model: Any,
        average: dict[str, Tensor],
        optimizer: Any,
        state: checkpoint.RunState,
        limits: tuple[float | None, float | None],
        show: Callable[[int, int, dict[str, float]], None] | None,
        measure: Callable[[Any], dict[str, float]] | None,
        distillation: Distillation | None = None,
    ) -> None:
        self.config, self.out, self.fabric, self.model = config, out, fabric, model
        self.average, self.optimizer, self.state = average, optimizer, state
        self.limit_s, self.training_limit_s = (math.inf if limit is None else 60 * limit for limit in limits)
        self.show = show
        self.sizes = batch_sizes(config, model, fabric.world_size)
        self.dense_tokens = config.data.dense_tokens
        self.skips = data.SkipReport()
        self.log = RunLog(out, state.step) if fabric.is_global_zero else NoLog()
        # All weights and buffers are floating-point numbers, and never move in memory.
        self.averages = list(average.values())
        self.weights = [model.state_dict()[name] for name in average]
        self.measure = measure
        self.signals = DeferredSignals()
        bf16 = config.precision == "bf16"
        self.distillation = distillation
        self.graphs = None
        if uses_cuda_graphs(fabric, model):
            self.graphs = CudaGraphSteps(model, bf16=bf16, distillation=distillation)
        self.rates = [group["lr"] for group in optimizer.param_groups]

    def loop(self, step_module: Any, stream: MixtureDataset, early: MixtureDataset | None = None) -> None:
        """Run steps, validations and checkpoints until the end.

        Args:
            step_module: a `TrainingStep`, as Fabric wraps it.
            stream: the training images.
            early: the same images at the size of the first steps, None if there are no such steps.

        Raises:
            KeyboardInterrupt: after Ctrl-C or SIGTERM.
        """
        state = self.state
        done = self._done()
        if state.step > state.validated_step and self._validation_due(done):  # the run was killed while validating
            self._validate()
            self._save()
        if self._finished(done):
            self.fabric.print(f"{self.out}: finished at step {state.step}; allow more steps or time to continue")
        else:
            self._steps(step_module, stream, early)
        if self.signals.received:
            raise KeyboardInterrupt

    def _steps(self, step_module: Any, stream: MixtureDataset, early: MixtureDataset | None) -> None:
        config, state = self.config, self.state
        loader = training_loader(
            stream,
            self.sizes,
            start=state.position,
            step=state.step,
            rank=self.fabric.global_rank,
            world=self.fabric.world_size,
            workers=config.data.workers,
            pin=self.fabric.device.type == "cuda",
            early=early,
        )
        try:
            self._train(step_module, loader)
        finally:
            shut_down(loader)
        if len(self.skips):
            self.fabric.print(str(self.skips))

    def _train(self, step_module: Any, loader: DataLoader[Batch]) -> None:
        config, state = self.config, self.state
        began, before = time.monotonic(), state.seconds
        last_checkpoint = step_began = began
        warm_from = state.step + WARM_UP_STEPS
        shapes: set[torch.Size] = set()  # of batches so far in this call
        arriving = TimedBatches(on_device(strip_worker_tracebacks(loader), self.fabric.device))
        meter = StepMeter(arriving)
        for guided in self._guided(arriving):
            batch = guided.batch
            figures = self._step(step_module, guided)
            state.step += 1
            if guided.is_new:
                self._note_skips(batch)
                state.position += len(batch.images) * self.fabric.world_size
            now = time.monotonic()
            state.seconds = before + now - began
            # The first batch of a shape is compiled and captured, which is not training.
            is_warm = state.step > warm_from and batch.images.shape in shapes
            state.training_seconds += now - step_began if is_warm else 0.0
            shapes.add(batch.images.shape)
            step_began = now
            meter.add(figures, len(batch.images) * self.fabric.world_size)
            done = self._done()
            pausing = self._agree(self.signals.received or now - began > self.limit_s)
            if state.step % LOG_EVERY == 0 or done or pausing:
                self._report(meter.report())
                if meter.bad_steps >= MAX_BAD_STEPS:
                    raise TrainingError(
                        f"the loss is not a number since step {state.step - meter.bad_steps}; "
                        f"the last good checkpoint is {self.out / CHECKPOINT}"
                    )
            validating = self._validation_due(done)
            due = self._agree(time.monotonic() - last_checkpoint > 60 * config.checkpoint_minutes)
            if due or validating or pausing:
                self._save()
                if validating:  # save before, so that a failure loses nothing, and again with the result
                    self._validate()
                    self._save()
                    meter.restart_clock()
                last_checkpoint = step_began = time.monotonic()
            if pausing or self._finished(done):
                break

    def _guided(self, batches: Iterable[Batch]) -> Iterator[GuidedBatch]:
        """Add the predictions of the teacher. A resumed run fills its pool anew, in another order."""
        settings, state = self.config.distillation, self.state
        return guided_batches(
            batches,
            self.distillation,
            bf16=self.config.precision == "bf16",
            reuse=settings.reuse if self.distillation else 1,
            pool_size=settings.pool,
            seed=hash((self.config.seed, state.step, self.fabric.global_rank)),
        )

    def _done(self) -> bool:
        """Return True if the steps or the time for them are used up."""
        return self.state.step >= self.config.steps or self._agree(self._time_share() > 1)

    def _validation_due(self, done: bool) -> bool:
        return done or self.state.step % self.config.validate_every == 0

    def _finished(self, done: bool) -> bool:
        """Return True if no step is left. Patience can only end at a validation."""
        validated = self.state.validated_step == self.state.step
        return done or (validated and self._out_of_patience())

    def _step(self, step_module: Any, guided: GuidedBatch) -> dict[str, Tensor]:
        """Update the weights once. A non-finite loss or gradient changes nothing. Return figures by name."""
        config, state = self.config, self.state
        batch, guide, _ = guided
        # Noise (dropout, denoising) depends only on seed, step and rank, so that a resumed run draws the same.
        torch.manual_seed(hash((config.seed, state.step, self.fabric.global_rank)) % 2**63)
        self._set_learning_rate()
        nodes = batch.targets.mask.sum().clamp(min=1).float()
        if self.fabric.world_size > 1:
            # With sums divided by the mean count, the mean gradient is the one of a single large batch.
            nodes = torch.as_tensor(self.fabric.all_reduce(nodes, reduce_op="mean"))
        tokens = self.dense_tokens if batch.is_dense else None
        if self.graphs is not None:
            figures = self.graphs(batch, nodes, tokens, guide)
        else:
            figures = step_module(batch.images, batch.targets, nodes, tokens, guide)
            self.fabric.backward(figures["loss"])
        gradients = [p.grad for group in self.optimizer.param_groups for p in group["params"] if p.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients)
        # The fused optimizer divides by `grad_scale` and skips the step if `found_inf` is 1. Both stay on the device.
        self.optimizer.optimizer.grad_scale = (norm / config.optimizer.clip_norm).clamp(min=1)
        self.optimizer.optimizer.found_inf = 1 - torch.isfinite(norm).float()
        self.optimizer.step()
        if self.graphs is None:  # CUDA graphs overwrite the gradients in place
            self.optimizer.zero_grad(set_to_none=True)
        self._average()
        return {name: value.detach() for name, value in figures.items()} | {"gradient_norm": norm}

    def _time_share(self) -> float:
        """Return the used share of the time limit: of the training time if that is limited, of the total otherwise."""
        if self.training_limit_s < math.inf:
            return self.state.training_seconds / self.training_limit_s
        return self.state.seconds / self.limit_s

    def _set_learning_rate(self) -> None:
        """Apply warm-up, then a cosine to zero over the steps, or over the time limit if that ends first."""
        settings, state = self.config.optimizer, self.state
        share = max(state.step / self.config.steps, self._time_share())
        warm = min(1.0, (state.step + 1) / max(1, settings.warmup_steps))
        factor = warm * 0.5 * (1 + math.cos(math.pi * min(1.0, share)))
        for group, rate in zip(self.optimizer.param_groups, self.rates, strict=True):
            group["lr"] = rate * factor

    @torch.no_grad()
    def _average(self) -> None:
        # The decay grows with the steps. Otherwise an early average would be dominated by the random start.
        decay = min(self.config.optimizer.ema_decay, (1 + self.state.step) / (10 + self.state.step))
        torch._foreach_lerp_(self.averages, self.weights, 1 - decay)

    def _agree(self, decision: bool) -> bool:
        """Return the decision of the first process, because clocks differ between processes."""
        return bool(self.fabric.broadcast(decision)) if self.fabric.world_size > 1 else decision

    def _note_skips(self, batch: Batch) -> None:
        for skipped in batch.skipped:
            self.skips.add(skipped)

    def _report(self, figures: dict[str, float]) -> None:
        self.log.row(self.state, figures)
        if self.show is not None and self.fabric.is_global_zero:
            self.show(self.state.step, self.config.steps, figures)

    def _validate(self) -> None:
        if self.fabric.is_global_zero and self.measure is not None:
            weights = {name: tensor.clone() for name, tensor in self.model.state_dict().items()}
            self.model.load_state_dict(self.average)
            figures = self.measure(self.model)
            self.model.load_state_dict(weights)
            score = figures[self.config.score]
            if score > self.state.best_score:
                self.state.best_score, self.state.best_step = score, self.state.step
                metadata = {"config": json.dumps(asdict(self.model.config)), "step": str(self.state.step)}
                metadata["image_size"] = str(self.config.data.image_size)  # the input size of the exported model
                if folder := model_folder_of(self.config.start_from):
                    metadata["start_from"] = folder  # export takes over its sizes and thresholds
                checkpoint.write_tensors(self.out / BEST, self.average, metadata)
            self._report({f"valid_{name}": value for name, value in figures.items()})
            self.log.row(self.state, {"training_seconds": self.state.training_seconds})
        self.state.validated_step = self.state.step
        if self.fabric.world_size > 1:  # every process checks the patience
            best = self.state.best_score, self.state.best_step
            self.state.best_score, self.state.best_step = self.fabric.broadcast(best)

    def _save(self) -> None:
        if self.fabric.is_global_zero:
            path = self.out / CHECKPOINT
            checkpoint.save(path, self.model, self.average, self.optimizer.optimizer, self.state, self.config)
        self.fabric.barrier()

    def _out_of_patience(self) -> bool:
        since_best = (self.state.step - self.state.best_step) * self.sizes.mean * self.fabric.world_size
        patience = self.config.patience_epochs * self.config.epoch_images
        return bool(self.config.patience_epochs) and since_best >= patience


def _check(out: Path, resume: bool, *minutes: float | None) -> None:
    """Check the time limits and the output folder before anything is started."""
    for limit in minutes:
        if limit is not None and not limit > 0:
            raise ConfigError(f"a time limit must be positive, not {limit:g} minutes")
    if not resume and (out / CHECKPOINT).exists():
        raise TrainingError(f"{out}: already contains a run: resume it (--resume), or choose another folder")
    check_writable(out)
