"""Batches for training: resumable planning, loading in worker processes, and prefetching to the device.

Most batches are ordinary. Every `crowded_every` steps a batch is crowded: it has fewer images with more nodes. A step
of ordinary images is therefore as fast as without crowded ones. In the first steps of a run ordinary images may be
smaller.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from treeformer._util.pools import ignore_signals as ignore_signals
from treeformer.data.mixture import MixtureDataset
from treeformer.data.sample import Sample, Skipped
from treeformer.errors import TreeformerError
from treeformer.nn.targets import Targets


@dataclass(frozen=True)
class Batch:
    """A batch of B images with their targets."""

    images: Tensor  # (B,3,H,W) uint8
    targets: Targets  # targets, padded to the same number of nodes
    names: tuple[str, ...] = ()  # names of the B images
    skipped: tuple[Skipped, ...] = ()  # images that were skipped while the batch was loaded
    is_crowded: bool = False

    def to(self, device: torch.device) -> Batch:
        """Return the batch on a device. Pinned memory is copied asynchronously."""
        images = self.images.to(device, non_blocking=True)
        return replace(self, images=images, targets=self.targets.to(device, non_blocking=True))

    def record_stream(self, stream: torch.cuda.Stream) -> None:
        """Tell the allocator that the memory is also used by another stream than the one that copied it."""
        self.images.record_stream(stream)
        self.targets.record_stream(stream)

    def pin_memory(self) -> Batch:
        """Return the batch in pinned memory. The loader calls this method."""
        return replace(self, images=self.images.pin_memory(), targets=self.targets.pin_memory())


class BatchPlan(NamedTuple):
    """The images of one batch."""

    positions: range  # of the images in the stream
    is_crowded: bool  # draw crowded images
    is_warmup: bool = False  # draw images of the smaller size of the first steps


@dataclass(frozen=True)
class BatchSizes:
    """Numbers of images per batch, and how often a batch is crowded."""

    ordinary: int  # images of an ordinary batch
    crowded: int = 0  # images of a crowded batch
    crowded_every: int = 0  # every so many steps the batch is crowded; 0 means never
    warmup_image_steps: int = 0  # number of first steps whose ordinary batches have smaller images

    def is_crowded(self, step: int) -> bool:
        """Return True if the batch of a step, counted from 0, is crowded."""
        return self.crowded_every > 0 and step % self.crowded_every == self.crowded_every - 1

    @property
    def mean(self) -> float:
        """Mean number of images per batch."""
        share = 1 / self.crowded_every if self.crowded_every else 0.0
        return (1 - share) * self.ordinary + share * self.crowded


class ResumableSampler(Sampler[BatchPlan]):
    """Endless plans of batches for process `rank` of `world`. Step and position determine all that follow.

    `start` is the first position of the stream, over all processes; `step` and `rank` count from 0.

    Example:
        >>> sizes = BatchSizes(4, crowded=2, crowded_every=2)
        >>> [tuple(plan) for plan, _ in zip(ResumableSampler(sizes, start=0, step=0, rank=0, world=1), "ab")]
        [(range(0, 4), False, False), (range(4, 6), True, False)]
    """

    def __init__(self, sizes: BatchSizes, *, start: int, step: int, rank: int, world: int) -> None:
        self.sizes, self.start, self.step, self.rank, self.world = sizes, start, step, rank, world

    def __iter__(self) -> Iterator[BatchPlan]:
        # Processes take whole batches in turn, so that a step uses the same images for any number of processes.
        position, step = self.start, self.step
        while True:
            is_crowded = self.sizes.is_crowded(step)
            size = self.sizes.crowded if is_crowded else self.sizes.ordinary
            first = position + self.rank * size
            yield BatchPlan(
                range(first, first + size), is_crowded, not is_crowded and step < self.sizes.warmup_image_steps
            )
            position += self.world * size
            step += 1


class Batches(Dataset[Batch]):
    """The batches of a stream: `batches[plan]` loads one. Worker processes hold a copy.

    `warmup` has the same images at the size of the first steps, if there are such steps.
    """

    def __init__(self, stream: MixtureDataset, warmup: MixtureDataset | None = None) -> None:
        self.stream, self.warmup = stream, warmup

    def __getitem__(self, plan: BatchPlan) -> Batch:
        stream = self.warmup if plan.is_warmup and self.warmup is not None else self.stream
        items = [stream.draw(position, crowded=plan.is_crowded) for position in plan.positions]
        max_nodes = self.stream.crowded_max_nodes if plan.is_crowded else self.stream.max_nodes
        return replace(collate(items, max_nodes), is_crowded=plan.is_crowded)


def collate(items: Sequence[tuple[Sample | None, Sequence[Skipped]]], max_nodes: int) -> Batch:
    """Combine samples into one batch padded to `max_nodes` nodes.

    Each item is a sample, or None, with the images that were skipped before it.
    """
    samples = [sample for sample, _ in items if sample is not None]
    skipped = tuple(entry for _, entries in items for entry in entries)
    images = [torch.from_numpy(np.ascontiguousarray(sample.image.transpose(2, 0, 1))) for sample in samples]
    curves = [sample.curves for sample in samples]
    targets = Targets.from_skeletons([sample.skeleton for sample in samples], max_nodes, curves)
    return Batch(torch.stack(images), targets, tuple(sample.name for sample in samples), skipped)


def training_loader(
    stream: MixtureDataset,
    sizes: BatchSizes,
    *,
    start: int = 0,
    step: int = 0,
    rank: int = 0,
    world: int = 1,
    workers: int = 0,
    pin: bool = False,
    warmup: MixtureDataset | None = None,
) -> DataLoader[Batch]:
    """Create the endless loader of training batches for one process; see `ResumableSampler`.

    With 0 workers, images are loaded in the calling process. `pin` copies batches to pinned memory, and `warmup` has
    the images at the size of the first steps.
    """
    return DataLoader(
        Batches(stream, warmup),
        batch_size=None,  # a worker process loads whole batches
        sampler=ResumableSampler(sizes, start=start, step=step, rank=rank, world=world),
        num_workers=workers,
        collate_fn=_unchanged,
        pin_memory=pin,
        persistent_workers=workers > 0,
        prefetch_factor=4 if workers else None,
        worker_init_fn=lower_priority,
    )


def _unchanged(batch: Any) -> Any:
    return batch


def lower_priority(_worker: int) -> None:
    """Initialize a worker process: lower its priority below that of the training process and ignore signals."""
    if hasattr(os, "nice"):  # not on Windows
        os.nice(10)
    ignore_signals()


def shut_down(loader: DataLoader[Batch]) -> None:
    """End the worker processes of a loader now.

    Otherwise they end when the loader is garbage-collected. At the exit of the interpreter Python sends them one
    SIGTERM, which they ignore, and waits for them forever.
    """
    iterator = getattr(loader, "_iterator", None)  # torch keeps it for persistent workers
    if iterator is None:
        return
    with suppress(RuntimeError):  # a worker aborted while it ended: its batches are here, so the run goes on
        iterator._shutdown_workers()
    for worker in iterator._workers:
        worker.kill()
        worker.join()


def strip_worker_tracebacks(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Pass batches on; reduce errors of workers, whose messages contain a traceback, to one line."""
    try:
        yield from batches
    except TreeformerError as error:
        error_type = type(error)
        last_line = str(error).splitlines()[-1]
        raise error_type(last_line.removeprefix(f"{error_type.__module__}.{error_type.__qualname__}: ")) from None


