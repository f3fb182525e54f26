"""Inference on a GPU with CUDA graphs: Python launches a few graphs instead of about three thousand kernels.

A CUDA graph is captured for one shape and always reads and writes the same memory. To keep the number of graphs small,
batches are padded to a power of two, and the numbers of tokens and of candidates are rounded up. Surplus tokens are
masked in attention, surplus candidates have a score of 0, and both are removed from the result. Captured code must not
wait for the device. The host reads the numbers that it needs between the three stages of `InferenceModel`.

All graphs of an engine share one memory pool and run one after the other in one stream. Replaying a graph may overwrite
the outputs of graphs that were captured after it, because their memory was free during its capture. It never overwrites
the outputs of graphs that were captured before it, because those are still referenced. This is safe here: `encode` is
captured before the `decode_tokens` and `predict_edges` that read its levels, `decode_tokens` writes to memory outside
the pool, and the outputs of `predict_edges` are copied before the next graph is replayed.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import ExitStack
from typing import Any, Protocol

import torch
from torch import Tensor

from treeformer.models.inference_model import (
    GROUP_SIZE,
    Candidates,
    InferenceModel,
    RankedTokens,
    candidate_count,
    group_by_count,
    output_names,
    select_images,
)
from treeformer.models.outputs import Features, Scene
from treeformer.models.token_count import MIN_TOKENS

EAGER_USES = 2  # uses of a shape before it is captured: a capture takes as long as several eager runs
WARM_UP_RUNS = 2  # runs before a capture: everything that is selected or allocated on first use has to exist
MAX_GRAPHS = 160  # further shapes run eagerly
# Tokens and candidates are rounded up to multiples of these; pairs grow with the square of the candidates. The first
# number is a multiple of the second, so that there are never more candidates than tokens. Small batches do not fill a
# GPU: coarser steps cost them nothing, and fewer graphs have to be captured.
STEPS, COARSE_STEPS = (16, 8), (32, 32)
FULL_BATCH = 64  # smaller batches are padded to a power of two, larger ones to a multiple of this


class CudaGraph:
    """A function captured as a CUDA graph on the current device. It uses tensors whose memory does not move.

    It shares memory and stream with another graph: memory freed by a stream can only be reused by that stream.

    Attributes:
        stream: of the capture
        graph: torch's graph
        outputs: result of the function, in memory that every replay overwrites
    """

    def __init__(self, stage: Callable[[], Any], share_with: CudaGraph | None) -> None:
        self.stream: torch.cuda.Stream
        if share_with:
            self.stream = share_with.stream
        else:
            self.stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch's stubs lack the types
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(WARM_UP_RUNS):
                stage()
        torch.cuda.current_stream().wait_stream(self.stream)
        self.graph = torch.cuda.CUDAGraph()
        pool = share_with.graph.pool() if share_with else None
        with ExitStack() as capture:
            # Entering a capture creates tensors that all graphs of a process share. If they were created in inference
            # mode, a later capture in training would fail. Other threads, which load the next images, may go on.
            with torch.inference_mode(False):
                capture.enter_context(
                    torch.cuda.graph(self.graph, pool=pool, stream=self.stream, capture_error_mode="thread_local")
                )
            self.outputs = stage()

    def replay(self) -> Any:
        """Run the function on the current values of its inputs; return the same output tensors with new values."""
        self.graph.replay()
        return self.outputs


class Replayable(Protocol):
    """What `CudaGraphCache` needs of a graph."""

    def replay(self) -> Any:
        """Run the captured function again."""


class CudaGraphCache:
    """The graphs of an engine, one per stage and shape, captured at the third use.

    `capture` is given the first graph of the cache or None. Tests pass a stand-in for the CPU.
    """

    def __init__(self, capture: Callable[[Callable[[], Any], Any], Replayable] = CudaGraph) -> None:
        self._capture = capture
        self._uses: Counter[Hashable] = Counter()
        self._graphs: dict[Hashable, Replayable] = {}
        self._too_large: set[Hashable] = set()

    def __len__(self) -> int:
        return len(self._graphs)

    def has(self, key: Hashable, stage: Callable[[], Any]) -> bool:
        """Count a use of a stage and shape and return True if it has a graph; the third use captures one.

        If False, it has to run eagerly.
        """
        if key in self._graphs:
            return True
        self._uses[key] += 1
        if self._uses[key] <= EAGER_USES or key in self._too_large or len(self) >= MAX_GRAPHS:
            return False
        try:
            self._graphs[key] = self._capture(stage, next(iter(self._graphs.values()), None))
        except RuntimeError as error:
            # After a capture ran out of memory, ending it may raise another error.
            if not any(isinstance(reason, torch.OutOfMemoryError) for reason in (error, error.__context__)):
                raise
            self._too_large.add(key)
        return key in self._graphs

    def run(self, key: Hashable, stage: Callable[[], Any]) -> Any:
        """Run a function, with its graph if it has one. The result is valid until the next graph is replayed."""
        return self._graphs[key].replay() if self.has(key, stage) else stage()


class CudaGraphInference:
    """`InferenceModel.predict_in_groups` with CUDA graphs.

    Call it in inference mode and always in the same precision (autocast without its cache).
    """

    def __init__(self, model: InferenceModel, cache: CudaGraphCache | None = None) -> None:
        self.model, self.cache = model, CudaGraphCache() if cache is None else cache
        self._batches: dict[tuple[int, ...], _Batch] = {}

    def predict_in_groups(self, images: Tensor) -> Iterator[tuple[list[int], Candidates]]:
        """Predict groups of images (B,S,S,3), uint8 RGB; see `InferenceModel.predict_in_groups`.

        The next group overwrites the candidates.
        """
        count = len(images)
        shape = (padded_batch_size(count), *images.shape[1:])
        batch = self._batches.get(shape)
        if batch is None:
            batch = self._batches[shape] = _Batch(self.model, self.cache, images.new_zeros(shape))
        if not batch.is_captured():
            yield from self.model.predict_in_groups(images)
            return
        batch.images[:count].copy_(images)
        token_count = max(batch.encode()[:count])
        candidates = batch.decode_tokens(token_count)[:count]
        yield from batch.predict_edges(group_by_count(candidates))


class _Batch:
    """The memory of batches of one shape, and their three stages. The later stages read the outputs of the first graph.

    Rows of the input memory beyond the actual images may hold any images.
    """

    def __init__(self, model: InferenceModel, cache: CudaGraphCache, images: Tensor) -> None:
        self.model, self.cache, self.images = model, cache, images
        self.max_tokens = model.model.config.tokens
        self.token_step, self.candidate_step = STEPS if len(images) >= GROUP_SIZE else COARSE_STEPS
        self.rows = torch.zeros(min(len(images), GROUP_SIZE), dtype=torch.int64, device=images.device)
        self.ranked: RankedTokens | None = None  # `max_tokens` tokens per image, filled by `decode_tokens`
        self.relation = self.count = torch.empty(0)
        self.features: Features
        self.active: Tensor | None

    def is_captured(self) -> bool:
        """Return True if there is a graph of the first stage."""
        return self.cache.has(("encode", self.images.shape), self._encode)

    def encode(self) -> list[int]:
        """Run the first stage; return the number of tokens that each image needs."""
        (self.features, self.active), needed = self.cache.run(("encode", self.images.shape), self._encode)
        return [self.max_tokens] * len(self.images) if needed is None else needed.tolist()

    def _encode(self) -> tuple[tuple[Features, Tensor | None], Tensor | None]:
        features, active = self.model.encode(self.images)
        return (features, active), None if active is None else active.sum(1).clamp(min=MIN_TOKENS)

    def decode_tokens(self, token_count: int) -> list[int]:
        """Run the second stage for at least `token_count` tokens; return the number of candidates of each image."""
        token_count = round_up(token_count, self.token_step, self.max_tokens)
        key = ("decode_tokens", self.images.shape, token_count)
        self.cache.run(key, functools.partial(self._decode_tokens, token_count))
        return self.count.tolist()

    def _decode_tokens(self, token_count: int) -> None:
        active = None if self.active is None else self.active[:, :token_count]
        ranked, scene = self.model.decode_tokens(self.features, active)
        count = candidate_count(ranked.score)
        if self.ranked is None:  # never during a capture, because a shape is not captured at its first use
            self.ranked = ranked.map(lambda part: part.new_zeros(len(part), self.max_tokens, *part.shape[2:]))
            self.relation, self.count = torch.empty_like(scene.relation), torch.empty_like(count)
        for whole, part in zip(self.ranked, ranked, strict=True):
            if whole is not None and part is not None:
                whole[:, :token_count].copy_(part)
        self.relation.copy_(scene.relation)
        self.count.copy_(count)

    def predict_edges(self, groups: list[tuple[list[int], int]]) -> Iterator[tuple[list[int], Candidates]]:
        """Run the third stage per group, given the indices of its images and their largest number of candidates."""
        size = len(self.rows)
        padded = torch.tensor([rows + rows[:1] * (size - len(rows)) for rows, _ in groups])
        for (rows, count), rows_on_device in zip(groups, padded.to(self.rows.device), strict=True):
            self.rows.copy_(rows_on_device)
            padded_count = round_up(count, self.candidate_step, self.max_tokens)
            key = ("predict_edges", self.images.shape, padded_count)
            stage = functools.partial(self._predict_edges, padded_count)
            parts = zip(output_names(self.model.model.config), self.cache.run(key, stage), strict=True)
            of_tokens = {"lines": 0, "edge_cost": 2}  # axes with one row per token, for the others 1
            yield rows, tuple(part[: len(rows)][:, *[slice(count)] * of_tokens.get(name, 1)] for name, part in parts)

    def _predict_edges(self, count: int) -> Candidates:
        assert self.ranked is not None  # the second stage runs before the third
        features = self.features
        scene = Scene(self.relation, features.levels[0], features.blurred)
        return self.model.predict_edges(*select_images(self.ranked, scene, features.lines, self.rows, count))


def padded_batch_size(count: int) -> int:
    """Return the batch size that `count` images are padded to.

    >>> [padded_batch_size(count) for count in (1, 3, 64, 65)]
    [1, 4, 64, 128]
    """
    if count <= FULL_BATCH:
        return 1 << (count - 1).bit_length()
    return round_up(count, FULL_BATCH)


def round_up(count: int, step: int, largest: int | None = None) -> int:
    """Round up to a multiple of a step, but not above `largest`."""
    rounded = -(-count // step) * step
    return rounded if largest is None else min(rounded, largest)
