"""Model folders: a trained network to a folder that needs no torch to run, and back."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from treeformer import safetensors
from treeformer.errors import TreeformerError
from treeformer.files import whole_file
from treeformer.model_folder import (
    CARD,
    GRAPH,
    WEIGHTS,
    ModelFolder,
    ModelFolderError,
    ModelSettings,
    open_model,
    write_config,
)
from treeformer.models.config import TreeFormerConfig
from treeformer.models.treeformer import TreeFormer

ARCHITECTURE = "TreeFormer"


def save_pretrained(
    model: TreeFormer, folder: str | os.PathLike[str], *, card: str | None = None, **settings: Any
) -> ModelFolder:
    """Write a model folder: weights, ONNX graph, config.json and, if given, the card.

    Args:
        model: the network. Its `config.tokens` is the most nodes that one input can have.
        folder: made if need be; files in it are replaced, config.json last.
        card: the text of card.md.
        settings: as in `treeformer.model_folder.ModelSettings`: input_size, working_size, thresholds.
    """
    from treeformer.models.onnx_graph import write_graph

    chosen = ModelSettings(ARCHITECTURE, json.loads(json.dumps(asdict(model.config))), **settings)
    path = Path(folder)
    write_weights(path / WEIGHTS, model)
    write_graph(path / GRAPH, path / WEIGHTS, model, chosen)
    if card is not None:
        with whole_file(path / CARD) as temporary:
            temporary.write_text(card, encoding="utf-8")
    return write_config(path, chosen)


def from_pretrained(name: str | os.PathLike[str]) -> TreeFormer:
    """The network of a model folder (or "default", or a name on the hub), ready to predict or to train on."""
    return load_weights(open_model(name))


def load_weights(folder: ModelFolder) -> TreeFormer:
    """The network of an opened model, in float32 and in evaluation mode."""
    if folder.config.architecture != ARCHITECTURE:
        raise ModelFolderError(f"{folder.path}: a {folder.config.architecture}, only {ARCHITECTURE} is known")
    return _network(dict(folder.config.settings), folder.weights)


def load_trained(path: Path) -> TreeFormer:
    """The network in the best.safetensors of a training run, whose metadata has the settings."""
    _, metadata = safetensors.read_header(path)
    try:
        settings = json.loads(metadata["config"])
    except (KeyError, ValueError):
        raise ModelFolderError(f"{path}: not the best.safetensors of a training run (it has no settings)") from None
    return _network(settings, path)


def write_weights(path: Path, model: TreeFormer) -> None:
    """All weights as float16; one that does not fit in it is an error."""
    arrays = {}
    for name, tensor in model.state_dict().items():
        half = tensor.detach().cpu().float().numpy().astype(np.float16)
        if not np.isfinite(half).all():
            raise ModelFolderError(f"{name} has values that float16 cannot hold")
        arrays[name] = half
    safetensors.write(path, arrays, {"format": "pt"})


def _network(settings: dict[str, Any], path: Path) -> TreeFormer:
    try:
        model = TreeFormer(TreeFormerConfig.from_dict(settings))
    except (TreeformerError, TypeError, ValueError, RuntimeError) as error:
        raise ModelFolderError(f"{path}: settings that make no network: {str(error).splitlines()[0]}") from None
    stored = safetensors.read(path)
    wanted = model.state_dict()
    for name in sorted(stored.keys() | wanted.keys()):
        if name not in stored or name not in wanted or stored[name].shape != tuple(wanted[name].shape):
            raise ModelFolderError(f"{path}: weights of another architecture ({name} does not fit)")
    model.load_state_dict({name: torch.tensor(array).float() for name, array in stored.items()})
    return model.eval()
