"""Synthetic plants: skeletons from a seed, and images of them, the same on every machine.

>>> array, skeleton = make_image("paper", "paper", seed=7)
>>> array.shape, skeleton.is_tree
((512, 512, 3), True)
"""

from treeformer._util.arrays import ImageArray
from treeformer.skeleton import Skeleton
from treeformer.synthetic.presets import PRESETS, SPLITS, generate
from treeformer.synthetic.render import STYLES, render

__all__ = ["PRESETS", "SPLITS", "STYLES", "generate", "make_image", "render"]


def make_image(
    preset: str = "paper", style: str = "paper", seed: int = 0, size: tuple[int, int] = (512, 512)
) -> tuple[ImageArray, Skeleton]:
    """An image (height, width, 3) and its exact skeleton: the one call a data loader makes. size: (width, height)."""
    skeleton = generate(preset, seed, size=size)
    return render(skeleton, style, seed), skeleton
