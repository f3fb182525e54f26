"""Marks for tests of Triton kernels: they run on a GPU, or in Triton's interpreter on a CPU (TRITON_INTERPRET=1).

The interpreter of Triton 3.6 needs NumPy below 2.4.
"""

from __future__ import annotations

import importlib.util
import os

import pytest
import torch

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1" and importlib.util.find_spec("triton") is not None
KERNEL_DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
needs_kernel = pytest.mark.skipif(
    not (torch.cuda.is_available() or INTERPRETED), reason="needs CUDA, or TRITON_INTERPRET=1 with Triton"
)
