"""Overlays: the right colors in the right places."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from treeformer import Skeleton, TreeformerError
from treeformer.draw import EDGE, KEY_POINT, NODE, ROOT, draw, draw_comparison, line_width_px


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
    assert pixel(image, 800, 500) == KEY_POINT
    assert pixel(image, 200, 500 - 2.1 * line_width_px((1000, 1000))) == ROOT
    assert pixel(image, 500, 100) == (255, 255, 255)


def test_a_line_lies_where_the_skeleton_says():
    """The center of mass of the drawn line is the line, to a tenth of a pixel."""
    tilted = Skeleton([(20.3, 30.7), (170.2, 140.1)], [(0, 1)], image_size=(200, 200))
    ink = 255.0 - np.asarray(draw(None, tilted), dtype=float)[..., 1]
    rows, columns = np.indices(ink.shape)
    center = (ink * columns).sum() / ink.sum() + 0.5, (ink * rows).sum() / ink.sum() + 0.5
    assert np.allclose(center, tilted.nodes.mean(axis=0), atol=0.1)


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


def test_nothing_at_all_cannot_be_drawn():
    with pytest.raises(TreeformerError, match="image size"):
        draw(None, Skeleton([], []))
