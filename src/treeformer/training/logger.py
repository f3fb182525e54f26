"""What a training run writes down on the way."""

from __future__ import annotations

import csv
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from treeformer.training.checkpoint import RunState

LOG = "log.csv"


class RunLog:
    """log.csv, a row a report, and TensorBoard where it is installed.

    Nothing is written before the first row: a run that fails at its start, or is finished, leaves all as it was.
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
            # What a killed run logged after its last checkpoint happens again.
            with path.open(newline="") as file:
                rows = [row for row in csv.reader(file) if row and row[0].isdigit() and int(row[0]) <= self.step]
        file = path.open("w", newline="")
        csv.writer(file).writerows([("step", "seconds", "figure", "value"), *rows])
        with suppress(ImportError):
            from torch.utils.tensorboard import SummaryWriter

            self.events = SummaryWriter(str(self.out))
        return file

    def row(self, progress: RunState, figures: dict[str, float]) -> None:
        """Figures by name, at this step."""
        self.file = self.file or self._open()
        writer = csv.writer(self.file)
        for name, value in figures.items():
            writer.writerow((progress.step, f"{progress.seconds:.1f}", name, f"{value:.6g}"))
            if self.events is not None:
                self.events.add_scalar(name, value, progress.step)
        self.file.flush()

    def close(self) -> None:
        """At the end of the run."""
        if self.file is not None:
            self.file.close()
        if self.events is not None:
            self.events.close()


class NoLog:
    """The log of all processes but the first."""

    def row(self, progress: RunState, figures: dict[str, float]) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""
