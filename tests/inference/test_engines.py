"""A whole small model through `Predictor`: both engines, and any batch."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

from tests.models.untrained import SIDE, network
from treeformer import TreeformerError
from treeformer.inference.predictor import Predictor, load_model
from treeformer.models.export import save_pretrained

# Untrained, it believes in hardly anything.
THRESHOLDS = {"node_threshold": 0.004, "candidate_threshold": 0.002, "root_threshold": 0.06}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "tiny"
    save_pretrained(network(), path, input_size=SIDE, working_size=100, int8=False, **THRESHOLDS)
    return path


def images() -> list[np.ndarray]:
    """Noise, which has more peaks than the network has tokens: where it has fewer, places of equal heat fill up."""
    random = np.random.default_rng(0)
    return [random.integers(0, 256, (*size, 3), dtype=np.uint8) for size in ((64, 64), (90, 90), (50, 40), (70, 130))]


def assert_same_tree(one, other) -> None:
    assert one.edges.tolist() == other.edges.tolist()
    assert one.roots.tolist() == other.roots.tolist()
    assert np.abs(one.nodes - other.nodes).max(initial=0) <= 0.05
    assert np.abs(one.node_score - other.node_score).max(initial=0) <= 1e-3


def test_both_engines_give_the_same_tree(folder):
    onnx, on_torch = (load_model(folder, engine=engine, threads=1) for engine in ("onnx", "torch"))
    found = 0
    for image in images():
        one, other = (predictor.predict(image, working_size="full") for predictor in (onnx, on_torch))
        assert one.is_forest
        assert_same_tree(one, other)
        found += len(one)
    assert found > 10, "trees of nothing would always be the same"


def test_batches_change_nothing(folder):
    predictor = Predictor(folder, engine="onnx", threads=1)
    alone = list(predictor.predict_many(images(), batch=1))
    together = list(predictor.predict_many(images(), batch=5))
    for one, other in zip(alone, together, strict=True):
        assert_same_tree(one, other)


@pytest.mark.filterwarnings("ignore:.*no plant was found")
@pytest.mark.parametrize("engine", ["onnx", "torch"])
def test_several_threads_may_use_one_model_at_once(folder, engine):
    predict = partial(load_model(folder, engine=engine, threads=1).predict, working_size="full")
    alone = [predict(image) for image in images()]
    assert sum(map(len, alone)) > 10
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(predict, 5 * images())) == 5 * alone


def test_torch_in_a_forked_process_is_one_line_and_no_waiting(folder, monkeypatch):
    predictor = load_model(folder, engine="torch", threads=1)
    monkeypatch.setattr("os.getpid", lambda: -1)
    with pytest.raises(TreeformerError, match="forked process"):
        predictor.predict(images()[0])


def test_a_model_is_loaded_once(folder):
    assert load_model(folder, engine="onnx", threads=1) is load_model(str(folder), engine="onnx", threads=1)


def test_a_precision_can_be_asked_for(folder):
    assert load_model(folder, engine="onnx", precision="float32").engine.name == "onnx float32"
    with pytest.raises(TreeformerError, match="has no model-int8"):
        load_model(folder, engine="onnx", precision="int8")
