"""The configuration of a training run: YAML into checked dataclasses; a mistake is one line that names the key."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from treeformer.errors import TreeformerError

T = TypeVar("T")

# The least that a number may be, by its key.
LEAST = {
    "batch_size": 1,
    "steps": 1,
    "validate_every": 1,
    "checkpoint_minutes": 0,
    "patience_epochs": 0,
    "epoch_pictures": 1,
    "seed": 0,
    "data.image_size": 1,
    "data.max_nodes": 1,
    "data.workers": 0,
    "optimiser.learning_rate": 0,
    "optimiser.backbone_factor": 0,
    "optimiser.weight_decay": 0,
    "optimiser.warmup_steps": 0,
    "optimiser.clip_norm": 1e-9,
    "optimiser.ema_decay": 0,
}


class ConfigError(TreeformerError):
    """A key that is unknown, or a value that cannot be."""


@dataclass(frozen=True)
class SourceConfig:
    """One source of pictures: synthetic (presets and looks), or a folder data set."""

    weight: float = 1.0
    """How often it is drawn, relative to the other sources."""
    presets: tuple[str, ...] = ()
    """Synthetic plants; empty for a folder."""
    looks: tuple[str, ...] = ("paper",)
    """Synthetic looks."""
    path: str = ""
    """A folder data set; relative to the working directory."""
    split: str = "train"
    """The split of the folder, or of the synthetic seeds."""
    count: int = 0
    """Use only so many pictures; 0 for all."""
    pictures: tuple[int, ...] = ()
    """Use only these, by their place in the split, from 0 on; empty for all."""
    augmentation: Literal["none", "roots", "vines", "strong"] = "none"
    """Ranges of flip, rotation, crop, noise, light and scale."""
    spacing_px: float = 0.0
    """Spread the nodes along each branch anew at this spacing; 0 leaves them as they are."""
    grid_px: float = 0.0
    """Between junctions and tips, nodes only where branches cross a grid of this spacing; 0 leaves them as they are."""


@dataclass(frozen=True)
class DataConfig:
    """What is learnt from and what is measured on."""

    train: tuple[SourceConfig, ...] = (SourceConfig(presets=("paper",)),)
    valid: tuple[SourceConfig, ...] = (SourceConfig(presets=("paper",), split="valid", count=64),)
    image_size: int = 512
    """Side of the square pictures the model sees, px; larger ones are cropped, smaller ones padded."""
    max_nodes: int = 160
    """Nodes a picture at most, no more than the model has tokens; a picture with more is skipped and counted."""
    workers: int = 0
    """Processes that make pictures, on each GPU's behalf; 0 makes them in the training process."""


@dataclass(frozen=True)
class OptimiserConfig:
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
    """A name of treeformer.models.registry.MODELS: `default`, `paper`, `tiny`, `two_stage`, `hourglass` or `ggt`."""
    model_options: dict[str, Any] = field(default_factory=dict)
    """Fields of that configuration to change."""
    backbone_weights: str = ""
    """A safetensors file with ImageNet weights for the backbone; empty starts from random ones."""
    start_from: str = ""
    """Weights of a whole model to start from: a safetensors file, a model folder, or `default`, the one that ships."""
    data: DataConfig = field(default_factory=DataConfig)
    optimiser: OptimiserConfig = field(default_factory=OptimiserConfig)
    batch_size: int = 64
    """Pictures a step, over all devices together."""
    steps: int = 10_000
    validate_every: int = 1_000
    """Steps between validations, each of which also writes a checkpoint."""
    checkpoint_minutes: float = 5.0
    """Minutes between checkpoints; a kill loses no more."""
    patience_epochs: int = 30
    """Stop after so many epochs without improvement, as the paper does; 0 never stops early."""
    epoch_pictures: int = 100_000
    """What counts as an epoch where pictures are made on the fly."""
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


def build(kind: type[T], table: Any, where: str) -> T:
    """A dataclass from nested tables, strictly: unknown keys and wrong types are errors that name the key."""
    if not isinstance(table, Mapping):
        raise ConfigError(f"{where}: must be a table of keys and values, not {table!r}")
    hints = get_type_hints(kind)
    for key in table:
        if key not in hints:
            raise ConfigError(f"{where}: unknown key {key!r}; known are {', '.join(hints)}")
    return kind(**{key: _convert(hints[key], value, f"{where}: {key}") for key, value in table.items()})


def _convert(hint: Any, value: Any, where: str) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if dataclasses.is_dataclass(hint):
        return build(hint, value, where)  # type: ignore[arg-type]
    if origin is Literal:
        if isinstance(value, int) and str(value) in arguments:
            return str(value)  # precision: 32 is a number to YAML
        if value not in arguments:
            raise ConfigError(f"{where} must be one of {', '.join(map(str, arguments))}, not {value!r}")
        return value
    if origin in (Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        return _convert(next(a for a in arguments if a is not type(None)), value, where)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise ConfigError(f"{where} must be a list, not {value!r}")
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return tuple(_convert(arguments[0], item, f"{where}[{index}]") for index, item in enumerate(value))
        if len(value) != len(arguments):
            raise ConfigError(f"{where} must have {len(arguments)} values, not {len(value)}")
        return tuple(_convert(a, item, where) for a, item in zip(arguments, value, strict=True))
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if origin is dict or hint is dict:
        if not isinstance(value, dict):
            raise ConfigError(f"{where} must be a table of keys and values, not {value!r}")
        return value
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise ConfigError(f"{where} must be {_NAMES.get(hint, hint.__name__)}, not {value!r}")
    return value


_NAMES = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
