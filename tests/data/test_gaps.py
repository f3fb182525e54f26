"""Gaps painted into branches: they cover the branch, nothing else, and the labels stay."""

from __future__ import annotations

import numpy as np
import pytest

from treeformer import Skeleton
from treeformer.data.config import DataConfig, SourceConfig
from treeformer.data.gaps import paint_gaps
from treeformer.data.mixture import EvalDataset, MixtureDataset
from treeformer.errors import TreeformerError


@pytest.mark.parametrize("ends", [[(20, 100), (180, 100)], [(40, 40), (160, 150)]])
def test_gaps_cover_the_branch_with_what_lies_beside_it(ends: list[tuple[int, int]]) -> None:
    skeleton = Skeleton(ends, [(0, 1)], root=0, radius=[3, 3], image_size=(200, 200))
    first, direction = skeleton.nodes[0], (skeleton.nodes[1] - skeleton.nodes[0]) / skeleton.length
    y, x = np.mgrid[:200, :200] + 0.5
    across = np.abs((x - first[0]) * direction[1] - (y - first[1]) * direction[0])
    image = np.where((across < 3)[..., None], 20, 200).astype(np.uint8).repeat(3, axis=2)
    changed = paint_gaps(image, skeleton, 6.0, np.random.default_rng(1))
    difference = (changed.astype(int) - image)[..., 0]
    assert (difference >= 0).all()  # the branch is dark, and only covered
    assert (difference > 150).sum() > 100
    assert difference[across > 4.5].max() == 0  # the ground is even
    assert image.min() == 20  # the image that was given is not changed


def test_no_gap_without_branches_or_beyond_the_frame() -> None:
    image = np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    for skeleton in (Skeleton([], []), Skeleton([(5, 5)], []), Skeleton([(1, 1), (30, 1)], [(0, 1)], radius=[2, 2])):
        assert np.array_equal(paint_gaps(image, skeleton, 9.0, np.random.default_rng(0)), image)


def test_training_images_have_gaps_and_validation_images_none() -> None:
    plain, gaps = (SourceConfig(presets=("paper",), gaps=count) for count in (0.0, 30.0))
    config = DataConfig(train=(plain,), image_size=128)
    first, second = (MixtureDataset([source], config, seed=3)[0][0] for source in (plain, gaps))
    assert second.skeleton == first.skeleton
    assert (second.image != first.image).any()
    valid = [EvalDataset([source], config)[0][0] for source in (plain, gaps)]
    assert valid[0] is not None
    assert valid[1] is not None
    assert np.array_equal(valid[0].image, valid[1].image)
    with pytest.raises(TreeformerError, match="gaps must be from 0 to"):
        MixtureDataset([SourceConfig(presets=("paper",), gaps=-1.0)], config, seed=3)
