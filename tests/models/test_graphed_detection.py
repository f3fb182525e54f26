"""Recorded detection against the plain one. Needs a GPU."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from treeformer.engines import open_engine
from treeformer.model_folder import open_model
from treeformer.synthetic import picture

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need a GPU")


def test_batches_of_one_size_are_recorded_and_give_the_same():
    engine = open_engine(open_model("default"), "torch")
    batches = [np.stack([picture("paper", "photo", seed)[0] for seed in seeds]) for seeds in ((0, 1), (2, 3), (4,))]
    plain = [open_engine(open_model("default"), "torch")(batch) for batch in batches]
    for turn in (0, 0, 1, 0, 2, 1, 1):
        found = engine(batches[turn])
        np.testing.assert_allclose(found.node_score, plain[turn].node_score, atol=0.02)
        assert found.points.shape == plain[turn].points.shape
    assert engine._graphed is not None
    assert len(engine._graphed.images) == 2
