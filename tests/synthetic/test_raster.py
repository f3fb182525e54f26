"""The fast rasterizer against a loop over every pixel and stroke."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
    """(S, height, width) coverage from 0 to 1, by the definition."""
    result = np.zeros((len(drawn), size[1], size[0]))
    for s in range(len(drawn)):
        (ax, ay), (bx, by) = drawn.start[s].astype(float), drawn.end[s].astype(float)
        r0, r1, soft = float(drawn.start_radius[s]), float(drawn.end_radius[s]), float(drawn.softness[s])
        length = math.hypot(bx - ax, by - ay)
        ux, uy = ((bx - ax) / length, (by - ay) / length) if length else (1.0, 0.0)
        slant = max(abs(ux), abs(uy))  # how much a px along the longer axis is of a px along the stroke
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


@settings(max_examples=60, deadline=None)
@given(st.lists(stroke, max_size=6))
def test_fast_is_slow(drawn: list[tuple[float, ...]]) -> None:
    values = np.asarray(drawn, dtype=np.float64).reshape(-1, 7)
    made = strokes(values[:, :2], values[:, 2:4], values[:, 4], values[:, 5], values[:, 6])
    found = rasterize(made, SIZE)
    pairs = found.stroke.astype(np.int64) * SIZE[0] * SIZE[1] + found.pixel
    assert len(np.unique(pairs)) == len(pairs)
    assert ((found.coverage > 0) & (found.coverage <= FULL)).all()
    assert np.abs(as_image(found, len(made), SIZE) - slow_coverage(made, SIZE)).max(initial=0) < 0.006


@pytest.mark.parametrize("angle_deg", [0, 17, 45, 60, 90, 135, 200, 290])
def test_across_along_and_radius(angle_deg: float) -> None:
    angle = math.radians(angle_deg)
    along = np.asarray((math.cos(angle), math.sin(angle)))
    left = np.asarray((along[1], -along[0]))  # y points down: the left of "right" is up
    start = np.asarray((32.0, 32.0)) - 12 * along
    found = rasterize(strokes(start, start + 24 * along, 2.0, 4.0), (64, 64))
    center = np.stack([found.pixel % 64, found.pixel // 64], axis=1) + 0.5 - start
    assert np.allclose(found.along, center @ along, atol=1e-3)
    assert np.allclose(found.across, center @ left, atol=1e-3)
    assert np.allclose(found.radius, 2 + np.clip(center @ along, 0, 24) / 12, atol=1e-3)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 359), st.sampled_from([0.2, 0.35, 0.5, 0.7, 1.0, 2.5]), st.integers(0, 63), st.integers(0, 63))
def test_ink_is_width_times_length_and_lies_on_the_line(degrees: int, thick: float, dx: int, dy: int) -> None:
    angle = math.radians(degrees)
    along = np.asarray((math.cos(angle), math.sin(angle)))
    ends = np.asarray((64 + dx / 64, 64 + dy / 64)) + np.outer((-40, 40), along)
    ends = np.round(ends * 64) / 64
    found = union(rasterize(strokes(ends[0], ends[1], thick, thick), (128, 128)))
    weight = found.coverage.astype(np.float64)
    center = np.stack([found.pixel % 128, found.pixel // 128], axis=1) + 0.5
    off = (weight[:, None] * center).sum(axis=0) / weight.sum() - ends.mean(axis=0)
    # To the side a line is never more than a tenth of a pixel off; along it, the two ends of a thin one are
    # seldom cut off alike by the pixels.
    assert abs(off @ (-along[1], along[0])) < 0.1
    assert np.hypot(*off) < (0.1 if thick >= 1 else 0.18)
    assert weight.sum() / FULL == pytest.approx(2 * thick * 80, rel=0.12)


def test_union_takes_the_greatest_coverage() -> None:
    made = strokes([(3, 5), (5, 3)], [(30, 20), (10, 28)], [2, 0.4], [0.5, 3])
    merged = union(rasterize(made, SIZE))
    assert len(np.unique(merged.pixel)) == len(merged.pixel)
    image = np.zeros(SIZE[0] * SIZE[1])
    image[merged.pixel] = merged.coverage / FULL
    expected = slow_coverage(made, SIZE).max(axis=0)
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


def test_layers_are_what_each_set_gives_alone() -> None:
    rng = Rng(11)
    sets = [
        strokes(rng.array(n, 2, high=64), rng.array(n, 2, high=64), rng.array(n, high=3), rng.array(n, high=3))
        for n in (7, 0, 12)
    ]
    for one, layer in zip(sets, rasterize_layers(sets, (64, 64)), strict=True):
        alone, joined = union(rasterize(one, (64, 64))), layer.union()
        order = [np.argsort(found.pixel) for found in (alone, joined)]
        for field in ("pixel", "coverage", "radius"):
            assert np.array_equal(getattr(alone, field)[order[0]], getattr(joined, field)[order[1]])
    assert [len(layer.chosen) > 0 for layer in rasterize_layers(sets, (64, 64))] == [True, False, True]


@pytest.mark.parametrize("turn", [0.0, 0.3, 0.9])
def test_a_cut_cap_is_filled_by_the_stroke_that_goes_on(turn: float) -> None:
    """Two strokes that meet at an angle look the same when each is scanned only as far beyond the joint as needed."""
    for direction in np.linspace(0, 6.2, 13):
        joint = np.asarray((40.0, 40.0))
        start = joint - 12 * np.asarray((np.cos(direction), np.sin(direction)))
        end = joint + 12 * np.asarray((np.cos(direction + turn), np.sin(direction + turn)))
        images = []
        for cap in (1.0, [(1.0, np.sin(turn)), (np.sin(turn), 1.0)]):
            found = union(rasterize(strokes([start, joint], [joint, end], 5.0, 5.0, cap=cap), (80, 80)))
            cover = np.zeros(80 * 80)
            cover[found.pixel] = found.coverage
            images.append(cover)
        assert np.array_equal(*images)
