"""The mean figures and the speed of training steps."""

from __future__ import annotations

import math

import pytest
import torch

from treeformer.data.loader import TimedBatches
from treeformer.training.meter import StepMeter


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("treeformer.training.meter.time.monotonic", lambda: now[0])
    return now


def figures(loss, norm=1.0):
    return {"loss": torch.tensor(loss), "gradient_norm": torch.tensor(norm)}


def test_a_validation_restarts_the_clock_but_not_the_means(clock):
    batches = TimedBatches(iter(()))
    meter = StepMeter(batches)
    batches.waited_s += 3.0
    meter.add(figures(1.0), images=4)
    clock[0] += 1000.0
    meter.restart_clock()
    batches.waited_s += 0.5
    meter.add(figures(3.0), images=4)
    clock[0] += 2.0
    one = {"gradient_norm": 1.0}
    assert meter.report() == {"loss": 2.0, "images_per_s": 2.0, "waiting_for_images": 0.25, **one}
    meter.add(figures(5.0), images=4)
    clock[0] += 1.0
    assert meter.report() == {"loss": 5.0, "images_per_s": 4.0, "waiting_for_images": 0.0, **one}


@pytest.mark.parametrize("bad", [(math.nan, 1.0), (math.inf, 1.0), (1.0, math.nan), (1.0, math.inf)])
def test_steps_in_a_row_without_a_finite_loss_or_gradient_are_counted(clock, bad):
    meter, counts = StepMeter(TimedBatches(iter(()))), []
    for steps in ([(1.0, 1.0), bad, bad], 3 * [bad], [bad, (1.0, 1.0)], [*(3 * [bad]), (1.0, 1.0), bad]):
        for loss, norm in steps:
            meter.add(figures(loss, norm), images=1)
        clock[0] += 1.0
        meter.report()
        counts.append(meter.bad_steps)
    assert counts == [2, 5, 0, 1]