def on_device(batches: Iterable[Batch], device: torch.device) -> Iterator[Batch]:
    """Copy pinned batches to a device. A GPU receives each batch while it works on the previous one."""
    if device.type != "cuda":
        yield from (batch.to(device) for batch in batches)
        return
    copying, working = torch.cuda.Stream(device), torch.cuda.current_stream(device)  # type: ignore[no-untyped-call]
    ready: Batch | None = None
    for batch in batches:
        with torch.cuda.stream(copying):
            next_batch = batch.to(device)
        if ready is not None:
            yield ready
        working.wait_stream(copying)
        next_batch.record_stream(working)
        ready = next_batch


class TimedBatches:
    """Iterate over batches and measure the time spent waiting for them.

    Attributes:
        waited_s: time spent waiting since the last call of `share_since`, s
    """

    def __init__(self, batches: Iterator[Batch]) -> None:
        self.batches, self.waited_s = batches, 0.0

    def __iter__(self) -> Iterator[Batch]:
        while True:
            started = time.monotonic()
            batch = next(self.batches, None)
            self.waited_s += time.monotonic() - started
            if batch is None:
                return
            yield batch

    def share_since(self, moment: float) -> float:
        """Return the waiting time since the last call as a fraction of the time since `moment`, and reset it.

        `moment` is a value of `time.monotonic`. If it is that of the last call, the fraction is from 0 to 1.
        """
        waited, self.waited_s = self.waited_s, 0.0
        return waited / max(time.monotonic() - moment, 1e-9)
