"""Conversion between trained networks and model folders, which run without torch."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from dataclasses import asdict, fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from treeformer._util.arrays import ImageArray
from treeformer._util.files import atomic_write
from treeformer.errors import TreeformerError
from treeformer.hub import safetensors
from treeformer.hub.model_folder import (
    CARD,
    CONFIG,
    INPUT_STRIDE,
    INT8_GRAPH,
    WEIGHTS,
    ModelFolder,
    ModelFolderError,
    ModelSettings,
    open_model,
    write_config,
)
from treeformer.models.config import TreeFormerConfig
from treeformer.models.token_count import MIN_TOKENS
from treeformer.models.treeformer import TreeFormer

ARCHITECTURE = "TreeFormer"


def save_pretrained(
    model: TreeFormer,
    folder: str | os.PathLike[str],
    *,
    card: str | None = None,
    int8: bool = True,
    images: Iterable[ImageArray] | None = None,
    like: ModelFolder | None = None,
    **settings: Any,
) -> ModelFolder:
    """Write a model folder: weights, ONNX graphs, config.json and, if given, the card.

    Args:
        model: The network. Its `config.tokens` is the largest number of nodes per input.
        folder: Created if missing. The files of an earlier model are replaced once all of the new ones are complete.
        card: Text of card.md.
        int8: Also write the graph with 8-bit convolutions.
        images: (input_size,input_size,3) uint8 RGB each, from which the value ranges of the 8-bit graph are measured.
            None uses synthetic images.
        like: A model folder with the graph of the same network. Its graph is copied if it fits; tracing takes longer.
        **settings: Fields of `treeformer.hub.model_folder.ModelSettings`: input_size, working_size, thresholds.

    Returns:
        The opened model folder.

    Raises:
        ModelFolderError: If the input size or the number of tokens is invalid, or a weight overflows float16.
        TreeformerError: If a package for export is missing.
    """
    from treeformer.models.onnx_graph import write_graphs

    chosen = ModelSettings(ARCHITECTURE, json.loads(json.dumps(asdict(model.config))), **settings)
    if chosen.input_size % model.strides[-1]:
        raise ModelFolderError(f"input_size {chosen.input_size} is not a multiple of {model.strides[-1]}")
    if model.config.tokens < MIN_TOKENS:
        raise ModelFolderError(f"tokens must be at least {MIN_TOKENS}, not {model.config.tokens}")
    cells = (chosen.input_size // model.heat_stride) ** 2
    if model.has_variable_tokens and model.config.tokens > cells:
        raise ModelFolderError(
            f"{model.config.tokens} tokens are more than the {cells} cells of the heat map of {chosen.input_size} px"
        )
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    # The graphs take minutes. Until they are complete, a model that is there already stays as it was.
    with TemporaryDirectory(prefix=".export-", dir=path) as name:
        new = Path(name)
        write_weights(new / WEIGHTS, model)
        write_graphs(new, model, chosen, int8=int8, images=images, like=like)
        if card is not None:
            with atomic_write(new / CARD) as temporary:
                temporary.write_text(card, encoding="utf-8")
        hashes = write_config(new, chosen).hashes
        for file in (*hashes, CARD, CONFIG):
            if (new / file).exists():
                (new / file).replace(path / file)
    if INT8_GRAPH not in hashes:
        (path / INT8_GRAPH).unlink(missing_ok=True)
    return ModelFolder(path, chosen, hashes)


def export_model(
    source: Path,
    folder: Path,
    *,
    settings: dict[str, Any],
    card: Path | None = None,
    tokens: int | None = None,
    int8: bool = True,
) -> ModelFolder:
    """Write a model folder from trained weights, or from another model folder with its settings and card.

    `source` is the best.safetensors of a training run, a model folder, or the name of a model as in `open_model`.
    Weights that were fine-tuned from a model folder keep its sizes and thresholds, see `find_start_model`. Others get
    the image size of their run. `settings` are fields of `ModelSettings` to change, `card` is a file with the text of
    the card. `tokens` is the largest number of nodes per input: no weight depends on it if the tokens come from a heat
    map. `int8` also writes the graph with 8-bit convolutions.
    """
    text = None
    if not source.is_file() and source.suffix != ".safetensors":
        opened = open_model(str(source))
        model, text = load_weights(opened), opened.card or None
        settings = sizes_and_thresholds(opened) | settings
    else:
        model = load_trained(source)
        _, start = find_start_model(source)
        settings = (sizes_and_thresholds(start) if start else _sizes_of_run(source)) | settings
    if card is not None:
        try:
            text = card.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ModelFolderError(f"{card}: cannot be read ({error})") from None
    if tokens is not None:
        model = with_tokens(model, tokens)
    return save_pretrained(model, folder, card=text, int8=int8, **settings)


def find_start_model(path: Path) -> tuple[str, ModelFolder | None]:
    """Find the model folder from which the run of a best.safetensors was fine-tuned; return its name and the folder.

    The name is empty if the run did not start from a model. The folder is None if it cannot be opened or if the names
    or shapes of its weights differ from those of the run. Only parts that the run added (`TreeFormer.new_parts`) may be
    missing in it.
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
    trained = {key: entry.shape for key, entry in entries.items()}
    missing = trained.keys() - weights.keys()
    fits = trained == {key: entry.shape for key, entry in weights.items()} | {key: trained[key] for key in missing}
    return name, folder if fits and all(key.startswith(TreeFormer.new_parts) for key in missing) else None


