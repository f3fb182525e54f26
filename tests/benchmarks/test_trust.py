"""The page "What you can trust": matched plants, agreement of traits, confidence, and the page itself."""

from __future__ import annotations

import itertools
import math
import re
import shutil

import numpy as np
import pytest
from benchmarks.summary.accuracy import KINDS
from benchmarks.trust import confidence, page, stored
from benchmarks.trust.__main__ import PAGE, main
from benchmarks.trust.plants import match_plants
from benchmarks.trust.traits import TRAITS, agreement, compare
from hypothesis import given
from hypothesis import strategies as st

from treeformer import Skeleton
from treeformer.traits import COMPACT_COLUMNS

SIZE = (512, 512)


def lines(*offsets: float, length: float = 200.0) -> Skeleton:
    """Return one vertical plant per offset, px from the left."""
    nodes = [(x, y) for x in offsets for y in (20.0, 20.0 + length)]
    edges = [(2 * k, 2 * k + 1) for k in range(len(offsets))]
    return Skeleton(nodes, edges, root=[2 * k for k in range(len(offsets))], image_size=SIZE)


def test_plants_are_matched_by_the_length_that_they_share():
    assert match_plants(lines(103, 201), lines(100, 200)) == [(0, 0), (1, 1)]
    assert match_plants(lines(201), lines(100, 200)) == [(0, 1)]
    assert match_plants(lines(150), lines(100, 200)) == []
    assert match_plants(lines(), lines(100)) == []
    # A plant that only crosses is not the same plant.
    crossing = Skeleton([(0, 100), (500, 100)], [(0, 1)], root=0, image_size=SIZE)
    assert match_plants(crossing, lines(100)) == []
    # One predicted plant lies on two true ones: it is the longer one.
    both = Skeleton([(100, 20), (100, 120), (200, 20), (200, 220)], [(0, 1), (2, 3)], root=[0, 2], image_size=SIZE)
    joined = Skeleton(both.nodes, [*both.edges.tolist(), (1, 2)], root=0, image_size=SIZE)
    assert match_plants(joined, both) == [(0, 1)]


