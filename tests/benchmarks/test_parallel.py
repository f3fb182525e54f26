"""How many runs are in training at a time, with processes that are made up."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from benchmarks.tables.parallel import side_by_side
from benchmarks.tables.recipes import Run

RUNS = [Run("synthetic", "sfs", seed) for seed in range(7)]


class Machine:
    """Each look, a process grows older by one: it is trained at 3 and ends at 5, the first one with an error."""

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


@pytest.mark.parametrize("at_a_time", [1, 3, 9])
def test_so_many_are_in_training_and_those_in_their_test_keep_no_place(at_a_time):
    machine = Machine()
    ended = list(side_by_side(RUNS, at_a_time, begin=machine.begin, trained=machine.trained, look_every_s=0))
    assert ended == [(run, int(run.seed == 0)) for run in RUNS]
    assert max(machine.in_training) == min(at_a_time, len(RUNS))
    if at_a_time < len(RUNS):
        assert max(machine.alive) > at_a_time


def test_when_it_is_too_late_no_run_is_begun_and_those_that_were_begun_end():
    machine = Machine(room=2)
    found = list(side_by_side(RUNS, 1, begin=machine.begin, trained=machine.trained, look_every_s=0))
    assert [run.seed for run, _ in found] == [0, 1]


def test_an_interruption_waits_for_the_processes_that_run():
    machine = Machine()

    def begin(run: Run):
        if run.seed == 2:
            raise KeyboardInterrupt
        return machine.begin(run)

    with pytest.raises(KeyboardInterrupt):
        list(side_by_side(RUNS, 3, begin=begin, trained=machine.trained, look_every_s=0))
    assert machine.joined == 2
