"""Parity with the paper's released code on 40 pairs of graphs, if the file with its results is available."""

from __future__ import annotations

import json

import numpy as np
import pytest

from treeformer.metrics import street_mover_distance, street_mover_distance_paper, structure, topo_paper

# Coordinates in the file are fractions of the sides, so any image size serves.
SIZE = (512, 512)


@pytest.fixture(scope="module")
def pairs(real_data):
    text = (real_data("../parity") / "metrics.json").read_text()
    return [(graph(p["prediction"]), graph(p["truth"]), p["released_code"]) for p in json.loads(text)]


def graph(entry):
    return np.asarray(entry["nodes"]) * SIZE, entry["edges"]


def test_street_mover_distance(pairs):
    released = np.array([answer["smd"] for _, _, answer in pairs])
    ours = np.array([street_mover_distance_paper(p, t, image_size=SIZE) for p, t, _ in pairs])
    both_zero = (released < 1e-8) & (ours < 1e-8)
    difference = np.where(both_zero, 0.0, np.abs(ours / released - 1))
    assert difference.max() < 0.002
    assert np.median(difference) < 0.0002


@pytest.mark.slow
@pytest.mark.parametrize(("keypoints", "name"), [(False, "topo_full"), (True, "topo_keypoint")])
def test_topo(pairs, keypoints, name):
    released = np.array([answer[name] for _, _, answer in pairs])
    scores = [topo_paper(p, t, keypoints=keypoints, image_size=SIZE) for p, t, _ in pairs]
    difference = np.abs(np.array([(s.precision, s.recall) for s in scores]) - released)
    assert difference.max() < 0.001
    assert (difference < 1e-9).mean() > 0.8


def test_tree(pairs):
    for prediction, ground_truth, answer in pairs:
        assert structure(prediction, ground_truth, image_size=SIZE).tree_of_edges == answer["tree"]


def test_the_exact_distance_is_larger(pairs):
    """The truncated iteration covers only part of the ground truth, so its transport cost is too small."""
    for prediction, ground_truth, answer in pairs:
        if answer["smd"] > 1e-8:
            assert street_mover_distance(prediction, ground_truth, image_size=SIZE) > 1.3 * answer["smd"]
