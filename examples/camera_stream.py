"""Predict the frames of a camera while it runs: the newest frame wins, late frames are dropped.

python examples/camera_stream.py photos/            # a folder in place of a camera, 30 frames per second
python examples/camera_stream.py --camera 0         # needs opencv-python

For every frame that is used, one line with the number of plants, the first cut point and the age of the frame. At the
end, also after Ctrl-C, the counts and the latency percentiles. docs/robot.md explains the choices.
"""

from __future__ import annotations

import argparse
import importlib.util
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import treeformer

MAX_AGE_S = 1.0
PERCENTILES = (50, 95, 99)
BLANK_FRAME = np.full((480, 640, 3), 255, np.uint8)


def cut_points(skeleton: treeformer.Skeleton, distance_px: float = 10.0, min_score: float = 0.8) -> np.ndarray:
    """Return a point on every lateral axis, at a distance from the axis that it grows from.

    Args:
        skeleton: a predicted skeleton; predictions state their axes and the scores of their edges.
        distance_px: distance along the lateral, px. Shorter laterals have no cut point.
        min_score: lowest score of the edge that the point lies on. A robot must not act on every edge.

    Returns:
        (C,2) px of the image.
    """
    scores = np.ones(len(skeleton.edges)) if skeleton.edge_score is None else skeleton.edge_score
    score = dict(zip(map(frozenset, skeleton.edges.tolist()), scores, strict=True))
    points = []
    for axis in skeleton.axes:
        line = skeleton.nodes[list(axis.nodes)]
        along = np.concatenate([[0.0], np.hypot(*np.diff(line, axis=0).T).cumsum()])
        if axis.parent is not None and along[-1] > distance_px:
            end = int(np.searchsorted(along, distance_px))  # the point lies between nodes end - 1 and end
            if score[frozenset(axis.nodes[end - 1 : end + 1])] >= min_score:
                points.append([np.interp(distance_px, along, line[:, k]) for k in (0, 1)])
    return np.array(points).reshape(-1, 2)


def grasp_points(skeleton: treeformer.Skeleton) -> np.ndarray:
    """Return the middle of every main axis, (M,2) px of the image."""
    points = []
    for axis in skeleton.axes:
        line = skeleton.nodes[list(axis.nodes)]
        along = np.concatenate([[0.0], np.hypot(*np.diff(line, axis=0).T).cumsum()])
        if axis.parent is None and along[-1] > 0:
            points.append([np.interp(along[-1] / 2, along, line[:, k]) for k in (0, 1)])
    return np.array(points).reshape(-1, 2)


