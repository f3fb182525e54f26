"""The table of docs/formats.md: which attributes of a skeleton survive writing and reading, format by format."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import treeformer
from treeformer import Skeleton
from treeformer.formats import FORMATS

PAGE = Path(__file__).parents[2] / "docs" / "formats.md"
COLUMNS = ("nodes, edges", "roots", "radii", "scores", "axes", "plants", "image", "metadata")


def documented() -> dict[str, dict[str, str]]:
    """The table by format and column."""
    text = PAGE.read_text(encoding="utf-8").split("## What each format keeps")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    assert tuple(rows[0][1:]) == COLUMNS
    return {
        name: dict(zip(COLUMNS, row[1:], strict=True)) for row in rows[2:] for name in re.findall(r"`([\w-]+)`", row[0])
    }


def everything() -> Skeleton:
    skeleton = Skeleton(
        [(5, 9), (5, 5), (2, 1), (8, 1), (30, 9), (30, 3)],
        [(0, 1), (1, 2), (1, 3), (4, 5)],
        root=[0, 4],
        radius=[3, 2, 1, 1, 2, 1],
        node_score=[0.9, 0.8, 0.7, 0.6, 0.5, 0.4],
        edge_score=[0.9, 0.8, 0.7, 0.6],
        plant=[1, 1, 1, 1, 0, 0],
        image_size=(40, 20),
        image_name="a.png",
        metadata={"note": 1},
    )
    return skeleton.infer_axes(0.5)


def test_the_table_has_every_format_that_is_written():
    assert documented().keys() == {name for name, entry in FORMATS.items() if entry.write}


@pytest.mark.parametrize("name", [name for name, entry in FORMATS.items() if entry.write])
def test_the_table_says_what_is_kept(name, tmp_path):
    skeleton, said = everything(), documented()[name]
    path = tmp_path / f"a{FORMATS[name].suffixes[0]}"
    treeformer.write(skeleton, path, format=name)
    again = treeformer.read(path)
    place = again.nearest(skeleton.nodes)[0]
    edges = {tuple(sorted(pair)) for pair in place[skeleton.edges].tolist()}
    assert {tuple(sorted(pair)) for pair in again.edges.tolist()} == edges
    found = {
        "nodes, edges": np.allclose(again.nodes[place], skeleton.nodes),
        "roots": sorted(place[skeleton.roots].tolist()) == again.roots.tolist(),
        "radii": again.radius is not None and np.allclose(again.radius[place], skeleton.radius),
        "scores": again.node_score is not None and np.allclose(again.node_score[place], skeleton.node_score),
        "axes": again.has_explicit_axes,
        "plants": again.plant is not None and again.plant_of_node[place].tolist() == skeleton.plant.tolist(),
        "metadata": again.metadata.get("note") == 1,
    }
    kept = {column: said[column] in ("yes", "as `diameter`") for column in COLUMNS if column != "image"}
    assert found == kept
    image = {"name": again.image_name == skeleton.image_name, "size": again.image_size == skeleton.image_size}
    assert (", ".join(part for part, is_kept in image.items() if is_kept) or "no") == said["image"]
