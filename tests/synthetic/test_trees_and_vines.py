"""The shape of trained trees and vines, over many seeds."""

from __future__ import annotations

import numpy as np
import pytest

from treeformer import Skeleton
from treeformer.synthetic import generate
from treeformer.synthetic.plants.growth import UP, GrownAxis, radius_at
from treeformer.synthetic.plants.orchard import _heading


@pytest.fixture(scope="module")
def vines() -> list[Skeleton]:
    return [generate("vine", seed, size=(900, 900)) for seed in range(80)]


@pytest.fixture(scope="module")
def trees() -> list[Skeleton]:
    return [generate("orchard", seed, size=(900, 900)) for seed in range(80)]


def slopes(skeletons: list[Skeleton], label: str, part: slice) -> np.ndarray:
    """Return the angles to the vertical, in degrees, of a part of each axis with the given label."""
    angles = []
    for skeleton in skeletons:
        for axis in skeleton.axes:
            nodes = skeleton.nodes[list(axis.nodes)][part]
            spur = label == "arm" and axis.parent != 0
            if axis.label == label and not spur and len(nodes) > 2:
                step = nodes[-1] - nodes[0]
                angles.append(np.degrees(np.arctan2(abs(step[0]), -step[1])))
    return np.asarray(angles)


@pytest.mark.slow
def test_arms_lie_along_the_wire_and_canes_rise(vines: list[Skeleton]) -> None:
    arms = slopes(vines, "arm", slice(-6, None))
    assert np.mean(np.abs(arms - 90) < 25) > 0.6  # the others are short arms of vines without a wire
    canes = slopes(vines, "cane", slice(-6, None))
    assert np.mean(canes < 50) > 0.9
    # Canes leave at an angle and bend upwards.
    assert np.median(slopes(vines, "cane", slice(0, 4))) > np.median(canes)


@pytest.mark.slow
def test_node_counts_stay_near_those_of_the_paper_root_set() -> None:
    for preset, expected in (("vine", 187), ("orchard", 183)):
        count = np.median([len(generate(preset, seed)) for seed in range(150)])
        assert abs(count / expected - 1) < 0.2


@pytest.mark.slow
def test_limbs_are_crooked(trees: list[Skeleton]) -> None:
    ratios = []
    for tree in trees:
        for axis in tree.axes:
            if axis.label == "limb" and len(axis.nodes) > 8:
                nodes = tree.nodes[list(axis.nodes)]
                arc = np.linalg.norm(np.diff(nodes, axis=0), axis=1).sum()
                ratios.append(np.linalg.norm(nodes[-1] - nodes[0]) / arc)
    assert np.median(ratios) < 0.985
    assert np.min(ratios) > 0.5


@pytest.mark.slow
def test_every_axis_grows_from_a_thicker_one(vines: list[Skeleton], trees: list[Skeleton]) -> None:
    for skeleton in (*vines, *trees):
        assert skeleton.radius is not None
        for axis in skeleton.axes:
            if axis.parent is not None:
                assert skeleton.radius[axis.nodes[1]] <= skeleton.radius[axis.nodes[0]] + 0.9


def test_heading_and_radius_along_an_axis() -> None:
    axis = GrownAxis(np.asarray([(0.0, 0.0), (0.0, -2.0), (2.0, -2.0)]), 4.0, 2.0)
    assert _heading(axis, 0.0) == pytest.approx(UP)
    assert _heading(axis, 1.0) == pytest.approx(0.0)
    down = GrownAxis(np.asarray([(0.0, 0.0), (-1.0, 0.1)]), 1.0, 1.0)
    assert _heading(down, 0.5) < -np.pi  # left and slightly down: measured counterclockwise from the right
    assert radius_at([axis, axis], [0, 1], np.asarray([0.0, 0.5])).tolist() == [4.0, 3.0]
