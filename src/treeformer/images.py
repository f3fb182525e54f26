"""Opening pictures: any file Pillow reads, upright, as 8-bit RGB."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from treeformer.errors import FormatError

IMAGE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".webp", ".gif"})


def open_image(path: str | os.PathLike[str]) -> Image.Image:
    """A picture as RGB, turned upright by its EXIF orientation; 16-bit greys scaled to 8, transparency over white."""
    path = Path(path)
    try:
        with warnings.catch_warnings():
            # Large scans are ordinary here; a file that is truly too large still ends in an error.
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(path) as image:
                return _as_rgb(ImageOps.exif_transpose(image))
    except FileNotFoundError:
        raise FormatError(f"{path}: no such file") from None
    except Image.DecompressionBombError:
        raise FormatError(f"{path}: the picture has too many pixels to open whole") from None
    except UnidentifiedImageError:
        raise FormatError(f"{path}: not a picture in a known format") from None
    except (OSError, ValueError, SyntaxError, EOFError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise FormatError(f"{path}: the picture cannot be read: {reason}") from None


def _as_rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I") or image.mode == "F":
        values = np.asarray(image, dtype=np.float64)
        # 16-bit files use the upper byte; wider ones have no agreed range and are stretched over their own.
        low, high = (0.0, 65535.0) if image.mode.startswith("I;16") else (values.min(), values.max())
        scaled = (values - low) * (255.0 / (high - low) if high > low else 0.0)
        return Image.fromarray(np.clip(np.rint(scaled), 0, 255).astype(np.uint8)).convert("RGB")
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        image = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    return image.convert("RGB")
