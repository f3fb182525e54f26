"""Mean figures and speed of the training steps between two reports."""

from __future__ import annotations

import time

import torch
from torch import Tensor

from treeformer.data.loader import TimedBatches


class StepMeter:
    """Average the figures of steps, and measure how many images they use per second.

    A validation restarts the clock, but not the averages.

    Attributes:
        bad_steps: number of steps in a row, up to the last report, whose loss or gradient is not finite.
    """

    def __init__(self, batches: TimedBatches) -> None:
        self.bad_steps = 0
        self._batches = batches
        self._bad_steps: Tensor | float = 0.0  # up to the last step, on the device of the figures
        self._sums: dict[str, Tensor] = {}
        self._count = 0  # number of steps in `_sums`
        self.restart_clock()

    def restart_clock(self) -> None:
        """Measure the speed, and the time spent waiting, from now on."""
        self._began, self._images = time.monotonic(), 0
        self._batches.waited_s = 0.0

    def add(self, figures: dict[str, Tensor], images: int) -> None:
        """Add a step. Its figures, with `loss` and `gradient_norm`, stay on their device until the next report."""
        for name, value in figures.items():
            self._sums[name] = self._sums.get(name, 0.0) + value
        is_bad = 1 - torch.isfinite(figures["loss"] + figures["gradient_norm"]).float()
        self._bad_steps = (self._bad_steps + 1) * is_bad
        self._count += 1
        self._images += images

    def report(self) -> dict[str, float]:
        """Return mean figures, images per second and the share of waiting since the last report, and begin anew."""
        now = time.monotonic()
        means = {name: float(value) / self._count for name, value in self._sums.items()}
        means["images_per_s"] = self._images / (now - self._began)
        means["waiting_for_images"] = self._batches.share_since(self._began)
        self.bad_steps = int(self._bad_steps)
        self._sums, self._count = {}, 0
        self._began, self._images = now, 0
        return means
