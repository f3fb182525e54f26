"""Leaves of the simple outdoor scenes are painted only near the branches; woods stand on the horizon."""

from __future__ import annotations

import numpy as np
import pytest

from treeformer.synthetic.painting.canvas import Canvas
from treeformer.synthetic.rng import Rng
from treeformer.synthetic.scenes.outdoor.crown import crown_around, woods


def painted(canvas: Canvas) -> np.ndarray:
    return (canvas.planes != 200).any(axis=0)


@pytest.mark.slow
@pytest.mark.parametrize("size", [(256, 256), (64, 48), (90, 300)])
def test_leaves_grow_near_the_branches_only(size: tuple[int, int]) -> None:
    column, row = np.indices((size[1], size[0]))[::-1] + 0.5
    point = np.asarray([(size[0] * 0.3, size[1] * 0.3)])
    distance = np.maximum(np.abs(column - point[0, 0]) / size[0], np.abs(row - point[0, 1]) / size[1])
    shares = []
    for seed in range(12):
        canvas = Canvas(size, (200, 200, 200))
        crown = crown_around(Rng(seed), canvas, np.repeat(point, 3, axis=0), 0.9)
        crown.paint(Rng(seed, 1), canvas, 0, 0.75)
        assert not painted(canvas)[distance > 0.3].any()
        shares.append(painted(canvas)[distance < 0.03].mean())
    assert np.mean(shares) > 0.4


@pytest.mark.slow
def test_fuller_crowns_hide_more() -> None:
    points = np.stack([Rng(1).array(200, low=80, high=180), Rng(2).array(200, low=80, high=180)], axis=1)
    hidden = []
    for fullness in (0.0, 0.5, 1.0):
        shares = []
        for seed in range(8):
            canvas = Canvas((256, 256), (200, 200, 200))
            crown_around(Rng(seed), canvas, points, fullness).paint(Rng(seed, 1), canvas, 0, 1.0)
            shares.append(painted(canvas).mean())
        hidden.append(np.mean(shares))
    assert hidden[0] < hidden[1] < hidden[2]


def test_shade_darkens_inside_the_crown_only() -> None:
    canvas = Canvas((128, 128), (200, 200, 200))
    crown = crown_around(Rng(3), canvas, np.asarray([(40.0, 50.0)] * 5), 1.0)
    crown.cast_shade(canvas, 20)
    assert canvas.planes[:, 50, 40].max() < 200
    assert canvas.planes.max() == 200
    assert canvas.planes.min() >= 200 * 44 // 64  # darker by at most 20/64


def test_a_crown_thinned_to_nothing_paints_nothing() -> None:
    canvas = Canvas((128, 128), (200, 200, 200))
    for seed in range(20):  # with one point and fullness 0, some crowns have no leaves
        crown_around(Rng(seed), canvas, np.asarray([(40.0, 50.0)]), 0.0).paint(Rng(1), canvas, 200, 1.0)
    assert not painted(canvas).any()


@pytest.mark.parametrize("blurred", [True, False])
def test_woods_stand_on_the_horizon(blurred: bool) -> None:
    for seed in range(6):
        canvas = Canvas((160, 120), (200, 200, 200))
        woods(Rng(seed), canvas, 80, 30.0, (40, 70, 30), blurred)
        assert painted(canvas)[70:80].mean() > 0.2
        assert not painted(canvas)[:45].any()
        assert not painted(canvas)[84:].any()
