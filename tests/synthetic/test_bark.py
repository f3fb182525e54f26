"""Wood lies on the skeleton, contrasts with its background and is lit from the side of the sun."""

from __future__ import annotations

import numpy as np
import pytest

from treeformer import Axis, Skeleton
from treeformer.synthetic import generate
from treeformer.synthetic.painting import noise
from treeformer.synthetic.painting.canvas import Canvas, Sketch
from treeformer.synthetic.painting.material import Backdrop, plant_strokes
from treeformer.synthetic.painting.raster import rasterize_layers
from treeformer.synthetic.rng import Rng
from treeformer.synthetic.scenes.outdoor import bark
from treeformer.synthetic.scenes.outdoor.daylight import Daylight, choose_daylight

GRAY = Daylight("overcast", 0.0, (0.0, -1.0, 0.0), 1.0, (1.0, 1.0, 1.0))
FLAT = bark.Wood((200, 200, 200), (200, 200, 200), noise.rough(), 0.0, 0.0, (0, 0, 0))


def trunk(radius: float, step: tuple[float, float] = (0.0, -8.0)) -> Skeleton:
    nodes = np.asarray((128.0, 230.0)) + np.outer(np.arange(24), step)
    return Skeleton(
        nodes,
        [(k, k + 1) for k in range(23)],
        root=0,
        radius=np.full(24, radius),
        axes=[Axis(tuple(range(24)))],
        edge_axis=[0] * 23,
        image_size=(256, 256),
    )


def painted(skeleton: Skeleton, wood: bark.Wood, light: Daylight, seed: int = 1) -> np.ndarray:
    canvas = Canvas((256, 256), (0, 0, 0))
    drawn = bark.wood_strokes(skeleton)
    layer = rasterize_layers([drawn[0]], canvas.size)[0]
    bark.paint_wood(Rng(seed), canvas, skeleton, wood, light, drawn, layer)
    return canvas.planes[0].astype(np.float64)


@pytest.mark.parametrize("radius", [0.6, 1.0, 3.0, 8.0])
@pytest.mark.parametrize("step", [(0.0, -8.0), (3.0, -7.5)])
def test_wood_is_centered_on_the_skeleton(radius: float, step: tuple[float, float]) -> None:
    """The center of mass of the wood in each row is on the skeleton; the ragged outline is unbiased."""
    skeleton = trunk(radius, step)
    offsets = []
    for seed in range(6):
        ink = painted(skeleton, FLAT, GRAY, seed) > 0
        for row in range(80, 200):
            columns = np.flatnonzero(ink[row]) + 0.5
            t = (row + 0.5 - 230) / step[1]
            offsets.append(columns.mean() - (128 + t * step[0]))
    assert abs(np.mean(offsets)) < 0.15
    assert np.max(np.abs(offsets)) < 0.6 + 0.2 * radius


def test_mean_width_matches_the_radius() -> None:
    widths = [(painted(trunk(8.0), FLAT, GRAY, seed)[60:160] > 0).sum(axis=1) for seed in range(8)]
    assert np.mean(widths) == pytest.approx(16.5, abs=1.0)
    assert np.std(widths) > 0.4  # ragged
    foot = (painted(trunk(8.0), FLAT, GRAY)[222:229] > 0).sum(axis=1)
    assert foot.mean() > 18  # wider at the ground
    assert not painted(trunk(8.0), FLAT, GRAY)[236:].any()  # nothing below the ground


def test_thin_wood_is_not_widened() -> None:
    skeleton = trunk(1.0)
    drawn, plain = bark.wood_strokes(skeleton)[0], plant_strokes(skeleton)
    assert np.array_equal(drawn.start_radius[3:], plain.start_radius[3:])


def test_wood_is_lighter_on_the_side_of_the_sun() -> None:
    for side in (-1.0, 1.0):
        light = Daylight("bright", 0.8, (side * 0.9, -0.3, 0.2), 0.4, (1.0, 1.0, 1.0))
        levels = painted(trunk(8.0), FLAT, light)[100:180]
        left, right = levels[:, 122:126].mean(), levels[:, 131:135].mean()
        assert (left > right) == (side < 0)


@pytest.mark.slow
def test_thin_wood_contrasts_with_its_background() -> None:
    for seed in range(300):
        rng = Rng(seed)
        light, level = choose_daylight(rng), rng.uniform(0, 255)
        wood = bark.choose_wood(rng, "vine" if seed % 2 else "orchard", Backdrop((level,) * 3, 0.0, 1.0), light)
        wood_level = sum(wood.young) / 3 * (light.ambient + 0.4 * light.sun)
        assert abs(wood_level - level) > bark.MIN_CONTRAST - 0.5


def test_arc_starts_are_sums_of_previous_edge_lengths() -> None:
    for skeleton in (generate("vine", 3), generate("orchard", 3)):
        arc = bark.arc_starts(skeleton, len(skeleton.edges))
        for number, axis in enumerate(skeleton.axes):
            total = 0.0
            for a, b in zip(axis.nodes[:-1], axis.nodes[1:], strict=True):
                edge = np.flatnonzero((skeleton.edges == (a, b)).all(axis=1) & (skeleton.edge_axis == number))[0]
                assert arc[edge] == pytest.approx(total, abs=0.5)
                total += float(np.linalg.norm(skeleton.nodes[b] - skeleton.nodes[a]))


def test_buds_twigs_and_bark_strips_are_short_and_near_the_wood() -> None:
    skeleton = generate("orchard", 5)
    for add, longest in ((bark.buds, 6.0), (bark.brushwood, 16.0)):
        sketch = Sketch()
        add(Rng(1), skeleton, sketch, (100, 80, 60), 1.0)
        drawn = sketch.strokes()
        assert len(drawn) > 10
        length = np.linalg.norm(drawn.end - drawn.start, axis=1)
        assert length.max() < longest
    sketch = Sketch()
    bark.peeling(Rng(1), trunk(6.0), sketch, (100, 80, 60))
    assert np.abs(sketch.strokes().start[:, 0] - 128).max() < 8


def test_nothing_is_added_to_a_skeleton_without_edges() -> None:
    for skeleton in (Skeleton([], []), Skeleton([(5, 5)], [])):
        sketch = Sketch()
        bark.buds(Rng(1), skeleton, sketch, (9, 9, 9), 1.0)
        bark.brushwood(Rng(1), skeleton, sketch, (9, 9, 9), 1.0)
        bark.peeling(Rng(1), skeleton, sketch, (9, 9, 9))
        assert len(sketch.strokes()) == 0


@pytest.mark.parametrize("tile", [bark.fissures, bark.strips, bark.rings])
def test_bark_tiles_have_the_common_shape_and_spread(tile: noise.Tile) -> None:
    values = tile()
    assert values.shape == (2, 2 * noise.TILE, 2 * noise.TILE)
    assert 25 < float(values.std()) < 34
    assert abs(float(values.mean())) < 1.5
