"""A TreeFormer as it is used: 8-bit images in, plain arrays about the likely nodes out.

Three stages, between which the host has to know a number: `encode` makes feature levels and peaks of the heat map of the
images, `decode_tokens` tokens at as many peaks as are hot enough, and `predict_edges` the edges among as many tokens as are likely.
`treeformer.inference.cuda_graphs` records each of them on a GPU.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from treeformer.models.treeformer import FEWEST_TOKENS, Detection, Features, TreeFormer
from treeformer.nn.deformable_attention import FeatureLevel
from treeformer.nn.sfs import edge_margin

GROUP = 16  # images with about as many candidates, whose pairs are asked for together

Candidates = tuple[Tensor, Tensor, Tensor, Tensor]


class Ranked(NamedTuple):
    """The tokens of each image, the likeliest first."""

    score: Tensor  # (B,Q); 0 where a token is no candidate
    tokens: Tensor  # (B,Q,width)
    points: Tensor  # (B,Q,2) px
    root_logits: Tensor  # (B,Q)


class InferenceModel(nn.Module):
    """What every engine runs; edges are asked for only among the tokens that can become nodes.

    Pairs grow with the square of the nodes: an image of 50 nodes has 1,225, all pairs of 160 tokens are 12,720.

    Args:
        model: the network.
        candidate_threshold: least node score of a candidate; that of all other tokens is 0.
        min_peak_heat: least heat of a peak that a token begins at; 0: there are always as many as the network has.
    """

    def __init__(self, model: TreeFormer, candidate_threshold: float, min_peak_heat: float = 0.0) -> None:
        super().__init__()
        self.model = model
        self.candidate_threshold, self.min_peak_heat = candidate_threshold, min_peak_heat

    def forward(self, images: Tensor) -> Candidates:
        """(B,S,S,3) uint8 RGB → node scores (B,K), points (B,K,2) px, edge costs (B,K,K), root logits (B,K).

        K is the largest number of candidates in an image of the batch, at least 2; the likeliest come first.
        """
        found, score = self.detect(images)
        count = candidate_count(score).max().item()
        torch._check(count >= FEWEST_TOKENS)
        torch._check(count <= score.shape[1])
        return self.predict_edges(rank(found, score, count), found.decoded.relation, found.fine)

    def in_groups(self, images: Tensor) -> list[tuple[list[int], Candidates]]:
        """The same for groups of images, each with a K of its own: one crowded image does not cost all the rest.

        Returns:
            The numbers of the images of each group, and what `forward` gives for them.
        """
        found, score = self.detect(images)
        everything = rank(found, score, score.shape[1]), found.decoded.relation, found.fine
        return [
            (rows, self.predict_edges(*picked(*everything, torch.tensor(rows, device=images.device), count)))
            for rows, count in groups(candidate_count(score).tolist())
        ]

    def detect(self, images: Tensor) -> tuple[Detection, Tensor]:
        """What is found in (B,S,S,3) uint8 images, and the tokens' scores (B,Q), 0 below the candidates'."""
        found = self.model.detect(_as_floats(images), min_peak_heat=self.min_peak_heat)
        return found, self._candidate_score(found)

    def encode(self, images: Tensor) -> tuple[Features, Tensor | None]:
        """The first stage: what (B,S,S,3) uint8 images show; (B,tokens) bool: the peaks that are hot enough.

        None: all of them are, or tokens begin elsewhere.
        """
        features = self.model.encode(_as_floats(images))
        return (
            features,
            features.heat_there >= self.min_peak_heat
            if self.min_peak_heat and features.heat_there is not None
            else None,
        )

    def decode_tokens(self, features: Features, active: Tensor | None) -> tuple[Ranked, Tensor]:
        """The second stage, for the first Q peaks: the tokens, and their relation token (B,width); begun (B,Q)."""
        found = self.model.decode_tokens(features, active)
        score = self._candidate_score(found)
        return rank(found, score, score.shape[1]), found.decoded.relation

    def predict_edges(self, ranked: Ranked, relation: Tensor, fine: FeatureLevel) -> Candidates:
        """The third stage: the edges among tokens (B,K) with the relation tokens (B,width) of their images."""
        score, tokens, points, root_logits = ranked
        return score, points, edge_margin(self.model.predict_edges(tokens, relation, points, fine, score)), root_logits

    def _candidate_score(self, found: Detection) -> Tensor:
        score = found.decoded.node_logits[-1].sigmoid()
        if found.active is not None:
            score = score * found.active
        return score * (score >= self.candidate_threshold)


def _as_floats(images: Tensor) -> Tensor:
    return images.permute(0, 3, 1, 2).float() / 255.0


def candidate_count(score: Tensor) -> Tensor:
    """How many candidates the images have, (B,) of scores (B,Q); at least 2."""
    return (score > 0).sum(1).clamp(min=FEWEST_TOKENS)


def rank(found: Detection, score: Tensor, count: int) -> Ranked:
    """The `count` likeliest tokens of each image by score (B,Q)."""
    score, index = score.topk(count, dim=1)
    at = index[..., None]
    tokens = found.decoded.tokens.gather(1, at.expand(-1, -1, found.decoded.tokens.shape[-1]))
    points = found.decoded.points[-1].gather(1, at.expand(-1, -1, 2))
    return Ranked(score, tokens, points, found.root_logits.gather(1, index))


def groups(count: list[int]) -> list[tuple[list[int], int]]:
    """Images of about as many candidates: the numbers of those of each group, and the most one of them has."""
    order = sorted(range(len(count)), key=count.__getitem__, reverse=True)
    return [(order[start : start + GROUP], count[order[start]]) for start in range(0, len(order), GROUP)]


def picked(
    ranked: Ranked, relation: Tensor, fine: FeatureLevel, rows: Tensor, count: int
) -> tuple[Ranked, Tensor, FeatureLevel]:
    """What `predict_edges` takes, for the `count` likeliest tokens of some of the images, rows (G,) int64."""
    chosen = Ranked(*(tensor[:, :count].index_select(0, rows) for tensor in ranked))
    return chosen, relation.index_select(0, rows), fine._replace(cells=fine.cells.index_select(0, rows))
