"""The presets of the test protocol: their images and coordinates never change."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from treeformer.synthetic import PRESETS, STYLES, make_image
from treeformer.synthetic.painting import optics

# They must never be updated: published figures depend on these images. A new scene is a new preset.
FROZEN = {
    ("paper", "paper"): "30baf97acbbb52f9",
    ("paper", "photo"): "6f9bd1aaaadeee0d",
    ("taproot", "paper"): "0e5d1983fcc60736",
    ("taproot", "photo"): "71f60e0619f3b699",
    ("seedling", "paper"): "eea0727780dd8ce6",
    ("seedling", "photo"): "f0a66476de19ad58",
    ("vine", "paper"): "19816da4c3eb47d8",
    ("vine", "photo"): "9eabf8da97eb16c8",
    ("orchard", "paper"): "0043e7a58ff98ec3",
    ("orchard", "photo"): "c5348c21faf2b2c7",
    ("several", "paper"): "473bc269a6829786",
    ("several", "photo"): "91275569a7060d06",
    ("plate", "paper"): "fac808d51f313d14",
    ("plate", "photo"): "52ac2517059d194e",
    ("orchard-row", "paper"): "f26e1525e8da48ab",
    ("orchard-row", "photo"): "12ef612f74c7ef34",
    ("vineyard", "paper"): "881f3ba441200a5f",
    ("vineyard", "photo"): "7ba9c05c06048210",
    ("potted-shoot", "paper"): "29124de9845b614d",
    ("potted-shoot", "photo"): "6cae60dc0941e215",
    ("plate-rosette", "paper"): "4318e1a4078e67f6",
    ("plate-rosette", "photo"): "8441d61d82994368",
    ("empty", "paper"): "3bf71a8fbe688fb3",
    ("empty", "photo"): "be8381946b79601e",
    ("cluttered-plate", "paper"): "dc7f6a693ae3af39",
    ("cluttered-plate", "photo"): "a08ecfe0cdc2307f",
}
CASES = ((0, (512, 512)), (1234, (512, 512)), (120_007, (512, 512)), (3, (300, 220)))


@pytest.mark.slow
@pytest.mark.parametrize(("preset", "style"), FROZEN)
def test_images_and_coordinates_are_frozen(preset: str, style: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Excludes the JPEG step, which depends on another library."""
    monkeypatch.setattr(optics, "jpeg", lambda array, quality: array)
    total = hashlib.sha256()
    for seed, size in CASES:
        array, skeleton = make_image(preset, style, seed, size)
        total.update(array.tobytes())
        total.update(skeleton.nodes.tobytes())
        total.update(skeleton.edges.astype(np.int64).tobytes())
    assert total.hexdigest()[:16] == FROZEN[preset, style]


def test_every_preset_and_style_is_frozen() -> None:
    assert set(FROZEN) == {(preset, style) for preset in PRESETS for style in STYLES}
