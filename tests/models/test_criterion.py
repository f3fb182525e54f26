"""The losses of a TreeFormer, compared with loops over every token, node and pair."""

from __future__ import annotations

import math

import pytest
import torch

from treeformer import Skeleton
from treeformer.errors import TreeformerError
from treeformer.models.config import TreeFormerConfig
from treeformer.models.criterion import losses
from treeformer.models.outputs import Output, Predictions
from treeformer.nn.losses import edge_losses, pair_weights
from treeformer.nn.matching import Matching
from treeformer.nn.sfs import SFS
from treeformer.nn.targets import Targets

# The second image has fewer nodes and no root.
TARGET = [
    Skeleton([(30, 60), (30, 40), (12, 21), (50, 19)], [(0, 1), (1, 2), (1, 3)], root=0, radius=[4, 1.5, math.nan, 0]),
    Skeleton([(10, 50), (40, 9)], [(0, 1)]),
]
NODES, SIDE, STRIDE, TOKENS, LAYERS = 6, 64, 4, 7, 2
TOKEN_OF_NODE = [[5, 1, 6, 0], [3, 2]]


def random_predictions(generator: torch.Generator, tokens: int, scale: int) -> dict[str, torch.Tensor]:
    """Random predictions for some tokens. `scale` is the standard deviation of the logits."""

    def random_logits(*shape: int) -> torch.Tensor:
        return scale * torch.randn(*shape, generator=generator)

    edges = random_logits(2, tokens, tokens, 2)
    return {
        "layer_node_logits": random_logits(LAYERS, 2, tokens),
        "layer_points": SIDE * torch.rand(LAYERS, 2, tokens, 2, generator=generator),
        "root_logits": random_logits(2, tokens).requires_grad_(),
        "edge_logits": (edges + edges.transpose(1, 2)).requires_grad_(),
        "attributes": random_logits(2, tokens, 3),
    }


def random_output() -> tuple[Output, Targets]:
    generator = torch.Generator().manual_seed(0)
    cells = SIDE // STRIDE
    token, found = torch.zeros(2, 5, dtype=torch.int64), torch.zeros(2, 5, dtype=torch.bool)
    for image, tokens in enumerate(TOKEN_OF_NODE):
        token[image, : len(tokens)], found[image, : len(tokens)] = torch.tensor(tokens), True
    output = Output(
        **random_predictions(generator, TOKENS, 2),
        heat=torch.randn(2, cells, cells, generator=generator),
        offsets=torch.randn(2, cells * cells, 2, generator=generator),
        heat_stride=STRIDE,
        matching=Matching(token, found),
        denoising=Predictions(**random_predictions(generator, 5, 2)),
    )
    return output, Targets.from_skeletons(TARGET, size=5)


def log_loss(logit: float, is_true: bool) -> float:
    return math.log1p(math.exp(-logit if is_true else logit))


def focal(logit: float, is_true: bool) -> float:
    loss = log_loss(logit, is_true)
    return (0.25 if is_true else 0.75) * (1 - math.exp(-loss)) ** 2 * loss


def smooth_l1(error: float) -> float:
    return error * error / 0.2 if abs(error) < 0.1 else abs(error) - 0.05


def attribute_loss(predicted: list[float], target: Skeleton, node: int) -> tuple[float, float]:
    """The losses of radius and direction at a node. A node without a parent has no direction."""
    radius = math.nan if target.radius is None else target.radius[node]
    radius_loss = 0.0 if math.isnan(radius) else smooth_l1(predicted[0] - math.log(radius + 0.5))
    parent = target.parents[node]
    if parent < 0 or not len(target.roots):
        return radius_loss, 0.0
    step = target.nodes[parent] - target.nodes[node]
    pairs = zip(predicted[1:], step / math.hypot(*step), strict=True)
    return radius_loss, sum(smooth_l1(value - expected) for value, expected in pairs)


