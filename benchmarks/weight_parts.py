"""Weights in small files of half precision, for places that take no large ones; each is complete in itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeformer.errors import TreeformerError
from treeformer.hub import safetensors
from treeformer.training.checkpoint import averaged_weights

PART_BYTES = 14 * 2**20
HEADER_BYTES = 2**18  # more than any part's table of contents takes


class WeightPartsError(TreeformerError):
    """Parts that are missing or do not belong together, or weights that float16 cannot hold."""


def halved(weights: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Matrices and kernels as float16, with an error where a number is too large for that; vectors as they are.

    Vectors take little room, and a variance of the ImageNet backbone is above what float16 holds.
    """
    result: dict[str, NDArray[Any]] = {}
    for name, array in weights.items():
        if array.dtype.kind == "f":
            largest = np.abs(array.astype(np.float64)).max(initial=0.0)
            if not largest <= (np.finfo(np.float16).max if array.ndim > 1 else np.finfo(np.float32).max):  # NaN is not
                raise WeightPartsError(f"{name}: has numbers that float{16 if array.ndim > 1 else 32} cannot hold")
            array = array.astype(np.float16) if array.ndim > 1 else array
        result[name] = array
    return result


def write_weight_parts(path: Path, out_folder: Path, *, part_bytes: int = PART_BYTES) -> list[Path]:
    """Write the (averaged) weights of a file as NAME-1-of-3.safetensors …, none larger than `part_bytes`; their paths.

    The metadata of the file go into every part.
    """
    weights = halved(averaged_weights(path))
    _, metadata = safetensors.read_header(path)
    room = part_bytes - HEADER_BYTES
    parts: list[dict[str, NDArray[Any]]] = [{}]
    for name, array in weights.items():
        if array.nbytes > room:
            raise WeightPartsError(f"{path}: {name} alone is larger than a part of {part_bytes} bytes")
        if sum(one.nbytes for one in parts[-1].values()) + array.nbytes > room:
            parts.append({})
        parts[-1][name] = array
    paths = []
    for number, part in enumerate(parts, start=1):
        paths.append(out_folder / f"{path.stem}-{number}-of-{len(parts)}.safetensors")
        safetensors.write(paths[-1], part, metadata | {"part": f"{number} of {len(parts)}"})
    return paths


def join_weight_parts(folder: Path, stem: str, out: Path) -> None:
    """Put the parts STEM-1-of-3.safetensors … of a folder together in one file; all of them must be there."""
    found = sorted(folder.glob(f"{stem}-*-of-*.safetensors"))
    if not found:
        raise WeightPartsError(f"{folder}: no part of {stem} in it")
    count = found[0].stem.rpartition("-")[2]
    weights: dict[str, NDArray[Any]] = {}
    metadata: dict[str, str] = {}
    for number in range(1, int(count) + 1 if count.isdigit() else 1):
        part = folder / f"{stem}-{number}-of-{count}.safetensors"
        if part not in found:
            raise WeightPartsError(f"{part}: is missing")
        weights |= safetensors.read(part)
        metadata = safetensors.read_header(part)[1]
    if len(found) != len([part for part in found if part.stem.endswith(f"-of-{count}")]):
        raise WeightPartsError(f"{folder}: parts of two different files called {stem}")
    metadata.pop("part", None)
    safetensors.write(out, weights, metadata)
