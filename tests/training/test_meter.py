"""The mean figures and the speed of training steps."""

from __future__ import annotations

import pytest
import torch

from treeformer.data.loader import TimedBatches
from treeformer.training.meter import StepMeter


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("treeformer.training.meter.time.monotonic", lambda: now[0])
    return now


def test_a_validation_restarts_the_clock_but_not_the_means(clock):
    meter, batches = StepMeter(0), TimedBatches(iter(()))
    meter.add({"loss": torch.tensor(1.0)}, images=4)
    clock[0] += 1000.0
    meter.restart_clock(1)
    meter.add({"loss": torch.tensor(3.0)}, images=4)
    clock[0] += 2.0
    assert meter.report(2, batches) == {"loss": 2.0, "images_per_s": 2.0, "waiting_for_images": 0.0}
    meter.add({"loss": torch.tensor(5.0)}, images=4)
    clock[0] += 1.0
    assert meter.report(3, batches) == {"loss": 5.0, "images_per_s": 4.0, "waiting_for_images": 0.0}


def test_steps_in_a_row_without_a_finite_loss_are_counted(clock):
    meter, batches, counts = StepMeter(10), TimedBatches(iter(())), []
    for step, loss in ((12, float("nan")), (15, float("inf")), (16, 1.0), (20, float("nan"))):
        meter.add({"loss": torch.tensor(loss)}, images=1)
        clock[0] += 1.0
        meter.report(step, batches)
        counts.append(meter.bad_steps)
    assert counts == [2, 5, 0, 4]
