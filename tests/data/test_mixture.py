"""Training images: views with too many nodes are cropped, and images are rendered only for views that are used."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")

from treeformer import Skeleton, synthetic
from treeformer._util.config import ConfigError
from treeformer.data import Skipped, SkipReport
from treeformer.data.config import DataConfig, SourceConfig
from treeformer.data.folder_dataset import write_pair
from treeformer.data.mixture import EvalDataset, MixtureDataset
from treeformer.errors import TreeformerError

SIDE = 128
ORCHARD = SourceConfig(presets=("orchard",), grid_px=16)


@pytest.fixture
def rendered(monkeypatch) -> list[int]:
    """Return a list that receives the seed of every rendered image."""
    seeds: list[int] = []
    render = synthetic.render
    monkeypatch.setattr(synthetic, "render", lambda *args: seeds.append(args[2]) or render(*args))
    return seeds


@pytest.mark.parametrize("augmentation", ["none", "strong"])
def test_an_image_with_too_many_nodes_is_cropped(augmentation, rendered):
    """Trees with 47 and 45 nodes are used, cropped to at most 40."""
    source = SourceConfig(presets=("orchard",), grid_px=44, images=(0, 4), augmentation=augmentation)
    whole = MixtureDataset([source], DataConfig(image_size=SIDE, max_nodes=1000), 0)
    stream = MixtureDataset([source], DataConfig(image_size=SIDE, max_nodes=40), 0)
    before = [len(whole[position][0].skeleton) for position in range(6)]
    assert sum(count > 40 for count in before) > 3
    rendered.clear()
    failures = 0
    for position in range(6):
        sample, skipped = stream[position]
        failures += len(skipped)
        assert len(sample.skeleton) <= 40
        assert sample.skeleton.is_forest
        assert sample.image.shape == (SIDE, SIDE, 3)
        if before[position] <= 40:
            assert len(sample.skeleton) == before[position], "an image that fits is not cropped"
    assert failures <= 2, "the windows of a small tree at a large scale may have more grid crossings"
    assert len(rendered) == 6, "each image is rendered once"


def test_a_crop_shows_what_its_skeleton_says():
    """The pixels of a cropped drawing are dark along its skeleton and light elsewhere."""
    source = SourceConfig(presets=("orchard",), grid_px=44, images=(0,))
    sample, _ = MixtureDataset([source], DataConfig(image_size=SIDE, max_nodes=30), 0)[1]
    whole, _ = MixtureDataset([source], DataConfig(image_size=SIDE, max_nodes=1000), 0)[1]
    assert len(sample.skeleton) <= 30 < len(whole.skeleton)
    middle = sample.skeleton.nodes[sample.skeleton.edges].mean(axis=1)
    column, row = np.clip(middle.astype(int), 0, SIDE - 1).T
    gray = sample.image.mean(axis=2)
    assert np.median(gray[row, column]) < 0.75 * np.median(gray)
    assert sample.skeleton.radius.max() > 1.2 * whole.skeleton.radius.max(), "a crop magnifies the radius too"


@pytest.mark.slow
def test_nothing_is_rendered_for_views_that_are_not_used(rendered):
    """Not even the smallest window has as few as two nodes, so no image can be used."""
    stream = MixtureDataset(
        [SourceConfig(presets=("orchard",), grid_px=4)], DataConfig(image_size=SIDE, max_nodes=2), 0
    )
    with pytest.raises(TreeformerError, match="50 images in a row cannot be used"):
        stream[0]
    assert rendered == []
    assert EvalDataset([ORCHARD], DataConfig(image_size=SIDE, max_nodes=2))[0][0] is None
    assert rendered == []


@pytest.mark.slow
def test_zoom_changes_radius_and_length_alike(tmp_path):
    tree = Skeleton([(64, 110), (64, 70), (40, 30)], [(0, 1), (1, 2)], root=0, radius=[4, 3, 2], image_size=(128, 128))
    write_pair(np.full((128, 128, 3), 200, np.uint8), tree, tmp_path, "tree")
    source = SourceConfig(path=str(tmp_path), split="", zoom=(0.5, 2.0))
    stream = MixtureDataset([source], DataConfig(image_size=512, max_nodes=9), 5)  # a frame that never cuts the tree
    factors = []
    for position in range(60):
        sample, _ = stream[position]
        factor = sample.skeleton.length / tree.length
        np.testing.assert_allclose(sample.skeleton.radius, factor * tree.radius, rtol=1e-6)
        factors.append(factor)
    assert 0.5 <= min(factors) < 0.6
    assert 1.7 < max(factors) <= 2.0
    assert 0.3 < np.mean(np.asarray(factors) < 1) < 0.7, "as often smaller as larger"


def test_images_without_radii_have_none(tmp_path):
    tree = Skeleton([(4, 28), (4, 4)], [(0, 1)], root=0, image_size=(32, 32))
    write_pair(np.full((32, 32, 3), 200, np.uint8), tree, tmp_path, "tree")
    source = SourceConfig(path=str(tmp_path), split="", augmentation="strong")
    sample, _ = MixtureDataset([source], DataConfig(image_size=64, max_nodes=9), 5)[0]
    assert sample.skeleton.radius is None


def test_an_image_that_contradicts_its_skeleton_is_skipped(tmp_path):
    tree = Skeleton([(4, 28), (4, 4)], [(0, 1)], root=0, image_size=(32, 32))
    for stem, side in (("good", 32), ("wrong", 16)):
        write_pair(np.full((side, side, 3), 200, np.uint8), tree, tmp_path, stem)
    stream = MixtureDataset([SourceConfig(path=str(tmp_path), split="")], DataConfig(image_size=64, max_nodes=9), 5)
    drawn = [stream[position] for position in range(8)]
    assert {sample.name for sample, _ in drawn} == {str(tmp_path / "good.png")}
    reasons = {entry.reason for _, skipped in drawn for entry in skipped}
    assert len(reasons) == 1
    assert "wrong.json: belongs to an image of 32×32 px, but wrong.png has 16×16 px" in reasons.pop()


def test_an_unreadable_skeleton_is_skipped(tmp_path):
    write_pair(np.zeros((32, 32, 3), np.uint8), Skeleton([(4, 4)], [], image_size=(32, 32)), tmp_path, "a")
    (tmp_path / "a.json").write_text("{")
    dataset = EvalDataset([SourceConfig(path=str(tmp_path), split="")], DataConfig(image_size=64))
    sample, [skipped] = dataset[0]
    assert sample is None
    assert isinstance(skipped, Skipped)


def test_crowded_batches_need_a_source(tmp_path):
    with pytest.raises(ConfigError, match="positive crowded_weight"):
        MixtureDataset([ORCHARD], DataConfig(image_size=SIDE, crowded_every=4), 0)
    stream = MixtureDataset([ORCHARD], DataConfig(image_size=SIDE), 0)
    with pytest.raises(TreeformerError, match="not configured"):
        stream.draw(0, crowded=True)


@pytest.mark.parametrize("weight", [0.0, -1.0, math.nan, math.inf])
def test_weights_of_sources_are_positive_and_finite(weight):
    with pytest.raises(ConfigError, match="weight of a source must be positive"):
        MixtureDataset([replace(ORCHARD, weight=weight), ORCHARD], DataConfig(image_size=SIDE), 0)
    if weight != 0:
        dense = [replace(ORCHARD, crowded_weight=weight), replace(ORCHARD, crowded_weight=1.0)]
        with pytest.raises(ConfigError, match="positive crowded_weight"):
            MixtureDataset(dense, DataConfig(image_size=SIDE, crowded_every=4), 0)


def test_validation_keeps_crowded_images_if_there_are_crowded_batches(rendered):
    source = SourceConfig(presets=("orchard",), grid_px=16, split="valid", count=6, crowded_weight=1)
    few = EvalDataset([source], DataConfig(image_size=SIDE, max_nodes=45))
    many = EvalDataset([source], DataConfig(image_size=SIDE, max_nodes=45, crowded_every=4))
    assert sum(few[index][0] is not None for index in range(6)) < 6
    assert all(many[index][0] is not None for index in range(6))


def test_skipped_images_of_the_same_name_in_several_folders_are_all_reported(tmp_path):
    config = DataConfig(image_size=64, max_nodes=3)
    tree = Skeleton([(4, 28), (4, 4)], [(0, 1)], root=0, image_size=(32, 32))
    dense = Skeleton([(4, y) for y in (28, 20, 12, 4)], [(0, 1), (1, 2), (2, 3)], root=0, image_size=(32, 32))
    for folder in ("one", "two"):
        for stem, skeleton in (("damaged", tree), ("dense", dense), ("unreadable", tree)):
            write_pair(np.full((32, 32, 3), 200, np.uint8), skeleton, tmp_path / folder, stem)
        (tmp_path / folder / "damaged.json").write_text("{")
        (tmp_path / folder / "unreadable.png").write_bytes(b"no image")
    sources = [SourceConfig(path=str(tmp_path / folder), split="") for folder in ("one", "two")]
    images = EvalDataset(sources, config)
    report = SkipReport(skipped for index in range(len(images)) for skipped in images[index][1])
    files = ("damaged.json", "dense.png", "unreadable.png")
    expected = [str(tmp_path / folder / file) for folder in ("one", "two") for file in files]
    assert [entry.reason.partition(": ")[0] for entry in report] == expected
