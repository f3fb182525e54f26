"""Keep the images of a folder data set in memory, so that each is read and checked only once.

Annotated data sets are small, so most of them fit. Only the pixels count towards the limit.
"""

from __future__ import annotations

from treeformer._util.arrays import ImageArray
from treeformer.data.datasets import FolderDataset, OpenedSample, Sample, Skipped

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
            self._keep(index, loaded)
        return loaded

    def open(self, index: int) -> OpenedSample | Skipped:
        """Return a sample whose image is read on request and is read-only, or the reason why it cannot be used."""
        if index in self.cached:
            return OpenedSample.of(self.cached[index])
        opened = self.dataset.open(index)
        if isinstance(opened, Skipped):
            return opened

        def read_image() -> ImageArray:
            sample = Sample(opened.read_image(), opened.skeleton, opened.name)
            self._keep(index, sample)
            return sample.image

        return OpenedSample(opened.skeleton, opened.name, read_image)

    def _keep(self, index: int, sample: Sample) -> None:
        """Make the pixels read-only and keep the sample if there is room."""
        sample.image.flags.writeable = False
        if sample.image.nbytes <= self.free_bytes:
            self.free_bytes -= sample.image.nbytes
            self.cached[index] = sample
