"""A few kills; `python -m tests.fuzz.kills` runs many."""

from __future__ import annotations

import os

import pytest

from tests.fuzz.kills import kill_evaluations, kill_predictions, kill_training

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name != "posix", reason="sends signals to process groups")]


def test_killed_predictions_are_resumed(tmp_path):
    assert kill_predictions(tmp_path, count=1, seed=1) > 0


def test_killed_training_runs_are_resumed(tmp_path):
    pytest.importorskip("torch")
    assert kill_training(tmp_path, count=2, seed=1) > 0


def test_killed_evaluations_leave_no_half_report(tmp_path):
    assert kill_evaluations(tmp_path, count=1, seed=1) > 0
