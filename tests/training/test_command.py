"""The training command: one parser behind two entry points."""

from __future__ import annotations

import errno
import os
import subprocess
import sys

import pytest

from treeformer.errors import TreeformerError
from treeformer.training.command import main, parser, run


@pytest.mark.slow
def test_both_entry_points_have_the_same_options():
    texts = []
    for entry in (["-m", "treeformer", "train"], ["-m", "treeformer.training"]):
        done = subprocess.run([sys.executable, *entry, "--help"], capture_output=True, text=True, check=True)
        texts.append(done.stdout.replace(" ".join(["treeformer", "train"]), "X").split("\n\n", 1)[1])
    assert texts[0] == texts[1]
    for option in ("--training-time", "--max-minutes", "--resume", "--output", "--devices", "--machines"):
        assert option in texts[0]


def test_options_and_overrides_may_be_mixed():
    parsed = parser("x").parse_intermixed_args(["a.yaml", "--resume", "steps=3", "-o", "out", "seed=1"])
    assert parsed.overrides == ["steps=3", "seed=1"]
    assert parsed.resume


def test_a_missing_configuration_is_an_error(tmp_path):
    with pytest.raises(TreeformerError, match="no such file"):
        run([str(tmp_path / "none.yaml")], prog="x")


def test_a_file_that_cannot_be_written_is_one_line(monkeypatch, capsys):
    def run_out_of_space(*_arguments, **_options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "runs/log.csv")

    monkeypatch.setattr("treeformer.training.command.run", run_out_of_space)
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    assert capsys.readouterr().err == "treeformer: runs/log.csv: No space left on device\n"


def test_worker_processes_start_where_priorities_are_unknown(monkeypatch):
    """Windows has no `os.nice`."""
    from treeformer.data import loader

    called = []
    monkeypatch.delattr(os, "nice", raising=False)
    monkeypatch.setattr(loader, "ignore_signals", lambda: called.append("signals"))
    loader.lower_priority(0)
    assert called == ["signals"]
