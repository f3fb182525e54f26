"""Choose an engine for a model: torch if it sees a GPU, ONNX Runtime otherwise."""

from __future__ import annotations

import ctypes
import importlib.util
import sys
from pathlib import Path
from typing import Literal

from treeformer.errors import TreeformerError
from treeformer.hub.model_folder import ModelFolder, Precision
from treeformer.inference.engine import Engine
from treeformer.inference.onnx_engine import OnnxEngine

EngineName = Literal["auto", "onnx", "torch"]
# Device files of GPUs under Linux: NVIDIA, NVIDIA under Windows Subsystem for Linux, AMD.
GPU_DEVICES = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg", "/dev/kfd")
GPU_DRIVER = "libcuda.so.1"


def open_engine(
    folder: ModelFolder,
    engine: EngineName = "auto",
    *,
    threads: int | None = None,
    device: str | None = None,
    precision: Precision = "auto",
) -> Engine:
    """Load a model into an engine.

    Args:
        folder: an opened model folder.
        engine: "onnx", "torch", or "auto": torch if it is installed and sees a GPU, ONNX Runtime otherwise.
        threads: number of CPU threads. None uses all cores.
        device: torch device, such as "cuda:1" or "cpu". None uses a GPU if there is one. Ignored by ONNX Runtime.
        precision: number format of ONNX Runtime's convolutions: "float32", "int8", or "auto": int8 if the model has
            it. Ignored by torch.

    Returns:
        The engine, ready to run.

    Raises:
        TreeformerError: if an argument is invalid, a package is missing, or the model cannot be loaded.
    """
    if engine not in ("auto", "onnx", "torch"):
        raise TreeformerError(f"engine must be auto, onnx or torch, not {engine!r}")
    if threads is not None and (not isinstance(threads, int) or threads < 1):
        raise TreeformerError(f"threads must be an integer of at least 1, not {threads!r}")
    if engine == "onnx" or (engine == "auto" and not torch_sees_gpu()):
        return OnnxEngine(folder, threads, precision)
    try:
        from treeformer.inference.torch_engine import TorchEngine
    except ModuleNotFoundError as error:
        raise TreeformerError(f"the engine torch needs {error.name}: pip install 'treeformer[train]'") from None
    torch_engine: Engine = TorchEngine(folder, device=device, threads=threads)
    return torch_engine


def torch_sees_gpu() -> bool:
    """Return True if torch is installed and sees a GPU. torch is imported only if there may be one."""
    if not _may_have_gpu() or importlib.util.find_spec("torch") is None:
        return False
    import torch

    return torch.cuda.is_available()


def _may_have_gpu() -> bool:
    """Return False if there is certainly no GPU. The import of torch, which knows, takes 500 MB and seconds."""
    if sys.platform == "darwin":  # torch has no CUDA there
        return False
    if sys.platform != "linux" or any(Path(device).exists() for device in GPU_DEVICES):
        return True
    try:
        ctypes.CDLL(GPU_DRIVER)
    except OSError:
        return False
    return True
