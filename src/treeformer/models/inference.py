"""A TreeFormer as it is used: 8-bit pictures in, plain arrays about the likely nodes out."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from treeformer.models.treeformer import FEWEST_TOKENS, Detection, TreeFormer
from treeformer.nn.sfs import edge_margin

GROUP = 24  # pictures with about as many candidates, whose pairs are asked for together

Candidates = tuple[Tensor, Tensor, Tensor, Tensor]


class InferenceModel(nn.Module):
    """What every engine runs; edges are asked for only among the tokens that can become nodes.

    Pairs grow with the square of the nodes: a picture of 50 nodes has 1,225, all pairs of 160 tokens are 12,720.

    Args:
        model: the network.
        candidate_score: least node score of a candidate; that of all other tokens is 0.
        peak_heat: least heat of a peak that a token begins at; 0: there are always as many as the network has.
    """

    def __init__(self, model: TreeFormer, candidate_score: float, peak_heat: float = 0.0) -> None:
        super().__init__()
        self.model = model
        self.candidate_score, self.peak_heat = candidate_score, peak_heat

    def forward(self, images: Tensor) -> Candidates:
        """(B,S,S,3) uint8 RGB → node scores (B,K), points (B,K,2) px, edge costs (B,K,K), root logits (B,K).

        K is the largest number of candidates in a picture of the batch, at least 2; the likeliest come first.
        """
        found, score = self.detect(images)
        count = self._count(score).max().item()
        torch._check(count >= FEWEST_TOKENS)
        torch._check(count <= score.shape[1])
        return self._relate(found, score, count)

    def in_groups(self, images: Tensor) -> list[tuple[list[int], Candidates]]:
        """The same for groups of pictures, each with a K of its own: one crowded picture does not cost all the rest.

        Returns:
            The numbers of the pictures of each group, and what `forward` gives for them.
        """
        found, score = self.detect(images)
        count = self._count(score).tolist()
        order = sorted(range(len(count)), key=count.__getitem__, reverse=True)
        groups = [order[start : start + GROUP] for start in range(0, len(order), GROUP)]
        return [(rows, self._relate(_rows_of(found, rows), score[rows], count[rows[0]])) for rows in groups]

    def detect(self, images: Tensor) -> tuple[Detection, Tensor]:
        """What is found in (B,S,S,3) uint8 pictures, and the tokens' scores (B,Q), 0 below the candidates'."""
        found = self.model.detect(images.permute(0, 3, 1, 2).float() / 255.0, peak_heat=self.peak_heat)
        score = found.decoded.node_logits[-1].sigmoid()
        if found.begun is not None:
            score = score * found.begun
        return found, score * (score >= self.candidate_score)

    def _count(self, score: Tensor) -> Tensor:
        return (score > 0).sum(1).clamp(min=FEWEST_TOKENS)

    def _relate(self, found: Detection, score: Tensor, count: int) -> Candidates:
        """The `count` likeliest tokens of each picture, and their edges."""
        tokens, relation, _, points = found.decoded
        score, index = score.topk(count, dim=1)
        at = index[..., None]
        tokens = tokens.gather(1, at.expand(-1, -1, tokens.shape[-1]))
        places = points[-1].gather(1, at.expand(-1, -1, 2))
        edge_logits = self.model.relate(tokens, relation, places, found.fine, score)
        return score, places, edge_margin(edge_logits), found.root_logits.gather(1, index)


def _rows_of(found: Detection, rows: list[int]) -> Detection:
    """What was found in some pictures of a batch; without the maps of the heat."""
    tokens, relation, node_logits, points = found.decoded
    decoded = found.decoded._replace(
        tokens=tokens[rows], relation=relation[rows], node_logits=node_logits[:, rows], points=points[:, rows]
    )
    fine = found.fine._replace(cells=found.fine.cells[rows])
    return Detection(decoded, found.root_logits[rows], fine, None, None)
