"""Pseudo-labels: the tree on which the views of an image agree, and the images on which they do."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

import treeformer
from tests.finetuning.conftest import draw_tree
from tests.inference.fake_engine import predictor
from tests.inference.test_views import LineFinder, slanted_line
from treeformer._util.images import open_image
from treeformer.errors import TreeformerError
from treeformer.finetuning import finetune, pseudo_labels, work_folder
from treeformer.finetuning.annotated import survey
from treeformer.finetuning.run import Report
from treeformer.hub.model_folder import open_model


def test_images_without_agreement_or_plant_are_left_out(tmp_path):
    root, folder = tmp_path / "photos", tmp_path / "labels"
    root.mkdir()
    folder.mkdir()
    Image.fromarray(slanted_line()).save(root / "good.png")
    Image.fromarray(slanted_line()).save(root / "doubtful.png")
    Image.new("RGB", (64, 64), "white").save(root / "empty.png")
    (root / "damaged.png").write_bytes(b"no image")
    images = [root / f"{name}.png" for name in ("doubtful", "good", "empty", "damaged")]
    known: dict[str, float] = {}
    finder = LineFinder(wrong=(0, 2, 4))
    pseudo_labels.label_images(predictor(finder), images, root, folder, known, lambda count: False)
    assert known["good.png"] > known["doubtful.png"] > 0
    assert known["empty.png"] == known["damaged.png"] == 0
    found = pseudo_labels.agreed(images, root, folder, known, share=0.25)
    assert [image.name for image in found] == ["good.png"]
    assert found[0].size == (64, 64)
    assert [image.name for image in pseudo_labels.agreed(images, root, folder, known, 1.0)] == [
        "good.png",
        "doubtful.png",
    ]

    # What is known is not predicted again, and the caller may leave out the rest.
    pseudo_labels.label_images(predictor(LineFinder()), images, root, folder, known, lambda count: False)
    assert finder.calls == 18
    few: dict[str, float] = {}
    pseudo_labels.label_images(predictor(LineFinder()), images, root, folder, few, lambda count: count == 1)
    assert list(few) == ["doubtful.png"]


@pytest.mark.usefixtures("one_thread", "short_runs")
def test_a_folder_without_other_images_or_a_machine_without_gpu_is_refused(
    drawings, start_model, tmp_path, monkeypatch
):
    options = {"start": start_model, "unannotated": True}
    with pytest.raises(TreeformerError, match="needs a GPU"):
        finetune.finetune(drawings, tmp_path / "mine", device="cpu", **options)
    monkeypatch.setattr(finetune, "_choose_device", lambda _device: "cuda")
    with pytest.raises(TreeformerError, match="every image has a corrected skeleton"):
        finetune.finetune(drawings, tmp_path / "mine", **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread", "short_runs", "improving")
@pytest.mark.parametrize("helps", [True, False])
def test_a_stopped_run_with_pseudo_labels_continues(helps, drawings, start_model, tmp_path, monkeypatch):
    from treeformer.finetuning import plan, whole_network

    for name, value in {"STEPS": 2, "VALIDATE_EVERY": 1, "BATCH_SIZE": 2, "CROWDED_BATCH_SIZE": 2}.items():
        monkeypatch.setattr(whole_network, name, value)
    monkeypatch.setattr(plan, "SYNTHETIC_PRESETS", ("seedling",))
    monkeypatch.setattr(finetune, "_choose_device", lambda _device: "cuda")  # the mode for a GPU runs on the CPU
    photos = tmp_path / "photos"
    photos.mkdir()
    for number in range(3):
        (photos / f"plant{number}.png").write_bytes((drawings / f"plant{number}.png").read_bytes())
        (photos / f"plant{number}.json").write_bytes((drawings / f"plant{number}.json").read_bytes())
    known, predictions = {}, {}  # by the pixels; by the file
    for number in range(4):
        tree = draw_tree(photos, f"new{number}", 100 + number)
        (photos / f"new{number}.json").unlink()
        predictions[photos / f"new{number}.json"] = tree.replace(edge_score=np.ones(len(tree.edges)))
        known[np.asarray(open_image(photos / f"new{number}.png")).tobytes()] = tree, 0.6 + 0.1 * number
    labeled = []

    def label(_predictor, pixels):
        labeled.append(pixels)
        return known[pixels.tobytes()]

    monkeypatch.setattr(pseudo_labels, "label", label)
    reports: list[Report] = []
    output, options = tmp_path / "mine", {"start": start_model, "unannotated": True}
    if not helps:
        monkeypatch.setattr(whole_network, "IMAGE_NOISE", -10.0)
    with pytest.raises(KeyboardInterrupt):
        finetune.finetune(photos, output, listen=reports.append, should_stop=lambda: len(labeled) == 2, **options)
    assert len(labeled) == 2
    assert work_folder.read_plan(work_folder.work_folder_of(output))["unannotated"] is True
    for file, tree in list(predictions.items())[:2]:  # the run also continues if some images have a prediction by now
        treeformer.write(tree, file)
    outcome = finetune.finetune(photos, output, listen=reports.append, **options)
    assert len(labeled) == 4, "the first two labels are kept"
    lines = [report.message for report in reports if report.stage == "labels" and report.message]
    assert lines == [
        "pseudo-labels: 2 of 4 images without corrected skeletons, on which views agree with F1 0.80 or more"
    ]
    counts = [report.figures["pseudo_labels"] for report in reports if "pseudo_labels" in report.figures]
    assert counts == [2, 2 if helps else 0]
    assert reports[-1].stage == "done"
    said = [report.message for report in reports if report.stage == "survey"]
    assert said[-1] == "at most 100 images are predicted for pseudo-labels; the 50% whose views agree best are used"
    assert not any("not used" in line for line in said)
    assert not outcome.kept_start
    assert f"| images with pseudo-labels | {2 if helps else 0} |" in open_model(output).card
    assert any("did not help" in report.message for report in reports) != helps
    assert not (tmp_path / ".mine-finetune").exists()


def test_the_survey_says_what_other_images_are_used_for(tmp_path):
    draw_tree(tmp_path, "annotated", 1)
    tree = draw_tree(tmp_path, "predicted", 2)
    treeformer.write(tree.replace(edge_score=np.ones(len(tree.edges))), tmp_path / "predicted.json")
    draw_tree(tmp_path, "new", 3)
    (tmp_path / "new.json").unlink()
    found = survey(tmp_path)
    assert found.lines()[-2:] == [
        "1 image with a prediction that was not corrected, not used: predicted.png",
        "1 image without a skeleton, not used: new.png",
    ]
    assert found.lines(pseudo_labels=True)[-2:] == [
        "1 image with a prediction that was not corrected, used for pseudo-labels: predicted.png",
        "1 image without a skeleton, used for pseudo-labels: new.png",
    ]


def test_labels_have_no_scores(tmp_path):
    tree, _ = pseudo_labels.label(predictor(LineFinder()), slanted_line())
    assert tree.node_score is None
    treeformer.write(tree, tmp_path / "label.json")
    assert len(treeformer.read(tmp_path / "label.json")) == len(tree)
