"""Train heads, decoder and neck on stored features: the mode for a CPU.

Every crop is a forward and a backward pass of its own, with as many tokens as it needs. Gradients are added up over the
crops of a step. All random choices depend on the seed and the step alone, so that a resumed run with the same number of
workers gives the same result.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from treeformer.errors import TreeformerError
from treeformer.finetuning.features import TopOfBackbone
from treeformer.finetuning.parallel import Replicas, Workers
from treeformer.finetuning.plan import Schedule
from treeformer.finetuning.progress import Listener, Report, Stop, never
from treeformer.models.treeformer import TreeFormer
from treeformer.nn.targets import Targets
from treeformer.skeleton import Skeleton
from treeformer.training import checkpoint

CHECKPOINT, BEST = "checkpoint.safetensors", "best.safetensors"
WEIGHT_DECAY = 1e-4
CLIP_NORM = 1.0
WARMUP_SHARE = 0.1
# Validations without improvement after which training stops.
PATIENCE = 3
# An improvement of the score below this is rounding.
MIN_GAIN = 1e-4
# Later weights replace the best ones unless their score is lower by more than this: with few validation images, smaller
# differences are chance, and the learning rate falls to zero, so that later weights are better on average.
TOLERANCE = 0.03
# Tokens of a crop: so many per node, and so many more.
TOKENS_PER_NODE, SPARE_TOKENS = 1.25, 48
CHECKPOINT_SECONDS = 60.0


@dataclass(frozen=True)
class Recipe:
    """How the weights are changed.

    Attributes:
        learning_rate: peak learning rate of decoder and heads.
        neck_factor: factor on the learning rate of the neck. 0 freezes it.
        backbone_factor: factor on the learning rate of the trained stages of the backbone.
        average_decay: decay per step of the averaged weights, which are validated and kept. It grows from 0.1 to this.
        max_tokens: largest number of tokens per crop.
    """

    learning_rate: float
    neck_factor: float = 0.3
    backbone_factor: float = 0.1
    average_decay: float = 0.9
    max_tokens: int = 256


Crop = tuple[Callable[[], list[Tensor]], Skeleton]
"""Returns the stored features, and the skeleton of the crop."""


def train_top(
    model: TreeFormer,
    crops: Sequence[Crop],
    schedule: Schedule,
    recipe: Recipe,
    folder: Path,
    *,
    seed: int,
    side: int,
    start_score: float,
    validate: Callable[[], dict[str, float]] | None,
    listen: Listener,
    should_stop: Stop,
    rest_seconds: float = 0.0,
    is_late: Stop = never,
    workers: int = 1,
) -> checkpoint.RunState:
    """Train until the schedule ends or validation no longer improves. Continue from the checkpoint if there is one.

    Args:
        model: the network with a separated backbone. It ends with the best weights, or those it started with.
        crops: stored features with their skeletons.
        schedule: steps and validations.
        recipe: how the weights are changed.
        folder: receives checkpoint.safetensors and best.safetensors.
        seed: seed of the order of the crops.
        side: side of the crops, px.
        start_score: validation score of the start model.
        validate: returns validation figures of the model with averaged weights, with the score as `topo_f1`. None
            keeps the last weights.
        listen: receives progress.
        should_stop: asked after every crop.
        rest_seconds: estimated time of what follows training, s, for the reports.
        is_late: asked after every step. Training ends with a last validation if it returns True.
        workers: crops that are computed at the same time.

    Returns:
        How far training has come. `best_step` is 0 if the start model is the best.

    Raises:
        KeyboardInterrupt: if `should_stop` returns True. A checkpoint has then been written.
        TreeformerError: if the loss is not finite, or the checkpoint cannot be written or does not fit.
    """
    optimizer = torch.optim.AdamW(parameter_groups(model, recipe))
    average = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
    start = {name: tensor.clone() for name, tensor in average.items()}
    state = checkpoint.RunState(best_score=start_score)
    if (folder / CHECKPOINT).exists():
        state = checkpoint.restore(folder / CHECKPOINT, model, average, optimizer)
    rates = [group["lr"] for group in optimizer.param_groups]
    last_saved = time.monotonic()

    def save() -> None:
        checkpoint.save(folder / CHECKPOINT, model, average, optimizer, state, schedule)

    def validate_and_save() -> None:
        _validate(model, average, state, validate, folder, listen, schedule)
        save()

    if state.step > state.validated_step and _is_validation_due(state, schedule):  # the run ended while validating
        validate_and_save()
    threads = Workers(min(workers, schedule.batch_size))
    replicas = Replicas(model, threads)
    while state.step < schedule.steps and not _out_of_patience(state, schedule):
        began = time.monotonic()
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate * rate_factor(state.step, schedule.steps)
        chosen = [crops[index] for index in crop_order(state.step, schedule.batch_size, len(crops), seed)]
        loss = step_gradient(replicas, chosen, side, recipe.max_tokens, should_stop)
        if loss is None:
            optimizer.zero_grad(set_to_none=True)
            save()
            raise KeyboardInterrupt
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
        if not math.isfinite(loss) or not math.isfinite(float(norm)):
            raise TreeformerError(f"the loss is not a number at step {state.step}")
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        state.step += 1
        decay = min(recipe.average_decay, (1 + state.step) / (10 + state.step))
        with torch.no_grad():
            for name, tensor in model.state_dict().items():
                average[name].lerp_(tensor, 1 - decay)
        state.training_seconds += time.monotonic() - began
        left = (schedule.steps - state.step) * state.training_seconds / state.step + rest_seconds
        listen(Report("training", "", state.step, schedule.steps, left, {"loss": loss}))
        ends = is_late()
        if ends or _is_validation_due(state, schedule):
            save()
            validate_and_save()
            last_saved = time.monotonic()
            if ends:
                break
        elif time.monotonic() - last_saved > CHECKPOINT_SECONDS:
            save()
            last_saved = time.monotonic()
    if validate is None:
        model.load_state_dict(average)
    elif state.best_step:
        best = checkpoint.averaged_weights(folder / BEST)
        model.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in best.items()})
    else:
        model.load_state_dict(start)
    return state


def step_gradient(
    replicas: Replicas, crops: Sequence[Crop], side: int, max_tokens: int, should_stop: Stop
) -> float | None:
    """Add the gradients of the crops of one step to the network.

    Args:
        replicas: the network.
        crops: the crops.
        side: side of the crops, px.
        max_tokens: largest number of tokens per crop.
        should_stop: asked after every crop.

    Returns:
        The loss. None if it is to stop; the gradients are then incomplete.
    """
    nodes = max(1, sum(len(skeleton) for _, skeleton in crops))
    stopped = threading.Event()

    def work(network: TreeFormer, crop: Crop) -> float:
        if stopped.is_set():
            return 0.0
        loss = _backward(network, crop[0](), crop[1], nodes, side, max_tokens)
        if should_stop():
            stopped.set()
        return loss

    loss = replicas.backward(work, sorted(crops, key=lambda crop: len(crop[1])))
    return None if stopped.is_set() else loss


def _backward(
    model: TreeFormer, features: list[Tensor], skeleton: Skeleton, nodes: int, side: int, max_tokens: int
) -> float:
    """Add the gradient of one crop, as a part of a batch with `nodes` nodes. Return its loss."""
    assert isinstance(model.backbone, TopOfBackbone)
    model.backbone.stored = features
    targets = Targets.from_skeletons([skeleton], max(2, len(skeleton)))
    wanted = max(len(skeleton), round(TOKENS_PER_NODE * len(skeleton)) + SPARE_TOKENS)
    tokens = min(wanted, max_tokens) if model.has_variable_tokens else None
    output = model(torch.empty(1, 3, side, side), targets, tokens)
    losses = model.loss(output, targets, torch.tensor(float(nodes)))
    total = torch.stack(list(losses.values())).sum()
    total.backward()  # type: ignore[no-untyped-call]
    return float(total.detach())


def _validate(
    model: TreeFormer,
    average: dict[str, Tensor],
    state: checkpoint.RunState,
    validate: Callable[[], dict[str, float]] | None,
    folder: Path,
    listen: Listener,
    schedule: Schedule,
) -> None:
    """Validate the averaged weights, and keep them if none before were clearly better."""
    state.validated_step = state.step
    if validate is None:
        return
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    model.load_state_dict(average)
    figures = validate()
    model.load_state_dict(weights)
    score = figures["topo_f1"]
    is_best = score > state.best_score + MIN_GAIN
    if is_best or (state.best_step and score > state.best_score - TOLERANCE):
        state.best_score, state.best_step = max(score, state.best_score), state.step
        checkpoint.write_tensors(folder / BEST, average, {"step": str(state.step)})
    text = f"step {state.step} of {schedule.steps}: validation F1 {score:.3f}, best {state.best_score:.3f}"
    listen(Report("validation", text, state.step, schedule.steps, None, figures))


def _is_validation_due(state: checkpoint.RunState, schedule: Schedule) -> bool:
    return state.step % schedule.validate_every == 0 or state.step == schedule.steps


def _out_of_patience(state: checkpoint.RunState, schedule: Schedule) -> bool:
    """Return True after `PATIENCE` validations without improvement, counted from half of the schedule on."""
    since_best = state.validated_step - state.best_step
    return state.step > schedule.steps // 2 and since_best >= PATIENCE * schedule.validate_every


def rate_factor(step: int, steps: int) -> float:
    """Return the learning rate of a step relative to its peak: a linear rise, then a cosine to zero.

    Args:
        step: number of the step, from 0.
        steps: number of steps.

    Returns:
        The factor, above 0 and at most 1.

    Example:
        >>> rate_factor(0, 100), rate_factor(9, 100) > 0.97
        (0.1, True)
    """
    warm = min(1.0, (step + 1) / max(1.0, WARMUP_SHARE * steps))
    return warm * 0.5 * (1 + math.cos(math.pi * step / max(1, steps)))


def crop_order(step: int, batch_size: int, crops: int, seed: int) -> list[int]:
    """Return the crops of a step. Every crop is used once before any is used again.

    Args:
        step: number of the step, from 0.
        batch_size: crops per step.
        crops: number of crops.
        seed: seed of the order.

    Returns:
        `batch_size` indices.
    """
    positions = range(step * batch_size, (step + 1) * batch_size)
    return [
        int(np.random.default_rng([seed, position // crops]).permutation(crops)[position % crops])
        for position in positions
    ]


def parameter_groups(model: TreeFormer, recipe: Recipe) -> list[dict[str, object]]:
    """Group the trainable parameters by learning rate and weight decay, and freeze those with a rate of 0.

    Args:
        model: the network with a separated backbone.
        recipe: the learning rates.

    Returns:
        Parameter groups for a torch optimizer.
    """
    groups: dict[tuple[float, float], list[Tensor]] = {}
    for name, parameter in model.named_parameters():
        part = name.split(".")[0]
        factor = {"neck": recipe.neck_factor, "backbone": recipe.backbone_factor}.get(part, 1.0)
        parameter.requires_grad_(factor > 0)
        if factor > 0:
            decay = WEIGHT_DECAY if parameter.ndim > 1 else 0.0
            groups.setdefault((factor, decay), []).append(parameter)
    return [
        {"params": parameters, "lr": recipe.learning_rate * factor, "weight_decay": decay}
        for (factor, decay), parameters in groups.items()
    ]
