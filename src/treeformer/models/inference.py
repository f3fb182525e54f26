"""A TreeFormer as it is used: 8-bit pictures in, plain arrays about the likely nodes out."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from treeformer.models.treeformer import TreeFormer
from treeformer.nn.sfs import edge_margin

FEWEST_CANDIDATES = 2  # sizes 0 and 1 are special cases to torch.export


class InferenceModel(nn.Module):
    """What every engine runs; edges are asked for only among the tokens that can become nodes.

    Pairs grow with the square of the nodes: a picture of 50 nodes has 1,225, all pairs of 160 tokens are 12,720.

    Args:
        model: the network.
        candidate_score: least node score of a candidate.
    """

    def __init__(self, model: TreeFormer, candidate_score: float) -> None:
        super().__init__()
        self.model = model
        self.candidate_score = candidate_score

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """(B,S,S,3) uint8 RGB → node scores (B,K), points (B,K,2) px, edge costs (B,K,K), root logits (B,K).

        K is the largest number of candidates in a picture of the batch, at least 2; the likeliest come first.
        """
        found = self.model.detect(images.permute(0, 3, 1, 2).float() / 255.0, None, None)
        tokens, relation, node_logits, points = found.decoded
        score = node_logits[-1].sigmoid()
        count = (score >= self.candidate_score).sum(1).max().clamp(min=FEWEST_CANDIDATES).item()
        torch._check(count >= FEWEST_CANDIDATES)
        torch._check(count <= score.shape[1])
        score, index = score.topk(count, dim=1)
        at = index[..., None]
        tokens = tokens.gather(1, at.expand(-1, -1, tokens.shape[-1]))
        points = points[-1].gather(1, at.expand(-1, -1, 2))
        edge_logits = self.model.relate(tokens, relation, points, found.fine, score)
        return score, points, edge_margin(edge_logits), found.root_logits.gather(1, index)
