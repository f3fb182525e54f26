"""The autoregressive baseline: causality, generation of graphs, losses, and eight overfitted images."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw
from torch.nn import functional

from tests.models.overfit import is_the_same_tree
from treeformer import Skeleton
from treeformer._util.config import build
from treeformer.baselines.ggt.breadth_first import sort_breadth_first
from treeformer.baselines.ggt.config import GGTConfig
from treeformer.baselines.ggt.model import GGT, symmetric
from treeformer.errors import TreeformerError
from treeformer.nn.sfs import edge_margin
from treeformer.nn.targets import Targets
from treeformer.training.registry import MODELS

pytestmark = pytest.mark.usefixtures("one_thread")

SMALL = GGTConfig(
    backbone_blocks=(1, 1, 1),
    backbone_channels=8,
    frozen_stages=0,
    max_nodes=8,
    width=64,
    layers=2,
    heads=4,
    feed_forward=128,
    relation_hidden=32,
)
SIDE = 64
REGIMES = ("none", "test", "train", "both")


def random_tree(rng: np.random.Generator) -> Skeleton:
    """Return a tree of 3 to 8 nodes that starts at the bottom of a 64×64 image."""
    count, nodes, edges = int(rng.integers(3, 9)), [(32.0, 60.0)], []
    while len(nodes) < count:
        below = int(rng.integers(len(nodes)))
        angle, length = rng.uniform(-1.2, 1.2), rng.uniform(12, 22)
        place = np.add(nodes[below], (length * np.sin(angle), -length * np.cos(angle)))
        if (abs(place - SIDE / 2) < 28).all() and min(np.linalg.norm(np.subtract(nodes, place), axis=1)) > 9:
            edges.append((below, len(nodes)))
            nodes.append(tuple(place))
    return Skeleton(nodes, edges, root=0)


def draw(skeleton: Skeleton) -> torch.Tensor:
    """Black lines on white, (3,64,64) in [0,1]."""
    image = Image.new("RGB", (SIDE, SIDE), "white")
    pen = ImageDraw.Draw(image)
    for a, b in skeleton.edges:
        pen.line([tuple(skeleton.nodes[a]), tuple(skeleton.nodes[b])], fill="black", width=2)
    return torch.from_numpy(np.array(image)).permute(2, 0, 1) / 255


def build_model(noise: float = 0.05, **changes) -> GGT:
    """Return an untrained network with noise added to all parameters, so that every part affects the output."""
    torch.manual_seed(0)
    model = GGT(dataclasses.replace(SMALL, **changes))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(noise * torch.randn_like(parameter))
    return model


@pytest.fixture(scope="module")
def trees() -> list[Skeleton]:
    rng = np.random.default_rng(0)
    return [random_tree(rng) for _ in range(8)]


@pytest.fixture(scope="module")
def images(trees) -> torch.Tensor:
    return torch.stack([draw(tree) for tree in trees])


@torch.no_grad()
def balanced(model: GGT, images: torch.Tensor) -> GGT:
    """Shift the biases so that both answers are about equally frequent, and some graphs end before others."""
    model.eval().node_head.bias.fill_(100.0)
    output = model(images)
    model.edge_head[-1].bias[1] += edge_margin(output.edge_logits)[output.edge_logits[..., 0] != 0].median()
    model.node_head.bias.fill_(-(model(images).node_logits - 100).quantile(0.2))
    return model


# ---- causality --------------------------------------------------------------------------------------


@pytest.mark.parametrize("changed", range(8))
def test_no_step_depends_on_later_nodes(trees, images, changed):
    model = build_model().eval()
    target = sort_breadth_first(Targets.from_skeletons(trees[:2], size=8))
    other = Targets(target.points.clone(), target.mask, target.adjacency.clone(), target.root)
    other.points[:, changed] += 20.0
    other.adjacency[:, changed, :changed] ^= True
    with torch.no_grad():
        before, after = (model.forward_teacher_forced(images[:2], targets) for targets in (target, other))
    # Node number `changed` is an input of the step after its own. Its own step and all earlier steps are unchanged.
    for name in ("node_logits", "points", "root_logits"):
        first, second = getattr(before, name), getattr(after, name)
        torch.testing.assert_close(first[:, : changed + 1], second[:, : changed + 1])
        if changed < 7:
            assert not torch.allclose(first[:, changed + 1], second[:, changed + 1], atol=1e-4), name
    known = slice(0, changed + 1)
    torch.testing.assert_close(before.edge_logits[:, known, known], after.edge_logits[:, known, known])
    assert not torch.allclose(before.end_logits, after.end_logits, atol=1e-5)


@pytest.mark.parametrize("height", [SIDE, 48])
def test_generation_equals_teacher_forcing_with_its_own_output(images, height):
    """Cached keys and values are compared with one pass over the whole sequence."""
    images = images[:, :, :height]
    model = balanced(build_model(), images)
    with torch.no_grad():
        generated = model(images)
    count = generated.points.shape[1]
    adjacency = (edge_margin(generated.edge_logits) < 0) & ~torch.eye(count, dtype=torch.bool)
    blank = torch.zeros(generated.node_logits.shape, dtype=torch.bool)
    with torch.no_grad():
        forced = model.forward_teacher_forced(images, Targets(generated.points, ~blank, adjacency, blank))
    is_node = generated.node_logits > -torch.inf
    assert 2 < count <= 8
    assert 0.1 < is_node.float().mean() < 1, "some graphs end before others"
    assert 0.05 < adjacency.float().mean() < 0.95, "both answers occur"
    torch.testing.assert_close(generated.points, forced.points, atol=1e-3, rtol=1e-4)
    torch.testing.assert_close(generated.root_logits, forced.root_logits, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(generated.edge_logits, forced.edge_logits, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(generated.node_logits[is_node], forced.node_logits[is_node], atol=1e-4, rtol=1e-4)
    # A graph ends at the first step that predicts the end, and no node follows.
    goes_on = torch.cat([forced.node_logits > 0, forced.end_logits[:, None] > 0], dim=1).int().cumprod(1)
    assert is_node.tolist() == goes_on[:, :count].bool().tolist()


@pytest.mark.slow
def test_images_of_a_batch_do_not_see_each_other(images):
    model = balanced(build_model(), images)
    with torch.no_grad():
        together = model.decode(model(images))
        alone = [model.decode(model(image[None]))[0] for image in images]
    assert [len(skeleton) for skeleton in together] == [len(skeleton) for skeleton in alone]
    for first, second in zip(together, alone, strict=True):
        np.testing.assert_allclose(first.nodes, second.nodes, atol=1e-2)
        assert first.edges.tolist() == second.edges.tolist()


# ---- losses -----------------------------------------------------------------------------------------


def test_losses_match_explicit_loops(trees, images):
    model = build_model(constraint="none").eval()
    trees = [*trees[:2], trees[2].replace(root=None)]  # the last one has no root
    targets = Targets.from_skeletons(trees, size=8)
    with torch.no_grad():
        output = model(images[:3], targets)
        parts = model.loss(output, targets)
    target, nodes = output.target, sum(len(tree) for tree in trees)
    end = point = root = edge = 0.0
    for b, tree in enumerate(trees):
        logits = [*output.node_logits[b].tolist(), output.end_logits[b].item()]
        for index in range(len(tree) + 1):
            end += np.logaddexp(0, -logits[index] if index < len(tree) else logits[index])
        for index in range(len(tree)):
            point += (output.points[b, index] - target.points[b, index]).abs().sum().item()
            if len(tree.roots):
                root += np.logaddexp(0, output.root_logits[b, index].item() * (-1 if target.root[b, index] else 1))
            for other in range(index):
                no_edge, has_edge = output.edge_logits[b, index, other].tolist()
                edge += np.logaddexp(0, (no_edge - has_edge) * (1 if target.adjacency[b, index, other] else -1))
    expected = {"end": end, "point": 0.05 * point, "root": root, "edge": 2 * edge}
    assert {name: value.item() for name, value in parts.items()} == pytest.approx(
        {name: value / nodes for name, value in expected.items()}, rel=1e-4
    )


@pytest.mark.parametrize("constraint", REGIMES)
def test_gradients_reach_every_parameter(trees, images, constraint):
    model = build_model(constraint=constraint).train()
    targets = Targets.from_skeletons(trees, size=8)
    parts = model.loss(model(images, targets), targets)
    assert ("edge_constrained" in parts) == (constraint in ("train", "both"))
    assert sum(model.config.edge_term_weights) == 2
    sum(parts.values()).backward()
    assert [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0] == []
    assert all(torch.isfinite(p.grad).all() for p in model.parameters())


def test_sfs_changes_the_loss_and_its_gradient(trees, images):
    targets = Targets.from_skeletons(trees, size=8)
    totals, gradients = [], []
    for constraint in ("test", "both"):
        model = build_model(constraint=constraint).eval()
        total = sum(model.loss(model(images, targets), targets).values())
        total.backward()
        totals.append(total.item())
        gradients.append(model.edge_from.weight.grad)
    assert totals[0] != pytest.approx(totals[1], rel=1e-3)
    assert functional.cosine_similarity(*(g.flatten() for g in gradients), dim=0) < 0.999


@pytest.mark.parametrize(
    "targets",
    [
        [Skeleton([], []), Skeleton([], [])],
        [Skeleton([(30, 30)], [], root=0), Skeleton([], [])],
        [Skeleton([(30, 30), (30, 30)], [(0, 1)]), Skeleton([(-5, 500)], [])],
    ],
    ids=["no node at all", "one node", "nodes in one place, and outside"],
)
@pytest.mark.parametrize("size", [None, 8])
def test_small_targets(targets, size, images):
    model = build_model().train()
    targets = Targets.from_skeletons(targets, size)
    total = sum(model.loss(model(images[:2], targets), targets).values())
    total.backward()
    assert torch.isfinite(total)
    assert total > 0, "there is always the loss of the end"
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


def test_the_order_of_the_true_nodes_does_not_matter(trees, images):
    model = build_model().eval()
    tree, order = trees[0], np.random.default_rng(1).permutation(len(trees[0]))
    place = np.argsort(order)
    renumbered = Skeleton(tree.nodes[order], place[tree.edges], root=int(place[0]))
    with torch.no_grad():
        first, second = (
            model.loss(model(images[:1], targets), targets)
            for targets in (Targets.from_skeletons([skeleton], size=8) for skeleton in (tree, renumbered))
        )
    assert {k: v.item() for k, v in first.items()} == pytest.approx({k: v.item() for k, v in second.items()}, rel=1e-5)


def test_processes_divide_by_the_mean_of_their_node_counts(trees, images):
    model = build_model().eval()
    targets = Targets.from_skeletons(trees[:2], size=8)
    mean = torch.tensor((len(trees[0]) + len(trees[1])) / 2)
    with torch.no_grad():
        whole = model.loss(model(images[:2], targets), targets)
        halves = [Targets.from_skeletons([tree], size=8) for tree in trees[:2]]
        parts = [model.loss(model(images[i : i + 1], half), half, mean) for i, half in enumerate(halves)]
    for name, value in whole.items():
        assert value.item() == pytest.approx((parts[0][name] + parts[1][name]).item() / 2, rel=1e-3), name


# ---- use ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("constraint", REGIMES)
def test_regimes_decode_trees_or_graphs(images, constraint):
    model = balanced(build_model(constraint=constraint), images)
    with torch.no_grad():
        skeletons = model.decode(model(images), image_size=(SIDE, SIDE))
    assert max(map(len, skeletons)) > 2
    is_constrained = constraint in ("test", "both")
    assert all(skeleton.is_forest for skeleton in skeletons) == is_constrained
    if is_constrained:
        with torch.no_grad():
            single = model.decode(model(images), single_plant=True)
        assert all(skeleton.is_tree for skeleton in single if len(skeleton))


@pytest.mark.parametrize("bias", [-100.0, 100.0])
def test_generation_ends_at_once_or_at_the_limit(images, bias):
    model = build_model().eval()
    torch.nn.init.constant_(model.node_head.bias, bias)
    with torch.no_grad():
        skeletons = model.decode(model(images[:2]))
    assert [len(skeleton) for skeleton in skeletons] == ([0, 0] if bias < 0 else [8, 8])


def test_rows_become_a_symmetric_matrix():
    rows = torch.arange(18.0).view(1, 3, 3, 2)
    square = symmetric(rows)
    assert torch.equal(square, square.transpose(1, 2))
    assert torch.equal(square[0, 2, 1], rows[0, 2, 1])
    assert square[0].diagonal().abs().sum() == 0


@pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")  # warning on processors without bfloat16
def test_half_precision_gives_nearly_the_same_losses(trees, images):
    targets = Targets.from_skeletons(trees, size=8)
    model = build_model().train()
    exact = model.loss(model(images, targets), targets)
    with torch.autocast("cpu", torch.bfloat16):
        output = model(images, targets)
        rough = model.loss(output, targets)
        generated = model.eval()(images)
    for result in (output, generated):
        for name in ("node_logits", "points", "root_logits", "edge_logits"):
            assert getattr(result, name).dtype == torch.float32, name
    for name in exact:
        assert rough[name].item() == pytest.approx(exact[name].item(), rel=0.1), name


@pytest.mark.slow
def test_compiled_parts_have_no_breaks_and_the_same_losses(trees, images):
    targets = Targets.from_skeletons(trees[:2], size=8)
    model = build_model(layers=1).train()
    results = []
    for compiled in (False, True):
        if compiled:
            model.compile_parts(backend="eager", fullgraph=True)
        parts = model.loss(model(images[:2], targets), targets)
        sum(parts.values()).backward()
        results.append({name: value.item() for name, value in parts.items()})
    assert results[1] == pytest.approx(results[0], rel=1e-3)


@pytest.mark.slow
def test_the_registered_model_has_the_size_of_the_default_treeformer():
    counts = {
        name: sum(tensor.numel() for tensor in MODELS[name].module(MODELS[name].settings()).state_dict().values())
        for name in ("ggt", "default")
    }
    assert counts["ggt"] == pytest.approx(counts["default"], rel=0.1)


def test_invalid_inputs_and_settings_give_one_line_errors(images):
    with pytest.raises(TreeformerError, match="image size must be a multiple of 16 px, not 100×64 px"):
        build_model()(torch.rand(1, 3, 64, 100))
    with pytest.raises(TreeformerError, match="the targets have 9 nodes, but max_nodes is 8"):
        build_model()(images[:1], Targets.from_skeletons([Skeleton([(i, i) for i in range(9)], [])]))
    with pytest.raises(TreeformerError, match="constraint must be one of none, test, train, both, not 'tree'"):
        GGTConfig(constraint="tree")
    with pytest.raises(TreeformerError, match="width 100"):
        GGTConfig(width=100)
    for wrong, message in [
        ({"heads": 0}, "heads must be at least 1, not 0"),
        ({"width": 0}, "width must be at least 4, not 0"),
        ({"dropout": 1.5}, "dropout must be at most 1, not 1.5"),
        ({"edge_weight": float("nan")}, "edge_weight must be at least 0, not nan"),
        ({"backbone_blocks": ()}, "backbone_blocks must be 1 or more numbers of at least 1"),
    ]:
        with pytest.raises(TreeformerError, match=message):
            GGTConfig(**wrong)


def test_losses_without_targets_are_an_error(trees, images):
    model = build_model().eval()
    with pytest.raises(TreeformerError, match="the output has no targets"):
        model.loss(model(images[:1]), Targets.from_skeletons(trees[:1], size=8))


def test_a_config_survives_a_table():
    table = dataclasses.asdict(GGTConfig()) | {"backbone_blocks": [3, 4, 6]}
    assert build(GGTConfig, table, "here") == GGTConfig()


@pytest.mark.slow
def test_eight_images_are_overfitted(trees, images):
    torch.manual_seed(0)
    model = GGT(SMALL)
    targets = Targets.from_skeletons(trees, size=8)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for step in range(1, 601):
        total = sum(model.loss(model.train()(images, targets), targets).values())
        optimizer.zero_grad()
        total.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        if step % 20 == 0 and total < 0.3:
            with torch.no_grad():
                skeletons = model.decode(model.eval()(images))
            if all(is_the_same_tree(*pair, within_px=3) for pair in zip(skeletons, trees, strict=True)):
                return
    pytest.fail(f"after {step} steps: {skeletons}")
