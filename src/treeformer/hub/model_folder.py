"""Open, check and write model folders. Nothing is unpickled.

A trained model is a folder of these files:

config.json        architecture, input size, thresholds tuned on validation data, hashes
model.safetensors  weights: matrices and kernels as float16, vectors as float32
model.onnx         graph; its weights are bytes of model.safetensors, so that they are stored once
model-int8.onnx    graph with 8-bit convolutions, made from the same weights; optional
card.md            training data, figures, limits, license; optional
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args

from treeformer._util.config import ConfigError, build
from treeformer._util.files import atomic_write, check_is_regular_file, sha256
from treeformer._util.text import short_repr
from treeformer.errors import FormatError, TreeformerError
from treeformer.hub import safetensors

FORMAT_VERSION = 1
CONFIG, WEIGHTS, CARD = "config.json", "model.safetensors", "card.md"
GRAPH, INT8_GRAPH = "model.onnx", "model-int8.onnx"
Precision = Literal["auto", "float32", "int8"]
ScaleSignal = Literal["spacing", "radius"]
DEFAULT = "default"
SMALL = "small"
DEFAULT_FOLDER = Path(__file__).parents[1] / "weights" / DEFAULT
SMALL_FOLDER = DEFAULT_FOLDER.with_name(SMALL)
MAX_CONFIG_BYTES = 1_000_000
MAX_GRAPH_BYTES = 2**31  # the limit of Protocol Buffers, the format of ONNX files
MAX_ARCHITECTURE_LETTERS = 100
# The coarsest feature map of the networks has a stride of 32 px.
INPUT_STRIDE = 32
MAX_INPUT_SIZE = 8192
MAX_WORKING_SIZE = 100_000
MAX_DIRECTION_WEIGHT = 1000
MAX_COEFFICIENT = 100
MAX_TARGET_PX = 1000
MAX_DOUBLINGS = 6
# Settings that older model folders lack.
OPTIONAL = ("version", "direction_weight", "edge_calibration", "scale_rule", "low_confidence_threshold", "structure")
# Settings that had other names in earlier versions: former name to current name.
FORMER_NAMES = {"candidate_score": "candidate_threshold", "peak_heat": "min_peak_heat"}
HUB_NAME = re.compile(r"\w[\w.-]{0,95}/\w[\w.-]{0,95}")  # "owner/model"
# Longer names of models are shortened in error messages.
LONGEST_SHOWN = 300


class ModelFolderError(TreeformerError):
    """A missing, incomplete or damaged model."""


@dataclass(frozen=True)
class ScaleRule:
    """How the working size of an image is chosen; see `treeformer.inference.auto_scale`.

    Raises:
        ModelFolderError: if a value is out of range.
    """

    signal: ScaleSignal = "spacing"
    """What a first pass measures: the distance between neighboring keypoints, or the radius. Medians, px."""

    target_px: float = 10.0
    """Value of the signal at which the network is best, px of its input: above 0, at most 1000."""

    max_doublings: int = 2
    """The working size is the input size times a power of two up to this one: 0 to 6."""

    crowded_px: float = 0.0
    """If keypoints are nearer to each other than this, a doubled size is doubled once more: 0 to 1000. 0 never does."""

    def __post_init__(self) -> None:
        if not 0 < self.target_px <= MAX_TARGET_PX:  # true for NaN
            raise ModelFolderError(f"target_px is {short_repr(self.target_px)}, up to {MAX_TARGET_PX} px is needed")
        if not 0 <= self.max_doublings <= MAX_DOUBLINGS:
            raise ModelFolderError(f"max_doublings is {short_repr(self.max_doublings)}, 0 to {MAX_DOUBLINGS} is needed")
        if not 0 <= self.crowded_px <= MAX_TARGET_PX:
            raise ModelFolderError(f"crowded_px is {short_repr(self.crowded_px)}, 0 to {MAX_TARGET_PX} px is needed")


@dataclass(frozen=True)
class ModelSettings:
    """The contents of config.json.

    Raises:
        ModelFolderError: if a value is out of range.
    """

    architecture: str
    """Class of the network, such as "TreeFormer"."""

    settings: Mapping[str, Any]
    """Settings of the network: the fields of its configuration dataclass."""

    input_size: int = 512
    """Side of the square image that the graph takes, px: a multiple of 32 from 32 to 8192."""

    working_size: int = 512
    """Length that the longer side of an image is scaled to before the image is cut into tiles, px: 32 to 100,000."""

    node_threshold: float = 0.5
    """Least probability of a node."""

    root_threshold: float = 0.5
    """Least probability of a further plant's root."""

    candidate_threshold: float = 0.25
    """Least node score of the candidates that the network returns; at most `node_threshold`."""

    min_peak_heat: float = 0.0
    """Least value of the heat map at a token's starting point; 0 always uses the same number of tokens."""

    version: str = ""
    """Version of the weights, such as "6"; at most 100 letters."""

    direction_weight: float = 0.0
    """Weight of the predicted directions in edge costs, 0 to 1000; see `treeformer.decoding.attributes`."""

    edge_calibration: tuple[float, float, float, float] | None = None
    """Coefficients of calibrated edge scores, each within ±100; see `treeformer.decoding.calibration`."""

    scale_rule: ScaleRule | None = None
    """How the working size of an image is chosen. None: by default images have the size `working_size`."""

    low_confidence_threshold: float | None = None
    """Edges with a lower score are more often wrong than right."""

    structure: dict[str, float] | None = None
    """Weights of structured decoding, each within ±100; see `treeformer.decoding.objective`. None decodes the plain
    spanning forest."""

    @property
    def tile_step(self) -> int:
        """Grid that the tiles of a large image begin on, px: the spacing of the network's grid, 1 if it has none."""
        spacing = self.settings.get("grid_px", 0)
        return round(spacing) if isinstance(spacing, int | float) and 1 <= spacing <= MAX_INPUT_SIZE else 1

    def __post_init__(self) -> None:
        if not self.architecture:
            raise ModelFolderError("architecture is empty")
        if len(self.architecture) > MAX_ARCHITECTURE_LETTERS:
            raise ModelFolderError(f"architecture {short_repr(self.architecture)} is too long")
        if not (INPUT_STRIDE <= self.input_size <= MAX_INPUT_SIZE and self.input_size % INPUT_STRIDE == 0):
            raise ModelFolderError(
                f"input_size is {short_repr(self.input_size)}, "
                f"a multiple of {INPUT_STRIDE} from {INPUT_STRIDE} to {MAX_INPUT_SIZE} px is needed"
            )
        if not INPUT_STRIDE <= self.working_size <= MAX_WORKING_SIZE:
            raise ModelFolderError(
                f"working_size is {short_repr(self.working_size)}, {INPUT_STRIDE} to {MAX_WORKING_SIZE} px is needed"
            )
        for name in ("node_threshold", "root_threshold", "candidate_threshold", "min_peak_heat"):
            if not 0 <= getattr(self, name) <= 1:  # true for NaN
                raise ModelFolderError(f"{name} is {short_repr(getattr(self, name))}, a probability is needed")
        _check_optional(self)
        if self.candidate_threshold > self.node_threshold:
            raise ModelFolderError(
                f"candidate_threshold {self.candidate_threshold} is above node_threshold {self.node_threshold}"
            )


