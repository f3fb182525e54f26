"""The example of a camera stream, with a camera and a clock that the test moves: nothing depends on wall time."""

from __future__ import annotations

import importlib.util
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from tests.inference.fake_engine import ColorEngine, predictor
from treeformer import Skeleton, TreeformerError

PATH = Path(__file__).parents[1] / "examples" / "camera_stream.py"
spec = importlib.util.spec_from_file_location("camera_stream", PATH)
stream = importlib.util.module_from_spec(spec)
sys.modules["camera_stream"] = stream  # dataclasses look up their module
spec.loader.exec_module(stream)

TREE = Skeleton([(5, 9), (5, 5), (2, 1), (8, 1)], [(0, 1), (1, 2), (1, 3)], root=0, image_size=(10, 10))


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def run(steps, predict_s=0.0, max_age_s=1.0):
    """Run a stream in which every prediction waits until the camera has delivered its next step.

    Args:
        steps: lists of (frame, age at capture); all frames of a list arrive during one prediction.
        predict_s: time that a prediction takes on the clock.
        max_age_s: as for `run`.

    Returns:
        The report and the frames that were predicted and used.
    """
    clock, go, delivered = Clock(), threading.Semaphore(1), threading.Semaphore(0)
    predicted, used = [], []

    def camera():
        for frames in steps:
            go.acquire()
            for frame, age in frames:
                yield frame, clock.now - age
            delivered.release()

    def predict(frame):
        # A generator continues after its last `yield` only when the next frame is requested: `delivered` says so.
        assert delivered.acquire(timeout=600)
        predicted.append(frame)
        if len(predicted) < len(steps):
            go.release()
            assert delivered.acquire(timeout=600)
            delivered.release()
        clock.now += predict_s
        if frame is None:
            raise TreeformerError("not an image")
        return TREE.replace(image_name=frame)

    report = stream.run(camera(), predict, lambda tree, age: used.append((tree.image_name, age)), max_age_s, clock)
    return report, predicted, used


def test_the_newest_frame_wins():
    report, predicted, used = run([[("a", 0)], [("b", 0), ("c", 0), ("d", 0)], [("e", 0)]])
    assert predicted == ["a", "d", "e"]
    assert [name for name, _ in used] == ["a", "d", "e"]
    assert (report.replaced, report.late, report.failed) == (2, 0, 0)


def test_results_that_have_become_too_old_are_not_used():
    report, predicted, used = run([[("a", 0.8)], [("b", 0.2)]], predict_s=0.5)
    assert predicted == ["a", "b"]
    # "a" is 1.3 s old after its prediction. "b" arrives 0.2 s old before that time has passed, and is 1.2 s old then.
    assert used == []
    assert report.late == 2
    report, predicted, used = run([[("a", 0.2)]], predict_s=0.5)
    assert used == [("a", pytest.approx(0.7))]
    assert report.latencies == [pytest.approx(0.7)]


def test_old_frames_are_not_predicted():
    newest = [("old", 50.0)]
    report = stream.run(iter([(name, 100.0 - age) for name, age in newest]), pytest.fail, pytest.fail, 1.0, Clock())
    assert (report.late, report.latencies) == (1, [])


def test_a_frame_that_is_no_image_does_not_stop_the_stream():
    report, _, used = run([[(None, 0)], [("b", 0)]])
    assert report.failed == 1
    assert [name for name, _ in used] == ["b"]


def test_an_error_of_the_camera_is_raised_after_its_frames():
    def camera():
        yield "a", 100.0
        raise OSError("unplugged")

    used = []
    with pytest.raises(OSError, match="unplugged"):
        stream.run(camera(), lambda _: TREE, lambda tree, _: used.append(tree), 1.0, Clock())
    assert used == [TREE]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "photos").mkdir()
    Image.new("RGB", (32, 32), "white").save(tmp_path / "photos" / "a.png")
    (tmp_path / "empty").mkdir()
    return tmp_path


