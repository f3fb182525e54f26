"""`treeformer series --resume`: an interrupted series keeps its predictions, and reuses only those that still hold."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from tests.inference.fake_engine import ColorEngine, drawn, predictor
from treeformer import Skeleton, TreeformerError, read, write
from treeformer.cli import app
from treeformer.hub.model_folder import WEIGHTS, ModelFolder
from treeformer.inference.predictor import Predictor
from treeformer.results.layout import SERIES_LIST as LIST_OF_FILES
from treeformer.timeseries.predictions import DatePredictor, prediction_file
from treeformer.timeseries.views import VIEWS

DATES = 5
PLANT = Skeleton(
    [(40.5, 10.5 + 14 * k) for k in range(DATES + 2)],
    [(k, k + 1) for k in range(DATES + 1)],
    root=0,
    image_size=(128, 128),
)


class Engine(ColorEngine):
    """Find the nodes of `PLANT`. Ctrl-C arrives during the prediction of a certain number, from 1."""

    def __init__(self, interrupted=None):
        super().__init__(PLANT, 128)
        self.interrupted = interrupted

    def __call__(self, images):
        if len(self.calls) + 1 == self.interrupted:
            raise KeyboardInterrupt
        return super().__call__(images)


@pytest.fixture
def plate(tmp_path) -> Path:
    """Return a folder with one image per date; each shows one node more."""
    folder = tmp_path / "plate"
    folder.mkdir()
    for day in range(DATES):
        Image.fromarray(image_of(day)).save(folder / f"day{day}.png")
    return folder


def image_of(day):
    image = drawn(PLANT)
    image[int(PLANT.nodes[day + 2, 1]) :] = 255
    return image


def model_of(engine, hashes=None, **settings):
    fake = predictor(engine, **settings).model
    return Predictor(ModelFolder(fake.path, fake.config, hashes or {}), engine=engine)


@pytest.fixture
def run(plate, monkeypatch):
    """Return a function that runs the command with an engine, and returns the result and the number of predictions."""

    def call(out, *options, views=1, interrupted=None):
        engine = Engine(interrupted)
        model = model_of(engine)
        monkeypatch.setattr("treeformer.inference.predictor.Predictor", lambda *_, **__: model)
        arguments = ["series", str(plate), "-o", str(out), "--no-figures", "--views", str(views), *options]
        result = CliRunner().invoke(app, arguments)
        return result, len(engine.calls)

    return call


def contents(out):
    """Return the files of the results without the time at which they were written, and without their checksums."""
    files = [file for file in out.rglob("*") if file.is_file() and file.name != LIST_OF_FILES]
    return {
        file.relative_to(out).as_posix(): re.sub("<last-modified>.*</last-modified>", "", file.read_text())
        for file in files
    }


@pytest.mark.slow
def test_a_resumed_series_predicts_the_other_dates_and_equals_an_uninterrupted_one(run, tmp_path):
    whole, out = tmp_path / "whole", tmp_path / "out"
    result, count = run(whole)
    assert (result.exit_code, count) == (0, DATES)
    assert "skipped" not in result.output

    result, _ = run(out, interrupted=3)
    assert result.exit_code == 130
    assert "treeformer: 2 of 5 dates predicted; --resume continues\n" in result.output
    assert sorted(contents(out)) == ["skeletons/day0.json", "skeletons/day1.json"]
    leftover = out / "skeletons" / ".day2-999999999-0123456789abcdef.json"  # of a process that was killed
    leftover.write_text("{")

    result, count = run(out, "--resume")
    assert (result.exit_code, count) == (0, DATES - 2), result.output
    assert f"3 images predicted in {out}, 2 skipped\n" in result.output
    assert contents(out) == contents(whole)
    lengths = [row.split(",") for row in (out / "axes_over_time.csv").read_text().splitlines()]
    column = lengths[0].index("length")
    assert [float(row[column]) for row in lengths[1:]] == pytest.approx([14 * (day + 1) for day in range(DATES)])

    assert run(out, "--resume")[1] == 0
    assert run(out)[1] == DATES


@pytest.mark.slow
def test_an_interrupt_after_the_predictions_loses_none(run, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("treeformer.timeseries.Series", interrupted)
        assert "5 of 5 dates predicted; --resume continues" in run(tmp_path / "out")[0].output
    result, count = run(tmp_path / "out", "--resume")
    assert (result.exit_code, count) == (0, 0)


def work_of(out, hashes=None, name="color", views=1, **settings):
    engine = Engine()
    engine.name = name
    return DatePredictor(model_of(engine, hashes, **settings), out, views)


@pytest.mark.parametrize(
    ("model", "is_reused"),
    [
        ({}, True),
        ({"node_threshold": 0.4}, False),
        ({"version": "2"}, False),
        ({"direction_weight": 0.5}, False),
        ({"hashes": {WEIGHTS: "0" * 64}}, False),
        ({"name": "torch cuda"}, False),
    ],
)
def test_predictions_of_another_model_are_not_reused(plate, tmp_path, model, is_reused):
    image = plate / "day1.png"
    (predicted,) = work_of(tmp_path, views=2).predict(["day1"], [image])
    found = work_of(tmp_path, views=2, **model).finished("day1", image)
    assert (found is not None) == is_reused
    assert [len(view) for view in predicted] == [3, 3]
    for one, expected in zip(found or (), predicted, strict=False):
        assert (one.nodes.tolist(), one.metadata) == (expected.nodes.tolist(), expected.metadata)


def test_predictions_of_another_image_or_settings_are_not_reused(plate, tmp_path):
    names = [f"day{day}" for day in range(DATES)]
    images = [plate / f"{name}.png" for name in names]
    assert len(list(work_of(tmp_path).predict(names, images))) == DATES
    Image.fromarray(image_of(3)).save(images[0])
    os.utime(images[1], (5, 5))  # as a copy has
    damaged, other, foreign = (prediction_file(tmp_path, name) for name in names[2:])
    damaged.write_bytes(damaged.read_bytes()[:200])
    document = json.loads(other.read_bytes())
    document["metadata"]["prediction"]["single_plant"] = True
    other.write_text(json.dumps(document))
    write(Skeleton([(1, 1), (2, 2)], [(0, 1)], root=0), foreign)
    work = work_of(tmp_path)
    found = [work.finished(name, image) is not None for name, image in zip(names, images, strict=True)]
    assert found == [False, True, False, False, False]


def test_an_image_that_changes_while_it_is_predicted_is_predicted_again(plate, tmp_path, monkeypatch):
    predict_one = Engine.__call__

    def changing(self, images):
        Image.fromarray(np.full((128, 128, 3), 255, dtype=np.uint8)).save(plate / "day0.png")
        return predict_one(self, images)

    monkeypatch.setattr(Engine, "__call__", changing)
    work = work_of(tmp_path)
    assert len(list(work.predict(["day0"], [plate / "day0.png"]))) == 1
    assert work.finished("day0", plate / "day0.png") is None


def test_a_correction_that_is_saved_while_dates_are_predicted_is_kept(plate, tmp_path):
    names = ["day1", "day2"]
    results = work_of(tmp_path).predict(names, [plate / f"{name}.png" for name in names])
    next(results)
    corrected = Skeleton([(9, 9), (9, 70)], [(0, 1)], root=0, metadata={"editor": {}})
    write(corrected, prediction_file(tmp_path, "day2"))
    assert len(next(results)[0]) == 4
    assert len(read(prediction_file(tmp_path, "day2"))) == 2


def test_an_unreadable_image_is_an_error_of_its_date(plate, tmp_path):
    (plate / "day0.png").write_bytes(b"no image")
    (plate / "day1.png").unlink()
    work = work_of(tmp_path, views=3)
    images = [plate / f"day{day}.png" for day in range(3)]
    first, second, third = work.predict(["day0", "day1", "day2"], images)
    assert isinstance(first, TreeformerError)
    assert isinstance(second, TreeformerError)
    assert [len(view) for view in third] == [4, 4, 4]
    assert work.finished("day1", images[1]) is None
    assert work.finished("day2", images[2]) is not None


def test_views_are_recorded_and_predict_the_same_places(plate, tmp_path):
    ((first, *others),) = work_of(tmp_path, views=4).predict(["day3"], [plate / "day3.png"])
    assert [one.metadata["prediction"].get("view") for one in (first, *others)] == [None, *VIEWS[1:]]
    for one in others:
        assert one.nodes == pytest.approx(first.nodes)
        assert (one.image_name, one.image_size) == ("day3.png", (128, 128))
    assert sorted(file.name for file in (tmp_path / ".views").iterdir()) == [f"day3.{view}.json" for view in (1, 2, 3)]


def test_more_views_than_an_earlier_run_are_predicted_again(plate, tmp_path):
    list(work_of(tmp_path, views=2).predict(["day3"], [plate / "day3.png"]))
    assert work_of(tmp_path, views=1).finished("day3", plate / "day3.png") is not None
    assert work_of(tmp_path, views=4).finished("day3", plate / "day3.png") is None


@pytest.mark.slow
def test_a_series_of_views_resumes_and_finds_the_same_lengths(run, tmp_path):
    result, count = run(tmp_path / "one")
    assert (result.exit_code, count) == (0, DATES)
    result, count = run(tmp_path / "out", views=4, interrupted=10)
    assert "treeformer: 2 of 5 dates predicted; --resume continues" in result.output
    result, count = run(tmp_path / "out", "--resume", views=4)
    assert (result.exit_code, count) == (0, 4 * (DATES - 2)), result.output
    tables = [(tmp_path / name / "axes_over_time.csv").read_text() for name in ("one", "out")]
    assert tables[0] == tables[1]


@pytest.mark.parametrize("views", [0, 5])
def test_a_wrong_number_of_views_is_one_line(run, tmp_path, views):
    assert str(run(tmp_path / "out", views=views)[0].exception) == f"--views must be from 1 to 4, not {views}"
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--resume",)])
def test_predictions_that_were_corrected_are_used_and_kept(run, tmp_path, options):
    out = tmp_path / "out"
    run(out, interrupted=3)
    file = out / "skeletons" / "day1.json"
    corrected = read(file)
    write(corrected.replace(nodes=corrected.nodes + 1, metadata={**corrected.metadata, "editor": {}}), file)
    before = file.read_bytes()
    result, count = run(out, *options)
    assert (result.exit_code, count) == (0, DATES - (2 if options else 1))
    assert file.read_bytes() == before
    assert read(out / "rsml" / "day1.rsml").nodes == pytest.approx(corrected.nodes + 1)
    result, count = run(out, "--predict", *options)
    assert count == 0
    assert "day1.json: was corrected in the editor" in str(result.exception)
