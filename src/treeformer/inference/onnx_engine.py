"""Prediction with ONNX Runtime on the CPU. Needs no torch."""

from __future__ import annotations

from treeformer._util.arrays import ImageArray
from treeformer._util.cores import usable_cores
from treeformer.errors import TreeformerError
from treeformer.hub.model_folder import INT8_GRAPH, ModelFolder, Precision
from treeformer.inference.engine import RawPrediction, check_input


class OnnxEngine:
    """Run a model folder with ONNX Runtime on the CPU; see `treeformer.inference.engine.Engine`.

    By default, all cores that the process may use work on one image. The precision is that of convolutions; "auto" uses
    int8 if the model has it.
    """

    def __init__(self, folder: ModelFolder, threads: int | None = None, precision: Precision = "auto") -> None:
        import onnxruntime

        graph = folder.graph(precision)
        self.name = "onnx int8" if graph.name == INT8_GRAPH else "onnx float32"
        self.device = "cpu"
        self.preferred_batch = 1  # on a CPU larger batches are not faster per image
        self.input_size = folder.config.input_size
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads or usable_cores()
        options.log_severity_level = 3
        # The search for reusable buffers is quadratic in the number of graph nodes. It takes two thirds of the loading
        # time and saves no memory.
        options.enable_mem_reuse = False
        # The number of candidates differs from image to image, and ONNX Runtime keeps one more block of memory for each
        # number that it has seen. Without these blocks the peak is 100 MB lower, at the same speed.
        options.enable_mem_pattern = False
        # Waiting threads sleep. On a machine with other work, spinning made an image take a third longer.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            self._session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # the exception classes of ONNX Runtime have no common base class
            raise TreeformerError(f"{graph}: {_first_line(error)}") from None
        available = {output.name for output in self._session.get_outputs()}
        self._outputs = [name for name in RawPrediction._fields if name in available]

    def __call__(self, images: ImageArray) -> RawPrediction:
        """Predict images, (B,S,S,3) RGB."""
        check_input(images, self.input_size)
        arrays = self._session.run(self._outputs, {"images": images})
        return RawPrediction(**dict(zip(self._outputs, arrays, strict=True)))


def _first_line(error: Exception) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
