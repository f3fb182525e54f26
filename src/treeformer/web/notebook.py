"""The editor inside Jupyter notebooks: `treeformer.edit_widget`. It needs the extra `notebook`, no server."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from treeformer._util.image_output import encode_image
from treeformer._util.images import ImageSource, open_lazy
from treeformer.errors import TreeformerError
from treeformer.skeleton import Skeleton

if TYPE_CHECKING:
    from treeformer.web.widget import SkeletonWidget

MAX_SIDE_PX = 4096  # larger images are sent reduced; the skeleton keeps its coordinates
JPEG_QUALITY = 90
MIN_HEIGHT_PX = 320


def edit_widget(skeleton: Skeleton | None, image: ImageSource, *, height: int = 600) -> SkeletonWidget:
    """Edit a skeleton in a notebook.

    The widget has the tools of the browser editor, with undo and redo. Its attribute `skeleton` is always the current
    result. The image is part of the widget: it needs neither a server nor the file any more.

    Args:
        skeleton: The skeleton to correct, px of the image. None starts with an empty image.
        image: A path, a Pillow image, or an array (H,W), (H,W,1), (H,W,3) or (H,W,4).
        height: Height of the widget, px of the screen.

    Returns:
        The widget. A cell shows it if it is the cell's last value.

    Raises:
        TreeformerError: If the image cannot be read, if the skeleton belongs to an image of another size, or if
            anywidget is not installed.

    Example:
        >>> from treeformer import edit_widget, examples, read
        >>> image = examples.FOLDER / "seedling.jpg"
        >>> widget = edit_widget(read(image.with_suffix(".rsml")), image)
        >>> len(widget.skeleton) == len(read(image.with_suffix(".rsml")))
        True
    """
    try:
        from treeformer.web.widget import SkeletonWidget
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "treeformer":
            raise
        raise TreeformerError("the widget needs anywidget: pip install 'treeformer[notebook]'") from None
    if skeleton is not None and not isinstance(skeleton, Skeleton):
        raise TreeformerError(f"a Skeleton or None is needed, not {type(skeleton).__name__}")
    if height < MIN_HEIGHT_PX:
        raise TreeformerError(f"height is {height}: at least {MIN_HEIGHT_PX} px are needed")
    opened = open_lazy(image, lambda size: min(1.0, MAX_SIDE_PX / max(size)))
    size = opened.original_size
    if skeleton is not None and skeleton.image_size not in (None, size):
        raise TreeformerError(f"the image has {size[0]}×{size[1]} px, the skeleton's image has another size")
    name = (skeleton.image_name if skeleton is not None else None) or "image"
    if isinstance(image, str | os.PathLike):
        name = Path(image).name
    if skeleton is None:
        skeleton = Skeleton([], [], image_size=size, image_name=name)
    encoded = encode_image(opened.whole(), ".jpg", quality=JPEG_QUALITY)
    return SkeletonWidget(skeleton, encoded, size, name=name, height=height)
