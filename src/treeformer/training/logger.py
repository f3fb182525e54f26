"""The log of a training run: a CSV file, and TensorBoard if it is installed."""

from __future__ import annotations

import csv
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from treeformer.training.checkpoint import RunState

LOG = "log.csv"


class RunLog:
    """Write log.csv, one row per figure, and TensorBoard events if TensorBoard is installed.

    Nothing is written before the first row. A run that fails at its start, or is already finished, changes no file.

    Args:
        out: output folder of the run.
        step: step from which the run continues, 0 for a new run.
    """

    def __init__(self, out: Path, step: int) -> None:
        self.out, self.step = out, step
        self.file: TextIO | None = None
        self.events: Any = None

    def _open(self) -> TextIO:
        self.out.mkdir(parents=True, exist_ok=True)
        path = self.out / LOG
        rows = []
        if self.step and path.exists():
            # Steps that a killed run logged after its last checkpoint are repeated, so their rows are dropped.
            with path.open(newline="") as file:
                rows = [row for row in csv.reader(file) if row and row[0].isdigit() and int(row[0]) <= self.step]
        file = path.open("w", newline="")
        csv.writer(file).writerows([("step", "seconds", "figure", "value"), *rows])
        with suppress(ImportError):
            from torch.utils.tensorboard import SummaryWriter

            self.events = SummaryWriter(str(self.out))
        return file

    def row(self, state: RunState, figures: dict[str, float]) -> None:
        """Log figures at the current step.

        Args:
            state: the current step and time.
            figures: values by name.
        """
        self.file = self.file or self._open()
        writer = csv.writer(self.file)
        for name, value in figures.items():
            writer.writerow((state.step, f"{state.seconds:.1f}", name, f"{value:.6g}"))
            if self.events is not None:
                self.events.add_scalar(name, value, state.step)
        self.file.flush()

    def close(self) -> None:
        """Close the files."""
        if self.file is not None:
            self.file.close()
        if self.events is not None:
            self.events.close()


class NoLog:
    """Log nothing: the log of all processes except the first."""

    def row(self, state: RunState, figures: dict[str, float]) -> None:
        """Do nothing.

        Args:
            state: ignored.
            figures: ignored.
        """

    def close(self) -> None:
        """Do nothing."""
