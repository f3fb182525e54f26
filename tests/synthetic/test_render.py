"""Rendering: reproducible on every machine, exact, and robust to any skeleton."""

from __future__ import annotations

import hashlib
import math
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PIL import features

from treeformer import Skeleton, TreeformerError
from treeformer.synthetic import PRESETS, STYLES, generate, make_image, render
from treeformer.synthetic.painting import noise, optics
from treeformer.synthetic.painting.canvas import Canvas
from treeformer.synthetic.painting.material import Material, paint_plant
from treeformer.synthetic.plants.plate_rows import PLATE_KINDS
from treeformer.synthetic.render import POTTED_KIND, SCENE_WEIGHTS, SCENES, photograph
from treeformer.synthetic.rng import Rng
from treeformer.synthetic.scenes.outdoor import canopy, far_rows, ground

# Changing what is painted changes these hashes. Update them in the same commit and state the reason there.
HASH_OF_100 = {
    "paper": "f62ca32ae2fab6e9",
    "photo": "363f8bf67ec43b41",
}
HASH_OF_TREES_AND_VINES = "f0561f99ed478a06"
HASH_OF_PLATES = "326426e2efa6a08c"
# The presets of HASH_OF_100, one after another. A new preset gets a hash of its own.
FIRST_PRESETS = ("paper", "taproot", "seedling", "vine", "orchard", "several")
OUTDOORS = ("vine", "orchard")
HASH_OF_JPEG = "c5563cf1c272c5fb"
BASE_HEIGHTS = (0.02, 0.3, 0.5, 0.7, 0.9, 0.99)


def hash_of(preset_of_seed: dict[int, str], style: str) -> str:
    total = hashlib.sha256()
    for seed, preset in preset_of_seed.items():
        array, skeleton = make_image(preset, style, seed)
        total.update(array.tobytes())
        total.update(skeleton.nodes.tobytes())
        total.update(skeleton.edges.astype(np.int64).tobytes())
    return total.hexdigest()[:16]


