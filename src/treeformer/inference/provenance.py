"""What a predicted skeleton records about its origin: the model, its version and hash, and the settings used."""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import asdict
from typing import Any

from treeformer.formats.swc import HEADER
from treeformer.hub.model_folder import WEIGHTS, ModelFolder

# The package imports this part on first use, so it cannot be imported here by name.
VERSION: str = sys.modules["treeformer"].__version__
HASH_LETTERS = 16
HASH_DIGITS = 32


def prediction_metadata(model: ModelFolder, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata of predicted skeletons."""
    config = model.config
    digest = model.hashes.get(WEIGHTS, "")
    record = {
        "treeformer": VERSION,
        "model": model.path.name,
        "model_version": config.version,
        "model_sha256": digest,
        **settings,
    }
    of_model = " ".join(part for part in (model.path.name, config.version) if part)
    shown = "; ".join(f"{name} {_shown(value)}" for name, value in settings.items())
    line = f"treeformer {VERSION}; model {of_model}; sha256 {digest[:HASH_LETTERS] or 'unknown'}; {shown}"
    metadata: dict[str, Any] = {"model": model.path.name, "prediction": record}
    if config.low_confidence_threshold is not None:
        metadata["low_confidence_threshold"] = config.low_confidence_threshold
    return metadata | {"rsml": {"software": line}, "swc": {"comments": [f" {line}", HEADER]}}


def model_hash(model: ModelFolder) -> str:
    """Return 32 hexadecimal digits that identify the weights, the graphs and the settings of a model."""
    document = {"settings": asdict(model.config), "sha256": dict(model.hashes)}
    return hashlib.sha256(json.dumps(document, sort_keys=True, default=str).encode()).hexdigest()[:HASH_DIGITS]


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
