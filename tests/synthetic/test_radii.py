"""The radii of synthetic skeletons are those of the drawn plant, measured across it in the pixels."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.ndimage import map_coordinates

from treeformer import Skeleton
from treeformer._util.arrays import FloatArray
from treeformer.synthetic import PRESETS, STYLES, drawn_radius, generate, make_image, render
from treeformer.synthetic.painting.canvas import Canvas
from treeformer.synthetic.painting.material import Backdrop, Material, paint_plant
from treeformer.synthetic.painting.raster import rasterize_layers
from treeformer.synthetic.rng import Rng
from treeformer.synthetic.scenes.outdoor import bark
from treeformer.synthetic.scenes.outdoor.daylight import choose_daylight

MARGIN_PX = 2.5  # profiles reach this far beyond the outline
OUTDOORS = {"vine": "vine", "orchard": "orchard", "orchard-row": "orchard", "vineyard": "vine"}
GROWN = tuple(preset for preset in PRESETS if preset != "empty")


def coverage_of(skeleton: Skeleton, preset: str, style: str) -> FloatArray:
    """Return the (H,W) coverage of the plant: paint it on black and on gray, and compare."""
    if style == "paper":
        return 1 - render(skeleton, "paper", 0)[:, :, 0] / 255
    planes = []
    for level in (0, 200):
        canvas = Canvas((512, 512), (level, level, level))
        if preset in OUTDOORS:
            light = choose_daylight(Rng(5))
            wood = bark.choose_wood(Rng(6), OUTDOORS[preset], Backdrop((200, 200, 200), 0.0, 1.0), light)
            strokes_and_arcs = bark.wood_strokes(skeleton)
            layer = rasterize_layers([strokes_and_arcs[0]], canvas.size)[0]
            bark.paint_wood(Rng(7), canvas, skeleton, wood, light, strokes_and_arcs, layer)
        else:
            paint_plant(Rng(7), canvas, skeleton, Material(thin=(90, 90, 90), thick=(60, 60, 60), texture=0.2))
        planes.append(canvas.planes[0].astype(float))
    return 1 - (planes[1] - planes[0]) / 200


def free_edges(skeleton: Skeleton, radius: FloatArray) -> list[int]:
    """Return edges inside the frame between nodes of similar radius whose middle no other axis touches."""
    found = []
    axis = skeleton.edge_axis
    tail, head = skeleton.edges.T
    middle = (skeleton.nodes[tail] + skeleton.nodes[head]) / 2
    # Points on all edges, dense enough: most edges are about 8 px long.
    share = np.linspace(0, 1, 9)[:, None, None]
    points = skeleton.nodes[tail] + share * (skeleton.nodes[head] - skeleton.nodes[tail])
    thickest = np.maximum(radius[tail], radius[head])
    reach = thickest + MARGIN_PX
    similar = np.abs(radius[tail] - radius[head]) < 0.1 * thickest
    inside = ((middle > reach[:, None] + 4) & (middle < 512 - reach[:, None] - 4)).all(axis=1)
    for edge in np.flatnonzero(similar & inside & (skeleton.edge_length > 6)).tolist():
        gap = np.sqrt(((points - middle[edge]) ** 2).sum(axis=2)).min(axis=0)
        near = gap < reach[edge] + thickest + 2
        near[edge] = False
        if not (near & (axis != axis[edge])).any():
            found.append(edge)
    return found


def measured_width(coverage: FloatArray, skeleton: Skeleton, edge: int, reach: float) -> float:
    """Integrate the coverage across the middle of an edge, px."""
    before, after = skeleton.nodes[skeleton.edges[edge]]
    along = (after - before) / np.sqrt(((after - before) ** 2).sum())
    offset = np.arange(-reach, reach, 0.1)
    # Averaged over a few px along the edge: thin strokes alternate between neighboring pixels.
    profiles = []
    for shift in np.linspace(-2, 2, 9):
        points = (before + after) / 2 + shift * along + offset[:, None] * (-along[1], along[0])
        profiles.append(map_coordinates(coverage, (points[:, 1] - 0.5, points[:, 0] - 0.5), order=1).sum() * 0.1)
    return float(np.mean(profiles))


@pytest.mark.slow
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("preset", GROWN)
def test_drawn_radii_are_those_in_the_pixels(preset: str, style: str) -> None:
    """Width within 0.2 px and 4 % of twice the radius; ragged wood within 0.3 px and 16 %, and 3 % on average."""
    ratios, count, seed = [], 0, 0
    while count < 60 and seed < 12:
        skeleton = generate(preset, seed)
        radius = drawn_radius(skeleton, style)
        coverage = coverage_of(skeleton, preset, style)
        ragged = style == "photo" and preset in OUTDOORS
        for edge in free_edges(skeleton, radius)[:40]:
            expected = float(radius[skeleton.edges[edge]].sum())
            width = measured_width(coverage, skeleton, edge, expected / 2 + MARGIN_PX)
            absolute, relative = (0.3, 0.16) if ragged else (0.2, 0.04)
            assert width == pytest.approx(expected, abs=absolute + relative * expected), (seed, edge)
            ratios.append(width / expected)
            count += 1
        seed += 1
    assert count >= 30
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["vine", "orchard"])
def test_the_foot_of_a_trunk_is_wider_outdoors(preset: str) -> None:
    """The growth model's radius would be too small there by more than half."""
    measured = []
    for seed in range(20):
        skeleton = generate(preset, seed)
        radius = drawn_radius(skeleton, "photo")
        root = skeleton.root
        assert root is not None
        assert skeleton.radius is not None
        child = int(skeleton.edges[skeleton.edges[:, 0] == root, 1][0])
        along = skeleton.nodes[child] - skeleton.nodes[root]
        along = along / np.sqrt(along @ along)
        if radius[root] > 20 or not 40 < skeleton.nodes[root, 0] < 472:
            continue
        coverage = coverage_of(skeleton, preset, "photo")
        offset = np.arange(-radius[root] - 3, radius[root] + 3, 0.1)
        points = skeleton.nodes[root] + 0.5 * along + offset[:, None] * (-along[1], along[0])
        width = map_coordinates(coverage, (points[:, 1] - 0.5, points[:, 0] - 0.5), order=1).sum() * 0.1
        measured.append((width / 2, radius[root], skeleton.radius[root]))
    drawn, stated, grown = np.mean(measured, axis=0)
    assert len(measured) > 5
    assert drawn == pytest.approx(stated, rel=0.12)
    assert stated > 1.5 * grown


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("preset", PRESETS)
def test_images_come_with_drawn_radii(preset: str, style: str) -> None:
    _, skeleton = make_image(preset, style, 3, (200, 160))
    grown = generate(preset, 3, size=(200, 160))
    assert skeleton.radius is not None
    assert np.array_equal(skeleton.radius, drawn_radius(grown, style))
    assert np.array_equal(skeleton.radius * 64, np.round(skeleton.radius * 64))
    assert skeleton == grown.replace(radius=skeleton.radius)


def test_isolated_nodes_and_unknown_radii_have_the_default() -> None:
    skeleton = Skeleton([(5, 5), (20, 5), (20, 20)], [(1, 2)], radius=[3.0, np.nan, 2.0], image_size=(32, 32))
    for style in STYLES:
        assert drawn_radius(skeleton, style).tolist() == [3.0, 1.0, 2.0]
    empty = Skeleton([], [], image_size=(32, 32), metadata={"kind": "vine"})
    assert drawn_radius(empty, "photo").shape == (0,)
