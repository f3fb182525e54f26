"""Synthetic plants: skeletons from a seed, and pictures of them, the same on every machine.

>>> array, skeleton = picture("paper", "paper", seed=7)
>>> array.shape, skeleton.is_tree
((512, 512, 3), True)
"""

from treeformer.skeleton import Skeleton
from treeformer.synthetic.presets import PRESETS, SPLITS, generate
from treeformer.synthetic.render import LOOKS, Picture, render

__all__ = ["LOOKS", "PRESETS", "SPLITS", "Picture", "generate", "picture", "render"]


def picture(
    preset: str = "paper", look: str = "paper", seed: int = 0, size: tuple[int, int] = (512, 512)
) -> tuple[Picture, Skeleton]:
    """A picture (height, width, 3) and its exact skeleton: the one call a data loader makes. size: (width, height)."""
    skeleton = generate(preset, seed, size=size)
    return render(skeleton, look, seed), skeleton
