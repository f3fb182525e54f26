"""The training loop: a model, a stream of images, AdamW, averaged weights; on one device or on many machines."""

from __future__ import annotations

import importlib.util
import json
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from lightning.fabric import Fabric
from torch import Tensor

from treeformer import data
from treeformer._util.config import ConfigError
from treeformer._util.files import check_writable
from treeformer.data.loader import Batch, TimedBatches, on_device, strip_worker_tracebacks, training_loader
from treeformer.data.mixture import MixtureDataset
from treeformer.errors import TreeformerError
from treeformer.training import checkpoint
from treeformer.training.config import TrainingConfig
from treeformer.training.logger import NoLog, RunLog
from treeformer.training.setup import make_fabric, make_model, model_folder_of, parameter_groups
from treeformer.training.step import CudaGraphStep, TrainingStep
from treeformer.training.validation import Validator

CHECKPOINT, BEST = "checkpoint.safetensors", "best.safetensors"
# A step whose loss is no number is left out; so many in a row mean that the model is lost.
MAX_BAD_STEPS = 20
LOG_EVERY = 20
# The first steps of a piece of a run compile, choose convolutions and wait for the first images.
WARM_UP_STEPS = 5


class TrainingError(TreeformerError):
    """A run that cannot go on; the last good checkpoint stays."""


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
    """Train until `config.steps`, a limit of time, or no improvement for `config.patience_epochs`.

    `out` receives checkpoint.safetensors (to go on from), best.safetensors (averaged weights of the best validation),
    log.csv, and TensorBoard's events where it is installed. show(step, steps, figures) is called now and then.

    Args:
        max_minutes: of this run with everything; with `training_minutes`, of this call: it can be resumed after it.
        training_minutes: of the steps alone, over all pieces of the run: what models are compared at.
        measure: given the model with averaged weights, figures by name; in place of validation on `config.data.valid`.
    """
    _check(out, resume, max_minutes, training_minutes)
    fabric = make_fabric(accelerator, devices, machines)
    torch.set_float32_matmul_precision("high")
    torch.manual_seed(config.seed)
    torch.backends.cudnn.benchmark = True
    # What the configuration may have wrong is found out before other processes are started: they would fail, too.
    model = make_model(config, with_weights=not resume)
    stream = MixtureDataset(config.data.train, config.data, config.seed)
    validator = None if measure else Validator(config, fabric.device)
    if validator is not None:
        validator.images.check_sources()
    fabric.launch()
    model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(parameter_groups(model, config.optimizer), fused=True)
    average = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
    if config.compile:
        model.compile_parts()
    step_module, optimizer = fabric.setup(TrainingStep(model, bf16=config.precision == "bf16"), optimizer)
    average = {name: tensor.to(fabric.device) for name, tensor in average.items()}
    progress = checkpoint.RunState()
    if resume:
        progress = checkpoint.restore(out / CHECKPOINT, model, average, optimizer.optimizer)
    limits = (max_minutes, training_minutes)
    with ExitStack() as stack:
        if validator is not None and fabric.is_global_zero:
            measure = stack.enter_context(validator).measure
        run = _Run(config, out, fabric, model, average, optimizer, progress, limits, show, measure)
        stack.callback(run.log.close)
        with run.defer_signals():
            run.loop(step_module, stream)
    return progress


