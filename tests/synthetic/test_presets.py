"""Properties of the skeletons of every preset, over many seeds."""

from __future__ import annotations

import pickle
from itertools import pairwise

import numpy as np
import pytest
from scipy.spatial import cKDTree

from treeformer import Axis, Skeleton, TreeformerError
from treeformer.synthetic import PRESETS, STYLES, generate, make_image, render
from treeformer.synthetic.plants import growth
from treeformer.synthetic.plants.growth import STEP_PX, GrownAxis, assemble, curves
from treeformer.synthetic.plants.orchard import grow_fruit_tree, grow_orchard_tree
from treeformer.synthetic.plants.pruned_tree import grow_pruned_tree
from treeformer.synthetic.plants.seedling import grow_seedling
from treeformer.synthetic.plants.shoot import grow_shoot
from treeformer.synthetic.plants.taproot import grow_taproot
from treeformer.synthetic.plants.vine import grow_trained_vine, grow_vine
from treeformer.synthetic.plants.winter_vine import grow_winter_vine
from treeformer.synthetic.presets import MAX_NODES, MAX_NODES_OF, MIN_SIDE_PX, Grower
from treeformer.synthetic.rng import Rng

WITHOUT_PLANTS = ("empty", "cluttered-plate")  # always, and in a part of the images
GROWN = tuple(preset for preset in PRESETS if preset not in ("paper", *WITHOUT_PLANTS))
SEEDS = range(60)


@pytest.fixture(scope="module", params=GROWN)
def grown(request: pytest.FixtureRequest) -> list[Skeleton]:
    return [generate(request.param, seed) for seed in SEEDS]


@pytest.mark.slow
def test_valid_forests_inside_the_frame(grown: list[Skeleton]) -> None:
    for skeleton in grown:
        assert skeleton.is_forest
        assert 2 <= len(skeleton) <= MAX_NODES_OF.get(str(skeleton.metadata["preset"]), MAX_NODES)
        assert skeleton.image_size == (512, 512)
        assert (skeleton.nodes >= 0).all()
        assert (skeleton.nodes <= 512).all()
        components = int(skeleton.component.max()) + 1
        assert len(skeleton.roots) == components == len(skeleton.plants) == len(skeleton.plant_records)
        assert skeleton.degree.min() >= 1
        assert skeleton.radius is not None
        assert (skeleton.radius >= 0.25).all()
        if skeleton.metadata["preset"] not in ("several", "plate", "plate-rosette"):
            assert skeleton.is_tree


@pytest.mark.slow
def test_nodes_are_equally_spaced(grown: list[Skeleton]) -> None:
    lengths = []
    for skeleton in grown:
        branches = skeleton.branches
        for first, last in zip(branches.first.tolist(), branches.last.tolist(), strict=True):
            interval = skeleton.edge_length[branches.edges[first:last]]
            arc = interval.sum()
            # The number of intervals brings them closest to 8 px; on curves, chords are slightly shorter than arcs.
            assert abs(arc / 8 - len(interval)) < 0.65 or len(interval) == 1
            assert interval.max() - interval.min() < 0.6
            lengths.append(interval)
    interval = np.concatenate(lengths)
    assert 7.5 < np.median(interval) < 8.5
    assert interval.max() <= 12.1


@pytest.mark.slow
@pytest.mark.parametrize(
    "grow",
    [
        grow_taproot,
        grow_seedling,
        grow_vine,
        grow_orchard_tree,
        grow_trained_vine,
        grow_fruit_tree,
        grow_pruned_tree,
        grow_winter_vine,
        grow_shoot,
    ],
)
def test_assemble_equals_resampling_the_dense_skeleton(grow: Grower, monkeypatch: pytest.MonkeyPatch) -> None:
    # Not 8 px: lengths of 4 or 12 px would be exactly between two numbers of intervals.
    monkeypatch.setattr(growth, "NODE_SPACING_PX", 7.9)
    compared = 0
    for seed in range(10):
        axes: list[GrownAxis] = []
        grow(Rng(3, seed), axes, 0, (2000.0, 2000.0), 400.0, 2.0)
        if any(len(axis.points) <= growth.MIN_AXIS_STEPS for axis in axes):
            continue  # an axis would be dropped
        compared += 1
        skeleton = assemble(axes, (4000, 4000), {})
        expected = _dense(axes).resample(7.9)
        assert len(skeleton) == len(expected)
        gap = cKDTree(expected.nodes).query(skeleton.nodes)[0]
        assert gap.max() < 1.5 / 64
    assert compared >= 5


def _dense(axes: list[GrownAxis]) -> Skeleton:
    """Return a skeleton with all points of the axes as nodes."""
    nodes: list[np.ndarray] = []
    edges, edge_axis = [], []
    lines: list[list[int]] = []
    for number, axis in enumerate(axes):
        shared = lines[axis.parent][axis.at] if axis.parent is not None else (lines[0][0] if lines else None)
        line = [] if shared is None else [shared]
        for point in axis.points[len(line) :]:
            line.append(len(nodes))
            nodes.append(point)
        lines.append(line)
        edges += list(pairwise(line))
        edge_axis += [number] * (len(line) - 1)
    records = [Axis(tuple(line), parent=axis.parent) for line, axis in zip(lines, axes, strict=True)]
    return Skeleton(nodes, edges, root=0, axes=records, edge_axis=edge_axis)


