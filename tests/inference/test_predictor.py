"""`Predictor`: any image becomes a valid forest in its own pixels, with the same result in every mode."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from PIL import Image

from tests.inference.fake_engine import ColorEngine, NumbersEngine, drawn, line_engine, predictor, random_tree
from tests.inference.test_tiles import as_sets
from tests.strategies import examples
from treeformer import TreeformerError
from treeformer.hub.model_folder import ModelFolder, ModelSettings
from treeformer.inference.options import PredictionOptions
from treeformer.inference.predictor import load_model
from treeformer.inference.prepare import prepare

TREE = random_tree(seed=1, count=30, size=(128, 128), longest_edge=60)


# ---- images ------------------------------------------------------------------------------------


def test_paths_pillow_images_and_arrays_are_the_same_image(tmp_path):
    image = drawn(TREE)
    Image.fromarray(image).save(tmp_path / "plant.png")
    by_color = predictor(ColorEngine(TREE, 128))
    expected = by_color.predict(image)
    assert as_sets(expected) == as_sets(TREE)
    assert expected.image_size == (128, 128)
    from_file = by_color.predict(tmp_path / "plant.png")
    assert from_file.image_name == "plant.png"
    same = [from_file.replace(image_name=None), by_color.predict(str(tmp_path / "plant.png")).replace(image_name=None)]
    same += [by_color.predict(Image.fromarray(image)), by_color.predict(image / 255.0)]
    same += [by_color.predict(np.dstack([image, np.full((128, 128), 255, np.uint8)]))]
    assert all(skeleton == expected for skeleton in same)


def test_a_larger_image_comes_back_in_its_own_pixels():
    skeleton = predictor(line_engine()).predict(np.zeros((128, 256, 3), np.uint8))
    assert skeleton.image_size == (256, 128)
    assert skeleton.nodes.tolist() == [[40, 120], [80, 120], [120, 120], [160, 120]]
    small = predictor(line_engine()).predict(np.zeros((32, 16), np.uint8))
    assert small.nodes.tolist() == [[5, 15], [10, 15], [15, 15]], "nodes in the padding are dropped"
    assert small.image_size == (16, 32)


def test_each_side_has_the_scale_of_its_rounded_length():
    """33 px become 21.12, rounded to 21. Both lower borders must coincide."""
    nodes = NumbersEngine([0.9, 0.9], [(32, 21), (64, 7)], np.full((2, 2), -4.0), [3, -3])
    skeleton = predictor(nodes).predict(np.zeros((33, 100), np.uint8))
    assert skeleton.nodes.tolist() == [[50, 33], [100, 11]]


def test_small_differences_between_engines_are_rounded_away():
    scores, costs = np.array([0.9, 0.8, 0.7, 0.6]), np.array([-4.0, -3.0, -2.0])
    exact, inexact = line_engine(scores, costs), line_engine(scores + 1e-6, costs + 1e-6)
    inexact.numbers[1] += np.float32(1e-4)
    blank = np.zeros((64, 64), np.uint8)
    assert predictor(exact).predict(blank) == predictor(inexact).predict(blank)


def test_exif_orientation_is_applied(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    turned = Image.fromarray(drawn(TREE)).transpose(Image.Transpose.ROTATE_90)
    turned.save(tmp_path / "phone.png", exif=exif)
    assert as_sets(predictor(ColorEngine(TREE, 128)).predict(tmp_path / "phone.png")) == as_sets(TREE)


def test_a_blank_image_is_an_empty_skeleton_and_a_warning(tmp_path):
    Image.new("RGB", (300, 200), "white").save(tmp_path / "blank.png")
    with pytest.warns(UserWarning, match=r"blank\.png: no plant"):
        skeleton = predictor(ColorEngine(TREE, 128)).predict(tmp_path / "blank.png")
    assert len(skeleton) == 0
    assert skeleton.image_size == (300, 200)


@pytest.mark.slow
@settings(max_examples=examples(60))
@given(data=st.data(), single_plant=st.booleans(), confidence=st.none() | st.floats(0, 1))
def test_any_numbers_become_a_valid_forest(data, single_plant, confidence):
    count = data.draw(st.integers(2, 9))
    anything = st.floats(allow_nan=True, allow_infinity=True, width=32)
    coordinates = st.floats(-5, 70, width=32) | anything | st.just(20.0)
    scores = st.floats(0, 1, width=32) | anything
    numbers = [
        data.draw(hnp.arrays(np.float32, shape, elements=elements))
        for shape, elements in (
            ((count,), scores),
            ((count, 2), coordinates),
            ((count, count), anything),
            ((count,), anything),
        )
    ]
    size = data.draw(st.sampled_from([(64, 64), (50, 20), (150, 90)]))
    options = {"working_size": "full", "single_plant": single_plant, "min_confidence": confidence}
    (skeleton,) = predictor(NumbersEngine(*numbers)).predict_many([np.zeros(size[::-1], np.uint8)], **options)
    assert skeleton.is_forest
    assert skeleton.is_tree or not single_plant or len(skeleton) == 0
    assert len(skeleton.roots) == len(skeleton) - len(skeleton.edges)
    assert ((skeleton.nodes >= 0) & (skeleton.nodes <= size)).all()
    for values in (skeleton.node_score, skeleton.edge_score):
        assert ((values >= 0) & (values <= 1)).all()
    plant = skeleton.plant[skeleton.roots]
    assert sorted(plant) == list(range(len(plant)))
    assert (np.diff(skeleton.nodes[skeleton.roots[np.argsort(plant)], 0]) >= 0).all(), "from left to right"


# ---- options -------------------------------------------------------------------------------------


def test_plants_are_numbered_from_left_to_right_and_a_single_one_can_be_forced():
    two = line_engine(costs=(-4, 6, -4), logits=(-3, 2, -3, 3))
    forest = predictor(two).predict(np.zeros((64, 64), np.uint8))
    assert forest.roots.tolist() == [1, 3]
    assert forest.plant.tolist() == [0, 0, 1, 1]
    tree = predictor(two).predict(np.zeros((64, 64), np.uint8), single_plant=True)
    assert tree.is_tree
    assert tree.roots.tolist() == [3]


def test_min_confidence_drops_nodes_and_cuts_edges():
    engine = line_engine(scores=(0.9, 0.6, 0.9, 0.9), costs=(-4, -4, 2))
    blank = np.zeros((64, 64), np.uint8)
    assert len(predictor(engine).predict(blank)) == 4
    assert len(predictor(engine).predict(blank, min_confidence=0.05)) == 4
    sure = predictor(engine).predict(blank, min_confidence=0.5)
    assert sure.nodes[:, 0].tolist() == [10, 20, 30], "the last edge is unlikely, so its node is cut off and dropped"
    with pytest.warns(UserWarning, match="no plant"):
        assert len(predictor(engine).predict(blank, min_confidence=0.7)) == 0, "no node has a likely edge"
    forced = predictor(engine).predict(blank, min_confidence=0.5, single_plant=True)
    assert len(forced) == 4, "a single tree is never cut"


def test_the_minimum_confidence_is_inclusive_and_an_isolated_root_is_kept():
    """A root without an edge has not lost one to the threshold."""
    engine = line_engine(costs=(-4, 0, 9), logits=(3, -3, -3, 3))
    found = predictor(engine).predict(np.zeros((64, 64), np.uint8), min_confidence=0.5)
    assert found.nodes[:, 0].tolist() == [10, 20, 30, 40]
    assert found.edge_score.tolist() == [pytest.approx(0.982), 0.5]
    assert found.roots.tolist() == [0, 3]


def test_the_thresholds_of_the_model_are_the_defaults():
    blank = np.zeros((64, 64), np.uint8)
    two = line_engine(costs=(-4, 6, -4), logits=(3, -3, -1, -3))
    assert predictor(two).predict(blank).roots.tolist() == [0]
    assert predictor(two, root_threshold=0.2).predict(blank).roots.tolist() == [0, 2]
    weak = line_engine(scores=(0.9, 0.9, 0.45, 0.2))
    assert len(predictor(weak).predict(blank)) == 2
    assert len(predictor(weak, node_threshold=0.4).predict(blank)) == 3
    assert len(predictor(weak).predict(blank, min_confidence=0.1)) == 3, (
        "candidates below the candidate threshold do not exist"
    )
    assert len(predictor(weak, candidate_threshold=0.2).predict(blank, min_confidence=0.1)) == 4


@pytest.mark.parametrize("size", [(64, 64), (150, 90)])
def test_padding_of_a_batch_never_becomes_a_node(size):
    plain = line_engine()
    score, points, cost, logit = (array[0] for array in plain.numbers)
    padded = NumbersEngine(
        np.pad(score, (0, 3)), np.pad(points, ((0, 3), (0, 0))), np.pad(cost, (0, 3)), np.pad(logit, (0, 3))
    )
    options = {"min_confidence": 0.0, "working_size": "full"}
    found, expected = (
        predictor(engine, candidate_threshold=0.0, node_threshold=0.0).predict(np.zeros(size, np.uint8), **options)
        for engine in (padded, plain)
    )
    assert found == expected


def test_a_duplicate_node_is_suppressed():
    """The last node is less likely than not, 2 px beside the second, and has likely edges to the same neighbors."""
    cost = np.full((4, 4), 9.0)
    for i, j, value in ((0, 1, -4), (1, 2, -4), (0, 3, -2), (2, 3, -2)):
        cost[i, j] = cost[j, i] = value
    points = [(10, 30), (20, 30), (30, 30), (22, 30)]
    engine = NumbersEngine([0.9, 0.9, 0.9, 0.4], points, cost, [3, -3, -3, -3])
    for options in ({}, {"min_confidence": 0.0}):
        found = predictor(engine, node_threshold=0.3, candidate_threshold=0.0).predict(
            np.zeros((64, 64), np.uint8), **options
        )
        assert found.nodes[:, 0].tolist() == [10, 20, 30]


def test_tiles_start_on_the_grid_of_the_network():
    """The step of `tile_grid` is the model's grid spacing."""
    config = ModelSettings("fake", {"grid_px": 44.0}, input_size=512, working_size=512)
    options = PredictionOptions(ModelFolder(Path("fake"), config), "full", False, None)
    tiles = prepare(np.zeros((1100, 1300), np.uint8), options, 512).accumulator.tiles
    assert len(tiles) > 4
    assert all(tile.left % 44 == tile.top % 44 == 0 for tile in tiles)


