"""The engine that runs a model folder with torch: a GPU in bfloat16, or the CPU in float32."""

from __future__ import annotations

import os
import threading
from contextlib import nullcontext

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from treeformer.errors import TreeformerError
from treeformer.hub.model_folder import ModelFolder
from treeformer.inference.cuda_graphs import CudaGraphInference
from treeformer.inference.engine import RawPrediction, check_input
from treeformer.models.export import load_weights
from treeformer.models.inference_model import InferenceModel
from treeformer.models.treeformer import TreeFormer

# Images per call: smaller batches do not fill a GPU.
BATCH = 64


class TorchEngine:
    """A model folder on a torch device; see `treeformer.inference.engine.Engine`.

    Args:
        folder: an opened model.
        device: such as "cuda:1" or "cpu"; by default a GPU where there is one.
        threads: of the CPU; by default torch's own choice.
    """

    def __init__(self, folder: ModelFolder, device: str | None = None, threads: int | None = None) -> None:
        try:
            self._device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
            model = load_weights(folder).to(self._device, memory_format=torch.channels_last)
        except RuntimeError as error:
            raise TreeformerError(f"device {device!r}: {str(error).splitlines()[0]}") from None
        if threads:
            torch.set_num_threads(threads)
        self.device = str(self._device)
        self.name, self.input_size = f"torch {self.device}", folder.config.input_size
        self.preferred_batch = BATCH
        self._model: InferenceModel | CudaGraphInference
        self._model = InferenceModel(model.eval(), folder.config.candidate_threshold, folder.config.min_peak_heat)
        self._on_gpu = self._device.type == "cuda"
        if self._on_gpu:
            keep_rounded(model)
            self._model = CudaGraphInference(self._model)
        self._one_at_a_time = threading.Lock()  # recordings always use the same memory
        self._process = os.getpid()

    def __call__(self, images: NDArray[np.uint8]) -> RawPrediction:
        """Predict (B,S,S,3) RGB images."""
        check_input(images, self.input_size)
        if os.getpid() != self._process:  # torch would wait for ever for threads that were not forked, CUDA refuses
            raise TreeformerError("torch does not work in a forked process: spawn it, or use ONNX Runtime")
        groups = self._on_device(torch.from_numpy(np.ascontiguousarray(images)))
        count = max(numbers[0].shape[1] for _, numbers in groups)
        batch = len(images)
        shapes = (batch, count), (batch, count, 2), (batch, count, count), (batch, count)
        result = RawPrediction(*(np.zeros(shape, dtype=np.float32) for shape in shapes))
        for rows, numbers in groups:
            for whole, part in zip(result, numbers, strict=True):
                whole[(rows, *(slice(size) for size in part.shape[1:]))] = part.numpy()
        return result

    @torch.inference_mode()
    def _on_device(self, images: Tensor) -> list[tuple[list[int], list[Tensor]]]:
        """What `in_groups` gives, in memory of the host."""
        bfloat16 = torch.autocast(self._device.type, torch.bfloat16, enabled=self._on_gpu, cache_enabled=False)
        device = torch.cuda.device(self._device) if self._on_gpu else nullcontext()
        with self._one_at_a_time, device, bfloat16:
            groups = [
                # Into locked memory, without waiting: the device goes on with the next group meanwhile. What is not
                # contiguous would be copied twice, the second time by the host, which does not wait for the first.
                (rows, [part.contiguous().to("cpu", non_blocking=True, copy=True) for part in numbers])
                for rows, numbers in self._model.in_groups(images.to(self._device))
            ]
            if self._on_gpu:
                torch.cuda.current_stream().synchronize()
        return groups


@torch.no_grad()
def keep_rounded(model: TreeFormer) -> None:
    """Hold in bfloat16 what autocast would round at every call: a network for use with autocast alone."""
    model.backbone.keep_folded(torch.bfloat16)  # before its weights are rounded
    for part in model.modules():
        if isinstance(part, nn.Linear | nn.Conv2d):
            for name, tensor in part.named_parameters(recurse=False):
                setattr(part, name, nn.Parameter(tensor.to(torch.bfloat16), requires_grad=False))
