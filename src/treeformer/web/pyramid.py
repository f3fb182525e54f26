"""Tiles of images of any size, made when they are asked for.

Level 0 of an image's pyramid is its full size, each next level is half of the one before. A level is decoded when one
of its tiles is requested: from a finer level that is in memory, or from the file, in which case JPEG files are decoded
at a fraction of their size. Decoded levels stay in memory up to a limit; the one used longest ago is dropped first.
Thumbnails are also stored as files in the results root, because a list of a thousand images needs them at once.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path

import numpy as np
from PIL import Image

from treeformer._util.files import atomic_write_bytes
from treeformer._util.image_output import encode_image
from treeformer._util.images import LazyImage, open_image, open_level, upright_size
from treeformer.errors import TreeformerError
from treeformer.web.errors import RequestError
from treeformer.web.folder import Entry, Workspace

TILE = 512
THUMBNAIL = 160
TILE_QUALITY, THUMBNAIL_QUALITY = 88, 80
MAX_CROP = 4096
# 10,000×10,000 px as RGB are 300 MB.
MEMORY_BYTES = 640 * 2**20
THUMBNAILS = "thumbnails"
# Images from this size on take long enough to decode that it is begun early.
LARGE_PIXELS = 8_000_000
# libjpeg decodes at a half, a quarter or an eighth.
DRAFT_SUFFIXES, COARSEST_DRAFT = frozenset({".jpg", ".jpeg"}), 3

Version = tuple[int, int]


def level_count(size: tuple[int, int], tile: int = TILE) -> int:
    """Return the number of levels: the last one is the first that fits into one tile.

    Example:
        >>> level_count((10_000, 8_000)), level_count((512, 512)), level_count((513, 1))
        (6, 1, 2)
    """
    return 1 + (-(-max(size) // tile) - 1).bit_length()


def shown_level(size: tuple[int, int], shown: tuple[int, int]) -> int:
    """Return the level whose pixels are at least as fine as those of a part of the screen that an image is fitted into.

    Example:
        >>> shown_level((10_000, 8_000), (700, 700)), shown_level((512, 512), (700, 700))
        (3, 0)
    """
    level = 0
    scale = min(there / side for side, there in zip(size, shown, strict=True))
    while level + 1 < level_count(size) and (2 << level) * scale <= 1:
        level += 1
    return level


class Pyramids:
    """The pyramids of all images of a workspace. All methods may be called from several threads."""

    def __init__(self, workspace: Workspace, memory_bytes: int = MEMORY_BYTES) -> None:
        self.workspace, self.memory_bytes = workspace, memory_bytes
        self._levels: OrderedDict[tuple[Path, Version, int], LazyImage] = OrderedDict()
        self._sizes: dict[tuple[Path, Version], tuple[int, int]] = {}
        self._lock = threading.Lock()
        # One image is decoded at a time, so that requests for many tiles of one level decode it once.
        self._decoding, self._thumbnailing = threading.Lock(), threading.Lock()
        self._expected: dict[tuple[Path, Version], threading.Thread] = {}

    def describe(self, entry: Entry) -> dict[str, int]:
        """Return the size of an image, px, the side of its tiles and the number of its levels."""
        width, height = self._size(entry)
        return {"width": width, "height": height, "tile": TILE, "levels": level_count((width, height))}

    def prepare(self, entry: Entry, shown: tuple[int, int]) -> None:
        """Begin to decode the level that a page will show first, in the background. Small images are not worth it."""
        size = self._size(entry)
        key = (entry.path, _version(entry.path))
        level = shown_level(size, shown)
        if size[0] * size[1] < LARGE_PIXELS or self._cached((*key, level)) is not None:
            return

        def decode() -> None:
            with suppress(TreeformerError, MemoryError):  # the request of a tile says what is wrong
                self._level(entry, level)
            with self._lock:
                self._expected.pop(key, None)

        with self._lock:
            if key not in self._expected:
                self._expected[key] = threading.Thread(target=decode, name="treeformer-decode", daemon=True)
                self._expected[key].start()

    def tile(self, entry: Entry, level: int, column: int, row: int) -> bytes:
        """Return a tile as JPEG; level 0 is the full size. Tiles at the right and bottom border are smaller."""
        size = self._size(entry)
        if not 0 <= level < level_count(size):
            raise RequestError("There is no such level.", 404)
        width, height = (-(-side // (1 << level)) for side in size)
        left, top = column * TILE, row * TILE
        if not (0 <= left < width and 0 <= top < height):
            raise RequestError("There is no such tile.", 404)
        box = (left, top, min(left + TILE, width), min(top + TILE, height))
        self._wait_for_expected(entry)
        pixels = self._level(entry, level).part(box)
        return encode_image(Image.fromarray(pixels), ".jpg", quality=TILE_QUALITY)

    def crop(self, entry: Entry, box: tuple[float, float, float, float], longest: int) -> bytes:
        """Return a part of an image as gray PNG, reduced to at most `longest` px.

        The box is left, top, right and bottom in px of the full image. Outside of it, the pixels of its border are
        repeated.
        """
        size = self._size(entry)
        left, top, right, bottom = box
        if not (left < right and top < bottom and left < size[0] and top < size[1] and right > 0 and bottom > 0):
            raise RequestError("The region is empty or outside of the image.")
        if max(right - left, bottom - top) > 2 * max(size):
            raise RequestError("The region is much larger than the image.")
        if not 1 <= longest <= MAX_CROP:
            raise RequestError(f"max must be from 1 to {MAX_CROP} px.")
        scale = min(1.0, longest / max(right - left, bottom - top))
        level = 0
        while level + 1 < level_count(size) and (1 << (level + 1)) * scale <= 1:
            level += 1
        image = self._level(entry, level)
        block = 1 << level
        inner = (max(left, 0.0), max(top, 0.0), min(right, float(size[0])), min(bottom, float(size[1])))
        first = (int(inner[0] // block), int(inner[1] // block))
        last = (min(image.size[0], int(-(-inner[2] // block))), min(image.size[1], int(-(-inner[3] // block))))
        gray = Image.fromarray(image.part((*first, *last))).convert("L")
        target = (max(1, round((inner[2] - inner[0]) * scale)), max(1, round((inner[3] - inner[1]) * scale)))
        exact = (
            inner[0] / block - first[0],
            inner[1] / block - first[1],
            min(inner[2] / block - first[0], gray.width),
            min(inner[3] / block - first[1], gray.height),
        )
        reduced = np.asarray(gray.resize(target, Image.Resampling.BOX, box=exact))
        before = (round((inner[0] - left) * scale), round((inner[1] - top) * scale))
        whole = (max(1, round((right - left) * scale)), max(1, round((bottom - top) * scale)))
        after = (max(0, whole[0] - before[0] - target[0]), max(0, whole[1] - before[1] - target[1]))
        padded = np.pad(reduced, ((before[1], after[1]), (before[0], after[0])), mode="edge")
        return encode_image(Image.fromarray(padded), ".png", compress_level=1)

    def thumbnail(self, entry: Entry) -> bytes:
        """Return a small JPEG of an image."""
        key = hashlib.sha256(repr((entry.image, _version(entry.path))).encode()).hexdigest()[:32]
        file = self.workspace.own_folder(THUMBNAILS) / f"{key}.jpg"
        with suppress(OSError):
            if not file.is_symlink():
                return file.read_bytes()
        with self._thumbnailing:
            image = self._shared_thumbnail(entry) or open_image(entry.path, longest_px=THUMBNAIL)
            data = encode_image(image, ".jpg", quality=THUMBNAIL_QUALITY)
        with suppress(OSError):  # a results root that cannot be written to
            atomic_write_bytes(file, data)
        return data

    def _shared_thumbnail(self, entry: Entry) -> Image.Image | None:
        """Return a thumbnail from a level that is in memory or being decoded, None if there is none."""
        key = (entry.path, _version(entry.path))
        self._wait_for_expected(entry)
        last = level_count(self._size(entry)) - 1
        if not any(self._cached((*key, level)) is not None for level in range(1, last + 1)):
            return None
        level = self._level(entry, last)
        image = Image.fromarray(level.part((0, 0, *level.size)))
        image.thumbnail((THUMBNAIL, THUMBNAIL), Image.Resampling.BOX)
        return image

    def _wait_for_expected(self, entry: Entry) -> None:
        """Wait for the level that `prepare` decodes: this level, or one from which others are reduced.

        One image is decoded at a time, so waiting takes no longer. If the other thread were only about to begin, a
        request that came first would decode the file a second time.
        """
        with self._lock:
            expected = self._expected.get((entry.path, _version(entry.path)))
        if expected is not None:
            expected.join()

    def pixels(self, entry: Entry, box: tuple[int, int, int, int]) -> Image.Image:
        """Return a part of an image at full size as RGB."""
        return Image.fromarray(self._level(entry, 0).part(box))

    def _size(self, entry: Entry) -> tuple[int, int]:
        key = (entry.path, _version(entry.path))
        with self._lock:
            size = self._sizes.get(key)
        if size is None:
            size = upright_size(entry.path)
            with self._lock:
                self._sizes[key] = size
        return size

    def _level(self, entry: Entry, level: int) -> LazyImage:
        key = (entry.path, _version(entry.path), level)
        image = self._cached(key)
        if image is not None:
            return image
        with self._decoding:
            image = self._cached(key)
            if image is not None:
                return image
            for finer in range(level - 1, -1, -1):
                image = self._cached((*key[:2], finer))
                if image is not None:
                    break
            else:
                # JPEG files are decoded at a fraction of their size; of others all levels come from one decoding.
                finer = min(level, COARSEST_DRAFT) if entry.path.suffix.lower() in DRAFT_SUFFIXES else 0
                image = open_level(entry.path, finer)
                self._keep((*key[:2], finer), image)
            if finer < level:
                image = image.reduced(1 << (level - finer))
                self._keep(key, image)
            return image

    def _keep(self, key: tuple[Path, Version, int], image: LazyImage) -> None:
        with self._lock:
            self._levels[key] = image
            used = sum(one.memory_bytes for one in self._levels.values())
            while used > self.memory_bytes and len(self._levels) > 1:
                used -= self._levels.popitem(last=False)[1].memory_bytes

    def _cached(self, key: tuple[Path, Version, int]) -> LazyImage | None:
        with self._lock:
            if key in self._levels:
                self._levels.move_to_end(key)
            return self._levels.get(key)


def _version(path: Path) -> Version:
    """Return what changes when a file is replaced."""
    try:
        status = path.stat()
    except OSError as error:
        raise RequestError(f"{path.name}: cannot be read ({error.strerror}).", 404) from None
    return status.st_mtime_ns, status.st_size