def test_unsure_plants_are_dropped_unless_a_confidence_is_requested():
    unsure = predictor(line_engine(scores=(0.4, 0.45, 0.4, 0.35)), node_threshold=0.3)
    with pytest.warns(UserWarning, match="no plant"):
        assert len(unsure.predict(np.zeros((64, 64), np.uint8))) == 0
    assert len(unsure.predict(np.zeros((64, 64), np.uint8), min_confidence=0.3)) == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"working_size": 0}, "working size"),
        ({"working_size": "huge"}, "huge"),
        ({"min_confidence": 1.5}, "confidence"),
        ({"min_confidence": float("nan")}, "confidence"),
    ],
)
def test_a_wrong_option_is_one_line(options, message):
    with pytest.raises(TreeformerError, match=message):
        predictor(line_engine()).predict(np.zeros((9, 9), np.uint8), **options)


def test_progress_counts_tiles_and_can_end_a_prediction():
    seen = []
    model = predictor(line_engine())
    model.predict(np.zeros((200, 300), np.uint8), working_size="full", progress=lambda *pair: seen.append(pair))
    assert seen == [(k, len(seen)) for k in range(1, len(seen) + 1)]
    assert len(seen) > 10
    calls = []

    def stop(done, total):
        calls.append(done)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.predict(np.zeros((200, 300), np.uint8), working_size="full", progress=stop)
    assert calls == [1]


