"""`treeformer generate --series`: write synthetic series, one folder per series."""

from __future__ import annotations

import operator
import os
from dataclasses import dataclass
from pathlib import Path

from treeformer._util.pools import check_workers
from treeformer._util.progress import ProgressCallback, no_progress
from treeformer.data.folder_dataset import has_pair, write_pair
from treeformer.data.generate import GenerateReport
from treeformer.data.recipe import being_written, claim, is_incomplete, recorded_count, write_recipe
from treeformer.data.workers import for_each
from treeformer.errors import TreeformerError
from treeformer.synthetic.series import generate_series as grow
from treeformer.synthetic.series_images import render_series


@dataclass(frozen=True)
class _Task:
    out: Path
    preset: str
    style: str
    size: tuple[int, int]
    dates: int
    seed: int


def generate_series(
    out: str | os.PathLike[str],
    *,
    dates: int,
    count: int,
    preset: str = "plate",
    style: str = "photo",
    seed: int = 0,
    size: tuple[int, int] = (512, 512),
    workers: int = 1,
    progress: ProgressCallback = no_progress,
) -> GenerateReport:
    """Write `count` synthetic series of `dates` images as SEED/day-000.png with SEED/day-000.json, and `dataset.yaml`.

    The number in the name of an image is its time, in days. Otherwise this is as `generate`.
    """
    folder = Path(out)
    count, dates = operator.index(count), operator.index(dates)  # NumPy's integers would not be written to the recipe
    if count < 1:
        raise TreeformerError(f"count must be at least 1, not {count}")
    check_workers(workers)
    # Raises an error if the preset, style, seed, size or number of dates is invalid.
    render_series(grow(preset, seed, dates=dates, size=size)[:1], style, seed)
    seed, (width, height) = int(seed), map(int, size)
    recipe = {
        "made_by": "treeformer generate --series",
        "preset": preset,
        "style": style,
        "seed": seed,
        "dates": dates,
        "count": count,
        "size": [width, height],
    }
    try:
        previous = claim(folder, recipe, may_differ=("count",))
        largest = max(count, recorded_count(folder, previous or recipe))

        def lacking(first: int, last: int) -> list[_Task]:
            tasks = (_Task(folder, preset, style, (width, height), dates, number) for number in range(first, last))
            return [task for task in tasks if not _is_complete(task)]

        missing = lacking(seed, seed + count)
        done = count - len(missing)
        progress(done, count)

        def report(created: int) -> None:
            nonlocal done
            done += created
            progress(done, count)

        if missing or is_incomplete(folder):
            # A smaller count does not complete the series of an earlier run.
            completes = not (is_incomplete(folder) and lacking(seed + count, seed + largest))
            with being_written(folder, completes=completes):
                for_each(_run_task, missing, workers, report)
        if previous is not None and previous.get("count") != count:
            write_recipe(folder, recipe | {"count": largest})
    except OSError as error:
        raise TreeformerError(f"{folder}: cannot be written ({error.strerror or error})") from None
    return GenerateReport(folder, created=len(missing) * dates, kept=(count - len(missing)) * dates)


def _folder(task: _Task) -> Path:
    return task.out / f"{task.seed:06d}"


def _is_complete(task: _Task) -> bool:
    # Dates are written in order, so that the last one means that the series is complete.
    frames = grow(task.preset, task.seed, dates=task.dates, size=task.size)
    return has_pair(_folder(task), _stem(frames[-1].time))


def _stem(time: float) -> str:
    return f"day-{time:03.0f}"


def _run_task(task: _Task) -> int:
    """Write one series and return 1."""
    frames = grow(task.preset, task.seed, dates=task.dates, size=task.size)
    for frame, image in zip(frames, render_series(frames, task.style, task.seed), strict=True):
        write_pair(image, frame.skeleton, _folder(task), _stem(frame.time))
    return 1
