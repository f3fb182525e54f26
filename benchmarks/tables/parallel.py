"""Train several runs on one machine, each in its own process, a given number at a time."""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from benchmarks.tables import results
from benchmarks.tables.domains import DOMAINS
from benchmarks.tables.recipes import Run
from benchmarks.tables.train import WEIGHTS, missing, train_run
from benchmarks.tables.transfer import bring, bring_results

from treeformer.errors import TreeformerError

POLL_SECONDS = 0.5


def train_runs(
    chosen: Sequence[Run],
    *,
    parallel: int,
    max_total: float | None,
    bring_to: Path | None,
    minutes: float,
    runs: Path,
    data: Path,
    out: Path,
    **settings: Any,
) -> None:
    """Train the runs that have no result in `out` yet.

    Args:
        chosen: the runs.
        parallel: number of runs that share the machine; recorded in the results.
        max_total: start no run that would end later than this many minutes from now.
        bring_to: a folder that receives results and weights, or a .tar file that receives the results.
        minutes: training time per run.
        runs: folder of checkpoints and weights.
        data: folder of the prepared sets.
        out: folder of the result files.
        **settings: further options of `train_run`.

    Raises:
        TreeformerError: if a run failed.
    """
    began, overhead, active = time.monotonic(), 0.0, dict[Run, float]()
    settings |= {"minutes": minutes, "runs": runs, "data": data, "out": out, "parallel": parallel}

    def begin(run: Run) -> Process | None:
        spent = (time.monotonic() - began) / 60
        if max_total is not None and spent + minutes + overhead > max_total:
            print(f"{run.name}: not started, {spent:.1f} of {max_total:g} minutes have passed", file=sys.stderr)
            return None
        active[run] = spent
        process = multiprocessing.get_context("spawn").Process(target=_train_one, args=(run, settings))
        process.start()
        return process

    def trained(run: Run) -> bool:
        return (runs / run.name / WEIGHTS).exists()

    failed = []
    for run, code in run_in_parallel(_trainable(chosen, data, out), parallel, begin=begin, trained=trained):
        overhead = max(overhead, (time.monotonic() - began) / 60 - active[run] - minutes)
        if code:
            failed.append(run.name)
        elif bring_to and bring_to.suffix == ".tar":
            bring_results([other.name for other in chosen], results_folder=out, to=bring_to)
        elif bring_to:
            bring(run.name, runs=runs, results_folder=out, to=bring_to)
    if failed:
        raise TreeformerError(f"{', '.join(failed)}: failed, see the messages above")


def _trainable(chosen: Sequence[Run], data: Path, out: Path) -> list[Run]:
    """Return the runs without a result whose images are available. Prepares the images before processes share them."""
    available, trainable = results.read_all(out), []
    for run in chosen:
        if run.name in available:
            continue
        reason = missing(run, data)
        if reason:
            print(f"{run.name}: skipped, {reason}", file=sys.stderr)
            continue
        DOMAINS[run.domain].make_ready(data)
        trainable.append(run)
    return trainable


def _train_one(run: Run, settings: dict[str, Any]) -> None:
    """Train one run; the main function of its process."""
    try:
        result = train_run(run, **settings)
    except TreeformerError as error:
        sys.exit(f"tables: {error}")
    except KeyboardInterrupt:
        sys.exit(f"tables: {run.name} was interrupted")
    print(f"{run.name}: {result.steps} steps, {result.trained_minutes:.2f} minutes, {result.images} images")


class Process(Protocol):
    """The part of `multiprocessing.Process` that is used here."""

    @property
    def exitcode(self) -> int | None:
        """Return the exit code, None while the process runs."""

    def join(self) -> None:
        """Wait for the end of the process."""


def run_in_parallel(
    runs: Iterable[Run],
    parallel: int,
    *,
    begin: Callable[[Run], Process | None],
    trained: Callable[[Run], bool],
    poll_seconds: float = POLL_SECONDS,
) -> Iterator[tuple[Run, int]]:
    """Start runs so that `parallel` of them are in training at any time.

    A run that is trained and only being tested does not count: otherwise fewer runs would share the GPU. On Ctrl-C,
    which the processes receive too, their end is awaited.

    Args:
        runs: the runs, in order.
        parallel: number of runs in training.
        begin: starts a run; returns None if no more runs may start.
        trained: returns True if only the test of a run is left.
        poll_seconds: interval between checks.

    Yields:
        Each run with its exit code when it has ended.
    """
    waiting, running = deque(runs), dict[Run, Process]()
    try:
        while waiting or running:
            for run in [run for run, process in running.items() if process.exitcode is not None]:
                yield run, running.pop(run).exitcode or 0
            while waiting and sum(not trained(run) for run in running) < parallel:
                process = begin(waiting[0])
                if process is None:
                    waiting.clear()
                else:
                    running[waiting.popleft()] = process
            time.sleep(poll_seconds)
    finally:
        for process in running.values():
            process.join()
