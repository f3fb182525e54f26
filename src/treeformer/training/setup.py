"""Set up a run before its first step: devices, the model with its initial weights, parameter groups, batch sizes."""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from treeformer._util.config import ConfigError, build
from treeformer._util.locks import sole_lock
from treeformer.data.loader import BatchSizes
from treeformer.hub import safetensors
from treeformer.hub.model_folder import DEFAULT, SMALL, open_model
from treeformer.models.config import TreeFormerConfig
from treeformer.models.distillation import Teacher, check_student
from treeformer.models.export import load_weights
from treeformer.models.narrow import narrow
from treeformer.models.shrink import shrink
from treeformer.models.treeformer import TreeFormer
from treeformer.nn.backbone import load_backbone
from treeformer.synthetic import PRESETS, make_image
from treeformer.training import checkpoint
from treeformer.training.config import TrainingConfig
from treeformer.training.registry import MODELS
from treeformer.training.step import Distillation

if TYPE_CHECKING:
    from lightning.fabric import Fabric

LOCK = ".lock"
WIDTHS = ("backbone_channels", "width", "fine_width", "heads", "feed_forward", "relation_hidden", "segment_channels")
"""Settings of a network's widths. If they differ, its weights are fitted to those of the wider network."""


class OneProcess:
    """What the loop needs of Fabric, for one process on a CPU: importing Fabric takes 5 s of CPU time."""

    device = torch.device("cpu")
    world_size, global_rank, is_global_zero = 1, 0, True

    def barrier(self) -> None:
        """Wait for no other process."""


def make_fabric(accelerator: str, devices: int, machines: int) -> Fabric:
    """Return a Fabric that is not launched yet, for a number of devices per machine."""
    # Importing Fabric takes 5 s of CPU time, torch itself takes 2 s: only a run needs it.
    from lightning.fabric import Fabric
    from lightning.fabric.utilities.exceptions import MisconfigurationException

    for name, count in (("devices", devices), ("machines", machines)):
        if count < 1:
            raise ConfigError(f"cannot train on {count} {name}: at least 1 is needed")
    _check_processes(devices * machines)
    if accelerator == "cuda" and not torch.cuda.is_available():
        raise ConfigError("no GPU: CUDA was requested, but torch sees no CUDA device")
    strategy = "ddp" if devices * machines > 1 else "auto"
    try:
        return Fabric(accelerator=accelerator, devices=devices, num_nodes=machines, strategy=strategy)
    # An unknown accelerator, too few GPUs, or one that needs a package, such as tpu.
    except (ValueError, TypeError, RuntimeError, ImportError, MisconfigurationException) as error:
        requested = f"{accelerator}, {devices} devices, {machines} machines"
        raise ConfigError(f"cannot train on {requested}: {' '.join(str(error).split())}") from None


@contextmanager
def sole_run(out: Path, fabric: Fabric) -> Iterator[None]:
    """Keep the output folder for this run: a second one would replace its checkpoints and mix its log.

    Folders that are created for the lock and stay empty are removed.
    """
    missing = [folder for folder in (out.absolute(), *out.absolute().parents) if not folder.exists()]
    try:
        with ExitStack() as stack:
            is_ours = stack.enter_context(sole_lock(out / LOCK)) if fabric.is_global_zero else True
            if fabric.world_size > 1:
                is_ours = bool(fabric.broadcast(is_ours))
            if not is_ours:
                raise ConfigError(f"{out}: another run is writing to this folder")
            yield
    finally:
        if fabric.is_global_zero:
            with suppress(OSError):  # not empty
                for folder in missing:
                    folder.rmdir()


def _check_processes(expected: int) -> None:
    """Check that torchrun or srun started the expected processes; otherwise each would train alone in one folder."""
    started = next((os.environ[name] for name in ("WORLD_SIZE", "SLURM_STEP_NUM_TASKS") if name in os.environ), "1")
    if started.isdigit() and int(started) > 1 and int(started) != expected:
        raise ConfigError(
            f"{started} processes were started, but devices times machines is {expected}: both must be equal"
        )


def _weights_file(name: str) -> Path:
    """Return the file of weights that `start_from` refers to: the file itself, or the one in a model folder."""
    return Path(name) if Path(name).suffix == ".safetensors" else open_model(name).weights


def _config_of(start_from: str, path: Path) -> TreeFormerConfig:
    """Return the configuration of the network whose weights a run starts from."""
    if Path(start_from).suffix != ".safetensors":
        return TreeFormerConfig.from_dict(dict(open_model(start_from).config.settings))
    _, metadata = safetensors.read_header(path)
    try:
        return TreeFormerConfig.from_dict(json.loads(metadata["config"]))
    except (KeyError, ValueError):
        raise ConfigError(f"shrink_start: {path} has no settings of a network") from None


