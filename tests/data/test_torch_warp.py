"""The quick warp of training images against Pillow's."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from PIL import Image

from treeformer import Skeleton, data
from treeformer.data import augmentation as augment
from treeformer.data.config import DataConfig, SourceConfig
from treeformer.data.datasets import write_pair
from treeformer.data.mixture import EvalDataset, MixtureDataset, into_frame
from treeformer.data.torch_warp import warp


def photograph(width: int, height: int, seed: int = 0) -> np.ndarray:
    """Smooth blots with noise on them, so that neighbors differ by little, and by much."""
    rng = np.random.default_rng(seed)
    blots = Image.fromarray(rng.integers(0, 256, (height // 8, width // 8, 3), dtype=np.uint8))
    smooth = np.asarray(blots.resize((width, height), Image.Resampling.BICUBIC))
    return np.clip(smooth + rng.normal(0, 6, smooth.shape), 0, 255).astype(np.uint8)


@pytest.mark.parametrize("name", sorted(augment.PRESETS))
@pytest.mark.parametrize("size", [(96, 64), (300, 200), (128, 128)])
def test_it_is_the_warp_of_pillow_but_for_rounding(name: str, size: tuple[int, int]) -> None:
    image = photograph(*size)
    preset = dataclasses.replace(augment.PRESETS[name], frame=(128, 128))
    differ = []
    for seed in range(30):
        affine, frame = preset.draw_map(size, np.zeros((0, 2)), np.random.default_rng(seed))
        quick, slow = (make(image, affine, frame).astype(int) for make in (warp, augment.warp))
        assert quick.shape == slow.shape == (128, 128, 3)
        difference = np.abs(quick - slow)
        differ.append((difference > 0).mean())
        # On the border itself a pixel may be taken for one outside.
        assert (difference > 1).any(axis=2).sum() <= 1
    assert np.mean(differ) < 0.002


def test_one_color_stays_that_color() -> None:
    """Weights that add up to less than one by their rounding would make it darker."""
    for level in (1, 100, 255):
        image = np.full((90, 70, 3), level, dtype=np.uint8)
        affine, frame = augment.ROOTS.draw_map((70, 90), np.zeros((0, 2)), np.random.default_rng(level))
        assert (warp(image, affine, frame) == level).all()


def test_the_planes_of_the_result_lie_as_a_batch_wants_them() -> None:
    result = warp(photograph(80, 60), [[1.0, 0.1, 3.0], [-0.1, 1.0, 2.0]], (64, 48))
    assert result.transpose(2, 0, 1).flags.c_contiguous
    assert result.dtype == np.uint8


def test_the_image_given_is_left_alone() -> None:
    image = photograph(80, 60)
    image.flags.writeable = False
    before = image.copy()
    warp(image, [[1.0, 0.0, 3.5], [0.0, 1.0, 2.0]], (64, 48))[:] = 0
    assert np.array_equal(image, before)


@pytest.fixture
def folder(tmp_path):
    skeleton = Skeleton(
        [(60, 5), (60, 60), (20, 85), (100, 80)], [(0, 1), (1, 2), (1, 3)], root=0, image_size=(120, 90)
    )
    for number in range(3):
        write_pair(photograph(120, 90, number), skeleton, tmp_path, str(number))
    return tmp_path


def test_the_stream_draws_what_the_augmentation_does(folder) -> None:
    source = SourceConfig(path=str(folder), split="", augmentation="roots")
    stream = MixtureDataset([source], DataConfig(image_size=128, max_nodes=64), 7)
    roots = dataclasses.replace(augment.ROOTS, frame=(128, 128))
    for position in range(10):
        rng = np.random.default_rng([7, position])
        rng.random()  # which source
        sample = data.FolderDataset(folder)[int(rng.integers(3))]
        image, skeleton = roots(sample.image, sample.skeleton, rng)
        ours, _ = stream[position]
        assert ours.skeleton == skeleton
        difference = np.abs(ours.image.astype(int) - image)
        assert (difference > 2).any(axis=2).sum() <= 1  # contrast makes two gray levels of one
        assert (difference > 0).mean() < 0.004


def test_images_of_validation_are_those_of_pillow(folder) -> None:
    source = SourceConfig(path=str(folder), split="", augmentation="roots")
    fixed, _ = EvalDataset([source], DataConfig(image_size=64, max_nodes=64))[0]
    image = data.FolderDataset(folder)[0].image
    assert np.array_equal(fixed.image, augment.warp(image, into_frame((120, 90), (64, 64)), (64, 64)))
