"""Synthetic images as a data set: determined by their seeds."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from treeformer import TreeformerError
from treeformer.data import SyntheticDataset
from treeformer.synthetic import make_image


def test_synthetic_images_are_determined_by_their_seeds() -> None:
    dataset = SyntheticDataset(range(10, 16), presets=("paper", "taproot", "vine"), styles=("paper",), size=(96, 80))
    assert len(dataset) == 6
    copy = pickle.loads(pickle.dumps(dataset))
    for index, preset in ((0, "taproot"), (1, "vine"), (2, "paper")):
        sample = dataset.load(index)
        image, skeleton = make_image(preset, "paper", 10 + index, (96, 80))
        assert sample.name == f"{preset}-paper-{10 + index}"
        assert np.array_equal(sample.image, image)
        assert sample.skeleton == skeleton == copy[index].skeleton
    with pytest.raises(IndexError):
        dataset[6]


@pytest.mark.slow
def test_all_combinations_of_presets_and_styles() -> None:
    presets, styles = ("paper", "taproot", "vine"), ("paper", "photo")
    dataset = SyntheticDataset(range(24), presets, styles, (64, 64))
    combinations = {tuple(dataset[index].name.split("-")[:2]) for index in range(6)}
    assert combinations == {(preset, style) for preset in presets for style in styles}


def test_a_synthetic_set_needs_seeds() -> None:
    with pytest.raises(TreeformerError, match="needs seeds"):
        SyntheticDataset(range(0))
