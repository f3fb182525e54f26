"""`predict_many`: any number of images, in order, with threads and with worker processes."""

from __future__ import annotations

import functools
import itertools
import multiprocessing
import os
import threading
import time
from collections import deque
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.inference.fake_engine import ColorEngine, drawn, line_engine, predictor, random_tree
from tests.inference.test_tiles import as_sets
from treeformer import Skeleton, TreeformerError
from treeformer.errors import FormatError
from treeformer.inference.options import PredictionOptions
from treeformer.inference.prepare import TooLargeError, prepare, try_prepare
from treeformer.inference.workers import MAX_SENT_PIXELS

TREE = random_tree(seed=1, count=30, size=(128, 128), longest_edge=60)


def stream(tmp_path) -> list:
    """Return images of one tree: whole, cropped and tiled, and a file that is not an image."""
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"no image")
    whole = drawn(TREE)
    wide = np.full((200, 300, 3), 255, np.uint8)
    wide[30:158, 100:228] = whole
    return [whole, broken, wide, whole[:60], whole[:, 40:], wide, whole]


@pytest.mark.slow
@pytest.mark.parametrize(("batch", "workers"), [(1, 0), (1, 1), (3, 2), (64, 5)])
def test_predict_many_gives_the_results_of_predict_in_order_and_returns_errors(tmp_path, batch, workers):
    images = stream(tmp_path)
    engine = ColorEngine(TREE, 128)
    results = list(predictor(engine).predict_many(images, batch=batch, workers=workers, working_size="full"))
    assert max(engine.calls) <= batch
    assert isinstance(results[1], TreeformerError)
    assert "broken.png" in str(results[1])
    for index in (0, 2, 3, 4, 5, 6):
        assert results[index] == predictor(engine).predict(images[index], working_size="full")


@pytest.mark.parametrize("processes", [False, True])
def test_without_workers_images_are_read_in_the_calling_thread(tmp_path, monkeypatch, processes):
    readers = []

    def spy(*arguments, **options):
        readers.append((os.getpid(), threading.current_thread()))
        return try_prepare(*arguments, **options)

    monkeypatch.setattr("treeformer.inference.predictor.try_prepare", spy)
    images = stream(tmp_path)
    results = predictor(ColorEngine(TREE, 128)).predict_many(images, workers=0, processes=processes)
    assert len(list(results)) == len(images)
    assert readers == [(os.getpid(), threading.main_thread())] * len(images)


def test_batches_are_filled_in_the_memory_that_the_engine_reads_fastest():
    class OwnMemory(ColorEngine):
        def input_memory(self, batch):
            made.append(np.empty((batch, self.input_size, self.input_size, 3), np.uint8))
            return made[-1]

        def __call__(self, images):
            assert any(np.shares_memory(images, memory) for memory in made)
            return super().__call__(images)

    made = []
    own = predictor(OwnMemory(TREE, 128))
    images = [drawn(TREE), np.zeros((128, 128, 3), np.uint8), drawn(TREE)]
    expected = list(predictor(ColorEngine(TREE, 128)).predict_many(images, batch=2))
    assert list(own.predict_many(images, batch=2)) == expected
    assert len(made) == 2


def test_a_negative_number_of_workers_is_an_error():
    with pytest.raises(TreeformerError, match="workers must be 0"):
        list(predictor(ColorEngine(TREE, 128)).predict_many([], workers=-1))


@pytest.mark.parametrize("image", [drawn(TREE), drawn(TREE)[..., 0], "a.png", Path("a.png"), Image.new("RGB", (9, 9))])
def test_predict_many_rejects_a_single_image(image):
    """The rows of an array would otherwise be taken for images, 3 px wide."""
    with pytest.raises(TreeformerError, match="this is one"):
        list(predictor(ColorEngine(TREE, 128)).predict_many(image))


def test_predict_many_accepts_an_array_of_images():
    frames = np.stack([drawn(TREE), drawn(TREE)[::-1]])
    by_color = predictor(ColorEngine(TREE, 128))
    assert list(by_color.predict_many(frames)) == [by_color.predict(frame) for frame in frames]
    assert len(list(by_color.predict_many(frames[..., 0]))) == 2


@pytest.mark.slow
@pytest.mark.parametrize(("batch", "chunk"), [(2, 8), (16, 3)])
def test_worker_processes_give_the_same_results(tmp_path, monkeypatch, batch, chunk):
    in_memory = stream(tmp_path)
    files = []
    for number, image in enumerate(in_memory):
        files.append(image if number == 1 else tmp_path / f"{number}.png")
        if number != 1:
            Image.fromarray(image).save(files[-1])
    # Several errors, more images than rows in the shared memory, and images of all kinds.
    images = [*in_memory, *(2 * [tmp_path / "missing.png"]), Image.open(files[2]), *files, *(5 * [files[1], *files])]
    monkeypatch.setattr("treeformer.inference.workers.CHUNK", chunk)
    options = {"batch": batch, "working_size": "full"}
    by_threads = list(predictor(ColorEngine(TREE, 128)).predict_many(images, workers=2, **options))
    by_processes = list(predictor(ColorEngine(TREE, 128)).predict_many(images, workers=1, processes=True, **options))
    expected, found = (
        [result if isinstance(result, Skeleton) else str(result) for result in results]
        for results in (by_threads, by_processes)
    )
    assert found == expected
    assert {type(result) for result in by_processes} == {Skeleton, FormatError}


