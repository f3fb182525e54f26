"""Several views of an image: the tree on which they agree, in pixels of the image."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import treeformer
from tests.inference.fake_engine import predictor
from treeformer import Skeleton
from treeformer.cli import app
from treeformer.decoding.postprocess import with_plants_and_axes
from treeformer.errors import TreeformerError
from treeformer.examples import example_image
from treeformer.inference import views
from treeformer.inference.engine import RawPrediction
from treeformer.metrics import topo
from treeformer.results.policy import is_predicted_with

LINE = Skeleton([(17.5, 12), (39, 55)], [(0, 1)], image_size=(64, 64))


def slanted_line() -> np.ndarray:
    pixels = np.full((64, 64, 3), 255, np.uint8)
    for row in range(12, 56):
        pixels[row, row // 2 + 10 : row // 2 + 13] = 0
    return pixels


class LineFinder:
    """An engine that finds the way along the dark pixels, and in some calls a line across the image instead.

    Args:
        wrong: numbers of these calls.
    """

    name, device, preferred_batch, input_size = "lines", "cpu", 1, 64

    def __init__(self, wrong=()):
        self.wrong, self.calls = wrong, 0

    def __call__(self, images):
        found = [self._find(pixels) for pixels in images]
        return RawPrediction(*(np.concatenate(parts) for parts in zip(*found, strict=True)))

    def _find(self, pixels):
        self.calls += 1
        points = np.zeros((1, 12, 2), np.float32)
        count = 0
        rows = np.flatnonzero((pixels.min(axis=2) < 128).any(axis=1))
        if self.calls - 1 in self.wrong:
            points[0, :2], count = [(2, 5), (60, 9)], 2
        elif len(rows):
            chosen = rows[:: max(1, len(rows) // 10)][:12]
            for count, row in enumerate(chosen, start=1):
                points[0, count - 1] = np.flatnonzero(pixels[row].min(axis=1) < 128).mean() + 0.5, row + 0.5
        cost = np.full((1, 12, 12), 4.0, np.float32)
        for node in range(count - 1):
            cost[0, node, node + 1] = cost[0, node + 1, node] = -4.0
        score = np.where(np.arange(12) < count, 0.9, 0.0)[None].astype(np.float32)
        root = np.where(np.arange(12) == 0, 4.0, -4.0)[None].astype(np.float32)
        return score, points, cost, root


@pytest.mark.parametrize("wrong", [(), (0,), (1, 4)])
def test_the_tree_of_most_views_in_px_of_the_image(wrong):
    tree = predictor(LineFinder(wrong)).predict(slanted_line(), views=6)
    assert topo(tree, LINE, unit_px=1.0).f1 > 0.85
    assert tree.image_size == (64, 64)
    assert tree.node_score is not None
    same = (6 - len(wrong)) * (5 - len(wrong)) / 2
    assert views.view_agreement(tree) == pytest.approx(same / 15, abs=0.1), "a false line agrees with nothing"


@pytest.mark.parametrize("number", range(1, views.MAX_VIEWS))
def test_a_view_is_moved_as_its_tree_is_moved_back(number):
    # The reference: predict the view by hand, and move every node back by the inverse of three steps.
    pixels = slanted_line()
    view = views.View(pixels, number).open()
    assert view.shape == pixels.shape
    assert (view != pixels).any()
    found = predictor(LineFinder()).predict(view)
    scale, right, down = views.WINDOWS[number // 2]
    nodes = [
        (((64 - x if number % 2 else x) - 64 * right) / scale, (y - 64 * down) / scale) for x, y in found.nodes.tolist()
    ]
    assert topo(Skeleton(nodes, found.edges, image_size=(64, 64)), LINE, unit_px=1.0).f1 > 0.8


def test_plants_are_numbered_from_left_to_right_also_in_a_mirrored_view():
    left, right = [(100, 300), (110, 200), (90, 100)], [(400, 300), (380, 200), (410, 120)]
    nodes = [(512 - x, y) for x, y in (*right, *left)]  # in the mirror image, the right plant is on the left
    edges = [(0, 1), (1, 2), (3, 4), (4, 5)]
    mirrored = with_plants_and_axes(Skeleton(nodes, edges, root=[0, 3], image_size=(512, 512)))
    assert mirrored.nodes[mirrored.plant == 0, 0].max() < 256
    false = Skeleton([(10, 10), (500, 20)], [(0, 1)], root=0, image_size=(512, 512))
    third = mirrored.transform(views._to_view(2, 512, 512) @ views._to_view(1, 512, 512), image_size=(512, 512))
    chosen = views.choose([false, mirrored, third])
    assert chosen.nodes[chosen.plant == 0].tolist() == [[float(x), float(y)] for x, y in left]
    assert len(chosen.plants) == 2


@pytest.mark.parametrize("workers", [0, 2])
def test_many_images_are_predicted_as_one_by_one(tmp_path, workers):
    Image.fromarray(slanted_line()).save(tmp_path / "line.png")
    Image.new("RGB", (64, 64), "white").save(tmp_path / "empty.png")
    (tmp_path / "damaged.png").write_bytes(b"no image")
    images = [tmp_path / "line.png", tmp_path / "damaged.png", tmp_path / "empty.png"]
    model = predictor(LineFinder())
    line, damaged, empty = model.predict_many(images, views=3, workers=workers)
    assert line == model.predict(images[0], views=3)
    assert line.image_name == "line.png"
    assert isinstance(damaged, TreeformerError)
    assert len(empty) == 0
    assert views.view_agreement(empty) == 1.0
    with pytest.warns(UserWarning, match=r"empty\.png: no plant"):
        model.predict(images[2], views=2)


def test_the_record_says_how_many_views_there_were():
    model = predictor(LineFinder())
    one, six = (model.predict(slanted_line(), views=count) for count in (1, 6))
    assert "views" not in one.metadata["prediction"]
    assert views.view_agreement(one) is None
    assert six.metadata["prediction"]["views"] == 6
    assert not is_predicted_with(six, one.metadata["prediction"])
    assert not is_predicted_with(one, six.metadata["prediction"])
    assert is_predicted_with(six, six.metadata["prediction"])


def test_the_record_is_that_of_the_view_whose_tree_is_kept():
    false = Skeleton([(1, 1), (60, 3)], [(0, 1)], image_size=(64, 64), metadata={"prediction": {"size": 64}})
    mirrored = LINE.transform(views._to_view(1, 64, 64)[:2], image_size=(64, 64))
    shifted = LINE.transform(views._to_view(2, 64, 64)[:2], image_size=(64, 64))
    found = [
        view.replace(metadata={"prediction": {"size": 128}, "rsml": {"software": "b"}}) for view in (mirrored, shifted)
    ]
    chosen = views.choose([false.replace(image_name="line.png"), *found])
    assert chosen.image_name == "line.png"
    assert chosen.metadata["prediction"]["size"] == 128
    assert chosen.metadata["rsml"] == {"software": "b"}


def test_progress_covers_all_views():
    seen = []
    predictor(LineFinder()).predict(slanted_line(), views=3, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize("count", [0, 7, 1.5, True])
def test_other_numbers_of_views_are_refused(count):
    with pytest.raises(TreeformerError, match="between 1 and 6"):
        predictor(LineFinder()).predict(slanted_line(), views=count)


@pytest.mark.slow
def test_the_command_names_the_images_whose_views_agree_least(tmp_path):
    example_image().save(tmp_path / "root.png")
    out = tmp_path / "out"
    result = CliRunner().invoke(app, ["predict", str(tmp_path / "root.png"), "-o", str(out), "--views", "3"])
    assert result.exit_code == 0, result.output
    assert "least agreement of the views" in result.output
    assert 0 < views.view_agreement(treeformer.read(out / "root.json")) <= 1
