"""The outline of a dish, the pixels inside it, and no paint outside it."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from treeformer.synthetic.painting.canvas import Canvas, Sketch
from treeformer.synthetic.rng import Rng
from treeformer.synthetic.scenes.plate import dish
from treeformer.synthetic.scenes.plate.dish import Dish, inside_outline

SHAPES = [
    Dish((50.0, 40.0), (40.0, 30.0), 8.0),
    Dish((50.0, 40.0), (30.0, 30.0), 30.0),
    Dish((45.0, 45.0), (40.0, 30.0), 3.0, 0.125, 0.03),
    Dish((20.0, 90.0), (60.0, 50.0), 10.0, -0.0625),
    Dish((60.0, 50.0), (300.0, 200.0), 20.0),
]


@pytest.mark.parametrize("shape", SHAPES)
def test_inside_matches_a_test_against_every_side(shape: Dish) -> None:
    size = (100, 80)
    outline = shape.outline()
    rows, inside = inside_outline(outline, size)
    whole = np.zeros((80, 100), dtype=bool)
    whole[rows] = inside
    for y in range(0, 80, 3):
        for x in range(0, 100, 3):
            # A point inside a convex clockwise outline lies on the right of every side.
            nearest = min(
                ((b[0] - a[0]) * (y + 0.5 - a[1]) - (b[1] - a[1]) * (x + 0.5 - a[0])) / math.dist(a, b)
                for a, b in pairwise(outline.tolist())
                if a != b
            )
            if abs(nearest) > 0.02:
                assert whole[y, x] == (nearest > 0)


def test_a_dish_outside_the_image_has_no_inside() -> None:
    rows, inside = inside_outline(Dish((50.0, -200.0), (40.0, 30.0), 8.0).outline(), (100, 80))
    assert rows.start == rows.stop
    assert inside.shape == (0, 100)
    canvas = Canvas((100, 80), (7, 7, 7))
    dish.paint_dish(Rng(1), canvas, Sketch(), Dish((50.0, -200.0), (40.0, 30.0), 8.0), (90, 90, 90), 0.1)
    assert (canvas.planes == 7).all()


@pytest.mark.parametrize("shape", SHAPES)
def test_insets_lie_inside(shape: Dish) -> None:
    outer = inside_outline(shape.outline(), (100, 80))
    for px in (1.0, 5.0, 500.0):
        inner = inside_outline(shape.inset(px).outline(), (100, 80))
        assert outer[0].start <= inner[0].start <= inner[0].stop <= outer[0].stop
        start = inner[0].start - outer[0].start
        assert (inner[1] <= outer[1][start : start + len(inner[1])]).all()


@pytest.mark.parametrize("shape", SHAPES[:3])
def test_agar_stays_in_its_dish(shape: Dish) -> None:
    for seed in range(8):
        canvas = Canvas((100, 80), (7, 7, 7))
        sketch = Sketch()
        inner = dish.paint_dish(Rng(seed), canvas, sketch, shape, (90, 100, 110), 0.1)
        rows, inside = inside_outline(shape.outline(), canvas.size)
        outside = np.ones((80, 100), dtype=bool)
        outside[rows] = ~inside
        assert (canvas.planes[:, outside] == 7).all()
        assert (canvas.planes[:, ~outside] > 20).mean() > 0.9
        assert inner.half < shape.half
        sketch.draw(canvas)  # the rim extends half a line beyond the outline
        enlarged = inside_outline(
            Dish(shape.center, (shape.half[0] + 4, shape.half[1] + 4), shape.corner + 4, shape.turn).outline(),
            (100, 80),
        )
        outside[enlarged[0]] &= ~enlarged[1]
        assert (canvas.planes[:, outside] == 7).all()


def test_a_shine_only_adds_light_and_fades_out() -> None:
    brighter = 0
    for seed in range(30):
        canvas = Canvas((200, 160), (50, 50, 50))
        dish.shine(Rng(seed), canvas, Dish((100.0, 80.0), (90.0, 70.0), 10.0))
        assert canvas.planes.min() >= 50
        assert canvas.planes.max() <= 115
        brighter += bool((canvas.planes > 55).any())
        steps = np.abs(np.diff(canvas.planes[0], axis=1)).max()
        assert steps <= 24  # no visible edge
    assert brighter > 20


def test_tape_and_grid_are_drawn_on_the_dish() -> None:
    for add in (dish.tape, dish.grid):
        for seed in range(5):
            canvas, sketch = Canvas((100, 80), (7, 7, 7)), Sketch()
            add(Rng(seed), canvas, sketch, SHAPES[0])
            sketch.draw(canvas)
            assert (canvas.planes != 7).any()
            assert (canvas.planes[:, :2] == 7).all()
