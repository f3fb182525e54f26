"""Distillation: a student learns the predictions of a teacher, with or without ground truth.

Tokens of student and teacher are comparable only if they start at the same points. The student therefore decodes
further tokens at the peaks of the teacher's heat map. They attend to each other and to the relation token, as at
inference, and the student's own tokens do not see them. No matching is needed: both networks describe the same tokens
in the same order, and edges among the same pairs.

The targets are probabilities, not decisions. Losses are sums, divided by the number of nodes that the teacher expects.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from treeformer.errors import TreeformerError
from treeformer.models.config import TreeFormerConfig
from treeformer.models.outputs import Output, TeacherOutput, rows_of
from treeformer.models.treeformer import TreeFormer
from treeformer.nn.attributes import SMOOTH_BELOW
from treeformer.nn.heat_map import cell_points
from treeformer.nn.losses import log_distance
from treeformer.nn.sfs import edge_margin


class Teacher(nn.Module):
    """A trained network that is not trained further. It always stays in evaluation mode.

    Its tokens must come from a heat map. At most `tokens` per image are compared, at peaks with a heat of at least
    `min_peak_heat`, and the edges of the `edge_tokens` most confident ones.
    """

    def __init__(self, model: TreeFormer, *, tokens: int, edge_tokens: int, min_peak_heat: float) -> None:
        super().__init__()
        if not model.has_variable_tokens:
            raise TreeformerError("a teacher needs tokens from a heat map, but its tokens are learned")
        self.model = model.eval().requires_grad_(False)
        self.tokens, self.edge_tokens, self.min_peak_heat = tokens, min(edge_tokens, tokens), min_peak_heat

    def train(self, mode: bool = True) -> Teacher:
        """Stay in evaluation mode."""
        del mode
        return super().train(False)

    @torch.no_grad()
    def forward(self, images: Tensor) -> TeacherOutput:
        """Predict a batch of RGB images (B,3,H,W) in [0,1].

        Shapes depend only on the batch, and the host never waits, as a CUDA graph requires.
        """
        height, width = images.shape[-2:]
        cells = (height // self.model.heat_stride) * (width // self.model.heat_stride)
        features = self.model.encode(images, min(self.tokens, cells))
        heat, offsets, cell, peak_heat = cast(tuple[Tensor, ...], features[1:5])  # never None with a heat map
        mask = peak_heat >= self.min_peak_heat
        found = self.model.decode_tokens(features, mask)
        node_logits, points = found.decoded.node_logits[-1].float(), found.decoded.points[-1].float()
        score = node_logits.sigmoid() * mask
        selection = score.topk(min(self.edge_tokens, score.shape[1]), dim=1).indices
        edge_logits = self.model.predict_edges(
            rows_of(found.decoded.tokens, selection),
            found.scene,
            rows_of(points, selection),
            score.gather(1, selection),
            None if found.kinds is None else rows_of(found.kinds, selection),
        )
        start = cell_points(cell, offsets, heat.shape[-1], self.model.heat_stride).float()
        return TeacherOutput(
            start,
            mask,
            selection,
            heat,
            offsets,
            node_logits,
            points,
            found.root_logits,
            edge_logits,
            found.attributes,
        )


def check_student(student: TreeFormerConfig, teacher: TreeFormerConfig) -> None:
    """Check that a student can learn from a teacher.

    The cells and grids of their heat maps must be equal, and the student must not have denoising tokens.
    """
    if student.token_source != "heat_map" or teacher.token_source != "heat_map":
        raise TreeformerError("distillation needs a student and a teacher with tokens from a heat map")
    # The finest level has stride 4 with a pyramid and 8 with an encoder.
    cells = [(4 if config.neck == "pyramid" else 8) / config.heatmap_upsampling for config in (student, teacher)]
    if cells[0] != cells[1] or student.grid_px != teacher.grid_px:
        raise TreeformerError(
            f"distillation needs heat maps of the same cells and grid: the student has {cells[0]:g} and "
            f"{student.grid_px:g} px, the teacher {cells[1]:g} and {teacher.grid_px:g} px"
        )
    if student.denoising:
        raise TreeformerError("distillation replaces denoising: set denoising to false")


def distillation_losses(config: TreeFormerConfig, output: Output, guide: TeacherOutput) -> dict[str, Tensor]:
    """Compute the weighted losses of a student, whose output was computed with this guide, against its teacher.

    The names are teacher_heat, teacher_offset, teacher_node, teacher_point, teacher_root, teacher_edge and, if both
    networks have the head, teacher_attributes. The weights are the student's, as in `criterion.losses`.
    """
    predicted = output.guided
    if predicted is None or output.heat is None or output.offsets is None:
        raise TreeformerError("the output has no tokens of the guide: pass the guide to the model")
    score = guide.node_logits.sigmoid() * guide.mask  # (B,D)
    count = score.sum().clamp(min=1)
    target = guide.heat.float().sigmoid()
    # As the focal loss: cells on which both agree, which are most of them, have almost no weight.
    heat = soft_cross_entropy(output.heat, target) * (output.heat.sigmoid() - target).square()
    offset = ((output.offsets - guide.offsets).abs().sum(-1) * target.flatten(1)).sum()
    node = soft_cross_entropy(predicted.layer_node_logits, guide.node_logits.sigmoid()) * guide.mask
    distance = log_distance(predicted.layer_points, guide.points, config.point_loss_scale_px) * score
    root = soft_cross_entropy(predicted.root_logits, guide.root_logits.sigmoid()) * score
    chosen = score.gather(1, guide.selection)
    pair = chosen[:, :, None] * chosen[:, None] / 2  # every pair is there twice
    pair = pair * (1 - torch.eye(chosen.shape[1], device=pair.device))
    likely = torch.sigmoid(-edge_margin(guide.edge_logits))
    edge = soft_cross_entropy(-edge_margin(predicted.edge_logits), likely) * pair
    result = {
        "teacher_heat": config.heat_weight * heat.sum() / count,
        "teacher_offset": config.offset_weight * output.heat_stride * offset / count,
        "teacher_node": config.node_weight * node.sum() / count,
        "teacher_point": config.point_weight * distance.sum() / count,
        "teacher_root": config.root_weight * root.sum() / count,
        "teacher_edge": config.edge_weight * edge.sum() / count,
    }
    if predicted.attributes is not None and guide.attributes is not None:
        error = functional.smooth_l1_loss(predicted.attributes, guide.attributes, reduction="none", beta=SMOOTH_BELOW)
        error = error * score[..., None]
        radius, direction = error[..., 0].sum(), error[..., 1:].sum()
        result["teacher_attributes"] = (
            config.radius_weight * radius + config.parent_direction_weight * direction
        ) / count
    return result


def soft_cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """Compute the cross entropy of log-odds and probabilities (…), less its minimum: 0 if both agree.

    This is the Kullback-Leibler divergence of each element. The target is broadcast to the shape of the logits.
    """
    target = target.float().expand_as(logits)
    entropy: Tensor = torch.special.entr(target) + torch.special.entr(1 - target)
    return functional.binary_cross_entropy_with_logits(logits.float(), target, reduction="none") - entropy
