"""The configuration of a training run: YAML into checked dataclasses. A mistake is one line with the key."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal

from treeformer._util.config import ConfigError, build, parse_yaml
from treeformer._util.text import short_repr
from treeformer.data.config import DataConfig

# Minimum values of numbers, by key.
MINIMUM = {
    "batch_size": 1,
    "steps": 1,
    "validate_every": 1,
    "checkpoint_minutes": 0,
    "patience_epochs": 0,
    "epoch_images": 1,
    "min_steps": 0,
    "score_tolerance": 0,
    "seed": 0,
    "distillation.weight": 0,
    "distillation.label_weight": 0,
    "distillation.tokens": 2,
    "distillation.edge_tokens": 2,
    "distillation.reuse": 1,
    "distillation.pool": 1,
    "data.image_size": 1,
    "data.warmup_image_size": 0,
    "data.warmup_image_steps": 0,
    "data.max_nodes": 1,
    "data.crowded_every": 0,
    "data.crowded_batch_size": 1,
    "data.crowded_max_nodes": 1,
    "data.crowded_tokens": 1,
    "data.workers": 0,
    "optimizer.learning_rate": 0,
    "optimizer.backbone_factor": 0,
    "optimizer.neck_factor": 0,
    "optimizer.weight_decay": 0,
    "optimizer.warmup_steps": 0,
    "optimizer.clip_norm": 1e-9,
    "optimizer.ema_decay": 0,
}

# Maximum values of numbers, by key.
MAXIMUM = {
    "seed": 2**63 - 1,  # what torch accepts
    "optimizer.ema_decay": 1.0,
}
# Numbers that may be infinite: no checkpoint between validations, no limit. All others are finite.
MAY_BE_INFINITE = ("checkpoint_minutes", "optimizer.clip_norm")

# Keys of earlier versions, which are still read.
OLD_KEYS = {
    "dense_every": "crowded_every",
    "dense_batch_size": "crowded_batch_size",
    "dense_max_nodes": "crowded_max_nodes",
    "dense_tokens": "crowded_tokens",
    "dense_weight": "crowded_weight",
    "early_size": "warmup_image_size",
    "early_steps": "warmup_image_steps",
}
MAX_BASES = 8  # files that refer to each other by `base`


@dataclass(frozen=True)
class OptimizerConfig:
    """AdamW with linear warm-up and cosine decay to zero."""

    learning_rate: float = 5e-4
    """Peak learning rate, reached after the warm-up. No unit."""
    backbone_factor: float = 0.1
    """Factor on the learning rate of the backbone, which usually starts from trained weights. 0 freezes it. No unit."""
    neck_factor: float = 1.0
    """Factor on the learning rate of the neck. 0 freezes it. No unit."""
    weight_decay: float = 1e-4
    """Weight decay of AdamW for matrices and kernels. One-dimensional parameters (biases, norms) have none. No unit."""
    warmup_steps: int = 300
    """Steps over which the learning rate rises linearly from zero."""
    clip_norm: float = 1.0
    """Maximum norm of the gradient of all parameters together. Larger gradients are scaled down. `.inf` disables it.
    No unit."""
    ema_decay: float = 0.999
    """Decay per step of the moving average of the weights, which is what is validated and kept, in [0, 1]. No unit."""


@dataclass(frozen=True)
class DistillationConfig:
    """A teacher, whose predictions are learned in addition to the ground truth, or instead of it."""

    teacher: str = ""
    """Model folder of the teacher, or `default`. Empty for none."""
    weight: float = 1.0
    """Factor on all losses against the teacher. No unit."""
    label_weight: float = 1.0
    """Factor on all losses against the ground truth. 0 does not use the ground truth at all. No unit."""
    tokens: int = 128
    """Largest number of the teacher's tokens that are compared per image."""
    edge_tokens: int = 96
    """Largest number of tokens whose edges are compared per image, the most confident ones."""
    reuse: int = 1
    """How often each batch is used, each time with the teacher's predictions of the first time. No unit."""
    pool: int = 64
    """Number of batches on the device from which the next is drawn if `reuse` is more than 1."""


@dataclass(frozen=True)
class TrainingConfig:
    """A complete training run."""

    name: str = "run"
    """Name of the run. The default output folder is `runs/NAME`."""
    model: str = "default"
    """Name in `treeformer.training.registry.MODELS`: `default`, `small`, `paper`, `tiny`, `two_stage`, `hourglass` or
    `ggt`."""
    model_options: dict[str, Any] = field(default_factory=dict)
    """Fields of the model's configuration to change, by name."""
    backbone_weights: str = ""
    """Path of a safetensors file with ImageNet weights for the backbone. Empty starts from random weights."""
    start_from: str = ""
    """Weights of a whole model to start from: a safetensors file, a model folder, or `default`. Empty for none."""
    shrink_start: bool = False
    """The model of `start_from` has more blocks, decoder layers, levels or channels than this one. The surplus is left
    out; if there are fewer channels, the convolutions are fitted to those of the larger model."""
    distillation: DistillationConfig = field(default_factory=DistillationConfig)
    """Another model to learn from."""
    data: DataConfig = field(default_factory=DataConfig)
    """Images for training and validation."""
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    """Optimizer and learning rate."""
    batch_size: int = 64
    """Images per step, over all devices together."""
    steps: int = 10_000
    """Number of training steps."""
    validate_every: int = 1_000
    """Steps between validations. Each validation also writes a checkpoint."""
    checkpoint_minutes: float = 5.0
    """Maximum time between checkpoints, minutes. A run that is killed loses no more than that. `.inf` disables it."""
    patience_epochs: int = 30
    """Epochs without improvement after which the run stops, as in the paper. 0 disables early stopping."""
    epoch_images: int = 100_000
    """Images per epoch. Images are generated or augmented on the fly, so an epoch is only a unit of patience."""
    min_steps: int = 0
    """Steps before which a lack of improvement does not stop the run."""
    score: Literal["topo_f1", "edge_f1"] = "topo_f1"
    """Validation metric that selects the best weights, in [0, 1]."""
    score_tolerance: float = 0.0
    """Later weights replace the best ones unless their score is lower by this or more. With few validation images small
    differences are chance, and the learning rate falls, so that later weights are better on average."""
    precision: Literal["32", "bf16"] = "bf16"
    """Number format of the forward pass: float32, or bfloat16 autocast."""
    compile: bool = False
    """Compile the model with `torch.compile`. Worthwhile for runs of more than a few minutes."""
    seed: int = 0
    """Seed of the initial weights, the order of the images, augmentation and dropout."""


