"""The working size from a first pass, and bases from the whole image."""

from __future__ import annotations

from pathlib import Path

import networkx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from tests.inference.fake_engine import ColorEngine, NumbersEngine, drawn, line_engine, predictor, random_tree
from treeformer import Skeleton, TreeformerError
from treeformer.hub.model_folder import ModelFolder, ModelSettings, ScaleRule
from treeformer.inference.auto_scale import (
    MAX_BASE_DISTANCE,
    MAX_NOISE_CORRELATION,
    choose_working_size,
    is_noise,
    measure_scale,
    move_bases,
)
from treeformer.inference.engine import RawPrediction
from treeformer.inference.predictor import Predictor

RULE = ScaleRule("spacing", 10.0, 2)


def comb(spacing: float, size: int = 4000) -> Skeleton:
    """Return a stem with ten short laterals: every junction is `spacing` px from its tip."""
    stem = [(100.0 + 50 * k * spacing, 100.0) for k in range(10)]
    tips = [(x, y + spacing) for x, y in stem]
    edges = [(k, k + 1) for k in range(9)] + [(k, 10 + k) for k in range(10)]
    return Skeleton([*stem, *tips], edges, root=0, image_size=(size, size // 2))


@given(st.floats(0.01, 1000))
def test_the_size_doubles_until_the_spacing_is_near_the_target(spacing):
    size = choose_working_size(comb(spacing * 4000 / 512, 4000), RULE, 512, 1024)
    assert size in (512, 1024, 2048)
    reached = spacing * size / 512  # the spacing at the chosen size
    if size < 2048:
        assert reached >= 10 / 2**0.5 * 0.999
    if size > 512:
        assert reached <= 10 * 2**0.5 * 1.001


def test_the_size_is_bounded_by_the_image_and_by_the_rule():
    tiny = comb(1.0)
    assert choose_working_size(tiny, RULE, 512, 1024) == 2048
    assert choose_working_size(tiny, ScaleRule("spacing", 10.0, 0), 512, 1024) == 512
    assert choose_working_size(tiny.replace(image_size=(700, 600)), RULE, 512, 1024) == 700
    assert choose_working_size(tiny.replace(image_size=(300, 600)), RULE, 512, 1024) == 600
    assert choose_working_size(tiny.replace(image_size=(300, 200)), RULE, 512, 1024) == 512


def test_the_fixed_size_is_used_if_nothing_can_be_measured():
    for nothing in (
        Skeleton([], [], image_size=(4000, 3000)),
        Skeleton([(1, 1)], [], root=0, image_size=(4000, 3000)),
        Skeleton([(1, 1), (1, 1)], [(0, 1)], root=0, image_size=(4000, 3000)),
    ):
        assert choose_working_size(nothing, RULE, 512, 1024) == 1024
        assert choose_working_size(nothing, ScaleRule("radius", 2.0), 512, 1024) == 1024


def test_radii_of_sure_nodes_are_measured():
    tree = Skeleton(
        [(0, 0), (5, 0), (9, 0), (12, 0)],
        [(0, 1), (1, 2), (2, 3)],
        root=0,
        radius=np.array([4.0, np.nan, 2.0, 90.0]),
        node_score=np.array([0.9, 0.9, 0.5, 0.4]),
        image_size=(1024, 10),
    )
    assert measure_scale(tree, "radius") == 3.0
    assert choose_working_size(tree, ScaleRule("radius", 3.0), 512, 2048) == 1024


@pytest.mark.parametrize(("radius", "spacing", "size"), [(2, 6, 512), (1, 6, 2048), (1, 9, 1024), (2, 9, 512)])
def test_thin_and_crowded_structures_double_the_size_once_more(radius, spacing, size):
    tree = comb(spacing * 4000 / 512, 4000)
    tree = tree.replace(radius=np.full(len(tree), radius * 4000 / 512), node_score=np.ones(len(tree)))
    assert choose_working_size(tree, ScaleRule("radius", 2.0, 2, crowded_px=8.0), 512, 1024) == size
    assert choose_working_size(tree, ScaleRule("radius", 2.0, 1, crowded_px=8.0), 512, 1024) == min(size, 1024)


@given(st.integers(0, 10**6))
def test_spacing_agrees_with_a_loop(seed):
    tree = random_tree(seed, count=12, size=(200, 200), longest_edge=90)
    keypoints = [node for node, degree in networkx.Graph(tree.edges.tolist()).degree() if degree != 2]
    nearest = [min(np.hypot(*(tree.nodes[a] - tree.nodes[b])) for b in keypoints if b != a) for a in keypoints]
    assert measure_scale(tree, "spacing") == pytest.approx(float(np.median(nearest)))


@given(st.integers(0, 10**6))
def test_bases_move_roots_and_nothing_else(seed):
    random = np.random.default_rng(seed)
    forest = random_tree(seed, count=20, size=(200, 200), longest_edge=60, plants=3)
    bases = random.uniform(0, 200, (4, 2))
    moved = move_bases(forest, bases)
    assert moved.nodes.tolist() == forest.nodes.tolist()
    assert {frozenset(edge) for edge in moved.edges.tolist()} == {frozenset(edge) for edge in forest.edges.tolist()}
    expected = {int(forest.component[root]): int(root) for root in forest.roots}
    decided = set()
    for base in bases:
        distance = np.hypot(*(forest.nodes - base).T)
        tree = int(forest.component[distance.argmin()])
        if distance.min() <= MAX_BASE_DISTANCE * 200 and tree not in decided:
            decided.add(tree)
            expected[tree] = int(distance.argmin())
    assert {int(moved.component[root]): int(root) for root in moved.roots} == expected


def auto(engine, **settings) -> Predictor:
    settings = {"input_size": 64, "working_size": 64, "scale_rule": RULE} | settings
    config = ModelSettings("fake", {}, **settings)
    return Predictor(ModelFolder(Path("fake"), config), engine=engine)


class RecordingEngine(NumbersEngine):
    """Four nodes 2 px apart: structures are too small at the size of the input. Counts the tiles."""

    def __init__(self) -> None:
        cost = np.full((4, 4), 9.0)
        for i in range(3):
            cost[i, i + 1] = cost[i + 1, i] = -4.0
        super().__init__([0.9] * 4, [(10, 30), (12, 30), (14, 30), (16, 30)], cost, (3.0, -3.0, -3.0, -3.0), 64)
        self.tiles = 0

    def __call__(self, images: np.ndarray) -> RawPrediction:
        self.tiles += len(images)
        return super().__call__(images)


def test_a_first_pass_chooses_the_size_of_a_second_one():
    engine = RecordingEngine()
    skeleton = auto(engine).predict(np.zeros((256, 256, 3), np.uint8))
    record = skeleton.metadata["prediction"]
    assert (record["working_size"], record["chosen_working_size"]) == ("auto", 128)
    assert engine.tiles == 1 + 9
    assert skeleton.image_size == (256, 256)
    # Structures are large enough at the size of the input: the first pass is the result.
    engine = line_engine()
    record = auto(engine).predict(np.zeros((256, 256, 3), np.uint8)).metadata["prediction"]
    assert record["chosen_working_size"] == 64
    # An image of the size of the input needs no second pass.
    engine = RecordingEngine()
    auto(engine).predict(np.zeros((64, 64, 3), np.uint8))
    assert engine.tiles == 1


def white_noise(side: int, deviation: float = 60.0) -> np.ndarray:
    return np.clip(np.random.default_rng(side).normal(128, deviation, (side, side, 3)), 0, 255).astype(np.uint8)


@given(st.integers(0, 10**6), st.integers(1, 9))
def test_noise_agrees_with_correlation_coefficients(seed, width):
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, 256, (30, 40, 3), dtype=np.uint8)
    pixels = np.stack([np.roll(pixels, k, axis=1) for k in range(width)]).mean(axis=0).astype(np.uint8)  # blurred
    gray = pixels.mean(axis=2)
    gray -= gray.mean()
    variance = (gray**2).mean()
    right = np.mean([gray[y, x] * gray[y, x + 1] for y in range(30) for x in range(39)]) / variance
    below = np.mean([gray[y, x] * gray[y + 1, x] for y in range(29) for x in range(40)]) / variance
    if abs(max(right, below) - MAX_NOISE_CORRELATION) > 1e-4:
        assert is_noise(pixels) == (max(right, below) <= MAX_NOISE_CORRELATION)


class BlindEngine(RecordingEngine):
    """Find nothing. Counts the tiles."""

    def __call__(self, images: np.ndarray) -> RawPrediction:
        found = super().__call__(images)
        return found._replace(node_score=np.full_like(found.node_score, 0.4))


@pytest.mark.filterwarnings("ignore:.*no plant was found")
@pytest.mark.parametrize("side", [80, 129, 256])
def test_noise_without_a_plant_takes_one_pass(side):
    for deviation in (2.0, 20.0, 60.0, 200.0):
        engine = BlindEngine()
        record = auto(engine).predict(white_noise(side, deviation)).metadata["prediction"]
        assert (engine.tiles, record["chosen_working_size"]) == (1, 64)
        engine = BlindEngine()
        (result,) = auto(engine).predict_many([white_noise(side, deviation)])
        assert (engine.tiles, len(result)) == (1, 0)


@pytest.mark.filterwarnings("ignore:.*no plant was found")
def test_other_images_without_a_plant_take_two_passes():
    scan = np.asarray(Image.fromarray(white_noise(256)).resize((32, 32)).resize((256, 256), Image.Resampling.BILINEAR))
    line = np.full((256, 256, 3), 250, np.uint8)
    line[:, 128] = line[128] = 100
    for image in (np.full((256, 256, 3), 128, np.uint8), scan, line, (scan // 30 + 100).astype(np.uint8)):
        engine = BlindEngine()
        auto(engine, working_size=128).predict(image)
        assert engine.tiles == 1 + 9


def test_noise_with_a_plant_takes_two_passes():
    engine = RecordingEngine()
    auto(engine).predict(white_noise(256))
    assert engine.tiles == 1 + 9


def test_a_fixed_size_needs_one_pass():
    for size, tiles in ((64, 1), ("full", 9)):
        engine = RecordingEngine()
        record = auto(engine).predict(np.zeros((128, 128, 3), np.uint8), working_size=size).metadata["prediction"]
        assert record["working_size"] == size
        assert "chosen_working_size" not in record
        assert engine.tiles == tiles


def test_auto_needs_a_rule():
    with pytest.raises(TreeformerError, match="fake: this model has no scale rule: give the working size in pixels"):
        predictor(line_engine()).predict(np.zeros((64, 64, 3), np.uint8), working_size="auto")
    with pytest.raises(TreeformerError, match="number of pixels, 'auto' or 'full', not 'large'"):
        predictor(line_engine()).predict(np.zeros((64, 64, 3), np.uint8), working_size="large")


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"workers": 0}, {"workers": 2, "batch": 3}, {"workers": 1, "processes": True}])
def test_many_images_give_the_same_as_one_by_one(tmp_path, options):
    """Some images need a second pass, some do not, one cannot be read; results come in order."""
    images: list = []
    for number, side in enumerate((256, 64, 200, 130, 64)):
        Image.fromarray(np.full((side, side, 3), number, np.uint8)).save(tmp_path / f"{number}.png")
        images.append(tmp_path / f"{number}.png")
    (tmp_path / "broken.png").write_bytes(b"no image")
    images.insert(2, tmp_path / "broken.png")
    images.append(np.zeros((140, 256, 3), np.uint8))
    results = list(auto(RecordingEngine()).predict_many(images, **options))
    assert isinstance(results[2], TreeformerError)
    for image, found in zip(images, results, strict=True):
        if not isinstance(found, TreeformerError):
            assert found == auto(RecordingEngine()).predict(image)
            assert found.metadata == auto(RecordingEngine()).predict(image).metadata


def test_the_whole_image_decides_about_the_root():
    """Tiles see no root of this tree, the first pass is sure of it."""
    tree = random_tree(seed=5, count=40, size=(256, 256), longest_edge=40)
    inner = tree.replace(root=int(np.flatnonzero(tree.degree > 1)[5]))

    class TwoScales(ColorEngine):
        """The first call sees one small plant with a sure root, the others the tiles without any likely root."""

        def __call__(self, images: np.ndarray) -> RawPrediction:
            raw = super().__call__(images)
            if len(self.calls) > 1:
                return raw._replace(root_logit=np.full_like(raw.root_logit, -6.0))
            points = np.zeros((1, 2, 2), np.float32)
            points[0] = inner.nodes[inner.root] / 4, inner.nodes[inner.root] / 4 + 2
            cost = np.full((1, 2, 2), -4.0, np.float32)
            return RawPrediction(np.full((1, 2), 0.9, np.float32), points, cost, np.array([[3.0, -3]], np.float32))

    found = auto(TwoScales(tree, 64)).predict(drawn(tree))
    assert found.metadata["prediction"]["chosen_working_size"] == 256
    assert np.hypot(*(found.nodes[found.component_root] - inner.nodes[inner.root]).T).min() < 1
