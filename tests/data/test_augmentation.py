"""Augmentation: image and skeleton are transformed alike, and a forest stays a forest inside its frame."""

from __future__ import annotations

import dataclasses
import itertools
import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tests.strategies import examples
from treeformer import Skeleton, TreeformerError
from treeformer.data.augmentation import PRESETS, ROOTS, VINES, Augmentation, move, warp

GEOMETRY = Augmentation(rotation_deg=30.0, scale=(0.5, 2.0), crop=(0.4, 1.0))


def distance_to_lines(points: np.ndarray, skeleton: Skeleton) -> np.ndarray:
    """Return (P,) distances of points to the nearest edge."""
    best = np.full(len(points), np.inf)
    for u, v in skeleton.edges:
        a, b = skeleton.nodes[u], skeleton.nodes[v]
        t = np.clip((points - a) @ (b - a) / max((b - a) @ (b - a), 1e-12), 0, 1)
        best = np.minimum(best, np.linalg.norm(points - a - t[:, None] * (b - a), axis=1))
    return best


def pixel_centers(width: int, height: int) -> np.ndarray:
    return np.stack(np.meshgrid(np.arange(width) + 0.5, np.arange(height) + 0.5), axis=-1).reshape(-1, 2)


def drawn(skeleton: Skeleton, size: tuple[int, int], half_width: float = 1.5) -> np.ndarray:
    """Draw the skeleton in white on black with soft edges, directly from the distance to it."""
    width, height = size
    away = distance_to_lines(pixel_centers(width, height), skeleton).reshape(height, width)
    level = np.rint(255 * np.clip(half_width + 0.5 - away, 0, 1)).astype(np.uint8)
    return np.repeat(level[..., None], 3, axis=2)


@st.composite
def random_trees(draw: st.DrawFn, width: int = 96, height: int = 72) -> Skeleton:
    count = draw(st.integers(2, 14))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    parents = [-1] + [int(rng.integers(0, node)) for node in range(1, count)]
    if count > 5 and draw(st.booleans()):
        parents[count // 2] = -1  # a second plant
    nodes = rng.uniform((4, 4), (width - 4, height - 4), size=(count, 2))
    return Skeleton.from_parents(nodes, parents, image_size=(width, height), radius=np.ones(count))


def spots(nodes: np.ndarray, size: tuple[int, int], sigma: float) -> np.ndarray:
    width, height = size
    centers = pixel_centers(width, height)
    level = sum(np.exp(-((centers - node) ** 2).sum(axis=1) / (2 * sigma**2)) for node in nodes)
    level = np.rint(255 * np.clip(level, 0, 1)).astype(np.uint8).reshape(height, width)
    return np.repeat(level[..., None], 3, axis=2)


@pytest.mark.parametrize("scale", [0.2, 0.45, 0.7, 1.0, 1.6])
@pytest.mark.parametrize("angle", [-15.0, 0.0, 9.0])
@pytest.mark.parametrize("flip", [0.0, 1.0])
def test_a_spot_and_its_node_agree_to_a_tenth_of_a_pixel(scale: float, angle: float, flip: float) -> None:
    size = (203, 151)
    node = np.array([[88.3, 62.9]])
    original = spots(node, size, sigma=3.0 / min(scale, 1.0))
    augmentation = Augmentation(flip=flip, rotation_deg=abs(angle), scale=(scale, scale))
    lone = Skeleton(node, [], image_size=size)
    for seed in range(3):
        affine, frame = augmentation.draw_affine(size, node, np.random.default_rng(seed))
        image = warp(original, affine, frame).astype(float)[..., 0]
        weight = (image - np.median(image)).ravel() * (image.ravel() > 8)
        centroid = weight @ pixel_centers(*frame) / weight.sum()
        moved = lone.transform(affine).nodes[0]
        assert np.linalg.norm(centroid - moved) < 0.1


def test_pillow_samples_at_pixel_centers() -> None:
    """A shift by whole pixels, and a flip, are exact copies: there is no offset of half a pixel."""
    image = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    shifted = warp(image, [[1, 0, -3], [0, 1, -2]], (27, 18))
    assert np.array_equal(shifted, image[2:, 3:])
    mirrored = warp(image, [[-1, 0, 30], [0, 1, 0]], (30, 20))
    assert np.array_equal(mirrored, image[:, ::-1])


def test_a_strong_reduction_is_smoothed_first() -> None:
    """Stripes of one pixel become uniform gray; without smoothing they would be black or white at random."""
    stripes = np.zeros((160, 160, 3), dtype=np.uint8)
    stripes[:, ::2] = 255
    small = warp(stripes, np.array([[0.25, 0, 0], [0, 0.25, 0]]), (40, 40)).astype(float)
    assert np.abs(small[2:-2, 2:-2] - 127.5).max() < 10


def test_outside_the_image_is_the_color_of_its_border() -> None:
    image = np.full((30, 40, 3), (10, 200, 30), dtype=np.uint8)
    image[10:20, 10:20] = 255
    shifted = warp(image, [[1, 0, 25], [0, 1, 5]], (90, 60))
    assert shifted[0, 0].tolist() == [10, 200, 30]
    assert shifted[20, 40].tolist() == [255, 255, 255]


@settings(max_examples=examples(60), deadline=None)
@given(
    skeleton=random_trees(),
    seeds=st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=4),
    keep=st.sampled_from(["forest", "largest"]),
    frame=st.sampled_from([None, (64, 64), (120, 40)]),
)
def test_any_chain_leaves_a_forest_inside_its_frame(skeleton, seeds, keep, frame) -> None:
    augmentation = dataclasses.replace(GEOMETRY, keep=keep, frame=frame)
    image = np.zeros((72, 96, 3), dtype=np.uint8)
    for seed in seeds:
        image, skeleton = augmentation(image, skeleton, np.random.default_rng(seed))
        height, width = image.shape[:2]
        assert skeleton.image_size == (width, height)
        assert frame is None or (width, height) == frame
        assert skeleton.is_tree if keep == "largest" else skeleton.is_forest
        assert (skeleton.nodes >= 0).all()
        assert (skeleton.nodes <= (width, height)).all()
        assert len(skeleton.roots) == len(skeleton.component_root)  # every component still has its root


