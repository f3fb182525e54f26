"""The files that a series writes: readable, schema-valid, complete."""

from __future__ import annotations

import io
import weakref

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from tests.timeseries.series_factory import comb
from treeformer import Series, Skeleton, TreeformerError, read
from treeformer.formats.rsml.reader import resolution_px_per_mm
from treeformer.results.layout import SERIES_LIST
from treeformer.timeseries import figures


@pytest.fixture(scope="module")
def series():
    dates = [(k, comb(40 + 20 * k, [(30, 9 * k)]).replace(image_name=f"day{k}.png")) for k in range(4)]
    return Series(dates, register=False)


@pytest.mark.slow
def test_files(series, tmp_path):
    images = [np.full((300, 300, 3), 40 * k, dtype=np.uint8) for k in range(4)]
    written = series.write(tmp_path / "out", px_per_mm=5, images=images, names=["a", "b", "c", "d"])
    found = sorted(path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*.*"))
    assert sorted([SERIES_LIST, *written]) == found
    last = read(tmp_path / "out" / "rsml" / "d.rsml")
    assert [axis.id for axis in last.axes] == ["1.1", "1.1.1"]
    assert last.metadata["rsml"]["time-sequence"] == {"label": "series", "index": 3, "unified": True}
    assert resolution_px_per_mm(last) == pytest.approx(5)
    whole = read(tmp_path / "out" / "combined" / "series.rsml")
    assert {function.name for axis in whole.axes for function in axis.functions} == {"age"}
    assert all(len(axis.functions[0].samples) == len(axis.nodes) for axis in whole.axes)
    assert whole.axes[1].nodes[0] in whole.axes[0].nodes
    table = pd.read_csv(tmp_path / "out" / "axes_over_time.csv")
    assert len(table) == 4 + 3
    assert table["unit"].unique().tolist() == ["mm"]
    assert table["image"].tolist()[:4] == ["day0.png", "day1.png", "day2.png", "day3.png"]
    assert len(pd.read_csv(tmp_path / "out" / "registration.csv")) == 4
    with Image.open(tmp_path / "out" / "animation.webp") as moving:
        assert moving.n_frames == 4


def test_a_series_without_plants_is_written(tmp_path):
    series = Series([(0, Skeleton([], [], image_size=(64, 64))), (1, Skeleton([], [], image_size=(64, 64)))])
    written = series.write(tmp_path)
    assert "combined/series.rsml" in written
    assert len(pd.read_csv(tmp_path / "axes.csv")) == 0


def test_names_and_images_must_fit(series, tmp_path):
    with pytest.raises(TreeformerError, match="4 dates needs as many different names"):
        series.write(tmp_path, names=["a", "a", "b", "c"])
    with pytest.raises(TreeformerError, match="4 dates needs as many images, not 1"):
        series.write(tmp_path, images=["a.png"])


def test_an_unwritable_folder_is_one_line(series, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(TreeformerError):
        series.write(tmp_path / "file")


def test_the_kymograph_shows_the_image_along_the_axis(series):
    """A dark image with a bright root: columns are bright down to the tip of their date."""
    images = []
    for k in range(4):
        image = np.zeros((300, 300), dtype=np.uint8)
        image[10 : 50 + 20 * k, 96:105] = 255
        images.append(image)
    drawn = np.asarray(figures.kymograph(series, series.tracks[0], images).convert("RGB")).astype(int)
    strip = drawn[34 : 34 + 100, 60:220]
    columns = [strip[:, 40 * k + 6 : 40 * k + 12] for k in range(4)]  # beside the line of the tip's markers
    for k, column in enumerate(columns):
        bright = (column.min(axis=2) > 200).all(axis=1)
        assert bright[: 36 + 20 * k].mean() > 0.9
        assert bright[44 + 20 * k :].sum() <= 2


def test_curves_and_frames_are_drawn(series):
    curves = np.asarray(figures.length_curves(series))
    colors = figures.axis_colors(series)
    for track in series.tracks:
        assert (curves == colors[track.id]).all(axis=2).sum() > 30
    frame = np.asarray(figures.frame(series, 3))
    assert (frame[20:100, 95:105] == colors["1.1"]).all(axis=2).any()
    assert figures.ticks(0, 1) == [0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert figures.ticks(5, 5) == [5]
    with Image.open(io.BytesIO(figures.animation(series))) as moving:
        assert moving.n_frames == 4


def test_an_animation_holds_one_frame_at_a_time(series, monkeypatch):
    drawn: list[weakref.ref[Image.Image]] = []
    most = 0
    draw = figures.frame

    def counted(*arguments):
        nonlocal most
        most = max(most, sum(one() is not None for one in drawn))
        image = draw(*arguments)
        drawn.append(weakref.ref(image))
        return image

    monkeypatch.setattr(figures, "frame", counted)
    images = [np.full((300, 300, 3), 60 * k, dtype=np.uint8) for k in range(4)]
    streamed = figures.animation(series, images)
    assert len(drawn) >= 4
    assert most <= 1
    frames = [draw(series, k, images[k]) for k in range(4)]
    whole = io.BytesIO()
    frames[0].save(
        whole, "WEBP", save_all=True, append_images=frames[1:], duration=figures.FRAME_MS, quality=80, method=2
    )
    assert streamed == whole.getvalue()


def test_frames_of_skeletons_without_image_size():
    """The image is larger than the frame, and so reduced while it is read."""
    pixels = np.full((2000, 2000, 3), 255, dtype=np.uint8)
    pixels[1000:, 1000:] = 0
    series = Series([(0, Skeleton([(1000, 1000), (1990, 1990)], [(0, 1)], root=0))], register=False)
    drawn = np.asarray(figures.frame(series, 0, pixels)).astype(int)
    dark = np.argwhere(drawn.max(axis=2) < 60)
    assert dark[(dark > 100).all(axis=1)].min(axis=0).tolist() == pytest.approx([360, 360], abs=4)
