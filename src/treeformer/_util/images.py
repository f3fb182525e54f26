"""Open images from files that Pillow can read or from arrays, upright and as 8-bit RGB, as a whole or in parts.

Conversions:

- images are turned upright by their EXIF orientation; sizes and coordinates are those of the upright image;
- transparent images are put on white; palettes, grayscale and CMYK become RGB; of several pages or frames the first one
  is used;
- 16-bit grayscale is divided by the range of its bit depth, the least of 8, 10, 12, 14 and 16 bits that holds the
  brightest value (cameras store 12 bits in 16); wider integers and floats have no standard range and are stretched from
  their minimum to their maximum;
- 16-bit colors keep their upper byte, as Pillow reads them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from treeformer._util.arrays import ImageArray
from treeformer._util.files import check_is_regular_file
from treeformer.errors import FormatError, TreeformerError

IMAGE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".webp", ".gif"})
# 20,000×20,000 and some more; Pillow's own limit is 179 million.
MAX_PIXELS = 450_000_000
# Number of pixels that are converted to RGB at a time while an image is reduced.
STRIP_PIXELS = 16_000_000
# Pillow reads 64 KiB at a time and takes the interpreter's lock in between, which other threads may hold for 5 ms.
JPEG_BLOCK_BYTES = 4 * 2**20
BIT_DEPTHS = (8, 10, 12, 14, 16)
# The exceptions that Pillow raises for broken or inaccessible files.
UNREADABLE = (OSError, ValueError, SyntaxError, EOFError)

ORIENTATION_TAG = 0x0112
# Entries of `Image.info` in which Pillow looks for the orientation.
WITH_ORIENTATION = ("exif", "Raw profile type exif", "xmp", "XML:com.adobe.xmp")
# The operation that makes an image upright, by its EXIF orientation.
TIFF_SIZE_TAGS = (256, 257)  # width and height
UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
SIDEWAYS = {UPRIGHT[orientation] for orientation in (5, 6, 7, 8)}

ImageSource = str | os.PathLike[str] | Image.Image | NDArray[Any]
"""A path, a Pillow image, or an array (H,W), (H,W,1), (H,W,3) or (H,W,4)."""

Box = tuple[int, int, int, int]
"""left, top, right, bottom, px."""


class _PillowLimit:
    """The number of threads that are reading, and the limit to restore when none is."""

    def __init__(self) -> None:
        self.lock, self.users = threading.Lock(), 0
        self.saved: int | None = None


_pillow_limit = _PillowLimit()
# Threads must not read the file of one Pillow image at the same time. Different images rarely share a lock.
_reading = tuple(threading.Lock() for _ in range(64))


@dataclass(frozen=True)
class LazyImage:
    """An upright image whose parts are converted to RGB on demand."""

    original_size: tuple[int, int]  # (width, height) px of the upright image in the file, before scaling
    _image: Image.Image | ImageArray  # RGB arrays stay arrays: Pillow would copy them twice
    _range: tuple[float, float] | None

    @property
    def size(self) -> tuple[int, int]:
        """(width, height) px of this image; differs from `original_size` if the image was scaled."""
        if isinstance(self._image, np.ndarray):
            return self._image.shape[1], self._image.shape[0]
        return self._image.size

    def part(self, box: Box) -> ImageArray:
        """Return the RGB pixels, (H,W,3), of a box inside the image."""
        if isinstance(self._image, np.ndarray):
            left, top, right, bottom = box
            return self._image[top:bottom, left:right]
        image = self._image if box == (0, 0, *self.size) else self._image.crop(box)
        return np.asarray(_as_rgb(image, self._range))

    def whole(self) -> Image.Image:
        """Return the whole image as RGB."""
        return _as_rgb(_pillow(self._image), self._range)

    def reduced(self, block: int) -> LazyImage:
        """Return the image reduced by averaging blocks of block×block pixels."""
        if block <= 1:
            return self
        return LazyImage(self.original_size, _reduced(_pillow(self._image), self._range, block), None)

    @property
    def memory_bytes(self) -> int:
        """Memory of the pixels."""
        if isinstance(self._image, np.ndarray):
            return self._image.nbytes
        per_pixel = 4 * len(self._image.getbands()) if self._image.mode in ("I", "F") else len(self._image.getbands())
        return self.size[0] * self.size[1] * max(per_pixel, 2 if self._image.mode.startswith("I;16") else 1)


def open_image(path: str | os.PathLike[str], *, longest_px: int | None = None) -> Image.Image:
    """Open an image file upright and as RGB; a longer image is reduced to `longest_px` while it is read."""
    return open_lazy(path, lambda size: 1.0 if longest_px is None else min(1.0, longest_px / max(size))).whole()


def open_lazy(source: ImageSource, scale: Callable[[tuple[int, int]], float] = lambda _: 1.0) -> LazyImage:
    """Open an image from a file, from Pillow or from an array, and scale it.

    Arrays are (H,W), (H,W,1), (H,W,3) or (H,W,4) of bool, uint8, uint16, or floats in [0, 1]. `scale` maps the (width,
    height) of the upright image to a factor of its sides; the results are rounded to whole pixels.

    An image that is reduced never exists as RGB at full size: it is converted in strips, and JPEG files are decoded at
    a half, a quarter or an eighth of their size if that is enough.
    """
    if isinstance(source, np.ndarray):
        if source.dtype == np.uint8 and source.ndim == 3 and source.shape[2] == 3 and source.size:
            size = source.shape[1], source.shape[0]
            if scale(size) == 1:
                return LazyImage(size, source.copy(), None)  # a camera may write its next frame into the array
        return _scaled(_from_array(source), scale)
    if isinstance(source, Image.Image):
        try:
            with _reading[id(source) // 64 % len(_reading)]:
                _turn(source)
                source.load()
            return _scaled(source, scale)
        except UNREADABLE as error:  # Pillow reads the pixels of a file only when they are needed
            raise TreeformerError(f"the image cannot be read: {error_reason(error)}") from None
    if not isinstance(source, str | os.PathLike):
        raise TreeformerError(f"an image must be a path, a Pillow image or an array, not {type(source).__name__}")
    with _opened(Path(source)) as image:
        return _scaled(image, scale, is_file=True)


def open_level(path: str | os.PathLike[str], level: int) -> LazyImage:
    """Open a level of an image's pyramid: each pixel is the mean of 2^level × 2^level pixels of the upright image.

    Blocks start at the top left corner. Those at the right and bottom may be incomplete, so the size of a level is
    rounded up. Its `original_size` is the full size. JPEG files are decoded at a half, a quarter or an eighth of their
    size.
    """
    block = 1 << level
    with _opened(Path(path)) as image:
        turn = _turn(image)
        stored = image.size
        original = stored[::-1] if turn in SIDEWAYS else stored
        # After a turn, an incomplete block would be at the top or left.
        if turn is None or not any(side % block for side in stored):
            image.draft(None, (max(1, stored[0] // block), max(1, stored[1] // block)))
        image.load()
        drafted = next(d for d in (1, 2, 4, 8) if d >= max(stored[0] / image.width, stored[1] / image.height))
        value_range = _value_range(image)
        upright = image if turn is None else image.transpose(turn)
    return LazyImage(original, upright, value_range).reduced(block // drafted)


def upright_size(path: str | os.PathLike[str]) -> tuple[int, int]:
    """Return the width and height of an upright image, px, without reading its pixels."""
    with _opened(Path(path)) as image:
        width, height = image.size
        if isinstance(tags := getattr(image, "tag_v2", None), Mapping):  # Pillow may report the size after the turn
            width, height = (int(tags[tag]) for tag in TIFF_SIZE_TAGS)
        sideways = UPRIGHT.get(image.getexif().get(ORIENTATION_TAG, 1)) in SIDEWAYS
        return (height, width) if sideways else (width, height)


@contextmanager
def _opened(path: Path) -> Iterator[Image.Image]:
    """Open an image file, and convert the errors of Pillow to a FormatError."""
    try:
        check_is_regular_file(path)
        with _without_pillow_limit(), Image.open(path) as image:
            if image.width * image.height > MAX_PIXELS:
                raise FormatError(f"{path}: has more than {MAX_PIXELS // 10**6} million pixels")
            if image.format in ("JPEG", "MPO"):
                image.decodermaxblock = JPEG_BLOCK_BYTES
            yield image
    except FileNotFoundError:
        raise FormatError(f"{path}: no such file") from None
    except UnidentifiedImageError:
        raise FormatError(f"{path}: not an image in a known format") from None
    except FormatError:
        raise
    except UNREADABLE as error:
        raise FormatError(f"{path}: the image cannot be read: {error_reason(error)}") from None


def error_reason(error: Exception) -> str:
    """Return the message of an error without the path, which the caller adds."""
    message = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return str(message).splitlines()[0]


@contextmanager
def _without_pillow_limit() -> Iterator[None]:
    """Disable Pillow's guard against decompression bombs, which is one number for the whole process."""
    with _pillow_limit.lock:
        if _pillow_limit.users == 0:
            _pillow_limit.saved, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
        _pillow_limit.users += 1
    try:
        yield
    finally:
        with _pillow_limit.lock:
            _pillow_limit.users -= 1
            if _pillow_limit.users == 0:
                Image.MAX_IMAGE_PIXELS = _pillow_limit.saved


