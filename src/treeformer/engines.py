"""What runs a model: ONNX Runtime on the CPU, or torch on a GPU where there is one; both give the same numbers."""

from __future__ import annotations

import importlib.util
import os
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from treeformer.errors import TreeformerError
from treeformer.model_folder import INT8_GRAPH, ModelFolder, Precision

EngineName = Literal["auto", "onnx", "torch"]


class RawPrediction(NamedTuple):
    """A network's numbers for B pictures: K candidates each, the likeliest first. K differs from call to call.

    K is the largest number of nodes above the model's candidate score in a picture of the batch (at least 2); what
    follows after a picture's own candidates has a lower score and means nothing.
    """

    node_score: NDArray[np.float32]  # (B,K) probabilities
    points: NDArray[np.float32]  # (B,K,2) px of the input
    edge_cost: NDArray[np.float32]  # (B,K,K) f⁻ − f⁺, symmetric
    root_logit: NDArray[np.float32]  # (B,K) log-odds


class Engine(Protocol):
    """A model, ready to run."""

    name: str  # what runs it and how, to be read by people: "onnx int8", "torch cuda"
    input_size: int  # side of the pictures it takes, px

    def __call__(self, images: NDArray[np.uint8]) -> RawPrediction:
        """Predict (B,S,S,3) RGB pictures."""


class OnnxEngine:
    """ONNX Runtime on the CPU.

    Args:
        folder: an opened model.
        threads: that work on one picture; by default as many as the process may use.
        precision: of the convolutions; "auto" is int8 where the model has it.
    """

    def __init__(self, folder: ModelFolder, threads: int | None = None, precision: Precision = "auto") -> None:
        import onnxruntime

        graph = folder.graph(precision)
        self.name = "onnx int8" if graph.name == INT8_GRAPH else "onnx float32"
        self.input_size = folder.config.input_size
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads or _usable_cores()
        options.log_severity_level = 3
        # Looking for buffers to reuse is quadratic in the nodes: two thirds of the loading time, and nothing saved.
        options.enable_mem_reuse = False
        # Threads that wait sleep: on a machine with other work, spinning made a picture take a third longer.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            self._session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # ONNX Runtime has a dozen unrelated classes of its own
            raise TreeformerError(f"{graph}: {_first_line(error)}") from None

    def __call__(self, images: NDArray[np.uint8]) -> RawPrediction:
        """Predict (B,S,S,3) RGB pictures."""
        check_input(images, self.input_size)
        return RawPrediction(*self._session.run(None, {"images": images}))


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
        from treeformer.models.torch_engine import TorchEngine
    except ModuleNotFoundError as error:
        raise TreeformerError(f"the engine torch needs {error.name}: pip install 'treeformer[train]'") from None
    torch_engine: Engine = TorchEngine(folder, device=device, threads=threads)
    return torch_engine


def check_input(images: NDArray[Any], side: int) -> None:
    """Complain about anything but (B,side,side,3) uint8."""
    if images.ndim != 4 or images.shape[1:] != (side, side, 3) or images.dtype != np.uint8 or not len(images):
        raise TreeformerError(
            f"pictures of shape {images.shape} and type {images.dtype}; (B,{side},{side},3) of uint8 is needed"
        )


def _gpu_for_torch() -> bool:
    if importlib.util.find_spec("torch") is None:
        return False
    import torch

    return torch.cuda.is_available()


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _first_line(error: Exception) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
