"""The benchmark of structured decoding on made-up outputs."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from benchmarks import structured_decoding
from tests.web.page_outputs import MadeUpEngine
from treeformer import Skeleton
from treeformer.data import Sample
from treeformer.decoding.objective import StructureWeights
from treeformer.hub.model_folder import open_model
from treeformer.inference.predictor import Predictor
from treeformer.inference.tiles import tile_grid

Y = Skeleton([(10, 10), (10, 40), (0, 60), (30, 60)], [(0, 1), (1, 2), (1, 3)], root=0, image_size=(512, 512))


def test_tips_are_ends_without_roots():
    assert structured_decoding.tips(Y).tolist() == [[0, 60], [30, 60]]


def test_f1_counts_the_tips_of_all_images():
    rows = np.array([(1, 2, 1, 0.5, 0), (3, 3, 4, 0.7, 0)], dtype=float)
    assert structured_decoding.tip_f1(rows) == pytest.approx(2 * 4 / (5 + 5))
    better = rows + np.array([1, 0, 0, 0.1, 0])
    tip, topo = structured_decoding.interval(rows, better)
    assert tip[0] > 0
    assert topo == pytest.approx([0.1, 0.1])


@pytest.mark.slow
@pytest.mark.parametrize("size", [(500, 400), (1300, 900)])
def test_stored_outputs_decode_to_the_same_tree(tmp_path, size):
    model, ground_truth = open_model("default"), Y.replace(image_size=size)
    options = structured_decoding.options_of(model)
    engine = MadeUpEngine(3, (512, 400), tile_grid((512, 400), 512, 44), attributes=True)
    image = np.random.default_rng(0).integers(90, 160, (size[1] // 20, size[0] // 20, 3), dtype=np.uint8)
    sample = Sample(image.repeat(20, axis=0).repeat(20, axis=1), ground_truth, "y")
    accumulator = structured_decoding.run_network(Predictor(model, engine=engine), options, sample)
    expected = copy.copy(accumulator).skeleton()
    structured_decoding.store(tmp_path / "000.npz", accumulator, ground_truth, 1.5)
    case = structured_decoding.load(tmp_path / "000.npz", options, 512)
    assert len(expected) > 5
    found = case.accumulator.skeleton()
    assert found.replace(metadata={}) == expected.replace(metadata={})  # which name the working size
    assert (case.ground_truth.nodes == Y.nodes).all()
    assert (case.set_name, case.seconds) == (tmp_path.name, 1.5)
    row = structured_decoding.measure(case, structured_decoding.options_of(model, StructureWeights(turn=0.0)))
    assert row.true == 2
