"""`treeformer generate`: write synthetic images to a folder data set.

A `size` is (width, height), px.
"""

from __future__ import annotations

import operator
import os
from dataclasses import dataclass
from pathlib import Path

from treeformer import synthetic
from treeformer._util.pools import check_workers
from treeformer._util.progress import ProgressCallback, no_progress
from treeformer.data.folder_dataset import ImageSuffix, has_pair, write_pair
from treeformer.data.recipe import being_written, claim, is_incomplete, recorded_count, write_recipe
from treeformer.data.workers import for_each
from treeformer.errors import TreeformerError

# Number of images per task of a worker process.
IMAGES_PER_TASK = 8


@dataclass(frozen=True)
class GenerateReport:
    """The result of `generate`; `str` returns a one-line summary."""

    out: Path
    created: int  # images created by this run
    kept: int  # images kept from an earlier run

    def __str__(self) -> str:
        kept = f", {self.kept} already there" if self.kept else ""
        return f"{self.out}: {self.created} {'image' if self.created == 1 else 'images'} created{kept}"


@dataclass(frozen=True)
class _Task:
    out: Path
    preset: str
    style: str
    size: tuple[int, int]
    seeds: tuple[int, ...]
    suffix: ImageSuffix


def generate(
    out: str | os.PathLike[str],
    *,
    count: int,
    preset: str = "paper",
    style: str = "paper",
    seed: int = 0,
    size: tuple[int, int] = (512, 512),
    workers: int = 1,
    suffix: ImageSuffix = "png",
    progress: ProgressCallback = no_progress,
) -> GenerateReport:
    """Write synthetic images as SEED.png (or SEED.jpg) with SEED.json, and `dataset.yaml`.

    Images have consecutive seeds; those for validation and test are in `treeformer.synthetic.SPLITS`. JPEG files are
    smaller and read faster; they differ slightly from the rendered images. With more than one worker, a script needs
    `if __name__ == "__main__":`.

    If an earlier run with the same settings was interrupted, or had a smaller count, only the missing images are
    created. A run with a smaller count does not complete an interrupted one. Other settings or files in the folder are
    an error.
    """
    folder = Path(out)
    count = operator.index(count)  # NumPy's integers would not be written to the recipe
    if count < 1:
        raise TreeformerError(f"count must be at least 1, not {count}")
    check_workers(workers)
    synthetic.make_image(preset, style, seed, size)  # raises if the preset, style, seed or size is invalid
    seed, (width, height) = int(seed), map(int, size)
    recipe = {
        "made_by": "treeformer generate",
        "preset": preset,
        "style": style,
        "seed": seed,
        "count": count,
        "size": [width, height],
    } | ({"suffix": suffix} if suffix != "png" else {})
    try:
        previous = claim(folder, recipe, may_differ=("count",))
        largest = max(count, recorded_count(folder, previous or recipe))

        def lacking(first: int, last: int) -> list[int]:
            return [number for number in range(first, last) if not has_pair(folder, _stem(number), suffix=suffix)]

        missing = lacking(seed, seed + count)
        done = kept = count - len(missing)
        progress(done, count)

        def report(created: int) -> None:
            nonlocal done
            done += created
            progress(done, count)

        tasks = [
            _Task(folder, preset, style, (width, height), tuple(missing[first : first + IMAGES_PER_TASK]), suffix)
            for first in range(0, len(missing), IMAGES_PER_TASK)
        ]
        if missing or is_incomplete(folder):
            # A smaller count does not complete the images of an earlier run.
            completes = not (is_incomplete(folder) and lacking(seed + count, seed + largest))
            with being_written(folder, completes=completes):
                for_each(_run_task, tasks, workers, report)
        if previous is not None and previous.get("count") != count:
            write_recipe(folder, recipe | {"count": largest})
    except OSError as error:
        raise TreeformerError(f"{folder}: cannot be written ({error.strerror or error})") from None
    return GenerateReport(folder, created=len(missing), kept=kept)


def _stem(seed: int) -> str:
    return f"{seed:06d}"


def _run_task(task: _Task) -> int:
    """Write the images of a task and return their number."""
    for seed in task.seeds:
        image, skeleton = synthetic.make_image(task.preset, task.style, seed, task.size)
        write_pair(image, skeleton, task.out, _stem(seed), suffix=task.suffix)
    return len(task.seeds)
