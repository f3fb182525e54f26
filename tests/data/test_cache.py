"""The cache of folder data sets."""

from __future__ import annotations

import numpy as np
import pytest

from treeformer import Skeleton, data
from treeformer.data.cache import CachedDataset
from treeformer.data.datasets import write_pair


@pytest.fixture
def folder(tmp_path):
    for number in range(3):
        image = np.full((20, 30, 3), number, dtype=np.uint8)
        write_pair(image, Skeleton([(1, 1), (9, 9)], [(0, 1)], image_size=(30, 20)), tmp_path, str(number))
    return data.FolderDataset(tmp_path)


def test_images_are_read_once_while_memory_lasts(folder, monkeypatch):
    read = []
    load = data.FolderDataset.load
    monkeypatch.setattr(data.FolderDataset, "load", lambda self, index: read.append(index) or load(self, index))
    cached = CachedDataset(folder, max_bytes=2 * 20 * 30 * 3)
    assert len(cached) == 3
    for index in (0, 1, 2, 0, 1, 2, 2):
        loaded = cached.load(index)
        assert (loaded.image == index).all()
        assert len(loaded.skeleton) == 2
        with pytest.raises(ValueError, match="read-only"):
            loaded.image[0, 0] = 1
    assert read == [0, 1, 2, 2, 2], "only two images fit"


def test_an_invalid_image_is_skipped_every_time(folder):
    folder.pairs[1][1].write_text("{")
    cached = CachedDataset(folder)
    assert [type(cached.load(1)) for _ in range(2)] == [data.Skipped] * 2
