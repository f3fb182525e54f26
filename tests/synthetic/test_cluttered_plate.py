"""Plates with clutter: with or without seedlings, and the clutter is no part of the ground truth."""

from __future__ import annotations

import numpy as np
import pytest

from treeformer.synthetic import generate, make_image, render
from treeformer.synthetic.plants.plate_rows import PLATE_KINDS
from treeformer.synthetic.presets import BARE_SHARE


def test_a_part_of_the_plates_is_bare() -> None:
    skeletons = [generate("cluttered-plate", seed) for seed in range(60)]
    bare = [skeleton for skeleton in skeletons if len(skeleton) == 0]
    assert 0.5 * BARE_SHARE < len(bare) / len(skeletons) < 1.5 * BARE_SHARE
    assert {skeleton.metadata["kind"] for skeleton in skeletons} == set(PLATE_KINDS)


@pytest.mark.slow
def test_bare_plates_are_painted_in_every_size() -> None:
    seeds = [seed for seed in range(12) if len(generate("cluttered-plate", seed)) == 0]
    assert seeds
    for seed in seeds:
        for size in ((128, 96), (90, 300)):
            array, skeleton = make_image("cluttered-plate", "photo", seed, size)
            assert array.shape == (size[1], size[0], 3)
            assert len(skeleton) == 0
            assert array.std() > 2
            assert np.array_equal(array, render(generate("cluttered-plate", seed, size=size), "photo", seed))
