"""A training step as a CUDA graph gives the losses and gradients of a plain step. Needs a GPU."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from treeformer.data.config import DataConfig, SourceConfig
from treeformer.data.loader import BatchSizes, training_loader
from treeformer.data.mixture import MixtureDataset
from treeformer.models import TreeFormer, TreeFormerConfig
from treeformer.training.step import CudaGraphStep, CudaGraphSteps

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need a GPU")


def batches(count: int):
    stream = MixtureDataset([SourceConfig(presets=("paper",))], DataConfig(image_size=128, max_nodes=32), seed=0)
    loader = iter(training_loader(stream, BatchSizes(4)))
    return [next(loader).to(torch.device("cuda")) for _ in range(count)]


def test_graphs_of_two_shapes_keep_their_own_gradients():
    torch.manual_seed(0)
    model = TreeFormer(TreeFormerConfig.tiny(width=128, heads=4)).cuda().train()
    [ordinary] = batches(1)
    dense = replace(ordinary, images=ordinary.images[:2], targets=ordinary.targets._map(lambda tensor: tensor[:2]))
    steps = CudaGraphSteps(model, bf16=False)
    found = []
    for _ in range(2):
        for batch, tokens in ((ordinary, None), (dense, 40)):
            steps(batch, batch.targets.mask.sum().float(), tokens)
            found.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
    assert len(steps.graphs) == 2
    for first, second in zip(found[:2], found[2:], strict=True):
        for a, b in zip(first, second, strict=True):
            torch.testing.assert_close(a, b, atol=1e-3, rtol=1e-2)
    assert any(not torch.allclose(a, b, atol=1e-3) for a, b in zip(*found[:2], strict=True))


def test_graphs_give_the_losses_and_gradients_of_plain_steps(monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    torch.manual_seed(0)
    model = TreeFormer(TreeFormerConfig.tiny(width=128, heads=4)).cuda().train()
    examples = batches(3)
    cuda_graph_step = CudaGraphStep(model, examples[0], bf16=False)
    for batch in examples:  # the graph captured with the first batch is valid for the others
        count = batch.targets.mask.sum().float()
        figures = {name: value.clone() for name, value in cuda_graph_step(batch, count).items()}
        gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.requires_grad}
        buffers = {name: p.grad for name, p in model.named_parameters() if p.requires_grad}
        model.zero_grad(set_to_none=True)
        pixels = (batch.images.float() / 255.0).contiguous(memory_format=torch.channels_last)
        parts = model.loss(model(pixels, batch.targets), batch.targets, count)
        torch.stack(list(parts.values())).sum().backward()
        for name, value in parts.items():
            torch.testing.assert_close(figures[name], value.detach(), atol=1e-3, rtol=1e-3)
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                torch.testing.assert_close(gradients[name], parameter.grad, atol=1e-2, rtol=1e-2, msg=name)
                parameter.grad = buffers[name]