def _sizes_of_run(path: Path) -> dict[str, int]:
    """Return input and working size as the image size of the run of a best.safetensors; none if it states no size.

    The input size is the next multiple of `INPUT_STRIDE`.
    """
    _, metadata = safetensors.read_header(path)
    text = metadata.get("image_size", "")
    if not re.fullmatch("[1-9][0-9]{0,4}", text):
        return {}
    side = -(-int(text) // INPUT_STRIDE) * INPUT_STRIDE
    return {"input_size": side, "working_size": side}


def sizes_and_thresholds(folder: ModelFolder) -> dict[str, Any]:
    """Return the fields of `ModelSettings` that do not describe the network."""
    names = {field.name for field in fields(folder.config)} - {"architecture", "settings"}
    return {name: getattr(folder.config, name) for name in names}


def with_tokens(model: TreeFormer, tokens: int) -> TreeFormer:
    """Return a network with the same weights and another number of object tokens, at least 2, in evaluation mode.

    The tokens must come from a heat map.
    """
    if model.config.token_source != "heat_map" or tokens < MIN_TOKENS:
        raise ModelFolderError(f"tokens cannot be {tokens}: this network has {model.config.tokens}")
    resized = TreeFormer(replace(model.config, tokens=tokens))
    resized.load_state_dict(model.state_dict())
    return resized.eval()


def from_pretrained(name: str | os.PathLike[str]) -> TreeFormer:
    """Load the network of a model, in float32 and in evaluation mode.

    Args:
        name: "default" or "small" for a model of the package, a model folder, or a name on the Hugging Face hub.

    Example:
        >>> from_pretrained("default").config.token_source
        'heat_map'
    """
    return load_weights(open_model(name))


def load_weights(folder: ModelFolder) -> TreeFormer:
    """Load the network of an opened model folder, in float32 and in evaluation mode."""
    architecture = folder.config.architecture
    if architecture != ARCHITECTURE:
        raise ModelFolderError(f"{folder.path}: architecture must be {ARCHITECTURE}, not {architecture}")
    return _load_network(dict(folder.config.settings), folder.weights)


def load_trained(path: Path) -> TreeFormer:
    """Load the network from the best.safetensors of a training run, whose metadata holds the settings.

    Checkpoints and baselines are rejected.
    """
    _, metadata = safetensors.read_header(path)
    if "progress" in metadata:
        raise ModelFolderError(
            f"{path}: this is a checkpoint for resuming; the model is in best.safetensors in the same folder"
        )
    try:
        settings = json.loads(metadata["config"])
    except (KeyError, ValueError):
        raise ModelFolderError(f"{path}: not the best.safetensors of a training run (no settings found)") from None
    _check_kind(settings, path)
    return _load_network(settings, path)


def _check_kind(settings: dict[str, Any], path: Path) -> None:
    """Raise `ModelFolderError` if these are the settings of a baseline, which cannot be exported."""
    names = {field.name for field in fields(TreeFormerConfig)}
    if not settings.keys() <= names and len(settings.keys() & names) < len(names) / 2:
        raise ModelFolderError(
            f"{path}: weights of a baseline; only TreeFormers (default, small, paper, tiny) can be exported"
        )


def write_weights(path: Path, model: TreeFormer) -> None:
    """Write the weights to a safetensors file: matrices and kernels as float16, vectors as float32.

    Vectors are one percent of the bytes, and the variances of a batch normalization can exceed the range of float16. A
    weight that is not finite in its stored type is an error.
    """
    arrays = {}
    for name, tensor in model.state_dict().items():
        array = tensor.detach().cpu().float().numpy()
        with np.errstate(over="ignore"):
            arrays[name] = array.astype(np.float16) if array.ndim > 1 else array
        if not np.isfinite(arrays[name]).all():
            raise ModelFolderError(f"{path.name}: {name} has values that {arrays[name].dtype} cannot hold")
    safetensors.write(path, arrays, {"format": "pt"})


def _load_network(settings: dict[str, Any], path: Path) -> TreeFormer:
    """Build a network from its settings and load its weights from a safetensors file."""
    try:
        model = TreeFormer(TreeFormerConfig.from_dict(settings))
    except (TreeformerError, TypeError, ValueError, RuntimeError) as error:
        raise ModelFolderError(f"{path}: invalid settings: {str(error).splitlines()[0]}") from None
    stored = safetensors.read(path)
    expected = model.state_dict()
    for name in sorted(stored.keys() | expected.keys()):
        if name not in stored or name not in expected or stored[name].shape != tuple(expected[name].shape):
            raise ModelFolderError(f"{path}: weights of another architecture ({name} does not fit)")
    model.load_state_dict({name: torch.tensor(array).float() for name, array in stored.items()})
    return model.eval()
