"""The order in which to annotate images."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from typer.testing import CliRunner

import treeformer
from tests.finetuning.conftest import draw_tree
from treeformer.cli import app
from treeformer.errors import TreeformerError
from treeformer.finetuning import next_images
from treeformer.finetuning.next_images import image_features, rank, rank_folder, uncertainty
from treeformer.inference.predictor import Predictor

DOUBTS = st.lists(st.floats(0, 100), min_size=1, max_size=8)


def slow_rank(features, doubts, annotated):
    """Rank as the documentation says, with plain loops."""
    table = np.array([*features, *annotated], dtype=float)
    spread = table.std(axis=0)
    spread[spread == 0] = 1
    table = (table - table.mean(axis=0)) / spread / table.shape[1] ** 0.5
    seen = [list(row) for row in table[len(features) :]]
    left, order = set(range(len(features))), []
    while left:
        gains = {}
        for index in left:
            distances = [np.linalg.norm(table[index] - np.array(other)) for other in seen]
            gains[index] = doubts[index] * (min(distances) if distances else 1.0)
        best = max(left, key=lambda index: (round(gains[index], 9), -index))
        order.append((best, gains[best]))
        seen.append(list(table[best]))
        left.remove(best)
    return order


@given(DOUBTS, st.integers(0, 3), st.integers(0, 99))
def test_rank_against_plain_loops(doubts, annotated, seed):
    rng = np.random.default_rng(seed)
    features = list(rng.normal(size=(len(doubts), 3)))
    known = list(rng.normal(size=(annotated, 3)))
    found = rank(features, doubts, known)
    assert sorted(index for index, _, _ in found) == list(range(len(doubts)))
    expected = slow_rank(features, doubts, known)
    np.testing.assert_allclose([gain for _, gain, _ in found], [gain for _, gain in expected], atol=1e-8)


def test_an_image_like_an_annotated_one_comes_last():
    features = [np.array([0.0, 0.0]), np.array([1.0, 3.0]), np.array([4.0, 1.0])]
    order = [index for index, _, _ in rank(features, [5.0, 5.0, 5.0], [np.array([0.0, 0.0])])]
    assert order[-1] == 0


def test_predictions_without_scores_have_the_median_doubt():
    features = [np.array([float(n)]) for n in range(3)]
    assert next(index for index, _, _ in rank(features, [1.0, float("nan"), 3.0])) == 2
    assert rank([], []) == []


def test_features_tell_images_apart(tmp_path):
    draw_tree(tmp_path, "a", 1)
    draw_tree(tmp_path, "b", 2)
    Image.effect_noise((64, 64), 60).convert("RGB").save(tmp_path / "noise.png")
    a, b, noise = (image_features(Image.open(tmp_path / f"{name}.png")) for name in ("a", "b", "noise"))
    assert a.shape == (104,)
    assert np.linalg.norm(a - b) < np.linalg.norm(a - noise)


def test_a_folder_is_ranked_from_its_predictions(tmp_path):
    for name, scores in (("sure", 0.99), ("unsure", 0.3), ("done", None)):
        skeleton = draw_tree(tmp_path, name, len(name))
        if scores is not None:
            treeformer.write(skeleton.replace(edge_score=np.full(3, scores)), tmp_path / f"{name}.json")
    (tmp_path / "broken.png").write_bytes(b"")
    ranked, failures = rank_folder(tmp_path)
    assert [one.path.name for one in ranked] == ["unsure.png", "sure.png"]
    assert ranked[0].uncertainty == pytest.approx(2.1)
    assert len(failures) == 1
    assert "broken.png" in failures[0]
    found = CliRunner().invoke(app, ["next", str(tmp_path), "--count", "1"])
    assert found.stdout.splitlines() == [str(tmp_path / "unsure.png")]
    assert found.exit_code == 2  # one image cannot be read


def test_an_image_without_a_prediction_is_predicted(tmp_path, start_model, monkeypatch):
    monkeypatch.setattr(next_images, "Predictor", lambda model: Predictor(model, engine="torch"))
    draw_tree(tmp_path, "new", 1)
    (tmp_path / "new.json").unlink()
    ranked, failures = rank_folder(tmp_path, model=start_model)
    assert [one.path.name for one in ranked] == ["new.png"]
    assert not failures


def test_an_empty_prediction_has_no_uncertainty(y_shape):
    assert np.isnan(uncertainty(y_shape))
    with pytest.raises(TreeformerError, match="no such folder"):
        rank_folder("missing")


def test_a_skeleton_that_training_cannot_use_is_named(tmp_path):
    """The skeletons are those of a larger image."""
    for name in ("a", "b"):
        skeleton = draw_tree(tmp_path, name, 1)
        treeformer.write(skeleton.replace(image_size=(128, 128)), tmp_path / f"{name}.json")
    ranked, failures = rank_folder(tmp_path)
    assert not ranked
    assert failures[0] == "a.json: belongs to an image of 128×128 px, but a.png has 64×64 px"
    found = CliRunner().invoke(app, ["next", str(tmp_path)])
    assert "every image has a corrected skeleton" not in found.output
    assert "0 images without corrections, 2 failed" in found.output
