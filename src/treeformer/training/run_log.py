"""What a training run writes down on the way."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from treeformer.training.checkpoint import Progress

LOG = "log.csv"


class RunLog:
    """log.csv, a row a report, and TensorBoard where it is installed."""

    def __init__(self, out: Path, step: int) -> None:
        out.mkdir(parents=True, exist_ok=True)
        path = out / LOG
        rows = []
        if step and path.exists():
            # What a killed run logged after its last checkpoint happens again.
            with path.open(newline="") as file:
                rows = [row for row in csv.reader(file) if row and row[0].isdigit() and int(row[0]) <= step]
        self.file = path.open("w", newline="")
        self.writer = csv.writer(self.file)
        self.writer.writerow(("step", "seconds", "figure", "value"))
        self.writer.writerows(rows)
        self.events: Any = None
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            return
        self.events = SummaryWriter(str(out))

    def row(self, progress: Progress, figures: dict[str, float]) -> None:
        """Figures by name, at this step."""
        for name, value in figures.items():
            self.writer.writerow((progress.step, f"{progress.seconds:.1f}", name, f"{value:.6g}"))
            if self.events is not None:
                self.events.add_scalar(name, value, progress.step)
        self.file.flush()

    def close(self) -> None:
        """At the end of the run."""
        self.file.close()
        if self.events is not None:
            self.events.close()


class NoLog:
    """The log of all processes but the first."""

    def row(self, progress: Progress, figures: dict[str, float]) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""
