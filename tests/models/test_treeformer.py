"""The whole network: shapes, gradients, every regime, small ground truths."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw

from treeformer import Skeleton
from treeformer.decoding.node_kinds import WIDTH
from treeformer.errors import TreeformerError
from treeformer.models import TreeFormer, TreeFormerConfig
from treeformer.models.criterion import adjacency_of_tokens, targets_of_tokens
from treeformer.nn.matching import Matching
from treeformer.nn.targets import Targets

pytestmark = pytest.mark.usefixtures("one_thread")

FORKED = Skeleton(
    [(64, 120), (64, 80), (40, 56), (92, 50), (24, 24), (56, 20), (104, 16)],
    [(0, 1), (1, 2), (1, 3), (2, 4), (2, 5), (3, 6)],
    root=0,
)
BENT = Skeleton(
    [(30, 110), (36, 70), (70, 66), (20, 30), (100, 90), (98, 36)], [(0, 1), (1, 2), (1, 3), (2, 4), (2, 5)], root=0
)
SMALL_PAPER = {"backbone_blocks": (1, 1, 1, 1), "backbone_channels": 16, "width": 64, "tokens": 40, "encoder_layers": 1}
CONFIGS = {
    "default": TreeFormerConfig.default(),
    "paper": TreeFormerConfig.paper(),
    "tiny": TreeFormerConfig.tiny(denoising=True),
    "small paper": TreeFormerConfig.paper(**SMALL_PAPER),
    "learned tokens, all else": TreeFormerConfig.tiny(token_source="learned"),
    "no auxiliary losses": TreeFormerConfig.tiny(auxiliary_losses=False),
    "heat map alone": TreeFormerConfig.tiny(auxiliary_losses=False, denoising=False, segment_channels=0),
    "without the finest level": TreeFormerConfig.tiny(decoder_min_stride=8),
    "all heads": TreeFormerConfig.tiny(denoising=True, node_kinds=True, center_lines=True, hard_pair_weight=3),
    "center lines on an encoder": TreeFormerConfig.tiny(
        neck="encoder", encoder_layers=1, backbone_blocks=(1, 1, 1, 1), center_lines=True
    ),
    "heat map on an encoder": TreeFormerConfig.tiny(neck="encoder", encoder_layers=1, backbone_blocks=(1, 1, 1, 1)),
}


def draw(skeleton: Skeleton, size: int = 128) -> torch.Tensor:
    """Black lines on white, (3,size,size) in [0,1]."""
    image = Image.new("RGB", (size, size), "white")
    pen = ImageDraw.Draw(image)
    for a, b in skeleton.edges:
        pen.line([tuple(skeleton.nodes[a]), tuple(skeleton.nodes[b])], fill="black", width=3)
    return torch.from_numpy(np.array(image)).permute(2, 0, 1) / 255


def build_model(config: TreeFormerConfig, *, noise: float = 0.0) -> TreeFormer:
    torch.manual_seed(0)
    model = TreeFormer(config)
    if noise:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(noise * torch.randn_like(parameter))
    return model


@pytest.fixture(scope="module")
def images():
    return torch.stack([draw(FORKED), draw(BENT)])


@pytest.fixture(scope="module")
def small_images(images):
    return images[..., 32:96, 32:96].contiguous()


@pytest.fixture(scope="module")
def tiny():
    return build_model(TreeFormerConfig.tiny(denoising=True), noise=0.02)


@pytest.mark.slow
def test_sizes():
    def count(config):
        return sum(tensor.numel() for tensor in TreeFormer(config).state_dict().values())

    assert count(TreeFormerConfig.default()) <= 16_000_000
    assert count(TreeFormerConfig.paper()) == pytest.approx(28.0e6, rel=0.01), "as in the released code"
    assert count(TreeFormerConfig.small()) <= 4_000_000
    assert count(TreeFormerConfig.tiny()) < 1_000_000


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGS)
def test_shapes(name, small_images):
    config = CONFIGS[name]
    model = build_model(config).eval()
    with torch.no_grad():
        output = model(small_images)
    layers = config.decoder_layers if config.auxiliary_losses else 1
    count = config.tokens
    assert output.layer_node_logits.shape == (layers, 2, count)
    assert output.layer_points.shape == (layers, 2, count, 2)
    assert output.node_logits.shape == output.root_logits.shape == (2, count)
    assert output.points.shape == (2, count, 2)
    assert output.edge_logits.shape == (2, count, count, 2)
    assert (output.edge_logits == output.edge_logits.transpose(1, 2)).all(), "symmetric to the last bit"
    if config.token_source == "heat_map":
        stride = (8 if config.neck == "encoder" else 4) // config.heatmap_upsampling
        assert output.heat_stride == stride
        assert output.heat.shape == (2, 64 // stride, 64 // stride)
    else:
        assert output.heat is None
        assert ((output.points >= -64) & (output.points <= 192)).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "constraint"),
    [(name, "both") for name in CONFIGS]
    + [(name, constraint) for name in ("tiny", "small paper") for constraint in ("none", "test", "train")],
)
def test_gradients_reach_every_parameter(name, constraint, small_images):
    # With noise, because some weights are initialized to zero and would block the gradient of earlier ones.
    model = build_model(dataclasses.replace(CONFIGS[name], constraint=constraint), noise=0.02).train()
    targets = Targets.from_skeletons([FORKED.crop(32, 32, 96, 96), BENT.crop(32, 32, 96, 96)])
    parts = model.loss(model(small_images, targets), targets)
    assert ("edge_constrained" in parts) == (constraint in ("train", "both"))
    sum(parts.values()).backward()
    dead = [
        parameter_name
        for parameter_name, parameter in model.named_parameters()
        if parameter.requires_grad and (parameter.grad is None or not parameter.grad.abs().sum() > 0)
    ]
    assert dead == []
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


@pytest.mark.slow
def test_new_heads_change_nothing_before_they_are_trained(small_images):
    """A network that starts from the weights of an earlier one predicts the same to the last bit."""
    old = build_model(TreeFormerConfig.tiny(), noise=0.02).eval()
    new = TreeFormer(TreeFormerConfig.tiny(node_kinds=True, center_lines=True)).eval()
    missing, unexpected = new.load_state_dict(old.state_dict(), strict=False)
    assert unexpected == []
    assert missing
    assert all(name.startswith(TreeFormer.new_parts) for name in missing)
    with torch.no_grad():
        before, after = old(small_images), new(small_images)
    for name in ("node_logits", "points", "root_logits", "edge_logits", "attributes", "heat", "offsets"):
        assert torch.equal(getattr(before, name), getattr(after, name)), name
    assert before.lines is None
    assert before.kinds is None
    assert after.lines.shape == (2, 3, 32, 32)
    assert after.kinds.shape == (2, 32, WIDTH)


@pytest.mark.slow
def test_regimes_decode_trees_or_graphs(images):
    for constraint, is_constrained in [("none", False), ("test", True), ("train", False), ("both", True)]:
        model = build_model(TreeFormerConfig.tiny(constraint=constraint), noise=0.1).eval()
        with torch.no_grad():
            skeletons = model.decode(model(images), node_threshold=0.0, single_plant=True)
        assert all(len(skeleton) == 32 for skeleton in skeletons)
        assert [skeleton.is_tree for skeleton in skeletons] == [is_constrained] * 2


@pytest.mark.slow
def test_the_distance_cost_changes_the_tree_in_training_and_at_inference(images):
    targets = Targets.from_skeletons([FORKED.resample(12), BENT.resample(12)])  # many trees are possible
    losses, edges = [], []
    for edge_cost in ("margin", "distance"):
        model = build_model(TreeFormerConfig.tiny(edge_cost=edge_cost, denoising=True), noise=0.1)
        torch.manual_seed(1)
        losses.append(model.loss(model(images, targets), targets))
        with torch.no_grad():
            skeleton = model.decode(model(images), node_threshold=0.0, single_plant=True)[0]
        assert skeleton.is_tree
        edges.append(skeleton.edges.tolist())
    assert edges[0] != edges[1]
    for name in ("edge", "denoising_edge"):
        assert losses[0][name] == losses[1][name]
        assert losses[0][f"{name}_constrained"] != losses[1][f"{name}_constrained"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tiny", "small paper"])
@pytest.mark.parametrize(
    "targets",
    [
        [Skeleton([], []), Skeleton([], [])],
        [Skeleton([(50, 50)], [], root=0), Skeleton([], [])],
        [FORKED, Skeleton([], [])],
        [Skeleton([(50, 50), (50, 50)], [(0, 1)]), Skeleton([(-5, 500)], [])],
    ],
    ids=["no node at all", "one node", "a tree and nothing", "nodes in one place, and outside"],
)
@pytest.mark.parametrize("size", [None, 9])
def test_small_targets(name, targets, size, images):
    model = build_model(CONFIGS[name]).train()
    targets = Targets.from_skeletons(targets, size)
    total = sum(model.loss(model(images, targets), targets).values())
    total.backward()
    assert torch.isfinite(total)
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


def test_the_order_of_the_true_nodes_does_not_matter(images):
    model = build_model(TreeFormerConfig.tiny(denoising=False), noise=0.05).eval()
    order = [3, 6, 0, 2, 5, 1, 4]
    place = np.argsort(order)
    renumbered = Skeleton(FORKED.nodes[order], place[FORKED.edges], root=int(place[0]))
    losses = []
    for skeleton in (FORKED, renumbered):
        targets = Targets.from_skeletons([skeleton, BENT], size=10)
        with torch.no_grad():
            losses.append(model.loss(model(images, targets), targets))
    for name, value in losses[0].items():
        assert value.item() == pytest.approx(losses[1][name].item(), rel=1e-4), name


def test_images_of_a_batch_do_not_see_each_other(tiny, images):
    tiny.eval()
    with torch.no_grad():
        together, alone = tiny(images), tiny(images[1:])
    torch.testing.assert_close(together.points[1:], alone.points, atol=1e-3, rtol=1e-4)
    torch.testing.assert_close(together.edge_logits[1:], alone.edge_logits, atol=1e-3, rtol=1e-3)


def test_a_shifted_image_has_a_shifted_heat_map():
    tiny = build_model(TreeFormerConfig.tiny(grid_px=0.0), noise=0.02).eval()  # a grid would not shift with the image
    image = torch.ones(1, 3, 320, 320)
    image[..., 128:224, 128:192] = draw(FORKED)[:, 16:112, 32:96]
    with torch.no_grad():
        heat, moved = tiny(image).heat, tiny(image.roll(32, dims=-1)).heat
    torch.testing.assert_close(moved[:, 30:50, 38:54], heat[:, 30:50, 30:46], atol=1e-4, rtol=1e-3)
    assert heat[:, 30:50, 30:46].std() > 1e-3


def test_denoising_tokens_do_not_change_the_other_predictions(images):
    # With a second edge prediction, an edge would depend on the other selected tokens.
    tiny = build_model(TreeFormerConfig.tiny(denoising=True, num_harmonics=0), noise=0.02)
    targets = Targets.from_skeletons([FORKED, BENT], size=10)
    with torch.no_grad():
        alone, denoised = tiny(images), tiny(images, targets)
    torch.testing.assert_close(denoised.node_logits, alone.node_logits, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(denoised.points, alone.points, atol=1e-3, rtol=1e-4)
    chosen = denoised.selection
    for b in range(2):
        expected = alone.edge_logits[b][chosen[b]][:, chosen[b]]
        torch.testing.assert_close(denoised.edge_logits[b], expected, atol=1e-3, rtol=1e-3)
    loss_alone, loss_denoised = tiny.loss(alone, targets), tiny.loss(denoised, targets)
    assert loss_alone["edge"].item() == pytest.approx(loss_denoised["edge"].item(), rel=1e-3)
    assert denoised.denoising.edge_logits.shape == (2, 10, 10, 2)


def test_matched_tokens_are_selected_first_then_the_most_confident(tiny):
    logits = torch.linspace(3, -3, 32)[None]
    matching = Matching(torch.tensor([[31, 20, 0]]), torch.tensor([[True, True, False]]))
    assert tiny.select(logits, matching)[0].tolist() == [20, 31, *range(17)]


def test_targets_and_edges_of_tokens():
    matching = Matching(torch.tensor([[3, 1, 0]]), torch.tensor([[True, True, False]]))
    target = targets_of_tokens(matching, 5)
    assert target.tolist() == [[-1, 1, -1, 0, -1]]
    adjacency = torch.zeros(1, 3, 3, dtype=torch.bool)
    adjacency[0, 0, 1] = adjacency[0, 1, 0] = adjacency[0, 1, 2] = adjacency[0, 2, 1] = True
    assert adjacency_of_tokens(adjacency, target).nonzero().tolist() == [[0, 1, 3], [0, 3, 1]]


def test_false_nodes_take_part_in_the_training_tree(images):
    """A confident unmatched token takes part in the edge loss, which trains it to have no edges."""
    model = build_model(TreeFormerConfig.tiny(denoising=False)).train()
    targets = Targets.from_skeletons([FORKED, BENT])
    output = model(images, targets)
    unmatched = output.selection[:, 7:]
    before = model.loss(output, targets)["edge"]
    with torch.no_grad():
        output.layer_node_logits[-1].scatter_(1, unmatched[:, :1], 9.0)
    after = model.loss(output, targets)["edge"]
    assert after > before


def test_processes_divide_by_the_mean_of_their_node_counts(tiny, images):
    """Two halves of a batch, each divided by the mean of both node counts, have the mean of the whole batch's loss."""
    targets = Targets.from_skeletons([FORKED, BENT], size=8)
    halves = [Targets.from_skeletons([s], size=8) for s in (FORKED, BENT)]
    tiny.eval()
    with torch.no_grad():
        whole = tiny.loss(tiny(images), targets)
        mean = torch.tensor((7 + 6) / 2)
        parts = [tiny.loss(tiny(images[i : i + 1]), half, mean) for i, half in enumerate(halves)]
    for name, value in whole.items():
        assert value.item() == pytest.approx((parts[0][name] + parts[1][name]).item() / 2, rel=1e-3), name


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"edge_cost": "distance"},
        {"tree_loss": "likelihood"},
        {"tree_loss": "hinge"},
        {"node_kinds": True, "center_lines": True, "hard_pair_weight": 3.0},
    ],
    ids=str,
)
def test_compiled_parts_have_no_breaks_and_the_same_losses(images, options):
    targets = Targets.from_skeletons([FORKED, BENT], size=8)
    model = build_model(TreeFormerConfig.tiny(decoder_layers=1, **options), noise=0.02).train()
    results = []
    for compiled in (False, True):
        if compiled:
            model.compile_parts(backend="eager", fullgraph=True)
        torch.manual_seed(1)
        parts = model.loss(model(images, targets), targets)
        model.zero_grad()
        sum(parts.values()).backward()
        results.append({name: value.item() for name, value in parts.items()})
        results[-1]["gradient"] = sum(p.grad.norm().item() for p in model.parameters() if p.grad is not None)
    assert results[1] == pytest.approx(results[0], rel=1e-3)


@pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")  # warning on processors without bfloat16
def test_half_precision_gives_nearly_the_same_losses(images):
    targets = Targets.from_skeletons([FORKED, BENT], size=8)
    model = build_model(TreeFormerConfig.tiny(denoising=True)).train()
    torch.manual_seed(0)
    exact = model.loss(model(images, targets), targets)
    torch.manual_seed(0)
    with torch.autocast("cpu", torch.bfloat16):
        output = model(images, targets)
        rough = model.loss(output, targets)
    assert output.points.dtype == output.node_logits.dtype == output.edge_logits.dtype == torch.float32
    # Only tokens at given points: peaks of an untrained map are nearly equal, so that rounding selects other peaks.
    for name in ("heat", "denoising_node", "denoising_point", "denoising_root", "denoising_edge"):
        assert rough[name].item() == pytest.approx(exact[name].item(), rel=0.05), name


def test_invalid_inputs_and_settings_give_one_line_errors(tiny):
    with pytest.raises(TreeformerError, match="image size must be a multiple of 32 px, not 100×64 px"):
        tiny(torch.rand(1, 3, 64, 100))
    many = Skeleton([(i, i) for i in range(40)], [])
    with pytest.raises(TreeformerError, match="the targets have 40 nodes, but there are only 32 tokens"):
        tiny(torch.rand(1, 3, 64, 64), Targets.from_skeletons([many]))
    with pytest.raises(TreeformerError, match="constraint must be one of none, test, train, both, not 'tree'"):
        TreeFormerConfig(constraint="tree")
    with pytest.raises(
        TreeformerError, match="tree_loss 'hinge' needs edge_cost 'margin', but edge_cost is 'distance'"
    ):
        TreeFormerConfig(tree_loss="hinge", edge_cost="distance")
    with pytest.raises(TreeformerError, match="width 100"):
        TreeFormerConfig(width=100)
    with pytest.raises(TreeformerError, match="width 48 is not a multiple of 32"):
        TreeFormerConfig.paper(width=48)
    with pytest.raises(TreeformerError, match="segment_points must be an even number, not 7"):
        TreeFormerConfig(segment_points=7)
    with pytest.raises(TreeformerError, match="decoder_min_stride must be at most 32, the coarsest stride, not 64"):
        TreeFormerConfig(decoder_min_stride=64)
    with pytest.raises(TreeformerError, match="heatmap_upsampling must be one of 1, 2, 4, not 3"):
        TreeFormerConfig(heatmap_upsampling=3)


@pytest.mark.parametrize("blocks", [(1,), (1, 1)])
def test_a_backbone_of_few_stages_can_be_trained(blocks):
    config = TreeFormerConfig.tiny(backbone_blocks=blocks, relation_min_stride=8, tokens=8)
    model = build_model(config).train()
    targets = Targets.from_skeletons([FORKED.crop(32, 32, 96, 96)])
    total = sum(model.loss(model(torch.rand(1, 3, 64, 64), targets), targets).values())
    assert torch.isfinite(total)
