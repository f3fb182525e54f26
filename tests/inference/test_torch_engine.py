"""The torch engine on a GPU: weights cast once give the same results as weights cast by autocast, and batch sizes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from tests.inference.test_cuda_graphs import random_images
from tests.models.untrained import THRESHOLDS, network
from treeformer.inference.torch_engine import cast_weights_to_bfloat16, preferred_batch
from treeformer.models import InferenceModel
from treeformer.nn.deformable_attention import DeformableAttention


@torch.inference_mode()
def test_casting_weights_once_changes_nothing(one_thread, monkeypatch):
    # The other order, which is used only on a CPU, has a bias that autocast does not cast.
    monkeypatch.setattr(DeformableAttention, "_read_on_cpu", DeformableAttention._project_then_read)
    images, names = random_images(3, seed=2), network().state_dict().keys()
    plain, cast = network(), network()
    cast_weights_to_bfloat16(cast)
    assert cast.state_dict().keys() == names
    with torch.autocast("cpu", torch.bfloat16, cache_enabled=False):
        expected, found = (InferenceModel(model, 0.2, THRESHOLDS["min_peak_heat"])(images) for model in (plain, cast))
    assert expected[0].count_nonzero() > 10
    for first, second in zip(expected, found, strict=True):
        assert first.dtype == second.dtype
        assert torch.equal(first, second)


@pytest.mark.parametrize(("memory_gib", "batch"), [(8, 64), (12, 128), (140, 128)])
def test_small_gpus_get_smaller_batches(monkeypatch, memory_gib, batch):
    properties = SimpleNamespace(total_memory=memory_gib * 2**30)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    assert preferred_batch(torch.device("cuda")) == batch
