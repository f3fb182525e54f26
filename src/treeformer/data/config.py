"""The configuration of training data: sources of images and how they are mixed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class SourceConfig:
    """One source of images: synthetic (presets and looks), or a folder data set."""

    weight: float = 1.0
    """How often it is drawn, relative to the other sources."""
    presets: tuple[str, ...] = ()
    """Synthetic plants; empty for a folder."""
    styles: tuple[str, ...] = ("paper",)
    """Synthetic looks."""
    path: str = ""
    """A folder data set; relative to the working directory."""
    split: str = "train"
    """The split of the folder, or of the synthetic seeds."""
    count: int = 0
    """Use only so many images; 0 for all."""
    images: tuple[int, ...] = ()
    """Use only these, by their place in the split, from 0 on; empty for all."""
    augmentation: Literal["none", "roots", "vines", "strong"] = "none"
    """Ranges of flip, rotation, crop, noise, light and scale."""
    spacing_px: float = 0.0
    """Spread the nodes along each branch anew at this spacing; 0 leaves them as they are."""
    grid_px: float = 0.0
    """Between junctions and tips, nodes only where branches cross a grid of this spacing; 0 leaves them as they are."""


@dataclass(frozen=True)
class DataConfig:
    """What is learned from and what is measured on."""

    train: tuple[SourceConfig, ...] = (SourceConfig(presets=("paper",)),)
    valid: tuple[SourceConfig, ...] = (SourceConfig(presets=("paper",), split="valid", count=64),)
    image_size: int = 512
    """Side of the square images the model sees, px; larger ones are cropped, smaller ones padded."""
    max_nodes: int = 160
    """Nodes an image at most, no more than the model has tokens; an image with more is skipped and counted."""
    workers: int = 0
    """Processes that make images, on each GPU's behalf; 0 makes them in the training process."""
