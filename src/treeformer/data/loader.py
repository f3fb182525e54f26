"""Batches for training: sampling that can be resumed, collating, and copies to the device while it works."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Sampler

from treeformer.data.datasets import Sample, Skipped
from treeformer.data.mixture import MixtureDataset
from treeformer.errors import TreeformerError
from treeformer.nn.targets import Targets


@dataclass(frozen=True)
class Batch:
    """Images (B,3,H,W) uint8 and their ground truth, and why other images were passed over on the way."""

    images: Tensor
    targets: Targets
    names: tuple[str, ...] = ()
    skipped: tuple[Skipped, ...] = ()

    def to(self, device: torch.device) -> Batch:
        """The same batch on a device, copied in the background where its memory is pinned."""
        images = self.images.to(device, non_blocking=True)
        return replace(self, images=images, targets=self.targets.to(device, non_blocking=True))

    def record_stream(self, stream: torch.cuda.Stream) -> None:
        """Tell the allocator that another stream than the one of the copy uses the memory."""
        self.images.record_stream(stream)
        self.targets.record_stream(stream)

    def pin_memory(self) -> Batch:
        """Called by the loader."""
        return replace(self, images=self.images.pin_memory(), targets=self.targets.pin_memory())


class ResumableSampler(Sampler[int]):
    """Positions of the stream from `start` on, those of one of `world` processes; never ends."""

    def __init__(self, start: int, rank: int, world: int, batch: int) -> None:
        self.start, self.rank, self.world, self.batch = start, rank, world, batch

    def __iter__(self) -> Iterator[int]:
        # Whole batches in turn, so that a step of many processes sees the same images as one process would.
        position = self.start + self.rank * self.batch
        while True:
            yield from range(position, position + self.batch)
            position += self.world * self.batch


class Collate:
    """Samples to one padded batch; picklable, for worker processes."""

    def __init__(self, max_nodes: int) -> None:
        self.max_nodes = max_nodes

    def __call__(self, items: Sequence[tuple[Sample | None, list[Skipped]]]) -> Batch:
        """Called by the loader."""
        samples = [sample for sample, _ in items if sample is not None]
        skipped = tuple(one for _, reasons in items for one in reasons)
        images = [torch.from_numpy(np.ascontiguousarray(sample.image.transpose(2, 0, 1))) for sample in samples]
        targets = Targets.from_skeletons([sample.skeleton for sample in samples], self.max_nodes)
        return Batch(torch.stack(images), targets, tuple(sample.name for sample in samples), skipped)


def training_loader(
    stream: MixtureDataset, *, batch: int, start: int, rank: int, world: int, workers: int, pin: bool
) -> DataLoader[Batch]:
    """Batches of the stream from position `start` on, for one of `world` processes."""
    return DataLoader(
        stream,  # type: ignore[arg-type]
        batch_size=batch,
        sampler=ResumableSampler(start, rank, world, batch),
        num_workers=workers,
        collate_fn=Collate(stream.max_nodes),
        pin_memory=pin,
        persistent_workers=workers > 0,
        prefetch_factor=4 if workers else None,
        worker_init_fn=lower_priority,
    )


def lower_priority(_worker: int) -> None:
    """A worker process lets the training process go first."""
    os.nice(10)
    ignore_signals()


def ignore_signals() -> None:
    """Ctrl-C and SIGTERM, which terminals and schedulers send to all processes, are for the training process alone.

    Of SIGTERM one is passed over: torch and Python end a process that does not go by itself by two of them.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, _frame: signal.signal(number, signal.SIG_DFL))


def strip_worker_tracebacks(batches: Iterable[Batch]) -> Iterator[Batch]:
    """The same batches; an error of a worker process, which arrives as its traceback, without that."""
    try:
        yield from batches
    except TreeformerError as error:
        kind = type(error)
        last = str(error).splitlines()[-1]
        raise kind(last.removeprefix(f"{kind.__module__}.{kind.__qualname__}: ")) from None


def on_device(batches: Iterable[Batch], device: torch.device) -> Iterator[Batch]:
    """Batches on a device; a GPU receives each while it works on the one before."""
    if device.type != "cuda":
        yield from (batch.to(device) for batch in batches)
        return
    copying, working = torch.cuda.Stream(device), torch.cuda.current_stream(device)  # type: ignore[no-untyped-call]
    ready: Batch | None = None
    for batch in batches:
        with torch.cuda.stream(copying):
            coming = batch.to(device)
        if ready is not None:
            yield ready
        working.wait_stream(copying)
        coming.record_stream(working)
        ready = coming


class TimedBatches:
    """Batches, and how much of the time they were waited for."""

    def __init__(self, batches: Iterator[Batch]) -> None:
        self.batches, self.waited_s = batches, 0.0

    def __iter__(self) -> Iterator[Batch]:
        while True:
            began = time.monotonic()
            batch = next(self.batches, None)
            self.waited_s += time.monotonic() - began
            if batch is None:
                return
            yield batch

    def share_since(self, moment: float) -> float:
        """Of the time since then and the last call."""
        waited, self.waited_s = self.waited_s, 0.0
        return waited / max(time.monotonic() - moment, 1e-9)
