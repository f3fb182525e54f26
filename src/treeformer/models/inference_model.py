"""TreeFormer for inference: 8-bit images in, arrays about the candidate nodes out.

The work has three stages, because the host has to read a number between them. `encode` computes feature levels and the
peaks of the heat map. `decode_tokens` decodes a token at each peak that is hot enough. `predict_edges` predicts the
edges among the candidates. `treeformer.inference.cuda_graphs` runs each stage as a CUDA graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from treeformer.models.config import TreeFormerConfig
from treeformer.models.outputs import Detection, Features, Scene, rows_of
from treeformer.models.token_count import MIN_TOKENS, read_token_count
from treeformer.models.treeformer import TreeFormer
from treeformer.nn.center_line import in_bytes
from treeformer.nn.node_kind import probabilities
from treeformer.nn.sfs import edge_margin

GROUP_SIZE = 16  # images with similar numbers of candidates whose edges are predicted together

Candidates = tuple[Tensor, ...]
"""The output, in the order of `output_names`. Shapes are those of `treeformer.inference.engine.RawPrediction`."""


def output_names(config: TreeFormerConfig) -> tuple[str, ...]:
    """Return the names of the output of a network: fields of `treeformer.inference.engine.RawPrediction`.

    >>> output_names(TreeFormerConfig())
    ('node_score', 'points', 'edge_cost', 'root_logit')
    """
    optional = {"attributes": config.node_attributes, "kinds": config.node_kinds, "lines": config.center_lines}
    return ("node_score", "points", "edge_cost", "root_logit", *(name for name, has in optional.items() if has))


class RankedTokens(NamedTuple):
    """The tokens of each image, sorted by descending score."""

    score: Tensor  # (B,Q) node probabilities, 0 for a token that is not a candidate
    tokens: Tensor  # (B,Q,width)
    points: Tensor  # (B,Q,2) px
    root_logits: Tensor  # (B,Q)
    attributes: Tensor | None  # (B,Q,3), None if the network has no attribute head
    kinds: Tensor | None  # (B,Q,WIDTH) logits, None if the network has no head of kinds

    def map(self, function: Callable[[Tensor], Tensor]) -> RankedTokens:
        """Apply a function to every tensor."""
        return RankedTokens(*(None if part is None else function(part) for part in self))  # type: ignore[arg-type]


class InferenceModel(nn.Module):
    """The computation that every engine runs. Edges are predicted only among candidate nodes.

    The number of pairs grows with the square of the number of nodes: 50 nodes have 1,225 pairs, 160 tokens have 12,720.

    Args:
        model: The network.
        candidate_threshold: Smallest node score of a candidate. The score of all other tokens is set to 0.
        min_peak_heat: Smallest heat of a peak that gets a token. 0 always uses all tokens of the network.
    """

    def __init__(self, model: TreeFormer, candidate_threshold: float, min_peak_heat: float = 0.0) -> None:
        super().__init__()
        self.model = model
        self.candidate_threshold, self.min_peak_heat = candidate_threshold, min_peak_heat

    def forward(self, images: Tensor) -> Candidates:
        """Predict the candidates of a batch.

        Args:
            images: (B,S,S,3) uint8 RGB.

        Returns:
            The output, sorted by descending score. K is the largest number of candidates in an image of the batch, at
            least 2.
        """
        found, score = self.detect(images)
        count = read_token_count(candidate_count(score).max(), score.shape[1])
        return self.predict_edges(rank_tokens(found, score, count), found.scene, found.features.lines)

    def predict_in_groups(self, images: Tensor) -> list[tuple[list[int], Candidates]]:
        """Predict groups of images, each with its own K, so that one crowded image does not slow down the others.

        Args:
            images: (B,S,S,3) uint8 RGB.

        Returns:
            For each group the indices of its images, and the result of `forward` for them.
        """
        found, score = self.detect(images)
        ranked = rank_tokens(found, score, score.shape[1])
        result = []
        for rows, count in group_by_count(candidate_count(score).tolist()):
            index = torch.tensor(rows, device=images.device)
            chosen = select_images(ranked, found.scene, found.features.lines, index, count)
            result.append((rows, self.predict_edges(*chosen)))
        return result

    def detect(self, images: Tensor) -> tuple[Detection, Tensor]:
        """Run the network up to the edges.

        Args:
            images: (B,S,S,3) uint8 RGB.

        Returns:
            The detection, and the scores (B,Q) of its tokens, 0 if a token is not a candidate.
        """
        found = self.model.detect(_to_float(images), min_peak_heat=self.min_peak_heat)
        return found, self._candidate_score(found)

    def encode(self, images: Tensor) -> tuple[Features, Tensor | None]:
        """Run the first stage.

        Args:
            images: (B,S,S,3) uint8 RGB.

        Returns:
            The features, and (B,tokens) bool, True for a peak that is hot enough. It is None if all peaks are, or if
            the tokens are learned.
        """
        features = self.model.encode(_to_float(images))
        active = None
        if self.min_peak_heat and features.peak_heat is not None:
            active = features.peak_heat >= self.min_peak_heat
        return features, active

    def decode_tokens(self, features: Features, active: Tensor | None) -> tuple[RankedTokens, Scene]:
        """Run the second stage.

        Args:
            features: Result of `encode`.
            active: (B,Q) bool, the first Q columns of the mask from `encode`, or None.

        Returns:
            The ranked tokens, and what the relation head reads besides them.
        """
        found = self.model.decode_tokens(features, active)
        score = self._candidate_score(found)
        return rank_tokens(found, score, score.shape[1]), found.scene

    def predict_edges(self, ranked: RankedTokens, scene: Scene, lines: Tensor | None) -> Candidates:
        """Run the third stage.

        Args:
            ranked: K tokens in each of B images.
            scene: What the relation head reads besides the tokens.
            lines: (B,3,H,W) map of center lines, if the network has one.

        Returns:
            The candidates, see `forward`.
        """
        score, tokens, points, root_logits, attributes, kinds = ranked
        edge_logits = self.model.predict_edges(tokens, scene, points, score, kinds)
        optional = (
            attributes,
            None if kinds is None else probabilities(kinds),
            None if lines is None else in_bytes(lines),
        )
        return score, points, edge_margin(edge_logits), root_logits, *(part for part in optional if part is not None)

    def _candidate_score(self, found: Detection) -> Tensor:
        """Return the node probabilities (B,Q), 0 if a token is inactive or below the threshold."""
        score = found.decoded.node_logits[-1].sigmoid()
        if found.active is not None:
            score = score * found.active
        return score * (score >= self.candidate_threshold)


def _to_float(images: Tensor) -> Tensor:
    """Convert (B,S,S,3) uint8 to (B,3,S,S) in [0,1]."""
    return images.permute(0, 3, 1, 2).float() / 255.0


def candidate_count(score: Tensor) -> Tensor:
    """Return the number of candidates per image, (B,) int64 and at least 2, from scores (B,Q)."""
    return (score > 0).sum(1).clamp(min=MIN_TOKENS)


def rank_tokens(found: Detection, score: Tensor, count: int) -> RankedTokens:
    """Return the `count` tokens with the highest scores (B,Q) of each image, sorted by descending score."""
    score, index = score.topk(count, dim=1)
    return RankedTokens(
        score,
        rows_of(found.decoded.tokens, index),
        rows_of(found.decoded.points[-1], index),
        found.root_logits.gather(1, index),
        None if found.attributes is None else rows_of(found.attributes, index),
        None if found.kinds is None else rows_of(found.kinds, index),
    )


def group_by_count(count: list[int]) -> list[tuple[list[int], int]]:
    """Group images with similar numbers of candidates, at most `GROUP_SIZE` per group.

    Return for each group the indices of its images, and the largest number of candidates among them.

    >>> group_by_count([5, 9, 7])
    [([1, 2, 0], 9)]
    """
    order = sorted(range(len(count)), key=count.__getitem__, reverse=True)
    return [(order[start : start + GROUP_SIZE], count[order[start]]) for start in range(0, len(order), GROUP_SIZE)]


def select_images(
    ranked: RankedTokens, scene: Scene, lines: Tensor | None, rows: Tensor, count: int
) -> tuple[RankedTokens, Scene, Tensor | None]:
    """Return the arguments of `InferenceModel.predict_edges` for some images of a batch, `rows` (G,) int64.

    The first `count` tokens of each image are kept. The map of center lines is (B,3,H,W), None without that head.
    """
    chosen = ranked.map(lambda tensor: tensor[:, :count].index_select(0, rows))
    return chosen, scene.images(rows), None if lines is None else lines.index_select(0, rows)