class LateReader(ColorEngine):
    """Reads its input some time after it was called, and counts the calls whose input is not a copy."""

    views = 0

    def __call__(self, images):
        self.views += images.base is not None and not images.base.flags.owndata
        time.sleep(0.2)
        return super().__call__(images)


@pytest.mark.slow
def test_unreadable_files_do_not_let_workers_overwrite_the_input_of_the_engine(tmp_path):
    """The memory has ten rows: without waiting for the engine, the last files would take those of the first two."""
    down, up = tmp_path / "down.png", tmp_path / "up.png"
    Image.fromarray(drawn(TREE)).save(down)
    Image.fromarray(drawn(TREE)[::-1].copy()).save(up)
    engine = LateReader(TREE, 128)
    files = [down, down, *(8 * [tmp_path / "missing.png"]), up, up, down, up]
    found = list(predictor(engine).predict_many(files, batch=2, workers=1, processes=True))
    assert [isinstance(result, FormatError) for result in found] == [not file.exists() for file in files]
    expected = {file: predictor(ColorEngine(TREE, 128)).predict(file) for file in (down, up)}
    assert expected[down] != expected[up]
    assert all(result == expected[file] for result, file in zip(found, files, strict=True) if file.exists())
    assert engine.views == 3


class AheadEngine(ColorEngine):
    """Returns the output of a batch only after the next one has begun, as a GPU that never waits."""

    batches = 3

    def begin_rows(self, images):
        raw = self(images)
        number = len(self.calls) - 1
        self.begun[number].set()

        def finish():
            assert number + 1 == self.batches or self.begun[number + 1].wait(600), "the next batch has not begun"
            return [(raw, row) for row in range(len(images))]

        return finish

    @functools.cached_property
    def begun(self):
        return [threading.Event() for _ in range(self.batches)]


def test_a_batch_begins_before_the_output_of_the_previous_one_is_read():
    engine = AheadEngine(TREE, 128)
    found = list(predictor(engine).predict_many(5 * [drawn(TREE)], batch=2))
    assert engine.calls == [2, 2, 1]
    assert found == 5 * [predictor(ColorEngine(TREE, 128)).predict(drawn(TREE))]


@pytest.mark.slow
def test_a_worker_process_that_is_killed_is_a_one_line_error(tmp_path):
    Image.fromarray(drawn(TREE)).save(tmp_path / "plant.png")
    endless = itertools.repeat(tmp_path / "plant.png")
    results = predictor(ColorEngine(TREE, 128)).predict_many(endless, batch=2, workers=1, processes=True)
    assert as_sets(next(results)) == as_sets(TREE)
    (worker,) = multiprocessing.active_children()
    worker.kill()
    with pytest.raises(TreeformerError, match="a worker process ended before its work was done"):
        deque(results, maxlen=0)


@pytest.mark.slow
def test_an_image_that_is_too_large_to_send_is_opened_in_the_calling_process(tmp_path):
    ground_truth = random_tree(seed=3, count=40, size=(2100, 2000), longest_edge=400)
    Image.fromarray(drawn(ground_truth)).save(tmp_path / "large.png")
    large = predictor(ColorEngine(ground_truth, 512))
    with pytest.raises(TooLargeError):
        prepare(
            tmp_path / "large.png",
            PredictionOptions(large.model, "full", False, None),
            512,
            max_pixels=MAX_SENT_PIXELS,
        )
    (found,) = large.predict_many([tmp_path / "large.png"], working_size="full", workers=1, processes=True)
    assert found == large.predict(tmp_path / "large.png", working_size="full")
    assert len(found) > 10


def test_all_edges_are_kept_for_a_few_tiles_only(monkeypatch):
    whole = predictor(ColorEngine(TREE, 64)).predict(drawn(TREE), working_size="full")
    monkeypatch.setattr("treeformer.inference.accumulator.MAX_PENDING_TILES", 2)
    assert predictor(ColorEngine(TREE, 64)).predict(drawn(TREE), working_size="full") == whole
    options = PredictionOptions(predictor(ColorEngine(TREE, 64)).model, "full", False, None)
    prepared, engine = prepare(drawn(TREE), options, 64), ColorEngine(TREE, 64)
    accumulator = prepared.accumulator
    assert len(accumulator.tiles) == 9
    for pixels in prepared.inputs():
        accumulator.add(engine(pixels[None]), 0)
        assert len(accumulator.pending) <= 2
    assert accumulator.is_complete


def test_images_are_taken_as_they_are_needed():
    taken = []

    def endless():
        while True:
            taken.append(1)
            yield drawn(TREE)

    results = predictor(ColorEngine(TREE, 128)).predict_many(endless(), batch=2, workers=1)
    assert as_sets(next(results)) == as_sets(TREE)
    results.close()
    assert len(taken) < 20


def test_no_images_give_no_results_and_an_empty_batch_is_an_error():
    assert list(predictor(line_engine()).predict_many([])) == []
    with pytest.raises(TreeformerError, match="batch"):
        list(predictor(line_engine()).predict_many([np.zeros((9, 9), np.uint8)], batch=0))
