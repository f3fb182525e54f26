"""The configuration of a training run: YAML into checked dataclasses; a mistake is one line that names the key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal

from treeformer._util.config import ConfigError, build
from treeformer.data.config import DataConfig

# The least that a number may be, by its key.
LEAST = {
    "batch_size": 1,
    "steps": 1,
    "validate_every": 1,
    "checkpoint_minutes": 0,
    "patience_epochs": 0,
    "epoch_images": 1,
    "seed": 0,
    "data.image_size": 1,
    "data.max_nodes": 1,
    "data.workers": 0,
    "optimizer.learning_rate": 0,
    "optimizer.backbone_factor": 0,
    "optimizer.weight_decay": 0,
    "optimizer.warmup_steps": 0,
    "optimizer.clip_norm": 1e-9,
    "optimizer.ema_decay": 0,
}


@dataclass(frozen=True)
class OptimizerConfig:
    """AdamW with warm-up and a cosine down to zero."""

    learning_rate: float = 5e-4
    backbone_factor: float = 0.1
    """The backbone starts from trained weights: it moves this many times slower."""
    weight_decay: float = 1e-4
    warmup_steps: int = 300
    clip_norm: float = 1.0
    """Gradients with a larger norm are scaled down to it."""
    ema_decay: float = 0.999
    """Weights are averaged with this memory; the average is what is validated and kept."""


@dataclass(frozen=True)
class TrainingConfig:
    """A whole run."""

    name: str = "run"
    model: str = "default"
    """A name of treeformer.training.registry.MODELS: `default`, `paper`, `tiny`, `two_stage`, `hourglass` or `ggt`."""
    model_options: dict[str, Any] = field(default_factory=dict)
    """Fields of that configuration to change."""
    backbone_weights: str = ""
    """A safetensors file with ImageNet weights for the backbone; empty starts from random ones."""
    start_from: str = ""
    """Weights of a whole model to start from: a safetensors file, a model folder, or `default`, the one that ships."""
    data: DataConfig = field(default_factory=DataConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    batch_size: int = 64
    """Images a step, over all devices together."""
    steps: int = 10_000
    validate_every: int = 1_000
    """Steps between validations, each of which also writes a checkpoint."""
    checkpoint_minutes: float = 5.0
    """Minutes between checkpoints; a kill loses no more."""
    patience_epochs: int = 30
    """Stop after so many epochs without improvement, as the paper does; 0 never stops early."""
    epoch_images: int = 100_000
    """What counts as an epoch where images are made on the fly."""
    score: Literal["topo_f1", "edge_f1"] = "topo_f1"
    """What has to improve for a model to be the best."""
    precision: Literal["32", "bf16"] = "bf16"
    compile: bool = False
    """torch.compile: pays from a few minutes of training on."""
    seed: int = 0


def load_config(path: str | Path, overrides: Sequence[str] = ()) -> TrainingConfig:
    """Read a YAML file, apply `key=value` overrides (`data.workers=8`), check every key and type."""
    import yaml

    path = Path(path)
    try:
        table = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read ({error})") from None
    except yaml.YAMLError as error:
        where = getattr(error, "problem_mark", None)
        raise ConfigError(f"{path}: not YAML" + (f" (line {where.line + 1})" if where else "")) from None
    if not isinstance(table, dict):
        raise ConfigError(f"{path}: must be a table of keys and values")
    for override in overrides:
        key, equals, text = override.partition("=")
        if not equals:
            raise ConfigError(f"{override}: an override is written key=value")
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError:
            raise ConfigError(f"{override}: the value is not YAML") from None
        _set(table, key.split("."), value, override)
    config = build(TrainingConfig, table, where=path.name)
    for key, least in LEAST.items():
        value = attrgetter(key)(config)
        if not value >= least:  # NaN is not
            raise ConfigError(f"{path.name}: {key} must be at least {least}, not {value}")
    return config


def _set(table: dict[str, Any], keys: list[str], value: Any, override: str) -> None:
    for key in keys[:-1]:
        table = table.setdefault(key, {})
        if not isinstance(table, dict):
            raise ConfigError(f"{override}: {key} is not a group of keys")
    table[keys[-1]] = value
