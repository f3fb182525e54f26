"""Potted plants: the pot holds the base, the stem is visible, and every image shape is painted."""

from __future__ import annotations

import numpy as np
import pytest

from treeformer import Skeleton
from treeformer.synthetic import generate, make_image
from treeformer.synthetic.painting.canvas import Canvas
from treeformer.synthetic.painting.material import Backdrop
from treeformer.synthetic.rng import Rng
from treeformer.synthetic.scenes import potted
from treeformer.synthetic.scenes.potted import PottedScene


def test_the_base_is_in_the_soil() -> None:
    """The pixels below the base belong to the pot: they differ from the background painted without it."""
    for seed in range(10):
        skeleton = generate("potted-shoot", seed)
        scene = PottedScene(Rng(seed), Canvas((512, 512), None), skeleton)
        assert scene.base == tuple(skeleton.nodes[skeleton.component_root[0]])
        canvas = Canvas((512, 512), (200, 0, 200))
        potted._paint_pot(Rng(seed), canvas, scene.base, scene.pot_px, 2 * scene.pot_px, (90.0, 90.0, 90.0))
        x, y = (int(value) for value in scene.base)
        assert (canvas.planes[:, min(y + 2, 511), x] != (200, 0, 200)).all()
        assert (canvas.planes[:, : y - int(scene.pot_px)] == np.asarray((200, 0, 200))[:, None, None]).all()


@pytest.mark.slow
def test_stems_are_visible() -> None:
    visible = []
    for seed in range(16):
        skeleton = generate("potted-shoot", seed)
        scene = PottedScene(Rng(seed), Canvas((512, 512), None), skeleton)
        scene.paint_room()
        before = scene.canvas.planes.copy()
        scene.paint_plant()
        column, row = np.clip(skeleton.nodes.astype(int), 0, 511).T
        visible.append(np.mean(np.abs(scene.canvas.planes - before)[:, row, column].max(axis=0) > 10))
    assert np.mean(visible) > 0.9


@pytest.mark.slow
def test_leaves_hide_less_than_half_of_the_stems(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare with the same image without leaves in front."""
    hidden = []
    for seed in range(30):
        skeleton = generate("potted-shoot", seed)
        images = []
        for bare in (False, True):
            scene = PottedScene(Rng(seed), Canvas((512, 512), (128, 128, 128)), skeleton)
            if bare:
                scene.front.draw = lambda *args: None  # type: ignore[method-assign]
            scene.paint_plant()
            images.append(scene.canvas.planes.copy())
        column, row = np.clip(skeleton.nodes.astype(int), 0, 511).T
        hidden.append(np.mean((images[0] != images[1])[:, row, column].any(axis=0)))
    assert 0.02 < np.mean(hidden) < 0.4


def test_stems_contrast_with_any_background() -> None:
    for level in (10, 60, 110, 128, 180, 240):
        for seed in range(40):
            material = potted._stem_material(Rng(seed), Backdrop((level, level, level), 0.0, 1.0))
            assert abs(sum(material.thick) / 3 - level) > 0.9 * min(potted.MIN_CONTRAST, max(level, 30))


@pytest.mark.slow
@pytest.mark.parametrize("size", [(64, 64), (570, 190), (90, 300), (900, 700)])
def test_every_image_shape_is_painted(size: tuple[int, int]) -> None:
    for seed in range(8):
        for skeleton in (generate("potted-shoot", seed, size=size), Skeleton([], [], image_size=size)):
            canvas = Canvas(size, (-999, -999, -999))
            scene = PottedScene(Rng(seed), canvas, skeleton)
            scene.paint_room()
            scene.paint_plant()
            assert canvas.planes.min() > -400
            assert canvas.planes.max() < 700


@pytest.mark.slow
def test_photographs_differ_from_each_other() -> None:
    means = np.asarray([make_image("potted-shoot", "photo", seed)[0].mean(axis=(0, 1)) for seed in range(30)])
    assert means.std(axis=0).min() > 25