@pytest.fixture
def fake_model(monkeypatch):
    model = predictor(ColorEngine(TREE, 64))
    monkeypatch.setattr(stream.treeformer, "load_model", lambda *_, **__: model, raising=False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("photos", "--working-size", "-3"), "the working size must be a positive number of pixels"),
        (("photos", "--working-size", "0"), "the working size must be a positive number of pixels"),
        (("photos", "--frames-per-s", "0"), "argument --frames-per-s: must be a positive number, not 0"),
        (("photos", "--frames-per-s", "nan"), "argument --frames-per-s: must be a positive number, not nan"),
        (("photos", "--max-age", "-1"), "argument --max-age: must be a positive number, not -1"),
        (("nope",), "nope: cannot be read (No such file or directory)"),
        (("photos/a.png",), "photos/a.png: cannot be read (Not a directory)"),
        (("empty",), "empty: contains no image"),
        ((), "give a folder, or --camera"),
    ],
)
def test_a_mistake_is_one_line(folder, fake_model, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(folder)
    with pytest.raises(SystemExit) as exit_:
        stream.main(arguments)
    assert exit_.value.code == 2
    out, err = capsys.readouterr()
    assert (out, message in err.splitlines()[-1]) == ("", True), err


def test_an_unknown_model_is_one_line(folder, capsys):
    with pytest.raises(SystemExit) as exit_:
        stream.main([str(folder / "photos"), "--model", str(folder / "empty")])
    assert exit_.value.code == 2
    assert str(folder / "empty") in capsys.readouterr().err.splitlines()[-1]


def test_opencv_is_missing_or_its_camera(monkeypatch, capsys):
    monkeypatch.setattr(stream.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(SystemExit):
        stream.main(["--camera", "0"])
    assert "pip install opencv-python" in capsys.readouterr().err
    closed = SimpleNamespace(isOpened=lambda: False, release=lambda: None)
    monkeypatch.setitem(sys.modules, "cv2", SimpleNamespace(VideoCapture=lambda _: closed))
    with pytest.raises(TreeformerError, match="camera 7 cannot be opened"):
        next(stream.opencv_camera(7))


@pytest.mark.slow
def test_the_stream_of_a_folder(folder, fake_model, recwarn, capsys):
    """The blank frame at the start is not counted and does not warn."""
    (folder / "photos" / "a.png").write_bytes(b"no image")
    stream.main([str(folder / "photos"), "--frames-per-s", "1e9", "--max-age", "inf"])
    assert capsys.readouterr().out == "0 used, 0 replaced, 0 late, 1 failed\n"
    assert not [warning for warning in recwarn if "no plant was found" in str(warning.message)]


def test_the_report_is_printed_after_ctrl_c(folder, fake_model, monkeypatch, capsys):
    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(stream, "cut_points", stopped)
    monkeypatch.setattr(stream, "folder_camera", lambda *_: iter([(np.zeros((32, 32, 3), np.uint8), 0.0)]))
    with pytest.raises(SystemExit) as exit_:
        stream.main([str(folder / "photos"), "--max-age", "inf"])
    assert exit_.value.code == 130
    assert capsys.readouterr().out.startswith("1 used, 0 replaced, 0 late, 0 failed; latency p50 ")


def test_the_report_states_percentiles():
    report = stream.StreamReport(3, 2, 1, [k / 1000 for k in range(1, 101)])
    p50, p95, p99 = np.percentile(range(1, 101), (50, 95, 99))
    assert str(report) == (
        f"100 used, 3 replaced, 2 late, 1 failed; latency p50 {p50:.0f} ms, p95 {p95:.0f} ms, p99 {p99:.0f} ms"
    )
    assert str(stream.StreamReport()) == "0 used, 0 replaced, 0 late, 0 failed"


def test_cut_points_lie_on_laterals_and_grasp_points_on_main_axes():
    nodes = [(50, 100), (50, 60), (50, 20), (80, 60), (80, 30), (45, 60)]
    tree = Skeleton(nodes, [(0, 1), (1, 2), (1, 3), (3, 4), (1, 5)], root=0, image_size=(100, 100))
    assert [axis.parent for axis in tree.axes].count(None) == 1
    np.testing.assert_allclose(stream.cut_points(tree, 10.0), [(60, 60)])  # the lateral of 5 px is too short
    np.testing.assert_allclose(stream.cut_points(tree, 40.0), [(80, 50)])  # around the corner
    np.testing.assert_allclose(stream.grasp_points(tree), [(50, 60)])


def test_cut_points_do_not_lie_on_edges_of_low_score():
    nodes = [(50, 100), (50, 60), (50, 20), (80, 60), (80, 30)]
    edges, scores = [(0, 1), (1, 2), (1, 3), (3, 4)], [0.9, 0.9, 0.5, 0.9]
    tree = Skeleton(nodes, edges, root=0, edge_score=scores, image_size=(100, 100))
    assert stream.cut_points(tree, 10.0).shape == (0, 2)
    np.testing.assert_allclose(stream.cut_points(tree, 10.0, min_score=0.4), [(60, 60)])
    np.testing.assert_allclose(stream.cut_points(tree, 40.0), [(80, 50)])


def test_an_empty_skeleton_has_no_points():
    empty = Skeleton([], [])
    assert stream.cut_points(empty).shape == (0, 2)
    assert stream.grasp_points(empty).shape == (0, 2)
