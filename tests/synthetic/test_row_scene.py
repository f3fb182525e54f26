"""Trees and vines among rows of others: perspective, the free space around the subject, and the complete scenes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from treeformer import Skeleton
from treeformer.synthetic import Backgrounds, drawn_radius, generate, make_image, render
from treeformer.synthetic.painting.canvas import Canvas, Sketch
from treeformer.synthetic.presets import OUTDOOR_ROWS
from treeformer.synthetic.rng import Rng
from treeformer.synthetic.scenes.outdoor import clearing, photo_scene, plantation
from treeformer.synthetic.scenes.outdoor.daylight import choose_daylight
from treeformer.synthetic.scenes.outdoor.row_scene import RowScene

KIND = {"orchard-row": "orchard", "vineyard": "vine"}


def rows_of(seed: int) -> plantation.Plantation:
    return plantation.lay_out(Rng(seed), (512, 512), (240.0, 460.0), 380.0, 250.0, vines=seed % 2 == 0)


def test_points_on_the_ground_are_found_again() -> None:
    for seed in range(20):
        rows = rows_of(seed)
        assert rows.cosine**2 + rows.sine**2 == pytest.approx(1.0)
        x, y, scale = rows.project(np.asarray([0.0, 0.3, -0.2]), 1.5)
        for column, line, size in zip(x, y, scale, strict=True):
            row, found = rows.on_ground(np.asarray([column]), np.asarray([line]))
            assert row[0, 0] == pytest.approx(1.5, abs=1e-6)
            assert found[0, 0] == pytest.approx(size)
    x, y, scale = rows.project(np.asarray([0.0]), 0.0)
    assert (x[0], y[0], scale[0]) == pytest.approx((240.0, 460.0, 1.0))


def test_plants_behind_the_camera_do_not_appear() -> None:
    rows = plantation.Plantation((240.0, 460.0), 250.0, 380.0, 256.0, 1.2, 0.0, 1.0, 1.0, 0.5)
    assert rows.project(np.asarray([-5.0]), 0.0)[2][0] == 0
    assert (plantation.places(Rng(1), rows, 512)[:, 2] > 0.1).all()


def test_the_subject_is_the_large_plant_in_the_middle() -> None:
    count = 0
    for seed in range(60):
        rows = rows_of(seed)
        found = plantation.places(Rng(9, seed), rows, 512)
        count += len(found)
        assert len(found) <= plantation.MAX_PLANTS
        assert (np.diff(found[:, 2]) >= 0).all()  # the nearest is painted last
        for x, y, scale, _ in found.tolist():
            assert y == pytest.approx(250 + 210 * scale, abs=0.1)
            assert abs(x - 240) > 0.1 * 380 - 0.1 or scale < 0.69
            assert scale < plantation.LARGE + 0.01 or abs(x - 256) > 0.25 * 512
    assert count > 200


@pytest.mark.slow
@pytest.mark.parametrize("preset", OUTDOOR_ROWS)
def test_bare_plants_are_visible_nearly_everywhere(preset: str) -> None:
    """The image differs at the nodes from the same background without the plant."""
    visible = []
    for seed in range(10):
        skeleton = generate(preset, seed)
        scene = RowScene(Rng(seed), Canvas((512, 512), None), skeleton, KIND[preset])
        scene.leaves = None
        scene.paint_land()
        before = scene.canvas.planes.copy()
        scene.paint_plant()
        column, row = np.clip(skeleton.nodes.astype(int), 0, 511).T
        visible.append(np.mean(np.abs(scene.canvas.planes - before)[:, row, column].max(axis=0) > 10))
    assert np.mean(visible) > 0.85


@pytest.mark.slow
@pytest.mark.parametrize("preset", OUTDOOR_ROWS)
@pytest.mark.parametrize("size", [(64, 64), (570, 190), (90, 300), (900, 700)])
def test_scenes_are_painted_for_every_image_shape(preset: str, size: tuple[int, int]) -> None:
    for seed in range(5):
        for skeleton in (generate(preset, seed, size=size), Skeleton([], [], image_size=size)):
            canvas = Canvas(size, (-999, -999, -999))
            scene = RowScene(Rng(seed), canvas, skeleton, KIND[preset])
            scene.paint_land()
            scene.paint_plant()
            assert canvas.planes.min() > -400
            assert canvas.planes.max() < 800


def test_without_a_subject_no_other_plant_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[float] = []
    monkeypatch.setattr(RowScene, "_draw_plant", lambda self, *args: drawn.append(args[5]))
    for seed in range(6):
        for metadata in ({"scene": "orchard rows"}, {}):
            drawn.clear()
            empty = Skeleton([], [], image_size=(512, 512), metadata=metadata)
            RowScene(Rng(seed), Canvas((512, 512), None), empty, "orchard").paint_land()
            assert bool(drawn) == (not metadata)


@pytest.mark.slow
@pytest.mark.parametrize("preset", OUTDOOR_ROWS)
def test_trunks_cut_by_the_frame_have_no_foot(preset: str) -> None:
    cut = [skeleton for seed in range(80) if (skeleton := generate(preset, seed)).metadata.get("foot") == "outside"]
    assert 2 < len(cut) < 30
    for skeleton in cut:
        root = skeleton.root
        assert root is not None
        assert skeleton.radius is not None
        assert skeleton.nodes[root, 1] == 510
        assert drawn_radius(skeleton, "photo")[root] == pytest.approx(skeleton.radius[root], abs=0.2)


@pytest.mark.slow
def test_orchard_trees_are_dense() -> None:
    """Nodes as the default network places them: about 170 per tree, within the tokens of dense batches."""
    counts = [len(generate("orchard-row", seed).sample_at_grid_crossings(44)) for seed in range(60)]
    assert 110 < np.median(counts) < 260
    assert np.percentile(counts, 95) <= 448


@pytest.mark.slow
@pytest.mark.parametrize("preset", OUTDOOR_ROWS)
def test_light_and_colors_vary(preset: str) -> None:
    arrays = [make_image(preset, "photo", seed, (128, 128))[0] for seed in range(30)]
    means = np.asarray([array.reshape(-1, 3).mean(axis=0) for array in arrays])
    assert means.std(axis=0).min() > 15
    assert np.mean([25 < array.mean() < 225 for array in arrays]) > 0.9


def test_ground_objects_stay_on_the_ground() -> None:
    light = choose_daylight(Rng(4))
    for seed in range(12):
        rows = rows_of(seed)
        canvas = Canvas((512, 512), (100, 100, 100))
        clearing.paint_strips(Rng(seed), canvas, rows, light)
        clearing.paint_snow(Rng(seed), canvas, 250, light)
        assert (canvas.planes[:, :250] == 100).all()
        sketch = Sketch()
        clearing.scatter(Rng(seed), canvas, sketch, rows, light, (90, 80, 70))
        if len(sketch.strokes()):
            assert sketch.strokes().start[:, 1].min() > 250
        canvas = Canvas((512, 512), (100, 100, 100))
        clearing.paint_glow(Rng(seed), canvas, 250, light)
        assert (canvas.planes[:, 250:] == 100).all()


def test_strips_follow_the_rows() -> None:
    """Reference: the earth below row 0 is changed more than the middle of the alley."""
    light = choose_daylight(Rng(4))
    on_row, between = [], []
    for seed in range(30):
        rows = rows_of(seed)
        canvas = Canvas((512, 512), (60, 140, 60))
        clearing.paint_strips(Rng(seed), canvas, rows, light)
        for along in np.linspace(-0.3, 0.3, 13):
            for number, collected in ((0.0, on_row), (0.5, between)):
                x, y, _ = rows.project(np.asarray([along]), number)
                if 0 <= x[0] < 512 and 252 < y[0] < 512:
                    collected.append(abs(int(canvas.planes[0, int(y[0]), int(x[0])]) - 60))
    assert np.mean(on_row) > 3 * np.mean(between)


@pytest.mark.slow
@pytest.mark.parametrize("preset", OUTDOOR_ROWS)
def test_composites_show_the_photograph_and_the_plant_where_it_is_labeled(preset: str, tmp_path: Path) -> None:
    """Before an even photograph, only the wood and what belongs to it differs from the photograph."""
    path = tmp_path / "pale.png"
    Image.new("RGB", (96, 96), (180, 190, 200)).save(path)
    found = []
    for seed in range(4):
        skeleton = generate(preset, seed, size=(256, 256))
        image = render(skeleton, "photo", seed, Backgrounds((path,))).astype(float)
        assert np.array_equal(image, render(skeleton, "photo", seed, Backgrounds((path,))))
        gray = image.mean(axis=2)
        column, row = np.clip(skeleton.nodes.astype(int), 0, 255).T
        found.append(np.median(gray) - np.median(gray[row, column]))
    assert min(found) > 15  # bark before a pale sheet


def test_the_ground_repeats_in_mirror_images() -> None:
    assert photo_scene._mirrored(np.arange(-2.0, 7.0), 3).tolist() == [1, 0, 0, 1, 2, 2, 1, 0, 0]
