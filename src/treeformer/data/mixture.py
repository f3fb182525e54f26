"""Images from several configured sources, at the size of the model's input.

`MixtureDataset` is an endless stream of augmented training images: position k is the same image on every machine and
after every restart, except for rounding (see `treeformer.data.torch_warp`). `EvalDataset` contains every image of its
sources once, without augmentation.
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

# An image that cannot be used is replaced by another draw. This many failures in a row are an error.
MAX_TRIES = 50


@dataclass(frozen=True)
class Source:
    """An opened source of images.

    Attributes:
        dataset: the data set to load from.
        indices: indices of the images to use.
        weight: probability of drawing from this source, relative to the others.
        augmentation: augmentation with the frame of the model's input, or None.
        spacing_px: node spacing to resample to, px; 0 keeps the nodes.
        grid_px: spacing of the grid whose crossings become nodes, px; 0 keeps the nodes.
    """

    dataset: CachedDataset | SyntheticDataset
    indices: Sequence[int]
    weight: float
    augmentation: Augmentation | None
    spacing_px: float
    grid_px: float


class MixtureDataset:
    """An endless stream of augmented images, drawn from several sources by weight.

    `stream[position]` returns a sample and the images that were skipped before it. The position determines the sample.

    Args:
        sources: the sources to draw from.
        config: image size and maximum number of nodes.
        seed: seed of the stream.

    Attributes:
        size: (width, height) of the images, px.
        max_nodes: maximum number of nodes per image.
        seed: seed of the stream.
        sources: the opened sources.
        cumulative_weights: (S,) cumulative probabilities of the sources.

    Raises:
        ConfigError: if there is no source, or a source is invalid.
    """

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
        self.cumulative_weights = np.cumsum(weights / weights.sum())

    def __getitem__(self, position: int) -> tuple[Sample, list[Skipped]]:
        rng = np.random.default_rng([self.seed, position])
        skipped: list[Skipped] = []
        for _ in range(MAX_TRIES):
            source = self.sources[int(np.searchsorted(self.cumulative_weights, rng.random(), side="right"))]
            index = source.indices[int(rng.integers(len(source.indices)))]
            loaded = load(source, index, rng, self.size, self.max_nodes)
            if isinstance(loaded, Sample):
                return loaded, skipped
            skipped.append(loaded)
        raise TreeformerError(f"{MAX_TRIES} images in a row cannot be used, the last because: {skipped[-1].reason}")


class EvalDataset:
    """Every image of the sources once, in order and without augmentation, for validation and tests.

    `dataset[index]` returns a sample and an empty list, or None and the reason why the image cannot be used.

    Args:
        sources: the sources of images.
        config: image size and maximum number of nodes.

    Attributes:
        size: (width, height) of the images, px.
        max_nodes: maximum number of nodes per image.
        sources: the opened sources.
        entries: the source and the index in its data set, per image.

    Raises:
        ConfigError: if a source is invalid.
    """

    def __init__(self, sources: Sequence[SourceConfig], config: DataConfig) -> None:
        self.size = (config.image_size, config.image_size)
        self.max_nodes = config.max_nodes
        self.sources = [open_source(replace(source, augmentation="none"), self.size) for source in sources]
        self.entries = [(source, index) for source in self.sources for index in source.indices]

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, index: int) -> tuple[Sample | None, list[Skipped]]:
        loaded = self._load(*self.entries[index])
        return (loaded, []) if isinstance(loaded, Sample) else (None, [loaded])

    def check_sources(self) -> None:
        """Check that every source has a usable image.

        Reading stops at the first usable image of a source. In a large source, about `MAX_TRIES` evenly spaced images
        are tried.

        Raises:
            ConfigError: if no image of a source can be used.
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
        return load(source, index, np.random.default_rng(0), self.size, self.max_nodes)


def open_source(config: SourceConfig, size: tuple[int, int]) -> Source:
    """Open the data set of a source.

    Args:
        config: the source.
        size: (width, height) of the model's input, px.

    Returns:
        The opened source.

    Raises:
        ConfigError: if a name, a split, an index or the count is invalid.
        TreeformerError: if the folder does not exist or has no images.
    """
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
        dataset = CachedDataset(FolderDataset(config.path, config.split or None))
    if config.count < 0:
        raise ConfigError(f"data: the count of a source must be 0 (all images) or more, not {config.count}")
    for index in config.images:
        if not 0 <= index < len(dataset):
            raise ConfigError(f"data: there is no image {index}, they are numbered from 0 to {len(dataset) - 1}")
    indices = config.images or range(min(config.count, len(dataset)) if config.count else len(dataset))
    preset = AUGMENTATIONS.get(config.augmentation)
    augmentation = replace(preset, frame=size) if preset else None
    return Source(dataset, indices, config.weight, augmentation, config.spacing_px, config.grid_px)


def load(
    source: Source, index: int, rng: np.random.Generator, size: tuple[int, int], max_nodes: int
) -> Sample | Skipped:
    """Load an image of a source, augment it and fit it to the model's input.

    Args:
        source: the source.
        index: index in the data set of the source.
        rng: random generator of the augmentation.
        size: (width, height) of the result, px.
        max_nodes: maximum number of nodes.

    Returns:
        A sample, or the reason why the image cannot be used.
    """
    loaded = source.dataset.load(index)
    if isinstance(loaded, Skipped):
        return loaded
    image, skeleton, augmentation = loaded.image, loaded.skeleton, source.augmentation
    image_size, affine = (image.shape[1], image.shape[0]), None
    # Transform the skeleton first: if it has too many nodes, the image need not be warped.
    if augmentation is not None:
        affine, size = augmentation.draw_affine(image_size, skeleton.nodes, rng)
        skeleton = augmentation.move_skeleton(skeleton, affine, size)
    elif image_size != size:
        affine = into_frame(image_size, size)
        skeleton = move(skeleton, affine, size)
    if source.spacing_px:
        skeleton = skeleton.resample(source.spacing_px)
    if source.grid_px:
        skeleton = skeleton.sample_at_grid_crossings(source.grid_px)
    if len(skeleton) > max_nodes:
        return Skipped(loaded.name, f"{loaded.name}: {len(skeleton)} nodes, more than max_nodes = {max_nodes}")
    if augmentation is not None and affine is not None:
        image = augmentation.relight(torch_warp(image, affine, size), rng)
    elif affine is not None:
        image = warp(image, affine, size)
    return Sample(image, skeleton, loaded.name)


def into_frame(image_size: tuple[int, int], size: tuple[int, int]) -> FloatArray:
    """Return the map of a whole image to the center of a frame. A larger image is scaled down.

    Args:
        image_size: (width, height) of the image, px.
        size: (width, height) of the frame, px.

    Returns:
        (2,3) affine map from the image to the frame.
    """
    width, height = image_size
    scale = min(1.0, size[0] / width, size[1] / height)
    return np.asarray(
        [[scale, 0, (size[0] - scale * width) / 2], [0, scale, (size[1] - scale * height) / 2]], dtype=np.float64
    )
