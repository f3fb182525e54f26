"""Where a network is used, not trained, some parts have a faster way on a GPU."""

from __future__ import annotations

import torch
from torch import Tensor


def is_inference_on_gpu(tensor: Tensor) -> bool:
    """Whether a tensor is on a GPU and nobody wants a gradient, nor a program of the operations."""
    return tensor.is_cuda and not torch.is_grad_enabled() and not torch.compiler.is_compiling()
