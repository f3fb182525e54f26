"""Configuration of training data: the sources of images and how they are mixed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class SourceConfig:
    """One source of images: either synthetic (`presets`) or a folder data set (`path`)."""

    weight: float = 1.0
    """Probability of drawing from this source, relative to the other sources. Positive, no unit."""
    presets: tuple[str, ...] = ()
    """Names of synthetic plant presets. Empty for a folder data set."""
    styles: tuple[str, ...] = ("paper",)
    """Names of synthetic image styles. Ignored for a folder data set."""
    path: str = ""
    """Path of a folder data set, relative to the working directory. Empty for a synthetic source."""
    split: str = "train"
    """Split of the folder, or of the synthetic seeds: `train`, `valid` or `test`. Empty if the folder has no splits."""
    count: int = 0
    """Number of images to use, from the beginning of the split. 0 uses all of them."""
    images: tuple[int, ...] = ()
    """Indices of the images to use, from 0, in the order of the split. Empty uses all, or the first `count`."""
    augmentation: Literal["none", "roots", "vines", "strong"] = "none"
    """Name of an augmentation preset: ranges of flip, rotation, scale, crop, brightness, contrast, color and noise."""
    spacing_px: float = 0.0
    """Resample each branch at this node spacing, px. 0 keeps the nodes."""
    grid_px: float = 0.0
    """Place nodes between keypoints where branches cross a grid of this spacing, px. 0 keeps the nodes."""


@dataclass(frozen=True)
class DataConfig:
    """The images for training and validation."""

    train: tuple[SourceConfig, ...] = (SourceConfig(presets=("paper",)),)
    """Sources of training images, mixed by weight."""
    valid: tuple[SourceConfig, ...] = (SourceConfig(presets=("paper",), split="valid", count=64),)
    """Sources of validation images, used in order and without augmentation."""
    image_size: int = 512
    """Side of the model's square input, px. Augmented images are cropped or padded, others scaled down or padded."""
    max_nodes: int = 160
    """Maximum number of nodes per image, at most the model's number of tokens. Images with more are skipped."""
    workers: int = 0
    """Number of processes per GPU that load images. 0 loads them in the training process."""
