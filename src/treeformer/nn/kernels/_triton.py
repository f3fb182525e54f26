"""Optional import of Triton: CPU-only builds of torch do not include it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, cast

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = tl = None

__all__ = ["Kernel", "jit", "tl", "triton"]


class Kernel(Protocol):
    """A function compiled by Triton: `kernel[grid](…)` launches it, and other kernels call it directly."""

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]: ...

    def __call__(self, *args: Any) -> Any: ...


def jit(function: Callable[..., Any]) -> Kernel:
    """Apply `triton.jit` if Triton is installed, otherwise return the function unchanged."""
    return cast(Kernel, function if triton is None else triton.jit(function))
