"""Transfer results and weights between machines as small files."""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Iterable
from pathlib import Path

from benchmarks.tables import results
from benchmarks.tables.train import WEIGHTS

from treeformer._util.files import atomic_write
from treeformer.errors import TreeformerError


def bring(run: str, *, runs: Path, results_folder: Path, to: Path) -> list[Path]:
    """Copy the result and the weights of a run into one flat folder, weights in parts under 15 MiB.

    Args:
        run: name of the run.
        runs: folder of the runs' weights.
        results_folder: folder of the result files.
        to: the folder to write.

    Returns:
        Paths of the written files.
    """
    from benchmarks.weight_parts import write_weight_parts

    to.mkdir(parents=True, exist_ok=True)
    copy = to / f"{run}.json"
    shutil.copyfile(results_folder / f"{run}.json", copy)
    parts = write_weight_parts(runs / run / WEIGHTS, to)
    named = [part.rename(to / part.name.replace(Path(WEIGHTS).stem, run, 1)) for part in parts]
    return [copy, *named]


def bring_results(runs: Iterable[str], *, results_folder: Path, to: Path) -> None:
    """Write the available results of some runs into one tar file, without weights.

    Args:
        runs: names of the runs; those without a result are ignored.
        results_folder: folder of the result files.
        to: the tar file, replaced if it exists.
    """
    paths = [results_folder / f"{run}.json" for run in runs]
    with atomic_write(to) as temporary, tarfile.open(temporary, "w") as tar:
        for path in paths:
            if path.exists():
                tar.add(path, arcname=path.name)


def take(from_folder: Path, *, runs: Path, results_folder: Path) -> list[str]:
    """Import the files that `bring` and `bring_results` wrote.

    Args:
        from_folder: folder with the files.
        runs: folder that receives the weights.
        results_folder: folder that receives the results.

    Returns:
        Names of the runs.

    Raises:
        TreeformerError: if the folder has no result or a broken one.
    """
    from benchmarks.weight_parts import join_weight_parts

    with_weights = [results.read(path) for path in sorted(from_folder.glob("*.json"))]
    without_weights = [result for path in sorted(from_folder.glob("*.tar")) for result in _in_tar(path)]
    if not with_weights + without_weights:
        raise TreeformerError(f"{from_folder}: contains no result")
    for result in with_weights:
        join_weight_parts(from_folder, result.run, runs / result.run / WEIGHTS)
    for result in with_weights + without_weights:
        results.write(result, results_folder)
    return [result.run for result in with_weights + without_weights]


def _in_tar(path: Path) -> list[results.Result]:
    found = []
    try:
        with tarfile.open(path, "r:") as tar:
            for member in tar:
                file = tar.extractfile(member)
                if file is not None:
                    found.append(results.parse(file.read().decode("utf-8"), f"{path}: {member.name}"))
    except (OSError, tarfile.TarError, UnicodeDecodeError) as error:
        raise TreeformerError(f"{path}: cannot be read ({error})") from None
    return found
