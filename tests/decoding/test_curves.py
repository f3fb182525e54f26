"""Curves along center lines: exact dynamic programming, rendered plants with a perfect map, and what stays as it is."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.decoding.maps import line_tile
from treeformer import Skeleton, synthetic
from treeformer._util.geometry import project_onto_segments
from treeformer._util.search_tree import search_tree
from treeformer.decoding import curves
from treeformer.decoding.curves import MAX_TURN, REACH, TOLERANCE_PX, bend, cheapest, costs, likelihood, needed, trace
from treeformer.decoding.line_map import along_edges

ONE = np.ones(2)
SIZE = (128, 96)
WAVE = Skeleton(
    [(10 + k, 48 + 9 * np.sin(np.pi * k / 100)) for k in range(101)], [(k, k + 1) for k in range(100)], root=0
)
CHORD = Skeleton([(10, 48), (110, 48)], [(0, 1)], root=0, node_score=[0.9, 0.7], edge_score=[0.6], radius=[4, 2])


@pytest.mark.parametrize("seed", range(5))
def test_the_way_is_the_cheapest_of_all(seed):
    rng = np.random.default_rng(seed)
    step = rng.random((2 * MAX_TURN + 1, 3, 5, 2 * REACH + 1)).astype(np.float32)
    found = cheapest(step)
    for edge in range(3):
        prices = {}
        for turns in itertools.product(range(-MAX_TURN, MAX_TURN + 1), repeat=5):
            offsets = REACH + np.cumsum(turns)
            if abs(offsets[-1] - REACH) <= MAX_TURN:
                parts = zip(offsets, turns, strict=True)
                prices[tuple(offsets)] = sum(step[turn + MAX_TURN, edge, k, at] for k, (at, turn) in enumerate(parts))
        assert prices[tuple(found[edge])] == pytest.approx(min(prices.values()), rel=1e-5)


def test_costs_are_low_on_lines_along_the_step():
    """Three offsets: a line along the edge, one across it, and none. The edge runs along (0.6, 0.8)."""
    along = np.array([[0.6, 0.8]])
    twice = 2 * np.arctan2(0.8, 0.6) + np.array([0, np.pi])
    lines = np.zeros((1, 1, 3, 3), np.float32)
    lines[0, 0, :2, 0] = 1
    lines[0, 0, :2, 1], lines[0, 0, :2, 2] = np.cos(twice), np.sin(twice)
    node, step = costs(lines, along, np.array([2.0]))
    np.testing.assert_allclose(node[0, 0], [0, 0, 1], atol=1e-6)
    ahead = step[MAX_TURN, 0, 0] / 2
    np.testing.assert_allclose(
        ahead, [curves.LENGTH_COST, curves.LENGTH_COST + curves.DIRECTION_COST, 1 + curves.LENGTH_COST], atol=1e-5
    )
    assert (step[:, 0, 0, 0] >= step[MAX_TURN, 0, 0, 0]).all(), "a turn is longer"


def test_a_step_to_the_side_agrees_with_a_line_of_its_direction():
    angle = np.arctan2(2, 2)  # two px to the side of y per step of two px
    lines = np.zeros((1, 1, 1, 3), np.float32)
    lines[..., 0], lines[..., 1], lines[..., 2] = 1, np.cos(2 * angle), np.sin(2 * angle)
    _, step = costs(lines, np.array([[1.0, 0.0]]), np.array([2.0]))
    per_px = step[:, 0, 0, 0] / np.hypot(2, [-2, -1, 0, 1, 2])
    assert per_px.argmin() == 4
    assert per_px[4] == pytest.approx(curves.LENGTH_COST, abs=1e-6)


def distances(true: Skeleton, found: Skeleton) -> np.ndarray:
    """Distances of places along the true curves from the edges of another skeleton."""
    _, place = along_edges(true.resample(1.0))
    begin, end = found.nodes[found.edges].transpose(1, 0, 2)
    return project_onto_segments(place[:, None], begin, end)[1].min(axis=1)


@pytest.mark.parametrize("preset", ["vine", "taproot", "plate", "orchard"])
def test_curves_of_plants_are_followed(preset):
    """With nodes at the grid of the default model, and a perfect map."""
    size = (512, 512)
    plant = synthetic.generate(preset, 3, size=size)
    straight = plant.sample_at_grid_crossings(44)
    curved = bend(straight, [line_tile(plant, size)], ONE)
    before, after = distances(plant, straight), distances(plant, curved)
    assert np.percentile(before, 95) > 1
    assert np.percentile(after, 95) < 1
    assert after.mean() < 0.6 * before.mean()


def test_a_curve_is_within_the_tolerance_with_few_nodes():
    curved = bend(CHORD, [line_tile(WAVE, SIZE)], ONE)
    assert distances(WAVE, curved).max() < TOLERANCE_PX + 0.4
    assert distances(WAVE, CHORD).max() == pytest.approx(9, abs=0.1)
    assert 4 <= len(curved) <= 14


def test_nodes_and_their_attributes_stay():
    curved = bend(CHORD, [line_tile(WAVE, SIZE)], ONE)
    assert curved.is_tree
    assert np.array_equal(curved.nodes[:2], CHORD.nodes)
    assert curved.degree.tolist() == [1, 1] + [2] * (len(curved) - 2)
    assert curved.roots.tolist() == [0]
    assert curved.node_score[:2].tolist() == [0.9, 0.7]
    assert set(curved.edge_score.tolist()) == {0.6}
    x = curved.nodes[:, 0]
    np.testing.assert_allclose(curved.radius, 4 - 2 * (x - 10) / 100, atol=0.05)
    assert (np.diff(x[[0, *range(2, len(curved)), 1]]) > 0).all(), "in order along the edge"


def test_the_scale_of_the_original_image():
    scale = np.array([3.0, 2.5])
    curved = bend(CHORD, [line_tile(WAVE, SIZE)], ONE)
    large = bend(CHORD.replace(nodes=CHORD.nodes * scale), [line_tile(WAVE, SIZE)], scale)
    np.testing.assert_allclose(large.nodes, curved.nodes * scale, atol=1e-9)


@pytest.mark.parametrize(
    "drawn",
    [
        Skeleton([(2, 2), (4, 2)], [(0, 1)]),
        Skeleton([(10, 48), (110, 48)], [(0, 1)]),
        Skeleton([(2, 66), (125, 66)], [(0, 1)]),
        Skeleton([(40, 2), (60, 94)], [(0, 1)]),
    ],
    ids=["no line", "a straight line", "a line out of reach", "a crossing line"],
)
def test_edges_stay_straight_without_evidence_for_a_curve(drawn):
    assert bend(CHORD, [line_tile(drawn, SIZE)], ONE) == CHORD


def test_a_crossing_line_does_not_turn_a_curve():
    both = Skeleton(
        np.concatenate([WAVE.nodes, [(40, 20), (75, 90)]]), [*WAVE.edges.tolist(), (101, 102)], root=[0, 101]
    )
    assert distances(WAVE, bend(CHORD, [line_tile(both, SIZE)], ONE)).max() < 1.5


def test_each_edge_is_traced_in_the_tile_of_its_middle():
    whole = Skeleton([(10, 48), (58, 57), (110, 48)], [(0, 1), (1, 2)], root=0)
    expected = bend(whole, [line_tile(WAVE, SIZE)], ONE)
    shifted = WAVE.replace(nodes=WAVE.nodes - (32, 0))
    tiles = [
        line_tile(WAVE, (96, 96), (0, 0), (-np.inf, -np.inf, 64, np.inf)),
        line_tile(shifted, (96, 96), (32, 0), (64, -np.inf, np.inf, np.inf)),
    ]
    found = bend(whole, tiles, ONE)
    assert len(found) >= len(whole) + 3
    assert len(found) == len(expected)
    gap, _ = search_tree(found.nodes).query(expected.nodes)
    assert gap.max() < 0.1


def test_offsets_are_finer_than_their_steps():
    """A line 2.4 px beside the edge."""
    line = Skeleton([(0, 50.4), (127, 50.4)], [(0, 1)])
    start, end = np.array([[10.0, 48.0]]), np.array([[110.0, 48.0]])
    lines = line_tile(line, SIZE).dense()
    lines[..., 0] = likelihood(lines[..., 0])
    found = trace(start, end, lines, 32)
    np.testing.assert_allclose(found.points[0, 8:-8, 1], 50.4, atol=0.35)
    assert found.presence[0] > 0.8
    assert needed(start, end, found).sum() >= 2


def test_an_empty_forest_and_short_edges():
    empty = Skeleton([], [])
    assert bend(empty, [line_tile(WAVE, SIZE)], ONE) == empty
    short = Skeleton([(10, 48), (12, 49)], [(0, 1)], root=0)
    assert bend(short, [line_tile(WAVE, SIZE)], ONE) == short
