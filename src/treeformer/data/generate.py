"""`treeformer generate`: synthetic images written to a folder data set."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from treeformer import synthetic
from treeformer._util.pools import check_workers
from treeformer._util.progress import ProgressCallback, no_progress
from treeformer.data.datasets import has_pair, write_pair
from treeformer.data.recipe import claim, write_recipe
from treeformer.data.workers import for_each
from treeformer.errors import TreeformerError

# So many images are one task of a worker process.
IMAGES_A_TASK = 8


@dataclass(frozen=True)
class GenerateReport:
    """What `synth` did: images made now, and those kept from a run before."""

    out: Path
    made: int
    kept: int

    def __str__(self) -> str:
        kept = f", {self.kept} were there" if self.kept else ""
        return f"{self.out}: {self.made} {'image' if self.made == 1 else 'images'} made{kept}"


@dataclass(frozen=True)
class _Task:
    out: Path
    preset: str
    style: str
    size: tuple[int, int]
    seeds: tuple[int, ...]


def generate(
    out: str | os.PathLike[str],
    *,
    count: int,
    preset: str = "paper",
    style: str = "paper",
    seed: int = 0,
    size: tuple[int, int] = (512, 512),
    workers: int = 1,
    progress: ProgressCallback = no_progress,
) -> GenerateReport:
    """Write `count` images, of the seeds `seed`, `seed + 1`, …: SEED.png with SEED.json, and `dataset.yaml`.

    Goes on where an earlier run of the same recipe stopped, also with a larger count; a folder of another recipe,
    or of other files, is an error. The seeds of validation and test are in `treeformer.synthetic.SPLITS`.

    Args:
        size: (width, height) px.
        workers: processes; 0 and 1 are this one alone. A script that asks for more needs the usual
            `if __name__ == "__main__":`.
        progress: called with the number of images done and the number in all.
    """
    folder = Path(out)
    if count < 1:
        raise TreeformerError(f"count must be one image or more, not {count}")
    check_workers(workers)
    synthetic.make_image(preset, style, seed, size)  # a wrong name, seed or size ends it before anything is written
    width, height = size
    recipe = {
        "made_by": "treeformer generate",
        "preset": preset,
        "style": style,
        "seed": seed,
        "count": count,
        "size": [width, height],
    }
    try:
        before = claim(folder, recipe, may_differ=("count",))
        wanted = range(seed, seed + count)
        missing = [one for one in wanted if not has_pair(folder, _stem(one))]
        done = kept = count - len(missing)
        progress(done, count)

        def report(made: int) -> None:
            nonlocal done
            done += made
            progress(done, count)

        tasks = [
            _Task(folder, preset, style, (width, height), tuple(missing[first : first + IMAGES_A_TASK]))
            for first in range(0, len(missing), IMAGES_A_TASK)
        ]
        for_each(_make, tasks, workers, report)
        if before is not None and before.get("count") != count:
            write_recipe(folder, recipe | {"count": max(count, int(before.get("count", 0)))})
    except OSError as error:
        raise TreeformerError(f"{folder}: cannot be written ({error.strerror or error})") from None
    return GenerateReport(folder, made=len(missing), kept=kept)


def _stem(seed: int) -> str:
    return f"{seed:06d}"


def _make(task: _Task) -> int:
    for seed in task.seeds:
        image, skeleton = synthetic.make_image(task.preset, task.style, seed, task.size)
        write_pair(image, skeleton, task.out, _stem(seed))
    return len(task.seeds)
