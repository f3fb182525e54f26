"""Random edits of the browser editor, read by the package: every document is a valid forest with valid axes.

`TREEFORMER_REPLAYS` sets the number of sequences; the default is small.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from treeformer.formats import native_json
from treeformer.skeleton import Skeleton
from treeformer.traits import measure

WEB = Path(__file__).parents[2] / "web"
COUNT = int(os.environ.get("TREEFORMER_REPLAYS", "300"))
MEASURED = 25

ALL_ACTIONS = 27


@pytest.fixture(scope="module")
def sequences(tmp_path_factory):
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    if not (WEB / "node_modules" / "vite").is_dir():
        pytest.skip("web/node_modules is missing: run npm ci in web/")
    path = tmp_path_factory.mktemp("replay") / "sequences.jsonl"
    command = [node, "test/replay/write.mjs", str(path), str(COUNT), "1"]
    done = subprocess.run(command, cwd=WEB, capture_output=True, text=True, timeout=3600)
    assert done.returncode == 0, done.stderr
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def read(document) -> Skeleton:
    (skeleton,) = native_json.skeletons(document)
    return skeleton


def axes_that_are_not_paths(skeleton: Skeleton) -> list[int]:
    """Axes whose edges do not form one path away from the root."""
    parents = skeleton.parents
    wrong = []
    for axis in np.unique(skeleton.edge_axis[skeleton.edge_axis >= 0]).tolist():
        edges = skeleton.edges[skeleton.edge_axis == axis].tolist()
        children = [v if parents[v] == u else u for u, v in edges]
        above = [int(parents[child]) for child in children]
        heads = [node for node in above if node not in children]
        if len(heads) != 1 or max(Counter(above).values()) > 1:
            wrong.append(axis)
    return wrong


@pytest.mark.slow
def test_every_sequence_gives_a_valid_skeleton(sequences):
    assert len(sequences) == COUNT
    for number, row in enumerate(sequences):
        skeleton = read(row["document"])
        assert skeleton.is_forest, number
        assert skeleton.parents.tolist() == row["parents"], number
        assert not axes_that_are_not_paths(skeleton), number


@pytest.mark.slow
def test_the_sequences_contain_every_action(sequences):
    assert len({name for row in sequences for name in row["actions"]}) == ALL_ACTIONS


@pytest.mark.slow
def test_edited_skeletons_can_be_written_read_and_measured(sequences, tmp_path):
    for row in sequences[:: max(1, COUNT // MEASURED)]:
        skeleton = read(row["document"])
        native_json.write(skeleton, tmp_path / "a.json")
        assert native_json.read(tmp_path / "a.json") == skeleton
        if len(skeleton):
            assert len(measure(skeleton, columns="compact")) == len(skeleton.plants)


def test_the_check_of_axes_can_fail():
    document = {
        "format": "treeformer-skeleton",
        "version": 1,
        "nodes": [[0, 0], [0, 1], [1, 2], [2, 2]],
        "edges": [[0, 1], [1, 2], [1, 3]],
        "roots": [0],
        "axes": [{"nodes": [0, 1, 2]}],
        "edge_axis": [0, 0, 0],
    }
    assert axes_that_are_not_paths(read(document)) == [0]
