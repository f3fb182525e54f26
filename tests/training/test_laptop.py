"""configs/laptop.yaml overfits its images. Tested on fewer and smaller images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from PIL import Image, ImageDraw

import treeformer
from treeformer import Skeleton
from treeformer.data.mixture import EvalDataset, MixtureDataset
from treeformer.training.config import load_config
from treeformer.training.loop import TrainingRun, train

pytestmark = pytest.mark.slow

CONFIG = Path(__file__).parents[2] / "configs" / "laptop.yaml"
SIDE = 64
EDGES = ((0, 1), (1, 2), (1, 3))


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_it_has_eight_images_and_validates_on_them():
    config = load_config(CONFIG)
    trained, validated = (
        [sample.name for sample, _ in EvalDataset(sources, config.data) if sample is not None]
        for sources in (config.data.train, config.data.valid)
    )
    assert trained == validated
    assert len(trained) == 8
    stream = MixtureDataset(config.data.train, config.data, seed=0)
    drawn = [stream[position] for position in range(40)]
    assert {sample.name for sample, _ in drawn} == set(trained)
    assert not any(skipped for _, skipped in drawn)


@pytest.fixture
def forks(tmp_path) -> Path:
    """Return a folder with four drawings of a stem with two branches, and their skeletons."""
    out = tmp_path / "forks"
    out.mkdir()
    rng = np.random.default_rng(0)
    for number in range(4):
        fork = rng.uniform(24, 40, 2)
        left, right = fork + rng.uniform((-20, -20), (-8, -8)), fork + rng.uniform((8, -20), (20, -8))
        nodes = np.array([(32, 60), fork, left, right])
        image = Image.new("RGB", (SIDE, SIDE), "white")
        for u, v in EDGES:
            ImageDraw.Draw(image).line([*nodes[u], *nodes[v]], fill="black", width=3)
        image.save(out / f"{number}.png")
        treeformer.write(Skeleton(nodes, EDGES, root=0, image_size=(SIDE, SIDE)), out / f"{number}.json")
    return out


def test_four_small_images_are_overfitted(forks, tmp_path, monkeypatch):
    monkeypatch.setattr(TrainingRun, "_out_of_patience", lambda run: run.state.best_score == 1.0)
    source = f"[{{path: '{forks}', split: ''}}]"
    overrides = [
        f"data.train={source}",
        f"data.valid={source}",
        f"data.image_size={SIDE}",
        "data.max_nodes=4",
        "model_options.tokens=12",
        "batch_size=4",
        "steps=240",
        "validate_every=20",
    ]
    state = train(load_config(CONFIG, overrides), tmp_path / "out", accelerator="cpu")
    assert state.best_score == 1.0
