"""The training loop: steps, averaged weights, validations and checkpoints, until the steps or the time are used up.

What a batch is and how its gradient is computed is up to a `Work`: images on one device or many (`images.py`), or
stored features on a CPU (`treeformer.finetuning.cached_features`).
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from treeformer._util.config import ConfigError
from treeformer._util.files import check_writable, remove_leftovers
from treeformer.data.loader import TimedBatches
from treeformer.errors import TreeformerError
from treeformer.training import checkpoint
from treeformer.training.config import TrainingConfig
from treeformer.training.images import ImageWork
from treeformer.training.logger import NoLog, RunLog
from treeformer.training.meter import StepMeter
from treeformer.training.optimization import ClippedUpdates, WeightAverage, parameter_groups, rate_factor
from treeformer.training.setup import OneProcess, make_fabric, make_model, model_folder_of, sole_run
from treeformer.training.signals import DeferredSignals
from treeformer.training.validation import Validator

CHECKPOINT, BEST = "checkpoint.safetensors", "best.safetensors"
# Steps with a non-finite loss or gradient change nothing. This many in a row end the run.
MAX_BAD_STEPS = 20
LOG_EVERY = 20
# The first steps of every call compile, select convolutions and wait for the first images.
WARM_UP_STEPS = 5

Show = Callable[[int, int, dict[str, float]], None]
"""Called now and then with the step, the number of steps, and figures by name."""
Measure = Callable[[Any], dict[str, float]]
"""Returns validation figures of a model, by name."""


class TrainingError(TreeformerError):
    """A run cannot continue. Its last good checkpoint is kept."""


class Work(Protocol):
    """What a run trains on. A batch has `images`, their number, `shape`, and `is_new`, False if it is repeated."""

    images_per_batch: float  # mean over the batches, in all processes together

    def batches(self, state: checkpoint.RunState) -> AbstractContextManager[tuple[TimedBatches, Iterable[Any]]]:
        """Open the batches from a state on. The first result measures how long they are waited for."""

    def gradient(self, batch: Any) -> dict[str, Tensor]:
        """Set the gradient of every parameter to that of a batch. Return the losses by name, their sum as `loss`."""


def train(
    config: TrainingConfig,
    out: Path,
    *,
    resume: bool = False,
    max_minutes: float | None = None,  # of the whole run, over all calls; with `training_minutes`, of this call
    training_minutes: float | None = None,  # of the training steps alone, over all calls
    accelerator: str = "auto",  # or "cpu" or "cuda"
    devices: int = 1,  # GPUs or CPU processes per machine
    machines: int = 1,
    show: Show | None = None,
    measure: Measure | None = None,  # of the model with averaged weights; None validates on `config.data.valid`
    should_stop: Callable[[], bool] = lambda: False,  # asked after every step; stops the run as Ctrl-C does
    say: Callable[[str], None] | None = None,  # receives lines for people; None prints them
) -> checkpoint.RunState:
    """Train until `config.steps`, a time limit, or no improvement for `config.patience_epochs`.

    The output folder receives checkpoint.safetensors (to resume from), best.safetensors (averaged weights of the best
    validation), log.csv, and TensorBoard events if TensorBoard is installed. After Ctrl-C or SIGTERM the checkpoint is
    written before the KeyboardInterrupt.
    """
    _check(out, resume, max_minutes, training_minutes)
    fabric = make_fabric(accelerator, devices, machines)
    torch.set_float32_matmul_precision("high")
    torch.manual_seed(config.seed)
    torch.backends.cudnn.benchmark = True
    # Find mistakes in the configuration before other processes are started, which would fail as well.
    model = make_model(config, with_weights=not resume)
    work = ImageWork(config, model)
    validator = None if measure else Validator(config, fabric.device)
    if validator is not None:
        validator.images.check_sources()
    fabric.launch()
    with ExitStack() as stack:
        stack.enter_context(sole_run(out, fabric))
        work.launch(fabric)
        if validator is not None and fabric.is_global_zero:
            measure = stack.enter_context(validator).measure
        run = TrainingRun(
            config,
            out,
            model,
            work,
            measure,
            processes=fabric,
            limit_minutes=max_minutes,
            training_limit_minutes=training_minutes,
            show=show,
            should_stop=should_stop,
            say=say or fabric.print,
        )
        return run.run(resume=resume)


@dataclass
class TrainingRun:
    """The objects of one run, and its loop."""

    config: TrainingConfig
    out: Path
    model: Any  # on the device
    work: Work
    measure: Measure | None  # used in the first process only
    processes: Any = field(default_factory=OneProcess)  # or a launched Fabric
    limit_minutes: float | None = None  # see `train`
    training_limit_minutes: float | None = None
    show: Show | None = None
    should_stop: Callable[[], bool] = lambda: False  # asked after every step: pauses the run
    is_late: Callable[[], bool] = lambda: False  # asked after every step: ends the run with a last validation
    say: Callable[[str], None] = print
    report_every: int = LOG_EVERY  # steps
    start_score: float = -1.0  # that the first validation has to exceed

    def __post_init__(self) -> None:
        limits = (self.limit_minutes, self.training_limit_minutes)
        self.limit_s, self.training_limit_s = (math.inf if limit is None else 60 * limit for limit in limits)
        settings = self.config.optimizer
        self.optimizer = torch.optim.AdamW(parameter_groups(self.model, settings), fused=True)
        self.peak_rates = [group["lr"] for group in self.optimizer.param_groups]
        self.update = ClippedUpdates(self.optimizer, settings.clip_norm, self.processes.device)
        self.average = WeightAverage(self.model, settings.ema_decay)
        self.signals = DeferredSignals()
        self.state = checkpoint.RunState(best_score=self.start_score)
        self.is_interrupted = False

    def run(self, *, resume: bool) -> checkpoint.RunState:
        """Train to the end, or until the run is interrupted by a KeyboardInterrupt."""
        if resume:
            path = self.out / CHECKPOINT
            self.state = checkpoint.restore(path, self.model, self.average.tensors, self.optimizer)
        is_first = self.processes.is_global_zero  # the only process that writes
        if is_first:
            remove_leftovers(self.out)
        self.log = RunLog(self.out, self.state.step) if is_first else NoLog()
        try:
            with self.signals.defer():
                self._run()
        finally:
            self.log.close()
        return self.state

    def _run(self) -> None:
        state = self.state
        done = self._done()
        if state.step > state.validated_step and self._validation_due(done):  # the run was killed while validating
            self._validate()
            self._save()
        if self._finished(done):
            self.say(f"{self.out}: finished at step {state.step}; allow more steps or time to continue")
        else:
            with self.work.batches(state) as (arriving, batches):
                self._train(StepMeter(arriving), batches)
        if self.is_interrupted or self.signals.received:
            raise KeyboardInterrupt

    def _train(self, meter: StepMeter, batches: Iterable[Any]) -> None:
        config, state = self.config, self.state
        began, before = time.monotonic(), state.seconds
        last_checkpoint = step_began = began
        warm_from = state.step + WARM_UP_STEPS
        shapes = set()  # of batches so far in this call
        for batch in batches:
            figures = self._step(batch)
            images = batch.images * self.processes.world_size
            state.step += 1
            state.position += images if batch.is_new else 0
            now = time.monotonic()
            state.seconds = before + now - began
            # The first batch of a shape is compiled and captured, which is not training.
            is_warm = state.step > warm_from and batch.shape in shapes
            state.training_seconds += now - step_began if is_warm else 0.0
            shapes.add(batch.shape)
            step_began = now
            meter.add(figures, images)
            done = self._done() or self._agree(self.is_late())
            pausing = self._agree(self.signals.received or now - began > self.limit_s)
            if state.step % self.report_every == 0 or done or pausing:
                self._report(meter.report())
                if meter.bad_steps >= MAX_BAD_STEPS:
                    raise TrainingError(
                        f"the loss is not a number since step {state.step - meter.bad_steps}; "
                        f"the last good checkpoint is {self.out / CHECKPOINT}"
                    )
            self.is_interrupted = self._agree(self.signals.received or self.should_stop())
            pausing = pausing or self.is_interrupted
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

    def _step(self, batch: Any) -> dict[str, Tensor]:
        """Update the weights once. Return figures by name, on the device."""
        step = self.state.step
        # Noise (dropout, denoising) depends only on seed, step and rank, so that a resumed run draws the same.
        torch.manual_seed(hash((self.config.seed, step, self.processes.global_rank)) % 2**63)
        factor = rate_factor(
            step, max(step / self.config.steps, self._time_share()), self.config.optimizer.warmup_steps
        )
        for group, rate in zip(self.optimizer.param_groups, self.peak_rates, strict=True):
            group["lr"] = rate * factor
        losses = self.work.gradient(batch)
        norm = self.update()
        self.average.update(step)
        return {name: value.detach() for name, value in losses.items()} | {"gradient_norm": norm}

    def _time_share(self) -> float:
        """Return the used share of the time limit: of the training time if that is limited, of the total otherwise."""
        if self.training_limit_s < math.inf:
            return self.state.training_seconds / self.training_limit_s
        return self.state.seconds / self.limit_s

    def _done(self) -> bool:
        """Return True if the steps or the time for them are used up."""
        return self.state.step >= self.config.steps or self._agree(self._time_share() > 1)

    def _validation_due(self, done: bool) -> bool:
        return done or self.state.step % self.config.validate_every == 0

    def _finished(self, done: bool) -> bool:
        """Return True if no step is left. Patience can only end at a validation."""
        validated = self.state.validated_step == self.state.step
        return done or (validated and self._out_of_patience())

    def _out_of_patience(self) -> bool:
        config, state = self.config, self.state
        since_best = (state.step - state.best_step) * self.work.images_per_batch
        is_over = since_best >= config.patience_epochs * config.epoch_images
        return bool(config.patience_epochs) and state.step >= config.min_steps and is_over

    def _agree(self, decision: bool) -> bool:
        """Return the decision of the first process, because clocks differ between processes."""
        return bool(self.processes.broadcast(decision)) if self.processes.world_size > 1 else decision

    def _report(self, figures: dict[str, float]) -> None:
        self.log.row(self.state, figures)
        if self.show is not None and self.processes.is_global_zero:
            self.show(self.state.step, self.config.steps, figures)

    def _validate(self) -> None:
        """Measure the averaged weights, and keep them if they are the best."""
        state = self.state
        if self.processes.is_global_zero and self.measure is not None:
            weights = {name: tensor.clone() for name, tensor in self.model.state_dict().items()}
            self.model.load_state_dict(self.average.tensors)
            figures = self.measure(self.model)
            self.model.load_state_dict(weights)
            score = figures[self.config.score]
            is_close = state.best_step > 0 and score > state.best_score - self.config.score_tolerance
            if score > state.best_score or is_close:
                state.best_score, state.best_step = max(score, state.best_score), state.step
                metadata = {"config": json.dumps(asdict(self.model.config)), "step": str(state.step)}
                metadata["image_size"] = str(self.config.data.image_size)  # the input size of the exported model
                if folder := model_folder_of(self.config.start_from):
                    metadata["start_from"] = folder  # export takes over its sizes and thresholds
                checkpoint.write_tensors(self.out / BEST, self.average.tensors, metadata)
            self._report({f"valid_{name}": value for name, value in figures.items()})
            self.log.row(state, {"training_seconds": state.training_seconds})
        state.validated_step = state.step
        if self.processes.world_size > 1:  # every process checks the patience
            state.best_score, state.best_step = self.processes.broadcast((state.best_score, state.best_step))

    def _save(self) -> None:
        if self.processes.is_global_zero:
            path = self.out / CHECKPOINT
            checkpoint.save(path, self.model, self.average.tensors, self.optimizer, self.state, self.config)
        self.processes.barrier()


def _check(out: Path, resume: bool, *minutes: float | None) -> None:
    """Check the time limits and the output folder before anything is started."""
    for limit in minutes:
        if limit is not None and not limit > 0:
            raise ConfigError(f"a time limit must be positive, not {limit:g} minutes")
    if not resume and (out / CHECKPOINT).exists():
        raise TrainingError(f"{out}: already contains a run: resume it (--resume), or choose another folder")
    check_writable(out)
