"""Number of runs in training at a time, with simulated processes."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from benchmarks.tables.parallel import run_in_parallel
from benchmarks.tables.recipes import Run

RUNS = [Run("synthetic", "sfs", seed) for seed in range(7)]


class Machine:
    """Processes age by one per check: trained at age 3, ended at age 5. The first one ends with an error."""

    def __init__(self, room: int = 99) -> None:
        self.ages: dict[Run, int] = {}
        self.room, self.joined = room, 0
        self.in_training: list[int] = []
        self.alive: list[int] = []

    def begin(self, run: Run):
        if len(self.ages) == self.room:
            return None
        self.ages[run] = 0
        self.in_training.append(sum(age < 3 for age in self.ages.values()))
        self.alive.append(sum(age < 5 for age in self.ages.values()))
        return Process(self, run)

    def trained(self, run: Run) -> bool:
        return self.ages[run] >= 3


class Process:
    def __init__(self, machine: Machine, run: Run) -> None:
        self.machine, self.run = machine, run

    @property
    def exitcode(self) -> int | None:
        self.machine.ages[self.run] += 1
        return None if self.machine.ages[self.run] < 5 else int(self.run.seed == 0)

    def join(self) -> None:
        self.machine.joined += 1


@pytest.mark.parametrize("parallel", [1, 3, 9])
def test_the_given_number_of_runs_is_in_training_and_runs_under_test_do_not_count(parallel):
    machine = Machine()
    ended = list(run_in_parallel(RUNS, parallel, begin=machine.begin, trained=machine.trained, poll_seconds=0))
    assert ended == [(run, int(run.seed == 0)) for run in RUNS]
    assert max(machine.in_training) == min(parallel, len(RUNS))
    if parallel < len(RUNS):
        assert max(machine.alive) > parallel


def test_no_run_starts_when_the_time_is_over_and_running_ones_finish():
    machine = Machine(room=2)
    found = list(run_in_parallel(RUNS, 1, begin=machine.begin, trained=machine.trained, poll_seconds=0))
    assert [run.seed for run, _ in found] == [0, 1]


def test_an_interruption_waits_for_running_processes():
    machine = Machine()

    def begin(run: Run):
        if run.seed == 2:
            raise KeyboardInterrupt
        return machine.begin(run)

    with pytest.raises(KeyboardInterrupt):
        list(run_in_parallel(RUNS, 3, begin=begin, trained=machine.trained, poll_seconds=0))
    assert machine.joined == 2