@settings(max_examples=examples(40), deadline=None)
@given(skeleton=random_trees(), seeds=st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=2))
def test_drawing_and_moving_commute(skeleton, seeds) -> None:
    """Bright pixels of the warped drawing are those of the moved skeleton, up to one pixel."""
    augmentation = dataclasses.replace(GEOMETRY, scale=(0.75, 1.5))
    image, half_width = drawn(skeleton, (96, 72)), 1.5
    inner = np.full_like(image, 255)  # white where no line can have been cut off
    for seed in seeds:
        margin = math.ceil(half_width) + 2
        inner[:margin] = inner[-margin:] = inner[:, :margin] = inner[:, -margin:] = 0
        affine, size = augmentation.draw_affine(skeleton.image_size, skeleton.nodes, np.random.default_rng(seed))
        half_width *= math.sqrt(abs(np.linalg.det(affine[:, :2])))
        image, inner, skeleton = warp(image, affine, size), warp(inner, affine, size), move(skeleton, affine, size)
    margin = math.ceil(half_width) + 2
    inner[:margin] = inner[-margin:] = inner[:, :margin] = inner[:, -margin:] = 0
    width, height = size
    away = distance_to_lines(pixel_centers(width, height), skeleton).reshape(height, width)
    bright, valid = image[..., 0] > 127, inner[..., 0] > 250
    assert not (valid & bright & (away > half_width + 1)).any()
    assert not (valid & ~bright & (away < half_width - 1)).any()


def test_the_same_generator_gives_the_same_result(comb: Skeleton) -> None:
    image = np.random.default_rng(1).integers(0, 256, (50, 40, 3), dtype=np.uint8)
    for augmentation in (ROOTS, VINES):
        first, second, third = (augmentation(image, comb, np.random.default_rng(seed)) for seed in (5, 5, 6))
        assert np.array_equal(first[0], second[0])
        assert first[1] == second[1]
        assert first[1] != third[1]


def test_the_identity_changes_nothing(comb: Skeleton) -> None:
    original = np.random.default_rng(1).integers(0, 256, (50, 40, 3), dtype=np.uint8)
    image, skeleton = Augmentation(flip=0.0)(original, comb, np.random.default_rng(0))
    assert np.array_equal(image, original)
    assert skeleton == comb


def test_rotation_is_within_its_range_and_reaches_it() -> None:
    angles = []
    for seed in range(300):
        affine, _ = ROOTS.draw_affine((100, 80), np.zeros((0, 2)), np.random.default_rng(seed))
        mirrored = np.linalg.det(affine[:, :2]) < 0
        angles.append(math.degrees(math.atan2(affine[0, 1], -affine[0, 0] if mirrored else affine[0, 0])))
        scale = math.sqrt(abs(np.linalg.det(affine[:, :2])))
        assert 0.8 <= scale <= 1.25
    assert max(np.abs(angles)) <= 9 + 1e-9
    assert min(angles) < -8 < 8 < max(angles)


