"""Training crops: random windows on the own images at their working size, and on synthetic images.

A crop is determined by the seed and its number, so that an interrupted run continues with the same crops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from treeformer._util.images import open_image
from treeformer.data.augmentation import Augmentation, warp
from treeformer.data.sample import Sample
from treeformer.errors import TreeformerError
from treeformer.finetuning.annotated import AnnotatedImage
from treeformer.skeleton import Skeleton
from treeformer.synthetic import make_image

# Changes of the own images. The scale is relative to the working size, which is known to a factor of two.
CHANGES = Augmentation(
    rotation_deg=10.0,
    scale=(0.75, 1.4),
    brightness=0.1,
    contrast=(0.8, 1.25),
    color_cast=0.1,
    noise=(0.0, 6.0),
)
# Share of the crops that show the whole image, as the first pass of a prediction does.
WHOLE_SHARE = 0.2
# A crop with too many nodes is replaced by a smaller window: its scale is multiplied by these in turn.
# The last ones are for windows that happened to lie where branches crowd.
ZOOMS = (1.0, 1.3, 1.7, 2.2, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0)
# Rendered images keep the model from forgetting what it could do before.
SYNTHETIC_PRESETS = ("taproot", "seedling", "vine", "orchard")
# Seeds of the training split of synthetic images.
SYNTHETIC_SEEDS = range(60_000, 100_000)


@dataclass(frozen=True)
class CropSettings:
    """What a crop is like.

    Attributes:
        side: side of the network's input, px.
        max_nodes: largest number of nodes.
        grid_px: spacing of the grid on which the nodes of curves lie, px; 0 spaces them evenly.
        spacing_px: spacing of the nodes without a grid, px.
        synthetic_every: one of so many crops is synthetic; 0 for none.
        seed: seed of all crops.
    """

    side: int
    max_nodes: int
    grid_px: float = 44.0
    spacing_px: float = 8.0
    synthetic_every: int = 5
    seed: int = 0


def make_crop(
    number: int, images: Sequence[AnnotatedImage], working_px: Sequence[int], settings: CropSettings
) -> Sample:
    """Make one crop.

    Args:
        number: number of the crop, from 0. Consecutive numbers cycle through the images.
        images: the training images.
        working_px: length to which the longer side of each image is scaled, px.
        settings: what the crop is like.

    Returns:
        (side,side,3) pixels and their skeleton.

    Raises:
        TreeformerError: if the image cannot be read any more, or even the smallest window has too many nodes.
    """
    rng = np.random.default_rng([settings.seed, number])
    every = settings.synthetic_every
    if every and number % every == every - 1:
        preset = SYNTHETIC_PRESETS[number // every % len(SYNTHETIC_PRESETS)]
        seed = SYNTHETIC_SEEDS[(1000 * settings.seed + number) % len(SYNTHETIC_SEEDS)]
        image, skeleton = make_image(preset, "photo", seed, (settings.side, settings.side))
        target = with_target_nodes(skeleton, settings)
        if len(target) <= settings.max_nodes:  # otherwise an own image takes its place
            return Sample(image, target, f"{preset}-{seed}")
    own = number - number // every if every else number
    chosen = images[own % len(images)]
    longest = working_px[own % len(images)]
    pixels = np.asarray(open_image(chosen.path, longest_px=max(longest, settings.side)))
    height, width = pixels.shape[:2]
    factor = width / chosen.size[0]
    skeleton = chosen.skeleton.transform([[factor, 0, 0], [0, factor, 0]], image_size=(width, height))
    whole = shows_whole_image(own, len(images))
    base = (settings.side if whole else longest) / max(width, height)
    for zoom in ZOOMS:
        low, high = (0.9, 1.0) if whole else CHANGES.scale
        scale = (base * zoom * low, base * zoom * high)
        changes = replace(CHANGES, frame=(settings.side, settings.side), scale=scale)
        affine, frame = changes.draw_affine((width, height), skeleton.nodes, rng)
        moved = with_target_nodes(changes.move_skeleton(skeleton, affine, frame), settings)
        if len(moved) <= settings.max_nodes:
            return Sample(changes.relight(warp(pixels, affine, frame), rng), moved, chosen.name)
    raise TreeformerError(f"{chosen.path}: more than {settings.max_nodes} nodes in its smallest window")


def shows_whole_image(own: int, count: int) -> bool:
    """Decide whether a crop of an own image shows all of it.

    Each image is shown whole in one round in five, and not all images in the same round: a run with more images than
    crops would see nothing but whole images.

    Args:
        own: number of the crop among those of own images, from 0.
        count: number of images, through which the crops cycle.

    Returns:
        True if it does.
    """
    return sum(divmod(own, count)) % round(1 / WHOLE_SHARE) == 0


def with_target_nodes(skeleton: Skeleton, settings: CropSettings) -> Skeleton:
    """Place the nodes of curves where the network places them.

    Args:
        skeleton: the skeleton of a crop, px.
        settings: spacing of the grid or of the nodes.

    Returns:
        The same curves with other nodes.
    """
    if settings.grid_px:
        return skeleton.sample_at_grid_crossings(settings.grid_px)
    return skeleton.resample(settings.spacing_px)


def most_nodes_per_input(skeleton: Skeleton, working_px: int, settings: CropSettings) -> int:
    """Return the largest number of nodes in a square window of the network's input size.

    Args:
        skeleton: the skeleton of an image, px of the image.
        working_px: length to which the longer side of the image is scaled, px.
        settings: side of the input and spacing of the nodes.

    Returns:
        The largest number, over windows that overlap by half.
    """
    assert skeleton.image_size is not None
    factor = working_px / max(skeleton.image_size)
    size = tuple(max(1, round(side * factor)) for side in skeleton.image_size)
    scaled = skeleton.transform([[factor, 0, 0], [0, factor, 0]], image_size=(size[0], size[1]))
    nodes = with_target_nodes(scaled, settings).nodes
    if not len(nodes):
        return 0
    half = settings.side / 2
    cells = np.floor(nodes / half).astype(np.intp).clip(min=0)
    counts = np.zeros(cells.max(axis=0) + 2, dtype=np.intp)
    np.add.at(counts, (cells[:, 0], cells[:, 1]), 1)
    windows = counts[:-1, :-1] + counts[1:, :-1] + counts[:-1, 1:] + counts[1:, 1:]
    return int(windows.max())