def _turn(image: Image.Image) -> Image.Transpose | None:
    """Return the turn that makes the pixels of an image upright, None if they are upright.

    Pillow turns a TIFF image while it loads the pixels, and then removes the tag.
    """
    if image.format == "TIFF":
        image.load()
    return UPRIGHT.get(image.getexif().get(ORIENTATION_TAG, 1))


def _scaled(image: Image.Image, scale: Callable[[tuple[int, int]], float], is_file: bool = False) -> LazyImage:
    """Scale an image whose pixels may not have been read yet, for `open_lazy`."""
    turn = _turn(image)
    stored = image.size  # before it is turned upright
    if 0 in stored:  # not possible in a file, but an empty Pillow crop has such a size
        raise ValueError(f"it has no pixels: its size is {stored[0]}×{stored[1]}")
    original = stored[::-1] if turn in SIDEWAYS else stored
    factor = scale(original)
    target = (max(1, round(stored[0] * factor)), max(1, round(stored[1] * factor)))
    if is_file and factor < 1:
        image.draft(None, target)
    image.load()
    drafted = max(stored[0] / image.width, stored[1] / image.height)
    value_range = _value_range(image)
    # Average blocks down to about twice the size, which is fast, then use a better filter.
    block = int(max(image.size) / (2 * max(target)))
    if block > 1:
        image, value_range = _reduced(image, value_range, block), None
    if image.size != target:
        # The last block of a row or column may be incomplete: the image ends inside it.
        side = next(d for d in (1, 2, 4, 8) if d >= drafted) * max(1, block)
        box = (0.0, 0.0, min(stored[0] / side, image.width), min(stored[1] / side, image.height))
        image = _as_rgb(image, value_range).resize(target, Image.Resampling.LANCZOS, box=box)
        value_range = None
    return LazyImage(original, image if turn is None else _turned(image, turn), value_range)


