"""Inference on a GPU as CUDA graphs, so that Python starts a few recordings instead of some three thousand kernels.

A recording is for one shape, and always reads and writes the same memory. So that there are few of them, batches are
filled up to a power of two, and the numbers of tokens and of candidates are rounded up: tokens beyond those that are
needed are looked at by none, candidates beyond have a score of 0, and both are cut off again. Nothing that is recorded
may wait for the device; between the three stages of `InferenceModel` the host does.

All recordings of an engine share one pool of memory and run in one stream, one after the other. A recording may thus
overwrite what later ones gave, since their memory was free when it was made, but never what earlier ones gave, which is
held. That is safe: `encode` is recorded before the `decode_tokens` and `predict_edges` that read its levels, `decode_tokens` writes into memory of
its own outside the pool, and what `predict_edges` gives is copied before the next recording starts.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, Protocol

import torch
from torch import Tensor

from treeformer.models.inference_model import (
    GROUP,
    Candidates,
    InferenceModel,
    Ranked,
    candidate_count,
    groups,
    picked,
)
from treeformer.models.treeformer import FEWEST_TOKENS, Features

PLAIN_USES = 2  # of a shape before it is recorded: recording takes as long as several of them
WARM_UP = 2  # runs before a recording: what is chosen or allocated on first use has to be there
MOST_RECORDINGS = 160  # further shapes are not recorded
# Tokens and candidates are multiples of these; pairs grow with the square of the candidates. The first is a multiple of
# the second, so that there are never more candidates than tokens. A few images do not keep a GPU busy: coarser steps
# cost them nothing, and a camera has all its recordings sooner.
STEPS, COARSE_STEPS = (16, 8), (32, 32)
WHOLE_BATCH = 64  # batches up to this are filled up to a power of two, larger ones to a multiple


class CudaGraph:
    """A stage as a CUDA graph, on the current device.

    Args:
        stage: reads and writes tensors that stay where they are.
        before: a recording to share memory with; what one stream has set free can only be had by the same one.
    """

    def __init__(self, stage: Callable[[], Any], before: CudaGraph | None) -> None:
        self.stream = stream = before.stream if before else torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP):
                stage()
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        pool = before.graph.pool() if before else None
        with ExitStack() as recording:
            # torch now makes tensors that all graphs of a process share: those of inference mode would keep training
            # from recording later. Other threads, which gather the next images, may go on meanwhile.
            with torch.inference_mode(False):
                recording.enter_context(
                    torch.cuda.graph(self.graph, pool=pool, stream=stream, capture_error_mode="thread_local")
                )
            self.outputs = stage()

    def replay(self) -> Any:
        """Run the stage on what its inputs hold now; the same tensors as ever, filled anew."""
        self.graph.replay()
        return self.outputs


class _Replayable(Protocol):
    def replay(self) -> Any: ...


class CudaGraphCache:
    """The recordings of an engine: of every stage and shape, from its third use on.

    Args:
        record: makes a recording, from a stage and an earlier recording; tests have one for the CPU.
    """

    def __init__(self, record: Callable[[Callable[[], Any], Any], _Replayable] = CudaGraph) -> None:
        self._record = record
        self._uses: Counter[Any] = Counter()
        self._kept: dict[Any, _Replayable] = {}
        self._too_large: set[Any] = set()

    def __len__(self) -> int:
        return len(self._kept)

    def has(self, key: Any, stage: Callable[[], Any]) -> bool:
        """Whether there is a recording of the shape `key`; at its third use `stage` becomes one."""
        if key in self._kept:
            return True
        self._uses[key] += 1
        if self._uses[key] <= PLAIN_USES or key in self._too_large or len(self) >= MOST_RECORDINGS:
            return False
        try:
            self._kept[key] = self._record(stage, next(iter(self._kept.values()), None))
        except RuntimeError as error:
            # Ending a recording that ran out of memory may fail in its turn.
            if not any(isinstance(reason, torch.OutOfMemoryError) for reason in (error, error.__context__)):
                raise
            self._too_large.add(key)
        return key in self._kept

    def run(self, key: Any, stage: Callable[[], Any]) -> Any:
        """What `stage` gives, by a recording where there is one: until the next recording is run."""
        return self._kept[key].replay() if self.has(key, stage) else stage()


class CudaGraphInference:
    """`InferenceModel.in_groups` by recordings.

    Args:
        model: to be called in inference mode, always with the same precision (autocast without its cache).
        recorder: keeps the recordings.
    """

    def __init__(self, model: InferenceModel, recorder: CudaGraphCache | None = None) -> None:
        self.model, self.recorder = model, CudaGraphCache() if recorder is None else recorder
        self._batches: dict[tuple[int, ...], _Batch] = {}

    def in_groups(self, images: Tensor) -> Iterator[tuple[list[int], Candidates]]:
        """As `InferenceModel.in_groups`; what is given for a group is overwritten by the next one."""
        count = len(images)
        shape = (full_size(count), *images.shape[1:])
        batch = self._batches.get(shape)
        if batch is None:
            batch = self._batches[shape] = _Batch(self.model, self.recorder, images.new_zeros(shape))
        if not batch.is_recorded():
            yield from self.model.in_groups(images)
            return
        batch.images[:count].copy_(images)
        token_count = max(batch.encode()[:count])
        candidates = batch.decode_tokens(token_count)[:count]
        yield from batch.predict_edges(groups(candidates))


class _Batch:
    """The memory of batches of one shape, and the three stages; the others read what the recorded first one gave.

    Args:
        images: (B,S,S,3) uint8, to be filled; rows that are not needed may hold any images.
    """

    def __init__(self, model: InferenceModel, recorder: CudaGraphCache, images: Tensor) -> None:
        self.model, self.recorder, self.images = model, recorder, images
        self.most = model.model.config.tokens
        self.token_step, self.candidate_step = STEPS if len(images) >= GROUP else COARSE_STEPS
        self.rows = torch.zeros(min(len(images), GROUP), dtype=torch.int64, device=images.device)
        self.ranked: list[Tensor] = []  # as in `Ranked`, for as many tokens as there can be; filled by `decode_tokens`
        self.relation = self.count = torch.empty(0)

    def is_recorded(self) -> bool:
        return self.recorder.has(("encode", self.images.shape), self._encode)

    def encode(self) -> list[int]:
        """The first stage; how many tokens each image needs."""
        (self.features, self.active), needed = self.recorder.run(("encode", self.images.shape), self._encode)
        return [self.most] * len(self.images) if needed is None else needed.tolist()

    def _encode(self) -> tuple[tuple[Features, Tensor | None], Tensor | None]:
        features, active = self.model.encode(self.images)
        return (features, active), None if active is None else active.sum(1).clamp(min=FEWEST_TOKENS)

    def decode_tokens(self, token_count: int) -> list[int]:
        """The second stage, for that many tokens at least; how many candidates each image has."""
        token_count = rounded(token_count, self.token_step, self.most)
        key = ("decode_tokens", self.images.shape, token_count)
        self.recorder.run(key, functools.partial(self._decode_tokens, token_count))
        return self.count.tolist()

    def _decode_tokens(self, token_count: int) -> None:
        ranked, relation = self.model.decode_tokens(
            self.features, None if self.active is None else self.active[:, :token_count]
        )
        count = candidate_count(ranked.score)
        if not self.ranked:  # never while it is recorded: a shape is not recorded at its first use
            self.ranked = [part.new_zeros(len(part), self.most, *part.shape[2:]) for part in ranked]
            self.relation, self.count = torch.empty_like(relation), torch.empty_like(count)
        for whole, part in zip(self.ranked, ranked, strict=True):
            whole[:, :token_count].copy_(part)
        self.relation.copy_(relation)
        self.count.copy_(count)

    def predict_edges(self, grouped: list[tuple[list[int], int]]) -> Iterator[tuple[list[int], Candidates]]:
        """The third stage, group by group: the numbers of its images, and the most candidates that one has."""
        size = len(self.rows)
        filled = torch.tensor([rows + rows[:1] * (size - len(rows)) for rows, _ in grouped])
        for (rows, count), on_device in zip(grouped, filled.to(self.rows.device), strict=True):
            self.rows.copy_(on_device)
            wide = rounded(count, self.candidate_step, self.most)
            key = ("predict_edges", self.images.shape, wide)
            score, points, cost, root = self.recorder.run(key, functools.partial(self._predict_edges, wide))
            own = slice(len(rows)), slice(count)
            yield rows, (score[own], points[own], cost[(*own, own[1])], root[own])

    def _predict_edges(self, count: int) -> Candidates:
        return self.model.predict_edges(
            *picked(Ranked(*self.ranked), self.relation, self.features.levels[0], self.rows, count)
        )


def full_size(count: int) -> int:
    """The size of the batch that `count` images are filled up to."""
    if count <= WHOLE_BATCH:
        return 1 << (count - 1).bit_length()
    return rounded(count, WHOLE_BATCH)


def rounded(count: int, step: int, most: int | None = None) -> int:
    """The next multiple of a step, but not more than `most`."""
    up = -(-count // step) * step
    return up if most is None else min(up, most)
