"""Small skeletons whose traits are easy to compute by hand. Tests of traits must not emit warnings."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest

from treeformer import Axis, Plant, Skeleton


@pytest.fixture(autouse=True)
def _no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.fixture
def bent() -> Skeleton:
    """One axis of 5 + 6 + 8 px: down to the right, straight down, horizontally to the left."""
    return Skeleton([(0, 0), (3, 4), (3, 10), (-5, 10)], [(0, 1), (1, 2), (2, 3)], root=0)


@pytest.fixture
def off_the_line() -> Skeleton:
    """A main axis of 10 px, and a lateral of 4 px whose first point lies 1 px off it. Node 4 joins them."""
    axes = [Axis(nodes=(0, 1), id="main", label="tap"), Axis(nodes=(2, 3), id="side", parent=0)]
    nodes = [(0, 0), (0, 10), (1, 4), (5, 4), (0, 4)]
    edges = [(0, 4), (4, 1), (4, 2), (2, 3)]
    records = [Plant(id="p7", label="seventh")]
    return Skeleton(nodes, edges, root=0, axes=axes, edge_axis=[0, 0, 1, 1], plant=[0] * 5, plant_records=records)


@pytest.fixture
def star() -> Skeleton:
    """Three axes of order 0 from one seed, of 10, 5 and 3 px: down, down to the left, horizontally to the right."""
    return Skeleton([(0, 0), (0, 10), (-3, 4), (3, 0)], [(0, 1), (0, 2), (0, 3)], root=0)


@pytest.fixture
def nested() -> Skeleton:
    """A main axis of 8 px down, its lateral of 6 px to the right, and a lateral of that of 2 px down."""
    nodes = [(0, 0), (0, 4), (0, 8), (3, 4), (6, 4), (3, 6)]
    return Skeleton(nodes, [(0, 1), (1, 2), (1, 3), (3, 4), (3, 5)], root=0)
