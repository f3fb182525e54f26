"""The folder that a trained model is: settings, weights, graph and card; opened, checked, and nothing unpickled.

config.json        what kind of network, which input it takes, the thresholds tuned on validation, hashes
model.safetensors  the weights: matrices and kernels float16, vectors float32
model.onnx         the graph; its weights are bytes of model.safetensors, so that they are stored once
model-int8.onnx    the same with convolutions in 8 bits, of the same weights; not every model has it
card.md            what it was trained on, figures, limits, license
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args

from treeformer._util.files import atomic_write
from treeformer.errors import TreeformerError
from treeformer.hub import safetensors

FORMAT_VERSION = 1
CONFIG, WEIGHTS, CARD = "config.json", "model.safetensors", "card.md"
GRAPH, INT8_GRAPH = "model.onnx", "model-int8.onnx"
Precision = Literal["auto", "float32", "int8"]
DEFAULT = "default"
DEFAULT_FOLDER = Path(__file__).parents[1] / "weights" / DEFAULT
LARGEST_CONFIG_BYTES = 1_000_000
# Settings that folders of earlier versions call differently.
FORMER_NAMES = {"candidate_score": "candidate_threshold", "peak_heat": "min_peak_heat"}
HUB_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*")  # "owner/model"


class ModelFolderError(TreeformerError):
    """A model that is missing, incomplete or damaged."""


@dataclass(frozen=True)
class ModelSettings:
    """What config.json says."""

    architecture: str  # the kind of network: "TreeFormer"
    settings: Mapping[str, Any]  # of the network, as its config dataclass gives them
    input_size: int = 512  # side of the square image that the graph takes, px
    working_size: int = 512  # the longer side that an image is scaled to before it is cut into tiles, px
    node_threshold: float = 0.5  # least probability of a node …
    root_threshold: float = 0.5  # … and of a further plant's root
    candidate_threshold: float = 0.25  # tokens of a lower node score do not leave the network; at most node_threshold
    min_peak_heat: float = 0.0  # no token begins at a colder peak of the heat map; 0: there are always as many

    @property
    def tile_step(self) -> int:
        """Tiles of a large image begin at multiples of this, px: the spacing of the network's grid, if it has one."""
        spacing = self.settings.get("grid_px", 0)
        return max(1, round(spacing)) if isinstance(spacing, int | float) and math.isfinite(spacing) else 1

    def __post_init__(self) -> None:
        if not self.architecture:
            raise ModelFolderError("architecture is empty")
        for name in ("input_size", "working_size"):
            if getattr(self, name) < 1:
                raise ModelFolderError(f"{name} is {getattr(self, name)}, at least 1 px is needed")
        for name in ("node_threshold", "root_threshold", "candidate_threshold", "min_peak_heat"):
            if not 0 <= getattr(self, name) <= 1:  # NaN is not
                raise ModelFolderError(f"{name} is {getattr(self, name)}, a probability is needed")
        if self.candidate_threshold > self.node_threshold:
            raise ModelFolderError(
                f"candidate_threshold {self.candidate_threshold} is above node_threshold {self.node_threshold}"
            )


@dataclass(frozen=True)
class ModelFolder:
    """An opened model: where it lies and what its config.json says. Made by `open_model`."""

    path: Path
    config: ModelSettings
    hashes: Mapping[str, str] = field(default_factory=dict)  # SHA-256 of files, hexadecimal

    @property
    def weights(self) -> Path:
        """The file of the weights."""
        return self.path / WEIGHTS

    @property
    def has_int8(self) -> bool:
        """Whether there is a graph in 8 bits."""
        return INT8_GRAPH in self.hashes

    def graph(self, precision: Precision = "auto") -> Path:
        """The file of an ONNX graph; "auto" is the one in 8 bits where there is one."""
        if precision not in get_args(Precision):
            raise ModelFolderError(f"precision is {precision!r}, one of {', '.join(get_args(Precision))} is needed")
        if precision == "int8" and not self.has_int8:
            raise ModelFolderError(f"{self.path}: this model has no {INT8_GRAPH}")
        return self.path / (GRAPH if precision == "float32" or not self.has_int8 else INT8_GRAPH)

    @property
    def card(self) -> str:
        """The text of the card; empty where there is none."""
        path = self.path / CARD
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def open_model(name: str | os.PathLike[str] = DEFAULT, *, check_hashes: bool = True) -> ModelFolder:
    """Find a model and check it.

    Args:
        name: "default", the model that comes with the package; a folder; or the name "owner/model" of one on the
            Hugging Face hub, which needs `huggingface_hub` and, if it was downloaded before, no network.
        check_hashes: compare the files with the SHA-256 in config.json.

    >>> open_model("no/such/model/here")
    Traceback (most recent call last):
    treeformer.hub.model_folder.ModelFolderError: no/such/model/here: no such folder
    """
    folder = _find(name)
    model = read_folder(folder)
    if check_hashes:
        for file, expected in model.hashes.items():
            if sha256(folder / file) != expected:
                raise ModelFolderError(f"{folder / file}: damaged: its SHA-256 is not the one in {CONFIG}")
    return model


