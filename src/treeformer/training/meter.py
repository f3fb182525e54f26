"""Mean figures and speed of the training steps between two reports."""

from __future__ import annotations

import math
import time

from torch import Tensor

from treeformer.data.loader import TimedBatches


class StepMeter:
    """Average the figures of steps, and measure how many images they use per second.

    A validation restarts the clock, but not the averages.

    Args:
        step: number of steps so far.

    Attributes:
        bad_steps: number of steps in a row, up to the last report, whose mean loss is not finite.
    """

    def __init__(self, step: int) -> None:
        self.bad_steps = 0
        self._sums: dict[str, Tensor] = {}
        self._count = 0  # number of steps in `_sums`
        self.restart_clock(step)

    def restart_clock(self, step: int) -> None:
        """Measure the speed from now on."""
        self._began, self._first_step, self._images = time.monotonic(), step, 0

    def add(self, figures: dict[str, Tensor], images: int) -> None:
        """Add one step.

        Args:
            figures: scalars by name. They stay on their device until the next report.
            images: number of images of the step, in all processes.
        """
        for name, value in figures.items():
            self._sums[name] = self._sums.get(name, 0.0) + value
        self._count += 1
        self._images += images

    def report(self, step: int, batches: TimedBatches) -> dict[str, float]:
        """Return the figures since the last report, and begin anew.

        Args:
            step: number of steps so far.
            batches: the batches, which know how long they were waited for.

        Returns:
            Means by name, images per second, and the share of the time spent waiting for images.
        """
        now = time.monotonic()
        means = {name: float(value) / self._count for name, value in self._sums.items()}
        means["images_per_s"] = self._images / (now - self._began)
        means["waiting_for_images"] = batches.share_since(self._began)
        self.bad_steps = 0 if math.isfinite(means["loss"]) else self.bad_steps + step - self._first_step
        self._sums, self._count = {}, 0
        self._began, self._first_step, self._images = now, step, 0
        return means
