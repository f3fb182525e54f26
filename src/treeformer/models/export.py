"""Model folders: a trained network to a folder that needs no torch to run, and back."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from treeformer._util.files import atomic_write
from treeformer.errors import TreeformerError
from treeformer.hub import safetensors
from treeformer.hub.model_folder import (
    CARD,
    WEIGHTS,
    ModelFolder,
    ModelFolderError,
    ModelSettings,
    open_model,
    write_config,
)
from treeformer.models.config import TreeFormerConfig
from treeformer.models.treeformer import FEWEST_TOKENS, TreeFormer

ARCHITECTURE = "TreeFormer"


def save_pretrained(
    model: TreeFormer, folder: str | os.PathLike[str], *, card: str | None = None, int8: bool = True, **settings: Any
) -> ModelFolder:
    """Write a model folder: weights, ONNX graphs, config.json and, if given, the card.

    Args:
        model: the network. Its `config.tokens` is the most nodes that one input can have.
        folder: made if need be; files in it are replaced, config.json last.
        card: the text of card.md.
        int8: also write the graph whose convolutions work in 8 bits, with ranges from synthetic images.
        settings: as in `treeformer.hub.model_folder.ModelSettings`: input_size, working_size, thresholds.
    """
    from treeformer.models.onnx_graph import write_graphs

    chosen = ModelSettings(ARCHITECTURE, json.loads(json.dumps(asdict(model.config))), **settings)
    if chosen.input_size % model.strides[-1]:
        raise ModelFolderError(f"input_size {chosen.input_size} is not a multiple of {model.strides[-1]}")
    if model.config.tokens < FEWEST_TOKENS:
        raise ModelFolderError(f"a network of {model.config.tokens} tokens; at least {FEWEST_TOKENS} are needed")
    path = Path(folder)
    write_weights(path / WEIGHTS, model)
    write_graphs(path, model, chosen, int8=int8)
    if card is not None:
        with atomic_write(path / CARD) as temporary:
            temporary.write_text(card, encoding="utf-8")
    return write_config(path, chosen)


def export_model(
    source: Path,
    folder: Path,
    *,
    settings: dict[str, Any],
    card: Path | None = None,
    tokens: int | None = None,
    int8: bool = True,
) -> ModelFolder:
    """Write a model folder from trained weights, or anew from another model folder, whose settings and card stay.

    Weights that were fine-tuned from a model folder take over its sizes and thresholds (`begun_from`).

    Args:
        source: the best.safetensors of a training run, or a model folder.
        folder: to write.
        settings: those of `ModelSettings` that are to change.
        card: a file with the text of the card.
        tokens: the most nodes of one input; no weight depends on it where tokens come from a heat map.
        int8: as in `save_pretrained`.
    """
    text = None
    if source.is_dir():
        opened = open_model(source)
        model, text = load_weights(opened), opened.card or None
        settings = _sizes_and_thresholds(opened) | settings
    else:
        model = load_trained(source)
        _, active = begun_from(source)
        settings = (_sizes_and_thresholds(active) if active else {}) | settings
    if card is not None:
        try:
            text = card.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ModelFolderError(f"{card}: cannot be read ({error})") from None
    if tokens is not None:
        model = _with_tokens(model, tokens)
    return save_pretrained(model, folder, card=text, int8=int8, **settings)


def begun_from(path: Path) -> tuple[str, ModelFolder | None]:
    """The model folder that the run of a best.safetensors was fine-tuned from: its name, and itself if it still fits.

    It fits where its weights have the names and shapes of the run's; the name is empty where there was none.
    """
    entries, metadata = safetensors.read_header(path)
    name = metadata.get("start_from", "")
    if not name:
        return "", None
    try:
        folder = open_model(name)
        weights, _ = safetensors.read_header(folder.weights)
    except TreeformerError:
        return name, None
    fits = {key: entry.shape for key, entry in weights.items()} == {key: entry.shape for key, entry in entries.items()}
    return name, folder if fits else None


def _sizes_and_thresholds(folder: ModelFolder) -> dict[str, Any]:
    """Those of `ModelSettings` that do not say what the network is."""
    names = {field.name for field in fields(folder.config)} - {"architecture", "settings"}
    return {name: getattr(folder.config, name) for name in names}


def _with_tokens(model: TreeFormer, tokens: int) -> TreeFormer:
    """The same weights with another number of object tokens."""
    if model.config.token_source != "heat_map" or tokens < FEWEST_TOKENS:
        raise ModelFolderError(f"{tokens} tokens: this network cannot have another number than {model.config.tokens}")
    other = TreeFormer(replace(model.config, tokens=tokens))
    other.load_state_dict(model.state_dict())
    return other.eval()


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
    if "progress" in metadata:
        raise ModelFolderError(f"{path}: a checkpoint to go on from; the model is in the best.safetensors beside it")
    try:
        settings = json.loads(metadata["config"])
    except (KeyError, ValueError):
        raise ModelFolderError(f"{path}: not the best.safetensors of a training run (it has no settings)") from None
    _check_kind(settings, path)
    return _network(settings, path)


def _check_kind(settings: dict[str, Any], path: Path) -> None:
    """Raise if these are the settings of another model than a TreeFormer, which cannot be exported."""
    names = {field.name for field in fields(TreeFormerConfig)}
    if not settings.keys() <= names and len(settings.keys() & names) < len(names) / 2:
        raise ModelFolderError(
            f"{path}: weights of a baseline; only TreeFormers (default, paper, tiny) can be exported"
        )


def write_weights(path: Path, model: TreeFormer) -> None:
    """Matrices and kernels as float16, vectors as float32.

    Vectors are a hundredth of the bytes, and the variances of a batch normalization can be too large for float16.
    """
    arrays = {}
    for name, tensor in model.state_dict().items():
        array = tensor.detach().cpu().float().numpy()
        with np.errstate(over="ignore"):
            arrays[name] = array.astype(np.float16) if array.ndim > 1 else array
        if not np.isfinite(arrays[name]).all():
            raise ModelFolderError(f"{path}: {name} has values that {arrays[name].dtype} cannot hold")
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
