"""Split, working sizes, tokens and the schedule."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import treeformer
from tests.finetuning.conftest import draw_tree
from treeformer import Skeleton
from treeformer.errors import TreeformerError
from treeformer.finetuning import plan
from treeformer.finetuning.annotated import survey
from treeformer.finetuning.plan import (
    CropSettings,
    make_crop,
    most_nodes_per_input,
    shows_whole_image,
    with_target_nodes,
)
from treeformer.hub.model_folder import ModelSettings, ScaleRule

SETTINGS = ModelSettings("TreeFormer", {}, input_size=64, working_size=64)


def test_no_image_is_in_training_and_validation(drawings):
    split = plan.split_images(survey(drawings), seed=0)
    train, valid = ({image.name for image in images} for images in (split.train, split.valid))
    assert len(valid) == 1
    assert not train & valid
    assert len(train | valid) == 6
    assert plan.split_images(survey(drawings), seed=0) == split
    assert any(plan.split_images(survey(drawings), seed=seed).valid != split.valid for seed in range(1, 5))


def test_images_of_one_plate_stay_together(tmp_path):
    for seed, stem in enumerate(("1a", "1b", "2a", "2b")):
        draw_tree(tmp_path, stem, seed)
    (tmp_path / "dataset.yaml").write_text('plate: "[0-9]+"\n')
    for seed in range(4):
        split = plan.split_images(survey(tmp_path), seed)
        assert len(split.valid) == 2
        assert len({image.name[0] for image in split.valid}) == 1


def test_images_of_one_plate_stay_together_in_different_folders(tmp_path):
    for seed, name in enumerate(("d/1a", "d/1b", "d/2a", "e/2b", "e/3a", "e/3b")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        draw_tree((tmp_path / name).parent, name[2:], seed)
    (tmp_path / "dataset.yaml").write_text('plate: "[0-9]+"\n')
    for seed in range(4):
        split = plan.split_images(survey(tmp_path), seed)
        assert not {image.path.stem[0] for image in split.valid} & {image.path.stem[0] for image in split.train}


@pytest.mark.parametrize("rule", [None, 'plate: "[0-9]+"'])
def test_copies_of_an_image_stay_together(tmp_path, rule):
    for name in ("1a", "2copy of 1a"):
        draw_tree(tmp_path, name, 1)
    draw_tree(tmp_path, "3a", 3)
    if rule is not None:
        (tmp_path / "dataset.yaml").write_text(f"{rule}\n")
    for seed in range(4):
        valid = {image.path.stem for image in plan.split_images(survey(tmp_path), seed).valid}
        assert valid in ({"1a", "2copy of 1a"}, {"3a"})


def test_a_large_plate_is_not_taken_for_validation_if_there_is_a_small_one(tmp_path):
    for seed, stem in enumerate((*(f"1{letter}" for letter in "abcdefgh"), "2a")):
        draw_tree(tmp_path, stem, seed)
    (tmp_path / "dataset.yaml").write_text('plate: "[0-9]+"\n')
    for seed in range(4):
        assert [image.name for image in plan.split_images(survey(tmp_path), seed).valid] == ["2a.png"]


def test_one_of_two_plants_is_for_validation_however_many_images_are_empty(tmp_path):
    for seed, stem in enumerate(("a", "b")):
        draw_tree(tmp_path, stem, seed)
    empty = Skeleton(np.zeros((0, 2)), np.zeros((0, 2)), image_size=(64, 64))
    for number in range(8):
        draw_tree(tmp_path, f"empty{number}", 2 + number)
        treeformer.write(empty, tmp_path / f"empty{number}.json")
    for seed in range(4):
        split = plan.split_images(survey(tmp_path), seed)
        assert all(sum(len(image.skeleton) > 0 for image in part) == 1 for part in (split.train, split.valid))


def test_one_image_leaves_nothing_for_validation(tmp_path):
    draw_tree(tmp_path, "a", 1)
    split = plan.split_images(survey(tmp_path), 0)
    assert (len(split.train), len(split.valid)) == (1, 0)


def test_folders_without_ground_truth_are_errors(tmp_path):
    draw_tree(tmp_path, "a", 1)
    (tmp_path / "a.json").unlink()
    with pytest.raises(TreeformerError, match="no image with a corrected skeleton"):
        plan.split_images(survey(tmp_path), 0)
    empty = Skeleton(np.zeros((0, 2)), np.zeros((0, 2)), image_size=(64, 64))
    treeformer.write(empty, tmp_path / "a.json")
    with pytest.raises(TreeformerError, match="shows a plant"):
        plan.split_images(survey(tmp_path), 0)


def test_the_scale_rule_is_applied_to_the_ground_truth(tmp_path):
    draw_tree(tmp_path, "large", 1, size=640)
    images = survey(tmp_path).images
    spacing = images[0].spacing_px / 10  # at the input size of 64 px
    for doublings in (0, 1, 2):
        rule = ScaleRule("spacing", spacing * 2**doublings, 2)
        settings = ModelSettings("TreeFormer", {}, input_size=64, working_size=64, scale_rule=rule)
        assert plan.working_sizes(images, settings) == [64 * 2**doublings]
    assert plan.working_sizes(images, SETTINGS) == [64]


def test_tokens_suffice_for_the_densest_window_and_never_shrink(drawings):
    images = survey(drawings).images
    crops = CropSettings(64, 100, grid_px=0.0, spacing_px=1.0)
    sizes = [64] * len(images)
    most = max(most_nodes_per_input(image.skeleton, 64, crops) for image in images)
    assert most > 64
    assert plan.choose_tokens(images, sizes, crops, 24) == 64 * -(-13 * most // 640)
    assert plan.choose_tokens(images, sizes, crops, 300) == 300


@given(
    st.lists(st.tuples(st.floats(0, 299), st.floats(0, 199)), min_size=2, max_size=12, unique=True),
    st.sampled_from([300, 600]),
)
def test_densest_window_against_a_search_over_all_windows(points, working_px):
    skeleton = Skeleton(points, [(0, n) for n in range(1, len(points))], root=0, image_size=(300, 200))
    settings = CropSettings(64, 1000)
    factor = working_px / 300
    scaled = skeleton.transform([[factor, 0, 0], [0, factor, 0]], image_size=(300, 200) if factor == 1 else (600, 400))
    nodes = with_target_nodes(scaled, settings).nodes
    corners = [(x, y) for x in range(0, working_px, 32) for y in range(0, working_px, 32)]
    expected = max(sum(x <= px < x + 64 and y <= py < y + 64 for px, py in nodes.tolist()) for x, y in corners)
    assert most_nodes_per_input(skeleton, working_px, settings) == expected


@given(st.floats(0.01, 5), st.floats(0.01, 5), st.floats(0, 20), st.floats(400, 4000), st.integers(1, 40))
def test_a_schedule_fits_into_its_time(features, step, validation, seconds, images):
    speed = plan.Speed(features, step, validation, 30.0)
    schedule = plan.make_schedule(speed, seconds, images=images, validated=True, max_crops=100)
    assert schedule.seconds <= seconds + plan.BATCH_SIZE * step
    assert plan.MIN_CROPS <= schedule.crops <= 100
    assert schedule.steps * schedule.batch_size <= plan.MAX_IMAGE_STEPS
    assert 1 <= schedule.validate_every <= schedule.steps


def test_a_time_that_is_too_short_is_an_error_that_names_one_that_is_not():
    speed = plan.Speed(5.0, 5.0, 10.0, 60.0)
    with pytest.raises(TreeformerError, match="too short: at its present load, this machine needs at least 5 minutes"):
        plan.make_schedule(speed, 60, images=4, validated=True, max_crops=100)
    assert plan.make_schedule(speed, 300, images=4, validated=True, max_crops=100).steps > 0
    with pytest.raises(TreeformerError, match="at least 7 minutes"):
        plan.make_schedule(speed, 60, images=4, validated=True, max_crops=100, spent=120)


def test_slow_validations_are_rare():
    options = {"images": 10, "validated": True, "max_crops": 100}
    fast, slow = (plan.make_schedule(plan.Speed(1, 1, v, 30), 600, **options) for v in (5.0, 100.0))
    assert fast.steps / fast.validate_every > 4
    assert slow.steps / slow.validate_every <= 2
    assert slow.seconds <= 600 + plan.BATCH_SIZE


def test_without_validation_training_is_short():
    speed = plan.Speed(0.1, 0.1, 0.1, 1.0)
    options = {"images": 1, "max_crops": 100}
    alone = plan.make_schedule(speed, 900, validated=False, **options)
    assert alone.steps * alone.batch_size == plan.MAX_IMAGE_STEPS_ALONE
    assert plan.make_schedule(speed, 900, validated=True, **options).steps > alone.steps
    with pytest.raises(TreeformerError, match="disk"):
        plan.make_schedule(speed, 900, validated=False, images=1, max_crops=3)


def test_crops_are_repeatable_have_few_nodes_and_cycle_through_the_images(drawings):
    images = survey(drawings).images
    settings = CropSettings(64, max_nodes=500, grid_px=8.0, synthetic_every=4)
    sizes = [64] * len(images)
    crops = [make_crop(number, images, sizes, settings) for number in range(8)]
    assert [crop.name for crop in crops[:3]] == ["plant0.png", "plant1.png", "plant2.png"]
    assert crops[3].name.startswith("taproot-")
    assert crops[7].name.startswith("seedling-")
    assert all(crop.image.shape == (64, 64, 3) for crop in crops)
    limited = CropSettings(64, max_nodes=9, grid_px=8.0, synthetic_every=0)
    assert max(len(crop.skeleton) for crop in crops[:3]) > 9
    assert all(len(make_crop(number, images, sizes, limited).skeleton) <= 9 for number in range(6))
    again = make_crop(2, images, sizes, settings)
    assert (again.image == crops[2].image).all()
    assert again.skeleton == crops[2].skeleton
    other = make_crop(2, images, sizes, CropSettings(64, max_nodes=500, grid_px=8.0, synthetic_every=4, seed=1))
    assert (other.image != crops[2].image).any()
    few = CropSettings(64, max_nodes=5, grid_px=0.0, spacing_px=20.0, synthetic_every=4)
    assert len(make_crop(3, images, sizes, few).skeleton) <= 5  # the synthetic plant has more nodes
    with pytest.raises(TreeformerError, match="smallest window"):
        make_crop(0, images, sizes, CropSettings(64, max_nodes=1, grid_px=8.0))


@pytest.mark.parametrize("images", [1, 3, 8, 100])
def test_one_crop_in_five_shows_its_whole_image(images):
    whole = [shows_whole_image(own, images) for own in range(5 * images)]
    assert all(sum(whole[index::images]) == 1 for index in range(images))
    # With more images than crops, too.
    assert sum(whole[:30]) <= 0.2 * len(whole[:30]) + 1


def test_the_nodes_of_a_crop_lie_on_the_drawn_lines(drawings):
    images = survey(drawings).images
    settings = CropSettings(64, max_nodes=100, grid_px=8.0, synthetic_every=0)
    for number in range(6):
        crop = make_crop(number, images, [64] * len(images), settings)
        inner = crop.skeleton.nodes[(crop.skeleton.nodes > 2).all(axis=1) & (crop.skeleton.nodes < 62).all(axis=1)]
        column, row = inner.astype(int).T
        darkest = np.min(
            [crop.image[row + dy, column + dx].mean(axis=1) for dx in (-1, 0, 1) for dy in (-1, 0, 1)], axis=0
        )
        assert (darkest < crop.image.mean() - 30).all()
