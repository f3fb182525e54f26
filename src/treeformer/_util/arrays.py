"""Aliases for the array types that the whole package uses."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.intp]
"""Indices and counts."""

FloatArray = NDArray[np.float64]
"""Coordinates, lengths and scores."""

BoolArray = NDArray[np.bool_]
"""Masks."""

Float32Array = NDArray[np.float32]
"""Network inputs and outputs, and painted images."""

ImageArray = NDArray[np.uint8]
"""An 8-bit RGB image, (H,W,3), or several of them, (B,H,W,3)."""
