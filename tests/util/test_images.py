"""Opening images of every kind upright and as RGB, and one-line errors for everything else."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image, ImageFile

from treeformer import FormatError, TreeformerError
from treeformer._util import images as module
from treeformer._util.image_output import encode_image, write_image
from treeformer._util.images import open_image, open_lazy

GRAY = np.tile(np.arange(0, 240, 10, dtype=np.uint8), (5, 1))


@pytest.mark.parametrize(
    ("mode", "suffix"), [("L", "png"), ("RGB", "png"), ("RGBA", "png"), ("CMYK", "tif"), ("P", "png"), ("1", "png")]
)
def test_every_mode_becomes_rgb(tmp_path, mode, suffix):
    path = tmp_path / f"a.{suffix}"
    Image.fromarray(GRAY).convert("RGB").convert(mode).save(path)
    image = open_image(path)
    assert (image.mode, image.size) == ("RGB", (24, 5))


def test_sixteen_bits_are_scaled_to_eight(tmp_path):
    Image.fromarray(GRAY.astype(np.uint16) * 257).save(tmp_path / "a.png")
    assert np.array_equal(np.asarray(open_image(tmp_path / "a.png"))[..., 0], GRAY)
    Image.fromarray(GRAY.astype(np.float32)).save(tmp_path / "a.tif")
    assert np.asarray(open_image(tmp_path / "a.tif")).max() == 255


@pytest.mark.parametrize("mode", ["RGB", "L", "P"])
def test_threads_may_share_a_pillow_image_whose_file_has_not_been_read(tmp_path, mode):
    """As several views of an image do."""
    pixels = np.random.default_rng(0).integers(0, 256, (500, 500, 3), dtype=np.uint8)
    Image.fromarray(pixels).convert(mode).save(tmp_path / "a.png", compress_level=1)
    expected = np.asarray(open_image(tmp_path / "a.png"))
    for _ in range(5):
        image = Image.open(tmp_path / "a.png")
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda source: np.asarray(open_lazy(source).whole()), [image] * 8))
        assert all((one == expected).all() for one in found)


@pytest.mark.parametrize("bits", [8, 10, 12, 14, 16])
def test_the_brightest_value_determines_the_bit_depth(tmp_path, bits):
    values = np.linspace(0, (1 << bits) - 1, 120).astype(np.uint16).reshape(5, 24)
    Image.fromarray(values).save(tmp_path / "a.tif")
    gray = np.asarray(open_image(tmp_path / "a.tif"))[..., 0]
    assert np.abs(gray - np.linspace(0, 255, 120).reshape(5, 24)).max() <= 1.01
    assert np.array_equal(np.asarray(open_lazy(values).whole())[..., 0], gray)
    assert np.abs(open_lazy(np.dstack([values] * 3)).part((0, 0, 24, 5))[..., 1].astype(int) - gray).max() <= 1


def test_the_first_of_several_pages_or_frames_is_used(tmp_path):
    pages = [Image.new("RGB", (9, 7), color) for color in ("red", "blue")]
    for name in ("a.tif", "a.gif", "a.webp", "a.png"):
        lossless = {"lossless": True} if name.endswith("webp") else {}
        pages[0].save(tmp_path / name, save_all=True, append_images=pages[1:], **lossless)
        assert open_image(tmp_path / name).getpixel((3, 3)) == (255, 0, 0), name


def test_floats_with_nan(tmp_path):
    values = np.array([[np.nan, -2.0], [0.0, 6.0]], dtype=np.float32)
    Image.fromarray(values).save(tmp_path / "a.tif")
    assert np.asarray(open_image(tmp_path / "a.tif"))[..., 0].tolist() == [[0, 0], [64, 255]]


def test_transparent_images_are_put_on_white(tmp_path):
    Image.new("RGBA", (2, 2), (0, 0, 0, 0)).save(tmp_path / "a.png")
    assert np.asarray(open_image(tmp_path / "a.png")).min() == 255


def test_exif_orientation_turns_the_image_upright(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (20, 10)).save(tmp_path / "a.jpg", exif=exif)
    assert open_image(tmp_path / "a.jpg").size == (10, 20)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("name", ["a.png", "a.tif"])
def test_every_orientation_gives_the_upright_image_once(tmp_path, name, orientation):
    """Pillow itself turns TIFF images, and only these, while it loads them."""
    pixels = np.arange(12 * 20 * 3, dtype=np.uint8).reshape(12, 20, 3)
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(pixels).save(tmp_path / name, exif=exif)
    upright = {
        1: pixels,
        2: pixels[:, ::-1],
        3: pixels[::-1, ::-1],
        4: pixels[::-1],
        5: pixels.swapaxes(0, 1),
        6: pixels.swapaxes(0, 1)[:, ::-1],
        7: pixels.swapaxes(0, 1)[::-1, ::-1],
        8: pixels.swapaxes(0, 1)[::-1],
    }[orientation]
    assert np.array_equal(open_image(tmp_path / name), upright)
    assert np.array_equal(open_lazy(open_image(tmp_path / name)).whole(), upright)
    assert np.array_equal(module.open_level(tmp_path / name, 0).whole(), upright)
    assert module.upright_size(tmp_path / name) == (upright.shape[1], upright.shape[0])
    assert open_lazy(tmp_path / name, lambda _: 0.5).original_size == (upright.shape[1], upright.shape[0])


@pytest.mark.parametrize("content", [b"", b"garbage" * 100, b"\x89PNG\r\n\x1a\n"])
def test_invalid_files_raise_a_one_line_error(tmp_path, content):
    path = tmp_path / "mümmel 1.png"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=r"mümmel 1\.png") as error:
        open_image(path)
    assert "\n" not in str(error.value)


def test_a_truncated_or_missing_image_is_rejected(tmp_path):
    whole = tmp_path / "whole.jpg"
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (99, 99, 3), dtype=np.uint8)).save(whole)
    (tmp_path / "half.jpg").write_bytes(whole.read_bytes()[:2000])
    with pytest.raises(FormatError, match="cannot be read"):
        open_image(tmp_path / "half.jpg")
    with pytest.raises(FormatError, match="no such file"):
        open_image(tmp_path / "none.jpg")
    with pytest.raises(FormatError, match="cannot be read"):
        open_image(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("name", ["a.jpg", "a.png"])
def test_reducing_while_reading_equals_reducing_afterwards(tmp_path, monkeypatch, orientation, name):
    monkeypatch.setattr(module, "STRIP_PIXELS", 30_000)
    x, y = np.meshgrid(np.arange(1203), np.arange(907))
    waves = np.stack([127 + 120 * np.sin(x / 60), 127 + 120 * np.cos(y / 40 + x / 90), y / 4], axis=2)
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(waves.astype(np.uint8)).save(tmp_path / name, exif=exif, quality=95)
    whole = open_image(tmp_path / name)
    for scale in (0.5, 0.21, 0.06):
        image = open_lazy(tmp_path / name, lambda _: scale)  # noqa: B023
        assert image.original_size == whole.size
        assert image.size == (round(whole.width * scale), round(whole.height * scale))
        expected = np.asarray(whole.resize(image.size, Image.Resampling.LANCZOS), dtype=int)
        assert np.abs(np.asarray(image.whole(), dtype=int) - expected).mean() < 2
    assert open_image(tmp_path / name, longest_px=100).size in ((100, 75), (75, 100))
    assert open_image(tmp_path / name, longest_px=5000).size == whole.size


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "CMYK", "P", "1", "LA", "I;16", "F"])
def test_parts_are_parts_of_the_whole(tmp_path, mode):
    gray = Image.fromarray(np.tile(np.arange(0, 240, 2, dtype=np.uint8), (90, 1)))
    if mode == "I;16":
        gray = Image.fromarray(np.asarray(gray, dtype=np.uint16) * 200)
    else:
        gray = gray.convert("F") if mode == "F" else gray.convert("RGB").convert(mode)
    gray.save(tmp_path / "a.tif")
    image = open_lazy(tmp_path / "a.tif")
    whole = np.asarray(image.whole())
    assert whole.shape == (90, 120, 3)
    assert np.array_equal(image.part((20, 30, 84, 90)), whole[30:90, 20:84])
    assert open_lazy(tmp_path / "a.tif", lambda _: 0.1).size == (12, 9)


def test_an_array_is_opened_like_a_pillow_image():
    array = np.random.default_rng(0).integers(0, 256, (48, 64, 3), dtype=np.uint8)
    from_array, from_pillow = open_lazy(array), open_lazy(Image.fromarray(array))
    assert from_array.size == from_array.original_size == from_pillow.size == (64, 48)
    assert from_array.memory_bytes == from_pillow.memory_bytes
    for box in ((0, 0, 64, 48), (3, 5, 20, 48)):
        assert (from_array.part(box) == from_pillow.part(box)).all()
    assert from_array.whole() == from_pillow.whole()
    assert from_array.reduced(4).whole() == from_pillow.reduced(4).whole()
    expected = array.copy()
    array[:] = 0  # the next frame of a camera
    assert (from_array.part((0, 0, 64, 48)) == expected).all()


@pytest.mark.slow
def test_too_many_pixels_are_rejected_before_they_are_read(tmp_path, monkeypatch):
    Image.new("1", (30_000, 20_000)).save(tmp_path / "huge.png")
    with pytest.raises(FormatError, match=r"huge\.png: has more than 450 million pixels"):
        open_image(tmp_path / "huge.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    for name in ("small.png", "small.tif", "small.jpg", "small.webp", "small.gif", "small.bmp"):
        Image.new("L", (30, 20)).save(tmp_path / name)
        assert open_image(tmp_path / name).size == (30, 20), "the limit of this package applies"
    assert Image.MAX_IMAGE_PIXELS == 100, "Pillow's limit is restored"


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((0, 5), np.uint8),
        np.zeros(5, np.uint8),
        np.zeros((5, 5, 2), np.uint8),
        np.zeros((5, 5), np.int64),
        np.full((5, 5), 1.5),
        np.full((5, 5), np.nan),
        np.zeros((5, 5), object),
    ],
    ids=repr,
)
def test_invalid_arrays_are_rejected(array):
    with pytest.raises(TreeformerError):
        open_lazy(array)


@pytest.mark.parametrize("source", [None, 3, b"a.png", [[1, 2], [3, 4]]], ids=repr)
def test_the_error_names_the_type_of_an_invalid_source(source):
    """A camera without a frame returns None, for example."""
    with pytest.raises(TreeformerError, match=f"not {type(source).__name__}"):
        open_lazy(source)


def test_a_pillow_image_of_a_broken_file_raises_a_one_line_error(tmp_path):
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (99, 99, 3), dtype=np.uint8)).save(tmp_path / "a.jpg")
    (tmp_path / "a.jpg").write_bytes((tmp_path / "a.jpg").read_bytes()[:2000])
    with Image.open(tmp_path / "a.jpg") as image, pytest.raises(TreeformerError, match="cannot be read: image file is"):
        open_lazy(image)


def test_a_pillow_image_without_pixels_raises_a_one_line_error():
    with pytest.raises(TreeformerError, match="no pixels: its size is 0×5"):
        open_lazy(Image.new("RGB", (9, 9)).crop((3, 1, 3, 6)))


@pytest.mark.parametrize("kind", ["u2", "f4"])
def test_the_byte_order_does_not_matter(kind):
    values = np.linspace(0, 4095 if kind == "u2" else 1, 60).reshape(5, 12)
    little, big = (open_lazy(values.astype(order + kind)).part((0, 0, 12, 5)) for order in "<>")
    assert np.array_equal(little, big)


def test_the_given_image_is_not_modified(tmp_path):
    Image.fromarray(np.zeros((800, 800, 3), np.uint8)).save(tmp_path / "a.jpg")
    with Image.open(tmp_path / "a.jpg") as image:
        assert open_lazy(image, lambda _: 0.1).size == (80, 80)
        assert image.size == (800, 800)


@pytest.mark.parametrize("suffix", [".png", ".JPG", ".webp", ".gif", ".tif", ".bmp"])
def test_an_encoded_image_is_the_written_file(tmp_path, suffix):
    image = Image.fromarray(GRAY).convert("RGB")
    path = tmp_path / f"a{suffix}"
    write_image(image, path)
    assert path.read_bytes() == encode_image(image, suffix)
    assert open_image(path).size == image.size
    assert list(tmp_path.iterdir()) == [path]


def test_options_reach_the_encoder():
    image = Image.effect_noise((64, 64), 100).convert("RGB")
    assert len(encode_image(image, ".jpg", quality=20)) < len(encode_image(image, ".jpg", quality=90))


@pytest.mark.parametrize(
    ("size", "name", "message"),
    [((4, 4), "a.xyz", "not the suffix"), ((4, 4), "a", "not the suffix"), ((70_000, 1), "a.gif", "stored as GIF")],
)
def test_an_image_that_cannot_be_encoded_is_an_error_of_one_line(tmp_path, size, name, message):
    with pytest.raises(FormatError, match=f"^{name}: .*{message}") as error:
        write_image(Image.new("RGB", size), tmp_path / name)
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_common_formats_are_written_without_registering_all(monkeypatch):
    """Registering every format of Pillow takes 0.2 s, which the first tile of the editor would wait for."""

    def refuse() -> None:
        raise AssertionError("all formats were registered")

    monkeypatch.setattr(Image, "init", refuse)
    image = Image.new("RGB", (4, 4))
    assert [encode_image(image, suffix)[:2] for suffix in (".jpg", ".png")] == [b"\xff\xd8", b"\x89P"]


def test_jpeg_files_are_read_in_large_blocks(tmp_path, monkeypatch):
    path = tmp_path / "noise.jpg"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (600, 800, 3), dtype=np.uint8)).save(path, quality=95)
    assert path.stat().st_size > 4 * ImageFile.MAXBLOCK
    calls = []

    class Decoder:
        def __init__(self, inner):
            self.inner = inner

        def decode(self, data):
            calls.append(len(data))
            return self.inner.decode(data)

        def __getattr__(self, name):
            return getattr(self.inner, name)

    original = Image._getdecoder
    monkeypatch.setattr(Image, "_getdecoder", lambda *arguments: Decoder(original(*arguments)))
    pixels = np.asarray(open_image(path))
    assert len(calls) == 1
    np.testing.assert_array_equal(pixels, np.asarray(Image.open(path)))
    assert len(calls) > 4
