"""The torch engine: runs a model folder on a GPU in bfloat16, or on the CPU in float32."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from treeformer._util.arrays import ImageArray
from treeformer.errors import TreeformerError
from treeformer.hub.model_folder import ModelFolder
from treeformer.inference.cuda_graphs import CudaGraphInference
from treeformer.inference.engine import RawPrediction, Rows, check_input
from treeformer.models.export import load_weights
from treeformer.models.inference_model import InferenceModel, output_names
from treeformer.models.treeformer import TreeFormer

# Images per call: smaller batches do not fill a GPU. The host has less work per image with large ones, but they need
# 4 GiB, and a small GPU may not have more.
PREFERRED_BATCH, LARGE_BATCH = 64, 128
MIN_MEMORY_OF_LARGE = 12 * 2**30

Groups = list[tuple[list[int], list[Tensor]]]
"""Indices of the images of each group, and their candidates, see `InferenceModel.predict_in_groups`."""


class TorchEngine:
    """A model folder on a torch device, see `treeformer.inference.engine.Engine`.

    `device` is one of torch such as "cuda:1" or "cpu", by default a GPU if there is one. By default, torch chooses the
    number of CPU threads.
    """

    def __init__(self, folder: ModelFolder, device: str | None = None, threads: int | None = None) -> None:
        try:
            self._device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
            model = load_weights(folder).to(self._device)
            model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # missing in torch's stubs
        except RuntimeError as error:
            raise TreeformerError(f"device {device!r}: {str(error).splitlines()[0]}") from None
        if threads:
            torch.set_num_threads(threads)
        self.device = str(self._device)
        self.name, self.input_size = f"torch {self.device}", folder.config.input_size
        self.preferred_batch = preferred_batch(self._device)
        self._model: InferenceModel | CudaGraphInference
        self._model = InferenceModel(model.eval(), folder.config.candidate_threshold, folder.config.min_peak_heat)
        self._outputs = output_names(model.config)
        self._on_gpu = self._device.type == "cuda"
        if self._on_gpu:
            cast_weights_to_bfloat16(model)
            self._model = CudaGraphInference(self._model)
        # On a GPU pixels have a stream of their own, so that their copy does not wait for the batch before.
        self._uploads = torch.cuda.Stream(self._device) if self._on_gpu else None  # type: ignore[no-untyped-call]
        self._lock = threading.Lock()  # CUDA graphs always use the same memory
        self._last: torch.cuda.Event | None = None  # after it, that memory is free for the next batch
        self._process = os.getpid()

    def __call__(self, images: NDArray[np.uint8]) -> RawPrediction:
        """Predict images; raise `TreeformerError` in a forked process."""
        groups = self._begin(images)()
        arrays = {}
        for number, name in enumerate(self._outputs):
            parts = [(rows, candidates[number].numpy()) for rows, candidates in groups]
            largest = np.max([part.shape[1:] for _, part in parts], axis=0)  # padding is 0
            arrays[name] = whole = np.zeros((len(images), *largest), parts[0][1].dtype)
            for rows, part in parts:
                index: tuple[Any, ...] = (rows, *(slice(size) for size in part.shape[1:]))
                whole[index] = part
        return RawPrediction(**arrays)

    def begin_rows(self, images: NDArray[np.uint8]) -> Callable[[], Rows]:
        """Begin to predict images, and leave the output in groups; see `engine.begin_rows`."""
        return functools.partial(_rows, self._begin(images), len(images), self._outputs)

    def input_memory(self, batch: int) -> ImageArray:
        """Return memory for a batch, (batch,S,S,3) uint8. A GPU reads it several times faster than other memory."""
        shape = (batch, self.input_size, self.input_size, 3)
        memory: ImageArray = torch.empty(shape, dtype=torch.uint8, pin_memory=self._on_gpu).numpy()
        return memory

    @contextmanager
    def readable_memory(self, memory: ImageArray) -> Iterator[bool]:
        """Pin memory that other processes write, if the device allows it; see `engine.readable_memory`."""
        if not self._on_gpu:
            yield True
            return
        cudart: Any = torch.cuda.cudart()  # type: ignore[no-untyped-call]  # torch's stubs lack the types
        with torch.cuda.device(self._device):
            is_pinned = int(cudart.cudaHostRegister(memory.ctypes.data, memory.nbytes, 0)) == 0
            if not is_pinned:
                # The next operation reports the error of the call above once more.
                with suppress(RuntimeError):
                    torch.zeros(1, device=self._device).sum().item()
        try:
            yield is_pinned
        finally:
            if is_pinned:
                with torch.cuda.device(self._device):
                    cudart.cudaHostUnregister(memory.ctypes.data)

    def _begin(self, images: NDArray[np.uint8]) -> Callable[[], Groups]:
        """Check the images and begin to predict them; return a function that waits for the output."""
        check_input(images, self.input_size)
        if os.getpid() != self._process:  # torch would wait forever for threads that were not forked; CUDA raises
            raise TreeformerError("the torch engine does not work in a forked process: use spawn or ONNX Runtime")
        groups, done = self._run(torch.from_numpy(np.require(images, requirements=("C", "W"))))  # torch warns otherwise

        def wait() -> Groups:
            if done is not None:
                done.synchronize()
            return groups

        return wait

    @torch.inference_mode()
    def _run(self, images: Tensor) -> tuple[Groups, torch.cuda.Event | None]:
        """Return the result of `predict_in_groups` in host memory, and the event after which it is complete there."""
        bfloat16 = torch.autocast(self._device.type, torch.bfloat16, enabled=self._on_gpu, cache_enabled=False)
        device = torch.cuda.device(self._device) if self._on_gpu else nullcontext()
        with self._lock, device, bfloat16:
            if self._last is not None:  # the last batch may be computed in the stream of another thread
                torch.cuda.current_stream().wait_event(self._last)
            groups = [
                # Copy to pinned memory without waiting, while the device computes the next group. A tensor that is not
                # contiguous would be copied twice, the second time by the host, which does not wait for the first copy.
                (rows, [part.contiguous().to("cpu", non_blocking=True, copy=True) for part in candidates])
                for rows, candidates in self._model.predict_in_groups(self._upload(images))
            ]
            done: torch.cuda.Event | None = None
            if self._on_gpu:
                done = torch.cuda.Event()  # type: ignore[no-untyped-call]  # torch's stubs lack the types
                done.record()
                self._last = done
        return groups, done

    def _upload(self, images: Tensor) -> Tensor:
        """Copy images to the device, which may still compute the edges of the batch before.

        The host reads the numbers of tokens and candidates before the prediction is queued completely, and these follow
        the copy. So the images are not overwritten too early.
        """
        if self._uploads is None:
            return images.to(self._device)
        with torch.cuda.stream(self._uploads):
            pixels = images.to(self._device, non_blocking=True)
        stream = torch.cuda.current_stream()
        stream.wait_stream(self._uploads)
        pixels.record_stream(stream)  # the memory is not reused before this stream has read it
        return pixels


def _rows(wait: Callable[[], Groups], count: int, names: Sequence[str]) -> Rows:
    """Wait for the output of a batch of `count` images; return the output and the row of each image."""
    found: dict[int, tuple[RawPrediction, int]] = {}
    for rows, candidates in wait():
        raw = RawPrediction(**{name: part.numpy() for name, part in zip(names, candidates, strict=True)})
        found |= {row: (raw, index) for index, row in enumerate(rows)}
    return [found[row] for row in range(count)]


@torch.no_grad()
def preferred_batch(device: torch.device) -> int:
    """Return the number of images per call that gives the best throughput.

    >>> preferred_batch(torch.device("cpu"))
    64
    """
    if device.type != "cuda" or torch.cuda.get_device_properties(device).total_memory < MIN_MEMORY_OF_LARGE:
        return PREFERRED_BATCH
    return LARGE_BATCH


def cast_weights_to_bfloat16(model: TreeFormer) -> None:
    """Cast the weights that autocast would cast at every call. The network is then only usable with autocast."""
    model.backbone.fold_batch_norms(torch.bfloat16)  # before its weights are cast
    for part in model.modules():
        if isinstance(part, nn.Linear | nn.Conv2d):
            for name, tensor in part.named_parameters(recurse=False):
                setattr(part, name, nn.Parameter(tensor.to(torch.bfloat16), requires_grad=False))
