"""Overlays: colors and positions."""

from __future__ import annotations

import sys
from itertools import pairwise

import numpy as np
import pytest
from PIL import Image

import treeformer
from treeformer import Skeleton, TreeformerError
from treeformer.draw import EDGE, KEYPOINT, LOW_CONFIDENCE_EDGE, NODE, ROOT, draw, draw_comparison, line_width_px


@pytest.fixture
def cross() -> Skeleton:
    """A long line with an inner node and a root ring at its left end, well apart from one another."""
    return Skeleton([(200, 500), (500, 500), (800, 500)], [(0, 1), (1, 2)], root=0, image_size=(1000, 1000))


def pixel(image: Image.Image, x: float, y: float) -> tuple[int, ...]:
    return image.getpixel((int(x), int(y)))


def test_an_overlay_has_the_papers_colors(cross):
    image = draw(None, cross)
    assert image.size == (1000, 1000)
    assert pixel(image, 350, 500) == EDGE
    assert pixel(image, 500, 500) == NODE
    assert pixel(image, 800, 500) == KEYPOINT
    assert pixel(image, 200, 500 - 2.1 * line_width_px((1000, 1000))) == ROOT
    assert pixel(image, 500, 100) == (255, 255, 255)


def test_a_line_is_drawn_at_the_right_position():
    """The center of mass of the drawn line is the center of the line, to a tenth of a pixel."""
    tilted = Skeleton([(20.3, 30.7), (170.2, 140.1)], [(0, 1)], image_size=(200, 200))
    ink = 255.0 - np.asarray(draw(None, tilted), dtype=float)[..., 1]
    rows, columns = np.indices(ink.shape)
    center = (ink * columns).sum() / ink.sum() + 0.5, (ink * rows).sum() / ink.sum() + 0.5
    assert np.allclose(center, tilted.nodes.mean(axis=0), atol=0.1)


@pytest.mark.slow
def test_a_comparison_is_purple_where_they_agree(cross):
    shifted = cross.replace(nodes=np.add(cross.nodes, (0, 150)))
    apart = draw_comparison(None, shifted, cross)
    together = draw_comparison(None, cross, cross)

    def reddish(color):
        return color[0] > 200 > color[2] + 80

    def bluish(color):
        return color[2] > 200 > color[0] + 80

    assert reddish(pixel(apart, 350, 650))
    assert bluish(pixel(apart, 350, 500))
    red, green, blue = pixel(together, 350, 500)
    assert red == blue > green + 80
    red, green, blue = pixel(together, 500, 500)  # a node of both
    assert green > 150 > max(red, blue) + 80


def test_a_thumbnail_fits_and_another_image_does_not(cross):
    assert pixel(draw(Image.new("RGB", (501, 500)), cross), 250, 250) == NODE
    with pytest.raises(TreeformerError, match="1000×1000"):
        draw(Image.new("RGB", (150, 100)), cross)


def test_line_widths_suit_the_image():
    assert 1.5 < line_width_px((512, 512)) < 2.5
    assert 5 < line_width_px((1916, 2500)) < 8


@pytest.mark.parametrize("skeleton", [Skeleton([], [], image_size=(9, 7)), Skeleton([(3, 3)], [], image_size=(9, 7))])
def test_small_skeletons_are_drawn(skeleton):
    assert draw(None, skeleton).size == (9, 7)
    assert draw_comparison(None, skeleton, skeleton).size == (9, 7)


