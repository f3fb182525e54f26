"""configs/laptop.yaml does what it promises, on fewer and smaller pictures: learnt by heart, to the last edge."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch

from treeformer.training.config import load_config
from treeformer.training.loop import train
from treeformer.training.stream import FixedPictures

CONFIG = Path(__file__).parents[2] / "configs" / "laptop.yaml"


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_it_has_eight_pictures_and_validates_on_them():
    config = load_config(CONFIG)
    learnt, judged = (
        [sample.name for sample, _ in FixedPictures(sources, config.data) if sample is not None]
        for sources in (config.data.train, config.data.valid)
    )
    assert learnt == judged
    assert len(learnt) == 8
