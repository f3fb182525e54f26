"""Detect when the faster, inference-only GPU code paths may be used."""

from __future__ import annotations

import torch
from torch import Tensor


def is_inference_on_gpu(tensor: Tensor) -> bool:
    """Return True if the tensor is on CUDA, gradients are disabled and `torch.compile` is not tracing."""
    return tensor.is_cuda and not torch.is_grad_enabled() and not torch.compiler.is_compiling()
