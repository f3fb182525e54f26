"""The two-stage baseline: both networks, small ground truths, decoded target maps, and eight overfitted images."""

from __future__ import annotations

import dataclasses
import json
from functools import partial

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw

from tests.models.overfit import is_the_same_tree, learn_by_overfitting
from treeformer import Skeleton, synthetic
from treeformer._util.config import build
from treeformer.baselines.two_stage.model import PAPER_PARAMETERS, MapOutput, TwoStage, TwoStageConfig
from treeformer.baselines.two_stage.target_maps import Maps, target_maps
from treeformer.errors import TreeformerError
from treeformer.metrics.structure import structure
from treeformer.nn.targets import Targets
from treeformer.training.registry import MODELS

pytestmark = pytest.mark.usefixtures("one_thread")

SIDE = 64
SMALL = {"backbone_blocks": (1, 1, 1), "backbone_channels": 8, "frozen_stages": 0, "width": 32, "fine_width": 16}
CONFIGS = {
    "pyramid": TwoStageConfig(**SMALL),
    "pyramid, coarse maps of three classes": TwoStageConfig(**SMALL, map_stride=4, classes=3),
    "hourglass": TwoStageConfig.hourglass(**SMALL, hourglass_depth=2, map_stride=2),
    "three hourglasses": TwoStageConfig.hourglass(**SMALL, hourglass_depth=1, hourglass_stacks=3, classes=2),
    "one hourglass": TwoStageConfig.hourglass(**SMALL, hourglass_depth=1, hourglass_stacks=1, map_stride=4),
}


def small_tree(seed: int) -> Skeleton:
    """Return a tree of up to six nodes that grows upwards from the bottom, with well separated branches."""
    rng = np.random.default_rng(seed)
    nodes, parents, lines = [np.array([SIDE / 2, SIDE - 6.0])], [-1], []
    for _ in range(500):
        place = rng.uniform(6, SIDE - 6, 2)
        distance = np.hypot(*(np.asarray(nodes) - place).T)
        nearest = int(distance.argmin())
        line = nodes[nearest] + np.linspace(0, 1, 9)[:, None] * (place - nodes[nearest])
        if distance.min() < 12 or place[1] > nodes[nearest][1] - 4:
            continue
        if lines and np.hypot(*np.moveaxis(line[2:, None] - np.concatenate(lines), -1, 0)).min() < 6:
            continue
        nodes.append(place)
        parents.append(nearest)
        lines.append(line)
        if len(nodes) == 6:
            break
    return Skeleton.from_parents(nodes, parents, image_size=(SIDE, SIDE))


def draw(skeleton: Skeleton) -> torch.Tensor:
    """Black lines on white, (3,SIDE,SIDE) in [0,1]."""
    image = Image.new("RGB", (SIDE, SIDE), "white")
    pen = ImageDraw.Draw(image)
    for a, b in skeleton.edges:
        pen.line([tuple(skeleton.nodes[a] - 0.5), tuple(skeleton.nodes[b] - 0.5)], fill="black", width=2)
    return torch.from_numpy(np.array(image)).permute(2, 0, 1) / 255


TREES = [small_tree(seed) for seed in range(8)]


def build_model(config: TwoStageConfig) -> TwoStage:
    torch.manual_seed(0)
    return TwoStage(config)


@pytest.fixture(scope="module")
def images():
    return torch.stack([draw(tree) for tree in TREES])


def test_the_defaults_are_the_papers_synthetic_row():
    assert TwoStageConfig() == TwoStageConfig.paper("synthetic")
    assert TwoStageConfig.paper("root").node_peak_share == 0.99
    assert TwoStageConfig.paper("grapevine", classes=5).edge_width_px == 10
    columns = {frozenset(row) for row in PAPER_PARAMETERS.values()}
    assert len(columns) == 1
    assert len(next(iter(columns))) == 6, "all columns but the image size, which belongs to the data"


def test_the_registry_has_both_networks():
    assert MODELS["two_stage"].settings().network == "fpn"
    assert MODELS["hourglass"].settings().network == "hourglass"
    assert MODELS["two_stage"].module is MODELS["hourglass"].module is TwoStage


