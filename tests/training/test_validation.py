"""Validation: one pass of the network, decoded in several ways."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

pytest.importorskip("torch")

import torch

from treeformer import Skeleton
from treeformer._util.config import ConfigError
from treeformer.data.config import DataConfig, SourceConfig
from treeformer.training.config import TrainingConfig
from treeformer.training.validation import Validator, changed_settings, means


@dataclass(frozen=True)
class Settings:
    node_count: int = 2


class Line(torch.nn.Module):
    """A model that predicts a line of `config.node_count` nodes for every image."""

    def __init__(self):
        super().__init__()
        self.config = Settings()
        self.passes = 0

    def forward(self, images):
        self.passes += 1
        return len(images)

    def decode(self, output, *, image_size):
        count = self.config.node_count
        edges = [(i, i + 1) for i in range(count - 1)]
        return [Skeleton([(i, i) for i in range(count)], edges, image_size=image_size)] * output


@pytest.mark.slow
def test_one_pass_and_one_row_per_image_for_every_decoding():
    source = SourceConfig(presets=("paper",), split="valid", count=3)
    config = TrainingConfig(data=DataConfig(valid=(source,), image_size=64, max_nodes=1000), precision="32")
    model = Line().train()
    validator = Validator(config, torch.device("cpu"), batch=2)
    rows = validator.evaluate(model, {"one": {"node_count": 1}, "none": {"node_count": 0}, "own": {}})
    assert model.passes == 2
    assert model.training
    assert model.config == Settings()
    assert {name: len(found) for name, found in rows.items()} == {"one": 3, "none": 3, "own": 3}
    assert [rows[name][0]["tree_rate"] for name in rows] == [1.0, 0.0, 1.0]
    assert rows["own"][0]["edge_precision"] == 0.0 == rows["one"][0]["edge_recall"]
    assert validator.measure(model)["images"] == 3
    assert means([]) == {"images": 0.0}


def test_validation_without_a_usable_image_is_an_error():
    source = SourceConfig(presets=("paper",), split="valid", count=2)
    config = TrainingConfig(data=DataConfig(valid=(source,), image_size=64, max_nodes=1), precision="32")
    with pytest.raises(ConfigError, match="none of the 2 images to validate on can be used"):
        Validator(config, torch.device("cpu")).measure(Line())


def test_settings_are_restored_after_an_error():
    model = Line()
    with pytest.raises(ZeroDivisionError), changed_settings(model, {"node_count": 9}):
        assert model.config.node_count == 9
        1 / 0  # noqa: B018
    assert model.config == Settings()
