"""A training run on tiny images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image, ImageDraw

import treeformer
from treeformer import Skeleton

SIDE = 64


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Return a folder with four drawings of a stem with two branches, 64×64 px, and their skeletons."""
    out = tmp_path_factory.mktemp("trees")
    rng = np.random.default_rng(0)
    for number in range(4):
        fork = rng.uniform(24, 40, 2)
        nodes = np.array(
            [(32, 60), fork, fork + rng.uniform((-20, -20), (-8, -8)), fork + rng.uniform((8, -20), (20, -8))]
        )
        image = Image.new("RGB", (SIDE, SIDE), "white")
        pen = ImageDraw.Draw(image)
        for u, v in ((0, 1), (1, 2), (1, 3)):
            pen.line([*nodes[u], *nodes[v]], fill="black", width=2)
        image.save(out / f"{number}.png")
        skeleton = Skeleton(nodes, [(0, 1), (1, 2), (1, 3)], root=0, image_size=(SIDE, SIDE))
        treeformer.write(skeleton, out / f"{number}.json")
    return out


@pytest.fixture
def config_file(tmp_path, folder) -> Path:
    """Return a configuration that trains a tiny model on `folder` for 8 steps."""
    source = {"path": str(folder), "split": ""}
    settings = {
        "name": "test",
        "model": "tiny",
        "model_options": {"tokens": 8, "denoising": False},
        "data": {"train": [source], "valid": [source], "image_size": SIDE, "max_nodes": 8},
        "optimizer": {"learning_rate": 2e-3, "backbone_factor": 1.0, "warmup_steps": 5, "ema_decay": 0.9},
        "batch_size": 4,
        "steps": 8,
        "validate_every": 4,
        "score": "edge_f1",
        "precision": "32",
    }
    path = tmp_path / "test.yaml"
    path.write_text(yaml.safe_dump(settings))
    return path
