"""Center lines on their way from the network through tiles to curves."""

from __future__ import annotations

import numpy as np
import pytest

from tests.decoding.maps import line_map
from tests.inference.fake_engine import ColorEngine, drawn, predictor
from treeformer import Skeleton
from treeformer.inference.engine import RawPrediction
from treeformer.inference.options import PredictionOptions
from treeformer.inference.prepare import prepare
from treeformer.inference.tiles import tile_grid

SIZE = (256, 192)
X = np.arange(12.5, 243)
WAVE = Skeleton(
    np.stack([X, 96 + 14 * np.sin(X / 25)], axis=1),
    [(k, k + 1) for k in range(len(X) - 1)],
    root=0,
    image_size=SIZE,
)
NODES = np.r_[0 : len(X) : 46]
CHORDS = Skeleton(
    np.floor(WAVE.nodes[NODES]) + 0.5, [(k, k + 1) for k in range(len(NODES) - 1)], root=0, image_size=SIZE
)


class LinesEngine(ColorEngine):
    """Find the nodes by their colors, and add a perfect map of the center lines of each tile, in order."""

    def __call__(self, images: np.ndarray) -> RawPrediction:
        raw = super().__call__(images)
        lines = np.zeros((len(images), self.input_size // 2, self.input_size // 2, 3), np.uint8)
        whole = line_map(WAVE, SIZE)
        for row in range(len(images)):
            tile = tile_grid(SIZE, self.input_size)[sum(self.calls) - len(images) + row]
            part = whole[tile.top // 2 : tile.bottom // 2, tile.left // 2 : tile.right // 2]
            lines[row, : part.shape[0], : part.shape[1]] = part
        return raw._replace(lines=lines)


def farthest(found: Skeleton) -> float:
    """Return the greatest distance between the wave and a skeleton at the same x, px."""
    order = np.argsort(found.nodes[:, 0])
    return np.abs(np.interp(WAVE.nodes[:, 0], *found.nodes[order].T) - WAVE.nodes[:, 1]).max()


@pytest.mark.parametrize("side", [256, 128])
def test_edges_follow_the_lines_of_one_tile_and_of_many(side):
    straight = predictor(ColorEngine(CHORDS, side)).predict(drawn(CHORDS), working_size="full")
    curved = predictor(LinesEngine(CHORDS, side)).predict(drawn(CHORDS), working_size="full")
    assert farthest(straight) > 3
    assert farthest(curved) < 1.2
    assert curved.is_tree
    assert len(curved) > len(straight) == len(CHORDS)
    assert np.array_equal(curved.nodes[curved.degree == 1], straight.nodes[straight.degree == 1])
    assert len(curved.axes) == len(straight.axes)


def test_curves_can_be_switched_off():
    engine = LinesEngine(CHORDS, 256)
    model = predictor(engine).model
    for curves, count in ((True, 10), (False, 1)):
        engine.calls.clear()
        prepared = prepare(drawn(CHORDS), PredictionOptions(model, "full", False, None, curves=curves), 256)
        (image,) = prepared.inputs()
        prepared.accumulator.add(engine(image[None]), 0)
        found = prepared.accumulator.skeleton()
        assert len(found) >= count
        assert (farthest(found) < 1.2) == curves
        assert ("curves" in found.metadata["prediction"]) == (not curves)
