"""Synthetic plants: skeletons generated from a seed, and images of them, identical on every machine.

>>> array, skeleton = make_image("paper", "paper", seed=7)
>>> array.shape, skeleton.is_tree
((512, 512, 3), True)
"""

from treeformer._util.arrays import ImageArray
from treeformer.skeleton import Skeleton
from treeformer.synthetic.presets import PRESETS, SPLITS, generate
from treeformer.synthetic.render import STYLES, drawn_radius, render
from treeformer.synthetic.scenes.outdoor.photo_scene import Backgrounds

__all__ = ["PRESETS", "SPLITS", "STYLES", "Backgrounds", "drawn_radius", "generate", "make_image", "render"]


def make_image(
    preset: str = "paper",
    style: str = "paper",
    seed: int = 0,
    size: tuple[int, int] = (512, 512),
    backgrounds: Backgrounds | None = None,
) -> tuple[ImageArray, Skeleton]:
    """Generate a plant and render an image of it.

    Args:
        preset: What to grow, one of `PRESETS`.
        style: How to draw it, one of `STYLES`.
        seed: Zero or more. The same seed gives the same result on every machine.
        size: (width, height) of the image, px, at least 64 each.
        backgrounds: Photographs before which trees and vines outdoors stand in style "photo"; None paints the land.

    Returns:
        The image (height, width, 3) and its exact skeleton, with the radii at which the plant is drawn.

    Raises:
        TreeformerError: If the preset, style, seed or size is invalid.
    """
    skeleton = generate(preset, seed, size=size)
    return render(skeleton, style, seed, backgrounds), skeleton.replace(radius=drawn_radius(skeleton, style))