class _Run:
    """One run's state and its loop."""

    def __init__(
        self,
        config: TrainingConfig,
        out: Path,
        fabric: Fabric,
        model: Any,
        average: dict[str, Tensor],
        optimizer: Any,
        progress: checkpoint.RunState,
        limits: tuple[float | None, float | None],
        show: Callable[[int, int, dict[str, float]], None] | None,
        measure: Callable[[Any], dict[str, float]] | None,
    ) -> None:
        self.config, self.out, self.fabric, self.model = config, out, fabric, model
        self.average, self.optimizer, self.progress = average, optimizer, progress
        self.limit_s, self.training_limit_s = (math.inf if limit is None else 60 * limit for limit in limits)
        self.show = show
        if config.batch_size % fabric.world_size:
            raise ConfigError(f"batch_size {config.batch_size} cannot be shared among {fabric.world_size} processes")
        self.batch = config.batch_size // fabric.world_size
        self.skips = data.SkipReport()
        self.log = RunLog(out, progress.step) if fabric.is_global_zero else NoLog()
        # All weights and buffers are floating-point numbers, and stay where they are in memory.
        self.averages = list(average.values())
        self.weights = [model.state_dict()[name] for name in average]
        self.measure = measure
        self.interrupted = False
        self.graphs = uses_cuda_graphs(fabric, model)
        self.cuda_graph_step: CudaGraphStep | None = None
        self.rates = [group["lr"] for group in optimizer.param_groups]

    @contextmanager
    def defer_signals(self) -> Iterator[None]:
        """Ctrl-C or a scheduler's SIGTERM ends the step in hand and writes a checkpoint first; asked twice, not."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

        def remember(number: int, _frame: Any) -> None:
            self.interrupted = True
            signal.signal(number, before[signal.Signals(number)])

        for number in before:
            signal.signal(number, remember)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def loop(self, step_module: Any, stream: MixtureDataset) -> None:
        """Steps, validations and checkpoints until the end."""
        progress = self.progress
        done = self._done()
        if progress.step > progress.validated_step and self._validation_due(done):  # it was killed while validating
            self._validate()
            self._save()
        if self._finished(done):
            self.fabric.print(f"{self.out}: finished at step {progress.step}; with more steps or time it would go on")
        else:
            self._steps(step_module, stream)
        if self.interrupted:
            raise KeyboardInterrupt

    def _steps(self, step_module: Any, stream: MixtureDataset) -> None:
        config, progress = self.config, self.progress
        loader = training_loader(
            stream,
            batch=self.batch,
            start=progress.position,
            rank=self.fabric.global_rank,
            world=self.fabric.world_size,
            workers=config.data.workers,
            pin=self.fabric.device.type == "cuda",
        )
        began, before = time.monotonic(), progress.seconds
        last_checkpoint, last_log, bad_steps = began, (began, progress.step), 0
        step_began, warm_from = began, progress.step + WARM_UP_STEPS
        sums: dict[str, Tensor] = {}
        summed = 0  # steps: a validation begins the clock anew, but not the sums
        arriving = TimedBatches(on_device(strip_worker_tracebacks(loader), self.fabric.device))
        for batch in arriving:
            self._note_skips(batch)
            figures = self._step(step_module, batch)
            progress.step += 1
            progress.position += config.batch_size
            now = time.monotonic()
            progress.seconds = before + now - began
            progress.training_seconds += now - step_began if progress.step > warm_from else 0.0
            step_began = now
            for name, value in figures.items():
                sums[name] = sums.get(name, 0.0) + value
            summed += 1
            done = self._done()
            pausing = self._agree(self.interrupted or now - began > self.limit_s)
            if progress.step % LOG_EVERY == 0 or done or pausing:
                now, steps = time.monotonic(), progress.step - last_log[1]
                means = {name: float(value) / summed for name, value in sums.items()}
                means["images_per_s"] = steps * config.batch_size / (now - last_log[0])
                means["waiting_for_images"] = arriving.share_since(last_log[0])
                bad_steps = bad_steps + steps if not math.isfinite(means["loss"]) else 0
                self._report(means)
                last_log, sums, summed = (now, progress.step), {}, 0
                if bad_steps >= MAX_BAD_STEPS:
                    raise TrainingError(
                        f"the loss is not a number since step {progress.step - bad_steps}; "
                        f"the last good checkpoint is {self.out / CHECKPOINT}"
                    )
            validating = self._validation_due(done)
            due = self._agree(time.monotonic() - last_checkpoint > 60 * config.checkpoint_minutes)
            if due or validating or pausing:
                self._save()
                if validating:  # saved before, so that nothing is lost with it, and after, with what it found
                    self._validate()
                    self._save()
                    last_log = (time.monotonic(), progress.step)
                last_checkpoint = step_began = time.monotonic()
            if pausing or self._finished(done):
                break
        if len(self.skips):
            self.fabric.print(str(self.skips))

    def _done(self) -> bool:
        """Whether the steps, or the time for them, are used up."""
        return self.progress.step >= self.config.steps or self._agree(self._time_share() > 1)

    def _validation_due(self, done: bool) -> bool:
        return done or self.progress.step % self.config.validate_every == 0

    def _finished(self, done: bool) -> bool:
        """Whether there is no step left to make; patience ends with a validation alone."""
        validated = self.progress.validated_step == self.progress.step
        return done or (validated and self._out_of_patience())

    def _step(self, step_module: Any, batch: Batch) -> dict[str, Tensor]:
        """One update. A loss or gradient that is no number leaves everything as it was."""
        config, progress = self.config, self.progress
        # Noise (dropout, denoising) depends on the step alone, so that a resumed run draws the same.
        torch.manual_seed(hash((config.seed, progress.step, self.fabric.global_rank)) % 2**63)
        self._set_learning_rate()
        nodes = batch.targets.mask.sum().clamp(min=1).float()
        if self.fabric.world_size > 1:
            # Divided by the mean count, the processes' gradients have the mean that one large batch would give.
            nodes = torch.as_tensor(self.fabric.all_reduce(nodes, reduce_op="mean"))
        if self.graphs:
            self.cuda_graph_step = self.cuda_graph_step or CudaGraphStep(
                self.model, batch, bf16=config.precision == "bf16"
            )
            figures = self.cuda_graph_step(batch, nodes)
        else:
            figures = step_module(batch.images, batch.targets, nodes)
            self.fabric.backward(figures["loss"])
        gradients = [p.grad for group in self.optimizer.param_groups for p in group["params"] if p.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients)
        # The fused optimizer divides by `grad_scale` and does nothing where `found_inf` is 1, both read on the device.
        self.optimizer.optimizer.grad_scale = (norm / config.optimizer.clip_norm).clamp(min=1)
        self.optimizer.optimizer.found_inf = 1 - torch.isfinite(norm).float()
        self.optimizer.step()
        if not self.graphs:  # which write the gradients anew, in their places
            self.optimizer.zero_grad(set_to_none=True)
        self._average()
        return {name: value.detach() for name, value in figures.items()} | {"gradient_norm": norm}

    def _time_share(self) -> float:
        """How much of its time the run has used: of the training alone where that is limited, else of everything."""
        if self.training_limit_s < math.inf:
            return self.progress.training_seconds / self.training_limit_s
        return self.progress.seconds / self.limit_s

    def _set_learning_rate(self) -> None:
        """Warm-up, then a cosine to zero over the steps or, where that ends first, over the time."""
        settings, progress = self.config.optimizer, self.progress
        share = max(progress.step / self.config.steps, self._time_share())
        warm = min(1.0, (progress.step + 1) / max(1, settings.warmup_steps))
        factor = warm * 0.5 * (1 + math.cos(math.pi * min(1.0, share)))
        for group, rate in zip(self.optimizer.param_groups, self.rates, strict=True):
            group["lr"] = rate * factor

    @torch.no_grad()
    def _average(self) -> None:
        # A young average would remember the random start: its memory grows with the steps.
        decay = min(self.config.optimizer.ema_decay, (1 + self.progress.step) / (10 + self.progress.step))
        torch._foreach_lerp_(self.averages, self.weights, 1 - decay)

    def _agree(self, mine: bool) -> bool:
        """The first process decides for all: clocks differ."""
        return bool(self.fabric.broadcast(mine)) if self.fabric.world_size > 1 else mine

    def _note_skips(self, batch: Batch) -> None:
        for one in batch.skipped:
            self.skips.add(one)

    def _report(self, figures: dict[str, float]) -> None:
        self.log.row(self.progress, figures)
        if self.show is not None and self.fabric.is_global_zero:
            self.show(self.progress.step, self.config.steps, figures)

    def _validate(self) -> None:
        if self.fabric.is_global_zero and self.measure is not None:
            weights = {name: tensor.clone() for name, tensor in self.model.state_dict().items()}
            self.model.load_state_dict(self.average)
            figures = self.measure(self.model)
            self.model.load_state_dict(weights)
            score = figures[self.config.score]
            if score > self.progress.best_score:
                self.progress.best_score, self.progress.best_step = score, self.progress.step
                metadata = {"config": json.dumps(asdict(self.model.config)), "step": str(self.progress.step)}
                if folder := model_folder_of(self.config.start_from):
                    metadata["start_from"] = folder  # export begins with its thresholds
                checkpoint.write_tensors(self.out / BEST, self.average, metadata)
            self._report({f"valid_{name}": value for name, value in figures.items()})
            self.log.row(self.progress, {"training_seconds": self.progress.training_seconds})
        self.progress.validated_step = self.progress.step
        if self.fabric.world_size > 1:  # patience is counted by every process
            best = self.progress.best_score, self.progress.best_step
            self.progress.best_score, self.progress.best_step = self.fabric.broadcast(best)

    def _save(self) -> None:
        if self.fabric.is_global_zero:
            path = self.out / CHECKPOINT
            checkpoint.save(path, self.model, self.average, self.optimizer.optimizer, self.progress, self.config)
        self.fabric.barrier()

    def _out_of_patience(self) -> bool:
        since_best = (self.progress.step - self.progress.best_step) * self.config.batch_size
        patience = self.config.patience_epochs * self.config.epoch_images
        return bool(self.config.patience_epochs) and since_best >= patience


def uses_cuda_graphs(fabric: Fabric, model: Any) -> bool:
    """Whether steps are CUDA graphs: on a single GPU with Triton, for a model that waits for nothing."""
    alone = fabric.device.type == "cuda" and fabric.world_size == 1 and importlib.util.find_spec("triton") is not None
    return alone and getattr(model, "recordable", False)


def _check(out: Path, resume: bool, *minutes: float | None) -> None:
    """What would only be found out later, or destroy an earlier run."""
    for limit in minutes:
        if limit is not None and not limit > 0:
            raise ConfigError(f"a limit of time must be positive, not {limit:g} minutes")
    if not resume and (out / CHECKPOINT).exists():
        raise TrainingError(f"{out}: holds a run already: resume it (--resume), or choose another folder")
    check_writable(out)
