"""Images that stay in memory."""

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


def test_each_is_read_once_as_long_as_there_is_room(folder, monkeypatch):
    read = []
    once = data.FolderDataset.load
    monkeypatch.setattr(data.FolderDataset, "load", lambda self, index: read.append(index) or once(self, index))
    kept = CachedDataset(folder, most_bytes=2 * 20 * 30 * 3)
    assert len(kept) == 3
    for index in (0, 1, 2, 0, 1, 2, 2):
        loaded = kept.load(index)
        assert (loaded.image == index).all()
        assert len(loaded.skeleton) == 2
        with pytest.raises(ValueError, match="read-only"):
            loaded.image[0, 0] = 1
    assert read == [0, 1, 2, 2, 2], "two fit"


def test_a_broken_one_is_named_every_time(folder):
    folder.pairs[1][1].write_text("{")
    kept = CachedDataset(folder)
    assert [type(kept.load(1)) for _ in range(2)] == [data.Skipped] * 2
