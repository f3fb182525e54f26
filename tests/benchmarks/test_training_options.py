"""The comparison of options for training: its table."""

from __future__ import annotations

from benchmarks import training_options
from treeformer.training.checkpoint import RunState
from treeformer.training.logger import RunLog


def test_runs_that_have_ended_are_read_from_their_logs(tmp_path):
    first, second, _ = training_options.VARIANTS
    log = RunLog(tmp_path / first, 0)
    for step, rate in ((20, 900.0), (40, 1000.0), (60, 950.0)):
        log.row(RunState(step=step), {"images_per_s": rate, "waiting_for_images": step / 1000})
    log.row(RunState(step=64), {"valid_topo_paper_f1": 0.75, "valid_topo_f1": 0.5})
    log.close()
    (tmp_path / first / "ended").touch()
    (tmp_path / second).mkdir()  # has not ended
    lines = training_options.table(tmp_path, [first, second]).splitlines()
    assert lines[2:] == [f"| {first} | 64 | 950 | 0.750 / 0.500 | 6.0% |"]
