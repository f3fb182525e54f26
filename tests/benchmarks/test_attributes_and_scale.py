"""The benchmarks of radii, edge scores and working sizes on made-up results."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import auto_scale, edge_calibration, node_attributes
from treeformer import Skeleton
from treeformer.decoding.calibration import calibrate


def test_radii_are_compared_at_the_nearest_place():
    true = Skeleton([(0, 0), (100, 0)], [(0, 1)], radius=[2.0, 6.0], image_size=(200, 50))
    found = Skeleton(
        [(25, 1), (75, -2), (50, 30), (99, 0)],
        [(0, 1)],
        radius=[3.3, 4.5, 1.0, np.nan],
        image_size=(200, 50),
    )
    assert node_attributes.compare(found, true) == pytest.approx(np.array([[3.3, 3.0], [4.5, 5.0]]))
    assert node_attributes.row("a", node_attributes.compare(found, true)) == "| a | 2 | 10.0% | 0 |  | 1.00 |"
    assert len(node_attributes.compare(found.replace(radius=None), true)) == 0


def test_renders_are_rescaled_with_their_skeletons():
    samples = list(auto_scale.renders(3))
    assert [sample.image.shape[0] for sample in samples] == [256, 364, 512]
    for sample in samples:
        assert sample.skeleton.image_size == sample.image.shape[1::-1]


def test_bases_near_the_true_ones_are_right():
    true = Skeleton([(0, 0), (9, 9), (50, 50), (60, 60)], [(0, 1), (2, 3)], root=[0, 2], image_size=(100, 100))
    found = Skeleton([(4, 0), (30, 9)], [(0, 1)], root=[0], image_size=(100, 100))
    assert auto_scale.bases(found, true) == 0.5
    assert auto_scale.bases(Skeleton([], [], image_size=(100, 100)), true) == 0


def test_the_table_of_sizes_compares_with_auto():
    rows = {"a": {"auto": [auto_scale.Row(0.9, 0.8, 1.1, 1.0, 512)], 1024: [auto_scale.Row(0.7, 0.9, 1.0, 0.5, 1024)]}}
    table = auto_scale.table(rows).splitlines()
    assert table[2] == "| a | auto (512) | 1 | 0.900 | 0.800 | 10.0% | 1.000 |  |"
    assert table[3] == "| a | 1024 | 1 | 0.700 | 0.900 | 0.0% | 0.500 | +0.200, -0.100 |"


@pytest.mark.slow
def test_calibration_lowers_the_error_of_every_set(tmp_path):
    random = np.random.default_rng(1)
    sets = {}
    for name in ("a", "b"):
        score, node = random.uniform(0.02, 0.98, (2, 3000))
        correct = random.uniform(size=3000) < calibrate(score, node, (2.0, 0.5, 0.8, 0.4))
        sets[name] = edge_calibration.Edges(score, node, correct, np.ones(3000))
    coefficients = edge_calibration.fit(sets)
    for line in edge_calibration.table(sets, coefficients).splitlines()[2:]:
        network, calibrated, *left_out = (float(cell) for cell in line.split("|")[4:8])
        assert max(calibrated, *left_out) < 0.03 < network
    # Both vine sets are equally overconfident: a fit without one of them still knows it from the other.
    score, node = random.uniform(0.02, 0.98, (2, 3000))
    vines = edge_calibration.Edges(score, node, random.uniform(size=3000) < score / 4, np.ones(3000))
    lines = edge_calibration.table(sets | {"vine photo": vines, "vineyard photo": vines}, coefficients).splitlines()
    without_set, without_kind = (float(cell) for cell in lines[4].split("|")[6:8])
    assert without_kind > without_set + 0.1
    pytest.importorskip("matplotlib")
    edge_calibration.figure(sets, coefficients, tmp_path / "edges.png")
    assert (tmp_path / "edges.png").stat().st_size > 1000
