"""Opening pictures of every kind, upright and in RGB, and refusing the rest in one line."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from treeformer import FormatError
from treeformer.images import open_image

GREY = np.tile(np.arange(0, 240, 10, dtype=np.uint8), (5, 1))


@pytest.mark.parametrize(
    ("mode", "suffix"), [("L", "png"), ("RGB", "png"), ("RGBA", "png"), ("CMYK", "tif"), ("P", "png"), ("1", "png")]
)
def test_every_mode_becomes_rgb(tmp_path, mode, suffix):
    path = tmp_path / f"a.{suffix}"
    Image.fromarray(GREY).convert("RGB").convert(mode).save(path)
    image = open_image(path)
    assert (image.mode, image.size) == ("RGB", (24, 5))


def test_sixteen_bits_are_scaled_to_eight(tmp_path):
    Image.fromarray(GREY.astype(np.uint16) * 257).save(tmp_path / "a.png")
    assert np.array_equal(np.asarray(open_image(tmp_path / "a.png"))[..., 0], GREY)
    Image.fromarray(GREY.astype(np.float32)).save(tmp_path / "a.tif")
    assert np.asarray(open_image(tmp_path / "a.tif")).max() == 255


def test_transparency_lies_over_white(tmp_path):
    Image.new("RGBA", (2, 2), (0, 0, 0, 0)).save(tmp_path / "a.png")
    assert np.asarray(open_image(tmp_path / "a.png")).min() == 255


def test_exif_turns_it_upright(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (20, 10)).save(tmp_path / "a.jpg", exif=exif)
    assert open_image(tmp_path / "a.jpg").size == (10, 20)


@pytest.mark.parametrize("content", [b"", b"garbage" * 100, b"\x89PNG\r\n\x1a\n"])
def test_what_is_no_picture_is_refused_in_one_line(tmp_path, content):
    path = tmp_path / "mümmel 1.png"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=r"mümmel 1\.png") as error:
        open_image(path)
    assert "\n" not in str(error.value)


def test_a_truncated_or_missing_picture_is_refused(tmp_path):
    whole = tmp_path / "whole.jpg"
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (99, 99, 3), dtype=np.uint8)).save(whole)
    (tmp_path / "half.jpg").write_bytes(whole.read_bytes()[:2000])
    with pytest.raises(FormatError, match="cannot be read"):
        open_image(tmp_path / "half.jpg")
    with pytest.raises(FormatError, match="no such file"):
        open_image(tmp_path / "none.jpg")
    with pytest.raises(FormatError, match="cannot be read"):
        open_image(tmp_path)