def _check_optional(settings: ModelSettings) -> None:
    """Check the settings that older model folders do not have."""
    if len(settings.version) > MAX_ARCHITECTURE_LETTERS or not settings.version.isprintable():
        raise ModelFolderError(f"version {short_repr(settings.version)} is too long or not printable")
    if not 0 <= settings.direction_weight <= MAX_DIRECTION_WEIGHT:
        weight = short_repr(settings.direction_weight)
        raise ModelFolderError(f"direction_weight is {weight}, 0 to {MAX_DIRECTION_WEIGHT} is needed")
    coefficients = settings.edge_calibration or ()
    if not all(abs(value) <= MAX_COEFFICIENT for value in coefficients):  # true for NaN
        raise ModelFolderError(f"edge_calibration has values beyond ±{MAX_COEFFICIENT}")
    for key, value in (settings.structure or {}).items():
        if not (isinstance(value, int | float) and abs(value) <= MAX_COEFFICIENT):
            raise ModelFolderError(f"structure: {key} is {short_repr(value)}, at most ±{MAX_COEFFICIENT} is needed")
    threshold = settings.low_confidence_threshold
    if threshold is not None and not 0 <= threshold <= 1:
        raise ModelFolderError(f"low_confidence_threshold is {short_repr(threshold)}, a probability is needed")


