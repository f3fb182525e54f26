"""The next batch of an engine: consecutive rows of memory that worker processes fill, or copies of images.

Copying the pixels would take a third of the time of the process that drives a GPU (docs/lab/performance.md). If the
images of a batch lie side by side in shared memory, the engine reads them there.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from treeformer._util.arrays import ImageArray
from treeformer.inference.engine import Engine, input_memory

Owner = TypeVar("Owner")


class InputBatch(Generic[Owner]):
    """Collects the images of a batch, with the owner of each.

    The engine reads the last batch while the next one is filled, so two buffers alternate. Without `shared` memory
    (R,S,S,3) that the engine may read, all images are copied.
    """

    def __init__(self, engine: Engine, size: int, shared: ImageArray | None = None) -> None:
        self._engine, self._size, self._shared = engine, size, shared
        self._buffers: list[ImageArray] = []  # the next one last
        self._owners: list[Owner] = []
        self._first_row: int | None = None  # of the batch in shared memory, None if it is a copy

    def __len__(self) -> int:
        return len(self._owners)

    @property
    def is_full(self) -> bool:
        """True if the batch has to be taken before the next image is added."""
        return len(self) == self._size

    def add(self, owner: Owner, pixels: ImageArray, row: int | None = None) -> None:
        """Add an image (S,S,3); `row` is its row of shared memory, None if it is elsewhere."""
        if not self._owners and self._shared is not None:
            self._first_row = row
        elif self._first_row is None or row != self._first_row + len(self):
            self.copy_rows()
        if self._first_row is None:
            self._buffer()[len(self)] = pixels
        self._owners.append(owner)

    def copy_rows(self) -> None:
        """Copy the images that are still in shared memory, so that their rows may be overwritten."""
        if self._first_row is not None and self._shared is not None:
            self._buffer()[: len(self)] = self._shared[self._first_row : self._first_row + len(self)]
        self._first_row = None

    def take(self) -> tuple[list[Owner], ImageArray]:
        """Return the owners and the pixels (B,S,S,3) of the batch, and begin the next one."""
        owners, self._owners = self._owners, []
        if self._first_row is not None and self._shared is not None:
            return owners, self._shared[self._first_row : self._first_row + len(owners)]
        pixels = self._buffer()[: len(owners)]
        self._buffers.reverse()
        return owners, pixels

    def _buffer(self) -> ImageArray:
        if not self._buffers:
            self._buffers = [input_memory(self._engine, self._size) for _ in range(2)]
        return self._buffers[-1]
