"""The fast warp of training images, compared with Pillow's."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from PIL import Image

from treeformer import Skeleton, data
from treeformer.data import augmentation as augment
from treeformer.data.config import DataConfig, SourceConfig
from treeformer.data.folder_dataset import write_pair
from treeformer.data.mixture import EvalDataset, MixtureDataset
from treeformer.data.torch_warp import warp
from treeformer.data.view import into_frame


def photograph(width: int, height: int, seed: int = 0) -> np.ndarray:
    """Return smooth blobs with noise, so that neighboring pixels differ by small and large amounts."""
    rng = np.random.default_rng(seed)
    blobs = Image.fromarray(rng.integers(0, 256, (height // 8, width // 8, 3), dtype=np.uint8))
    smooth = np.asarray(blobs.resize((width, height), Image.Resampling.BICUBIC))
    return np.clip(smooth + rng.normal(0, 6, smooth.shape), 0, 255).astype(np.uint8)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(augment.PRESETS))
@pytest.mark.parametrize("size", [(96, 64), (300, 200), (128, 128)])
def test_agrees_with_pillow_except_for_rounding(name: str, size: tuple[int, int]) -> None:
    image = photograph(*size)
    preset = dataclasses.replace(augment.PRESETS[name], frame=(128, 128))
    fractions = []
    for seed in range(30):
        affine, frame = preset.draw_affine(size, np.zeros((0, 2)), np.random.default_rng(seed))
        fast, slow = (function(image, affine, frame).astype(int) for function in (warp, augment.warp))
        assert fast.shape == slow.shape == (128, 128, 3)
        difference = np.abs(fast - slow)
        fractions.append((difference > 0).mean())
        # A pixel exactly on the border may count as outside.
        assert (difference > 1).any(axis=2).sum() <= 1
    assert np.mean(fractions) < 0.002


def test_a_uniform_color_is_preserved() -> None:
    """Rounded weights that sum to less than one would make it darker."""
    for level in (1, 100, 255):
        image = np.full((90, 70, 3), level, dtype=np.uint8)
        affine, frame = augment.ROOTS.draw_affine((70, 90), np.zeros((0, 2)), np.random.default_rng(level))
        assert (warp(image, affine, frame) == level).all()


def test_the_result_is_contiguous_in_channel_first_order() -> None:
    result = warp(photograph(80, 60), [[1.0, 0.1, 3.0], [-0.1, 1.0, 2.0]], (64, 48))
    assert result.transpose(2, 0, 1).flags.c_contiguous
    assert result.dtype == np.uint8


def test_the_input_is_not_changed() -> None:
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


def test_the_stream_uses_the_augmentation(folder) -> None:
    source = SourceConfig(path=str(folder), split="", augmentation="roots")
    stream = MixtureDataset([source], DataConfig(image_size=128, max_nodes=64), 7)
    roots = dataclasses.replace(augment.ROOTS, frame=(128, 128))
    for position in range(10):
        rng = np.random.default_rng([7, position])
        rng.random()  # the choice of the source
        sample = data.FolderDataset(folder)[int(rng.integers(3))]
        image, skeleton = roots(sample.image, sample.skeleton, rng)
        drawn, _ = stream[position]
        assert drawn.skeleton == skeleton
        difference = np.abs(drawn.image.astype(int) - image)
        assert (difference > 2).any(axis=2).sum() <= 1  # contrast may double a difference of one gray level
        assert (difference > 0).mean() < 0.004


def test_validation_images_are_warped_by_pillow(folder) -> None:
    source = SourceConfig(path=str(folder), split="", augmentation="roots")
    fixed, _ = EvalDataset([source], DataConfig(image_size=64, max_nodes=64))[0]
    image = data.FolderDataset(folder)[0].image
    assert np.array_equal(fixed.image, augment.warp(image, into_frame((120, 90), (64, 64)), (64, 64)))
