"""Results of an earlier run: annotations and corrections are never overwritten, and other models are named."""

from __future__ import annotations

import pytest

import treeformer
from tests.inference.test_batch import TREE, photos  # noqa: F401
from tests.messages import one_line


@pytest.mark.parametrize(
    ("annotation", "options"), [("a.json", ()), ("a.json", ("--resume",)), ("a.rsml", ("-f", "rsml"))]
)
def test_no_prediction_takes_the_place_of_an_annotation(run, photos, tmp_path, annotation, options):  # noqa: F811
    treeformer.write(TREE, photos / annotation)
    before = (photos / annotation).read_bytes()
    code, _, err = run("predict", photos, "-o", photos, *options)
    assert code == 2
    assert one_line(err).startswith(f"treeformer: {photos / annotation}: exists and is not a prediction")
    assert (photos / annotation).read_bytes() == before
    assert run("predict", photos, "-o", tmp_path / "out", *options)[0] == 0, "another folder is allowed"


def test_an_annotation_is_kept_also_if_there_is_a_predicted_json(run, photos):  # noqa: F811
    treeformer.write(TREE, photos / "a.rsml")
    before = (photos / "a.rsml").read_bytes()
    assert run("predict", photos, "-o", photos)[0] == 0
    code, _, err = run("predict", photos, "-o", photos, "--format", "rsml")
    assert code == 2
    assert one_line(err).startswith(f"treeformer: {photos / 'a.rsml'}: exists and is not a prediction")
    assert (photos / "a.rsml").read_bytes() == before


def test_a_prediction_does_not_replace_the_annotation_of_another_image(run, photos, tmp_path):  # noqa: F811
    out = tmp_path / "out"
    out.mkdir()
    treeformer.write(TREE, out / "a.rsml")
    before = (out / "a.rsml").read_bytes()
    code, _, err = run("predict", photos / "a.png", "-o", out, "--format", "rsml")
    assert code == 2
    assert one_line(err).startswith(f"treeformer: {out / 'a.rsml'}: exists and is not a prediction")
    assert (out / "a.rsml").read_bytes() == before


def test_resuming_with_another_output_keeps_corrected_results(run, photos, tmp_path):  # noqa: F811
    out = tmp_path / "out"
    command = ("predict", photos / "a.png", photos / "b.png", "-o", out)
    assert run(*command)[0] == 0
    drawn = TREE.replace(metadata={"editor": {"accepted": True}})  # without scores
    treeformer.write(drawn, out / "a.json")
    before = (out / "a.json").read_bytes()
    code, _, err = run(*command, "--resume", "--overlay")
    assert code == 0
    assert "corrected results of 1 image are kept as they are: a.png; treeformer convert" in err
    assert (out / "a.json").read_bytes() == before
    assert (out / "b.overlay.jpg").exists()


def test_a_corrected_result_is_not_predicted_again(run, photos, tmp_path):  # noqa: F811
    out = tmp_path / "out"
    assert run("predict", photos, "-o", out, "--format", "rsml")[0] == 0
    assert run("predict", photos, "-o", out, "--format", "rsml")[0] == 0
    corrected = treeformer.read(out / "a.json")
    treeformer.write(corrected.replace(metadata={**corrected.metadata, "editor": {"accepted": True}}), out / "a.json")
    before = (out / "a.json").read_bytes()
    code, _, err = run("predict", photos, "-o", out)
    assert code == 2
    assert one_line(err).startswith(f"treeformer: {out / 'a.json'}: was corrected in the editor")
    (out / "b.json").unlink(missing_ok=True)
    assert run("predict", photos, "-o", out, "--resume")[0] == 0
    assert (out / "a.json").read_bytes() == before


def test_kept_results_of_other_settings_are_named(run, photos, tmp_path):  # noqa: F811
    command = ("predict", photos / "a.png", photos / "b.png", "-o", tmp_path / "out")
    assert run(*command)[0] == 0
    assert "other settings" not in run(*command, "--resume")[2]
    err = run(*command, "--resume", "--min-confidence", "0.4")[2]
    assert "results of 2 images from another model or other settings are kept: a.png, b.png" in err
    file = tmp_path / "out" / "b.json"
    corrected = treeformer.read(file)
    treeformer.write(corrected.replace(metadata={**corrected.metadata, "editor": {"accepted": True}}), file)
    err = run(*command, "--resume", "--single-plant")[2]
    assert "results of 1 image from another model or other settings are kept: a.png;" in err
