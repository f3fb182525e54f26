"""Presets: the kind, number, position and size of the plants in an image."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from treeformer._util.text import short_repr
from treeformer.errors import TreeformerError
from treeformer.skeleton import Skeleton
from treeformer.synthetic.plants import lsystem
from treeformer.synthetic.plants.growth import GrownAxis, Point, assemble
from treeformer.synthetic.plants.orchard import grow_fruit_tree, grow_orchard_tree
from treeformer.synthetic.plants.plate_rows import plant_rows
from treeformer.synthetic.plants.pruned_tree import grow_pruned_tree
from treeformer.synthetic.plants.seedling import grow_seedling
from treeformer.synthetic.plants.shoot import grow_shoot
from treeformer.synthetic.plants.taproot import grow_taproot
from treeformer.synthetic.plants.vine import grow_trained_vine, grow_vine
from treeformer.synthetic.plants.winter_vine import grow_winter_vine
from treeformer.synthetic.rng import Rng

PRESETS = (
    "paper",
    "taproot",
    "seedling",
    "vine",
    "orchard",
    "several",
    "plate",
    "orchard-row",
    "vineyard",
    "potted-shoot",
    "plate-rosette",
    "empty",
)
# The paper's 100,000 training, 20,000 validation and 20,000 test images are seeds, not files.
SPLITS = {
    "train": range(100_000),
    "valid": range(100_000, 120_000),
    "test": range(120_000, 140_000),
}
MIN_SIDE_PX = 64
# Pixels are numbered in 32 bits, also at twice the resolution.
MAX_SIDE_PX = 16_384
# `generate` draws a grown plant again if it has more nodes than this.
MAX_NODES = 400
# Dense trees and vines may have more.
MAX_NODES_OF = {"orchard-row": 900, "vineyard": 700}
# Presets whose plants may leave the frame at the bottom; a base this close to the edge means that the foot is outside.
OUTDOOR_ROWS = ("orchard-row", "vineyard")
FOOT_MARGIN_PX = 3.0
# Scenes of the preset `empty`: those of all other presets, without their plants.
EMPTY_SCENES = (
    "blue paper",
    "gray paper",
    "agar",
    "scanner",
    "soil",
    "wall",
    "orchard",
    "field",
    "vine land",
    "orchard land",
    "screen",
    "dish",
    "rosette dish",
    "orchard rows",
    "vine rows",
    "pot",
)
# The roots of cereal seedlings are thicker than those of tap-rooted plants of the same size.
SEEDLING_THICKNESS_FACTOR = 1.5
# Lengths and radii of the growth models refer to an image with this shorter side.
REFERENCE_SIDE_PX = 512

# A growth model: (rng, axes, plant, base, reach, thickness), see `treeformer.synthetic.plants`.
Grower = Callable[[Rng, list[GrownAxis], int, Point, float, float], None]


def generate(preset: str, seed: int, *, size: tuple[int, int] = (512, 512)) -> Skeleton:
    """Generate the plant or plants of one seed.

    The same seed gives the same skeleton on every machine.

    >>> generate("paper", 7).is_tree
    True

    Args:
        preset: What to grow, one of `PRESETS`.
        seed: Zero or more.
        size: (width, height) of the image, px, at least 64 each.

    Returns:
        A tree or a forest with roots and radii; without nodes for the preset `empty`. `metadata` holds the preset and
        the seed.

    Raises:
        TreeformerError: If the preset, seed or size is invalid.
    """
    if preset not in PRESETS:
        raise TreeformerError(f"unknown preset {preset!r}: choose one of {', '.join(PRESETS)}")
    check_seed(seed)
    size = check_size(size)
    rng = Rng(zlib.crc32(preset.encode()), seed)
    if preset == "paper":
        return lsystem.tree(rng, size, seed)
    if preset == "empty":
        return Skeleton(
            [],
            [],
            radius=[],
            image_size=size,
            metadata={"preset": preset, "seed": seed, "scene": rng.choice(EMPTY_SCENES)},
        )
    while True:
        axes: list[GrownAxis] = []
        kind = _PLANTERS[preset](rng, axes, size)
        metadata: dict[str, Any] = {"preset": preset, "seed": seed, "kind": kind}
        if preset in OUTDOOR_ROWS and axes[0].points[0, 1] > size[1] - FOOT_MARGIN_PX:
            metadata["foot"] = "outside"
        skeleton = assemble(axes, size, metadata)
        if 1 < len(skeleton) <= MAX_NODES_OF.get(preset, MAX_NODES):
            return skeleton


def check_seed(seed: int) -> None:
    """Raise `TreeformerError` if the seed of a synthetic image is not an integer of at least zero."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise TreeformerError(f"the seed must be zero or more, not {short_repr(seed)}")