def test_crops_differ_in_size_and_place() -> None:
    sizes, corners = set(), set()
    augmentation = Augmentation(flip=0.0, crop=(0.5, 0.9))
    for seed in range(40):
        affine, size = augmentation.draw_affine((100, 80), np.array([[50.0, 40.0]]), np.random.default_rng(seed))
        sizes.add(size)
        corners.add(tuple(np.round(-affine[:, 2], 6)))
        assert 50 <= size[0] <= 90
        assert 40 <= size[1] <= 72
        assert (-affine[:, 2] >= 0).all()
        assert (-affine[:, 2] + size <= np.add((100, 80), 1e-9)).all()  # inside the image
    assert len(sizes) > 30
    assert len(corners) > 30


def test_a_frame_larger_than_the_image_contains_all_of_it(y_shape: Skeleton) -> None:
    original = np.full((10, 10, 3), 255, dtype=np.uint8)
    for seed in range(20):
        image, skeleton = Augmentation(frame=(64, 48))(original, y_shape, np.random.default_rng(seed))
        assert image.shape == (48, 64, 3)
        assert len(skeleton) == len(y_shape)
        assert skeleton.length == pytest.approx(y_shape.length)


def test_a_crop_never_misses_the_plant() -> None:
    lone = Skeleton([(95, 5), (97, 7)], [(0, 1)], image_size=(100, 100))
    image = np.zeros((100, 100, 3), dtype=np.uint8)
    for seed in range(100):
        _, skeleton = Augmentation(rotation_deg=15, crop=(0.2, 0.4))(image, lone, np.random.default_rng(seed))
        assert len(skeleton) == 2


def test_keep_largest_and_keep_forest() -> None:
    """The bottom of a U is cut off: keep both arms, or the longer one."""
    u_shape = Skeleton([(10, 10), (10, 60), (40, 60), (40, 5)], [(0, 1), (1, 2), (2, 3)], root=0)
    identity = [[1, 0, 0], [0, 1, 0]]
    assert move(u_shape, identity, (50, 50)).length == pytest.approx(40 + 45)
    largest = move(u_shape, identity, (50, 50), keep="largest")
    assert largest.is_tree
    assert largest.length == pytest.approx(45)


def test_short_components_at_the_border_are_dropped() -> None:
    """A corner that extends into the frame by a third of a pixel is dropped."""
    peak = Skeleton([(0, 20), (10, 9.7), (20, 20), (30, 0)], [(0, 1), (1, 2), (2, 3)], root=0)
    skeleton = move(peak, [[1, 0, 0], [0, 1, 0]], (40, 10))
    assert skeleton.is_tree
    assert len(skeleton) == 2


def test_explicit_axes_are_dropped_and_plants_are_kept() -> None:
    from treeformer import Axis

    two = Skeleton(
        [(10, 10), (10, 30), (30, 10), (30, 30)],
        [(0, 1), (2, 3)],
        root=[0, 2],
        axes=[Axis((0, 1), plant=0), Axis((2, 3), plant=1)],
        edge_axis=[0, 1],
        plant=[0, 0, 1, 1],
        radius=[1, 1, 2, 2],
    )
    moved = move(two, [[2, 0, 0], [0, 2, 0]], (80, 80))
    assert not moved.has_explicit_axes
    assert moved.plant.tolist() == [0, 0, 1, 1]
    assert moved.radius.tolist() == [2, 2, 4, 4]


def test_nodes_are_resampled() -> None:
    line = Skeleton([(10, 10), (10, 18), (10, 26), (10, 34), (10, 42)], [(k, k + 1) for k in range(4)], root=0)
    image = np.zeros((60, 60, 3), dtype=np.uint8)
    doubled = Augmentation(scale=(2.0, 2.0), spacing_px=8.0)
    _, skeleton = doubled(image, line, np.random.default_rng(0))
    assert len(skeleton) == 9
    assert np.allclose(skeleton.edge_length, 8.0)


