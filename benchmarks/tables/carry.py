"""Results and weights between machines: out as small files, in again where they are kept."""

from __future__ import annotations

import shutil
from pathlib import Path

from benchmarks.tables import results
from benchmarks.tables.train import WEIGHTS

from treeformer.errors import TreeformerError
from treeformer.files import whole_file


def bring(run: str, *, runs: Path, results_folder: Path, to: Path) -> list[Path]:
    """Copy a run's result, and its weights in parts under 15 MiB, into one flat folder; the files' paths."""
    from treeformer.training.weight_parts import write_weight_parts

    to.mkdir(parents=True, exist_ok=True)
    copy = to / f"{run}.json"
    shutil.copyfile(results_folder / f"{run}.json", copy)
    parts = write_weight_parts(runs / run / WEIGHTS, to)
    named = [part.rename(to / part.name.replace(Path(WEIGHTS).stem, run, 1)) for part in parts]
    return [copy, *named]


def take(from_folder: Path, *, runs: Path, results_folder: Path) -> list[str]:
    """Put what `bring` wrote where it belongs, results into their folder, weights into `runs`; the runs' names."""
    from treeformer.training.weight_parts import join_weight_parts

    found = [results.read(path) for path in sorted(from_folder.glob("*.json"))]
    if not found:
        raise TreeformerError(f"{from_folder}: no result in it")
    for result in found:
        join_weight_parts(from_folder, result.run, runs / result.run / WEIGHTS)
        with whole_file(results_folder / f"{result.run}.json") as temporary:
            shutil.copyfile(from_folder / f"{result.run}.json", temporary)
    return [result.run for result in found]
