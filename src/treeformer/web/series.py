"""The dates of a time series: which images show one plate, when, and how their pixels correspond.

`treeformer series` writes the transform of each date to `registration.csv`. The page uses it to keep the same place in
view while it goes through the dates, and to offer a correction of one date to the others.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from treeformer.timeseries.similarity import Similarity
from treeformer.web.folder import Entry, Workspace
from treeformer.web.security import check_inside

TABLE, SKELETONS = "registration.csv", "rsml"
MAX_BYTES = 1 << 24


@dataclass(frozen=True)
class Date:
    """One image of a series.

    Attributes:
        image: its name in requests.
        time: as in the table, in days if the times were dates.
        transform: maps its pixels to those of the reference date.
        succeeded: False if the image could not be aligned.
    """

    image: str
    time: float
    transform: Similarity
    succeeded: bool

    def shown(self) -> dict[str, Any]:
        """Return the date as the page sees it; the transform is (x, y) -> (a x - b y + c, b x + a y + d)."""
        (a, _, c), (b, _, d) = self.transform.matrix.tolist()
        return {"image": self.image, "time": self.time, "transform": [a, b, c, d], "succeeded": self.succeeded}


def dates(workspace: Workspace, entries: list[Entry]) -> list[Date]:
    """Return the dates of the series in the results root, in the order of time; none if it holds no series."""
    table = workspace.results_root / TABLE
    check_inside(workspace.results_root, table)
    try:
        if table.stat().st_size > MAX_BYTES:
            return []
        with table.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, ValueError, csv.Error):
        return []
    images = {_name(workspace, entry): entry.image for entry in entries}
    found = [_date(row, images) for row in rows]
    return sorted((date for date in found if date is not None), key=lambda date: date.time)


def _name(workspace: Workspace, entry: Entry) -> str | None:
    """Return the name of a date by the place of its result, None if the result is elsewhere."""
    stem = entry.stem.relative_to(workspace.results_root)
    return stem.name if stem.parent == Path(SKELETONS) else None


def _date(row: dict[str, Any], images: dict[str | None, str]) -> Date | None:
    image = images.get(row.get("name"))
    try:
        time, x, y, rotation, scale = (float(row[key]) for key in ("time", "shift_x", "shift_y", "rotation", "scale"))
    except (KeyError, TypeError, ValueError):
        return None
    if image is None or not (scale > 0 and all(map(math.isfinite, (time, x, y, rotation, scale)))):
        return None
    transform = Similarity(scale, math.radians(rotation), (x, y))
    return Date(image, time, transform, row.get("succeeded") == "True")