def test_noise_and_light_have_the_given_ranges() -> None:
    gray = np.full((200, 200, 3), 128, dtype=np.uint8)
    noisy = Augmentation(noise=(6.0, 6.0)).relight(gray, np.random.default_rng(0)).astype(float)
    assert noisy.std() == pytest.approx(6.0, rel=0.03)
    assert noisy.mean() == pytest.approx(128, abs=0.2)
    channels = noisy.reshape(-1, 3).T
    for first, second in itertools.combinations(channels, 2):
        assert abs(np.corrcoef(first, second)[0, 1]) < 0.03

    ramp = np.repeat(np.arange(256, dtype=np.uint8)[None, :, None], 3, axis=2)
    levels = set()
    for seed in range(20):
        lit = Augmentation(brightness=0.2, contrast=(0.7, 1.4), color_cast=0.1).relight(
            ramp, np.random.default_rng(seed)
        )
        assert lit.dtype == np.uint8
        assert (np.diff(lit.astype(int), axis=1) >= 0).all()  # the order of gray levels is kept
        levels.add(tuple(lit[0, 128]))
    assert len(levels) == 20
    assert np.array_equal(Augmentation().relight(ramp, np.random.default_rng(0)), ramp)


def relight_reference(augmentation: Augmentation, image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Compute `Augmentation.relight` value by value, with the same random draws."""
    brightness = rng.uniform(-augmentation.brightness, augmentation.brightness)
    contrast = rng.uniform(*augmentation.contrast)
    cast = rng.uniform(1 - augmentation.color_cast, 1 + augmentation.color_cast, size=(3, 1))[:, 0]
    deviation = rng.uniform(*augmentation.noise)
    lit = np.clip(np.rint((((image / 255) * cast - 0.5) * contrast + 0.5 + brightness) * 255), 0, 255)
    if deviation > 0:
        normal = NormalDist(sigma=deviation)
        noise = [round(normal.inv_cdf((byte + 0.5) / 256)) for byte in rng.bytes(image.size)]
        lit = np.clip(lit + np.reshape(noise, image.shape), 0, 255)
    return lit.astype(np.uint8)


@pytest.mark.parametrize("augmentation", [*PRESETS.values(), Augmentation(noise=(3.0, 44.0)), Augmentation()])
def test_light_and_noise_agree_with_reference(augmentation: Augmentation) -> None:
    image = np.random.default_rng(2).integers(0, 256, (25, 31, 3), dtype=np.uint8)
    in_planes = np.ascontiguousarray(image.transpose(2, 0, 1)).transpose(1, 2, 0)
    for seed in range(10):
        reference_rng, rng = np.random.default_rng(seed), np.random.default_rng(seed)
        expected = relight_reference(augmentation, image, reference_rng)
        assert np.array_equal(augmentation.relight(image, rng), expected)
        assert rng.random() == reference_rng.random()  # the same number of draws
        assert np.array_equal(augmentation.relight(in_planes, np.random.default_rng(seed)), expected)


def test_an_empty_skeleton_and_a_small_image() -> None:
    image, skeleton = ROOTS(np.zeros((8, 5, 3), dtype=np.uint8), Skeleton([], []), np.random.default_rng(0))
    assert len(skeleton) == 0
    assert skeleton.image_size == (image.shape[1], image.shape[0])


@pytest.mark.parametrize(
    "invalid",
    [{"flip": 1.5}, {"scale": (0.0, 1.0)}, {"scale": (2.0, 1.0)}, {"crop": (0.5, 1.2)}, {"rotation_deg": -1.0},
     {"noise": (-1.0, 1.0)}, {"frame": (0, 5)}, {"brightness": math.nan}],
)  # fmt: skip
def test_an_invalid_range_is_an_error(invalid) -> None:
    with pytest.raises(TreeformerError, match=next(iter(invalid))) as error:
        Augmentation(**invalid)
    assert "\n" not in str(error.value)


def test_presets_have_the_rotations_of_the_paper() -> None:
    assert PRESETS["roots"].rotation_deg == 9
    assert PRESETS["vines"].rotation_deg == 15


def test_a_large_image_is_reduced_only_inside_the_frame() -> None:
    """A window on a reduced image equals the same window of the whole image, reduced."""
    rng = np.random.default_rng(3)
    small = Image.fromarray(rng.integers(0, 256, (50, 60, 3), dtype=np.uint8))
    image = np.asarray(small.resize((600, 500), Image.Resampling.BICUBIC))
    whole = warp(image, [[0.25, 0, 0], [0, 0.25, 0]], (150, 125)).astype(int)
    window = warp(image, [[0.25, 0, -40], [0, 0.25, -30]], (70, 60)).astype(int)
    assert np.abs(whole[30:90, 40:110] - window).max() <= 3