def load_config(path: str | Path, overrides: Sequence[str] = ()) -> TrainingConfig:
    """Read a configuration from YAML and check every key and type.

    The key `base` names another file, relative to this one, whose values are used unless this file has its own.
    """
    import yaml

    path = Path(path)
    table = _read(path)
    for override in overrides:
        key, equals, text = override.partition("=")
        if not equals:
            raise ConfigError(f"{override}: an override is written key=value")
        try:
            value = parse_yaml(text)
        except yaml.YAMLError:
            raise ConfigError(f"{override}: the value is not YAML") from None
        _set(table, [OLD_KEYS.get(name, name) for name in key.split(".")], _with_current_keys(value), override)
    config = build(TrainingConfig, table, where=path.name)
    for key, minimum in MINIMUM.items():
        value = attrgetter(key)(config)
        if not value >= minimum:  # also true for NaN
            raise ConfigError(f"{path.name}: {key} must be at least {minimum}, not {value}")
        if value == math.inf and key not in MAY_BE_INFINITE:
            raise ConfigError(f"{path.name}: {key} must be finite, not {value}")
        if key in MAXIMUM and value > MAXIMUM[key]:
            raise ConfigError(f"{path.name}: {key} must be at most {MAXIMUM[key]}, not {short_repr(value)}")
    if config.shrink_start and not config.start_from:
        raise ConfigError(f"{path.name}: shrink_start needs the weights of a larger model: start_from is empty")
    if config.data.crowded_every and config.data.crowded_tokens < config.data.crowded_max_nodes:
        tokens, nodes = config.data.crowded_tokens, config.data.crowded_max_nodes
        raise ConfigError(f"{path.name}: data.crowded_tokens {tokens} is less than data.crowded_max_nodes {nodes}")
    if config.data.warmup_image_steps and not 0 < config.data.warmup_image_size <= config.data.image_size:
        size = config.data.warmup_image_size
        raise ConfigError(f"{path.name}: data.warmup_image_size must be up to data.image_size, not {size}")
    if config.data.warmup_image_steps and config.distillation.teacher and config.distillation.reuse > 1:
        # The size of a batch is chosen when it is loaded: its number is not that of the step if batches are repeated.
        raise ConfigError(
            f"{path.name}: data.warmup_image_steps needs distillation.reuse 1, not {config.distillation.reuse}"
        )
    for name in config.data.exclude:
        if name not in {source.path for source in config.data.train}:
            raise ConfigError(f"{path.name}: data.exclude: no training source has the path {name}")
    return config


def _read(path: Path, depth: int = 0) -> dict[str, Any]:
    """Read a YAML file, and the file that it names as `base`; values of this one replace those of the other."""
    import yaml

    try:
        document = parse_yaml(path.read_text(encoding="utf-8")) or {}
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read ({error})") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"line {mark.line + 1}" if mark else str(error).partition("\n")[0]
        raise ConfigError(f"{path}: not YAML ({place})") from None
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: must be a table of keys and values")
    table: dict[str, Any] = _with_current_keys(document)
    base = table.pop("base", "")
    if not isinstance(base, str):
        raise ConfigError(f"{path}: base must be the name of a file, not {base!r}")
    if not base:
        return table
    if depth >= MAX_BASES:
        raise ConfigError(f"{path}: more than {MAX_BASES} files refer to each other by base")
    return _merged(_read(path.parent / base, depth + 1), table)


def _with_current_keys(value: Any) -> Any:
    """Return a value of YAML with keys of this version."""
    if isinstance(value, dict):
        return {OLD_KEYS.get(key, key): _with_current_keys(below) for key, below in value.items()}
    return [_with_current_keys(item) for item in value] if isinstance(value, list) else value


def _merged(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return a table with the values of `changes`; groups are merged key by key, lists are replaced."""
    result = dict(base)
    for key, value in changes.items():
        below = result.get(key)
        result[key] = _merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return result


def _set(table: dict[str, Any], keys: list[str], value: Any, override: str) -> None:
    for key in keys[:-1]:
        table = table.setdefault(key, {})
        if not isinstance(table, dict):
            raise ConfigError(f"{override}: {key} is not a group of keys")
    table[keys[-1]] = value