@pytest.mark.slow
@pytest.mark.parametrize("style", STYLES)
def test_first_100_images_are_the_same_on_every_machine(style: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Excludes the JPEG step, which depends on another library and has its own test below."""
    monkeypatch.setattr(optics, "jpeg", lambda array, quality: array)
    presets = {seed: "paper" if style == "paper" else FIRST_PRESETS[seed % 6] for seed in range(100)}
    outdoors = {seed: preset for seed, preset in presets.items() if preset in OUTDOORS}
    # Trees and vines have a separate hash: they may change, while the others are fixed test sets.
    assert (
        hash_of({seed: preset for seed, preset in presets.items() if seed not in outdoors}, style) == HASH_OF_100[style]
    )
    if style == "photo":
        assert hash_of(outdoors, style) == HASH_OF_TREES_AND_VINES


@pytest.mark.slow
def test_first_plates_are_the_same_on_every_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optics, "jpeg", lambda array, quality: array)
    assert hash_of(dict.fromkeys(range(24), "plate"), "photo") == HASH_OF_PLATES


@pytest.mark.slow
def test_last_bits_of_library_functions_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sine of another machine may differ in the last bit: simulate this for all inexact functions."""
    monkeypatch.setattr(optics, "jpeg", lambda array, quality: array)
    seeds = range(2 * len(PRESETS))
    presets = {seed: PRESETS[seed % len(PRESETS)] for seed in seeds} | dict.fromkeys(range(42, 50), "plate")
    expected, sine = hash_of(presets, "photo"), np.sin(1.0)
    # The tiles that are drawn with sines.
    tiles = (noise.fibers, noise.leaves, noise.foliage, noise.gravel, ground.turf, ground.litter, canopy.leaf_tile)
    tiles += (far_rows.grown_plant, far_rows.row_tile)
    for tile in tiles:
        tile.cache_clear()
    for module, names in ((np, ("sin", "cos", "exp", "interp", "linspace")), (math, ("sin", "cos", "atan2"))):
        for name in names:
            original = getattr(module, name)

            def inexact(*args: Any, original: Callable[..., Any] = original, **options: Any) -> Any:
                exact = np.asarray(original(*args, **options), dtype=np.float64)
                towards = np.where(np.arange(exact.size).reshape(exact.shape) % 3 == 0, np.inf, -np.inf)
                # 0, 1 and -1 are exact in every library.
                return np.where((exact == 0) | (np.abs(exact) == 1), exact, np.nextafter(exact, towards))[()]

            monkeypatch.setattr(module, name, inexact)
    assert np.sin(1.0) != sine
    assert hash_of(presets, "photo") == expected
    for tile in tiles:
        tile.cache_clear()


@pytest.mark.skipif(not features.check_feature("libjpeg_turbo"), reason="Pillow was built with another JPEG library")
def test_jpeg_is_the_same_on_every_machine() -> None:
    array = make_image("paper", "photo", 1)[0]
    total = hashlib.sha256()
    for quality in (35, 60, 75, 90, 95):
        total.update(optics.jpeg(array, quality).tobytes())
    assert total.hexdigest()[:16] == HASH_OF_JPEG


@pytest.mark.slow
def test_order_and_repetition_do_not_matter() -> None:
    first = make_image("vine", "photo", 5)[0]
    make_image("seedling", "photo", 8)
    again = make_image("vine", "photo", 5)[0]
    assert np.array_equal(first, again)
    assert not np.array_equal(first, make_image("vine", "photo", 6)[0])


@pytest.mark.slow
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("kind", ["", *SCENE_WEIGHTS, *PLATE_KINDS, POTTED_KIND])
@pytest.mark.parametrize(
    ("nodes", "edges"),
    [([], []), ([(20.0, 30.0)], []), ([(0, 0), (64, 48), (64, 0)], [(0, 1), (1, 2), (2, 0)])],
    ids=["empty", "one node", "a cycle"],
)
def test_any_skeleton_is_rendered(
    style: str, kind: str, nodes: list[tuple[float, float]], edges: list[tuple[int, int]]
) -> None:
    skeleton = Skeleton(nodes, edges, image_size=(64, 48), metadata={"kind": kind} if kind else None)
    for seed in range(6):
        array = render(skeleton, style, seed)
        assert array.shape == (48, 64, 3)
        assert array.dtype == np.uint8
        assert array.flags.writeable


@pytest.mark.parametrize("kind", ["", "taproot", "vine", PLATE_KINDS[0], POTTED_KIND])
def test_branches_may_have_the_radius_zero(kind: str) -> None:
    skeleton = Skeleton([(20, 8), (40, 40)], [(0, 1)], radius=[0, 0], image_size=(64, 48), metadata={"kind": kind})
    for style in STYLES:
        assert render(skeleton, style, 0).shape == (48, 64, 3)


def test_default_image_size() -> None:
    assert render(Skeleton([(5, 5), (9, 9)], [(0, 1)]), "paper", 0).shape == (512, 512, 3)


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("size", [(64, 64), (570, 190), (90, 300)])
def test_every_scene_at_every_shape(scene: str, size: tuple[int, int]) -> None:
    for seed in range(6):
        canvas = Canvas(size)
        canvas.planes[:] = -999
        bases = np.asarray([(size[0] / 2, size[1] * BASE_HEIGHTS[seed])])
        SCENES[scene](Rng(seed), canvas, bases).draw(canvas)
        assert canvas.planes.min() > -400  # everything is painted, and nothing overflows
        assert canvas.planes.max() < 700


def test_every_combination_of_plant_and_scene_occurs(monkeypatch: pytest.MonkeyPatch) -> None:
    painted: set[tuple[str, str]] = set()

    def record(rng: Rng, canvas: Canvas, skeleton: Skeleton, kind: str, scene: str) -> None:
        painted.add((kind, scene))

    module = sys.modules[photograph.__module__]
    monkeypatch.setattr(module, "_photograph_indoors", record)
    monkeypatch.setattr(module, "_photograph_outdoors", lambda *_: None)
    for kind in SCENE_WEIGHTS:
        plant = Skeleton([(30, 10), (30, 40)], [(0, 1)], root=0, image_size=(64, 64), metadata={"kind": kind})
        for seed in range(1500):
            photograph(plant, Rng(1, seed))
            if len([pair for pair in painted if pair[0] == kind]) == len(SCENES):
                break
    for kind in SCENE_WEIGHTS:  # trees and vines have separate scenes
        assert {scene for plant_kind, scene in painted if plant_kind == kind} == (
            set() if kind in OUTDOORS else set(SCENES)
        )


def test_trees_of_several_are_painted_in_simple_scenes() -> None:
    """The preset `several` is a fixed test set: its trees do not use the outdoor scenes of single trees."""
    plant = Skeleton([(30, 10), (30, 40)], [(0, 1)], root=0, image_size=(64, 64), metadata={"kind": "vine"})
    row = Skeleton(
        plant.nodes, plant.edges, root=0, image_size=(64, 64), metadata={"kind": "vine", "preset": "several"}
    )
    assert not np.array_equal(photograph(plant, Rng(1)), photograph(row, Rng(1)))


def test_line_drawing_lies_on_the_ground_truth() -> None:
    """The ink of an edge is centered on it, within a tenth of a pixel."""
    line = Skeleton([(100.3, 80.7), (180.9, 140.2)], [(0, 1)], radius=[1, 1], image_size=(256, 256))
    ink = 255.0 - render(line, "paper", 0)[:, :, 0]
    row, column = np.indices(ink.shape) + 0.5
    assert (ink * column).sum() / ink.sum() == pytest.approx((100.3 + 180.9) / 2, abs=0.1)
    assert (ink * row).sum() / ink.sum() == pytest.approx((80.7 + 140.2) / 2, abs=0.1)
    assert render(line, "paper", 0)[0, 0].tolist() == [255, 255, 255]
    assert render(line, "paper", 0)[110, 140].max() < 30


@pytest.mark.parametrize("preset", PRESETS)
def test_painted_branches_lie_on_the_ground_truth(preset: str) -> None:
    """Pixels on the edges of a plant that is painted in one color on black are bright."""
    skeleton = generate(preset, 4)
    canvas = Canvas((512, 512), (0, 0, 0))
    paint_plant(Rng(1), canvas, skeleton, Material(thin=(200, 200, 200), thick=(200, 200, 200)))
    expected = Canvas((512, 512), (0, 0, 0))
    radius = np.asarray(skeleton.radius)
    for a, b in skeleton.edges.tolist():
        # Reference: mark the pixels of points sampled along the edge.
        for t in np.linspace(0, 1, 20):
            x, y = skeleton.nodes[a] * (1 - t) + skeleton.nodes[b] * t
            if 1 <= x < 511 and 1 <= y < 511 and min(radius[a], radius[b]) >= 0.75:
                expected.planes[0, int(y), int(x)] = 1
    on_line = canvas.planes[0][expected.planes[0] == 1]
    assert len(on_line) == 0 or np.mean(on_line > 100) > 0.97


@pytest.mark.slow
def test_photographs_show_the_plant() -> None:
    """The image differs from the same scene without the plant at most nodes."""
    visible = []
    for seed in range(12):
        for preset in ("taproot", "orchard", "plate"):
            skeleton = generate(preset, seed)
            bare = Skeleton([], [], image_size=(512, 512), metadata=dict(skeleton.metadata))
            with_plant, without = (render(s, "photo", seed).astype(int) for s in (skeleton, bare))
            column, row = np.clip(skeleton.nodes.astype(int), 0, 511).T
            patch = np.abs(with_plant - without)[row, column].max(axis=1)
            visible.append(np.mean(patch > 6))
    assert np.mean(visible) > 0.7


@pytest.mark.slow
def test_photographs_differ_from_each_other() -> None:
    arrays = [make_image("taproot", "photo", seed)[0] for seed in range(30)]
    means = np.asarray([array.reshape(-1, 3).mean(axis=0) for array in arrays])
    assert means.std(axis=0).min() > 20  # colors and light vary widely
    assert np.mean([20 < array.mean() < 235 for array in arrays]) > 0.8  # few images are very dark or very bright


def test_make_image_can_be_pickled() -> None:
    call = pickle.loads(pickle.dumps(make_image))
    array, skeleton = call("several", "photo", 3, (320, 200))
    assert array.shape == (200, 320, 3)
    assert skeleton.image_size == (320, 200)
    assert pickle.loads(pickle.dumps(skeleton)) == skeleton


def test_invalid_arguments() -> None:
    with pytest.raises(TreeformerError, match="unknown style 'oil': choose one of paper, photo"):
        render(Skeleton([], []), "oil", 0)
    with pytest.raises(TreeformerError, match="the seed must be zero or more, not -3"):
        render(Skeleton([], []), "photo", -3)


@pytest.mark.slow
def test_import_loads_no_heavy_library() -> None:
    heavy = ["torch", "pandas", "matplotlib", "typer", "rich"]
    code = f"import sys, treeformer.synthetic; print([name for name in {heavy} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
