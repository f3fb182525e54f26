"""Keep the images of folder data sets in memory, so that each is read and checked only once.

Annotated data sets are small, so most of them fit. Only the pixels count towards the limit, which all data sets of a
process share: a mixture may have dozens, and training has a worker process per core.
"""

from __future__ import annotations

from os import PathLike

from treeformer._util.arrays import ImageArray
from treeformer.data.folder_dataset import FolderDataset
from treeformer.data.sample import OpenedSample, Sample, Skipped

MAX_BYTES = 1 << 30
"""Default limit of cached pixels per process, bytes."""


class ImageCache:
    """Folder data sets whose cached pixels share one limit, bytes. What is drawn first is kept.

    Attributes:
        free_bytes: bytes of pixels that can still be cached
        datasets: the opened data sets by folder and split
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.free_bytes = max_bytes
        self.datasets: dict[tuple[str, str | None], CachedDataset] = {}

    def open(self, folder: str | PathLike[str], split: str | None = None) -> CachedDataset:
        """Open a split of a folder data set, by default all images; one that is open already is shared."""
        key = (str(folder), split)
        if key not in self.datasets:
            self.datasets[key] = CachedDataset(FolderDataset(folder, split), self)
        return self.datasets[key]


class CachedDataset:
    """A folder data set that keeps samples while its cache has room.

    Attributes:
        cached: the cached samples by index
    """

    def __init__(self, dataset: FolderDataset, cache: ImageCache) -> None:
        self.dataset, self.cache = dataset, cache
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
        if sample.image.nbytes <= self.cache.free_bytes:
            self.cache.free_bytes -= sample.image.nbytes
            self.cached[index] = sample
