"""`InputBatch`: views of shared rows as long as they are consecutive, copies otherwise."""

from __future__ import annotations

import numpy as np
import pytest

from tests.inference.fake_engine import line_engine
from treeformer.inference.engine import predict_rows, readable_memory
from treeformer.inference.input_batch import InputBatch

SIDE = 2
ENGINE = line_engine(side=SIDE)


def shared(rows: int = 8) -> np.ndarray:
    """(R,2,2,3), each pixel has the number of its row."""
    return np.broadcast_to(np.arange(rows, dtype=np.uint8)[:, None, None, None], (rows, SIDE, SIDE, 3)).copy()


def filled(memory: np.ndarray | None, rows: list[int | None], size: int = 3) -> tuple[InputBatch[int], list]:
    """Add images, the number of each in its pixels; return the batch and what was taken of it when it was full."""
    batch: InputBatch[int] = InputBatch(ENGINE, size, memory)
    taken = []
    for number, row in enumerate(rows):
        elsewhere = np.full((SIDE, SIDE, 3), 100 + number, np.uint8)
        batch.add(number, elsewhere if row is None or memory is None else memory[row], row)
        if batch.is_full:
            taken.append(batch.take())
    if len(batch):
        taken.append(batch.take())
    return batch, taken


def numbers(taken: list) -> list[list[int]]:
    return [pixels[:, 0, 0, 0].tolist() for _, pixels in taken]


def test_consecutive_rows_are_not_copied():
    memory = shared()
    _, taken = filled(memory, [0, 1, 2, 3, 4, 5, 6])
    assert numbers(taken) == [[0, 1, 2], [3, 4, 5], [6]]
    assert [owners for owners, _ in taken] == [[0, 1, 2], [3, 4, 5], [6]]
    assert all(np.shares_memory(pixels, memory) for _, pixels in taken)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([0, 2, 3], [0, 2, 3]),
        ([6, 7, 0], [6, 7, 0]),
        ([0, None, 1], [0, 101, 1]),
        ([0, None, 2], [0, 101, 2]),
        ([None, 0, 1], [100, 0, 1]),
        ([3, 3, 3], [3, 3, 3]),
    ],
)
def test_other_images_are_copied_in_order(rows, expected):
    memory = shared()
    _, taken = filled(memory, [*rows, 4, 5, 6])
    assert numbers(taken) == [expected, [4, 5, 6]]
    assert [np.shares_memory(pixels, memory) for _, pixels in taken] == [False, True]


def test_all_images_are_copied_if_the_engine_may_not_read_shared_memory():
    _, taken = filled(None, [0, 1, 2, 3, 4, 5])
    assert numbers(taken) == [[100, 101, 102], [103, 104, 105]]
    assert not np.shares_memory(taken[0][1], taken[1][1]), "the engine reads one while the other is filled"


def test_copied_rows_may_be_overwritten():
    memory = shared()
    batch: InputBatch[str] = InputBatch(ENGINE, 3, memory)
    for row in (0, 1):
        batch.add("a", memory[row], row)
    batch.copy_rows()
    memory[:2] = 77
    batch.add("b", memory[2], 2)
    owners, pixels = batch.take()
    assert owners == ["a", "a", "b"]
    assert pixels[:, 0, 0, 0].tolist() == [0, 1, 2]
    batch.copy_rows()
    assert len(batch) == 0


def test_any_memory_is_readable_for_an_engine_without_memory_of_its_own():
    with readable_memory(ENGINE, shared()) as is_readable:
        assert is_readable
    assert [row for _, row in predict_rows(ENGINE, shared(3))] == [0, 1, 2]
