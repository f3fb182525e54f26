"""Views of an image, and the choice among their predictions."""

from __future__ import annotations

import numpy as np
import pytest

from treeformer import Skeleton
from treeformer.timeseries.paths import axis_paths
from treeformer.timeseries.views import NEIGHBORS, VIEWS, agreement, choose_views, from_view, view_of, view_transform

SIZE = (200, 120)
TWO_PLANTS = Skeleton(
    [(40, 20), (40, 60), (60, 90), (150, 20), (150, 100)], [(0, 1), (1, 2), (3, 4)], root=[0, 3], image_size=SIZE
)


def with_lateral(x, y=60.0, length=80.0):
    """Return a root that is straight down, with a lateral that ends at (x, y + 30)."""
    nodes = [(100, 10), (100, y), (100, 10 + length), (x, y + 30)]
    return Skeleton(nodes, [(0, 1), (1, 2), (1, 3)], root=0, image_size=SIZE)


@pytest.mark.parametrize("view", range(len(VIEWS)))
def test_a_view_shows_what_its_transform_says(view):
    image = np.zeros((120, 200, 3), dtype=np.uint8)
    image[70, 90] = 255
    shown = view_of(image, view)
    row, column = np.argwhere(shown[..., 0] == 255)[0]
    assert np.allclose(view_transform(view, SIZE) @ (90.5, 70.5, 1), (column + 0.5, row + 0.5))


@pytest.mark.parametrize("view", range(len(VIEWS)))
def test_a_skeleton_comes_back_from_its_view_with_plants_from_left_to_right(view):
    there = TWO_PLANTS.transform(view_transform(view, SIZE), image_size=SIZE)
    back = from_view(there.replace(plant=there.plant_of_node), view)
    assert back.nodes == pytest.approx(TWO_PLANTS.nodes)
    assert back.plant_of_node.tolist() == [0, 0, 0, 1, 1]
    assert back.image_size == SIZE
    assert {axis.plant for axis in back.axes} == {0, 1}


def test_nodes_beyond_the_border_are_moved_to_it():
    outside = Skeleton([(-3, 20), (50, 130)], [(0, 1)], root=0, image_size=SIZE)
    assert from_view(outside, 1).nodes.tolist() == [[200, 20], [150, 120]]


def test_an_empty_prediction_stays_empty():
    empty = Skeleton(np.zeros((0, 2)), [], image_size=SIZE)
    assert all(len(from_view(empty, view)) == 0 for view in range(len(VIEWS)))
    assert [len(one) for one in choose_views([[empty, empty], [empty]])] == [0, 0]


def test_agreement_is_one_for_the_same_axes_and_zero_for_none():
    def paths(skeleton):
        return axis_paths(skeleton, 2.0)[0]

    same, other = with_lateral(150), with_lateral(50)
    far = same.transform([[1, 0, 500], [0, 1, 500]])
    assert agreement(paths(same), paths(same), 6.0) == pytest.approx(1.0)
    assert 0.2 < agreement(paths(same), paths(other), 6.0) < 0.9
    assert agreement(paths(same), paths(far), 6.0) == 0.0


def test_each_date_keeps_the_prediction_that_agrees_with_the_others():
    good = [with_lateral(130 + 4 * date) for date in range(6)]
    wrong = [with_lateral(130 + 4 * date, y=35.0 + 8 * (date % 3)) for date in range(6)]
    dates = [
        [bad, right] if date in (1, 4) else [right, bad]
        for date, (right, bad) in enumerate(zip(good, wrong, strict=True))
    ]
    assert [one.nodes.tolist() for one in choose_views(dates)] == [one.nodes.tolist() for one in good]


def test_known_dates_decide():
    known, wrong = [with_lateral(150)], with_lateral(50)
    dates = [known, [wrong, wrong.transform([[1, 0, 2], [0, 1, 0]]), with_lateral(150)], known]
    assert choose_views(dates, register=False)[1].nodes.tolist() == known[0].nodes.tolist()


def test_a_single_date_keeps_the_image_as_it_is():
    assert choose_views([[with_lateral(150), with_lateral(50)]])[0].nodes.tolist() == with_lateral(150).nodes.tolist()
    assert choose_views([]) == []


def test_many_dates_are_compared_with_near_ones_only(monkeypatch):
    calls = []

    def counted(earlier, later, tolerance_px):
        calls.append(1)
        return 1.0

    monkeypatch.setattr("treeformer.timeseries.views.agreement", counted)
    dates = 40
    choose_views([[with_lateral(150), with_lateral(151)]] * dates, register=False)
    assert len(calls) <= 4 * NEIGHBORS * dates