@dataclass(frozen=True)
class ModelFolder:
    """An opened model, as `open_model` returns it.

    Attributes:
        path: the folder.
        config: the contents of its config.json.
        hashes: SHA-256 of its files by name, hexadecimal.
    """

    path: Path
    config: ModelSettings
    hashes: Mapping[str, str] = field(default_factory=dict)

    @property
    def weights(self) -> Path:
        """File of the weights."""
        return self.path / WEIGHTS

    @property
    def has_int8(self) -> bool:
        """True if there is an 8-bit graph."""
        return INT8_GRAPH in self.hashes

    def graph(self, precision: Precision = "auto") -> Path:
        """Return the file of an ONNX graph; "auto" selects the 8-bit graph if there is one.

        Raises:
            ModelFolderError: if `precision` is unknown, or "int8" and there is no 8-bit graph.
        """
        if precision not in get_args(Precision):
            raise ModelFolderError(f"precision is {precision!r}, one of {', '.join(get_args(Precision))} is needed")
        if precision == "int8" and not self.has_int8:
            raise ModelFolderError(f"{self.path}: this model has no {INT8_GRAPH}")
        return self.path / (GRAPH if precision == "float32" or not self.has_int8 else INT8_GRAPH)

    @property
    def card(self) -> str:
        """Text of the model card, empty if there is none."""
        path = self.path / CARD
        return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def open_model(name: str | os.PathLike[str] = DEFAULT, *, check_hashes: bool = True) -> ModelFolder:
    """Find a model and check it.

    Args:
        name: "default" or "small", the models that come with the package; a folder; or the name "owner/model" of a
            model on the Hugging Face hub. The hub needs `huggingface_hub`; models downloaded before need no network.
        check_hashes: compare the files with the SHA-256 in config.json.

    Returns:
        The opened model.

    Raises:
        ModelFolderError: if the model is missing, incomplete or damaged.

    Example:
        >>> open_model("no/such/model/here")
        Traceback (most recent call last):
        treeformer.hub.model_folder.ModelFolderError: no/such/model/here: no such folder
    """
    folder = _find(name)
    model = read_folder(folder)
    if check_hashes:
        for file, expected in model.hashes.items():
            if sha256(folder / file) != expected:
                raise ModelFolderError(f"{folder / file}: damaged: its SHA-256 differs from the one in {CONFIG}")
    return model


def read_folder(folder: Path) -> ModelFolder:
    """Open the model in a folder; check its config.json and the header of its weights, but not the hashes.

    Raises:
        ModelFolderError: if a file is missing, or config.json or the header of the weights is invalid.
    """
    path = folder / CONFIG
    try:
        check_is_regular_file(path)
        size = path.stat().st_size
        content = path.read_bytes() if size <= MAX_CONFIG_BYTES else b""
    except FileNotFoundError:
        hint = "; `treeformer export` creates one from trained weights" if any(folder.glob("*.safetensors")) else ""
        raise ModelFolderError(f"{folder}: not a model folder: there is no {CONFIG} in it{hint}") from None
    except OSError as error:
        raise ModelFolderError(f"{path}: {error.strerror or error}") from None
    if size > MAX_CONFIG_BYTES:
        raise ModelFolderError(f"{path}: has {size:,} bytes, more than {MAX_CONFIG_BYTES:,}")
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        raise ModelFolderError(f"{path}: not JSON") from None
    try:
        settings, hashes = _parse(document, str(path))
        safetensors.read_header(folder / WEIGHTS)
    except (ConfigError, FormatError) as error:
        raise ModelFolderError(str(error)) from None
    for file in hashes:
        if not (folder / file).is_file():
            raise ModelFolderError(f"{folder / file}: No such file")
        if file != WEIGHTS and (size := (folder / file).stat().st_size) > MAX_GRAPH_BYTES:
            raise ModelFolderError(f"{folder / file}: has {size:,} bytes, more than {MAX_GRAPH_BYTES:,}")
    return ModelFolder(folder, settings, hashes)


