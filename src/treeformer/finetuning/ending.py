"""What follows training: how long it will take on this machine, and whether the 8-bit graph is good enough."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from treeformer._util.arrays import ImageArray
from treeformer.finetuning.annotated import AnnotatedImage
from treeformer.finetuning.measuring import mean_of_groups
from treeformer.metrics import topo
from treeformer.skeleton import Skeleton

# Estimates of the time after training are multiplied by this, because nothing after them can be shortened.
RESERVE = 1.25
# The 32-bit graph takes at most this many times as long per image as the 8-bit graph.
FLOAT_FACTOR = 3.0
# Images of the rehearsal. The first one takes longer than the others.
REHEARSAL_IMAGES = 2
# The 8-bit graph may lose this much F1, plus two standard errors of the loss, and never more than the second number.
MAX_LOSS, MOST_LOSS = 0.01, 0.05


class EndingTime(NamedTuple):
    """Times measured before training, from which the time after training follows, s.

    Attributes:
        export: writing the model folder with its 8-bit graph.
        prediction: predicting one image with a model folder.
        validated: number of validation images, or of training images without validation.
        judged: number of images that choose the node threshold and judge the 8-bit graph.
        views: number of images of one validation.
    """

    export: float
    prediction: float
    validated: int
    judged: int
    views: int

    def seconds(self, validation: float) -> float:
        """Return the estimated time of everything after training, s.

        Args:
            validation: time of one validation, s.
        """
        thresholds = validation * self.judged / max(1, self.views)
        predictions = self.prediction * (self.judged + FLOAT_FACTOR * self.validated)
        return RESERVE * (self.export + predictions + thresholds)


def rehearse_export(
    write: Callable[[Iterable[ImageArray]], object],
    images: Iterator[ImageArray],
    count: int,
    clock: Callable[[], float],
) -> float:
    """Estimate how long an export takes by an export that measures the ranges of the 8-bit graph on two images only.

    Args:
        write: writes a model folder. Its argument are the images for the ranges.
        images: these images, computed when they are needed.
        count: number of images of the real export.
        clock: returns the time, s.

    Returns:
        The estimated time of the real export, s.
    """
    requests: list[float] = []

    def watched() -> Iterator[ImageArray]:
        for _ in range(REHEARSAL_IMAGES):
            requests.append(clock())
            yield next(images)
        requests.append(clock())

    began = clock()
    write(watched())
    seconds = clock() - began
    per_image = requests[-1] - requests[-2] if len(requests) > 1 else 0.0
    return seconds + max(0, count - REHEARSAL_IMAGES) * per_image


class Loss(NamedTuple):
    """The F1 that the 8-bit graph loses.

    Attributes:
        mean: mean over the images.
        error: its standard error, infinite for one image.
    """

    mean: float
    error: float

    @property
    def is_too_large(self) -> bool:
        """True if the loss exceeds 0.01 by more than two standard errors, or 0.05 in any case."""
        return self.mean > min(MAX_LOSS + 2 * self.error, MOST_LOSS)


def int8_loss(
    exact: Sequence[Skeleton], rounded: Sequence[Skeleton], images: Sequence[AnnotatedImage], groups: Sequence[int]
) -> Loss:
    """Compare the trees of the 8-bit graph with those of the network, image by image.

    Args:
        exact: trees of the network, one per image.
        rounded: trees of the 8-bit graph.
        images: the images with their ground truth.
        groups: a number per image. Views of the same annotation have the same one and count as one image.

    Returns:
        The mean loss of F1 and its standard error.
    """
    trees = zip(exact, rounded, images, strict=True)
    losses = [topo(one, image.skeleton).f1 - topo(two, image.skeleton).f1 for one, two, image in trees]
    return Loss(*mean_of_groups(losses, groups))