def check_size(size: tuple[int, int], min_side_px: int = MIN_SIDE_PX) -> tuple[int, int]:
    """Return a size as two integers; raise `TreeformerError` for other values and if a side is too short or long.

    >>> check_size((512, 256))
    (512, 256)
    """
    try:
        width, height = (int(side) for side in size)
        is_whole = (width, height) == tuple(size)
    except (TypeError, ValueError, OverflowError):
        is_whole = False
    if not is_whole:
        raise TreeformerError(f"the size must be two whole numbers of pixels, (width, height), not {size!r}")
    if min(width, height) < min_side_px:
        raise TreeformerError(
            f"the sides of a synthetic image must be at least {min_side_px} px long, not {width}×{height}"
        )
    if max(width, height) > MAX_SIDE_PX:
        raise TreeformerError(
            f"the sides of a synthetic image must be at most {MAX_SIDE_PX} px long, not {width}×{height}"
        )
    return width, height


def _scale(size: tuple[int, int]) -> float:
    """Return the scale of an image relative to the reference side."""
    return min(size) / REFERENCE_SIDE_PX


def _root_thickness(rng: Rng, size: tuple[int, int]) -> float:
    """Draw the radius of a main root: mostly 1 to 3 px across, as in photos of whole plates, rarely a close-up."""
    low, high = rng.weighted((((0.5, 1.0), 0.45), ((0.8, 1.6), 0.4), ((1.5, 3.0), 0.15)))
    return max(0.45, rng.uniform(low, high) * _scale(size))


def _wood_thickness(rng: Rng, size: tuple[int, int]) -> float:
    """Draw the radius of a trunk."""
    return rng.uniform(3.0, 13.0) * _scale(size)


# Each of the following functions adds the axes of all plants of an image to `axes` and returns their kind.


def _one_taproot(rng: Rng, axes: list[GrownAxis], size: tuple[int, int]) -> str:
    width, height = size
    base = (width * rng.uniform(0.2, 0.8), height * rng.uniform(0.02, 0.25))
    grow_taproot(rng, axes, 0, base, height * rng.uniform(0.4, 0.95), _root_thickness(rng, size))
    return "taproot"


def _one_seedling(rng: Rng, axes: list[GrownAxis], size: tuple[int, int]) -> str:
    width, height = size
    base = (width * rng.uniform(0.2, 0.8), height * rng.uniform(0.06, 0.4))
    reach = height * rng.uniform(0.25, 0.8)
    grow_seedling(rng, axes, 0, base, reach, SEEDLING_THICKNESS_FACTOR * _root_thickness(rng, size))
    return "seedling"


def _one_vine(rng: Rng, axes: list[GrownAxis], size: tuple[int, int]) -> str:
    width, height = size
    base = (width * rng.uniform(0.25, 0.75), height * rng.uniform(0.8, 0.98))
    grow_trained_vine(rng, axes, 0, base, min(width, height) * rng.uniform(0.7, 1.1), _wood_thickness(rng, size))
    return "vine"


def _one_orchard_tree(rng: Rng, axes: list[GrownAxis], size: tuple[int, int]) -> str:
    width, height = size
    base = (width * rng.uniform(0.25, 0.75), height * rng.uniform(0.78, 0.98))
    grow_fruit_tree(rng, axes, 0, base, min(width, height) * rng.uniform(0.65, 1.0), _wood_thickness(rng, size))
    return "orchard"


def _foot(rng: Rng, size: tuple[int, int], columns: tuple[float, float], outside: float) -> Point:
    """Draw where a plant stands; with the probability `outside` the frame cuts it off above its foot."""
    width, height = size
    x = width * rng.uniform(*columns)
    return (x, height - 2.0) if rng.chance(outside) else (x, min(height * rng.uniform(0.76, 0.985), height - 4.0))


