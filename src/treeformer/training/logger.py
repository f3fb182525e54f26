"""The log of a training run: a CSV file, and TensorBoard if it is installed."""

from __future__ import annotations

import csv
import re
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from treeformer._util.files import atomic_write
from treeformer.training.checkpoint import RunState

LOG = "log.csv"
STEP = re.compile("[0-9]{1,18}")


class RunLog:
    """Write log.csv, one row per figure, and TensorBoard events if TensorBoard is installed.

    Nothing is written before the first row. A run that fails at its start, or is already finished, changes no file.
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
            with path.open(newline="", encoding="utf-8", errors="replace") as file:
                rows = [row for row in csv.reader(file) if row and STEP.fullmatch(row[0]) and int(row[0]) <= self.step]
        # A full disk or a kill at this moment must not cost the log of the earlier calls.
        with atomic_write(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as new:
            csv.writer(new).writerows([("step", "seconds", "figure", "value"), *rows])
        file = path.open("a", newline="", encoding="utf-8")
        with suppress(ImportError):
            from torch.utils.tensorboard import SummaryWriter

            self.events = SummaryWriter(str(self.out))
        return file

    def row(self, state: RunState, figures: dict[str, float]) -> None:
        """Log figures at the current step."""
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
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""
