"""Prediction with ONNX Runtime on the CPU; needs no torch."""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from treeformer.errors import TreeformerError
from treeformer.hub.model_folder import INT8_GRAPH, ModelFolder, Precision
from treeformer.inference.engine import RawPrediction, check_input


class OnnxEngine:
    """ONNX Runtime on the CPU.

    Args:
        folder: an opened model.
        threads: that work on one image; by default as many as the process may use.
        precision: of the convolutions; "auto" is int8 where the model has it.
    """

    def __init__(self, folder: ModelFolder, threads: int | None = None, precision: Precision = "auto") -> None:
        import onnxruntime

        graph = folder.graph(precision)
        self.name = "onnx int8" if graph.name == INT8_GRAPH else "onnx float32"
        self.device = "cpu"
        self.preferred_batch = 1  # on a CPU larger batches are not faster per image
        self.input_size = folder.config.input_size
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads or _usable_cores()
        options.log_severity_level = 3
        # Looking for buffers to reuse is quadratic in the nodes: two thirds of the loading time, and nothing saved.
        options.enable_mem_reuse = False
        # Threads that wait sleep: on a machine with other work, spinning made an image take a third longer.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            self._session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # ONNX Runtime has a dozen unrelated classes of its own
            raise TreeformerError(f"{graph}: {_first_line(error)}") from None

    def __call__(self, images: NDArray[np.uint8]) -> RawPrediction:
        """Predict (B,S,S,3) RGB images."""
        check_input(images, self.input_size)
        return RawPrediction(*self._session.run(None, {"images": images}))


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _first_line(error: Exception) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
