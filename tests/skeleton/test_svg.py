"""The drawing of a skeleton in a notebook."""

from __future__ import annotations

import re
import subprocess
import sys
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given

from tests.strategies import forests, graphs
from treeformer import Skeleton
from treeformer.skeleton.svg import MAX_LINES

SVG = "{http://www.w3.org/2000/svg}"


def parsed(skeleton: Skeleton) -> ElementTree.Element:
    return ElementTree.fromstring(skeleton._repr_html_())


def lines(skeleton: Skeleton) -> list[np.ndarray]:
    """The lines of each path, (L,2,2)."""
    found = [path.get("d") for path in parsed(skeleton).iter(f"{SVG}path")]
    numbers = [[float(text) for text in re.findall(r"-?[0-9.]+", data)] for data in found]
    return [np.reshape(values, (-1, 2, 2)) for values in numbers]


def test_the_counts_are_in_the_title(y_shape):
    assert parsed(y_shape).find(f"{SVG}title").text == "tree, 1 plant, 4 nodes, 3 edges"
    assert parsed(y_shape).get("width") == "320"


def test_there_is_one_path_per_plant_and_one_for_the_roots():
    forest = Skeleton([(0, 0), (0, 50), (90, 0), (90, 50), (40, 20)], [(0, 1), (2, 3)], root=[0], image_size=(100, 50))
    plants = lines(forest)
    assert [len(path) for path in plants] == [1, 1, 1, 1]
    assert plants[0].tolist() == [[[1, 1], [1, 160]]], "318 px for 100 px of the image"
    assert plants[1][0, 0].tolist() == plants[1][0, 1].tolist(), "a single node is a dot"
    assert plants[3][0, 0].tolist() == [1, 1], "the root"


@given(forests() | graphs())
def test_any_skeleton_is_drawn_inside(skeleton):
    height = float(parsed(skeleton).get("height"))
    for path in lines(skeleton.replace(image_size=None)):
        assert (path >= 0).all()
        assert (path[..., 0] <= 320).all()
    assert 20 < height <= 502


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["line", "star", "isolated"])
def test_large_skeletons_stay_small(shape):
    count = 200_000
    angle = np.linspace(0, 20, count)
    nodes = np.stack([angle * np.cos(angle), angle * np.sin(angle)], axis=1) * 100
    if shape == "line":
        edges = np.stack([np.arange(count - 1), np.arange(1, count)], axis=1)
    elif shape == "star":
        edges = np.stack([np.zeros(count - 1, int), np.arange(1, count)], axis=1)
    else:
        edges = []
    skeleton = Skeleton(nodes, edges, plant=np.zeros(count, int))
    text = skeleton._repr_html_()
    assert f"{count:,} nodes" in text
    assert 50 < text.count("M") <= MAX_LINES + 5
    assert len(text) < 120_000


def test_limits_and_plants_that_share_an_edge():
    Skeleton([(1e7, -1e7), (-1e7, 1e7)], [(0, 1)])._repr_html_()
    Skeleton([(0, 0), (1, 1)], [(0, 1)], image_size=(10**7, 1))._repr_html_()
    Skeleton([(0, 0), (1, 1)], [(0, 1)], plant=[0, 1])._repr_html_()


def test_nothing_heavy_is_imported():
    code = (
        "import sys, treeformer; treeformer.Skeleton([(0, 0), (1, 2)], [(0, 1)])._repr_html_();"
        "sys.exit(' '.join({'pandas', 'matplotlib', 'networkx', 'PIL'} & set(sys.modules)) or 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
