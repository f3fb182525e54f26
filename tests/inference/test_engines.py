"""A small model in `Predictor`: both engines, any batch size, several threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

from tests.models.untrained import SIDE, network
from treeformer import TreeformerError
from treeformer.inference.predictor import Predictor, load_model
from treeformer.models.export import save_pretrained

pytestmark = pytest.mark.slow

# An untrained model has low scores everywhere.
THRESHOLDS = {"node_threshold": 0.004, "candidate_threshold": 0.002, "root_threshold": 0.06}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "tiny"
    save_pretrained(network(), path, input_size=SIDE, working_size=100, int8=False, **THRESHOLDS)
    return path


def images() -> list[np.ndarray]:
    """Return noise, which has more heat peaks than the network has tokens. Fewer peaks would leave ties."""
    random = np.random.default_rng(0)
    return [random.integers(0, 256, (*size, 3), dtype=np.uint8) for size in ((64, 64), (90, 90), (50, 40), (70, 130))]


def assert_same_tree(first, second) -> None:
    assert first.edges.tolist() == second.edges.tolist()
    assert first.roots.tolist() == second.roots.tolist()
    assert np.abs(first.nodes - second.nodes).max(initial=0) <= 0.05
    assert np.abs(first.node_score - second.node_score).max(initial=0) <= 1e-3


def test_both_engines_give_the_same_tree(folder):
    predictors = [load_model(folder, engine=engine, threads=1) for engine in ("onnx", "torch")]
    node_count = 0
    for image in images():
        with_onnx, with_torch = (predictor.predict(image, working_size="full") for predictor in predictors)
        assert with_onnx.is_forest
        assert_same_tree(with_onnx, with_torch)
        node_count += len(with_onnx)
    assert node_count > 10, "empty trees would always be the same"


def test_batches_change_nothing(folder):
    predictor = Predictor(folder, engine="onnx", threads=1)
    single = list(predictor.predict_many(images(), batch=1))
    batched = list(predictor.predict_many(images(), batch=5))
    for first, second in zip(single, batched, strict=True):
        assert_same_tree(first, second)


@pytest.mark.filterwarnings("ignore:.*no plant was found")
@pytest.mark.parametrize("engine", ["onnx", "torch"])
def test_several_threads_may_use_one_model_at_once(folder, engine):
    predict = partial(load_model(folder, engine=engine, threads=1).predict, working_size="full")
    expected = [predict(image) for image in images()]
    assert sum(map(len, expected)) > 10
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(predict, 5 * images())) == 5 * expected


def test_torch_in_a_forked_process_is_an_error_and_does_not_hang(folder, monkeypatch):
    predictor = load_model(folder, engine="torch", threads=1)
    monkeypatch.setattr("os.getpid", lambda: -1)
    with pytest.raises(TreeformerError, match="forked process"):
        predictor.predict(images()[0])


def test_a_model_is_loaded_once(folder):
    assert load_model(folder, engine="onnx", threads=1) is load_model(str(folder), engine="onnx", threads=1)


def test_a_precision_can_be_requested(folder):
    assert load_model(folder, engine="onnx", precision="float32").engine.name == "onnx float32"
    with pytest.raises(TreeformerError, match="has no model-int8"):
        load_model(folder, engine="onnx", precision="int8")
