"""Updates, learning rates and averaged weights against slow references in plain Python."""

from __future__ import annotations

import math
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

import torch
from torch import nn

from treeformer.data.loader import TimedBatches
from treeformer.hub import safetensors
from treeformer.training.config import OptimizerConfig, TrainingConfig
from treeformer.training.loop import BEST, TrainingRun
from treeformer.training.optimization import ClippedUpdates, parameter_groups

STEPS, WARM_UP = 12, 4


@dataclass(frozen=True)
class NoSettings:
    """The configuration of `Parts`."""


class Parts(nn.Module):
    """One weight per learning rate and weight decay."""

    config = NoSettings()

    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Linear(1, 1, bias=False)
        self.neck = nn.Linear(1, 1, bias=False)
        self.head = nn.Linear(1, 1)
        with torch.no_grad():
            for value, parameter in zip((0.5, -1.0, 2.0, 0.25), self.parameters(), strict=True):
                parameter.fill_(value)


def gradient(step: int, index: int) -> float:
    """Gradient of a weight in a step. Its norm is above and below the limit in turn."""
    return math.sin(1.7 * step + index) * (3.0 if step % 2 else 0.2)


class GivenGradients:
    """Work whose gradients do not depend on the weights."""

    images_per_batch = 2.0

    def __init__(self, model: nn.Module) -> None:
        self.model, self.rates = model, []

    @contextmanager
    def batches(self, state):
        numbers = range(state.step, 1000)
        batches = TimedBatches(SimpleNamespace(number=n, images=2, shape=(), is_new=True) for n in numbers)
        yield batches, batches

    def gradient(self, batch):
        for index, parameter in enumerate(self.model.parameters()):
            parameter.grad = torch.full_like(parameter, gradient(batch.number, index))
        return {"loss": torch.zeros(())}


def reference(settings: OptimizerConfig) -> tuple[list[list[float]], list[float], list[float]]:
    """Learning rates of every step, last weights and averaged weights, in the order backbone, neck, head, bias."""
    weights = [0.5, -1.0, 2.0, 0.25]
    factors = [settings.backbone_factor, settings.neck_factor, 1.0, 1.0]
    decays = [settings.weight_decay] * 3 + [0.0]
    average, first, second = list(weights), [0.0] * 4, [0.0] * 4
    rates = []
    for step in range(STEPS):
        warm = (step + 1) / WARM_UP if step < WARM_UP else 1.0
        cosine = 0.5 * (1 + math.cos(math.pi * step / STEPS))
        rates.append([settings.learning_rate * factor * warm * cosine for factor in factors])
        slopes = [gradient(step, index) for index in range(4)]
        norm = math.sqrt(sum(slope * slope for slope in slopes))
        if norm > settings.clip_norm:
            slopes = [slope * settings.clip_norm / norm for slope in slopes]
        share = max(1 - settings.ema_decay, 9 / (10 + step))
        for index, slope in enumerate(slopes):
            first[index] = 0.9 * first[index] + 0.1 * slope
            second[index] = 0.999 * second[index] + 0.001 * slope * slope
            mean = first[index] / (1 - 0.9 ** (step + 1))
            spread = math.sqrt(second[index] / (1 - 0.999 ** (step + 1)))
            weights[index] *= 1 - rates[-1][index] * decays[index]
            weights[index] -= rates[-1][index] * mean / (spread + 1e-8)
            average[index] += share * (weights[index] - average[index])
    return rates, weights, average


@pytest.mark.parametrize("interrupted", [None, 5])
def test_rates_weights_and_averages_after_some_steps(tmp_path, monkeypatch, interrupted):
    settings = OptimizerConfig(0.1, 0.2, 0.3, weight_decay=0.5, warmup_steps=WARM_UP, clip_norm=1.5, ema_decay=0.4)
    config = TrainingConfig(optimizer=settings, steps=STEPS, validate_every=STEPS, batch_size=2)
    expected_rates, weights, average = reference(settings)
    rates = []

    def run(stop_at):
        model = Parts()
        job = TrainingRun(config, tmp_path, model, GivenGradients(model), lambda _: {"topo_f1": 0.5})
        job.should_stop = lambda: job.state.step == stop_at
        step = job.update.__class__.__call__

        def update(self):
            decay_of = {id(p): g for g in self.optimizer.param_groups for p in g["params"]}
            rates.append([decay_of[id(p)]["lr"] for p in model.parameters()])
            return step(self)

        monkeypatch.setattr(ClippedUpdates, "__call__", update)
        try:
            job.run(resume=(tmp_path / "checkpoint.safetensors").exists())
        finally:
            monkeypatch.undo()
        return model

    if interrupted:
        with pytest.raises(KeyboardInterrupt):
            run(interrupted)
        assert len(rates) == interrupted
    model = run(None)
    for found, expected in zip(rates, expected_rates, strict=True):
        assert found == pytest.approx(expected, rel=1e-9)
    assert [float(p.detach()) for p in model.parameters()] == pytest.approx(weights, rel=1e-5)
    kept = safetensors.read(tmp_path / BEST)
    assert [float(kept[name].item()) for name, _ in model.named_parameters()] == pytest.approx(average, rel=1e-5)


OPTIMIZERS = {
    "sgd": lambda groups: torch.optim.SGD(groups, momentum=0.9),
    "adam": lambda groups: torch.optim.Adam(groups, foreach=False),
    "adamw": lambda groups: torch.optim.AdamW(groups, fused=True),
    "adagrad": torch.optim.Adagrad,
}


@pytest.mark.parametrize("name", list(OPTIMIZERS))
def test_any_optimizer_clips_and_skips_gradients_that_are_not_finite(name):
    found, expected = Parts(), Parts()
    settings = OptimizerConfig(learning_rate=0.01)
    optimizers = [OPTIMIZERS[name](parameter_groups(model, settings)) for model in (found, expected)]
    update = ClippedUpdates(optimizers[0], 1.5, torch.device("cpu"))
    for step in range(8):
        slopes = [gradient(step, index) for index in range(4)]
        norm = math.sqrt(sum(slope**2 for slope in slopes))
        for model, factor in ((found, 1.0), (expected, min(1.0, 1.5 / norm))):
            for slope, parameter in zip(slopes, model.parameters(), strict=True):
                parameter.grad = torch.full_like(parameter, slope * factor)
        assert float(update()) == pytest.approx(norm)
        optimizers[1].step()
        before = [p.clone() for p in found.parameters()]
        for bad in (math.nan, math.inf):
            found.neck.weight.grad.fill_(bad)
            assert not math.isfinite(float(update()))
            assert all(p.equal(old) for p, old in zip(found.parameters(), before, strict=True))
        for one, two in zip(found.parameters(), expected.parameters(), strict=True):
            torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-6)


def test_a_factor_of_0_freezes_a_part():
    model = Parts()
    groups = parameter_groups(model, OptimizerConfig(neck_factor=0.0))
    trained = {id(parameter) for group in groups for parameter in group["params"]}
    assert [id(parameter) in trained for parameter in model.parameters()] == [True, False, True, True]
