"""Configuration of training data: the sources of images and how they are mixed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class SourceConfig:
    """One source of images: either synthetic (`presets`) or a folder data set (`path`)."""

    weight: float = 1.0
    """Probability of drawing from this source, relative to the other sources. Positive, no unit."""
    crowded_weight: float = 0.0
    """The same for crowded batches, see `DataConfig.crowded_every`. 0 leaves this source out of them."""
    presets: tuple[str, ...] = ()
    """Names of synthetic plant presets. Empty for a folder data set."""
    styles: tuple[str, ...] = ("paper",)
    """Names of synthetic image styles. Ignored for a folder data set."""
    path: str = ""
    """Path of a folder data set, relative to the working directory. Empty for a synthetic source."""
    split: str = "train"
    """Split of the folder, or of the synthetic seeds: `train`, `valid` or `test`. Empty if the folder has no splits."""
    include_unaccepted: bool = False
    """Use corrections that were not accepted in the editor, too."""
    count: int = 0
    """Number of images to use, from the beginning of the split. 0 uses all of them."""
    images: tuple[int, ...] = ()
    """Indices of the images to use, from 0, in the order of the split. Empty uses all, or the first `count`."""
    augmentation: Literal["none", "roots", "vines", "strong"] = "none"
    """Name of an augmentation preset: ranges of flip, rotation, scale, crop, brightness, contrast, color and noise."""
    zoom: tuple[float, float] = (1.0, 1.0)
    """Range of the zoom around a crop, drawn uniformly on a logarithmic scale. It replaces the range of scales of the
    augmentation. (1, 1) keeps that range."""
    spacing_px: float = 0.0
    """Resample each branch at this node spacing, px. 0 keeps the nodes."""
    grid_px: float = 0.0
    """Place nodes between keypoints where branches cross a grid of this spacing, px. 0 keeps the nodes."""
    gaps: float = 0.0
    """Mean number of gaps painted into the branches of an image, whose labels stay. 0 disables them."""


@dataclass(frozen=True)
class DataConfig:
    """The images for training and validation."""

    train: tuple[SourceConfig, ...] = (SourceConfig(presets=("paper",)),)
    """Sources of training images, mixed by weight."""
    exclude: tuple[str, ...] = ()
    """Paths of training sources that are not used, for example because of their license."""
    valid: tuple[SourceConfig, ...] = (SourceConfig(presets=("paper",), split="valid", count=64),)
    """Sources of validation images, used in order and without augmentation."""
    image_size: int = 512
    """Side of the model's square input, px. Augmented images are cropped or padded, others scaled down or padded."""
    warmup_image_size: int = 0
    """Side of the input in the first `warmup_image_steps` steps, px, a multiple of 32. Crowded batches keep
    `image_size`."""
    warmup_image_steps: int = 0
    """Number of steps with the side `warmup_image_size`. Smaller inputs are faster. 0 disables them. Not with batches
    that are repeated (`distillation.reuse`)."""
    max_nodes: int = 160
    """Maximum number of nodes per image, at most the model's number of tokens. In training, an image with more is
    cropped; in validation, it is skipped."""
    crowded_every: int = 0
    """Every so many steps the batch is a crowded one: fewer images with more nodes and tokens. 0 disables it."""
    crowded_batch_size: int = 16
    """Images of a crowded batch, over all devices together."""
    crowded_max_nodes: int = 416
    """Maximum number of nodes per image in crowded batches and, if there are such batches, in validation."""
    crowded_tokens: int = 448
    """Object tokens of the model in crowded batches and, if there are such batches, in validation."""
    workers: int = 0
    """Number of processes per GPU that load images. 0 loads them in the training process."""