def test_threads_that_load_a_model_at_the_same_time_share_it(monkeypatch):
    def load_slowly(*_, **__):
        time.sleep(0.05)
        return object()

    monkeypatch.setattr("treeformer.inference.predictor.Predictor", load_slowly)
    with ThreadPoolExecutor(4) as pool:
        models = list(pool.map(lambda _: load_model("loaded by four threads"), range(4)))
    assert len({id(model) for model in models}) == 1


def test_changing_the_metadata_of_a_prediction_does_not_change_the_next_one():
    model = predictor(ColorEngine(TREE, 64))
    first = model.predict(drawn(TREE), working_size="full")
    first.metadata["prediction"]["operator"] = "Ann"
    assert "operator" not in model.predict(drawn(TREE), working_size="full").metadata["prediction"]


@pytest.mark.slow
def test_the_public_names_are_imported_on_demand():
    subprocess.run([sys.executable, "-c", "import treeformer; treeformer.metrics.topo, treeformer.nn.SFS"], check=True)
    code = (
        "import sys, treeformer; assert 'treeformer.inference.predictor' not in sys.modules;"
        "treeformer.predict, treeformer.load_model; assert 'treeformer.inference.predictor' in sys.modules;"
        "assert 'torch' not in sys.modules and 'onnxruntime' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
