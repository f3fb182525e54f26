"""Configurations: everything that can be wrong with one is a line that names the key."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest

from treeformer import synthetic
from treeformer._util.config import ConfigError, build
from treeformer.training.config import TrainingConfig, load_config

CONFIGS = sorted((Path(__file__).parents[2] / "configs").glob("*.yaml"))


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "run.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_an_empty_file_gives_the_defaults(tmp_path):
    assert load_config(write(tmp_path, "")) == TrainingConfig()


def test_values_and_overrides_arrive(tmp_path):
    path = write(tmp_path, "steps: 7\ndata:\n  train:\n  - {presets: [vine], styles: [photo], weight: 2}\n")
    config = load_config(path, ["optimizer.learning_rate=1", "data.workers=3", "model_options={tokens: 40}"])
    assert (config.steps, config.data.workers, config.model_options) == (7, 3, {"tokens": 40})
    assert config.data.train[0].presets == ("vine",)
    assert config.data.train[0].weight == 2.0
    assert config.optimizer.learning_rate == 1.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("stepz: 3", "unknown key 'stepz'; known are name, "),
        ("steps: many", "steps must be a whole number, not 'many'"),
        ("steps: true", "steps must be a whole number"),
        ("steps: 0", "steps must be at least 1, not 0"),
        ("data: {workers: -1}", r"data\.workers must be at least 0, not -1"),
        ("optimizer: {learning_rate: .nan}", r"optimizer\.learning_rate must be at least 0, not nan"),
        ("seed: -1", "seed must be at least 0"),
        ("precision: 16", "precision must be one of 32, bf16"),
        ("data: 5", "data: must be a table"),
        ("data: {train: {}}", "data: train must be a list"),
        ("data: {train: [{wait: 1}]}", r"train\[0\]: unknown key 'wait'"),
        ("- 1", "must be a table"),
        ("a: [", r"not YAML \(line 1\)"),
    ],
)
def test_a_mistake_is_one_line(tmp_path, text, message):
    with pytest.raises(ConfigError, match=message) as error:
        load_config(write(tmp_path, text))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("override", "message"), [("steps", "key=value"), ("steps.x=1", "not a group")])
def test_a_wrong_override_is_one_line(tmp_path, override, message):
    with pytest.raises(ConfigError, match=message):
        load_config(write(tmp_path, "steps: 5"), [override])


def test_a_missing_file_is_one_line(tmp_path):
    with pytest.raises(ConfigError, match="no such file"):
        load_config(tmp_path / "none.yaml")


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_the_shipped_configurations_are_valid(path):
    assert load_config(path).name == path.stem


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_the_models_of_the_shipped_configurations_can_be_built(path):
    pytest.importorskip("torch")
    from treeformer.training.registry import MODELS

    config = load_config(path)
    settings = MODELS[config.model].settings()
    chosen = build(type(settings), asdict(settings) | config.model_options, path.name)
    most = getattr(chosen, "tokens", getattr(chosen, "max_nodes", None))  # the two-stage model has no limit
    assert most is None or config.data.max_nodes <= most
    for source in config.data.train + config.data.valid:
        assert bool(source.presets) != bool(source.path)
        assert set(source.presets) <= set(synthetic.PRESETS)
        assert set(source.styles) <= set(synthetic.STYLES)
        if source.presets:
            assert source.split in synthetic.SPLITS
