"""Progress reports of fine-tuning, for people and, as JSON lines, for other programs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True)
class Report:
    """One report.

    Attributes:
        stage: "survey", "plan", "labels", "features", "training", "validation", "export" or "done".
        message: one line for people. Empty if there is nothing new to say.
        done: finished items of the stage.
        total: all items of the stage, 0 if unknown.
        seconds_left: estimated time to the end of the whole run, s. None if unknown.
        figures: validation figures or losses by name; `pseudo_labels` is the number of images with pseudo-labels.
    """

    stage: str
    message: str = ""
    done: int = 0
    total: int = 0
    seconds_left: float | None = None
    figures: Mapping[str, float] = field(default_factory=dict)

    def as_json(self) -> str:
        """Return the report as one line of JSON. Figures that are not finite become null.

        Example:
            >>> Report("training", done=3, total=9).as_json()
            '{"stage": "training", "message": "", "done": 3, "total": 9, "seconds_left": null, "figures": {}}'
        """
        table = asdict(self)
        table["figures"] = {name: value if math.isfinite(value) else None for name, value in self.figures.items()}
        return json.dumps(table)


Listener = Callable[[Report], None]
"""Receives every report. An error that it raises ends the run, which can be resumed."""
Stop = Callable[[], bool]
"""Returns True if the run shall stop. Asked between images and steps."""


def ignore(report: Report) -> None:
    """Ignore a report: the default `Listener`."""


def never() -> bool:
    """Return False: the default `Stop`."""
    return False
