"""The models of the package: no plant in empty images, and the right plants in synthetic images."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnxruntime")

from treeformer import synthetic
from treeformer.inference.predictor import Predictor
from treeformer.metrics import evaluate_pair


@pytest.fixture(scope="module", params=["default", "small"])
def model(request: pytest.FixtureRequest) -> Predictor:
    return Predictor(request.param)


@pytest.mark.slow
@pytest.mark.parametrize("gray", [0, 5, 20, 128, 255])
@pytest.mark.parametrize("deviation", [0, 3, 10])
def test_no_plant_is_found_in_uniform_images_and_noise(model, gray, deviation):
    noise = np.random.default_rng(gray).normal(gray, deviation, (256, 320, 3))
    with pytest.warns(UserWarning, match="no plant was found"):
        assert len(model.predict(np.clip(noise, 0, 255).astype(np.uint8))) == 0


@pytest.mark.slow
@pytest.mark.parametrize(("preset", "style", "min_f1"), [("paper", "paper", 0.95), ("plate", "photo", 0.85)])
def test_plants_are_found(model, preset, style, min_f1):
    rows = []
    for seed in range(140_000, 140_003):  # not in any split
        ground_truth = synthetic.generate(preset, seed)
        found = model.predict(synthetic.render(ground_truth, style, seed))
        assert found.is_forest
        rows.append(evaluate_pair(found, ground_truth)["topo_paper_f1"])
    assert np.mean(rows) > min_f1