@pytest.mark.parametrize("name", CONFIGS)
def test_shapes(name, images):
    config = CONFIGS[name]
    with torch.no_grad():
        output = build_model(config).eval()(images[:2])
    side = SIDE // config.map_stride
    assert output.maps.nodes.shape == (2, config.classes, side, side)
    assert output.maps.directions.shape == (2, config.classes, 2, side, side)
    assert len(output.early) == (config.hourglass_stacks - 1 if config.network == "hourglass" else 0)
    assert all(maps.directions.shape == (2, config.classes, 2, SIDE // 4, SIDE // 4) for maps in output.early)


@pytest.mark.parametrize("name", CONFIGS)
def test_gradients_reach_every_parameter(name, images):
    model = build_model(CONFIGS[name]).train()
    targets = Targets.from_skeletons(TREES[:2])
    targets.kind = torch.randint(CONFIGS[name].classes, targets.kind.shape)
    sum(model.loss(model(images[:2], targets), targets).values()).backward()
    dead = [
        name
        for name, parameter in model.named_parameters()
        if parameter.requires_grad and (parameter.grad is None or not parameter.grad.abs().sum() > 0)
    ]
    assert dead == []
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


def test_the_loss_is_the_squared_error_per_node():
    config = dataclasses.replace(CONFIGS["hourglass"], node_weight=3.0, direction_weight=0.5)
    model = build_model(config)
    targets = Targets.from_skeletons(TREES[:2], size=8)
    torch.manual_seed(1)
    maps = Maps(torch.rand(2, 1, 32, 32), torch.rand(2, 1, 2, 32, 32))
    early = Maps(torch.rand(2, 1, 16, 16), torch.rand(2, 1, 2, 16, 16))
    parts = model.loss(MapOutput(maps, (early, early)), targets)
    count = sum(len(tree) for tree in TREES[:2])
    target = target_maps(targets, 1, (32, 32), 2, 4.0, 5.0)
    coarse = target_maps(targets, 1, (16, 16), 4, 4.0, 5.0)
    expected = {
        "node": 3.0 * 4 * ((maps.nodes - target.nodes) ** 2).sum() / count,
        "direction": 0.5 * 4 * ((maps.directions - target.directions) ** 2).sum() / count,
        "early_node": 2 * 3.0 * 16 * ((early.nodes - coarse.nodes) ** 2).sum() / count,
        "early_direction": 2 * 0.5 * 16 * ((early.directions - coarse.directions) ** 2).sum() / count,
    }
    assert parts.keys() == expected.keys()
    for name, value in expected.items():
        assert parts[name].item() == pytest.approx(value.item(), rel=1e-5), name
    perfect = model.loss(MapOutput(target, (coarse,)), targets)
    assert all(value == 0 for value in perfect.values())
    errors = model.map_errors(MapOutput(maps), targets)
    assert errors["nodes"] == pytest.approx(((maps.nodes - target.nodes) ** 2).mean().item())
    assert errors["directions"] == pytest.approx(((maps.directions - target.directions) ** 2).mean().item())


@pytest.mark.slow
@pytest.mark.parametrize(
    "targets",
    [
        [Skeleton([], []), Skeleton([], [])],
        [Skeleton([(50, 50)], [], root=0), Skeleton([], [])],
        [Skeleton([(50, 50), (50, 50)], [(0, 1)]), Skeleton([(-5, 500), (70, 90)], [(0, 1)])],
    ],
    ids=["no node at all", "one node", "nodes in one place, and outside"],
)
@pytest.mark.parametrize("size", [None, 5])
@pytest.mark.parametrize("name", ["pyramid", "hourglass"])
def test_small_targets(name, targets, size, images):
    model = build_model(CONFIGS[name]).train()
    targets = Targets.from_skeletons(targets, size)
    total = sum(model.loss(model(images[:2], targets), targets).values())
    total.backward()
    assert torch.isfinite(total)
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


def test_nan_maps_give_empty_skeletons():
    output = MapOutput(Maps(torch.full((2, 1, 32, 32), torch.nan), torch.full((2, 1, 2, 32, 32), torch.nan)))
    skeletons = build_model(CONFIGS["pyramid"]).decode(output, image_size=(32, 32))
    assert [len(skeleton) for skeleton in skeletons] == [0, 0]


@pytest.mark.parametrize("edges", ["mst", "dijkstra"])
@pytest.mark.parametrize("name", CONFIGS)
def test_target_maps_decode_into_the_true_trees(name, edges):
    model = build_model(dataclasses.replace(CONFIGS[name], edges=edges, node_search_px=5.0))
    targets = Targets.from_skeletons(TREES)
    side = SIDE // model.config.map_stride
    like = Maps(torch.zeros(8, 1, side, side), torch.zeros(8, 1, 2, side, side))
    found = model.decode(MapOutput(model.target(targets, like)), image_size=(SIDE, SIDE))
    within_px = max(2, 0.75 * model.config.map_stride)  # half a cell along both axes is a distance of 0.71 cells
    correct = [is_the_same_tree(*pair, within_px) for pair in zip(found, TREES, strict=True)]
    assert all(correct), correct


def test_target_maps_of_drawings_decode_into_similar_trees():
    """Crossings limit the method: a node on the line of another branch is joined to that. See docs/lab/two-stage.md."""
    targets = [synthetic.generate("paper", seed) for seed in range(100_000, 100_004)]
    model = build_model(CONFIGS["pyramid"])
    maps = Maps(torch.zeros(4, 1, 512, 512), torch.zeros(4, 1, 2, 512, 512))
    found = model.decode(MapOutput(model.target(Targets.from_skeletons(targets), maps)), image_size=(512, 512))
    scores = [structure(ours, true) for ours, true in zip(found, targets, strict=True)]
    assert min(score.nodes.f1 for score in scores) > 0.97
    assert np.mean([score.edges.f1 for score in scores]) > 0.8
    assert all(score.tree for score in scores)


def test_the_classes_of_a_vine_are_decoded():
    vine = synthetic.generate("vine", 1, size=(256, 256))
    model = build_model(TwoStageConfig(**SMALL, classes=3, node_search_px=3.0))
    targets = Targets.from_skeletons([vine])
    maps = model.target(targets, Maps(torch.zeros(1, 3, 256, 256), torch.zeros(1, 3, 2, 256, 256)))
    found = model.decode(MapOutput(maps))[0]
    mate, distance = vine.nearest(found.nodes)
    kind = targets.kind[0].clamp(max=2).numpy()
    assert len(found.metadata["edge_kind"]) == len(found.edges)
    assert distance.max() < 4
    assert np.mean(kind[mate] == found.metadata["node_kind"]) > 0.97
    assert set(found.metadata["edge_kind"]) == set(kind.tolist()) == {0, 1, 2}


@pytest.mark.slow
@pytest.mark.parametrize(
    "config",
    [
        TwoStageConfig(**(SMALL | {"backbone_blocks": (1,)})),
        TwoStageConfig.hourglass(**SMALL, hourglass_depth=1, map_stride=4),
    ],
    ids=["pyramid", "hourglass"],
)
def test_compiled_parts_have_no_breaks_and_the_same_losses(config, images):
    targets = Targets.from_skeletons(TREES[:2], size=8)
    model = build_model(config).train()
    results = []
    for compiled in (False, True):
        if compiled:
            model.compile_parts(backend="eager", fullgraph=True)
        parts = model.loss(model(images[:2], targets), targets)
        sum(parts.values()).backward()
        results.append({name: value.item() for name, value in parts.items()})
    assert results[1] == pytest.approx(results[0], rel=1e-4)


@pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")  # warning on processors without bfloat16
def test_half_precision_gives_nearly_the_same_losses(images):
    targets = Targets.from_skeletons(TREES[:2], size=8)
    model = build_model(CONFIGS["pyramid"]).train()
    exact = model.loss(model(images[:2], targets), targets)
    with torch.autocast("cpu", torch.bfloat16):
        output = model(images[:2], targets)
        rough = model.loss(output, targets)
    assert output.maps.nodes.dtype == output.maps.directions.dtype == torch.float32
    for name, value in exact.items():
        assert rough[name].item() == pytest.approx(value.item(), rel=0.05), name


def test_invalid_inputs_and_settings_give_one_line_errors():
    with pytest.raises(TreeformerError, match="image size must be a multiple of 32 px, not 100×64 px"):
        build_model(CONFIGS["pyramid"])(torch.rand(1, 3, 64, 100))
    with pytest.raises(TreeformerError, match="image size must be a multiple of 16 px, not 40×64 px"):
        build_model(CONFIGS["hourglass"])(torch.rand(1, 3, 64, 40))
    for wrong, message in [
        ({"backbone_blocks": ["a"]}, "backbone_blocks.0. must be a whole number, not 'a'"),
        ({"network": "unet"}, "network must be one of fpn, hourglass, not 'unet'"),
        ({"map_stride": 3}, "map_stride must be one of 1, 2, 4, not 3"),
        ({"classes": 0}, "classes must be at least 1, not 0"),
        ({"edge_width_px": float("nan")}, "edge_width_px must be positive, not nan"),
        ({"alignment_power": -1.0}, "alignment_power must be from 0 to 50, not -1.0"),
        ({"width": 0}, "width must be at least 1, not 0"),
        ({"node_search_px": float("inf")}, "node_search_px must be at most 10000, not inf"),
        ({"node_weight": float("nan")}, "node_weight must be at least 0, not nan"),
        ({"backbone_blocks": ()}, "backbone_blocks must be 1 or more numbers of at least 1"),
        ({"network": "hourglass", "width": 40}, "width 40 is not a multiple of 32"),
    ]:
        with pytest.raises(TreeformerError, match=message):
            TwoStageConfig(**wrong)
    with pytest.raises(TreeformerError, match="domain must be one of synthetic, root, grapevine, not 'barley'"):
        TwoStageConfig.paper("barley")


@pytest.mark.parametrize("name", CONFIGS)
def test_a_config_survives_json(name):
    config = CONFIGS[name]
    assert build(TwoStageConfig, json.loads(json.dumps(dataclasses.asdict(config))), "here") == config


@pytest.mark.slow
def test_eight_images_are_overfitted(images):
    torch.manual_seed(0)
    model = TwoStage(TwoStageConfig(**(SMALL | {"width": 16}), map_stride=2, node_search_px=5.0))
    decode = partial(model.decode, image_size=(SIDE, SIDE))
    learn_by_overfitting(model, images, TREES, decode, learning_rate=3e-3, steps=300)
