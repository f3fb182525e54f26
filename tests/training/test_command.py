"""The training command: one parser behind two entry points."""

from __future__ import annotations

import subprocess
import sys

import pytest

from treeformer.errors import TreeformerError
from treeformer.training.command import parser, run


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
