"""The preset `empty`: every scene without its plant, with an empty skeleton."""

from __future__ import annotations

import numpy as np
import pytest

from treeformer import Skeleton
from treeformer.synthetic import STYLES, generate, make_image, render
from treeformer.synthetic.painting.canvas import Canvas
from treeformer.synthetic.presets import EMPTY_SCENES
from treeformer.synthetic.render import SCENES
from treeformer.synthetic.rng import Rng
from treeformer.synthetic.scenes.outdoor import bark, trellis
from treeformer.synthetic.scenes.outdoor.scene import OutdoorScene


@pytest.mark.slow
@pytest.mark.parametrize("style", STYLES)
def test_the_ground_truth_is_an_empty_skeleton(style: str) -> None:
    for seed in range(20):
        array, skeleton = make_image("empty", style, seed, (160, 120))
        assert array.shape == (120, 160, 3)
        assert len(skeleton) == 0
        assert len(skeleton.edges) == 0
        assert skeleton.radius is not None
        assert skeleton.radius.shape == (0,)
        assert skeleton.image_size == (160, 120)
        assert skeleton.metadata["scene"] in EMPTY_SCENES
        if style == "paper":
            assert (array == 255).all()
    assert make_image("empty", style, 3)[1] == make_image("empty", style, 3)[1]


def test_every_scene_occurs() -> None:
    assert set(SCENES) < set(EMPTY_SCENES)
    assert {generate("empty", seed).metadata["scene"] for seed in range(300)} == set(EMPTY_SCENES)


@pytest.mark.slow
@pytest.mark.parametrize("scene", EMPTY_SCENES)
def test_every_scene_is_painted_without_a_plant(scene: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No wood is painted, and no neighbor of a vine is drawn."""

    def fail(*args: object) -> None:
        raise AssertionError("a plant is drawn")

    monkeypatch.setattr(trellis, "neighbors", fail)
    painted: list[int] = []
    monkeypatch.setattr(bark, "blend", lambda canvas, pixel, *args: painted.append(len(pixel)))
    for seed in range(6):
        for size in ((128, 96), (90, 300)):
            skeleton = Skeleton([], [], image_size=size, metadata={"preset": "empty", "scene": scene})
            array = render(skeleton, "photo", seed)
            assert array.shape == (size[1], size[0], 3)
            assert array.std() > 0.5
    assert sum(painted) == 0


@pytest.mark.slow
def test_rows_behind_a_missing_plant_are_far_away(monkeypatch: pytest.MonkeyPatch) -> None:
    from treeformer.synthetic.scenes.outdoor import far_rows

    heights: dict[bool, list[float]] = {True: [], False: []}
    for without in (True, False):
        metadata = {"scene": "orchard land"} if without else {}
        skeleton = Skeleton([], [], image_size=(512, 512), metadata=metadata)
        for seed in range(20):
            monkeypatch.setattr(
                far_rows,
                "paint_row",
                lambda *args, without=without, **options: heights[without].append(args[4]),
            )
            OutdoorScene(Rng(seed), Canvas((512, 512), None), skeleton, "orchard").paint_land()
    assert np.max(heights[True]) < 0.4 * np.max(heights[False])
