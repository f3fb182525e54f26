"""Keep the images of a folder data set in memory, so that each is read and checked only once.

Annotated data sets are small, so most of them fit. Only the pixels count towards the limit.
"""

from __future__ import annotations

from treeformer.data.datasets import FolderDataset, Sample, Skipped

MAX_BYTES = 256 << 20
"""Default limit of cached pixels per process, bytes."""


class CachedDataset:
    """A folder data set that caches samples until the memory limit is reached.

    Args:
        dataset: the data set to read from.
        max_bytes: limit of cached pixels, bytes.

    Attributes:
        dataset: the data set to read from.
        free_bytes: bytes of pixels that can still be cached.
        cached: the cached samples by index.
    """

    def __init__(self, dataset: FolderDataset, max_bytes: int = MAX_BYTES) -> None:
        self.dataset = dataset
        self.free_bytes = max_bytes
        self.cached: dict[int, Sample] = {}

    def __len__(self) -> int:
        return len(self.dataset)

    def load(self, index: int) -> Sample | Skipped:
        """Return a sample with read-only pixels, or the reason why it cannot be used."""
        if index in self.cached:
            return self.cached[index]
        loaded = self.dataset.load(index)
        if isinstance(loaded, Sample):
            loaded.image.flags.writeable = False
            if loaded.image.nbytes <= self.free_bytes:
                self.free_bytes -= loaded.image.nbytes
                self.cached[index] = loaded
        return loaded
