"""The XML of branch-trees: all files of the dataset, and synthetic files for other cases."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from lxml import etree

from treeformer import FormatError, Skeleton
from treeformer.formats import branch_trees


@pytest.mark.slow
def test_all_real_files(real_data: Callable[[str], Path]):
    paths = sorted(real_data("branch-trees").glob("*.xml"))
    assert len(paths) == 558
    plants, gaps = 0, []
    for path in paths:
        skeleton = branch_trees.read(path)
        assert skeleton.is_tree
        plants += len(skeleton.plants)
        # Compare with another parser: each line of the file is an axis, each point a node.
        lines = [e.text for e in etree.parse(path).iter() if e.tag.startswith("branch")]
        numbers = [[float(n) for n in re.findall(r"[-\d.e]+", line or "")] for line in lines]
        assert [skeleton.nodes[list(axis.nodes)].ravel().tolist() for axis in skeleton.axes] == numbers
        assert skeleton.axis_order.tolist() == [0] + [1] * (len(lines) - 1)
        assert skeleton.root == skeleton.axes[0].nodes[0]
        assert skeleton.image_name == path.with_suffix(".png").name
        # Only the edges that join branches to the trunk add to the length of the lines in the file.
        own = sum(float(np.hypot(*np.diff(skeleton.nodes[list(a.nodes)], axis=0).T).sum()) for a in skeleton.axes)
        gaps.append(skeleton.length - own)
    assert plants == 558
    assert min(gaps) > -1e-9


def document(trunk: str = "[(0, 10), (0, 0)]", *branches: str) -> str:
    level1 = "".join(f'<branch1 num="{n}">{branch}</branch1>' for n, branch in enumerate(branches))
    return (
        f'<?xml version="1.0" ?>\n<file name="D:/pics/b\u00e4ume/a tree.png"><level0><point>{trunk}</point>'
        f"<branch0>{trunk}</branch0></level0><level1><point>[{', '.join(branches)}]</point>{level1}</level1></file>"
    )


def read(tmp_path: Path, text: str) -> Skeleton:
    path = tmp_path / "Bäume 1.xml"
    path.write_text(text, encoding="utf-8")
    return branch_trees.read(path)


def test_a_tree(tmp_path: Path):
    skeleton = read(tmp_path, document("[(0, 10), (0, 0)]", "[(1, 5.0), (5, 5)]", "[(-1.5, 1e1), (-2, .5)]"))
    assert skeleton.nodes.tolist() == [[0, 10], [0, 0], [1, 5], [5, 5], [-1.5, 10], [-2, 0.5], [0, 5]]
    assert skeleton.is_tree
    assert [axis.nodes for axis in skeleton.axes] == [(0, 1), (2, 3), (4, 5)]
    assert [axis.parent for axis in skeleton.axes] == [None, 0, 0]
    assert sorted(map(sorted, skeleton.edges.tolist())) == [[0, 4], [0, 6], [1, 6], [2, 3], [2, 6], [4, 5]]
    assert skeleton.image_name == "a tree.png"


def test_a_trunk_alone(tmp_path: Path):
    assert len(read(tmp_path, document())) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (document("__import__('os')"), r"<level0><branch0> is not a list of points"),
        (document("[(0, 0), (1, nan)]"), r"<level0><branch0> is not a list of points: '\(1, nan\)'"),
        (document("[(0, 0), (1, 1e999)]"), "<level0><branch0> has a point that is not finite"),
        (document("[]"), "<level0><branch0> has no points"),
        (document("[(0, 0)]", "[(0, 1"), r"<level1><branch1 num='0'> is not a list of points"),
        ("<file/>", "has no trunk"),
        ("<file><level1><branch1>[(0, 0)]</branch1></level1></file>", "<level1><branch1> has no trunk"),
        ("<file><level0><a>[(0, 0)]</a><b>[(0, 0)]</b></level0></file>", "<level0><b> is a second trunk"),
        ("<file><level2/></file>", "has a <level2>"),
        ("<rsml/>", "the root element is <rsml>"),
        ("<file><level0>", "is truncated"),
        ("", "is empty"),
        ('<!DOCTYPE file [<!ENTITY a "b">]><file name="&a;"/>', ".*entities"),
    ],
)
def test_bad_files(tmp_path: Path, text: str, message: str):
    with pytest.raises(FormatError, match=rf"^Bäume 1\.xml: {message}") as caught:
        read(tmp_path, text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["(" + "1" * 300_000, "(1," * 100_000, "( " * 100_000, "(1 " + " " * 300_000])
def test_malicious_text_does_not_slow_the_reader_down(tmp_path: Path, text: str):
    begin = time.process_time()
    with pytest.raises(FormatError):
        read(tmp_path, document(text))
    assert time.process_time() - begin < 2