def _orchard_row(rng: Rng, axes: list[GrownAxis], size: tuple[int, int]) -> str:
    """Grow the front tree of an orchard, which may fill and leave the frame."""
    base = _foot(rng, size, (0.32, 0.68), 0.14)
    reach = min(size) * rng.weighted(((rng.uniform(0.7, 1.0), 0.55), (rng.uniform(1.0, 1.5), 0.45)))
    thickness = rng.weighted(((rng.uniform(4.0, 9.0), 0.45), (rng.uniform(9.0, 20.0), 0.55))) * _scale(size)
    thickness = min(thickness, 0.032 * reach)
    grow_pruned_tree(rng, axes, 0, base, reach, thickness)
    return "orchard"


def _vineyard(rng: Rng, axes: list[GrownAxis], size: tuple[int, int]) -> str:
    """Grow the front vine of a vineyard, which may leave the frame on all sides."""
    base = _foot(rng, size, (0.32, 0.68), 0.1)
    reach = min(size) * rng.weighted(((rng.uniform(0.65, 0.95), 0.55), (rng.uniform(0.95, 1.4), 0.45)))
    grow_winter_vine(rng, axes, 0, base, reach, rng.uniform(4.0, 16.0) * _scale(size))
    return "vine"


def _potted_shoot(rng: Rng, axes: list[GrownAxis], size: tuple[int, int]) -> str:
    """Grow a young plant in a pot."""
    width, height = size
    base = (width * rng.uniform(0.3, 0.7), height * rng.uniform(0.62, 0.93))
    reach = min(size) * rng.uniform(0.35, 1.0)
    grow_shoot(rng, axes, 0, base, reach, max(0.9, rng.uniform(1.2, 6.5) * _scale(size)))
    return "shoot"


def _plate_rosette(rng: Rng, axes: list[GrownAxis], size: tuple[int, int]) -> str:
    """Grow older plants on a plate."""
    return plant_rows(rng, axes, size, (0.78, 0.18, 0.04))


def _several(rng: Rng, axes: list[GrownAxis], size: tuple[int, int]) -> str:
    """Grow a row of plants of one kind, close enough to cross."""
    width, height = size
    kind = rng.weighted((("seedling", 0.35), ("taproot", 0.35), ("vine", 0.15), ("orchard", 0.15)))
    grow, max_count, reach_share = _ROW_PLANTS[kind]
    count = rng.whole(2, max_count)
    is_root = kind in ("seedling", "taproot")
    reach = rng.uniform(*reach_share) * (height if is_root else min(width, height))
    reach *= min(1.0, 5 / count)  # many plants in a row are young ones
    line = height * (rng.uniform(0.06, 0.3) if is_root else rng.uniform(0.75, 0.97))
    thickness = _root_thickness(rng, size) if is_root else 0.7 * _wood_thickness(rng, size)
    if kind == "seedling":
        thickness *= SEEDLING_THICKNESS_FACTOR
    left, right = width * rng.uniform(0.05, 0.35), width * rng.uniform(0.65, 0.95)
    for plant in range(count):
        x = left + (right - left) * (plant + rng.uniform(0.25, 0.75)) / count
        y = min(line + height * rng.uniform(-0.03, 0.03), height - 4.0)
        grow(rng, axes, plant, (x, y), reach * rng.uniform(0.5, 1.1), thickness)
    return kind


_PLANTERS: dict[str, Callable[[Rng, list[GrownAxis], tuple[int, int]], str]] = {
    "taproot": _one_taproot,
    "seedling": _one_seedling,
    "vine": _one_vine,
    "orchard": _one_orchard_tree,
    "several": _several,
    "plate": plant_rows,
    "orchard-row": _orchard_row,
    "vineyard": _vineyard,
    "potted-shoot": _potted_shoot,
    "plate-rosette": _plate_rosette,
}
# For each kind: its growth model, the maximum number of plants in a row, and their reach as a share of the image.
_ROW_PLANTS: dict[str, tuple[Grower, int, tuple[float, float]]] = {
    "seedling": (grow_seedling, 4, (0.25, 0.75)),
    "taproot": (grow_taproot, 10, (0.2, 0.6)),
    "vine": (grow_vine, 3, (0.4, 0.7)),
    "orchard": (grow_orchard_tree, 3, (0.35, 0.65)),
}
