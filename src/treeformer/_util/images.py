"""Opening images: any file Pillow reads, any array; upright, 8-bit RGB, and whole or in parts where they are huge.

What becomes of the kinds of images:

- EXIF orientation turns an image upright, and sizes and coordinates are those of the upright one;
- transparency lies over white; palettes, grays and CMYK become RGB; of several pages or frames the first counts;
- grays of 16 bits are divided by the range of their bit depth, the least of 8, 10, 12, 14 and 16 bits that holds the
  brightest value (cameras store 12 bits in 16); wider integers and floats have no agreed range and are stretched over
  their own;
- colors of 16 bits keep their upper byte, as Pillow reads them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from treeformer._util.arrays import ImageArray
from treeformer.errors import FormatError, TreeformerError

IMAGE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".webp", ".gif"})
# 20,000×20,000 with some room; Pillow's own limit is 179 million.
MOST_PIXELS = 450_000_000
# An image that is reduced is converted to RGB so many pixels at a time.
STRIP_PIXELS = 16_000_000
BIT_DEPTHS = (8, 10, 12, 14, 16)
# What Pillow raises for files that are broken or out of reach.
UNREADABLE = (OSError, ValueError, SyntaxError, EOFError)

ORIENTATION_TAG = 0x0112
# What makes an image upright, by its EXIF orientation.
TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
SIDEWAYS = {TURNS[orientation] for orientation in (5, 6, 7, 8)}

ImageSource = str | os.PathLike[str] | Image.Image | NDArray[Any]
Box = tuple[int, int, int, int]


class _PillowLimit:
    """How many threads are reading, and the limit to put back when none is."""

    def __init__(self) -> None:
        self.lock, self.users = threading.Lock(), 0
        self.usual: int | None = None


_pillow_limit = _PillowLimit()


@dataclass(frozen=True)
class LazyImage:
    """An image, upright, whose parts are converted to RGB when they are asked for.

    Attributes:
        original_size: (width, height) px of the file's image, upright.
    """

    original_size: tuple[int, int]
    _image: Image.Image
    _range: tuple[float, float] | None

    @property
    def size(self) -> tuple[int, int]:
        """(width, height) px of this image, which is the original's unless it was scaled when it was opened."""
        return self._image.size

    def part(self, box: Box) -> ImageArray:
        """(height, width, 3) RGB of the pixels from left, top to right, bottom, which lie within the image."""
        image = self._image if box == (0, 0, *self.size) else self._image.crop(box)
        return np.asarray(_as_rgb(image, self._range))

    def whole(self) -> Image.Image:
        """All of it as RGB."""
        return _as_rgb(self._image, self._range)


def open_image(path: str | os.PathLike[str], *, longest_px: int | None = None) -> Image.Image:
    """An image as RGB, upright; where it is longer than `longest_px`, reduced to that length while it is read."""
    return open_lazy(path, lambda size: 1.0 if longest_px is None else min(1.0, longest_px / max(size))).whole()


