"""What all data sets share: samples, skipped images and their report.

A data set has `len` and `load(index)`, which returns a `Sample`, or a `Skipped` with a one-line reason if the files are
invalid. A `Skipped` is a value and not an exception, so that worker processes return it like any sample. The consumer
collects it in a `SkipReport`. `dataset[index]` raises an error instead.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from treeformer._util.arrays import ImageArray
from treeformer.skeleton import Skeleton

# Number of reasons that a report lists.
MAX_REASONS = 20


@dataclass(frozen=True)
class Sample:
    """An image with its skeleton.

    Attributes:
        image: (H,W,3) uint8 RGB.
        skeleton: a forest inside the image, in px, with `image_size` set.
        name: name of the image within its data set.
        curves: the skeleton before nodes between keypoints were left out, None if it is the same.
    """

    image: ImageArray
    skeleton: Skeleton
    name: str
    curves: Skeleton | None = None


@dataclass(frozen=True)
class OpenedSample:
    """A sample whose image is read or rendered only on request."""

    skeleton: Skeleton  # forest inside the image, in px, with `image_size` set
    name: str  # path of the image file, or name of a synthetic image
    # returns the image, (H,W,3) uint8 RGB. Raises TreeformerError if it does not fit the skeleton.
    read_image: Callable[[], ImageArray]

    @classmethod
    def of(cls, sample: Sample) -> OpenedSample:
        """Return an opened sample that has its image already."""
        return cls(sample.skeleton, sample.name, lambda: sample.image)


@dataclass(frozen=True)
class Skipped:
    """An image that cannot be used.

    Attributes:
        name: identifies the image among those of a report.
        reason: one line that identifies the file and the problem.
    """

    name: str
    reason: str


class Dataset(Protocol):
    """The interface of a data set."""

    def __len__(self) -> int: ...

    def load(self, index: int) -> Sample | Skipped:
        """Return a sample, or the reason why it cannot be used."""
        ...


class SkipReport:
    """The skipped images of a run, each counted once; `str` returns a summary.

    Args:
        skipped: images to start with.

    Example:
        >>> report = SkipReport([Skipped("a.png", "a.png: the image cannot be read")])
        >>> report.add(Skipped("a.png", "a.png: the image cannot be read"))
        >>> print(report)
        1 image was skipped
          a.png: the image cannot be read
    """

    def __init__(self, skipped: Iterable[Skipped] = ()) -> None:
        self._reasons: dict[str, str] = {}
        for entry in skipped:
            self.add(entry)

    def add(self, skipped: Skipped) -> None:
        """Add an image. Adding it again has no effect."""
        self._reasons.setdefault(skipped.name, skipped.reason)

    def merge(self, other: SkipReport) -> None:
        """Add all images of another report, for example from another process."""
        for entry in other:
            self.add(entry)

    def __iter__(self) -> Iterator[Skipped]:
        return iter(Skipped(name, reason) for name, reason in self._reasons.items())

    def __len__(self) -> int:
        return len(self._reasons)

    def __str__(self) -> str:
        heading = "1 image was skipped" if len(self) == 1 else f"{len(self)} images were skipped"
        shown = [f"  {reason}" for reason in itertools.islice(self._reasons.values(), MAX_REASONS)]
        rest = len(self) - len(shown)
        return "\n".join([heading, *shown, *([f"  and {rest} more"] if rest else [])])


def samples(dataset: Dataset, report: SkipReport | None = None) -> Iterator[Sample]:
    """Iterate over the usable samples of a data set.

    Args:
        dataset: the data set.
        report: receives the skipped images; None ignores them.

    Yields:
        The samples, in order.
    """
    for index in range(len(dataset)):
        loaded = dataset.load(index)
        if isinstance(loaded, Sample):
            yield loaded
        elif report is not None:
            report.add(loaded)