def model_folder_of(start_from: str) -> str:
    """Return the model folder that `start_from` refers to, with an absolute path. Empty if it is a file or empty."""
    if not start_from or Path(start_from).suffix == ".safetensors":
        return ""
    is_packaged = start_from in (DEFAULT, SMALL)
    return str(Path(start_from).resolve()) if not is_packaged and Path(start_from).is_dir() else start_from


def make_model(config: TrainingConfig, *, with_weights: bool = True) -> Any:
    """Make the model of a run, on the CPU. A resumed run does not need the weights it started from."""
    if config.model not in MODELS:
        raise ConfigError(f"model must be one of {', '.join(MODELS)}, not {config.model!r}")
    defaults = MODELS[config.model].settings()
    settings = build(type(defaults), asdict(defaults) | config.model_options, "model_options")
    model = MODELS[config.model].module(settings)
    if not with_weights:
        return model
    if config.start_from:
        path = _weights_file(config.start_from)
        weights = {name: torch.from_numpy(np.array(array)) for name, array in safetensors.read(path).items()}
        if config.shrink_start:
            if not isinstance(settings, TreeFormerConfig):
                raise ConfigError(f"shrink_start: the model {config.model!r} cannot start from a larger TreeFormer")
            source = _config_of(config.start_from, path)
            if any(getattr(source, name) != getattr(settings, name) for name in WIDTHS):
                wide = TreeFormer(source)
                checkpoint.load_weights(wide, weights, path)
                narrow(wide, model, _fit_images())
                return model
            weights = shrink(weights, source, settings)
        checkpoint.load_weights(model, weights, path, may_miss=getattr(model, "new_parts", ()))
    elif config.backbone_weights:
        if not hasattr(model, "backbone"):
            raise ConfigError(f"backbone_weights: the model {config.model!r} has no backbone that uses them")
        load_backbone(model.backbone, config.backbone_weights)
    return model


def _fit_images() -> Tensor:
    """Return images of all kinds for `narrow`, (B,3,384,384) in [0,1]."""
    kinds = [("paper", "paper"), *((preset, "photo") for preset in sorted(PRESETS))]
    side = 384  # a multiple of the coarsest stride
    images = [
        make_image(preset, style, 2 * number + index, (side, side))[0]
        for number, (preset, style) in enumerate(kinds)
        for index in range(2)
    ]
    return torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2).float() / 255


def make_distillation(config: TrainingConfig, model: Any) -> Distillation | None:
    """Load the teacher of a run to the CPU, if it has one."""
    settings = config.distillation
    if not settings.teacher:
        return None
    if not isinstance(model, TreeFormer):
        raise ConfigError(f"distillation.teacher: the model {config.model!r} cannot learn from a teacher")
    folder = open_model(settings.teacher)
    network = load_weights(folder)
    check_student(model.config, network.config)
    teacher = Teacher(
        network,
        tokens=settings.tokens,
        edge_tokens=settings.edge_tokens,
        min_peak_heat=folder.config.min_peak_heat,
    )
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # missing in torch's stubs
    return Distillation(teacher, settings.weight, settings.label_weight)


def batch_sizes(config: TrainingConfig, model: Any, world: int) -> BatchSizes:
    """Return the number of images per batch and process, and check that the model can have such batches."""
    sizes = {"batch_size": config.batch_size}
    if config.data.crowded_every:
        sizes["data.crowded_batch_size"] = config.data.crowded_batch_size
        if not getattr(model, "has_variable_tokens", False):
            raise ConfigError(f"data.crowded_every: the model {config.model!r} has a fixed number of tokens")
    stride = getattr(model, "strides", [1])[-1]
    if config.data.warmup_image_steps and config.data.warmup_image_size % stride:
        raise ConfigError(f"data.warmup_image_size {config.data.warmup_image_size} is not a multiple of {stride} px")
    for name, size in sizes.items():
        if size % world:
            raise ConfigError(f"{name} {size} cannot be divided among {world} processes")
    if getattr(model, "has_variable_tokens", False):
        smaller = config.data.warmup_image_size if config.data.warmup_image_steps else 0
        tokens = {"model_options.tokens": (model.config.tokens, smaller)}
        if config.data.crowded_every:
            tokens["data.crowded_tokens"] = (config.data.crowded_tokens, 0)
        for name, (count, warmup_image_size) in tokens.items():
            side = warmup_image_size or config.data.image_size
            cells = (side // model.heat_stride) ** 2
            if count > cells:
                raise ConfigError(f"{name} {count} is more than the {cells} cells of the heat map of {side} px")
    ordinary, crowded = config.batch_size // world, config.data.crowded_batch_size // world
    return BatchSizes(ordinary, crowded, config.data.crowded_every, config.data.warmup_image_steps)


def uses_cuda_graphs(fabric: Fabric, model: Any) -> bool:
    """Return True if training steps can be replayed as CUDA graphs: on a single GPU with Triton."""
    single_gpu = (
        fabric.device.type == "cuda" and fabric.world_size == 1 and importlib.util.find_spec("triton") is not None
    )
    return single_gpu and getattr(model, "supports_cuda_graphs", False)
