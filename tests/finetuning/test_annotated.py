"""The survey of a folder: what is used, what is not, and why."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from PIL import Image

import treeformer
from tests.finetuning.conftest import draw_tree
from treeformer import Skeleton
from treeformer.data.recipe import INCOMPLETE_NAME
from treeformer.errors import TreeformerError
from treeformer.finetuning.annotated import find_skeletons, looks_misplaced, survey
from treeformer.finetuning.next_images import rank_folder
from treeformer.finetuning.plan import split_images
from treeformer.inference.batch import plan
from treeformer.results.record import write_record


def test_finds_images_plants_nodes_and_scales(drawings):
    found = survey(drawings)
    assert [image.name for image in found.images] == [f"plant{number}.png" for number in range(6)]
    assert found.images[0].plants == 1
    assert found.images[0].size == (64, 64)
    text = "\n".join(found.lines())
    assert "6 annotated images, 6 plants, 24 nodes" in text
    assert not found.unusable


def test_takes_the_output_of_the_editor_as_it_is(tmp_path):
    skeleton = draw_tree(tmp_path, "a", 1)
    treeformer.write(skeleton.replace(nodes=skeleton.nodes + 1), tmp_path / "a.rsml")  # the editor writes both
    (found,) = survey(tmp_path).images
    assert found.skeleton_file.name == "a.json"
    np.testing.assert_allclose(found.skeleton.nodes, skeleton.nodes, atol=0.01)


@pytest.mark.parametrize("marked", ["", "generated", "prepared"])
def test_a_folder_that_was_written_in_part_is_refused(tmp_path, marked):
    """The mark of `treeformer prepare` lies above its splits."""
    for folder in (".", "generated", "prepared/train"):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        draw_tree(tmp_path / folder, "a", 1)
    (tmp_path / marked / INCOMPLETE_NAME).touch()
    for read in (survey, rank_folder):
        with pytest.raises(TreeformerError, match=r"is incomplete, .* repeat the command, or remove .*\.incomplete"):
            read(tmp_path)
    (tmp_path / marked / INCOMPLETE_NAME).unlink()
    assert len(survey(tmp_path).images) == 3


def test_images_of_one_name_in_other_folders_are_other_plates(tmp_path):
    photos, results = tmp_path / "photos", tmp_path / "results"
    for seed, plant in enumerate(("a", "b", "c", "d", "e")):
        (photos / plant).mkdir(parents=True)
        (results / plant).mkdir(parents=True)
        skeleton = draw_tree(photos / plant, "scan", seed)
        (photos / plant / "scan.json").unlink()
        treeformer.write(skeleton, results / plant / "scan.json")
    write_record(results, [photos], plan([photos], results))
    found = survey(results)
    assert [image.name for image in found.images] == [f"../photos/{plant}/scan.png" for plant in "abcde"]
    split = split_images(found, 0)
    assert (len(split.train), len(split.valid)) == (4, 1)


def test_predictions_and_unaccepted_corrections_are_not_used(tmp_path):
    states = {"raw": {}, "corrected": {"editor": {"accepted": False}}, "accepted": {"editor": {"accepted": True}}}
    for name, metadata in states.items():
        skeleton = draw_tree(tmp_path, name, 1).replace(edge_score=[0.5, 0.1, 0.1], metadata=metadata)
        treeformer.write(skeleton, tmp_path / f"{name}.json")
    found = survey(tmp_path)
    assert [image.name for image in found.images] == ["accepted.png"]
    assert [path.name for path in found.uncorrected] == ["raw.png"]
    assert any("was not corrected" in line for line in found.lines())
    line = "1 correction not accepted, with 2 open places, not used without --include-unaccepted"
    assert f"{line}: corrected.png (2)" in found.lines()
    found = survey(tmp_path, include_unaccepted=True)
    assert [image.name for image in found.images] == ["accepted.png", "corrected.png"]
    assert f"{line.removesuffix(' not used without --include-unaccepted')} used: corrected.png (2)" in found.lines()


def test_a_predicted_rsml_file_is_no_ground_truth(tmp_path):
    skeleton = draw_tree(tmp_path, "a", 1)
    (tmp_path / "a.json").unlink()
    treeformer.write(skeleton.replace(edge_score=[0.9, 0.8, 0.7]), tmp_path / "a.rsml")
    assert [path.name for path in survey(tmp_path).uncorrected] == ["a.png"]
    treeformer.write(skeleton, tmp_path / "a.rsml")
    assert len(survey(tmp_path).images) == 1


def test_json_of_another_program_does_not_hide_a_skeleton(tmp_path):
    treeformer.write(draw_tree(tmp_path, "a", 1), tmp_path / "a.rsml")
    (tmp_path / "a.json").write_text('{"camera": 3}')
    assert [image.skeleton_file.name for image in survey(tmp_path).images] == ["a.rsml"]
    (tmp_path / "a.rsml").unlink()
    assert "no supported format" in survey(tmp_path).unusable[0]


def test_drawings_of_a_model_folder_are_no_images(tmp_path):
    draw_tree(tmp_path, "a", 1)
    overlays = tmp_path / "models" / "mine" / "overlays"
    overlays.mkdir(parents=True)
    draw_tree(overlays, "b", 1)
    assert len(survey(tmp_path).images) == 2
    for name in ("config.json", "model.safetensors"):
        (overlays.parent / name).write_text("")
    assert [image.name for image in survey(tmp_path).images] == ["a.png"]


def test_the_scale_of_a_reduced_image_is_that_of_the_image_with_the_plant(tmp_path):
    draw_tree(tmp_path, "z", 1, size=1024)
    Image.new("RGB", (64, 64), "white").save(tmp_path / "empty.png")
    treeformer.write(Skeleton(np.zeros((0, 2)), np.zeros((0, 2)), image_size=(64, 64)), tmp_path / "empty.json")
    found = survey(tmp_path)
    spacing = found.images[1].spacing_px
    assert f"{spacing / 2:.0f} px if the images are reduced to 512 px" in "\n".join(found.lines())


def test_a_survey_can_be_stopped(drawings):
    with pytest.raises(KeyboardInterrupt):
        survey(drawings, after_each=lambda: (_ for _ in ()).throw(KeyboardInterrupt))


def test_says_why_files_are_not_used(tmp_path):
    draw_tree(tmp_path, "good", 1)
    draw_tree(tmp_path, "size", 2)
    Image.new("RGB", (30, 30)).save(tmp_path / "size.png")
    draw_tree(tmp_path, "damaged", 3)
    (tmp_path / "damaged.png").write_bytes(b"no image")
    draw_tree(tmp_path, "syntax", 4)
    (tmp_path / "syntax.json").write_text("{")
    draw_tree(tmp_path, "alone", 5)
    (tmp_path / "alone.json").unlink()
    found = survey(tmp_path)
    assert [image.name for image in found.images] == ["good.png"]
    reasons = "\n".join(found.unusable)
    assert len(found.unusable) == 3
    assert all(name in reasons for name in ("size", "damaged", "syntax"))
    assert [path.name for path in found.without_skeleton] == ["alone.png"]
    assert all("\n" not in line for line in found.lines())


def test_reasons_name_the_sub_folder(tmp_path):
    """Images of several dates or plates often have the same names."""
    folders = [tmp_path / "day1", tmp_path / "day2"]
    for folder in folders:
        folder.mkdir()
        draw_tree(folder, "damaged", 1)
        (folder / "damaged.png").write_bytes(b"no image")
        draw_tree(folder, "syntax", 1)
        (folder / "syntax.json").write_text("{")
    wrong = ["day1/damaged.png", "day1/syntax.json", "day2/damaged.png", "day2/syntax.json"]
    assert [line.split(": ")[0] for line in rank_folder(tmp_path)[1]] == wrong
    for folder in folders:
        skeletons = {name: draw_tree(folder, name, 1) for name in ("alone", "empty", "predicted", "size")}
        (folder / "alone.json").unlink()
        no_plant = Skeleton(np.zeros((0, 2)), np.zeros((0, 2)), image_size=(64, 64))
        treeformer.write(no_plant, folder / "empty.json")
        treeformer.write(skeletons["predicted"].replace(edge_score=np.full(3, 0.5)), folder / "predicted.json")
        Image.new("RGB", (30, 30)).save(folder / "size.png")
    found = survey(tmp_path)
    wrong = sorted([*wrong, "day1/size.json", "day2/size.json"])
    assert [line.split(": ")[0] for line in found.unusable] == wrong
    for name in ("alone", "empty", "predicted"):
        assert any(line.endswith(f": day1/{name}.png, day2/{name}.png") for line in found.lines())


def test_names_of_images_outside_the_folder_of_results(tmp_path):
    results = tmp_path / "results"
    results.mkdir()
    for day in ("day1", "day2"):
        (tmp_path / "images" / day).mkdir(parents=True)
        draw_tree(tmp_path / "images" / day, "a", 1)
        (tmp_path / "images" / day / "a.json").unlink()
    write_record(results, [tmp_path / "images"], plan([tmp_path / "images"], results))
    last = survey(results).lines()[-1]
    assert last == "2 images without a skeleton, not used: ../images/day1/a.png, ../images/day2/a.png"


def test_a_skeleton_beside_the_plant_is_named_but_used(tmp_path):
    skeleton = draw_tree(tmp_path, "right", 1, size=256)
    image = np.asarray(Image.open(tmp_path / "right.png"))
    assert not looks_misplaced(image, skeleton)
    assert not looks_misplaced(image, Skeleton(np.zeros((0, 2)), np.zeros((0, 2)), image_size=(256, 256)))
    moved = draw_tree(tmp_path, "wrong", 1, size=256)
    moved = moved.replace(nodes=np.clip(moved.nodes + np.array([18, 0]), 0, 256))
    treeformer.write(moved, tmp_path / "wrong.json")
    found = survey(tmp_path)
    assert found.misplaced == ("wrong.png",)
    assert len(found.images) == 2
    assert any("wrong.png" in line and "checked" in line for line in found.lines())


def test_images_without_a_plant_and_mixed_scales_are_named(tmp_path):
    draw_tree(tmp_path, "small", 1, size=64)
    draw_tree(tmp_path, "large", 1, size=640)
    Image.new("RGB", (64, 64), "white").save(tmp_path / "empty.png")
    treeformer.write(Skeleton(np.zeros((0, 2)), np.zeros((0, 2)), image_size=(64, 64)), tmp_path / "empty.json")
    text = "\n".join(survey(tmp_path).lines())
    assert "1 image without a plant, used as examples of background: empty.png" in text
    assert "scales are mixed" in text


def test_reads_a_folder_of_results_with_a_record_of_its_images(tmp_path):
    images, results = tmp_path / "images", tmp_path / "results"
    images.mkdir()
    results.mkdir()
    draw_tree(images, "a", 1)
    shutil.move(images / "a.json", results / "a.json")
    write_record(results, [images], plan([images], results))
    assert [image.path.name for image in survey(results).images] == ["a.png"]
    assert not survey(images).images


def test_a_missing_folder_and_one_without_images_are_errors(tmp_path):
    with pytest.raises(TreeformerError, match="no such folder"):
        survey(tmp_path / "missing")
    with pytest.raises(TreeformerError, match="no image"):
        survey(tmp_path)


def test_a_skeleton_that_names_its_image_is_not_used_for_another_image_of_this_name(tmp_path):
    skeleton = draw_tree(tmp_path, "a", 0)
    Image.new("RGB", (64, 64), "white").save(tmp_path / "a.jpg")
    assert [file is not None for _, file in find_skeletons(tmp_path)] == [True, True]  # it states no name
    treeformer.write(skeleton.replace(image_name="a.png"), tmp_path / "a.json")
    found = {image.name: file for image, file in find_skeletons(tmp_path)}
    assert found == {"a.jpg": None, "a.png": tmp_path / "a.json"}
    photos, results = tmp_path / "photos", tmp_path / "results"
    photos.mkdir()
    for name in ("a.jpg", "a.png"):
        (tmp_path / name).rename(photos / name)
    write_record(results, [photos], [])
    results.mkdir(exist_ok=True)
    (tmp_path / "a.json").rename(results / "a.json")  # the editor wrote it when there was one image
    found = {image.name: file for image, file in find_skeletons(results)}
    assert found == {"a.jpg": None, "a.png": results / "a.json"}
