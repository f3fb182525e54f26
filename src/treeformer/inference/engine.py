"""The engine protocol: what runs a model, and the arrays that come back from it."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from treeformer._util.arrays import ImageArray
from treeformer.errors import TreeformerError


class RawPrediction(NamedTuple):
    """A network's numbers for B images: K candidates each, the likeliest first. K differs from call to call.

    K is the largest number of nodes above the model's candidate score in an image of the batch (at least 2); what
    follows after an image's own candidates has a lower score and means nothing.
    """

    node_score: NDArray[np.float32]  # (B,K) probabilities
    points: NDArray[np.float32]  # (B,K,2) px of the input
    edge_cost: NDArray[np.float32]  # (B,K,K) f⁻ − f⁺, symmetric
    root_logit: NDArray[np.float32]  # (B,K) log-odds


class Engine(Protocol):
    """A model that is ready to run."""

    name: str
    """What runs the model and how, for people to read: "onnx int8", "torch cuda"."""
    device: str
    """Where it runs: "cpu", or a torch device such as "cuda:0"."""
    preferred_batch: int
    """Images per call that give the best throughput."""
    input_size: int
    """Side of the square images it takes, px."""

    def __call__(self, images: ImageArray) -> RawPrediction:
        """Predict images, (B,S,S,3) RGB."""


def check_input(images: NDArray[Any], side: int) -> None:
    """Complain about anything but (B,side,side,3) uint8."""
    if images.ndim != 4 or images.shape[1:] != (side, side, 3) or images.dtype != np.uint8 or not len(images):
        raise TreeformerError(
            f"images of shape {images.shape} and type {images.dtype}; (B,{side},{side},3) of uint8 is needed"
        )
