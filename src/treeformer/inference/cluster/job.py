"""The settings of a run. They are stored with its results, so that results of different settings never mix."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

import treeformer
from treeformer.errors import FormatError, TreeformerError
from treeformer.hub.model_folder import Precision
from treeformer.inference.cluster.storage import Folder
from treeformer.inference.open_engine import EngineName
from treeformer.inference.options import WorkingSize

FORMAT_VERSION = 1
JOB = "job.json"
MANIFESTS = "manifests"


@dataclass(frozen=True)
class Job:
    """What is predicted and how."""

    # "default", "small", a model folder, or a name on the Hugging Face hub; every node must be able to open it
    model: str = "default"
    engine: EngineName = "auto"
    precision: Precision = "auto"  # number format of ONNX Runtime
    working_size: WorkingSize = None  # length to which longer images are reduced, px; see `Predictor.predict`
    single_plant: bool = False
    min_confidence: float | None = None  # minimum confidence of nodes and edges
    views: int = 1  # number of views of each image; see `Predictor.predict`
    traits: bool = True  # measure compact traits
    px_per_mm: float | None = None  # resolution for the traits, pixels per millimeter
    formats: tuple[str, ...] = ()  # names of formats to write as files, in addition to the Parquet rows
    overlay: bool = False  # also draw each skeleton over its image

    def settings(self, model_hash: str) -> dict[str, Any]:
        """Return the settings that change results. The engine is not among them: nodes of a cluster may differ."""
        fields = {name: value for name, value in asdict(self).items() if name not in ("model", "engine")}
        fields["formats"] = list(self.formats)
        version = treeformer.__version__
        return {"format_version": FORMAT_VERSION, "treeformer": version, "model_hash": model_hash, **fields}


def open_job(folder: Folder, job: Job, hash_: str) -> bytes:
    """Store the settings of a job in its folder, or check that they are those of the job there; return their hash.

    The hash of the model is that of `provenance.model_hash`. Settings without a plan are replaced: they stay behind if
    the sources of a command cannot be listed. Another command may replace those of this one in the same way, so
    `add_images` compares them again.
    """
    wanted = json.loads(json.dumps(job.settings(hash_)))
    with folder.locked():
        if not has_plan(folder):
            folder.write(JOB, (json.dumps(wanted, indent=2) + "\n").encode())
            return hash_settings(wanted)
    present = read_settings(folder)
    for name in sorted(wanted.keys() | present.keys()):
        if wanted.get(name) != present.get(name):
            raise TreeformerError(
                f"{folder.path}: holds a run with {name} {present.get(name)!r}, not {wanted.get(name)!r}:"
                " choose another output"
            )
    return hash_settings(wanted)


def read_settings(folder: Folder) -> dict[str, Any]:
    """Return the content of job.json; raise `FormatError` if it is missing or broken."""
    if not folder.exists(JOB):
        raise FormatError(f"{folder.path}: there is no {JOB}; `treeformer predict-cluster` creates it")
    try:
        document = json.loads(folder.read(JOB))
    except ValueError:
        raise FormatError(f"{folder.file(JOB)}: not JSON") from None
    if not isinstance(document, dict):
        raise FormatError(f"{folder.file(JOB)}: not a table of settings")
    return document


def has_plan(folder: Folder) -> bool:
    """Return True if images have been planned in a folder."""
    return bool(folder.names(MANIFESTS, lambda name: name.endswith(".parquet")))


def read_planned_settings(folder: Folder) -> dict[str, Any]:
    """Return the content of job.json; raise `FormatError` if it is missing or broken, or no images are planned."""
    settings = read_settings(folder)
    if not has_plan(folder):
        raise FormatError(f"{folder.path}: no images are planned: run `treeformer predict-cluster` with images")
    return settings


def hash_settings(settings: dict[str, Any]) -> bytes:
    """Return the hash of the settings of a job, which include the hash of its model."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).digest()
