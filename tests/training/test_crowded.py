"""Crowded batches: they have their own shape and tokens, train, and continue exactly after a restart."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from treeformer._util.config import ConfigError
from treeformer.data.loader import Batch
from treeformer.errors import TreeformerError
from treeformer.hub import safetensors
from treeformer.models import TreeFormer, TreeFormerConfig
from treeformer.nn.targets import Targets
from treeformer.skeleton import Skeleton
from treeformer.training.config import load_config
from treeformer.training.loop import train
from treeformer.training.setup import batch_sizes
from treeformer.training.step import CudaGraphSteps, TrainingStep

CROWDED = ["data.crowded_every=2", "data.crowded_batch_size=2", "data.crowded_max_nodes=14", "data.crowded_tokens=16"]


@pytest.fixture
def crowded_config(config_file, folder):
    """Return a configuration whose second batch is crowded, with the spacing that gives more than 8 nodes."""
    source = f"{{path: {folder}, split: ''"
    sources = f"data.train=[{source}}}, {source}, spacing_px: 7, crowded_weight: 1, weight: 0.001}}]"
    return load_config(config_file, [*CROWDED, sources, "steps=4", "validate_every=4"])


def no_validation(_model):
    return {"edge_f1": 0.5}


@pytest.mark.slow
def test_crowded_batches_train_and_a_resumed_run_is_the_same(crowded_config, tmp_path, monkeypatch):
    seen = []
    forward = TreeFormer.forward

    def watch(self, images, targets=None, tokens=None):
        output = forward(self, images, targets, tokens)
        seen.append((len(images), targets.points.shape[1], tokens, output.node_logits.shape[1]))
        assert int(targets.mask.sum(1).max()) > 8 or tokens is None
        return output

    monkeypatch.setattr(TreeFormer, "forward", watch)
    state = train(crowded_config, tmp_path / "whole", accelerator="cpu", measure=no_validation)
    assert seen == [(4, 8, None, 8), (2, 14, 16, 16)] * 2
    assert (state.step, state.position) == (4, 12)
    for steps in (1, 3, 4):  # interrupted before a crowded batch and before an ordinary one
        part = replace(crowded_config, steps=4, validate_every=steps)

        def stop(_model, at=steps, config=part):
            if at < config.steps:
                raise TreeformerError("interrupted")
            return {"edge_f1": 0.5}

        if steps < 4:
            with pytest.raises(TreeformerError, match="interrupted"):
                train(part, tmp_path / "parts", accelerator="cpu", resume=steps > 1, measure=stop)
        else:
            state = train(part, tmp_path / "parts", accelerator="cpu", resume=True, measure=no_validation)
    assert state.position == 12
    whole, parts = (safetensors.read(tmp_path / name / "checkpoint.safetensors") for name in ("whole", "parts"))
    for name, array in whole.items():
        np.testing.assert_array_equal(array, parts[name], err_msg=name)


def test_mistakes_are_one_line(config_file, crowded_config):
    with pytest.raises(ConfigError, match=r"data\.crowded_tokens 8 is less than data\.crowded_max_nodes 14"):
        load_config(config_file, [*CROWDED, "data.crowded_tokens=8"])
    with pytest.raises(ConfigError, match=r"data\.crowded_batch_size 2 cannot be divided among 4 processes"):
        batch_sizes(crowded_config, SimpleNamespace(has_variable_tokens=True), 4)
    with pytest.raises(ConfigError, match="fixed number of tokens"):
        batch_sizes(crowded_config, SimpleNamespace(), 1)


def example(nodes: int, images: int) -> Batch:
    line = Skeleton([(8.0 * i + 4, 32) for i in range(6)], [(i, i + 1) for i in range(5)], root=0)
    return Batch(torch.zeros(images, 3, 64, 64, dtype=torch.uint8), Targets.from_skeletons([line] * images, nodes))


def test_the_number_of_tokens_is_an_argument():
    torch.manual_seed(0)
    step = TrainingStep(TreeFormer(TreeFormerConfig.tiny(tokens=8)), bf16=False)
    batch, count = example(12, 2), torch.tensor(12.0)
    with pytest.raises(TreeformerError, match="12 nodes, but there are only 8 tokens"):
        step(batch.images, batch.targets, count)
    assert step(batch.images, batch.targets, count, 16)["loss"].isfinite()
    learned = TreeFormer(TreeFormerConfig.tiny(token_source="learned", tokens=8))
    with pytest.raises(TreeformerError, match="8 learned tokens, 16 were requested"):
        learned(torch.zeros(1, 3, 64, 64), tokens=16)


def test_one_graph_is_captured_per_shape():
    """A stand-in for CUDA graphs runs the step eagerly and keeps gradients of its own, as a graph does."""
    torch.manual_seed(0)
    model = TreeFormer(TreeFormerConfig.tiny(tokens=8))
    captured = []

    class EagerStep:
        def __init__(self, model, example, *, bf16, tokens, share_with, distillation, guide) -> None:
            assert distillation is None
            assert guide is None
            self.step, self.tokens = TrainingStep(model, bf16=bf16), tokens
            self.shape, self.uses = example.images.shape, 0
            captured.append((len(example.images), tokens, share_with))

        def __call__(self, batch, node_count, guide):
            assert guide is None
            assert batch.images.shape == self.shape
            self.uses += 1
            return self.step(batch.images, batch.targets, node_count, self.tokens)

    steps = CudaGraphSteps(model, bf16=False, capture=EagerStep)
    ordinary, crowded, count = example(6, 3), example(12, 2), torch.tensor(6.0)
    for _ in range(2):
        assert steps(ordinary, count)["loss"].isfinite()
        assert steps(crowded, count, 16)["loss"].isfinite()
    first = next(iter(steps.graphs.values()))
    assert captured == [(3, None, None), (2, 16, first)]
    assert [graph.uses for graph in steps.graphs.values()] == [2, 2]