class NewestFrame:
    """A place for one frame. A new frame replaces one that nobody has taken.

    Attributes:
        replaced: number of frames that were replaced.
    """

    def __init__(self) -> None:
        self.replaced = 0
        self._changed = threading.Condition()
        self._frame: tuple[Any, float] | None = None
        self._is_closed = False

    def put(self, frame: Any, captured: float) -> None:
        """Offer a frame.

        Args:
            frame: the image.
            captured: when it was captured, s.
        """
        with self._changed:
            self.replaced += self._frame is not None
            self._frame = (frame, captured)
            self._changed.notify()

    def close(self) -> None:
        """Say that no frame will follow."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    def take(self) -> tuple[Any, float] | None:
        """Wait for a frame and return it with its time, or None after the last one."""
        with self._changed:
            self._changed.wait_for(lambda: self._frame is not None or self._is_closed)
            taken, self._frame = self._frame, None
            return taken


@dataclass
class StreamReport:
    """What became of the frames.

    Attributes:
        replaced: frames that a newer one replaced before they were predicted.
        late: frames that were too old, before or after the prediction.
        failed: frames that are no images, such as None.
        latencies: age of the used frames after the prediction, s.
    """

    replaced: int = 0
    late: int = 0
    failed: int = 0
    latencies: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        used = len(self.latencies)
        text = f"{used} used, {self.replaced} replaced, {self.late} late, {self.failed} failed"
        if used:
            values = np.percentile(self.latencies, PERCENTILES)
            named = (f"p{name} {1000 * value:.0f} ms" for name, value in zip(PERCENTILES, values, strict=True))
            text += f"; latency {', '.join(named)}"
        return text


def run(
    camera: Iterable[tuple[Any, float]],
    predict: Callable[[Any], treeformer.Skeleton],
    use: Callable[[treeformer.Skeleton, float], None],
    max_age_s: float = MAX_AGE_S,
    clock: Callable[[], float] = time.monotonic,
    report: StreamReport | None = None,
) -> StreamReport:
    """Predict the newest frame again and again until the camera ends.

    Args:
        camera: yields frames and the times at which they were captured, s on `clock`. It is read in a thread.
        predict: turns a frame into a skeleton, such as `treeformer.load_model().predict`.
        use: called with the skeleton and its age, s.
        max_age_s: greatest age of a frame that is predicted, and of a skeleton that is used, s.
        clock: returns the present time, s.
        report: filled while the stream runs, so that it is there after Ctrl-C. By default a new one.

    Returns:
        The report: the counts and the latencies.

    Raises:
        Exception: whatever the camera raises, after the frames before it.
    """
    newest, errors = NewestFrame(), []
    report = StreamReport() if report is None else report

    def read() -> None:
        try:
            for frame, captured in camera:
                newest.put(frame, captured)
        except Exception as error:  # raised in the calling thread below
            errors.append(error)
        finally:
            newest.close()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    while (taken := newest.take()) is not None:
        report.replaced = newest.replaced
        frame, captured = taken
        if clock() - captured > max_age_s:
            report.late += 1
            continue
        try:
            skeleton = predict(frame)
        except treeformer.TreeformerError:
            report.failed += 1
            continue
        age = clock() - captured
        if age > max_age_s:
            report.late += 1
            continue
        report.latencies.append(age)
        use(skeleton, age)
    reader.join()
    report.replaced = newest.replaced
    if errors:
        raise errors[0]
    return report


def image_files(folder: Path) -> list[Path]:
    """Return the images of a folder, sorted by name.

    Raises:
        TreeformerError: if the folder cannot be read or has no image.
    """
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix.lower() in (".jpg", ".jpeg", ".png"))
    except OSError as error:
        raise treeformer.TreeformerError(f"{folder}: cannot be read ({error.strerror})") from None
    if not paths:
        raise treeformer.TreeformerError(f"{folder}: contains no image")
    return paths


def folder_camera(paths: Sequence[Path], frames_per_s: float) -> Iterator[tuple[Any, float]]:
    """Yield images at the pace of a camera.

    Args:
        paths: the images.
        frames_per_s: frames per second.

    Yields:
        The path of an image, and the time.
    """
    for path in paths:
        time.sleep(1 / frames_per_s)
        yield path, time.monotonic()


def opencv_camera(number: int) -> Iterator[tuple[Any, float]]:
    """Yield the frames of a camera as RGB arrays, with the time.

    Args:
        number: number of the camera.

    Yields:
        An array (H,W,3), and the time.

    Raises:
        TreeformerError: if the camera cannot be opened.
    """
    import cv2

    capture = cv2.VideoCapture(number)
    try:
        if not capture.isOpened():
            raise treeformer.TreeformerError(f"camera {number} cannot be opened")
        while True:
            is_ok, frame = capture.read()
            if not is_ok:
                return
            yield frame[..., ::-1].copy(), time.monotonic()  # OpenCV gives BGR
    finally:
        capture.release()


def positive(text: str) -> float:
    """Return an argument of the command line as a positive number."""
    number = float(text)
    if not number > 0:  # also true for NaN
        raise argparse.ArgumentTypeError(f"must be a positive number, not {text}")
    return number


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line. `arguments` replaces those of the process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="folder of images in place of a camera")
    parser.add_argument("--camera", type=int, help="number of an OpenCV camera")
    parser.add_argument("--frames-per-s", type=positive, default=30.0, help="pace of a folder")
    parser.add_argument("--max-age", type=positive, default=MAX_AGE_S, help="greatest age of a frame, s")
    parser.add_argument("--working-size", type=int, default=512, help="length to which frames are reduced, px")
    parser.add_argument("--model", default="default", help="default, small, or a model folder")
    options = parser.parse_args(arguments)
    if (options.folder is None) == (options.camera is None):
        parser.error("give a folder, or --camera")
    if options.camera is not None and importlib.util.find_spec("cv2") is None:
        parser.error("--camera needs opencv-python: pip install opencv-python")

    def predict(frame: Any) -> treeformer.Skeleton:
        return model.predict(frame, working_size=options.working_size)

    def show(skeleton: treeformer.Skeleton, age: float) -> None:
        cuts = cut_points(skeleton)
        first = f", first at ({cuts[0][0]:.0f}, {cuts[0][1]:.0f})" if len(cuts) else ""
        print(f"plants: {len(skeleton.plants)}, cut points: {len(cuts)}{first}, {1000 * age:.0f} ms old", flush=True)

    try:
        camera = (
            opencv_camera(options.camera)
            if options.folder is None
            else folder_camera(image_files(options.folder), options.frames_per_s)
        )
        model = treeformer.load_model(options.model, engine="onnx")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*no plant was found")
            # The first prediction takes longer. It also finds wrong options, which would make every frame fail.
            predict(BLANK_FRAME)
        report = StreamReport()
        try:
            run(camera, predict, show, options.max_age, report=report)
        finally:  # also after Ctrl-C, the only end of a camera
            print(report)
    except treeformer.TreeformerError as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