@pytest.mark.slow
def test_axes_have_order_and_parent(grown: list[Skeleton]) -> None:
    orders = set()
    for skeleton in grown:
        assert skeleton.has_explicit_axes
        assert (skeleton.edge_axis >= 0).all()
        assert [int(axis.properties["branch_order"]) for axis in skeleton.axes] == skeleton.axis_order.tolist()
        orders |= set(skeleton.axis_order.tolist())
        for number, axis in enumerate(skeleton.axes):
            assert axis.label
            assert len(axis.nodes) >= 2
            if axis.parent is not None:
                assert axis.nodes[0] in skeleton.axes[axis.parent].nodes
            steps = set(pairwise(axis.nodes))
            own = {tuple(edge) for edge in skeleton.edges[skeleton.edge_axis == number].tolist()}
            assert steps == own
    assert {0, 1} <= orders


@pytest.mark.slow
def test_radii_decrease_from_base_to_tip(grown: list[Skeleton]) -> None:
    for skeleton in grown:
        assert skeleton.radius is not None
        for axis in skeleton.axes:
            own = skeleton.radius[list(axis.nodes[1:])]
            assert (np.diff(own) <= 1 / 64 + 1e-9).all()


@pytest.mark.slow
def test_thin_roots_are_common() -> None:
    """Most roots are 1 to 3 px wide in an image of 512 px, as in photographs of whole plates."""
    for preset in ("taproot", "seedling"):
        widths = np.concatenate([2 * np.asarray(generate(preset, seed).radius) for seed in range(100)])
        assert np.mean((widths >= 0.6) & (widths <= 3.2)) > 0.6


@pytest.mark.parametrize("preset", PRESETS)
def test_the_same_seed_gives_the_same_skeleton(preset: str) -> None:
    assert generate(preset, 11) == generate(preset, 11)
    assert generate(preset, 11) != generate(preset, 12)
    assert pickle.loads(pickle.dumps(generate(preset, 11))) == generate(preset, 11)
    assert generate(preset, 11).metadata["preset"] == preset
    assert generate(preset, 11).metadata["seed"] == 11


@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("size", [(570, 190), (190, 570), (64, 64), (1024, 700)])
def test_any_size(preset: str, size: tuple[int, int]) -> None:
    for seed in range(5):
        skeleton = generate(preset, seed, size=size)
        assert skeleton.image_size == size
        assert len(skeleton) >= 2 or preset in WITHOUT_PLANTS
        assert (skeleton.nodes >= 0).all()
        assert (skeleton.nodes <= size).all()


@pytest.mark.slow
def test_several_is_a_forest_whose_plants_cross() -> None:
    forests = [generate("several", seed) for seed in range(100)]
    assert all(len(forest.plants) == forest.plant_of_node.max() + 1 for forest in forests)
    assert np.mean([len(forest.plants) >= 2 for forest in forests]) > 0.95
    # Plants are numbered from left to right, and neighbors overlap.
    overlap = 0
    for forest in forests:
        base_x = forest.nodes[forest.component_root, 0][np.argsort(forest.plant_of_node[forest.component_root])]
        assert (np.diff(base_x) >= 0).all()
        spans = [(plant.nodes[:, 0].min(), plant.nodes[:, 0].max()) for plant in forest.plants]
        overlap += any(a[1] > b[0] for a, b in pairwise(spans))
    assert overlap > 40


def test_curves_have_equal_steps_and_turn_towards_the_pull() -> None:
    start = np.asarray([(100.0, 100.0), (50.0, 20.0)])
    paths = curves(Rng(1), start, np.asarray([0.0, 3.0]), np.asarray([200.0, 60.0]), np.pi / 2, 0.1, 0.0)
    assert [len(path) for path in paths] == [101, 31]
    for path in paths:
        step = np.diff(path, axis=0)
        assert np.allclose(np.hypot(step[:, 0], step[:, 1]), STEP_PX)
        assert np.arctan2(step[-1, 1], step[-1, 0]) == pytest.approx(np.pi / 2, abs=0.01)


def test_invalid_arguments() -> None:
    with pytest.raises(TreeformerError, match="unknown preset 'bush': choose one of paper, taproot"):
        generate("bush", 0)
    with pytest.raises(TreeformerError, match="the seed must be zero or more, not -1"):
        generate("paper", -1)
    for seed in (1.5, "a", None, True):
        with pytest.raises(TreeformerError, match="the seed must be zero or more, not "):
            generate("paper", seed)
        with pytest.raises(TreeformerError, match="the seed must be zero or more, not "):
            render(generate("paper", 0), "photo", seed)
    with pytest.raises(TreeformerError, match="sides of a synthetic image must be at least 64 px long, not 512×10"):
        generate("paper", 0, size=(512, 10))
    with pytest.raises(TreeformerError, match="sides of a synthetic image must be at most 16384 px long"):
        generate("paper", 0, size=(1_000_000, 1_000_000))


@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS)
def test_the_smallest_size(preset: str) -> None:
    for style in STYLES:
        for size in ((MIN_SIDE_PX, MIN_SIDE_PX), (MIN_SIDE_PX + 3, MIN_SIDE_PX + 1)):
            assert make_image(preset, style, 0, size)[0].shape == (size[1], size[0], 3)


def test_invalid_sizes() -> None:
    infinite = (64, float("inf")), (float("nan"), 64)
    for size in (128, 128.0, None, "ab", "64", (128,), (64, 64, 64), (64.5, 64), *infinite):
        with pytest.raises(TreeformerError, match="must be two whole numbers of pixels") as error:
            make_image(size=size)  # type: ignore[arg-type]
        assert "\n" not in str(error.value)
    for size in ((0, 0), (-128, 128), (64, 63)):
        with pytest.raises(TreeformerError, match="must be at least 64 px long"):
            make_image(size=size)
    image, skeleton = make_image(size=(np.int64(80), 64.0))  # type: ignore[arg-type]
    assert image.shape == (64, 80, 3)
    assert skeleton.image_size == (80, 64)
