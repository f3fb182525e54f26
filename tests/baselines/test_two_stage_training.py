"""The two-stage baseline in the training loop."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

pytest.importorskip("torch")

import yaml

from treeformer._util.config import ConfigError
from treeformer.hub import safetensors
from treeformer.training.config import load_config
from treeformer.training.loop import train

SMALL = {"backbone_blocks": [1, 1], "backbone_channels": 8, "width": 32, "fine_width": 16, "hourglass_depth": 1}


@pytest.fixture
def config_file(tmp_path) -> Path:
    settings = {
        "model": "two_stage",
        "model_options": SMALL,
        "data": {
            "train": [{"presets": ["paper"]}],
            "valid": [{"presets": ["paper"], "split": "valid", "count": 2}],
            "image_size": 64,
            "max_nodes": 100,
        },
        "optimizer": {"learning_rate": 2e-3, "backbone_factor": 1.0, "warmup_steps": 2},
        "batch_size": 2,
        "steps": 4,
        "validate_every": 4,
        "score": "edge_f1",
        "precision": "32",
    }
    path = tmp_path / "two-stage.yaml"
    path.write_text(yaml.safe_dump(settings))
    return path


@pytest.mark.slow
@pytest.mark.parametrize("model", ["two_stage", "hourglass"])
def test_a_short_run(model, config_file, tmp_path):
    out = tmp_path / "out"
    progress = train(load_config(config_file, [f"model={model}"]), out, accelerator="cpu")
    assert progress.step == 4
    with (out / "log.csv").open(newline="") as file:
        figures = {row["figure"] for row in csv.DictReader(file)}
    expected = {"loss", "node", "direction", "valid_edge_f1"} | ({"early_node"} if model == "hourglass" else set())
    assert expected <= figures
    _, metadata = safetensors.read_header(out / "best.safetensors")
    assert json.loads(metadata["config"])["network"] == {"two_stage": "fpn"}.get(model, model)


def test_backbone_weights_for_an_hourglass_are_an_error(config_file, tmp_path):
    config = load_config(config_file, ["model=hourglass", "backbone_weights=resnet50.safetensors"])
    with pytest.raises(ConfigError, match="backbone_weights: the model 'hourglass' has no backbone"):
        train(config, tmp_path, accelerator="cpu")


def test_the_config_in_the_repository_is_read():
    config = load_config(Path(__file__).parents[2] / "configs" / "two-stage.yaml", ["model=hourglass"])
    assert config.model == "hourglass"
