"""Tiles: their geometry, every kind of image, large images, and the limit of memory."""

from __future__ import annotations

import io
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from tests.web.conftest import gradient
from treeformer import Skeleton, write
from treeformer._util import images
from treeformer._util.images import open_image, open_level, upright_size
from treeformer.web import pyramid, serve
from treeformer.web.folder import Workspace
from treeformer.web.pyramid import Pyramids, level_count
from treeformer.web.services import Services


def blocks(pixels: np.ndarray, block: int) -> np.ndarray:
    """Reference: the mean of each block, incomplete ones at the right and bottom included."""
    rows, columns = (np.arange(0, side, block) for side in pixels.shape[:2])

    def total(values: np.ndarray) -> np.ndarray:
        return np.add.reduceat(np.add.reduceat(values, rows, axis=0), columns, axis=1)

    return total(pixels) / total(np.ones_like(pixels))


@pytest.mark.parametrize("size", [(1, 1), (511, 3), (512, 512), (513, 512), (1024, 9), (1025, 9), (10_000, 8_000)])
def test_the_number_of_levels(size):
    expected = 1
    while max(-(-side // 2 ** (expected - 1)) for side in size) > 512:
        expected += 1
    assert level_count(size) == expected


@pytest.mark.parametrize("name", ["a.png", "a.jpg"])
@pytest.mark.parametrize("level", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("orientation", [1, 2, 3, 4, 5, 6, 7, 8])
def test_a_level_is_the_mean_of_blocks_of_the_upright_image(tmp_path, name, level, orientation):
    exif = Image.Exif()
    exif[images.ORIENTATION_TAG] = orientation
    options = {"quality": 100, "subsampling": 0} if name == "a.jpg" else {}
    path = gradient(tmp_path / name, (101, 67), exif=exif, **options)
    upright = np.asarray(open_image(path), dtype=float)
    assert upright_size(path) == upright.shape[1::-1]
    opened = open_level(path, level)
    assert opened.original_size == upright.shape[1::-1]
    expected = blocks(upright, 1 << level)
    pixels = np.asarray(opened.whole(), dtype=float)
    assert pixels.shape == expected.shape
    # Pillow rounds; libjpeg reduces in its own way.
    assert np.abs(pixels - expected)[:-1, :-1].max(initial=0) <= (6 if name == "a.jpg" else 1)
    assert np.abs(pixels - expected).max() <= (25 if name == "a.jpg" else 1)


def variants(folder):
    x, y = np.meshgrid(np.linspace(0, 1, 600), np.linspace(0, 1, 520))
    gray = (60_000 * (x + y) / 2).astype(np.uint16)
    Image.fromarray(gray).save(folder / "sixteen.tif")
    Image.fromarray(gray).save(folder / "sixteen.png")
    Image.fromarray((gray >> 8).astype(np.uint8)).save(folder / "gray.png")
    Image.fromarray((gray >> 8).astype(np.uint8)).save(folder / "gray.jpg")
    Image.fromarray(gray.astype(np.float32)).save(folder / "float.tif")
    Image.fromarray((gray > 30_000).astype(np.uint8) * 255).convert("1").save(folder / "bits.png")
    color = Image.fromarray(255 * np.stack([x, y, 1 - x], axis=2).astype(np.uint8))
    color.convert("RGBA").save(folder / "alpha.png")
    color.convert("P").save(folder / "palette.gif")
    color.convert("CMYK").save(folder / "cmyk.jpg")
    color.save(folder / "color.webp")
    color.save(folder / "color.bmp")
    color.convert("LA").save(folder / "transparent gray.png")


@pytest.mark.slow
def test_every_kind_of_image_has_tiles_thumbnails_and_crops(tmp_path):
    folder = tmp_path / "images"
    folder.mkdir()
    variants(folder)
    workspace = Workspace(folder, tmp_path / "results")
    pyramids = Pyramids(workspace)
    entries = workspace.refresh()
    assert len(entries) == 12
    for entry in entries:
        assert pyramids.describe(entry) == {"width": 600, "height": 520, "tile": 512, "levels": 2}
        expected = np.asarray(open_image(entry.path), dtype=float)
        for level in (0, 1):
            tile = Image.open(io.BytesIO(pyramids.tile(entry, level, 0, 0)))
            assert tile.mode == "RGB"
            pixels = np.asarray(tile, dtype=float)
            reference = blocks(expected, 1 << level)[:512, :512]
            assert pixels.shape == reference.shape
            assert np.abs(pixels - reference).mean() < 3, (entry.image, level)
        assert Image.open(io.BytesIO(pyramids.thumbnail(entry))).size == (160, 139)
        crop = Image.open(io.BytesIO(pyramids.crop(entry, (10, 20, 210, 120), 400)))
        assert (crop.mode, crop.size) == ("L", (200, 100))
        luma = np.asarray(open_image(entry.path).convert("L"))[20:120, 10:210]
        assert np.abs(np.asarray(crop).astype(int) - luma).max() <= 1, entry.image


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_a_crop_is_the_mean_of_the_region(tmp_path, seed):
    random = np.random.default_rng(seed)
    workspace = Workspace(gradient(tmp_path / "i" / "a.png", (1300, 900)).parent, tmp_path / "r")
    (entry,) = workspace.refresh()
    left, top = random.integers(-50, 1000), random.integers(-50, 700)
    right, bottom = left + random.integers(60, 900), top + random.integers(60, 900)
    longest = int(random.integers(20, 600))
    crop = np.asarray(Image.open(io.BytesIO(Pyramids(workspace).crop(entry, (left, top, right, bottom), longest))))
    scale = min(1, longest / max(right - left, bottom - top))
    assert abs(crop.shape[1] - (right - left) * scale) <= 1
    assert abs(crop.shape[0] - (bottom - top) * scale) <= 1
    assert max(crop.shape) <= longest + 1
    gray = np.asarray(open_image(entry.path).convert("L"), dtype=float)
    for y, x in ((0.25, 0.25), (0.5, 0.75), (0.9, 0.1)):
        px = int(np.clip(left + x * (right - left), 0, 1299)), int(np.clip(top + y * (bottom - top), 0, 899))
        row, column = int(y * crop.shape[0]), int(x * crop.shape[1])
        assert abs(crop[row, column] - gray[px[1], px[0]]) <= 3 + 0.3 / scale  # the image is a gradient


@pytest.mark.slow
def test_a_jpeg_of_ten_thousand_px_is_seen_without_decoding_all_of_it(tmp_path, monkeypatch):
    path = tmp_path / "images" / "large.jpg"
    path.parent.mkdir()
    Image.new("RGB", (10_000, 10_000), (90, 120, 60)).save(path, quality=80)
    workspace = Workspace(path.parent, tmp_path / "results")
    (entry,) = workspace.refresh()
    pyramids = Pyramids(workspace)
    assert pyramids.describe(entry) == {"width": 10_000, "height": 10_000, "tile": 512, "levels": 6}
    decoded = []
    original = images.LazyImage.__init__

    def counting(self, size, image, value_range):
        decoded.append(image.size)
        original(self, size, image, value_range)

    monkeypatch.setattr(images.LazyImage, "__init__", counting)
    tile = Image.open(io.BytesIO(pyramids.tile(entry, 3, 2, 2)))
    assert tile.size == (1250 - 1024, 1250 - 1024)
    assert max(decoded) == (1250, 1250)  # an eighth
    pyramids.tile(entry, 5, 0, 0)
    assert max(decoded) == (1250, 1250)
    assert Image.open(io.BytesIO(pyramids.tile(entry, 0, 19, 19))).size == (272, 272)
    assert max(decoded) == (10_000, 10_000)
    before = len(decoded)
    for column in range(20):
        pyramids.tile(entry, 0, column, 3)
    assert len(decoded) == before  # decoded once


@pytest.mark.slow
def test_levels_in_memory_are_limited(tmp_path):
    for name in "abcd":
        gradient(tmp_path / "images" / f"{name}.png", (1000, 1000))
    workspace = Workspace(tmp_path / "images", tmp_path / "results")
    pyramids = Pyramids(workspace, memory_bytes=7_000_000)
    for entry in workspace.refresh() * 2:
        for level in (0, 1):
            pyramids.tile(entry, level, 0, 0)
            used = sum(one.memory_bytes for one in pyramids._levels.values())
            assert used <= 7_000_000
    tiny = Pyramids(workspace, memory_bytes=1)
    for entry in workspace.refresh():
        tiny.tile(entry, 0, 0, 0)
        assert len(tiny._levels) == 1  # the one in use


@pytest.mark.slow
def test_simultaneous_requests_decode_a_level_once(tmp_path, monkeypatch):
    from concurrent.futures import ThreadPoolExecutor

    workspace = Workspace(gradient(tmp_path / "i" / "a.png", (2000, 2000)).parent, tmp_path / "r")
    (entry,) = workspace.refresh()
    opened = []
    monkeypatch.setattr(pyramid, "open_level", lambda *a: (opened.append(a), open_level(*a))[1])
    pyramids = Pyramids(workspace)
    with ThreadPoolExecutor(16) as pool:
        tiles = list(pool.map(lambda k: pyramids.tile(entry, 0, k % 4, k // 4), range(16)))
    assert len(opened) == 1
    assert len(set(tiles)) == 16


@pytest.mark.parametrize(("name", "expected"), [("a.png", [0]), ("a.jpg", [3, 2, 1, 0])])
def test_all_levels_need_few_decodings(tmp_path, monkeypatch, name, expected):
    workspace = Workspace(gradient(tmp_path / "i" / name, (9000, 40)).parent, tmp_path / "r")
    (entry,) = workspace.refresh()
    opened = []
    monkeypatch.setattr(pyramid, "open_level", lambda *a: (opened.append(a[1]), open_level(*a))[1])
    pyramids = Pyramids(workspace)
    for level in (5, 4, 3, 2, 1, 0, 5, 0):
        pyramids.tile(entry, level, 0, 0)
    assert opened == expected


@pytest.mark.slow
def test_the_first_view_decodes_a_file_once(tmp_path, monkeypatch):
    """The level that the page announces is decoded early; tiles and the thumbnail come from it."""
    workspace = Workspace(gradient(tmp_path / "i" / "a.jpg", (4000, 3000)).parent, tmp_path / "r")
    (entry,) = workspace.refresh()
    opened = []
    monkeypatch.setattr(pyramid, "open_level", lambda *a: (opened.append(a[1]), open_level(*a))[1])
    monkeypatch.setattr(pyramid, "open_image", None)
    pyramids = Pyramids(workspace)
    for _ in range(2):
        pyramids.prepare(entry, (700, 700))
    thumbnail = Image.open(io.BytesIO(pyramids.thumbnail(entry)))
    assert thumbnail.size == (160, 120)
    for level in (3, 2):
        pyramids.tile(entry, level, 0, 0)
    assert opened == [2]
    # The same pixels as in the file: a gradient, darker at the upper left.
    pixels = np.asarray(thumbnail).astype(int)
    assert pixels[0, 0, 0] < 5 < 250 < pixels[0, -1, 0]


@pytest.mark.slow
def test_the_image_that_the_page_shows_first_is_decoded_before_it_asks(tmp_path, monkeypatch):
    folder = gradient(tmp_path / "i" / "a.jpg", (4000, 3000)).parent
    gradient(folder / "b.jpg", (4000, 3000))
    scores = {"a": 0.9, "b": 0.2}
    for name, score in scores.items():
        write(Skeleton([(0, 0), (9, 9)], [(0, 1)], edge_score=[score]), folder / f"{name}.json")
    opened = []
    monkeypatch.setattr(pyramid, "open_level", lambda *a: (opened.append(a), open_level(*a))[1])
    services = Services.of(Workspace(folder, folder))
    serve.warm_up(services)
    worst = services.workspace.entry("b.jpg")
    services.pyramids.prepare(worst, (700, 700))
    services.pyramids.tile(worst, 2, 0, 0)
    assert [path for path, _ in opened] == [worst.path]


def test_a_tile_waits_for_the_level_that_is_about_to_be_decoded(tmp_path, monkeypatch):
    """The thread that decodes may begin late, after the request of the first tile."""
    workspace = Workspace(gradient(tmp_path / "i" / "a.jpg", (4000, 3000)).parent, tmp_path / "r")
    (entry,) = workspace.refresh()
    opened = []
    monkeypatch.setattr(pyramid, "open_level", lambda *a: (opened.append(a[1]), open_level(*a))[1])
    pyramids = Pyramids(workspace)
    level, began = pyramids._level, threading.Event()

    def late(*arguments):
        if threading.current_thread().name == "treeformer-decode":
            began.wait(timeout=0.5)  # without the wait of the tile, the tile is decoded meanwhile
        return level(*arguments)

    monkeypatch.setattr(pyramids, "_level", late)
    pyramids.prepare(entry, (1500, 1500))
    pyramids.tile(entry, 2, 0, 0)
    began.set()
    for thread in threading.enumerate():
        if thread.name == "treeformer-decode":
            thread.join()
    assert opened == [1]


@pytest.mark.slow
def test_small_images_and_broken_files_are_not_prepared(tmp_path):
    folder = gradient(tmp_path / "i" / "a.png").parent
    (folder / "b.jpg").write_bytes(gradient(tmp_path / "x.jpg", (4000, 2500)).read_bytes()[:3000])
    workspace = Workspace(folder, tmp_path / "r")
    pyramids = Pyramids(workspace)
    for entry in workspace.refresh():
        pyramids.prepare(entry, (700, 700))
        for thread in list(pyramids._expected.values()):
            thread.join()
        assert not pyramids._levels


@given(st.tuples(*[st.integers(1, 20_000)] * 2), st.tuples(*[st.integers(1, 4000)] * 2))
def test_the_level_that_is_shown_is_just_fine_enough(size, shown):
    level = pyramid.shown_level(size, shown)
    scale = min(there / side for side, there in zip(size, shown, strict=True))
    assert level == 0 or scale * 2**level <= 1
    assert level == level_count(size) - 1 or scale * 2 ** (level + 1) > 1


def test_an_image_that_is_replaced_is_read_again(tmp_path):
    path = gradient(tmp_path / "i" / "a.png", (100, 80))
    workspace = Workspace(path.parent, tmp_path / "r")
    (entry,) = workspace.refresh()
    pyramids = Pyramids(workspace)
    first = pyramids.tile(entry, 0, 0, 0), pyramids.thumbnail(entry)
    Image.new("RGB", (50, 60), "red").save(path)
    assert pyramids.describe(entry)["width"] == 50
    assert pyramids.tile(entry, 0, 0, 0) != first[0]
    assert pyramids.thumbnail(entry) != first[1]
