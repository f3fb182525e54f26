"""The torch engine's network for a GPU: weights that are rounded once say what autocast's say."""

from __future__ import annotations

import torch

from tests.inference.test_cuda_graphs import random_images
from tests.models.untrained import THRESHOLDS, network
from treeformer.inference.torch_engine import keep_rounded
from treeformer.models import InferenceModel
from treeformer.nn.deformable_attention import DeformableAttention


@torch.inference_mode()
def test_rounding_weights_once_changes_nothing(one_thread, monkeypatch):
    # The other order, which only a CPU takes, has a bias that autocast leaves as it is.
    monkeypatch.setattr(DeformableAttention, "_read_then_project", DeformableAttention._project_then_read)
    images, names = random_images(3, seed=2), network().state_dict().keys()
    plain, rounded = network(), network()
    keep_rounded(rounded)
    assert rounded.state_dict().keys() == names
    with torch.autocast("cpu", torch.bfloat16, cache_enabled=False):
        one, other = (InferenceModel(model, 0.2, THRESHOLDS["min_peak_heat"])(images) for model in (plain, rounded))
    assert one[0].count_nonzero() > 10
    for mine, theirs in zip(one, other, strict=True):
        assert mine.dtype == theirs.dtype == torch.float32
        assert torch.equal(mine, theirs)
