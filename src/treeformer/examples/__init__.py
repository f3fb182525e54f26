"""Images of plants with their skeletons, to try things on; rendered by `treeformer.synthetic`, named by preset."""

from __future__ import annotations

from pathlib import Path

from PIL import Image

from treeformer._util.images import open_image

FOLDER = Path(__file__).parent
EXAMPLE = FOLDER / "taproot.rsml"
"""The skeleton of the first example image: a tap root with laterals."""

# The seeds are of the test split, which no training looks at.
SEEDS = {
    "paper": ("paper", 121003),
    "seedling": ("photo", 121005),
    "vine": ("photo", 121031),
    "orchard": ("photo", 121013),
    "several": ("photo", 121008),
}
"""Look and seed of each further example by its preset: `treeformer.synthetic.make_image(preset, look, seed)`."""

IMAGES = (EXAMPLE.with_suffix(".jpg"), *(FOLDER / f"{preset}.jpg" for preset in SEEDS))
"""All example images, 512×512; the true skeleton of each is the `.rsml` file beside it."""


def example_image() -> Image.Image:
    """The first example image, RGB."""
    return open_image(IMAGES[0])