def _turned(image: Image.Image, turn: Image.Transpose) -> Image.Image:
    """Return an upright image without the metadata that say how to turn it: it may be opened once more."""
    upright = image.transpose(turn)
    for name in WITH_ORIENTATION:
        upright.info.pop(name, None)
    return upright


def _reduced(image: Image.Image, value_range: tuple[float, float] | None, block: int) -> Image.Image:
    """Average blocks of block×block pixels, converting one strip to RGB at a time."""
    width, height = image.size
    reduced = Image.new("RGB", (-(-width // block), -(-height // block)))
    rows = block * max(1, STRIP_PIXELS // (width * block))
    for top in range(0, height, rows):
        strip = _as_rgb(image.crop((0, top, width, min(top + rows, height))), value_range)
        reduced.paste(strip.reduce(block), (0, top // block))
    return reduced


def _pillow(image: Image.Image | ImageArray) -> Image.Image:
    return Image.fromarray(image) if isinstance(image, np.ndarray) else image


def _from_array(array: NDArray[Any]) -> Image.Image:
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.size == 0 or not (array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (3, 4))):
        raise TreeformerError(f"an array of shape {array.shape} is not an image: (H,W), (H,W,3) or (H,W,4) is needed")
    array = array.astype(array.dtype.newbyteorder("="), copy=False)  # arrays from TIFF files may be big-endian
    if array.dtype == np.uint16 and array.ndim == 3:
        array = array / _full_scale(int(array.max()))
    if array.dtype == bool:
        array = array * np.uint8(255)
    if array.dtype.kind == "f":
        if not (np.isfinite(array).all() and array.min() >= 0 and array.max() <= 1):
            raise TreeformerError("an image of floats must have values between 0 and 1")
        array = np.rint(array * 255).astype(np.uint8)
    if array.dtype not in (np.uint8, np.uint16):
        raise TreeformerError(f"an array of {array.dtype} is not an image: bool, uint8, uint16 or floats are needed")
    return Image.fromarray(np.ascontiguousarray(array))


def _value_range(image: Image.Image) -> tuple[float, float] | None:
    """Return the values that become black and white; None for modes of a fixed range."""
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
    """Return the largest value of the least bit depth that holds the brightest value of a 16-bit image."""
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