def token_losses(
    config: TreeFormerConfig, predicted: Predictions, node_of_token: list[dict[int, int]]
) -> dict[str, float]:
    """Sums of the losses of tokens, given the node that each token is matched to, −1 if unmatched."""
    node = point = root = radius = direction = 0.0
    for image, target in enumerate(TARGET):
        for token, matched in node_of_token[image].items():
            for layer in range(LAYERS):
                node += focal(predicted.layer_node_logits[layer, image, token].item(), matched >= 0)
                if matched >= 0:
                    place = predicted.layer_points[layer, image, token].tolist()
                    distance = sum(abs(a - b) for a, b in zip(place, target.nodes[matched], strict=True))
                    point += config.point_loss_scale_px * math.log1p(distance / config.point_loss_scale_px)
            if matched >= 0:
                losses = attribute_loss(predicted.attributes[image, token].tolist(), target, matched)
                radius, direction = radius + losses[0], direction + losses[1]
            if len(target.roots):
                root += log_loss(predicted.root_logits[image, token].item(), matched in target.roots)
    return {
        "node": config.node_weight * node,
        "point": config.point_weight * point,
        "root": config.root_weight * root,
        "radius": config.radius_weight * radius,
        "direction": config.parent_direction_weight * direction,
    }


def test_losses_match_explicit_loops():
    config = TreeFormerConfig.tiny(denoising=True, denoising_weight=0.7, root_weight=1.3, edge_weights="released")
    output, targets = random_output()
    found = losses(config, SFS(config.suppression), output, targets)

    offset = 0.0
    for image, target in enumerate(TARGET):
        for x, y in target.nodes.tolist():
            column, row = int(x // STRIDE), int(y // STRIDE)
            step = output.offsets[image, row * (SIDE // STRIDE) + column].tolist()
            offset += abs((column + 0.5 + step[0]) * STRIDE - x) + abs((row + 0.5 + step[1]) * STRIDE - y)
    nodes = [
        {token: tokens.index(token) if token in tokens else -1 for token in range(TOKENS)} for tokens in TOKEN_OF_NODE
    ]
    expected = {"offset": config.offset_weight * offset, **token_losses(config, output, nodes)}
    own = [{node: node for node in range(len(target))} for target in TARGET]
    noisy = token_losses(config, output.denoising, own)
    expected |= {f"denoising_{name}": 0.7 * value for name, value in noisy.items()}
    assert {name: found[name].item() for name in expected} == pytest.approx(
        {name: value / NODES for name, value in expected.items()}, rel=1e-4
    )


@pytest.mark.parametrize("weights", ["paper", "released"])
def test_each_term_of_equation_11_has_its_own_weight(weights):
    config = TreeFormerConfig.tiny(edge_weights=weights, edge_weight=0.5)
    output, targets = random_output()
    sfs = SFS(config.suppression)
    found = losses(config, sfs, output, targets)
    is_true, adjacency = torch.zeros(2, TOKENS, dtype=torch.bool), torch.zeros(2, TOKENS, TOKENS, dtype=torch.bool)
    for image, (target, tokens) in enumerate(zip(TARGET, TOKEN_OF_NODE, strict=True)):
        is_true[image, tokens] = True
        for a, b in target.edges.tolist():
            adjacency[image, tokens[a], tokens[b]] = adjacency[image, tokens[b], tokens[a]] = True
    takes_part = is_true | (output.node_logits > 0)
    assert (takes_part & ~is_true).any()
    pairs = pair_weights(is_true, takes_part)
    plain, constrained = edge_losses(output.edge_logits, adjacency, pairs, takes_part, output.root_logits, sfs)
    first, second = (1.0, 1.0) if weights == "paper" else (1.5 * 2 / 13.5, 12 * 2 / 13.5)
    assert found["edge"].item() == pytest.approx(0.5 * first * plain.item() / NODES)
    assert found["edge_constrained"].item() == pytest.approx(0.5 * second * constrained.item() / NODES)


@pytest.mark.parametrize("tree_loss", ["sfs", "likelihood", "hinge"])
def test_tree_losses_have_no_gradient_for_roots(tree_loss):
    """Roots have their own loss. A tree loss would turn nodes with unlikely edges into roots."""
    output, targets = random_output()
    config = TreeFormerConfig.tiny(tree_loss=tree_loss)
    loss = losses(config, SFS(config.suppression), output, targets)["edge_constrained"]
    edges, roots = torch.autograd.grad(loss, [output.edge_logits, output.root_logits], allow_unused=True)
    assert edges.abs().sum() > 0
    assert roots is None or roots.abs().sum() == 0


def test_an_output_without_a_matching_is_an_error():
    output, targets = random_output()
    output.matching = None
    config = TreeFormerConfig.tiny()
    with pytest.raises(TreeformerError, match="the output has no matching"):
        losses(config, SFS(config.suppression), output, targets)
