"""Growth of synthetic plants over dates: exact, monotone, identical on every machine."""

from __future__ import annotations

import hashlib
import itertools

import numpy as np
import pytest

from treeformer import TreeformerError
from treeformer.synthetic import generate
from treeformer.synthetic.series import NO_DISTURBANCE, Disturbance, generate_series
from treeformer.synthetic.series_images import render_series


def lengths(skeleton):
    return {axis.id: np.hypot(*np.diff(skeleton.nodes[list(axis.nodes)], axis=0).T).sum() for axis in skeleton.axes}


@pytest.mark.parametrize("preset", ["taproot", "seedling", "several", "plate", "paper"])
def test_axes_only_grow_and_end_fully_grown(preset):
    frames = generate_series(preset, 3, dates=5, size=(256, 256))
    before: dict[str, float] = {}
    for frame in frames:
        now = lengths(frame.plate)
        assert before.keys() <= now.keys()
        assert all(now[axis] >= length - 0.05 for axis, length in before.items())
        before = now
        assert frame.skeleton.image_size == (256, 256)
        assert ((frame.skeleton.nodes >= 0) & (frame.skeleton.nodes <= 256)).all()
    grown = generate(preset, 3, size=(256 - 2 * 15, 256 - 2 * 15))
    assert frames[-1].plate.length == pytest.approx(grown.length, rel=0.02)


def test_a_single_date_shows_the_grown_plants():
    [frame] = generate_series("taproot", 3, dates=1, size=(256, 256))
    grown = generate("taproot", 3, size=(256 - 2 * 15, 256 - 2 * 15))
    assert frame.plate.length == pytest.approx(grown.length, rel=0.02)
    assert all(max(axis.functions[0].samples) <= frame.time == 0 for axis in frame.skeleton.axes)


def test_ids_and_parents_stay_the_same():
    parents: dict[str, str | None] = {}
    for frame in generate_series("taproot", 1, dates=6):
        for axis in frame.skeleton.axes:
            parent = None if axis.parent is None else frame.skeleton.axes[axis.parent].id
            assert parents.setdefault(axis.id, parent) == parent
    assert len(parents) > 3


def test_age_is_the_time_at_which_the_tip_passed():
    frames = generate_series("taproot", 1, dates=6, disturbance=NO_DISTURBANCE)
    last = {axis.id: axis for axis in frames[-1].skeleton.axes}
    for frame in frames:
        for axis in frame.skeleton.axes:
            (age,) = axis.functions
            assert age.name == "age"
            assert len(age.samples) == len(axis.nodes)
            assert list(age.samples) == sorted(age.samples)
            # The tip passes its present place now, unless the axis stopped growing.
            assert age.samples[-1] == pytest.approx(frame.time, abs=0.15) or age.samples[-1] < frame.time
            assert np.allclose(age.samples[:-1], last[axis.id].functions[0].samples[: len(age.samples) - 1], atol=1e-6)


def test_laterals_emerge_after_the_parent_has_passed():
    skeleton = generate_series("taproot", 1, dates=6)[-1].skeleton
    for axis in skeleton.axes:
        if axis.parent is not None:
            parent = skeleton.axes[axis.parent]
            passed = parent.functions[0].samples[parent.nodes.index(axis.nodes[0])]
            assert axis.functions[0].samples[0] > passed


def test_the_frame_is_the_moved_plate():
    moved = generate_series("several", 2, dates=4, disturbance=Disturbance(shift=0.05, rotation=4, scale=0.02))
    for frame in moved:
        expected = frame.plate.nodes @ frame.motion[:, :2].T + frame.motion[:, 2]
        assert np.allclose(frame.skeleton.nodes, expected)
    assert any(np.abs(frame.motion[:, 2]).max() > 3 for frame in moved)
    still = generate_series("several", 2, dates=4, disturbance=NO_DISTURBANCE)
    assert all(np.allclose(frame.motion, np.eye(2, 3)) for frame in still)
    assert [frame.time for frame in still] == [0, 1, 2, 3]


def test_dates_are_dropped_and_repeated():
    dropped = generate_series("seedling", 2, dates=20, disturbance=Disturbance(dropped=0.5))
    assert len(dropped) == 20
    assert dropped[-1].time > 25
    repeated = generate_series("seedling", 2, dates=20, disturbance=Disturbance(repeated=0.5, dropped=0))
    assert sum(a.plate == b.plate for a, b in itertools.pairwise(repeated)) >= 4


def test_the_same_seed_gives_the_same_series():
    first, second = (generate_series("plate", 5, dates=3) for _ in range(2))
    assert [frame.skeleton for frame in first] == [frame.skeleton for frame in second]
    assert [frame.skeleton for frame in first] != [frame.skeleton for frame in generate_series("plate", 6, dates=3)]
    rounded = np.concatenate([np.round(frame.skeleton.nodes, 3).ravel() for frame in first])
    assert hashlib.sha256(np.round(rounded * 10).astype(np.int64).tobytes()).hexdigest()[:12] == DIGEST


DIGEST = "e8c19adb6fef"


def test_images_show_the_skeletons():
    frames = generate_series("taproot", 2, dates=3, size=(192, 192))
    for frame, image in zip(frames, render_series(frames, "paper", 2), strict=True):
        assert image.shape == (192, 192, 3)
        if len(frame.skeleton):
            column, row = np.floor(frame.skeleton.nodes[1:-1]).astype(int).T
            near = [image[r - 1 : r + 2, c - 1 : c + 2].min() for r, c in zip(row, column, strict=True)]
            assert np.median(near) < 160


def test_light_and_objects_change_photographs_only():
    frames = generate_series("taproot", 2, dates=2, size=(128, 128), disturbance=NO_DISTURBANCE)
    plain = render_series(frames, "photo", 2, NO_DISTURBANCE)
    dark = render_series(frames, "photo", 2, Disturbance(light=1.0, haze=1.0, occlusion=1.0))
    assert any(not np.array_equal(a, b) for a, b in zip(plain, dark, strict=True))
    drawn = (render_series(frames, "paper", 2, one) for one in (NO_DISTURBANCE, Disturbance(light=1, haze=1)))
    assert all(np.array_equal(a, b) for a, b in zip(*drawn, strict=True))


@pytest.mark.parametrize("dates", [0, -1, 10_001])
def test_the_number_of_dates_is_checked(dates):
    with pytest.raises(TreeformerError, match="number of dates"):
        generate_series("plate", 0, dates=dates)


def test_the_smallest_size_of_a_series():
    assert generate_series("plate", 0, dates=2, size=(72, 72))[0].skeleton.image_size == (72, 72)
    with pytest.raises(TreeformerError, match="must be at least 72 px long, not 72×71"):
        generate_series("plate", 0, dates=2, size=(72, 71))
    with pytest.raises(TreeformerError, match="must be two whole numbers of pixels"):
        generate_series("plate", 0, dates=2, size=128)
