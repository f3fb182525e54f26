"""Split weights into small safetensors files of half precision, each valid on its own."""

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
HEADER_BYTES = 2**18  # more than the header of any part


class WeightPartsError(TreeformerError):
    """Missing or inconsistent parts, or weights beyond the range of float16."""


def halved(weights: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Convert matrices and kernels to float16. Vectors stay as they are.

    Vectors need little space, and a variance of the ImageNet backbone exceeds the range of float16.

    Raises:
        WeightPartsError: if a number is not finite or out of range.
    """
    result: dict[str, NDArray[Any]] = {}
    for name, array in weights.items():
        if array.dtype.kind == "f":
            largest = np.abs(array.astype(np.float64)).max(initial=0.0)
            if not largest <= (np.finfo(np.float16).max if array.ndim > 1 else np.finfo(np.float32).max):  # NaN is not
                raise WeightPartsError(f"{name}: has values that float{16 if array.ndim > 1 else 32} cannot hold")
            array = array.astype(np.float16) if array.ndim > 1 else array
        result[name] = array
    return result


def write_weight_parts(path: Path, out_folder: Path, *, part_bytes: int = PART_BYTES) -> list[Path]:
    """Write the (averaged) weights of a file as NAME-1-of-3.safetensors, ….

    Args:
        path: checkpoint or weights; its metadata is copied into every part.
        out_folder: folder of the parts.
        part_bytes: size limit of a part.

    Returns:
        Paths of the parts.

    Raises:
        WeightPartsError: if a tensor does not fit into a part.
    """
    weights = halved(averaged_weights(path))
    _, metadata = safetensors.read_header(path)
    room = part_bytes - HEADER_BYTES
    parts: list[dict[str, NDArray[Any]]] = [{}]
    for name, array in weights.items():
        if array.nbytes > room:
            raise WeightPartsError(f"{path}: {name} alone is larger than a part of {part_bytes} bytes")
        if sum(tensor.nbytes for tensor in parts[-1].values()) + array.nbytes > room:
            parts.append({})
        parts[-1][name] = array
    paths = []
    for number, part in enumerate(parts, start=1):
        paths.append(out_folder / f"{path.stem}-{number}-of-{len(parts)}.safetensors")
        safetensors.write(paths[-1], part, metadata | {"part": f"{number} of {len(parts)}"})
    return paths


def join_weight_parts(folder: Path, stem: str, out: Path) -> None:
    """Join the parts STEM-1-of-3.safetensors, … of a folder into one file.

    Args:
        folder: folder of the parts.
        stem: common beginning of their names.
        out: the file to write.

    Raises:
        WeightPartsError: if a part is missing or belongs to another file.
    """
    found = sorted(folder.glob(f"{stem}-*-of-*.safetensors"))
    if not found:
        raise WeightPartsError(f"{folder}: contains no part of {stem}")
    count = found[0].stem.rpartition("-")[2]
    weights: dict[str, NDArray[Any]] = {}
    metadata: dict[str, str] = {}
    for number in range(1, int(count) + 1 if count.isdigit() else 1):
        part = folder / f"{stem}-{number}-of-{count}.safetensors"
        if part not in found:
            raise WeightPartsError(f"{part}: missing")
        weights |= safetensors.read(part)
        metadata = safetensors.read_header(part)[1]
    if len(found) != len([part for part in found if part.stem.endswith(f"-of-{count}")]):
        raise WeightPartsError(f"{folder}: parts of two different files named {stem}")
    metadata.pop("part", None)
    safetensors.write(out, weights, metadata)
