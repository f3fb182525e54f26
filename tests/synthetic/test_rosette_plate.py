"""Plates with older plants: rosettes hide the base, roots are dark on light agar, lines that are not roots."""

from __future__ import annotations

import numpy as np
import pytest

from treeformer import Skeleton
from treeformer.synthetic import generate, make_image
from treeformer.synthetic.painting.canvas import Canvas, Sketch
from treeformer.synthetic.painting.material import Backdrop
from treeformer.synthetic.painting.raster import rasterize, union
from treeformer.synthetic.rng import Rng
from treeformer.synthetic.scenes.plate import shoots
from treeformer.synthetic.scenes.plate.rosette_scene import RosettePlateScene


def test_rosettes_hide_the_base() -> None:
    bases = np.asarray([(100.0, 60.0), (200.0, 60.0), (300.0, 64.0)])
    covered = []
    for seed in range(20):
        sketch = Sketch()
        shoots.rosettes_from_above(Rng(seed), sketch, bases, 26.0)
        pixels = set(union(rasterize(sketch.strokes(), (400, 160))).pixel.tolist())
        covered += [int(y) * 400 + int(x) in pixels for x, y in bases]
        rows = np.asarray(sorted(pixels)) // 400
        assert rows.min() > 60 - 2 * 26 - 4
        assert rows.max() < 64 + 26 + 12
    assert np.mean(covered) > 0.75


def test_roots_are_dark_on_light_agar_and_pale_on_dark_agar() -> None:
    for seed in range(40):
        scene = RosettePlateScene(
            Rng(seed), Canvas((64, 64), None), generate("plate-rosette", seed, size=(64, 64)), "rosette"
        )
        for level, darker in ((60, False), (110, False), (180, True), (230, True)):
            material = scene._material(Backdrop((level, level, level), 2.0, 0.9))
            assert (sum(material.thin) / 3 < level) == darker
            assert abs(sum(material.thin) / 3 - level) > 14


def test_most_plates_are_bright() -> None:
    bright = [
        RosettePlateScene(Rng(seed), Canvas((64, 64), None), Skeleton([], [], image_size=(64, 64)), "rosette").bright
        for seed in range(200)
    ]
    assert 0.55 < np.mean(bright) < 0.77


@pytest.mark.parametrize("name", ["_strips_of_tape", "_other_rims", "_cracks", "_fibers"])
def test_misleading_objects_are_sketched(name: str) -> None:
    for seed in range(6):
        scene = RosettePlateScene(Rng(seed), Canvas((512, 512), None), generate("plate-rosette", seed), "rosette")
        getattr(scene, name)()
        assert len(scene.behind.strokes()) + len(scene.front.strokes()) > 0


def test_drips_stay_in_the_dish() -> None:
    for seed in range(10):
        scene = RosettePlateScene(Rng(seed), Canvas((512, 512), None), generate("plate-rosette", seed), "rosette")
        sketch = Sketch()
        scene._drips(sketch)
        drawn = sketch.strokes()
        assert len(drawn) >= 7
        x, y = scene.dish.center
        assert (np.abs(drawn.start[:, 1] - y) < 1.2 * scene.dish.half[1] + 0.2 * scene.dish.half[0]).all()
        assert (np.abs(drawn.start[:, 0] - x) < 1.3 * scene.dish.half[0] + 0.2 * scene.dish.half[1] + 60).all()


@pytest.mark.slow
@pytest.mark.parametrize("size", [(64, 64), (570, 190), (90, 300), (900, 700)])
def test_every_image_shape_is_painted(size: tuple[int, int]) -> None:
    for seed in range(8):
        array, skeleton = make_image("plate-rosette", "photo", seed, size)
        assert array.shape == (size[1], size[0], 3)
        assert array.std() > 2
        assert len(skeleton) > 1


@pytest.mark.slow
def test_roots_are_visible_below_the_rosettes() -> None:
    visible = []
    for seed in range(12):
        skeleton = generate("plate-rosette", seed)
        scene = RosettePlateScene(Rng(seed), Canvas((512, 512), None), skeleton, "rosette")
        scene.paint_dish()
        before = scene.canvas.planes.copy()
        scene.paint_seedlings()
        column, row = np.clip(skeleton.nodes.astype(int), 0, 511).T
        visible.append(np.mean(np.abs(scene.canvas.planes - before)[:, row, column].max(axis=0) > 6))
    assert np.mean(visible) > 0.9