def test_an_empty_skeleton_without_a_size_cannot_be_drawn():
    with pytest.raises(TreeformerError, match="image size"):
        draw(None, Skeleton([], []))


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
def test_edges_that_leave_the_image_are_clipped():
    """The visible part of an edge to the greatest coordinate is a straight line at the right position."""
    nodes = [(500, 500), (1e7, 500), (500, -1e7), (-1e7, -1e7)]
    far = Skeleton(nodes, [(0, 1), (0, 2), (0, 3)], image_size=(1000, 1000))
    image = draw(None, far)
    assert pixel(image, 999, 500) == pixel(image, 500, 0) == pixel(image, 30, 30) == EDGE
    assert pixel(image, 700, 700) == (255, 255, 255)
    assert np.asarray(draw_comparison(None, far, far)).min() < 100
    thumbnail = Image.new("RGB", (2000, 2000), "white")
    enlarged = draw(thumbnail, far.replace(image_size=(10, 10)))
    assert (pixel(enlarged, 1000, 1000), pixel(enlarged, 1999, 0)) == (EDGE, (255, 255, 255))
    outside = Skeleton([(1e7, 1e7), (1e7, -1e7)], [(0, 1)], root=0, image_size=(50, 50))
    assert np.asarray(draw(None, outside)).min() == 255


@pytest.mark.parametrize("size", [(10**7, 10**7), None])
def test_a_canvas_of_too_many_pixels_is_an_error_of_one_line(size):
    with pytest.raises(TreeformerError, match=r"10[0-9]+×10[0-9]+ pixels has more than 450 million pixels"):
        draw(None, Skeleton([(0, 0), (1e7, 1e7)], [(0, 1)], image_size=size))


@pytest.mark.slow
def test_a_band_shows_the_width_of_edges_with_known_radii():
    nodes = [(100, 200), (900, 200), (100, 600), (900, 600)]
    radius = np.array([20.0, 60.0, 20.0, np.nan])
    wide = Skeleton(nodes, [(0, 1), (2, 3)], radius=radius, image_size=(1000, 1000))
    image, white = draw(None, wide), (255, 255, 255)
    assert pixel(image, 500, 200) == EDGE
    for x, y in ((500, 170), (500, 230), (880, 150)):  # 40 px wide in the middle, 60 px at the end
        assert pixel(image, x, y)[0] == 255 > pixel(image, x, y)[1] > 100
    assert pixel(image, 500, 150) == pixel(image, 120, 170) == pixel(image, 500, 620) == white
    half = draw(Image.new("RGB", (500, 500), "white"), wide)
    assert pixel(half, 250, 85) == pixel(image, 500, 170)
    assert pixel(half, 250, 75) == white
    far = Skeleton([(50, 50), (1e7, 1e7)], [(0, 1)], radius=np.array([1e7, 1e7]), image_size=(100, 100))
    assert draw(None, far).size == (100, 100)


class TestConfidence:
    """Edges with a low score are orange and dashed."""

    @pytest.fixture
    def scored(self) -> Skeleton:
        nodes = [(50, 200), (950, 200), (50, 500), (950, 500), (50, 800), (950, 800)]
        return Skeleton(nodes, [(0, 1), (2, 3), (4, 5)], edge_score=[0.9, 0.1, 0.15], image_size=(1000, 1000))

    def row(self, image: Image.Image, y: int) -> list[tuple[int, ...]]:
        """The colors along an edge, without its ends."""
        return [pixel(image, x, y) for x in range(100, 900)]

    def test_they_are_dashed(self, scored):
        image = draw(None, scored)
        assert set(self.row(image, 200)) == set(self.row(image, 800)) == {EDGE}
        colors = self.row(image, 500)
        assert set(colors) >= {LOW_CONFIDENCE_EDGE, (255, 255, 255)}
        assert EDGE not in colors
        assert 0.5 < colors.count(LOW_CONFIDENCE_EDGE) / len(colors) < 0.7
        dashes = sum(a == LOW_CONFIDENCE_EDGE != b for a, b in pairwise(colors))
        assert dashes == pytest.approx(800 / (5 * line_width_px((1000, 1000))), abs=3)

    @pytest.mark.slow
    def test_the_metadata_have_the_threshold(self, scored):
        image = draw(None, scored.replace(metadata={"low_confidence_threshold": 0.95}))
        assert all(LOW_CONFIDENCE_EDGE in self.row(image, y) for y in (200, 500, 800))
        image = draw(None, scored.replace(metadata={"low_confidence_threshold": 0}))
        assert all(set(self.row(image, y)) == {EDGE} for y in (200, 500, 800))
        assert draw(None, scored.replace(metadata={"low_confidence_threshold": "?"})) == draw(None, scored)

    def test_without_scores_all_edges_are_red(self, scored):
        image = draw(None, scored.replace(edge_score=None))
        assert all(set(self.row(image, y)) == {EDGE} for y in (200, 500, 800))

    def test_short_edges_have_one_dash(self):
        nodes = [(10, 50), (15, 50), (90, 50), (90, 50.001)]
        short = Skeleton(nodes, [(0, 1), (2, 3)], edge_score=[0, 0], image_size=(100, 100))
        assert draw(None, short).size == (100, 100)


