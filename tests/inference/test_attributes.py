"""Attributes of nodes on their way from the network through tiles to skeletons and files."""

from __future__ import annotations

import numpy as np
import pytest

from tests.inference.fake_engine import ColorEngine, NumbersEngine, drawn, line_engine, predictor, random_tree
from treeformer import formats
from treeformer.inference.engine import RawPrediction

TREE = random_tree(seed=2, count=30, size=(128, 128), longest_edge=50)
RADII = np.linspace(0.5, 9, len(TREE))


class RadiusEngine(ColorEngine):
    """Find the nodes by their colors, with the radius of each node in px of the input and its direction."""

    def __call__(self, images: np.ndarray) -> RawPrediction:
        raw = super().__call__(images)
        attributes = np.full((*raw.node_score.shape, 3), np.nan, np.float32)
        for row, image in enumerate(images):
            y, x = np.nonzero(image[..., 2] == 77)
            number = image[y, x, 0].astype(int) * 200 + image[y, x, 1]
            attributes[row, : len(number), 0] = np.log(RADII[number] + 0.5)
            attributes[row, : len(number), 1:] = 0
        return raw._replace(attributes=attributes)


@pytest.mark.parametrize("side", [128, 64])
def test_radii_come_back_in_pixels_of_the_image_from_one_tile_and_from_many(side):
    found = predictor(RadiusEngine(TREE, side)).predict(drawn(TREE), working_size="full")
    assert len(found) == len(TREE)
    order = [int(TREE.nearest(tuple(node))[0]) for node in found.nodes]
    assert found.radius == pytest.approx(RADII[order], abs=0.01)
    assert predictor(ColorEngine(TREE, side)).predict(drawn(TREE), working_size="full").radius is None


def test_radii_scale_with_the_image_and_are_written_as_diameters(tmp_path):
    engine = line_engine()
    engine_with_radii = _with_attributes(engine, [(np.log(2.5), 0, 0)] * 4)
    found = predictor(engine_with_radii).predict(np.zeros((128, 128, 3), np.uint8))
    assert found.radius.tolist() == [4, 4, 4, 4]
    formats.write(found, tmp_path / "plant.rsml")
    assert formats.read(tmp_path / "plant.rsml").radius == pytest.approx([4, 4, 4, 4])


def test_directions_change_the_tree_by_their_weight():
    """Node 2 ties with nodes 1 and 0 at similar costs. It points to node 0."""
    cost = np.full((3, 3), 9.0)
    for i, j, value in ((0, 1, -4.0), (1, 2, -2.0), (0, 2, -1.5)):
        cost[i, j] = cost[j, i] = value
    points = [(10, 10), (30, 10), (10, 40)]
    engine = NumbersEngine([0.9] * 3, points, cost, (3.0, -9.0, -9.0))
    attributes = [(0.0, 0.0, 0.0), (0.0, -1.0, 0.0), (0.0, 0.0, -1.0)]
    for weight, expected in ((0.0, {(0, 1), (1, 2)}), (8.0, {(0, 1), (0, 2)})):
        found = predictor(_with_attributes(engine, attributes), direction_weight=weight).predict(
            np.zeros((64, 64, 3), np.uint8)
        )
        assert {tuple(sorted(edge)) for edge in found.edges.tolist()} == expected


def _with_attributes(engine: NumbersEngine, attributes) -> NumbersEngine:
    other = NumbersEngine(*(array[0] for array in engine.numbers), side=engine.input_size)
    other.numbers = [*engine.numbers, np.asarray(attributes, dtype=np.float32)[None]]
    return other
