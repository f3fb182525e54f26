"""What a TreeFormer is trained for: the losses of its output against the ground truth.

Everything but the balanced node loss is summed and divided by the number of true nodes in the batch. For the edges that
is Eq. (11), whose sum runs over all pairs, made independent of the batch size. A mean over pairs would give an edge of
a large tree less weight than one of a small tree: pairs grow with the square of the nodes, edges do not.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from treeformer.models.config import TreeFormerConfig
from treeformer.models.outputs import Output, Predictions
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
from treeformer.nn.sfs import SFS, edge_margin
from treeformer.nn.targets import Targets
from treeformer.nn.tree_hinge import hinge_loss
from treeformer.nn.tree_likelihood import likelihood_loss


def losses(
    config: TreeFormerConfig, sfs: SFS, output: Output, targets: Targets, node_count: Tensor | None = None
) -> dict[str, Tensor]:
    """Weighted losses by name: heat, offset, node, point, box, root, edge, edge_constrained, and denoising_….

    Args:
        output: with its matching.
        node_count: what sums are divided by; by default the number of true nodes, at least 1. Processes that train
            together pass the mean of theirs, so that the mean of their gradients is that of one large batch.
    """
    if node_count is None:
        node_count = targets.mask.sum().clamp(min=1)
    result: dict[str, Tensor] = {}
    if output.heat is not None:
        result |= _heat_losses(config, output, targets, node_count)
    everyone = torch.ones_like(output.node_logits, dtype=torch.bool)
    result |= _token_losses(config, output, output.matching, everyone, targets, node_count)
    result |= _object_edge_losses(config, sfs, output, targets, node_count)
    if output.denoising is not None:
        order = torch.arange(targets.mask.shape[1], device=targets.mask.device).expand_as(targets.mask)
        own = Matching(order, targets.mask)
        extra = _token_losses(config, output.denoising, own, targets.mask, targets, node_count)
        mask, extra_tokens = targets.mask, output.denoising
        extra |= _edge_losses(
            config,
            sfs,
            extra_tokens.edge_logits,
            targets.adjacency,
            mask,
            mask,
            extra_tokens.root_logits,
            extra_tokens.points,
            node_count,
        )
        result |= {f"denoising_{name}": config.denoising_weight * value for name, value in extra.items()}
    return result


def _heat_losses(config: TreeFormerConfig, output: Output, targets: Targets, node_count: Tensor) -> dict[str, Tensor]:
    """The heat map, and in the cells of nodes the offset to them."""
    height, width = output.heat.shape[1:]
    stride = output.heat_stride
    goal = heat_targets(targets.points, targets.mask, height, width, stride, config.heat_sigma)
    column, row = cells_of(targets.points, height, width, stride)
    cell = (row * width + column)[..., None].expand(-1, -1, 2)
    true_offset = targets.points / stride - 0.5 - torch.stack([column, row], dim=-1)
    miss = (output.offsets.gather(1, cell) - true_offset).abs() * targets.mask[..., None]
    return {
        "heat": config.heat_weight * heat_focal_loss(output.heat, goal) / node_count,
        "offset": config.offset_weight * stride * miss.sum() / node_count,
    }


def _token_losses(
    config: TreeFormerConfig,
    predicted: Predictions,
    matching: Matching,
    counted: Tensor,
    targets: Targets,
    node_count: Tensor,
) -> dict[str, Tensor]:
    """Node, point and root losses of tokens whose targets are known; `counted` (B,Q) leaves padding out."""
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
    return result


def _object_edge_losses(
    config: TreeFormerConfig, sfs: SFS, output: Output, targets: Targets, node_count: Tensor
) -> dict[str, Tensor]:
    """Edges among the matched tokens and the others that pass for nodes, which at inference are in the tree too."""
    target = targets_of_tokens(output.matching, output.node_logits.shape[1])
    logits, roots, points = output.node_logits, output.root_logits, output.points
    if output.selection is not None:
        target, logits, roots = (tensor.gather(1, output.selection) for tensor in (target, logits, roots))
        points = points.gather(1, output.selection[..., None].expand(-1, -1, 2))
    is_true = target >= 0
    takes_part = is_true | (logits.sigmoid() >= config.node_threshold)
    adjacency = adjacency_of_tokens(targets.adjacency, target)
    return _edge_losses(config, sfs, output.edge_logits, adjacency, is_true, takes_part, roots, points, node_count)


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
) -> dict[str, Tensor]:
    """Both terms of Eq. (11), or another loss of the whole tree in place of the second."""
    layer = sfs if config.constrained_in_training and config.tree_loss == "sfs" else None
    weights = pair_weights(is_true, takes_part)
    apart = points if config.edge_cost == "distance" else None
    unconstrained, constrained = edge_losses(edge_logits, adjacency, weights, takes_part, root_logits, layer, apart)
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
    """(B,tokens) the target of each token, −1 for none."""
    batch, count = matching.token.shape
    spot = matching.token.masked_fill(~matching.found, tokens)
    order = torch.arange(count, device=spot.device).expand(batch, -1)
    blank = torch.full((batch, tokens + 1), -1, device=spot.device)
    return blank.scatter(1, spot, order)[:, :tokens]


def adjacency_of_tokens(adjacency: Tensor, target: Tensor) -> Tensor:
    """The ground truth's edges between tokens: (B,M,M) bool and each token's target (B,R), −1 for none → (B,R,R) bool."""
    padded = functional.pad(adjacency, (0, 1, 0, 1))
    place = target.masked_fill(target < 0, adjacency.shape[1])
    rows = padded.gather(1, place[:, :, None].expand(-1, -1, padded.shape[2]))
    return rows.gather(2, place[:, None, :].expand(-1, place.shape[1], -1))
