"""Small networks overfit two images: with all losses, or only the edges with a single tree loss."""

from __future__ import annotations

import pytest
import torch

from tests.models.overfit import learn_by_overfitting
from tests.models.test_treeformer import BENT, FORKED, draw
from treeformer.models import TreeFormer, TreeFormerConfig
from treeformer.nn.sfs import edge_margin
from treeformer.nn.spanning import minimum_spanning_tree
from treeformer.nn.targets import Targets

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def images():
    return torch.stack([draw(FORKED), draw(BENT)])


@pytest.mark.slow
def test_two_images_are_overfitted(images):
    torch.manual_seed(0)
    model = TreeFormer(TreeFormerConfig.tiny(denoising=True))
    learn_by_overfitting(model, images, [FORKED, BENT], model.decode, learning_rate=1e-3, steps=300)


@pytest.mark.slow
@pytest.mark.parametrize("tree_loss", ["likelihood", "hinge"])
def test_a_tree_loss_alone_teaches_the_edges(images, tree_loss):
    """No loss of single pairs, and tokens at the true nodes, so that only edges have to be learned."""
    torch.manual_seed(1)  # an initial network that predicts no more of the tree than chance
    model = TreeFormer(TreeFormerConfig.tiny(denoising=True, decoder_layers=1, tree_loss=tree_loss)).train()
    targets = Targets.from_skeletons([FORKED, BENT], size=8)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    shares, losses = [], []
    for _ in range(15):
        output = model(images, targets)
        loss = model.loss(output, targets)["denoising_edge_constrained"]
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        tree = minimum_spanning_tree(edge_margin(output.denoising.edge_logits.detach()), targets.mask)
        shares.append(((tree & targets.adjacency).sum() / targets.adjacency.sum()).item())
        losses.append(loss.item())
    assert shares[0] < 0.5
    assert min(shares[-3:]) > 0.9
    assert max(losses[-3:]) < losses[0] / 2
