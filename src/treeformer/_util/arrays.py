"""Aliases for the array types that the whole package uses."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.intp]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
Float32Array = NDArray[np.float32]
ImageArray = NDArray[np.uint8]
"""An 8-bit RGB image, (H,W,3), or several of them, (B,H,W,3)."""
