"""The cache of folder data sets."""

from __future__ import annotations

import numpy as np
import pytest

from treeformer import Skeleton, data
from treeformer.data.cache import ImageCache
from treeformer.data.config import DataConfig, SourceConfig
from treeformer.data.folder_dataset import write_pair
from treeformer.data.mixture import MixtureDataset


@pytest.fixture
def folder(tmp_path):
    for number in range(3):
        image = np.full((20, 30, 3), number, dtype=np.uint8)
        write_pair(image, Skeleton([(1, 1), (9, 9)], [(0, 1)], image_size=(30, 20)), tmp_path, str(number))
    return tmp_path


def test_images_are_read_once_while_memory_lasts(folder, monkeypatch):
    read = []
    load = data.FolderDataset.load
    monkeypatch.setattr(data.FolderDataset, "load", lambda self, index: read.append(index) or load(self, index))
    cached = ImageCache(max_bytes=2 * 20 * 30 * 3).open(folder)
    assert len(cached) == 3
    for index in (0, 1, 2, 0, 1, 2, 2):
        loaded = cached.load(index)
        assert (loaded.image == index).all()
        assert len(loaded.skeleton) == 2
        with pytest.raises(ValueError, match="read-only"):
            loaded.image[0, 0] = 1
    assert read == [0, 1, 2, 2, 2], "only two images fit"


def test_an_invalid_image_is_skipped_every_time(folder):
    cached = ImageCache().open(folder)
    cached.dataset.pairs[1][1].write_text("{")
    assert [type(cached.load(1)) for _ in range(2)] == [data.Skipped] * 2


def test_all_folders_share_one_limit(folder, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    for path in folder.iterdir():
        (other / path.name).write_bytes(path.read_bytes())
    cache = ImageCache(max_bytes=4 * 20 * 30 * 3)
    for opened in (cache.open(folder), cache.open(other)):
        for index in range(3):
            opened.load(index)
    assert [len(opened.cached) for opened in cache.datasets.values()] == [3, 1]
    assert cache.free_bytes == 0


def test_sources_of_one_folder_share_its_images(folder):
    options = {"weight": 1.0, "path": str(folder), "split": ""}
    sources = [SourceConfig(**options), SourceConfig(**options, zoom=(0.5, 2.0))]
    mixture = MixtureDataset(sources, DataConfig(), seed=0)
    assert mixture.sources[0].dataset is mixture.sources[1].dataset
