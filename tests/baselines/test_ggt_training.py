"""The autoregressive baseline in the training loop: steps, validation, checkpoint, resume."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from treeformer.errors import TreeformerError
from treeformer.hub import safetensors
from treeformer.training.config import load_config
from treeformer.training.loop import train

CONFIG = Path(__file__).parents[2] / "configs" / "ggt.yaml"
SOURCE = "[{presets: [paper], styles: [paper], split: train, count: 3}]"  # only the third image has at most 12 nodes
SMALLER = [
    f"data.train={SOURCE}",
    f"data.valid={SOURCE}",
    "data.image_size=64",
    "data.max_nodes=12",
    "data.workers=0",
    "batch_size=2",
    "steps=2",
    "validate_every=1",
    "precision='32'",
    "compile=false",
    "model_options={max_nodes: 12, backbone_blocks: [1, 1, 1], backbone_channels: 8, width: 32, layers: 1, heads: 2}",
]


@pytest.mark.slow
def test_it_trains_validates_and_resumes(tmp_path):
    lines = []
    train(load_config(CONFIG, SMALLER), tmp_path, accelerator="cpu", show=lambda *line: lines.append(line))
    assert {"end", "point", "root", "edge", "edge_constrained"} <= {name for _, _, row in lines for name in row}
    assert any("valid_topo_f1" in row for _, _, row in lines)
    progress = train(load_config(CONFIG, [*SMALLER, "steps=3"]), tmp_path, accelerator="cpu", resume=True)
    assert progress.step == 3
    assert any(name.startswith("backbone.") for name in safetensors.read(tmp_path / "best.safetensors"))


def test_an_invalid_option_gives_a_one_line_error(tmp_path):
    with pytest.raises(TreeformerError, match="constraint must be one of none, test, train, both"):
        train(load_config(CONFIG, [*SMALLER, "model_options={constraint: tree}"]), tmp_path, accelerator="cpu")
