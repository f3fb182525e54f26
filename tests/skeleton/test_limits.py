"""Limits of coordinates and of the number of new nodes: errors of one line instead of MemoryError."""

from __future__ import annotations

import math

import numpy as np
import pytest

import treeformer
from treeformer import FormatError, Skeleton, SkeletonError
from treeformer.formats import FORMATS


def with_all_limits() -> Skeleton:
    return Skeleton([(1e7, -1e7), (-1e7, 1e7)], [(0, 1)], radius=[1e7, np.nan], image_size=(10**7, 10**7))


def test_the_limits_are_valid():
    assert with_all_limits().length == pytest.approx(2e7 * math.sqrt(2))


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("resample", (1e-3,)),
        ("resample", (5e-324,)),
        ("sample_at_grid_crossings", (1e-3,)),
        ("sample_at_grid_crossings", (5e-324,)),
    ],
)
def test_too_many_new_nodes_are_an_error_of_one_line(method, arguments):
    with pytest.raises(SkeletonError, match=r"would make more than 10,000,000 nodes$"):
        getattr(with_all_limits(), method)(*arguments)


def test_a_grid_that_is_too_fine_for_the_coordinates_is_an_error():
    far = Skeleton([(1e7, 0), (1e7, 1e-9)], [(0, 1)])
    assert len(far.resample(1e-12)) == 1001
    with pytest.raises(SkeletonError, match="a grid of 1e-12 px is too fine"):
        far.sample_at_grid_crossings(1e-12)


@pytest.mark.parametrize("spacing", [0, -1, np.nan, np.inf, "wide", None, 10**400])
@pytest.mark.parametrize("method", ["resample", "sample_at_grid_crossings"])
def test_an_invalid_spacing_is_an_error_of_one_line(y_shape, method, spacing):
    with pytest.raises(SkeletonError, match="spacing must be a positive number of pixels, not ") as error:
        getattr(y_shape, method)(spacing)
    assert len(str(error.value)) < 120


@pytest.mark.parametrize(
    "affine",
    [np.diag([1e300, 1e300, 1]), np.diag([3, 1, 1]), [[1, 0, 1e308], [0, 1, 0]], "ab", [[10**400, 0, 0], [0, 1, 0]]],
)
def test_a_map_out_of_the_limits_is_an_error(affine):
    with pytest.raises(SkeletonError, match=r"coordinates must be|affine map must be"):
        with_all_limits().transform(affine)


def test_a_crop_out_of_the_limits_is_an_error(y_shape):
    with pytest.raises(SkeletonError, match="infinite crop"):
        y_shape.crop(-math.inf, 0, 9, 9)
    with pytest.raises(SkeletonError, match=r"coordinates must be within|image_size has"):
        y_shape.crop(-1e16, 0, 9, 9)


@pytest.mark.parametrize("name", [name for name, entry in FORMATS.items() if entry.write])
@pytest.mark.parametrize("value", ["1e16", "1e300"])
def test_readers_name_the_file(tmp_path, name, value):
    path = tmp_path / f"a{FORMATS[name].suffixes[0]}"
    line = Skeleton([(1, 2), (3, 12345.5), (9, 9)], [(0, 1), (1, 2)], root=0, image_size=(100, 20_000))
    treeformer.write(line, path, format=name)
    text = path.read_text("utf-8")
    assert "12345.5" in text
    path.write_text(text.replace("12345.5", value), "utf-8")
    with pytest.raises(FormatError, match=rf"^{path.name}: ") as error:
        treeformer.read(path, format=name)
    assert "\n" not in str(error.value)
