"""A picture of a plant and its skeleton, to try things on; rendered by `treeformer.synthetic`."""

from __future__ import annotations

from pathlib import Path

from PIL import Image

from treeformer.images import open_image

EXAMPLE = Path(__file__).parent / "taproot.rsml"
"""The skeleton of the example picture: a tap root with laterals."""


def example_picture() -> Image.Image:
    """The example picture, 512×512, RGB."""
    return open_image(EXAMPLE.with_suffix(".jpg"))
