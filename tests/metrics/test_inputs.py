"""The arguments that all metrics share, and one-line errors for invalid ones."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest

from treeformer import Skeleton, SkeletonError, TreeformerError
from treeformer.metrics import (
    Scores,
    evaluate_pair,
    street_mover_distance,
    street_mover_distance_paper,
    structure,
    topo,
    topo_paper,
)

METRICS = (street_mover_distance, street_mover_distance_paper, topo, topo_paper, structure, evaluate_pair)
NODES, EDGES = [(10, 10), (10, 90), (60, 90)], [(0, 1), (1, 2)]


@pytest.mark.parametrize("metric", METRICS)
def test_skeletons_and_arrays_are_equivalent(metric):
    line = Skeleton(NODES, EDGES, image_size=(100, 100))
    moved = line.replace(nodes=line.nodes + 3)
    arrays = [(graph.nodes.tolist(), graph.edges.tolist()) for graph in (moved, line)]
    assert metric(moved, line) == metric(*arrays, image_size=(100, 100))
    assert metric(moved, arrays[1]) == metric(moved, line)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(
    ("prediction", "ground_truth", "options", "message"),
    [
        ((NODES, EDGES), (NODES, EDGES), {}, "image_size=(width, height)"),
        (Skeleton(NODES, EDGES), Skeleton(NODES, EDGES), {}, "image_size=(width, height)"),
        ((NODES, EDGES), (NODES, EDGES), {"image_size": (0, 5)}, "must be positive"),
        (
            (NODES, EDGES),
            ([(0, float("nan"))], []),
            {"image_size": (9, 9)},
            "the ground truth: node 0 is at (0.0, nan)",
        ),
        ((NODES, [(0, 7)]), (NODES, EDGES), {"image_size": (9, 9)}, "the prediction: edge 0 (0, 7) refers to node 7"),
        ((NODES, EDGES, 3), (NODES, EDGES), {"image_size": (9, 9)}, "the prediction must be a Skeleton or a pair"),
        (
            Skeleton(NODES, EDGES, image_size=(9, 9)),
            Skeleton(NODES, EDGES, image_size=(9, 8)),
            {},
            "the ground truth belongs to an image of 9×8 pixels, the prediction says 9×9",
        ),
        (
            Skeleton(NODES, EDGES, image_size=(9, 9)),
            (NODES, EDGES),
            {"image_size": (7, 7)},
            "the prediction belongs to an image of 9×9 pixels, image_size says 7×7",
        ),
    ],
)
def test_invalid_arguments_are_one_line(metric, prediction, ground_truth, options, message):
    with pytest.raises(TreeformerError) as error:
        metric(prediction, ground_truth, **options)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_f1():
    assert Scores(0.0, 0.0).f1 == 0.0
    assert Scores(0.25, 0.75).f1 == pytest.approx(0.375)


@pytest.mark.slow
def test_metrics_need_only_numpy_and_scipy():
    code = (
        "import sys, treeformer.metrics\n"
        "heavy = {'pandas', 'matplotlib', 'networkx', 'rich', 'PIL', 'torch', 'yaml', 'typer'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("length", ["a", [1.0], 0, math.nan])
def test_a_length_that_is_no_number_is_one_line(length):
    line = [(0, 0), (9, 9)], [(0, 1)]
    with pytest.raises(SkeletonError, match="unit_px must be a positive number of pixels"):
        topo(line, line, image_size=(10, 10), unit_px=length)
    with pytest.raises(SkeletonError, match="radius_px must be a positive number of pixels"):
        structure(line, line, image_size=(10, 10), radius_px=length)
