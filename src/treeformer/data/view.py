"""Views: what the model sees of an opened sample. The skeleton comes first, the image only if the view is used.

Most of the time of a training image is spent on rendering or reading and warping it. Whether a view has too many nodes
is known from its skeleton, which takes a fraction of that time.

A `size` is (width, height) of the model's input, px.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from treeformer._util.arrays import FloatArray
from treeformer.data.augmentation import Augmentation, move, warp
from treeformer.data.cache import CachedDataset
from treeformer.data.gaps import paint_gaps
from treeformer.data.sample import OpenedSample, Sample, Skipped
from treeformer.data.synthetic_dataset import SyntheticDataset
from treeformer.data.torch_warp import warp as torch_warp
from treeformer.errors import TreeformerError
from treeformer.skeleton import Skeleton

# A view with too many nodes is replaced by a smaller window on the image: its scale is multiplied by these in turn.
CROP_ZOOMS = (1.3, 1.7, 2.2, 3.0, 4.0, 6.0)


@dataclass(frozen=True)
class Source:
    """An opened source of images."""

    dataset: CachedDataset | SyntheticDataset  # data set to load from
    indices: Sequence[int]  # of the images to use
    weight: float  # probability of drawing from this source, relative to the others
    augmentation: Augmentation | None  # augmentation with the frame of the model's input, or None
    spacing_px: float  # node spacing to resample to, px; 0 keeps the nodes
    grid_px: float  # spacing of the grid whose crossings become nodes, px; 0 keeps the nodes
    crowded_weight: float = 0.0  # weight in crowded batches
    gaps: float = 0.0  # mean number of gaps painted into the branches of an image


@dataclass(frozen=True)
class View:
    """An opened sample as the model will see it."""

    opened: OpenedSample
    skeleton: Skeleton  # in the view, px
    curves: Skeleton  # that skeleton before it was resampled
    affine: FloatArray | None  # (2,3) map from the image to the view. None if both are the same.
    size: tuple[int, int]  # (width, height) of the view, px
    augmentation: Augmentation | None  # changes light and noise, None for an exact view
    gaps: float = 0.0  # mean number of gaps painted into the branches

    def sample(self, rng: np.random.Generator) -> Sample | Skipped:
        """Read or render the image, warp it and change its light; or return the reason why it cannot be used."""
        try:
            image = self.opened.read_image()
        except TreeformerError as error:
            return Skipped(self.opened.name, str(error))
        if self.affine is not None:
            change = warp if self.augmentation is None else torch_warp
            image = change(image, self.affine, self.size)
        if self.gaps:
            image = paint_gaps(image, self.skeleton, self.gaps, rng)
        if self.augmentation is not None and self.affine is not None:
            image = self.augmentation.relight(image, rng)
        return Sample(image, self.skeleton, self.opened.name, self.curves)


def draw_view(source: Source, opened: OpenedSample, rng: np.random.Generator, size: tuple[int, int]) -> View:
    """Draw a random view if the source has an augmentation, otherwise fit the whole image into the frame of a size."""
    skeleton, augmentation = opened.skeleton, source.augmentation
    image_size = skeleton.image_size
    assert image_size is not None  # part of every sample
    affine: FloatArray | None = None
    if augmentation is not None:
        affine, size = augmentation.draw_affine(image_size, skeleton.nodes, rng)
        skeleton = augmentation.move_skeleton(skeleton, affine, size)
    elif image_size != size:
        affine = into_frame(image_size, size)
        skeleton = move(skeleton, affine, size)
    curves = skeleton
    if source.spacing_px:
        skeleton = skeleton.resample(source.spacing_px)
    if source.grid_px:
        skeleton = skeleton.sample_at_grid_crossings(source.grid_px)
    return View(opened, skeleton, curves, affine, size, augmentation, source.gaps)


def draw_cropped_view(
    source: Source, opened: OpenedSample, rng: np.random.Generator, size: tuple[int, int], max_nodes: int
) -> View | Skipped:
    """Draw a view with at most `max_nodes` nodes: smaller windows on the image are tried in turn.

    If all have more, the reason is returned.
    """
    view = draw_view(source, opened, rng, size)
    for zoom in CROP_ZOOMS:
        if len(view.skeleton) <= max_nodes:
            break
        view = draw_view(replace(source, augmentation=_window(source, opened, size, zoom)), opened, rng, size)
    return view if len(view.skeleton) <= max_nodes else too_dense(view, max_nodes)


def too_dense(view: View, max_nodes: int) -> Skipped:
    """Return the reason why a view with too many nodes cannot be used."""
    name = view.opened.name
    return Skipped(name, f"{name}: {len(view.skeleton)} nodes, more than max_nodes = {max_nodes}")


def _window(source: Source, opened: OpenedSample, size: tuple[int, int], zoom: float) -> Augmentation:
    """Return the augmentation of a source at a larger scale. Without an augmentation, it only crops."""
    if source.augmentation is not None:
        low, high = source.augmentation.scale
        return replace(source.augmentation, scale=(zoom * low, zoom * high))
    assert opened.skeleton.image_size is not None
    scale = zoom * float(into_frame(opened.skeleton.image_size, size)[0, 0])
    return Augmentation(flip=0.0, scale=(scale, scale), frame=size)


def into_frame(image_size: tuple[int, int], size: tuple[int, int]) -> FloatArray:
    """Return the (2,3) map of a whole image to the center of a frame. A larger image is scaled down."""
    width, height = image_size
    scale = min(1.0, size[0] / width, size[1] / height)
    return np.asarray(
        [[scale, 0, (size[0] - scale * width) / 2], [0, scale, (size[1] - scale * height) / 2]], dtype=np.float64
    )
