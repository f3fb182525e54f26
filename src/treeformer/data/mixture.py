"""Images from several configured sources, at the size of the model's input.

`MixtureDataset` is an endless stream of augmented training images: position k is the same image on every machine and
after every restart, except for rounding (see `treeformer.data.torch_warp`). `EvalDataset` contains every image of its
sources once, without augmentation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from treeformer import synthetic
from treeformer._util.arrays import FloatArray
from treeformer._util.config import ConfigError
from treeformer.data.augmentation import PRESETS as AUGMENTATIONS
from treeformer.data.augmentation import Augmentation
from treeformer.data.cache import CachedDataset, ImageCache
from treeformer.data.config import DataConfig, SourceConfig
from treeformer.data.sample import Sample, Skipped
from treeformer.data.synthetic_dataset import SyntheticDataset
from treeformer.data.view import Source, View, draw_cropped_view, draw_view, too_dense
from treeformer.errors import TreeformerError

# An image that cannot be used is replaced by another draw. This many failures in a row are an error.
MAX_TRIES = 50
MAX_GAPS = 1000
# Number of views that are tried for an image of a crowded batch. The first crowded one is used, otherwise the one with
# most nodes.
CROWDED_TRIES = 6


class MixtureDataset:
    """An endless stream of augmented images, drawn from several sources by weight.

    `stream[position]` returns a sample and the images that were skipped before it. The position determines the sample.
    `stream.draw(position, crowded=True)` returns an image for a crowded batch.

    Attributes:
        size: (width, height) of the images, px
        crowded_max_nodes: maximum number of nodes per image of a crowded batch
        sources: the opened sources
        cumulative_weights: (S,) cumulative probabilities of the sources
        cumulative_crowded_weights: (S,) the same for crowded batches, if there are any
    """

    def __init__(self, sources: Sequence[SourceConfig], config: DataConfig, seed: int) -> None:
        if not sources:
            raise ConfigError("data: there is no source of images")
        self.size = (config.image_size, config.image_size)
        self.max_nodes, self.crowded_max_nodes = config.max_nodes, config.crowded_max_nodes
        self.seed = seed
        cache = ImageCache()
        self.sources = [open_source(source, self.size, cache) for source in sources]
        weights = np.asarray([source.weight for source in self.sources])
        if not ((weights > 0) & (weights < np.inf)).all():
            raise ConfigError("data: the weight of a source must be positive and finite")
        self.cumulative_weights: FloatArray = np.cumsum(weights / weights.sum())
        self.cumulative_crowded_weights: FloatArray | None = None
        if config.crowded_every:
            weights = np.asarray([source.crowded_weight for source in self.sources])
            if not ((weights >= 0).all() and 0 < weights.sum() < np.inf):
                raise ConfigError(
                    "data: crowded batches need a source with a positive crowded_weight, and none below 0"
                )
            self.cumulative_crowded_weights = np.cumsum(weights / weights.sum())

    def __getitem__(self, position: int) -> tuple[Sample, list[Skipped]]:
        return self.draw(position)

    def draw(self, position: int, *, crowded: bool = False) -> tuple[Sample, list[Skipped]]:
        """Draw the image of a position, and return the images that were skipped before it as well.

        For a crowded batch, images with more than `max_nodes` nodes are preferred. It is an error if many images in
        a row cannot be used.
        """
        rng = np.random.default_rng([self.seed, position])
        skipped: list[Skipped] = []
        for _ in range(MAX_TRIES):
            view = (
                self._draw_crowded_view(rng)
                if crowded
                else self._draw_view(rng, self.cumulative_weights, self.max_nodes)
            )
            loaded = view.sample(rng) if isinstance(view, View) else view
            if isinstance(loaded, Sample):
                return loaded, skipped
            skipped.append(loaded)
        raise TreeformerError(f"{MAX_TRIES} images in a row cannot be used, the last because: {skipped[-1].reason}")

    def _draw_crowded_view(self, rng: np.random.Generator) -> View | Skipped:
        """Return the first of several views with more than `max_nodes` nodes, otherwise the one with most nodes."""
        if self.cumulative_crowded_weights is None:
            raise TreeformerError("crowded batches are not configured: data.crowded_every is 0")
        best: View | None = None
        view: View | Skipped
        for _ in range(CROWDED_TRIES):
            view = self._draw_view(rng, self.cumulative_crowded_weights, self.crowded_max_nodes)
            if isinstance(view, View):
                best = view if best is None or len(view.skeleton) > len(best.skeleton) else best
                if len(best.skeleton) > self.max_nodes:
                    break
        return best or view

    def _draw_view(self, rng: np.random.Generator, cumulative: FloatArray, max_nodes: int) -> View | Skipped:
        """Draw a source, an image of it and a view of that, without its pixels."""
        source = self.sources[int(np.searchsorted(cumulative, rng.random(), side="right"))]
        index = source.indices[int(rng.integers(len(source.indices)))]
        opened = source.dataset.open(index)
        return opened if isinstance(opened, Skipped) else draw_cropped_view(source, opened, rng, self.size, max_nodes)


class EvalDataset:
    """Every image of the sources once, in order and without augmentation, for validation and tests.

    `dataset[index]` returns a sample and an empty list, or None and the reason why the image cannot be used.

    Attributes:
        size: (width, height) of the images, px
        sources: the opened sources
        entries: source and the index in its data set, per image
    """

    def __init__(self, sources: Sequence[SourceConfig], config: DataConfig) -> None:
        self.size = (config.image_size, config.image_size)
        self.max_nodes = max(config.max_nodes, config.crowded_max_nodes if config.crowded_every else 0)
        whole = [replace(source, augmentation="none", zoom=(1.0, 1.0), gaps=0.0) for source in sources]
        cache = ImageCache()
        self.sources = [open_source(source, self.size, cache) for source in whole]
        self.entries = [(source, index) for source in self.sources for index in source.indices]

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, index: int) -> tuple[Sample | None, list[Skipped]]:
        loaded = self._load(*self.entries[index])
        return (loaded, []) if isinstance(loaded, Sample) else (None, [loaded])

    def check_sources(self) -> None:
        """Raise `ConfigError` if a source has no usable image.

        Reading stops at the first usable image of a source. In a large source, about `MAX_TRIES` evenly spaced images
        are tried.
        """
        for source in self.sources:
            tried = source.indices[:: max(1, len(source.indices) // MAX_TRIES)]
            reasons = []
            for index in tried:
                loaded = self._load(source, index)
                if isinstance(loaded, Sample):
                    break
                reasons.append(loaded.reason)
            else:
                problem = f"none of {len(tried)} images of a source can be used"
                raise ConfigError(f"data.valid: {problem}, the first because: {reasons[0]}")

    def _load(self, source: Source, index: int) -> Sample | Skipped:
        opened = source.dataset.open(index)
        if isinstance(opened, Skipped):
            return opened
        rng = np.random.default_rng(0)
        view = draw_view(source, opened, rng, self.size)
        return too_dense(view, self.max_nodes) if len(view.skeleton) > self.max_nodes else view.sample(rng)


def open_source(config: SourceConfig, size: tuple[int, int], cache: ImageCache) -> Source:
    """Open the data set of a source at the size (width, height), px, of the model's input."""
    dataset: CachedDataset | SyntheticDataset
    if bool(config.presets) == bool(config.path):
        raise ConfigError("data: a source has either presets (synthetic) or a path (a folder data set)")
    if config.presets:
        for names, known in ((config.presets, synthetic.PRESETS), (config.styles, synthetic.STYLES)):
            for name in names:
                if name not in known:
                    raise ConfigError(f"data: {name!r} is not one of {', '.join(known)}")
        if config.split not in synthetic.SPLITS:
            raise ConfigError(f"data: there is no synthetic split {config.split!r}")
        dataset = SyntheticDataset(synthetic.SPLITS[config.split], config.presets, config.styles, size)
    else:
        dataset = cache.open(config.path, config.split or None, config.include_unaccepted)
    if config.count < 0:
        raise ConfigError(f"data: the count of a source must be 0 (all images) or more, not {config.count}")
    if not 0 <= config.gaps <= MAX_GAPS:
        raise ConfigError(f"data: the mean number of gaps must be from 0 to {MAX_GAPS}, not {config.gaps}")
    for index in config.images:
        if not 0 <= index < len(dataset):
            raise ConfigError(f"data: there is no image {index}, they are numbered from 0 to {len(dataset) - 1}")
    indices = config.images or range(min(config.count, len(dataset)) if config.count else len(dataset))
    return Source(
        dataset,
        indices,
        config.weight,
        _augmentation(config, size),
        config.spacing_px,
        config.grid_px,
        config.crowded_weight,
        config.gaps,
    )


def _augmentation(config: SourceConfig, size: tuple[int, int]) -> Augmentation | None:
    """Return the augmentation of a source, None for whole images without changes."""
    preset = AUGMENTATIONS.get(config.augmentation)
    if config.zoom != (1.0, 1.0):
        preset = replace(preset or Augmentation(flip=0.0), scale=config.zoom)
    return replace(preset, frame=size) if preset else None
