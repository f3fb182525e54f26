"""Example images of plants with their skeletons, rendered by `treeformer.synthetic` and named after its presets."""

from __future__ import annotations

from pathlib import Path

from PIL import Image

from treeformer._util.images import open_image

FOLDER = Path(__file__).parent
EXAMPLE = FOLDER / "taproot.rsml"
"""The skeleton of the first example image: a tap root with laterals."""

# The seeds belong to the test split, which is never used for training.
SEEDS = {
    "paper": ("paper", 121003),
    "seedling": ("photo", 121005),
    "vine": ("photo", 121031),
    "orchard": ("photo", 121013),
    "several": ("photo", 121008),
}
"""Style and seed of each further example by its preset: `treeformer.synthetic.make_image(preset, style, seed)`."""

IMAGES = (EXAMPLE.with_suffix(".jpg"), *(FOLDER / f"{preset}.jpg" for preset in SEEDS))
"""All example images, 512×512 px; the ground truth of each is the `.rsml` file of the same name."""


def example_image() -> Image.Image:
    """Return the first example image as RGB."""
    return open_image(IMAGES[0])
