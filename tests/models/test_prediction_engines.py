"""A whole small model through `Predictor`: both engines, any batch, and whatever is in the picture."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from treeformer import synthetic
from treeformer.models import TreeFormer, TreeFormerConfig
from treeformer.models.export import save_pretrained
from treeformer.prediction import Predictor, load_model

SIDE = 64


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model with random weights and thresholds low enough for it to find nodes."""
    torch.manual_seed(1)
    model = TreeFormer(TreeFormerConfig.tiny(decoder_layers=1, tokens=12)).eval()
    path = tmp_path_factory.mktemp("model") / "tiny"
    thresholds = {"node_threshold": 0.004, "candidate_score": 0.002, "root_threshold": 0.02}
    save_pretrained(model, path, input_size=SIDE, working_size=100, **thresholds)
    return path


def pictures() -> list[np.ndarray]:
    random = np.random.default_rng(0)
    plants = [synthetic.picture("paper", "paper", seed, size=(90, 90))[0] for seed in (1, 2)]
    return [*plants, plants[0][:50, :40], random.integers(0, 256, (70, 130, 3), dtype=np.uint8), np.zeros((9, 9), "u1")]


def assert_same_tree(one, other) -> None:
    assert one.edges.tolist() == other.edges.tolist()
    assert one.roots.tolist() == other.roots.tolist()
    assert np.abs(one.nodes - other.nodes).max(initial=0) <= 0.05
    assert np.abs(one.node_score - other.node_score).max(initial=0) <= 1e-3


def test_both_engines_give_the_same_tree(folder):
    onnx, on_torch = (load_model(folder, engine=engine, threads=1) for engine in ("onnx", "torch"))
    found = 0
    for picture in pictures():
        one, other = (predictor.predict(picture, working_size="full") for predictor in (onnx, on_torch))
        assert one.is_forest
        assert_same_tree(one, other)
        found += len(one)
    assert found > 20, "trees of nothing would always be the same"


def test_batches_change_nothing(folder):
    predictor = Predictor(folder, engine="onnx", threads=1)
    alone = list(predictor.predict_many(pictures(), batch=1))
    together = list(predictor.predict_many(pictures(), batch=5))
    for one, other in zip(alone, together, strict=True):
        assert_same_tree(one, other)


def test_a_model_is_loaded_once(folder):
    assert load_model(folder, engine="onnx", threads=1) is load_model(str(folder), engine="onnx", threads=1)
