"""The criterion: losses of a TreeFormer's output against the ground truth.

All losses except the balanced node loss are sums, divided by the number of ground-truth nodes in the batch. For the
edges this is Eq. (11), whose sum runs over all pairs, made independent of the batch size. A mean over pairs would give
an edge of a large tree less weight than an edge of a small tree, because the number of pairs grows with the square of
the number of nodes and the number of edges does not.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from treeformer.errors import TreeformerError
from treeformer.models.config import TreeFormerConfig
from treeformer.models.outputs import Output, Predictions, rows_of
from treeformer.nn.attributes import attribute_losses
from treeformer.nn.center_line import line_losses
from treeformer.nn.heat_map import cells_of, heat_targets
from treeformer.nn.losses import (
    balanced_cross_entropy,
    box_loss,
    class_weights,
    edge_losses,
    focal_loss,
    heat_focal_loss,
    log_distance,
    pair_weights,
)
from treeformer.nn.matching import Matching
from treeformer.nn.node_kind import hard_pairs, kind_losses
from treeformer.nn.sfs import SFS, edge_margin
from treeformer.nn.targets import Targets
from treeformer.nn.tree_hinge import hinge_loss
from treeformer.nn.tree_likelihood import likelihood_loss


def losses(
    config: TreeFormerConfig, sfs: SFS, output: Output, targets: Targets, node_count: Tensor | None = None
) -> dict[str, Tensor]:
    """Compute the weighted losses by name. Their sum is the training objective.

    The names are heat, offset, line, tangent, node, point, box, root, radius, direction, kind, neighbor, edge,
    edge_constrained and denoising_…. The output must have a matching. `node_count` is the scalar that sums are divided
    by. By default it is the number of ground-truth nodes, at least 1. Processes that train together pass the mean of
    their numbers: the mean of their gradients is then that of one large batch.
    """
    if output.matching is None:
        raise TreeformerError("the output has no matching: pass the targets to the model, or use TreeFormer.loss")
    if node_count is None:
        node_count = targets.mask.sum().clamp(min=1)
    result: dict[str, Tensor] = {}
    if output.heat is not None and output.offsets is not None:
        result |= _heat_losses(config, output.heat, output.offsets, output.heat_stride, targets, node_count)
    if output.lines is not None and targets.lines is not None:
        found, tangent = line_losses(output.lines, targets.lines)
        result["line"] = config.line_weight * found / node_count
        result["tangent"] = config.tangent_weight * tangent / node_count
    all_tokens = torch.ones_like(output.node_logits, dtype=torch.bool)
    result |= _token_losses(config, output, output.matching, all_tokens, targets, node_count)
    result |= _object_edge_losses(config, sfs, output, output.matching, targets, node_count)
    if output.denoising is not None:
        result |= _denoising_losses(config, sfs, output.denoising, targets, node_count)
    return result


def _denoising_losses(
    config: TreeFormerConfig, sfs: SFS, predicted: Predictions, targets: Targets, node_count: Tensor
) -> dict[str, Tensor]:
    """Compute the losses of the denoising tokens, each of which belongs to the target node of the same index."""
    mask = targets.mask
    order = torch.arange(mask.shape[1], device=mask.device).expand_as(mask)
    result = _token_losses(config, predicted, Matching(order, mask), mask, targets, node_count)
    result |= _edge_losses(
        config,
        sfs,
        predicted.edge_logits,
        targets.adjacency,
        mask,
        mask,
        predicted.root_logits,
        predicted.points,
        node_count,
        _hard_pairs(config, targets),
    )
    return {f"denoising_{name}": config.denoising_weight * value for name, value in result.items()}


def _heat_losses(
    config: TreeFormerConfig, heat: Tensor, offsets: Tensor, stride: int, targets: Targets, node_count: Tensor
) -> dict[str, Tensor]:
    """Compute the loss of the heat map, and that of the offsets in the cells of nodes."""
    height, width = heat.shape[1:]
    target_heat = heat_targets(targets.points, targets.mask, height, width, stride, config.heat_sigma)
    column, row = cells_of(targets.points, height, width, stride)
    cell = (row * width + column)[..., None].expand(-1, -1, 2)
    target_offset = targets.points / stride - 0.5 - torch.stack([column, row], dim=-1)
    error = (offsets.gather(1, cell) - target_offset).abs() * targets.mask[..., None]
    return {
        "heat": config.heat_weight * heat_focal_loss(heat, target_heat) / node_count,
        "offset": config.offset_weight * stride * error.sum() / node_count,
    }


def _token_losses(
    config: TreeFormerConfig,
    predicted: Predictions,
    matching: Matching,
    counted: Tensor,
    targets: Targets,
    node_count: Tensor,
) -> dict[str, Tensor]:
    """Compute the losses of tokens. `counted` (B,Q) is False for padding."""
    target = targets_of_tokens(matching, predicted.node_logits.shape[1])
    is_node = (target >= 0).expand_as(predicted.layer_node_logits)
    if config.node_loss == "focal":
        node = (focal_loss(predicted.layer_node_logits, is_node) * counted).sum() / node_count
    else:
        element = balanced_cross_entropy(predicted.layer_node_logits, is_node) * counted
        weight = class_weights(is_node[0], 0.8) * counted
        node = element.sum() / weight.sum().clamp(min=1e-6)
    layers = len(predicted.layer_points)
    index = matching.token[..., None].expand(layers, -1, -1, 2)
    points = predicted.layer_points.gather(2, index)
    distance = log_distance(points, targets.points, config.point_loss_scale_px) * matching.found
    has_root = targets.root.any(1, keepdim=True)
    is_root = (targets.root.gather(1, target.clamp(min=0)) & (target >= 0)) if targets.root.shape[1] else target >= 0
    root = functional.binary_cross_entropy_with_logits(predicted.root_logits, is_root.float(), reduction="none")
    result = {
        "node": config.node_weight * node,
        "point": config.point_weight * distance.sum() / node_count,
        "root": config.root_weight * (root * (counted & has_root)).sum() / node_count,
    }
    if config.box_weight:
        overlap = box_loss(points, targets.points, config.box_side_px) * matching.found
        result["box"] = config.box_weight * overlap.sum() / node_count
    if predicted.attributes is not None and targets.radius is not None and targets.direction is not None:
        attributes = rows_of(predicted.attributes, matching.token)
        radius, direction = attribute_losses(attributes, targets.radius, targets.direction, matching.found)
        result["radius"] = config.radius_weight * radius / node_count
        result["direction"] = config.parent_direction_weight * direction / node_count
    if predicted.kinds is not None:
        kind, neighbor = kind_losses(rows_of(predicted.kinds, matching.token), targets, matching.found)
        result["kind"] = config.kind_weight * kind / node_count
        result["neighbor"] = config.neighbor_weight * neighbor / node_count
    return result


def _object_edge_losses(
    config: TreeFormerConfig, sfs: SFS, output: Output, matching: Matching, targets: Targets, node_count: Tensor
) -> dict[str, Tensor]:
    """Compute the edge losses among the matched tokens and the false nodes, which are in the tree at inference too."""
    target = targets_of_tokens(matching, output.node_logits.shape[1])
    logits, roots, points = output.node_logits, output.root_logits, output.points
    if output.selection is not None:
        target, logits, roots = (tensor.gather(1, output.selection) for tensor in (target, logits, roots))
        points = points.gather(1, output.selection[..., None].expand(-1, -1, 2))
    is_true = target >= 0
    takes_part = is_true | (logits.sigmoid() >= config.node_threshold)
    adjacency, hard = adjacency_of_tokens(targets.adjacency, target), _hard_pairs(config, targets)
    if hard is not None:
        hard = adjacency_of_tokens(hard, target)
    return _edge_losses(
        config, sfs, output.edge_logits, adjacency, is_true, takes_part, roots, points, node_count, hard
    )


def _hard_pairs(config: TreeFormerConfig, targets: Targets) -> Tensor | None:
    """Return the pairs of target nodes that weigh more, (B,M,M) bool, or None if all weigh the same."""
    if config.hard_pair_weight == 1 or targets.parent is None:
        return None
    return hard_pairs(targets, config.hard_pair_px)


def _edge_losses(
    config: TreeFormerConfig,
    sfs: SFS,
    edge_logits: Tensor,
    adjacency: Tensor,
    is_true: Tensor,
    takes_part: Tensor,
    root_logits: Tensor,
    points: Tensor,
    node_count: Tensor,
    hard: Tensor | None,
) -> dict[str, Tensor]:
    """Compute both terms of Eq. (11), or another tree loss in place of the second term."""
    layer = sfs if config.constrained_in_training and config.tree_loss == "sfs" else None
    weights = pair_weights(is_true, takes_part)
    if hard is not None:
        weights = weights * (1 + (config.hard_pair_weight - 1) * hard)
    cost_points = points if config.edge_cost == "distance" else None
    unconstrained, constrained = edge_losses(
        edge_logits, adjacency, weights, takes_part, root_logits, layer, cost_points
    )
    first, second = config.edge_term_weights
    result = {"edge": config.edge_weight * first * unconstrained / node_count}
    if config.constrained_in_training:
        margin, roots = edge_margin(edge_logits), root_logits.detach()
        if config.tree_loss == "likelihood":
            constrained = likelihood_loss(-margin, roots, adjacency, is_true, takes_part).to(margin.dtype)
        elif config.tree_loss == "hinge":
            constrained = hinge_loss(margin, roots, adjacency, is_true, takes_part)
        result["edge_constrained"] = config.edge_weight * second * constrained / node_count
    return result


def targets_of_tokens(matching: Matching, tokens: int) -> Tensor:
    """Return the target node of each token, (B,tokens) int64, −1 for an unmatched token."""
    batch, count = matching.token.shape
    slot = matching.token.masked_fill(~matching.found, tokens)
    order = torch.arange(count, device=slot.device).expand(batch, -1)
    unmatched = torch.full((batch, tokens + 1), -1, device=slot.device)
    return unmatched.scatter(1, slot, order)[:, :tokens]


def adjacency_of_tokens(adjacency: Tensor, target: Tensor) -> Tensor:
    """Return the ground-truth edges between tokens, (B,R,R) bool, from those between target nodes, (B,M,M).

    `target` (B,R) int64 is the target node of each token, −1 for an unmatched token.
    """
    padded = functional.pad(adjacency, (0, 1, 0, 1))
    slot = target.masked_fill(target < 0, adjacency.shape[1])
    rows = padded.gather(1, slot[:, :, None].expand(-1, -1, padded.shape[2]))
    return rows.gather(2, slot[:, None, :].expand(-1, slot.shape[1], -1))
