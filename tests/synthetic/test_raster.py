"""The rasterizer, compared with a loop over every pixel and stroke."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strategies import examples
from treeformer.synthetic.painting.raster import (
    FULL,
    Fragments,
    Strokes,
    blend,
    rasterize,
    rasterize_layers,
    strokes,
    topmost,
    union,
)
from treeformer.synthetic.rng import Rng

SIZE = (37, 29)


def slow_coverage(drawn: Strokes, size: tuple[int, int]) -> np.ndarray:
    """Return the coverage (S, height, width) from 0 to 1, computed by its definition."""
    result = np.zeros((len(drawn), size[1], size[0]))
    for s in range(len(drawn)):
        (ax, ay), (bx, by) = drawn.start[s].astype(float), drawn.end[s].astype(float)
        r0, r1, soft = float(drawn.start_radius[s]), float(drawn.end_radius[s]), float(drawn.softness[s])
        length = math.hypot(bx - ax, by - ay)
        ux, uy = ((bx - ax) / length, (by - ay) / length) if length else (1.0, 0.0)
        slant = max(abs(ux), abs(uy))  # px along the longer axis per px along the stroke
        edge = soft * slant
        for row in range(size[1]):
            for column in range(size[0]):
                x, y = column + 0.5 - ax, row + 0.5 - ay
                along, across = x * ux + y * uy, x * uy - y * ux
                on_line = min(max(along, 0.0), length)
                beyond = (along - on_line) * (slant**2 if max(r0, r1) <= 0.5 else 1.0)
                radius = r0 + (r1 - r0) * (on_line / length if length else 0.0)
                covered = (max(radius, edge / 2) - math.hypot(across, beyond)) / edge + 0.5
                result[s, row, column] = min(max(covered, 0.0), 1.0) * min(2 * radius / edge, 1.0)
    return result


def as_image(fragments: Fragments, count: int, size: tuple[int, int]) -> np.ndarray:
    image = np.zeros((count, size[0] * size[1]))
    image[fragments.stroke, fragments.pixel] = fragments.coverage / FULL
    return image.reshape(count, size[1], size[0])


coordinate = st.integers(-15 * 64, 50 * 64).map(lambda value: value / 64)
radius = st.integers(0, 9 * 64).map(lambda value: value / 64)
stroke = st.tuples(coordinate, coordinate, coordinate, coordinate, radius, radius, st.sampled_from([1.0, 2.0, 5.0]))


@pytest.mark.slow
@settings(max_examples=examples(60), deadline=None)
@given(st.lists(stroke, max_size=6))
def test_rasterize_equals_the_definition(drawn: list[tuple[float, ...]]) -> None:
    values = np.asarray(drawn, dtype=np.float64).reshape(-1, 7)
    all_strokes = strokes(values[:, :2], values[:, 2:4], values[:, 4], values[:, 5], values[:, 6])
    fragments = rasterize(all_strokes, SIZE)
    pairs = fragments.stroke.astype(np.int64) * SIZE[0] * SIZE[1] + fragments.pixel
    assert len(np.unique(pairs)) == len(pairs)
    assert ((fragments.coverage > 0) & (fragments.coverage <= FULL)).all()
    assert np.abs(as_image(fragments, len(all_strokes), SIZE) - slow_coverage(all_strokes, SIZE)).max(initial=0) < 0.006


@pytest.mark.parametrize("angle_deg", [0, 17, 45, 60, 90, 135, 200, 290])
def test_across_along_and_radius(angle_deg: float) -> None:
    angle = math.radians(angle_deg)
    along = np.asarray((math.cos(angle), math.sin(angle)))
    left = np.asarray((along[1], -along[0]))  # y points down
    start = np.asarray((32.0, 32.0)) - 12 * along
    fragments = rasterize(strokes(start, start + 24 * along, 2.0, 4.0), (64, 64))
    center = np.stack([fragments.pixel % 64, fragments.pixel // 64], axis=1) + 0.5 - start
    assert np.allclose(fragments.along, center @ along, atol=1e-3)
    assert np.allclose(fragments.across, center @ left, atol=1e-3)
    assert np.allclose(fragments.radius, 2 + np.clip(center @ along, 0, 24) / 12, atol=1e-3)


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(0, 359), st.sampled_from([0.2, 0.35, 0.5, 0.7, 1.0, 2.5]), st.integers(0, 63), st.integers(0, 63))
def test_coverage_sums_to_the_area_and_is_centered_on_the_line(degrees: int, thick: float, dx: int, dy: int) -> None:
    angle = math.radians(degrees)
    along = np.asarray((math.cos(angle), math.sin(angle)))
    ends = np.asarray((64 + dx / 64, 64 + dy / 64)) + np.outer((-40, 40), along)
    ends = np.round(ends * 64) / 64
    fragments = union(rasterize(strokes(ends[0], ends[1], thick, thick), (128, 128)))
    weight = fragments.coverage.astype(np.float64)
    center = np.stack([fragments.pixel % 128, fragments.pixel // 128], axis=1) + 0.5
    offset = (weight[:, None] * center).sum(axis=0) / weight.sum() - ends.mean(axis=0)
    # Sideways, the error is below a tenth of a pixel. Along a thin line it can be larger, because the pixel grid cuts
    # its two ends differently.
    assert abs(offset @ (-along[1], along[0])) < 0.1
    assert np.hypot(*offset) < (0.1 if thick >= 1 else 0.18)
    assert weight.sum() / FULL == pytest.approx(2 * thick * 80, rel=0.12)


def test_union_takes_the_greatest_coverage() -> None:
    two_strokes = strokes([(3, 5), (5, 3)], [(30, 20), (10, 28)], [2, 0.4], [0.5, 3])
    merged = union(rasterize(two_strokes, SIZE))
    assert len(np.unique(merged.pixel)) == len(merged.pixel)
    image = np.zeros(SIZE[0] * SIZE[1])
    image[merged.pixel] = merged.coverage / FULL
    expected = slow_coverage(two_strokes, SIZE).max(axis=0)
    assert np.abs(image.reshape(SIZE[1], SIZE[0]) - expected).max() < 0.006


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 256)), max_size=60))
def test_topmost_is_the_last_of_the_highest(fragments: list[tuple[int, int]]) -> None:
    best: dict[int, int] = {}
    for index, (pixel, priority) in enumerate(fragments):
        if pixel not in best or priority >= fragments[best[pixel]][1]:
            best[pixel] = index
    pixel = np.asarray([f[0] for f in fragments], dtype=np.int32)
    priority = np.asarray([f[1] for f in fragments], dtype=np.int16)
    assert sorted(topmost(pixel, priority).tolist()) == sorted(best.values())


def test_blend_mixes_by_coverage() -> None:
    canvas = np.full((3, 2, 2), 100, dtype=np.int16)
    blend(canvas, np.asarray([0, 3], dtype=np.int32), [128, 256], np.asarray([[200, 10], [0, 20], [100, 30]]))
    assert canvas[:, 0, 0].tolist() == [150, 50, 100]
    assert canvas[:, 1, 1].tolist() == [10, 20, 30]
    assert (canvas[:, 0, 1] == 100).all()


def test_nothing_to_draw() -> None:
    assert len(rasterize(strokes([], [], 1, 1), SIZE).pixel) == 0
    assert len(rasterize(strokes((-50, -50), (-40, -60), 3, 3), SIZE).pixel) == 0
    assert len(union(rasterize(strokes([], [], 1, 1), SIZE)).pixel) == 0


def test_layers_equal_separate_rasterization() -> None:
    rng = Rng(11)
    sets = [
        strokes(rng.array(n, 2, high=64), rng.array(n, 2, high=64), rng.array(n, high=3), rng.array(n, high=3))
        for n in (7, 0, 12)
    ]
    for drawn, layer in zip(sets, rasterize_layers(sets, (64, 64)), strict=True):
        alone, joined = union(rasterize(drawn, (64, 64))), layer.union()
        order = [np.argsort(fragments.pixel) for fragments in (alone, joined)]
        for field in ("pixel", "coverage", "radius"):
            assert np.array_equal(getattr(alone, field)[order[0]], getattr(joined, field)[order[1]])
    assert [len(layer.chosen) > 0 for layer in rasterize_layers(sets, (64, 64))] == [True, False, True]


@pytest.mark.parametrize("turn", [0.0, 0.3, 0.9])
def test_a_shortened_cap_is_filled_by_the_next_stroke(turn: float) -> None:
    """Two strokes that meet at an angle give the same image if each is scanned only as far as needed."""
    for direction in np.linspace(0, 6.2, 13):
        joint = np.asarray((40.0, 40.0))
        start = joint - 12 * np.asarray((np.cos(direction), np.sin(direction)))
        end = joint + 12 * np.asarray((np.cos(direction + turn), np.sin(direction + turn)))
        images = []
        for cap in (1.0, [(1.0, np.sin(turn)), (np.sin(turn), 1.0)]):
            fragments = union(rasterize(strokes([start, joint], [joint, end], 5.0, 5.0, cap=cap), (80, 80)))
            coverage = np.zeros(80 * 80)
            coverage[fragments.pixel] = fragments.coverage
            images.append(coverage)
        assert np.array_equal(*images)