def open_lazy(source: ImageSource, scale: Callable[[tuple[int, int]], float] = lambda _: 1.0) -> LazyImage:
    """An image from a file, from Pillow or from an array, scaled.

    An image that is reduced never exists as RGB in its full size: it is converted in strips, and a JPEG is read at
    a half, a quarter or an eighth from the start where that is enough.

    Args:
        source: a path; or a Pillow image; or an array (H,W), (H,W,1), (H,W,3) or (H,W,4), of bool, uint8, uint16, or
            floats in [0, 1].
        scale: from the upright image's (width, height) px to the factor by which its sides are multiplied; they come
            out as the nearest whole number of pixels.
    """
    if isinstance(source, np.ndarray):
        return _scaled(_from_array(source), scale)
    if isinstance(source, Image.Image):
        try:
            return _scaled(source, scale)
        except UNREADABLE as error:  # Pillow reads a file's pixels when they are first needed: now
            raise TreeformerError(f"the image cannot be read: {_reason(error)}") from None
    if not isinstance(source, str | os.PathLike):
        raise TreeformerError(f"an image is a path, a Pillow image or an array, not {type(source).__name__}")
    path = Path(source)
    try:
        with _without_pillows_limit(), Image.open(path) as image:
            if image.width * image.height > MOST_PIXELS:
                raise FormatError(f"{path}: has more than {MOST_PIXELS // 10**6} million pixels")
            return _scaled(image, scale, is_file=True)
    except FileNotFoundError:
        raise FormatError(f"{path}: no such file") from None
    except UnidentifiedImageError:
        raise FormatError(f"{path}: not an image in a known format") from None
    except FormatError:
        raise
    except UNREADABLE as error:
        raise FormatError(f"{path}: the image cannot be read: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    """What an error says, without the path that stands in front of it anyway."""
    said = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return str(said).splitlines()[0]


@contextmanager
def _without_pillows_limit() -> Iterator[None]:
    """Pillow's guard against files that unpack without end, one number for the whole process, is off in here."""
    with _pillow_limit.lock:
        if _pillow_limit.users == 0:
            _pillow_limit.usual, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
        _pillow_limit.users += 1
    try:
        yield
    finally:
        with _pillow_limit.lock:
            _pillow_limit.users -= 1
            if _pillow_limit.users == 0:
                Image.MAX_IMAGE_PIXELS = _pillow_limit.usual


def _scaled(image: Image.Image, scale: Callable[[tuple[int, int]], float], is_file: bool = False) -> LazyImage:
    """What `open_lazy` returns for an image whose pixels may still have to be read."""
    turn = TURNS.get(image.getexif().get(ORIENTATION_TAG, 1))
    lying = image.size
    if 0 in lying:  # no file has such an image, but Pillow's crop of nothing is one
        raise ValueError(f"it has no pixels, being {lying[0]}×{lying[1]}")
    original = lying[::-1] if turn in SIDEWAYS else lying
    factor = scale(original)
    target = (max(1, round(lying[0] * factor)), max(1, round(lying[1] * factor)))
    if is_file and factor < 1:
        image.draft(None, target)
    image.load()
    drafted = max(lying[0] / image.width, lying[1] / image.height)
    value_range = _value_range(image)
    # To about twice the size by averaging blocks, which is quick, and the rest of the way by a better filter.
    block = int(max(image.size) / (2 * max(target)))
    if block > 1:
        image, value_range = _reduced(image, value_range, block), None
    if image.size != target:
        # The last block of a row or column may be a part of one: the image ends within it.
        side = next(d for d in (1, 2, 4, 8) if d >= drafted) * max(1, block)
        box = (0.0, 0.0, min(lying[0] / side, image.width), min(lying[1] / side, image.height))
        image = _as_rgb(image, value_range).resize(target, Image.Resampling.LANCZOS, box=box)
        value_range = None
    return LazyImage(original, image if turn is None else image.transpose(turn), value_range)


def _reduced(image: Image.Image, value_range: tuple[float, float] | None, block: int) -> Image.Image:
    """Every block of pixels as one, in RGB, converted a strip at a time."""
    width, height = image.size
    reduced = Image.new("RGB", (-(-width // block), -(-height // block)))
    rows = block * max(1, STRIP_PIXELS // (width * block))
    for top in range(0, height, rows):
        strip = _as_rgb(image.crop((0, top, width, min(top + rows, height))), value_range)
        reduced.paste(strip.reduce(block), (0, top // block))
    return reduced


def _from_array(array: NDArray[Any]) -> Image.Image:
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.size == 0 or not (array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (3, 4))):
        raise TreeformerError(f"an array of the shape {array.shape} is no image: (H,W), (H,W,3) or (H,W,4) is needed")
    array = array.astype(array.dtype.newbyteorder("="), copy=False)  # of a TIFF they may come the other way round
    if array.dtype == np.uint16 and array.ndim == 3:
        array = array / _full_scale(int(array.max()))
    if array.dtype == bool:
        array = array * np.uint8(255)
    if array.dtype.kind == "f":
        if not (np.isfinite(array).all() and array.min() >= 0 and array.max() <= 1):
            raise TreeformerError("an image in floats must lie between 0 and 1")
        array = np.rint(array * 255).astype(np.uint8)
    if array.dtype not in (np.uint8, np.uint16):
        raise TreeformerError(f"an array of {array.dtype} is no image: bool, uint8, uint16 or floats are needed")
    return Image.fromarray(np.ascontiguousarray(array))


def _value_range(image: Image.Image) -> tuple[float, float] | None:
    """Which values become black and white; None for modes whose range is known."""
    if not (image.mode.startswith("I") or image.mode == "F"):
        return None
    values = np.asarray(image)
    finite = values[np.isfinite(values)] if image.mode == "F" else values
    if finite.size == 0:
        return 0.0, 1.0
    low, high = float(finite.min()), float(finite.max())
    if image.mode != "F" and low >= 0 and high <= 65535:
        return 0.0, float(_full_scale(int(high)))
    return low, high


def _full_scale(brightest: int) -> int:
    """The largest value of the least bit depth that holds the brightest value of an image of 16 bits."""
    return next((1 << bits) - 1 for bits in BIT_DEPTHS if brightest < 1 << bits)


def _as_rgb(image: Image.Image, value_range: tuple[float, float] | None) -> Image.Image:
    if value_range is not None:
        low, high = value_range
        values = np.nan_to_num(np.asarray(image, dtype=np.float32), nan=low, posinf=high, neginf=low)
        scaled = (values - low) * (255.0 / (high - low) if high > low else 0.0)
        return Image.fromarray(np.clip(np.rint(scaled), 0, 255).astype(np.uint8)).convert("RGB")
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        image = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    return image if image.mode == "RGB" else image.convert("RGB")
