"""The dish surrounds the seedlings, shoots stand above their roots, and roots are visible."""

from __future__ import annotations

import numpy as np
import pytest

from treeformer import Skeleton
from treeformer.synthetic import generate
from treeformer.synthetic.painting.canvas import Canvas, Sketch
from treeformer.synthetic.painting.material import Backdrop
from treeformer.synthetic.plants.plate_rows import PLATE_KINDS
from treeformer.synthetic.rng import Rng
from treeformer.synthetic.scenes.plate import scene as plate
from treeformer.synthetic.scenes.plate import shoots
from treeformer.synthetic.scenes.plate.dish import inside_outline
from treeformer.synthetic.scenes.plate.scene import PlateScene


@pytest.mark.slow
def test_the_dish_holds_all_roots() -> None:
    inside_shares = []
    for seed in range(60):
        skeleton = generate("plate", seed)
        scene = PlateScene(Rng(4, seed), Canvas((512, 512)), skeleton, "rosette")
        rows, inside = inside_outline(scene.dish.outline(), (512, 512))
        whole = np.zeros((512, 512), dtype=bool)
        whole[rows] = inside
        column, row = np.clip(skeleton.nodes.astype(int), 0, 511).T
        inside_shares.append(np.mean(whole[row, column]))
    assert min(inside_shares) > 0.9
    assert np.mean(np.asarray(inside_shares) == 1) > 0.85


@pytest.mark.slow
def test_dishes_are_square_or_round_whole_or_cut() -> None:
    dishes = [PlateScene(Rng(5, s), Canvas((512, 512)), generate("plate", s), "rosette").dish for s in range(120)]
    assert 0.05 < np.mean([d.is_round for d in dishes]) < 0.3
    whole = [
        d.center[0] - d.half[0] > 0 and d.center[0] + d.half[0] < 512 and d.center[1] + d.half[1] < 512 for d in dishes
    ]
    assert 0.25 < np.mean(whole) < 0.9


def test_a_dish_is_rotated_like_its_row() -> None:
    bases = np.asarray([(50.0, 60.0), (150.0, 70.0), (250.0, 80.0), (100.0, 300.0)])  # and a second row
    assert plate._slope(bases, 512) == pytest.approx(0.1)
    assert plate._slope(bases[:1], 512) == 0.0
    assert plate._slope(bases[:0], 512) == 0.0
    assert plate._slope(np.asarray([(50.0, 10.0), (51.0, 100.0)]), 512) == 0.15


@pytest.mark.slow
@pytest.mark.parametrize("kind", PLATE_KINDS)
@pytest.mark.parametrize("size", [(64, 64), (570, 190), (90, 300)])
def test_the_whole_canvas_is_painted_without_overflow(kind: str, size: tuple[int, int]) -> None:
    width, height = size
    for nodes, edges in (([], []), ([(width * 0.5, height * 0.3), (width * 0.5, height * 0.9)], [(0, 1)])):
        skeleton = Skeleton(nodes, edges, root=[0] if nodes else [], image_size=size)
        for seed in range(12):
            canvas = Canvas(size)
            canvas.planes[:] = -999
            scene = PlateScene(Rng(seed), canvas, skeleton, kind)
            scene.paint_dish()
            scene.paint_seedlings()
            assert canvas.planes.min() > -400
            assert canvas.planes.max() < 700


@pytest.mark.parametrize("grow", [shoots.rosettes, shoots.cotyledons, shoots.blades])
def test_shoots_stand_above_their_base(grow: object) -> None:
    bases = np.asarray([(40.0, 60.0), (100.0, 60.0), (160.0, 60.0)])
    for seed in range(20):
        canvas, sketch = Canvas((200, 120), (0, 0, 0)), Sketch()
        grow(Rng(seed), sketch, bases, 12.0)  # type: ignore[operator]
        sketch.draw(canvas)
        row, column = np.nonzero(canvas.planes[1] > 20)
        for x in bases[:, 0]:
            near_base = np.abs(column - x) < 30
            assert near_base.any()
            assert row[near_base].mean() < 62
            # The shoot touches the point at which the root starts.
            assert canvas.planes[1, 56:62, int(x) - 2 : int(x) + 3].max() > 20
        assert row.max() < 60 + 14


def test_roots_contrast_with_the_agar() -> None:
    for seed in range(200):
        level = 20.0 + seed
        material = plate._root_material(Rng(seed), Backdrop((level, level, level), 2.0, 1.0), 1.0)
        contrast = material.thin[1] - level
        assert abs(contrast) * material.opacity >= 15 or level > 235
        if level <= plate.DARK_LEVEL:
            assert contrast > 0
        if level > plate.PALE_LEVEL:
            assert contrast < 0
