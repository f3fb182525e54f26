"""Encode and write images, complete or not at all."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

from PIL import Image

from treeformer._util.files import atomic_write_checked
from treeformer._util.images import UNREADABLE, error_reason
from treeformer.errors import FormatError


def encode_image(image: Image.Image, suffix: str, **options: Any) -> bytes:
    """Return an image as the content of a file of the format of `suffix`, with options of `PIL.Image.Image.save`.

    Pillow takes an incomplete write for success if it writes JPEG to a file. Bytes in memory are always complete.

    Example:
        >>> encode_image(Image.new("RGB", (4, 4)), ".png")[1:4]
        b'PNG'
    """
    Image.preinit()
    # All formats are registered only if the common ones do not suffice: that takes 0.2 s.
    name = Image.EXTENSION.get(suffix.lower()) or Image.registered_extensions().get(suffix.lower())
    if name is None:
        raise FormatError(f"{suffix!r} is not the suffix of an image format; use .png")
    buffer = io.BytesIO()
    try:
        image.save(buffer, name, **options)
    except (*UNREADABLE, OverflowError, KeyError) as error:
        raise FormatError(f"the image cannot be stored as {name}: {error_reason(error)}") from None
    return buffer.getvalue()


def write_image(image: Image.Image, path: str | os.PathLike[str], **options: Any) -> None:
    """Write an image atomically; see `encode_image`. On a full disk, nothing is left under the name of the file."""
    target = Path(path)
    try:
        data = encode_image(image, target.suffix, **options)
    except FormatError as error:
        raise FormatError(f"{target.name}: {error}") from None
    with atomic_write_checked(target) as temporary:
        temporary.write_bytes(data)
