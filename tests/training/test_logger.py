"""The log of a run: an earlier log is never lost."""

from __future__ import annotations

import errno
import os

import pytest

pytest.importorskip("torch")

from treeformer.training.checkpoint import RunState
from treeformer.training.logger import LOG, RunLog

OLD = "step,seconds,figure,value\r\n1,1.0,loss,3\r\n\u00b2,1.0,loss,3\r\n2,2.0,loss,2\r\n9,9.0,loss,1\r\n"


def test_a_continued_log_keeps_the_rows_up_to_its_step(tmp_path):
    (tmp_path / LOG).write_text(OLD, encoding="utf-8", newline="")
    log = RunLog(tmp_path, step=2)
    log.row(RunState(step=3, seconds=3.0), {"loss": 0.5})
    log.close()
    assert (tmp_path / LOG).read_text().split() == [
        "step,seconds,figure,value", "1,1.0,loss,3", "2,2.0,loss,2", "3,3.0,loss,0.5",
    ]  # fmt: skip
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith("events")] == [LOG]


def test_a_full_disk_does_not_cost_the_earlier_log(tmp_path, monkeypatch):
    (tmp_path / LOG).write_text(OLD, encoding="utf-8", newline="")

    def full(_handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        RunLog(tmp_path, step=2).row(RunState(step=3), {"loss": 0.5})
    assert (tmp_path / LOG).read_text(encoding="utf-8").split() == OLD.split()