def test_traits_of_matched_plants_only():
    true = lines(100, 300)
    found = compare([(lines(100, 450, length=180.0), true), (lines(), true)])
    assert found["plants"] == [1, 3, 1]
    assert found["traits"]["total_length"] == ([180.0], [200.0])
    assert found["traits"]["lateral_count"] == ([0.0], [0.0])


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=9))
def test_agreement_by_a_loop(pairs):
    predicted, true = zip(*pairs, strict=True)
    found = agreement("total_length", predicted, true)
    middle = sorted(true)[(len(true) - 1) // 2] + sorted(true)[len(true) // 2]
    assert found.is_relative == (middle > 0)
    errors = []
    for one, other in pairs:
        relative = (one - other) / other if other else (0.0 if one == other else math.inf)
        errors.append(relative if found.is_relative else one - other)
    assert found.bias == pytest.approx(np.median(errors))
    assert found.error == pytest.approx(np.median(np.abs(errors)))
    assert found.within == sum(10 * abs(one - other) <= other for one, other in pairs) / len(pairs)
    assert found.plants == len(pairs)


def test_angles_missing_values_and_correlations():
    found = agreement("lateral_emergence_angle_mean", [80.0, None, 95.0], [75.0, 10.0, 80.0])
    assert found[:4] == (2, 10.0, 10.0, 0.5)
    assert math.isnan(found.correlation)
    assert agreement("volume", [1.0, None], [None, 2.0]) is None
    assert agreement("depth", range(6), range(0, 12, 2)).correlation == pytest.approx(1.0)
    assert math.isnan(agreement("depth", range(6), [3] * 6).correlation)


def test_every_number_of_the_compact_table_is_compared():
    labels = {"image", "plant", "unit", "note", "file"}
    assert set(COMPACT_COLUMNS) - labels == {*TRAITS, "low_confidence_length_fraction"}


def test_the_order_of_scores_by_all_pairs():
    random = np.random.default_rng(3)
    score, correct = random.uniform(size=30).round(1), random.uniform(size=30) < 0.6
    pairs = itertools.product(score[correct], score[~correct])
    wins = [1.0 if right > wrong else 0.5 if right == wrong else 0.0 for right, wrong in pairs]
    assert confidence.order(score, correct) == pytest.approx(np.mean(wins))
    assert math.isnan(confidence.order(score, np.ones(30, dtype=bool)))


def test_risk_of_the_more_confident_images():
    images = [(0.9, 0.0, 0), (0.8, 0.4, 0), (0.7, 0.2, 0), (0.6, 0.6, 0)]
    assert confidence.risk(images, 0.5) == (pytest.approx(0.2), pytest.approx(0.1))
    assert confidence.risk(images, 1.0) == (pytest.approx(0.3), pytest.approx(0.3))
    equal = [(0.5, wrong, 0) for _, wrong, _ in images]
    for order in itertools.permutations(equal):  # equally confident: no order of the images is better
        assert confidence.risk(order, 0.5)[0] == pytest.approx(0.3)


def test_confidence_of_an_image_with_a_wrong_edge():
    true = lines(100, length=200.0)
    found = lines(100, 400, length=100.0).replace(edge_score=[0.9, 0.2])
    assessed = confidence.assess([(found, true), (lines(), true)])
    assert assessed["edges"] == [2, 0.5, pytest.approx(0.15), 1.0]
    assert assessed["images"] == [[0.55, 0.5, 0.5]]
    assert assessed["bins"] == [[0.2, 0.0], [0.9, 1.0]]


def test_no_training_image_is_on_the_page():
    """Every set is a test split; generated images of the split `test` have seeds that training never draws."""
    assert all(one.split == "test" for one in stored.SHOWN)
    assert all(one.synthetic.endswith(":test") for one in stored.SHOWN if one.synthetic)
    assert all(page.title(one.name) for one in stored.SHOWN)
    assert {one.name.removesuffix(", 100 images") for one in stored.SHOWN} <= set(KINDS)


def sentences(traits) -> str:
    return " ".join(page.sentences({"osr-roots published": {"plants": [4, 1, 2], "traits": traits}}).split())


def test_every_sentence_that_names_an_error_names_its_direction():
    traits = {name: ([0.8] * 4, [1.0] * 4) for name in TRAITS} | {"lateral_count": ([3.0], [2.0])}
    text = sentences(traits)
    assert "4 of 5 plants were found, 2 are false" in text
    assert "`total_length` is 20 % too short in the median plant and within 10 % in 0 % of them" in text
    assert "`lateral_count` is 50 % too high" in text
    assert "`mean_diameter` is 20 % too thin" in text
    traits["mean_diameter"] = [0.8, 1.2, 1.0], [1.0] * 3
    text = sentences(traits)
    assert "`mean_diameter` is too thin as often as too thick, by 20 % in the median plant, and within" in text
    directions = "|".join(word for words in page.WORDS.values() for word in words)
    shown = PAGE.read_text(encoding="utf-8").split("<!-- end sentences -->")[0]
    for part in " ".join(shown.split()).split(";"):
        if "in the median plant" in part:
            assert re.search(directions, part), part


@pytest.mark.slow
def test_the_page_is_up_to_date(tmp_path):
    copy = tmp_path / "page.md"
    shutil.copy(PAGE, copy)
    main(["--page", str(copy)])
    assert copy.read_text(encoding="utf-8") == PAGE.read_text(encoding="utf-8"), "python -m benchmarks.trust"


def test_the_reliability_diagram_is_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    documents = {one.name: {"confidence": {"bins": [[0.5, 0.6], [0.9, 1.0]]}} for one in stored.SHOWN}
    page.reliability_diagram(documents, tmp_path / "edges.png")
    assert (tmp_path / "edges.png").stat().st_size > 1000


def test_annotations_are_those_that_were_published(real_data):
    folder = real_data("osr-roots")
    test_set = next(one for one in stored.SHOWN if one.name == "osr-roots published")
    found = stored._annotations(test_set)
    assert len(found) == 5
    assert all(path.parent == folder / "test" for path in found.values())
