"""Smaller images in the first steps: shapes, one graph per shape, and exact continuation."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

import numpy as np
import torch

from treeformer._util.config import ConfigError
from treeformer.data.loader import BatchSizes, ResumableSampler
from treeformer.errors import TreeformerError
from treeformer.hub import safetensors
from treeformer.models import TreeFormer
from treeformer.training.config import load_config
from treeformer.training.loop import train
from treeformer.training.setup import batch_sizes
from treeformer.training.step import CudaGraphSteps

WARM_UP = ["data.warmup_image_size=32", "data.warmup_image_steps=2", "steps=3", "validate_every=3"]


def test_only_the_first_ordinary_batches_are_smaller():
    sizes = BatchSizes(4, crowded=2, crowded_every=2, warmup_image_steps=3)
    plans = ResumableSampler(sizes, start=0, step=1, rank=0, world=1)
    found = [(plan.is_crowded, plan.is_warmup) for plan, _ in zip(plans, range(3), strict=False)]
    assert found == [(True, False), (False, True), (True, False)]


@pytest.mark.slow
def test_sizes_change_after_the_first_steps_and_a_resumed_run_is_the_same(config_file, tmp_path, monkeypatch):
    sides = []
    forward = TreeFormer.forward

    def watch(self, images, targets=None, *rest):
        sides.append((tuple(images.shape), float(targets.points.max())))
        return forward(self, images, targets, *rest)

    monkeypatch.setattr(TreeFormer, "forward", watch)
    config = load_config(config_file, WARM_UP)
    train(config, tmp_path / "whole", accelerator="cpu", measure=lambda _model: {"edge_f1": 0.5})
    assert [shape[-2:] for shape, _ in sides] == [(32, 32), (32, 32), (64, 64)]
    assert all(largest <= shape[-1] for shape, largest in sides), "the targets have the scale of the images"

    def stop(_model):
        raise TreeformerError("interrupted")

    with pytest.raises(TreeformerError, match="interrupted"):
        train(
            load_config(config_file, [*WARM_UP, "validate_every=1"]),
            tmp_path / "parts",
            accelerator="cpu",
            measure=stop,
        )
    train(config, tmp_path / "parts", accelerator="cpu", resume=True, measure=lambda _model: {"edge_f1": 0.5})
    whole, parts = (safetensors.read(tmp_path / name / "checkpoint.safetensors") for name in ("whole", "parts"))
    for name, array in whole.items():
        np.testing.assert_array_equal(array, parts[name], err_msg=name)


def test_every_size_has_its_own_graph():
    captured = []

    def capture(_model, batch, **_options):
        captured.append(batch.images.shape[-1])
        return lambda _batch, _count, _guide: {}

    graphs = CudaGraphSteps(None, bf16=False, capture=capture)
    targets = SimpleNamespace(points=torch.zeros(2, 8, 2))
    for side in (32, 64, 32, 64):
        graphs(SimpleNamespace(images=torch.zeros(2, 3, side, side), targets=targets), torch.tensor(1.0))
    assert captured == [32, 64]


def test_mistakes_are_one_line(config_file):
    with pytest.raises(ConfigError, match=r"data\.warmup_image_size must be up to data\.image_size, not 0"):
        load_config(config_file, ["data.warmup_image_steps=5"])
    with pytest.raises(ConfigError, match=r"data\.warmup_image_steps needs distillation\.reuse 1, not 4"):
        load_config(config_file, [*WARM_UP, "distillation.teacher=default", "distillation.reuse=4"])
    assert (
        load_config(config_file, [*WARM_UP, "distillation.reuse=4"]).data.warmup_image_steps == 2
    )  # nothing is distilled
    config = load_config(config_file, ["data.warmup_image_steps=5", "data.warmup_image_size=48"])
    with pytest.raises(ConfigError, match=r"data\.warmup_image_size 48 is not a multiple of 32 px"):
        batch_sizes(config, SimpleNamespace(strides=(4, 8, 16, 32)), 1)
