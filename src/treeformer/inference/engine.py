"""The engine protocol: what runs a model, and the arrays that it returns.

Images are (B,S,S,3) uint8 RGB, with S the side of the input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from treeformer._util.arrays import Float32Array, ImageArray
from treeformer.errors import TreeformerError


class RawPrediction(NamedTuple):
    """Output of a network for B images, with K node candidates each, sorted by descending score.

    K is the largest number of candidates above the model's `candidate_threshold` in any image of the batch, at least 2.
    It differs from call to call. Rows beyond an image's own candidates are padding (score below `candidate_threshold`).
    """

    node_score: Float32Array  # (B,K) probabilities
    points: Float32Array  # (B,K,2) px of the input
    edge_cost: Float32Array  # (B,K,K) f⁻ − f⁺, symmetric. Negative for edges that are more likely than not.
    root_logit: Float32Array  # (B,K) log-odds
    # (B,K,3) log(r + 0.5) with the radius r in px of the input, and (dx, dy), about the unit vector from the node to
    # its parent. It is shorter if the network is unsure, and has no meaning at a root. None if the model does not
    # predict attributes.
    attributes: Float32Array | None = None
    # (B,K,WIDTH) probabilities of kinds, degrees and directions of all neighbors, see `treeformer.decoding.node_kinds`.
    # None if the model does not predict them.
    kinds: Float32Array | None = None
    # (B,S/2,S/2,3) uint8, map of center lines: 255 times the probability of a line, and 127.5 + 127.5 times
    # (cos 2t, sin 2t) with the angle t between line and x axis. None if the model has no such map.
    lines: ImageArray | None = None


Rows = list[tuple[RawPrediction, int]]
"""For each image of a batch, an output and the image's row in it."""


class Engine(Protocol):
    """A loaded model that is ready to run."""

    name: str  # what runs the model and how, for people to read: "onnx int8", "torch cuda"
    device: str  # where it runs: "cpu", or a torch device such as "cuda:0"
    preferred_batch: int  # number of images per call that gives the best throughput
    input_size: int  # side of the square input images, px

    def __call__(self, images: ImageArray) -> RawPrediction:
        """Predict images, (B,S,S,3) RGB."""


def input_memory(engine: Engine, batch: int) -> ImageArray:
    """Return memory (batch,S,S,3), not initialized, for the input of an engine.

    An engine may have a method `input_memory(batch)` for memory that it reads faster than any other.
    """
    own = getattr(engine, "input_memory", None)
    if own is not None:
        memory: ImageArray = own(batch)
        return memory
    return np.empty((batch, engine.input_size, engine.input_size, 3), dtype=np.uint8)


@contextmanager
def readable_memory(engine: Engine, memory: ImageArray) -> Iterator[bool]:
    """Prepare contiguous memory (R,S,S,3) for an engine, until the `with` block ends.

    Yield True if the engine reads it as fast as that of `input_memory`, so that copying would not pay. An engine with
    `input_memory` reads other memory slowly, unless it has a method `readable_memory(memory)` with the result of this
    function.
    """
    own = getattr(engine, "readable_memory", None)
    if own is None:
        yield not hasattr(engine, "input_memory")
        return
    with own(memory) as is_readable:
        yield is_readable


def begin_rows(engine: Engine, images: ImageArray) -> Callable[[], Rows]:
    """Begin to predict a batch, without joining parts of its output that the engine computes one after another.

    Return a function that waits for the output and returns, for each image, an output and the image's row in it.
    Several images may share an output. The images have been read when this function returns, and may then be
    overwritten.

    An engine may have a method `begin_rows(images)` with the result of this function, so that a GPU has the next batch
    before the host has read the output of this one.
    """
    own = getattr(engine, "begin_rows", None)
    if own is not None:
        begun: Callable[[], Rows] = own(images)
        return begun
    raw = engine(images)
    return lambda: [(raw, row) for row in range(len(images))]


def predict_rows(engine: Engine, images: ImageArray) -> Rows:
    """Predict a batch as `begin_rows` does, and wait for the output."""
    return begin_rows(engine, images)()


def check_input(images: NDArray[Any], side: int) -> None:
    """Raise `TreeformerError` if a batch of input images is not (B,side,side,3) uint8, with B at least 1."""
    if images.ndim != 4 or images.shape[1:] != (side, side, 3) or images.dtype != np.uint8 or not len(images):
        raise TreeformerError(
            f"images of shape {images.shape} and type {images.dtype}: (B,{side},{side},3) of uint8 is needed"
        )
