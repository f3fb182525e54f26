"""The endless stream of training pictures: position k gives the same picture everywhere and after every restart.

Everywhere but for rounding: see `treeformer.training.warp`.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from treeformer import data, synthetic
from treeformer.axes import FloatArray
from treeformer.data import augment
from treeformer.errors import TreeformerError
from treeformer.nn.targets import Targets
from treeformer.training.config import ConfigError, DataConfig, SourceConfig
from treeformer.training.kept_pictures import KeptPictures
from treeformer.training.warp import warp

# A picture that cannot be used is replaced by another draw; so many failures in a row are no accident.
MAX_TRIES = 50


@dataclass(frozen=True)
class Batch:
    """Pictures (B,3,H,W) uint8 and their truth, and why other pictures were passed over on the way."""

    images: Tensor
    targets: Targets
    names: tuple[str, ...] = ()
    skipped: tuple[data.Skipped, ...] = ()

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


@dataclass(frozen=True)
class _Source:
    dataset: KeptPictures | data.SyntheticDataset
    places: Sequence[int]
    weight: float
    augmentation: augment.Augmentation | None
    spacing_px: float
    grid_px: float


class PictureStream(Dataset[tuple[data.Sample, list[data.Skipped]]]):
    """Pictures by position, drawn from several sources by weight; made where it is asked, in a worker process."""

    def __init__(self, sources: Sequence[SourceConfig], config: DataConfig, seed: int) -> None:
        if not sources:
            raise ConfigError("data: there is no source of pictures")
        self.size = (config.image_size, config.image_size)
        self.max_nodes = config.max_nodes
        self.seed = seed
        self.sources = [open_source(source, self.size) for source in sources]
        weights = np.asarray([source.weight for source in self.sources])
        if not (weights > 0).all():
            raise ConfigError("data: the weight of a source must be positive")
        self.shares = np.cumsum(weights / weights.sum())

    def __getitem__(self, position: int) -> tuple[data.Sample, list[data.Skipped]]:
        rng = np.random.default_rng([self.seed, position])
        skipped: list[data.Skipped] = []
        for _ in range(MAX_TRIES):
            source = self.sources[int(np.searchsorted(self.shares, rng.random(), side="right"))]
            loaded = load(source, source.places[int(rng.integers(len(source.places)))], rng, self.size, self.max_nodes)
            if isinstance(loaded, data.Sample):
                return loaded, skipped
            skipped.append(loaded)
        raise TreeformerError(f"{MAX_TRIES} pictures in a row cannot be used, the last because: {skipped[-1].reason}")


class FixedPictures(Dataset[tuple[data.Sample | None, list[data.Skipped]]]):
    """Every picture of the sources once, in order and as they are: what validation and tests see."""

    def __init__(self, sources: Sequence[SourceConfig], config: DataConfig) -> None:
        self.size = (config.image_size, config.image_size)
        self.max_nodes = config.max_nodes
        self.sources = [open_source(replace(source, augmentation="none"), self.size) for source in sources]
        self.places = [(source, index) for source in self.sources for index in source.places]

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: int) -> tuple[data.Sample | None, list[data.Skipped]]:
        loaded = self._load(*self.places[index])
        return (loaded, []) if isinstance(loaded, data.Sample) else (None, [loaded])

    def check_sources(self) -> None:
        """An error, in one line, where a source has no picture that can be used; where its first can, no other is read.

        Of a large source about `MAX_TRIES` are looked at, spread over it.
        """
        for source in self.sources:
            tried = source.places[:: max(1, len(source.places) // MAX_TRIES)]
            reasons = []
            for place in tried:
                loaded = self._load(source, place)
                if isinstance(loaded, data.Sample):
                    break
                reasons.append(loaded.reason)
            else:
                seen = f"none of {len(tried)} pictures of a source can be used"
                raise ConfigError(f"data.valid: {seen}, the first because: {reasons[0]}")

    def _load(self, source: _Source, place: int) -> data.Sample | data.Skipped:
        return load(source, place, np.random.default_rng(0), self.size, self.max_nodes)


def open_source(config: SourceConfig, size: tuple[int, int]) -> _Source:
    """A data set that a configuration names; missing folders and unknown names are one line."""
    dataset: KeptPictures | data.SyntheticDataset
    if bool(config.presets) == bool(config.path):
        raise ConfigError("data: a source has either presets (synthetic) or a path (a folder data set)")
    if config.presets:
        for name, known in ((config.presets, synthetic.PRESETS), (config.looks, synthetic.LOOKS)):
            for value in name:
                if value not in known:
                    raise ConfigError(f"data: {value!r} is not one of {', '.join(known)}")
        if config.split not in synthetic.SPLITS:
            raise ConfigError(f"data: there is no synthetic split {config.split!r}")
        dataset = data.SyntheticDataset(synthetic.SPLITS[config.split], config.presets, config.looks, size)
    else:
        dataset = KeptPictures(data.FolderDataset(config.path, config.split or None))
    if config.count < 0:
        raise ConfigError(f"data: the count of a source is 0, for all, or more, not {config.count}")
    for place in config.pictures:
        if not 0 <= place < len(dataset):
            raise ConfigError(f"data: there is no picture {place}, they are numbered from 0 to {len(dataset) - 1}")
    places = config.pictures or range(min(config.count, len(dataset)) if config.count else len(dataset))
    chosen = augment.PRESETS.get(config.augmentation)
    augmentation = replace(chosen, frame=size) if chosen else None
    return _Source(dataset, places, config.weight, augmentation, config.spacing_px, config.grid_px)


def load(
    source: _Source, index: int, rng: np.random.Generator, size: tuple[int, int], max_nodes: int
) -> data.Sample | data.Skipped:
    """One picture of a source, augmented and of the wanted size, or why there is none."""
    loaded = source.dataset.load(index)
    if isinstance(loaded, data.Skipped):
        return loaded
    image, skeleton, chosen = loaded.image, loaded.skeleton, source.augmentation
    given, affine = (image.shape[1], image.shape[0]), None
    # The skeleton first: where it has too many nodes, no pixel is touched in vain.
    if chosen is not None:
        affine, size = chosen.draw_map(given, skeleton.nodes, rng)
        skeleton = chosen.moved(skeleton, affine, size)
    elif given != size:
        affine = into_frame(given, size)
        skeleton = augment.move(skeleton, affine, size)
    if source.spacing_px:
        skeleton = skeleton.resample(source.spacing_px)
    if source.grid_px:
        skeleton = skeleton.cross_grid(source.grid_px)
    if len(skeleton) > max_nodes:
        return data.Skipped(loaded.name, f"{loaded.name}: {len(skeleton)} nodes, more than max_nodes = {max_nodes}")
    if chosen is not None and affine is not None:
        image = chosen.relight(warp(image, affine, size), rng)
    elif affine is not None:
        image = augment.warp(image, affine, size)
    return data.Sample(image, skeleton, loaded.name)


def into_frame(given: tuple[int, int], size: tuple[int, int]) -> FloatArray:
    """The map (2,3) of a whole picture into a frame: scaled down where it is larger, in the middle where smaller."""
    scale = min(1.0, size[0] / given[0], size[1] / given[1])
    return np.asarray(
        [[scale, 0, (size[0] - scale * given[0]) / 2], [0, scale, (size[1] - scale * given[1]) / 2]], dtype=np.float64
    )


class Positions(Sampler[int]):
    """Positions of the stream from `start` on, those of one of `world` processes; never ends."""

    def __init__(self, start: int, rank: int, world: int, batch: int) -> None:
        self.start, self.rank, self.world, self.batch = start, rank, world, batch

    def __iter__(self) -> Iterator[int]:
        # Whole batches in turn, so that a step of many processes sees the same pictures as one process would.
        position = self.start + self.rank * self.batch
        while True:
            yield from range(position, position + self.batch)
            position += self.world * self.batch


class Collate:
    """Samples to one padded batch; picklable, for worker processes."""

    def __init__(self, max_nodes: int) -> None:
        self.max_nodes = max_nodes

    def __call__(self, items: Sequence[tuple[data.Sample | None, list[data.Skipped]]]) -> Batch:
        """Called by the loader."""
        samples = [sample for sample, _ in items if sample is not None]
        skipped = tuple(one for _, reasons in items for one in reasons)
        images = [torch.from_numpy(np.ascontiguousarray(sample.image.transpose(2, 0, 1))) for sample in samples]
        targets = Targets.from_skeletons([sample.skeleton for sample in samples], self.max_nodes)
        return Batch(torch.stack(images), targets, tuple(sample.name for sample in samples), skipped)


def training_loader(
    stream: PictureStream, *, batch: int, start: int, rank: int, world: int, workers: int, pin: bool
) -> DataLoader[Batch]:
    """Batches of the stream from position `start` on, for one of `world` processes."""
    return DataLoader(
        stream,  # type: ignore[arg-type]
        batch_size=batch,
        sampler=Positions(start, rank, world, batch),
        num_workers=workers,
        collate_fn=Collate(stream.max_nodes),
        pin_memory=pin,
        persistent_workers=workers > 0,
        prefetch_factor=4 if workers else None,
        worker_init_fn=stand_back,
    )


def stand_back(_worker: int) -> None:
    """A worker process lets the training process go first."""
    os.nice(10)
    leave_signals()


def leave_signals() -> None:
    """Ctrl-C and SIGTERM, which terminals and schedulers send to all processes, are for the training process alone.

    Of SIGTERM one is passed over: torch and Python end a process that does not go by itself by two of them.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, _frame: signal.signal(number, signal.SIG_DFL))


def errors_in_one_line(batches: Iterable[Batch]) -> Iterator[Batch]:
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
