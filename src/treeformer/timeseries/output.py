"""Write a series: RSML files, tables and figures.

| file | content |
| --- | --- |
| `rsml/NAME.rsml` | the skeleton of one date, with ids that are the same at all dates and a unified time-sequence |
| `combined/series.rsml` | all axes in one file with the function `age`, for archiDART |
| `axes_over_time.csv` | one row per axis and date |
| `axes.csv` | one row per axis |
| `plants.csv` | one row per plant and date |
| `registration.csv` | one row per date: its transform to the reference date, and how well it agrees |
| `lengths.png` | the length of each axis over time |
| `kymographs/AXIS.png` | the place of the tip over time along the longest axis of each of the first 12 plants |
| `animation.webp` | all dates, registered, with axes in colors that stay the same |

`px_per_mm` is the resolution of the reference date, by default that in its RSML metadata. `images` and `names` have one
entry per date, in the order of time. Functions that write return the names of the files, relative to the folder.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from treeformer._util.files import atomic_write_bytes, write_table
from treeformer._util.image_output import write_image
from treeformer.errors import TreeformerError
from treeformer.formats import write as write_skeleton
from treeformer.formats.rsml.metadata import with_resolution
from treeformer.skeleton import Skeleton
from treeformer.timeseries import figures as drawing
from treeformer.timeseries.leftovers import listed_writes
from treeformer.timeseries.tables import series_scale

if TYPE_CHECKING:
    import pandas as pd

    from treeformer.timeseries.series import Series

# Number of plants that get a kymograph.
MAX_KYMOGRAPHS = 12


def write(
    series: Series,
    folder: str | os.PathLike[str],
    *,
    px_per_mm: float | None = None,
    names: Sequence[str] | None = None,
    images: Sequence[Any] | None = None,
    figures: bool = True,
) -> list[str]:
    """Write all files of a series; see the module's table.

    By default, dates are named "date-000" and so on. Without images, figures have white backgrounds.
    """
    out = Path(folder)
    scale = series_scale(series, px_per_mm)
    names = [f"date-{index:03d}" for index in range(len(series))] if names is None else list(names)
    if len(names) != len(series) or len(set(names)) < len(names):
        raise TreeformerError(f"a series of {len(series)} dates needs as many different names, not {len(names)}")
    if images is not None and len(images) != len(series):
        raise TreeformerError(f"a series of {len(series)} dates needs as many images, not {len(images)}")
    written: list[str] = []
    with _one_line_errors(out), listed_writes(out):
        for name, skeleton in zip(names, skeletons_with_scale(series, px_per_mm), strict=True):
            write_skeleton(skeleton, out / "rsml" / f"{name}.rsml")
            written.append(f"rsml/{name}.rsml")
        combined = series.combined() if scale is None else with_resolution(series.combined(), scale)
        write_skeleton(combined, out / "combined" / "series.rsml")
        written.append("combined/series.rsml")
        tables = {
            "axes_over_time.csv": series.axes_over_time(px_per_mm=px_per_mm),
            "axes.csv": series.axes(px_per_mm=px_per_mm),
            "plants.csv": series.plants_over_time(px_per_mm=px_per_mm),
            "registration.csv": registration_table(series, names),
        }
        for name, table in tables.items():
            write_table(table, out / name)
            written.append(name)
    if figures:
        written += write_figures(series, out, px_per_mm=px_per_mm, images=images)
    return written


def write_figures(
    series: Series,
    folder: str | os.PathLike[str],
    *,
    px_per_mm: float | None = None,
    images: Sequence[Any] | None = None,
) -> list[str]:
    """Draw length curves, kymographs of at most `MAX_KYMOGRAPHS` plants, and an animation."""
    out = Path(folder)
    scale = series_scale(series, px_per_mm)
    with _one_line_errors(out), listed_writes(out):
        write_image(drawing.length_curves(series, scale), out / "lengths.png")
        written = ["lengths.png"]
        for track in drawing.longest_axes(series)[:MAX_KYMOGRAPHS]:
            write_image(drawing.kymograph(series, track, images, scale), out / "kymographs" / f"{track.id}.png")
            written.append(f"kymographs/{track.id}.png")
        atomic_write_bytes(out / "animation.webp", drawing.animation(series, images))
    return [*written, "animation.webp"]


@contextmanager
def _one_line_errors(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise TreeformerError(f"{error.filename or out}: cannot be written ({error.strerror or error})") from None


def skeletons_with_scale(series: Series, px_per_mm: float | None) -> list[Skeleton]:
    """Return the skeletons of all dates. Each states its own resolution if that of the reference date is known."""
    scale = series_scale(series, px_per_mm)
    return [
        skeleton if scale is None else with_resolution(skeleton, scale / registration.transform.scale)
        for skeleton, registration in zip(series.skeletons, series.registrations, strict=True)
    ]


def registration_table(series: Series, names: Sequence[str]) -> pd.DataFrame:
    """Return one row per date: its transform to the reference date, and how well it agrees.

    The columns are name, time, shift in px, rotation in degrees, scale, agreement, residual in px, method, succeeded.
    """
    import pandas as pd

    return pd.DataFrame(
        {
            "name": list(names),
            "time": series.times,
            "shift_x": [r.transform.shift[0] for r in series.registrations],
            "shift_y": [r.transform.shift[1] for r in series.registrations],
            "rotation": [math.degrees(r.transform.rotation) for r in series.registrations],
            "scale": [r.transform.scale for r in series.registrations],
            "agreement": [r.agreement for r in series.registrations],
            "residual_px": [r.residual_px for r in series.registrations],
            "method": [r.method for r in series.registrations],
            "succeeded": [r.succeeded for r in series.registrations],
        }
    )
