"""The endless stream of training images: position k gives the same image everywhere and after every restart.

Everywhere but for rounding: see `treeformer.data.torch_warp`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from treeformer import synthetic
from treeformer._util.arrays import FloatArray
from treeformer._util.config import ConfigError
from treeformer.data.augmentation import PRESETS as AUGMENTATIONS
from treeformer.data.augmentation import Augmentation, move, warp
from treeformer.data.cache import CachedDataset
from treeformer.data.config import DataConfig, SourceConfig
from treeformer.data.datasets import FolderDataset, Sample, Skipped, SyntheticDataset
from treeformer.data.torch_warp import warp as torch_warp
from treeformer.errors import TreeformerError

# An image that cannot be used is replaced by another draw; so many failures in a row are no accident.
MAX_TRIES = 50


@dataclass(frozen=True)
class _Source:
    dataset: CachedDataset | SyntheticDataset
    places: Sequence[int]
    weight: float
    augmentation: Augmentation | None
    spacing_px: float
    grid_px: float


class MixtureDataset:
    """Images by position, drawn from several sources by weight; made where it is asked, in a worker process."""

    def __init__(self, sources: Sequence[SourceConfig], config: DataConfig, seed: int) -> None:
        if not sources:
            raise ConfigError("data: there is no source of images")
        self.size = (config.image_size, config.image_size)
        self.max_nodes = config.max_nodes
        self.seed = seed
        self.sources = [open_source(source, self.size) for source in sources]
        weights = np.asarray([source.weight for source in self.sources])
        if not (weights > 0).all():
            raise ConfigError("data: the weight of a source must be positive")
        self.shares = np.cumsum(weights / weights.sum())

    def __getitem__(self, position: int) -> tuple[Sample, list[Skipped]]:
        rng = np.random.default_rng([self.seed, position])
        skipped: list[Skipped] = []
        for _ in range(MAX_TRIES):
            source = self.sources[int(np.searchsorted(self.shares, rng.random(), side="right"))]
            loaded = load(source, source.places[int(rng.integers(len(source.places)))], rng, self.size, self.max_nodes)
            if isinstance(loaded, Sample):
                return loaded, skipped
            skipped.append(loaded)
        raise TreeformerError(f"{MAX_TRIES} images in a row cannot be used, the last because: {skipped[-1].reason}")


class EvalDataset:
    """Every image of the sources once, in order and as they are: what validation and tests see."""

    def __init__(self, sources: Sequence[SourceConfig], config: DataConfig) -> None:
        self.size = (config.image_size, config.image_size)
        self.max_nodes = config.max_nodes
        self.sources = [open_source(replace(source, augmentation="none"), self.size) for source in sources]
        self.places = [(source, index) for source in self.sources for index in source.places]

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: int) -> tuple[Sample | None, list[Skipped]]:
        loaded = self._load(*self.places[index])
        return (loaded, []) if isinstance(loaded, Sample) else (None, [loaded])

    def check_sources(self) -> None:
        """An error, in one line, where a source has no image that can be used; where its first can, no other is read.

        Of a large source about `MAX_TRIES` are looked at, spread over it.
        """
        for source in self.sources:
            tried = source.places[:: max(1, len(source.places) // MAX_TRIES)]
            reasons = []
            for place in tried:
                loaded = self._load(source, place)
                if isinstance(loaded, Sample):
                    break
                reasons.append(loaded.reason)
            else:
                seen = f"none of {len(tried)} images of a source can be used"
                raise ConfigError(f"data.valid: {seen}, the first because: {reasons[0]}")

    def _load(self, source: _Source, place: int) -> Sample | Skipped:
        return load(source, place, np.random.default_rng(0), self.size, self.max_nodes)


def open_source(config: SourceConfig, size: tuple[int, int]) -> _Source:
    """A data set that a configuration names; missing folders and unknown names are one line."""
    dataset: CachedDataset | SyntheticDataset
    if bool(config.presets) == bool(config.path):
        raise ConfigError("data: a source has either presets (synthetic) or a path (a folder data set)")
    if config.presets:
        for name, known in ((config.presets, synthetic.PRESETS), (config.styles, synthetic.STYLES)):
            for value in name:
                if value not in known:
                    raise ConfigError(f"data: {value!r} is not one of {', '.join(known)}")
        if config.split not in synthetic.SPLITS:
            raise ConfigError(f"data: there is no synthetic split {config.split!r}")
        dataset = SyntheticDataset(synthetic.SPLITS[config.split], config.presets, config.styles, size)
    else:
        dataset = CachedDataset(FolderDataset(config.path, config.split or None))
    if config.count < 0:
        raise ConfigError(f"data: the count of a source is 0, for all, or more, not {config.count}")
    for place in config.images:
        if not 0 <= place < len(dataset):
            raise ConfigError(f"data: there is no image {place}, they are numbered from 0 to {len(dataset) - 1}")
    places = config.images or range(min(config.count, len(dataset)) if config.count else len(dataset))
    chosen = AUGMENTATIONS.get(config.augmentation)
    augmentation = replace(chosen, frame=size) if chosen else None
    return _Source(dataset, places, config.weight, augmentation, config.spacing_px, config.grid_px)


def load(
    source: _Source, index: int, rng: np.random.Generator, size: tuple[int, int], max_nodes: int
) -> Sample | Skipped:
    """One image of a source, augmented and of the wanted size, or why there is none."""
    loaded = source.dataset.load(index)
    if isinstance(loaded, Skipped):
        return loaded
    image, skeleton, chosen = loaded.image, loaded.skeleton, source.augmentation
    given, affine = (image.shape[1], image.shape[0]), None
    # The skeleton first: where it has too many nodes, no pixel is touched in vain.
    if chosen is not None:
        affine, size = chosen.draw_map(given, skeleton.nodes, rng)
        skeleton = chosen.moved(skeleton, affine, size)
    elif given != size:
        affine = into_frame(given, size)
        skeleton = move(skeleton, affine, size)
    if source.spacing_px:
        skeleton = skeleton.resample(source.spacing_px)
    if source.grid_px:
        skeleton = skeleton.sample_at_grid_crossings(source.grid_px)
    if len(skeleton) > max_nodes:
        return Skipped(loaded.name, f"{loaded.name}: {len(skeleton)} nodes, more than max_nodes = {max_nodes}")
    if chosen is not None and affine is not None:
        image = chosen.relight(torch_warp(image, affine, size), rng)
    elif affine is not None:
        image = warp(image, affine, size)
    return Sample(image, skeleton, loaded.name)


def into_frame(given: tuple[int, int], size: tuple[int, int]) -> FloatArray:
    """The map (2,3) of a whole image into a frame: scaled down where it is larger, in the middle where smaller."""
    scale = min(1.0, size[0] / given[0], size[1] / given[1])
    return np.asarray(
        [[scale, 0, (size[0] - scale * given[0]) / 2], [0, scale, (size[1] - scale * given[1]) / 2]], dtype=np.float64
    )
