"""Configurations: every mistake is an error message of one line with the key."""

from __future__ import annotations

from dataclasses import asdict, dataclass
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


def test_values_and_overrides_are_used(tmp_path):
    path = write(tmp_path, "steps: 7\ndata:\n  train:\n  - {presets: [vine], styles: [photo], weight: 2}\n")
    config = load_config(path, ["optimizer.learning_rate=1", "data.workers=3", "model_options={tokens: 40}"])
    assert (config.steps, config.data.workers, config.model_options) == (7, 3, {"tokens": 40})
    assert config.data.train[0].presets == ("vine",)
    assert config.data.train[0].weight == 2.0
    assert config.optimizer.learning_rate == 1.0


def test_keys_of_earlier_versions_are_read(tmp_path):
    (tmp_path / "base.yaml").write_text("data: {dense_every: 4, dense_tokens: 448, early_size: 64}\n")
    text = "base: base.yaml\ndata:\n  dense_max_nodes: 300\n  train: [{presets: [vine], dense_weight: 2}]\n"
    data = load_config(write(tmp_path, text), ["data.dense_every=8", "data.early_steps=3"]).data
    assert (data.crowded_every, data.crowded_tokens, data.crowded_max_nodes) == (8, 448, 300)
    assert (data.warmup_image_size, data.warmup_image_steps) == (64, 3)
    assert data.train[0].crowded_weight == 2.0
    listed = load_config(write(tmp_path, ""), ["data.train=[{presets: [vine], dense_weight: 3}]"]).data
    assert listed.train[0].crowded_weight == 3.0


def test_a_file_changes_values_of_its_base(tmp_path):
    (tmp_path / "base.yaml").write_text("steps: 7\noptimizer: {learning_rate: 1, clip_norm: 2}\nmodel: tiny\n")
    path = write(tmp_path, "base: base.yaml\nmodel: small\noptimizer: {clip_norm: 3}\ndata: {workers: 2}\n")
    config = load_config(path, ["seed=4"])
    assert (config.steps, config.model, config.data.workers, config.seed) == (7, "small", 2, 4)
    assert (config.optimizer.learning_rate, config.optimizer.clip_norm) == (1.0, 3.0)
    with pytest.raises(ConfigError, match=r"none\.yaml: no such file"):
        load_config(write(tmp_path, "base: none.yaml"))
    with pytest.raises(ConfigError, match="base must be the name of a file, not 3"):
        load_config(write(tmp_path, "base: 3"))
    with pytest.raises(ConfigError, match="refer to each other by base"):
        load_config(write(tmp_path, "base: run.yaml"))


def test_sources_are_excluded_by_their_path(tmp_path):
    text = "data: {train: [{path: a}, {presets: [paper]}], exclude: [a]}"
    assert load_config(write(tmp_path, text)).data.exclude == ("a",)
    with pytest.raises(ConfigError, match=r"data\.exclude: no training source has the path b"):
        load_config(write(tmp_path, text.replace("[a]", "[b]")))


@pytest.mark.parametrize(
    ("text", "value"), [("1e-4", 1e-4), ("1E+2", 100.0), ("-5e0", -5.0), ("'.5'", 0.5), ("2e3", 2e3)]
)
def test_a_number_that_yaml_reads_as_text_is_a_number_in_a_float_field(tmp_path, text, value):
    """PyYAML reads numbers with an exponent but without a decimal point as text."""
    weight = load_config(write(tmp_path, f"data: {{train: [{{weight: {text}}}]}}")).data.train[0].weight
    assert weight == value
    assert type(weight) is float
    if value >= 0:
        path = write(tmp_path, f"optimizer: {{learning_rate: {text}}}")
        assert load_config(path).optimizer.learning_rate == value
        config = load_config(write(tmp_path, ""), [f"optimizer.learning_rate={text}"])
        assert config.optimizer.learning_rate == value


@pytest.mark.parametrize(
    "text", ["fast", "1e", "e4", "'0x10'", "1_0e2", "nan", "inf", "'1e-4 '", "1e-4px", "''", "true"]
)
def test_other_text_is_no_number(tmp_path, text):
    with pytest.raises(ConfigError, match="learning_rate must be a number, not"):
        load_config(write(tmp_path, f"optimizer: {{learning_rate: {text}}}"))


def test_text_is_no_whole_number_and_stays_text_in_a_text_field(tmp_path):
    with pytest.raises(ConfigError, match="steps must be a whole number, not '1e3'"):
        load_config(write(tmp_path, "steps: 1e3"))
    assert load_config(write(tmp_path, "name: 1e3")).name == "1e3"


def test_text_in_an_optional_float_field_is_a_number():
    @dataclass
    class Optional:
        radius: float | None = None
        sizes: tuple[float, ...] = ()

    assert build(Optional, {"radius": "1e2", "sizes": ["1e1", 2]}, "test") == Optional(100.0, (10.0, 2.0))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("stepz: 3", "unknown key 'stepz'; known are name, "),
        ("steps: many", "steps must be a whole number, not 'many'"),
        ("steps: true", "steps must be a whole number"),
        ("steps: 0", "steps must be at least 1, not 0"),
        ("data: {workers: -1}", r"data\.workers must be at least 0, not -1"),
        ("optimizer: {learning_rate: .nan}", r"optimizer\.learning_rate must be at least 0, not nan"),
        ("optimizer: {learning_rate: .inf}", r"optimizer\.learning_rate must be finite, not inf"),
        ("optimizer: {ema_decay: 2}", r"optimizer\.ema_decay must be at most 1\.0, not 2\.0"),
        ("shrink_start: true", "shrink_start needs the weights of a larger model: start_from is empty"),
        ("seed: -1", "seed must be at least 0"),
        ("seed: 100000000000000000000", "seed must be at most 9223372036854775807, not 100000000000000000000"),
        ("precision: 16", "precision must be one of 32, bf16"),
        ("data: 5", "data: must be a table"),
        ("data: {train: {}}", "data: train must be a list"),
        ("data: {train: [{wait: 1}]}", r"train\[0\]: unknown key 'wait'"),
        ("- 1", "must be a table"),
        ("a: [", r"not YAML \(line 1\)"),
        ("a: \0", r"not YAML \(unacceptable character"),
        ("name: 2024-02-30", r"not YAML \(day is out of range for month\)"),
    ],
)
def test_a_mistake_is_one_line(tmp_path, text, message):
    with pytest.raises(ConfigError, match=message) as error:
        load_config(write(tmp_path, text))
    assert "\n" not in str(error.value)


def test_no_checkpoints_and_no_clipping_are_infinite(tmp_path):
    config = load_config(write(tmp_path, "checkpoint_minutes: .inf\noptimizer: {clip_norm: .inf}\n"))
    assert config.checkpoint_minutes == config.optimizer.clip_norm == float("inf")


@pytest.mark.parametrize(
    ("override", "message"), [("steps", "key=value"), ("steps.x=1", "not a group"), ("name=2024-02-30", "not YAML")]
)
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
    max_nodes = getattr(chosen, "tokens", getattr(chosen, "max_nodes", None))  # the two-stage model has no limit
    assert max_nodes is None or config.data.max_nodes <= max_nodes
    for source in config.data.train + config.data.valid:
        assert bool(source.presets) != bool(source.path)
        assert set(source.presets) <= set(synthetic.PRESETS)
        assert set(source.styles) <= set(synthetic.STYLES)
        if source.presets:
            assert source.split in synthetic.SPLITS
