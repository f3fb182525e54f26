"""Choose an engine for a model: torch if it sees a GPU, ONNX Runtime otherwise."""

from __future__ import annotations

import importlib.util
from typing import Literal

from treeformer.errors import TreeformerError
from treeformer.hub.model_folder import ModelFolder, Precision
from treeformer.inference.engine import Engine
from treeformer.inference.onnx_engine import OnnxEngine

EngineName = Literal["auto", "onnx", "torch"]


def open_engine(
    folder: ModelFolder,
    engine: EngineName = "auto",
    *,
    threads: int | None = None,
    device: str | None = None,
    precision: Precision = "auto",
) -> Engine:
    """An engine for a model.

    Args:
        folder: an opened model.
        engine: "auto" is torch where it is installed and sees a GPU, else ONNX Runtime.
        threads: of ONNX Runtime, or of torch on the CPU.
        device: of torch, such as "cuda:1" or "cpu"; by default a GPU where there is one.
        precision: of ONNX Runtime's convolutions: float32, int8, or auto, which is int8 where the model has it.
    """
    if engine not in ("auto", "onnx", "torch"):
        raise TreeformerError(f"engine is {engine!r}, one of auto, onnx, torch is needed")
    if threads is not None and threads < 1:
        raise TreeformerError(f"threads must be one or more, not {threads}")
    if engine == "onnx" or (engine == "auto" and not _gpu_for_torch()):
        return OnnxEngine(folder, threads, precision)
    try:
        from treeformer.inference.torch_engine import TorchEngine
    except ModuleNotFoundError as error:
        raise TreeformerError(f"the engine torch needs {error.name}: pip install 'treeformer[train]'") from None
    torch_engine: Engine = TorchEngine(folder, device=device, threads=threads)
    return torch_engine


def _gpu_for_torch() -> bool:
    if importlib.util.find_spec("torch") is None:
        return False
    import torch

    return torch.cuda.is_available()
