"""RootEx's formula against all assignments, counts of a small plate, and the command with a simulated model."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from benchmarks import rootex
from treeformer.data.folder_dataset import write_pair
from treeformer.metrics import match_nodes
from treeformer.skeleton import Skeleton

SIZE = (200, 160)


def plant(right: float = 0.0) -> Skeleton:
    """Return two roots from one seed, moved to the right."""
    nodes = [(60 + right, 20), (60 + right, 120), (120 + right, 120)]
    return Skeleton(nodes, [(0, 1), (0, 2)], root=0, image_size=SIZE)


@pytest.mark.parametrize("seed", range(20))
def test_the_assignment_is_the_best_of_all(seed):
    rng = np.random.default_rng(seed)
    first, second = rng.uniform(0, 100, (rng.integers(1, 5), 2)), rng.uniform(0, 100, (rng.integers(1, 5), 2))
    partner = rootex.optimal_assignment(first, second, np.inf)
    short, long = sorted((first, second), key=len)
    totals = [
        np.hypot(*(short - long[list(order)]).T).sum() for order in itertools.permutations(range(len(long)), len(short))
    ]
    assigned = partner >= 0
    assert assigned.sum() == len(short)
    assert np.hypot(*(first[assigned] - second[partner[assigned]]).T).sum() == pytest.approx(min(totals))
    near = rootex.optimal_assignment(first, second, 30.0)
    distance = np.hypot(*(first - second[partner]).T)
    assert near.tolist() == np.where(assigned & (distance <= 30.0), partner, -1).tolist()


def test_without_a_gate_a_distant_pair_may_cost_a_near_one():
    """The least total distance pairs 60 with 0 and 121 with 61, so that no pair is within 56.25 px."""
    first, second = np.array([[60.0, 0.0], [121.0, 0.0]]), np.array([[0.0, 0.0], [61.0, 0.0]])
    total = np.abs(first[:, 0] - second[:, 0]).sum()
    assert total == 120.0 < 1 + 121
    assert (rootex.optimal_assignment(first, second, rootex.WITHIN_PX) >= 0).sum() == 0
    assert (match_nodes(first, second, rootex.WITHIN_PX) >= 0).sum() == 1
    assert len(rootex.optimal_assignment(np.zeros((0, 2)), second, 9.0)) == 0


def test_the_counts_of_a_plate_that_is_moved_by_30_px():
    found = rootex.counts(plant(30), plant())
    assert {name: found[name] for name in ("tip_true", "tip_predicted", "tip_found")} == dict.fromkeys(
        ("tip_true", "tip_predicted", "tip_found"), 2
    )
    assert (found["tip_within_15"], found["tip_within_56"]) == (0, 2)
    assert (found["base_true"], found["base_predicted"], found["base_within_15"]) == (1, 1, 0)
    assert 0 < found["both_px"] < 0.2 * found["drawn_px"], "the vertical roots do not overlap"
    same = rootex.ratios(rootex.counts(plant(), plant()))
    assert set(same.values()) == {1.0}
    empty = rootex.ratios(rootex.counts(Skeleton([], [], image_size=SIZE), plant()))
    assert set(empty.values()) == {0.0}


def test_lines_are_drawn_4_px_wide():
    mask = rootex.drawn(Skeleton([(20, 50), (120, 50)], [(0, 1)]), SIZE)
    assert mask.shape == (160, 200)
    assert mask[:, 70].sum() == 4
    assert mask.sum() == pytest.approx(4 * 101, abs=8)


def test_the_figures_of_the_publication_are_consistent():
    missed, added, true = rootex.ROOTEX["missed"], rootex.ROOTEX["added"], 299
    found = true - missed
    assert found / true == pytest.approx(rootex.ROOTEX["recall"], abs=6e-4)
    assert found / (found + added) == pytest.approx(rootex.ROOTEX["precision"], abs=6e-4)


class Simulated:
    """A predictor that moves the plant by 30 px and invents a root."""

    def __init__(self, model, **_options) -> None:
        assert model == "m"

    def predict(self, image: Path) -> Skeleton:
        plants = [plant(30), Skeleton([(10, 10), (10, 90)], [(0, 1)], root=0, image_size=SIZE)]
        return Skeleton(
            np.concatenate([one.nodes for one in plants]), [(0, 1), (0, 2), (3, 4)], root=[0, 3], image_size=SIZE
        )


def test_a_model_is_measured_once_and_the_page_is_written(tmp_path, monkeypatch, capsys):
    for name in ("1R", "2"):
        write_pair(
            np.zeros((160, 200, 3), np.uint8), plant(), tmp_path / "plates" / f"test{name.removesuffix('1R')}", name
        )
    places = [f"--{name}={tmp_path / name}" for name in ("plates", "predictions", "results")]
    with pytest.raises(SystemExit, match="no stored figures"):
        rootex.main(places)
    with pytest.raises(SystemExit, match="no plates in test or test2"):
        rootex.main(["v=m", "--plates", str(tmp_path)])
    monkeypatch.setattr(rootex, "Predictor", Simulated)
    rootex.main(["v=m", *places])
    out = capsys.readouterr().out
    ours = "| treeformer, v-int8, nodes of the graph |"
    assert f"{ours} tips | 4 | 0 | 2 | 1.000 [1.000, 1.000] | 0.667 [0.667, 0.667] | 0.800" in out
    assert f"{ours} sources | 2 | 0 | 2 |" in out
    assert "| RootEx 2.0, keypoint heads | tips | 299 | 16 | 4 | 0.946 | 0.986 |" in out
    monkeypatch.delattr(rootex, "Predictor")
    page = tmp_path / "page.md"
    page.write_text("<!-- rootex -->\n<!-- end rootex -->\n")
    rootex.main(["v=m", *places, "--markdown", str(page)])
    assert out.strip() in page.read_text()


def test_the_results_page_has_the_stored_figures():
    assert rootex.markdown() in rootex.PAGE.read_text(encoding="utf-8"), "python -m benchmarks.rootex --markdown"
