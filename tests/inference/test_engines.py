"""A small model in `Predictor`: both engines, any batch size, several threads."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest

from treeformer import TreeformerError
from treeformer.hub.model_folder import INT8_GRAPH, open_model, read_folder, write_config
from treeformer.inference.engine import input_memory
from treeformer.inference.open_engine import open_engine
from treeformer.inference.predictor import Predictor, load_model
from treeformer.synthetic import make_image

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(untrained_folder, tmp_path_factory):
    """Return a model folder without 8-bit weights."""
    path = tmp_path_factory.mktemp("model") / "tiny"
    shutil.copytree(untrained_folder, path, ignore=shutil.ignore_patterns(INT8_GRAPH))
    write_config(path, replace(open_model(untrained_folder).config, working_size=100))
    return path


@cache
def images() -> tuple[np.ndarray, ...]:
    """Return images of one tile and of several in which the untrained network finds nodes."""
    seeds = {(64, 64): 5, (90, 90): 5, (130, 70): 3}
    large = [make_image("paper", "photo", seed, size)[0] for size, seed in seeds.items()]
    return (*large, large[0][:50, :40])


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


def test_torch_returns_the_same_numbers_in_groups(folder, monkeypatch):
    """Groups of two: the output of an image has fewer candidates than that of the whole batch."""
    monkeypatch.setattr("treeformer.models.inference_model.GROUP_SIZE", 2)
    engine = open_engine(open_model(folder), "torch")
    batch = np.stack([np.resize(image, (engine.input_size, engine.input_size, 3)) for image in images()])
    whole, rows = engine(batch), engine.begin_rows(batch)()
    assert len(rows) == len(batch)
    for row, (raw, index) in enumerate(rows):
        for joined, part in zip(whole, raw, strict=True):
            if joined is not None:
                part = part[index]
                np.testing.assert_array_equal(joined[row][tuple(map(slice, part.shape))], part)
    with engine.readable_memory(batch) as is_readable:
        assert is_readable


def test_the_input_memory_of_torch_has_the_shape_of_a_batch(folder):
    engine = open_engine(open_model(folder), "torch", device="cpu")
    memory = input_memory(engine, 3)
    assert (memory.shape, memory.dtype) == ((3, engine.input_size, engine.input_size, 3), np.uint8)


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


def test_another_model_in_the_same_place_is_loaded_again(folder, monkeypatch, tmp_path):
    for place, version in (("a", "first"), ("b", "second")):
        shutil.copytree(folder, tmp_path / place / "mine")
        write_config(tmp_path / place / "mine", replace(read_folder(folder).config, version=version))
    versions = []
    for place in ("a", "b"):
        monkeypatch.chdir(tmp_path / place)
        versions.append(load_model("mine", engine="onnx", threads=1).model.config.version)
    shutil.rmtree("mine")
    shutil.copytree(tmp_path / "a" / "mine", "mine")
    versions.append(load_model("mine", engine="onnx", threads=1).model.config.version)
    assert versions == ["first", "second", "first"]


def test_a_precision_can_be_requested(folder):
    assert load_model(folder, engine="onnx", precision="float32").engine.name == "onnx float32"
    with pytest.raises(TreeformerError, match="has no model-int8"):
        load_model(folder, engine="onnx", precision="int8")