def write_config(folder: Path, settings: ModelSettings) -> ModelFolder:
    """Write config.json, with hashes, to a folder that has weights and graph already.

    Args:
        folder: the folder.
        settings: the settings of the model.

    Returns:
        The model in the folder.
    """
    hashes = {file: sha256(folder / file) for file in (WEIGHTS, GRAPH, INT8_GRAPH) if (folder / file).exists()}
    document = {"format_version": FORMAT_VERSION, **asdict(settings), "sha256": hashes}
    with atomic_write(folder / CONFIG) as temporary:
        temporary.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return ModelFolder(folder, settings, hashes)


def _find(name: str | os.PathLike[str]) -> Path:
    """Return the folder of a model; download it if it is on the hub."""
    if name == DEFAULT:
        if not DEFAULT_FOLDER.is_dir():
            raise ModelFolderError("this copy of treeformer has no default model: give a model folder")
        return DEFAULT_FOLDER
    if name == SMALL and SMALL_FOLDER.is_dir():
        return SMALL_FOLDER
    path, text = Path(name), os.fspath(name)
    shown = text if len(text) <= LONGEST_SHOWN and text.isprintable() else short_repr(text, LONGEST_SHOWN)
    try:
        is_folder, exists = path.is_dir(), path.exists()
    except (OSError, ValueError):  # a name that is too long, or contains a zero byte
        raise ModelFolderError(f"{shown}: no such folder") from None
    if is_folder:
        return path
    if exists:
        raise ModelFolderError(f"{shown}: not a folder; `treeformer export` creates one from trained weights")
    if text == SMALL:
        raise ModelFolderError("this version of treeformer has no small model: use default, or give a model folder")
    if not HUB_NAME.fullmatch(text):
        is_path = "/" in text or os.sep in text
        hint = "" if is_path else f", and no model of the package: these are {DEFAULT} and {SMALL}"
        raise ModelFolderError(f"{shown}: no such folder{hint}")
    return _download(text)


def _download(name: str) -> Path:
    """Download a model from the Hugging Face hub; without network, use the cached copy."""
    try:
        from huggingface_hub import snapshot_download
    except ModuleNotFoundError:
        raise ModelFolderError(
            f"{name}: no such folder, and models on the hub need huggingface_hub: pip install 'treeformer[hub]'"
        ) from None
    try:
        return Path(snapshot_download(name, allow_patterns=[CONFIG, WEIGHTS, GRAPH, INT8_GRAPH, CARD]))
    except Exception as error:  # errors of the hub library have no common base class
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ModelFolderError(f"{name}: no such folder, and not available from the hub ({reason})") from None


def _parse(document: object, where: str) -> tuple[ModelSettings, dict[str, str]]:
    """Return settings and hashes from the parsed config.json; `where` is the prefix of error messages."""
    if not isinstance(document, dict):
        raise ModelFolderError(f"{where}: not a table of settings")
    version = document.pop("format_version", None)
    if version != FORMAT_VERSION or isinstance(version, bool):
        raise ModelFolderError(
            f"{where}: format_version is {short_repr(version)}, this treeformer reads {FORMAT_VERSION}"
        )
    table = {FORMER_NAMES.get(name, name): value for name, value in document.items()}
    for name in ("sha256", *(entry.name for entry in fields(ModelSettings))):
        if name not in table and name not in OPTIONAL:
            raise ModelFolderError(f"{where}: {name} is missing")
    hashes = table.pop("sha256")
    if not (isinstance(hashes, dict) and hashes.keys() - {INT8_GRAPH} == {WEIGHTS, GRAPH}):
        raise ModelFolderError(f"{where}: sha256 does not list {WEIGHTS} and {GRAPH}")
    if not all(isinstance(value, str) for value in hashes.values()):
        raise ModelFolderError(f"{where}: sha256 has values that are not text")
    try:
        return build(ModelSettings, table, where), hashes
    except ModelFolderError as error:
        raise ModelFolderError(f"{where}: {error}") from None
