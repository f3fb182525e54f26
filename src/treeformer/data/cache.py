"""Real data sets are small: their images stay in memory, so that each is read and its skeleton checked only once."""

from __future__ import annotations

from treeformer.data.datasets import FolderDataset, Sample, Skipped

MOST_BYTES = 256 << 20  # of pixels, in each process that makes images


class CachedDataset:
    """A folder data set whose images are kept, once loaded, until `most_bytes` of pixels are full."""

    def __init__(self, dataset: FolderDataset, most_bytes: int = MOST_BYTES) -> None:
        self.dataset = dataset
        self.room = most_bytes
        self.kept: dict[int, Sample] = {}

    def __len__(self) -> int:
        return len(self.dataset)

    def load(self, index: int) -> Sample | Skipped:
        """The sample, whose pixels must not be changed, or why there is none."""
        if index in self.kept:
            return self.kept[index]
        loaded = self.dataset.load(index)
        if isinstance(loaded, Sample):
            loaded.image.flags.writeable = False
            if loaded.image.nbytes <= self.room:
                self.room -= loaded.image.nbytes
                self.kept[index] = loaded
        return loaded
