"""Predict several views of an image and choose the tree on which they agree best.

The network reads a mirror image or a shifted window as new pixels: what it is sure of, it finds again, and where it
doubts, it decides otherwise. The mean agreement also says how far an image can be trusted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from treeformer._util.arrays import ImageArray
from treeformer._util.images import ImageSource, open_lazy
from treeformer.decoding.postprocess import PLACE_DIGITS, with_plants_and_axes
from treeformer.errors import TreeformerError
from treeformer.skeleton import Skeleton

# (scale, shift right, shift down) of the windows that are predicted, each also mirrored. Shifts are fractions of the
# image, so that the network's grid and the borders of tiles lie elsewhere on the plant.
WINDOWS = ((1.0, 0.0, 0.0), (0.92, 0.02, 0.05), (1.0, -0.035, -0.025))
MAX_VIEWS = 2 * len(WINDOWS)


def check_views(views: int) -> None:
    """Raise TreeformerError unless a number of views is between 1 and 6."""
    if not isinstance(views, int) or isinstance(views, bool) or not 1 <= views <= MAX_VIEWS:
        raise TreeformerError(f"the number of views must be between 1 and {MAX_VIEWS}, not {views!r}")


@dataclass(frozen=True)
class View:
    """A view of an image, which is computed when it is opened: many of them may wait for their turn."""

    image: ImageSource  # a path, a Pillow image or an array
    number: int  # from 1; the image itself is view 0

    def open(self) -> ImageArray:
        """Return (H,W,3) uint8 RGB of the size of the image."""
        from treeformer.data.augmentation import warp

        opened = open_lazy(self.image)
        pixels = opened.part((0, 0, *opened.size))
        return warp(pixels, _to_view(self.number, *opened.size)[:2], opened.size)


def views_of(image: ImageSource, count: int) -> Iterator[ImageSource | View]:
    """Yield an image and its further views, `count` in all, which have not been computed yet."""
    yield image
    for number in range(1, count):
        yield View(image, number)


def choose(trees: Sequence[Skeleton]) -> Skeleton:
    """Choose the tree that agrees best with those of the other views, in px of the image.

    The trees are in the order of the views' numbers, in px of the view. `prediction` of the metadata has the mean TOPO
    F1 between the trees of two views as `view_agreement`.
    """
    from treeformer.metrics import topo

    first = trees[0]
    assert first.image_size is not None  # predictions have it
    width, height = first.image_size
    moved = [first]
    for number, tree in enumerate(trees[1:], start=1):
        back = np.linalg.inv(_to_view(number, width, height))[:2]
        moved.append(tree.transform(back, image_size=(width, height)))
    f1 = np.eye(len(moved))
    for i in range(len(moved)):
        for j in range(i):
            f1[i, j] = f1[j, i] = topo(moved[i], moved[j]).f1
    agreement = (f1.sum(axis=1) - 1) / (len(moved) - 1)
    chosen = moved[int(agreement.argmax())]
    # The working size is chosen per view.
    record = {**chosen.metadata.get("prediction", {}), "view_agreement": round(float(agreement.mean()), 4)}
    chosen = chosen.replace(
        nodes=np.clip(chosen.nodes, 0, (width, height)).round(PLACE_DIGITS),
        radius=None if chosen.radius is None else chosen.radius.round(PLACE_DIGITS),
        plant=None,  # a mirrored view numbers plants and axes from right to left
        image_name=first.image_name,
        metadata={**chosen.metadata, "prediction": record},
    )
    return with_plants_and_axes(chosen)


def view_agreement(skeleton: Skeleton) -> float | None:
    """Return the agreement of the views that a skeleton was predicted from, None if there was one view only."""
    record = skeleton.metadata.get("prediction")
    value = record.get("view_agreement") if isinstance(record, Mapping) else None
    return float(value) if isinstance(value, int | float) else None


def _to_view(number: int, width: int, height: int) -> NDArray[np.float64]:
    """Return the (3,3) matrix that moves points of the image to a view."""
    scale, right, down = WINDOWS[number // 2]
    window = np.array([[scale, 0, right * width], [0, scale, down * height], [0, 0, 1]])
    mirror = np.array([[-1.0, 0, width], [0, 1, 0], [0, 0, 1]])
    return mirror @ window if number % 2 else window
