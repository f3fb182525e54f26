"""Several runs, each in a process of its own, some at a time on one machine."""

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

LOOK_EVERY_S = 0.5


def train_runs(
    chosen: Sequence[Run],
    *,
    at_a_time: int,
    max_total: float | None,
    bring_to: Path | None,
    minutes: float,
    runs: Path,
    data: Path,
    out: Path,
    **settings: Any,
) -> None:
    """Train the runs that have no result in `out` yet; settings as in `train_run`.

    Args:
        at_a_time: so many share the machine, and note it down.
        max_total: begin no run that would end later than this many minutes from now.
        bring_to: a folder that receives results and weights, or a .tar file that receives the results.
    """
    began, overhead, active = time.monotonic(), 0.0, dict[Run, float]()
    settings |= {"minutes": minutes, "runs": runs, "data": data, "out": out, "beside": at_a_time}

    def begin(run: Run) -> Process | None:
        spent = (time.monotonic() - began) / 60
        if max_total is not None and spent + minutes + overhead > max_total:
            print(f"{run.name}: not begun, {spent:.1f} of {max_total:g} minutes are over", file=sys.stderr)
            return None
        active[run] = spent
        process = multiprocessing.get_context("spawn").Process(target=_train_one, args=(run, settings))
        process.start()
        return process

    def trained(run: Run) -> bool:
        return (runs / run.name / WEIGHTS).exists()

    failed = []
    for run, code in side_by_side(_trainable(chosen, data, out), at_a_time, begin=begin, trained=trained):
        overhead = max(overhead, (time.monotonic() - began) / 60 - active[run] - minutes)
        if code:
            failed.append(run.name)
        elif bring_to and bring_to.suffix == ".tar":
            bring_results([one.name for one in chosen], results_folder=out, to=bring_to)
        elif bring_to:
            bring(run.name, runs=runs, results_folder=out, to=bring_to)
    if failed:
        raise TreeformerError(f"{', '.join(failed)}: failed, as said above")


def _trainable(chosen: Sequence[Run], data: Path, out: Path) -> list[Run]:
    """The runs without a result whose images are here; prepared once, before several processes want them."""
    have, found = results.read_all(out), []
    for run in chosen:
        if run.name in have:
            continue
        why = missing(run, data)
        if why:
            print(f"{run.name}: passed over, {why}", file=sys.stderr)
            continue
        DOMAINS[run.domain].make_ready(data)
        found.append(run)
    return found


def _train_one(run: Run, settings: dict[str, Any]) -> None:
    """All that one process does."""
    try:
        result = train_run(run, **settings)
    except TreeformerError as error:
        sys.exit(f"tables: {error}")
    except KeyboardInterrupt:
        sys.exit(f"tables: {run.name} was interrupted")
    print(f"{run.name}: {result.steps} steps, {result.trained_minutes:.2f} minutes, {result.images} images")


class Process(Protocol):
    """What is needed of a `multiprocessing.Process`."""

    @property
    def exitcode(self) -> int | None:
        """None while it runs."""

    def join(self) -> None:
        """Wait for its end."""


def side_by_side(
    runs: Iterable[Run],
    at_a_time: int,
    *,
    begin: Callable[[Run], Process | None],
    trained: Callable[[Run], bool],
    look_every_s: float = LOOK_EVERY_S,
) -> Iterator[tuple[Run, int]]:
    """Begin runs so that `at_a_time` of them are in training; each with its exit code when it has ended.

    One that has been trained is only tested and keeps no place: otherwise the rest would share the GPU among fewer.
    On Ctrl-C, which the processes receive too, they are waited for.

    Args:
        begin: start a run; None where it is too late for more.
        trained: whether all that is left of a run is its test.
    """
    waiting, going = deque(runs), dict[Run, Process]()
    try:
        while waiting or going:
            for run in [run for run, process in going.items() if process.exitcode is not None]:
                yield run, going.pop(run).exitcode or 0
            while waiting and sum(not trained(run) for run in going) < at_a_time:
                process = begin(waiting[0])
                if process is None:
                    waiting.clear()
                else:
                    going[waiting.popleft()] = process
            time.sleep(look_every_s)
    finally:
        for process in going.values():
            process.join()