class TestPlot:
    """Plots with Matplotlib."""

    @pytest.fixture
    def pyplot(self):
        matplotlib = pytest.importorskip("matplotlib")
        matplotlib.use("Agg")
        from matplotlib import pyplot

        yield pyplot
        pyplot.close("all")

    def test_edges_nodes_and_roots_are_plotted(self, cross, pyplot):
        ax = treeformer.plot(cross.replace(edge_score=[0.9, 0.1]))
        certain, uncertain, inner, keypoints, roots = ax.collections
        assert np.array_equal(certain.get_segments(), cross.nodes[[[0, 1]]])
        assert np.array_equal(uncertain.get_segments(), cross.nodes[[[1, 2]]])
        assert [certain.get_linestyle()[0][1] is None, uncertain.get_linestyle()[0][1] is None] == [True, False]
        assert [len(dots.get_offsets()) for dots in (inner, keypoints, roots)] == [1, 2, 1]
        assert (ax.get_xlim(), ax.get_ylim()) == ((0, 1000), (1000, 0))
        ax.figure.canvas.draw()

    def test_an_image_and_given_axes(self, cross, pyplot):
        given = pyplot.subplots()[1]
        ax = treeformer.plot(cross, np.zeros((100, 100, 3), np.uint8), given)
        assert ax is given
        assert ax.images[0].get_extent() == [0, 1000, 1000, 0], "a thumbnail is enlarged"
        with pytest.raises(TreeformerError, match="1000×1000"):
            treeformer.plot(cross, np.zeros((100, 150, 3), np.uint8), given)
        with pytest.raises(TreeformerError, match="no such file"):
            treeformer.plot(cross, "missing.png")

    @pytest.mark.filterwarnings("error")
    def test_small_skeletons_and_cycles(self, ring, pyplot):
        for skeleton in (Skeleton([], []), Skeleton([(1, 2)], [], root=0), ring):
            ax = treeformer.plot(skeleton)
            assert ax.yaxis_inverted()
            ax.figure.canvas.draw()

    def test_without_matplotlib_the_error_is_one_line(self, cross, monkeypatch):
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        monkeypatch.setitem(sys.modules, "matplotlib.collections", None)
        with pytest.raises(TreeformerError, match=r"^plotting needs Matplotlib: pip install matplotlib$"):
            treeformer.plot(cross)


def test_an_image_is_drawn_as_it_is_predicted(tmp_path):
    """Images with 16 bits have the brightness of the file, and photos are upright."""
    skeleton = Skeleton([(2, 2), (8, 2)], [(0, 1)], image_size=(40, 20))
    gray = Image.fromarray(np.full((20, 40), 40_000, np.uint16))
    assert pixel(draw(gray, skeleton), 30, 15) == (156, 156, 156)
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (20, 40)).save(tmp_path / "a.jpg", exif=exif)
    with Image.open(tmp_path / "a.jpg") as photo:
        assert draw(photo, skeleton).size == draw_comparison(photo, skeleton, skeleton).size == (40, 20)


@pytest.mark.parametrize("image", ["plant.png", np.zeros((10, 10, 3), np.uint8)])
def test_only_a_pillow_image_can_be_drawn_on(image):
    with pytest.raises(TreeformerError, match="the image to draw on must be a Pillow image, not "):
        draw(image, Skeleton([(1, 1), (5, 5)], [(0, 1)]))