def read_folder(folder: Path) -> ModelFolder:
    """The model in a folder, its config.json and the header of its weights checked, without hashes."""
    path = folder / CONFIG
    try:
        size = path.stat().st_size
        content = path.read_bytes() if size <= LARGEST_CONFIG_BYTES else b""
    except FileNotFoundError:
        hint = "; `treeformer export` makes one from trained weights" if any(folder.glob("*.safetensors")) else ""
        raise ModelFolderError(f"{folder}: not a model folder: there is no {CONFIG} in it{hint}") from None
    except OSError as error:
        raise ModelFolderError(f"{path}: {error.strerror or error}") from None
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        raise ModelFolderError(f"{path}: not JSON") from None
    try:
        settings, hashes = _parse(document)
    except ModelFolderError as error:
        raise ModelFolderError(f"{path}: {error}") from None
    safetensors.read_header(folder / WEIGHTS)
    for file in hashes:
        if not (folder / file).is_file():
            raise ModelFolderError(f"{folder / file}: No such file")
    return ModelFolder(folder, settings, hashes)


def write_config(folder: Path, settings: ModelSettings) -> ModelFolder:
    """Write config.json for a folder whose weights and graph are in place, with their hashes."""
    hashes = {file: sha256(folder / file) for file in (WEIGHTS, GRAPH, INT8_GRAPH) if (folder / file).exists()}
    document = {"format_version": FORMAT_VERSION, **asdict(settings), "sha256": hashes}
    with atomic_write(folder / CONFIG) as temporary:
        temporary.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return ModelFolder(folder, settings, hashes)


def sha256(path: Path) -> str:
    """The SHA-256 of a file, hexadecimal."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelFolderError(f"{path}: {error.strerror or error}") from None


def _find(name: str | os.PathLike[str]) -> Path:
    """The folder of a model, downloaded where it is one of the hub."""
    if name == DEFAULT:
        if not DEFAULT_FOLDER.is_dir():
            raise ModelFolderError("this copy of treeformer has no default model: name a model folder")
        return DEFAULT_FOLDER
    path = Path(name)
    if path.is_dir():
        return path
    text = os.fspath(name)
    if path.exists():
        raise ModelFolderError(f"{text}: not a folder; `treeformer export` makes one from trained weights")
    if not HUB_NAME.fullmatch(text):
        raise ModelFolderError(f"{text}: no such folder")
    return _download(text)


def _download(name: str) -> Path:
    """A model of the Hugging Face hub; from the cache where it was downloaded before and there is no network."""
    try:
        from huggingface_hub import snapshot_download
    except ModuleNotFoundError:
        raise ModelFolderError(
            f"{name}: no such folder, and models of the hub need huggingface_hub: pip install 'treeformer[hub]'"
        ) from None
    try:
        return Path(snapshot_download(name, allow_patterns=[CONFIG, WEIGHTS, GRAPH, INT8_GRAPH, CARD]))
    except Exception as error:  # its errors share no base class: HTTP, missing repository, offline, bad name
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ModelFolderError(f"{name}: no such folder, and not to be had from the hub ({reason})") from None


def _parse(document: object) -> tuple[ModelSettings, dict[str, str]]:
    """Settings and hashes from the parsed config.json; every key known, present and of its type."""
    if not isinstance(document, dict):
        raise ModelFolderError("not a table of settings")
    version = document.get("format_version")
    if version != FORMAT_VERSION or isinstance(version, bool):
        raise ModelFolderError(f"format_version is {version!r}, this treeformer reads {FORMAT_VERSION}")
    document = {FORMER_NAMES.get(str(name), str(name)): value for name, value in document.items()}
    names = {entry.name for entry in fields(ModelSettings)}
    for name in sorted(document.keys() - names - {"format_version", "sha256"}):
        raise ModelFolderError(f"unknown setting {name!r}")
    for name in sorted((names | {"sha256"}) - document.keys()):
        raise ModelFolderError(f"{name} is missing")
    values = {name: _typed(name, document[name]) for name in names}
    hashes = document["sha256"]
    if not (isinstance(hashes, dict) and hashes.keys() - {INT8_GRAPH} == {WEIGHTS, GRAPH}):
        raise ModelFolderError(f"sha256 does not name {WEIGHTS} and {GRAPH}")
    if not all(isinstance(value, str) for value in hashes.values()):
        raise ModelFolderError("sha256 has values that are not text")
    return ModelSettings(**values), hashes


def _typed(name: str, value: Any) -> Any:
    """The value of a setting, if it is of the right type."""
    if name == "architecture":
        good, wanted = isinstance(value, str), "text"
    elif name == "settings":
        good, wanted = isinstance(value, dict), "a table"
    elif name in ("input_size", "working_size"):
        good, wanted = type(value) is int, "a whole number"
    else:
        good, wanted = type(value) in (int, float) and math.isfinite(value), "a number"
    if not good:
        raise ModelFolderError(f"{name} is {value!r}, {wanted} is needed")
    return value
