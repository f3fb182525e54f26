"""The benchmarks of time series: known axes, causes of errors, and forks that follow the older arm."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from benchmarks.fork_age import with_older_axes
from benchmarks.identity_errors import TERMS, Case, causes_of, errors_with_better_input, kept, terms_of
from benchmarks.timeseries import match_known_axes

from tests.timeseries.series_factory import comb, frames, line, series_of
from treeformer import Series, Skeleton
from treeformer.timeseries import costs
from treeformer.timeseries.paths import axis_paths


def test_known_axes_are_assigned():
    known = axis_paths(comb(90, [(20, 30), (40, 20), (60, 15)]), 3.0)[0]
    found = axis_paths(comb(88, [(61, 14), (21, 28)]), 3.0)[0]
    assert match_known_axes(found, known, 6.0, 3.0) == [(0, 0), (1, 3), (2, 1)]
    assert match_known_axes(found, axis_paths(Skeleton([], []), 3.0)[0], 6.0, 3.0) == []


def test_the_axis_follows_the_arm_that_is_older():
    """The straight arm of the fork is younger than the other one, or as old, or seen at one of three dates only."""
    nodes = [(50.0, 10.0), (50.0, 50.0), (50.0, 90.0), (80.0, 80.0)]
    straight, bent, stem = (0, 1, 2), (0, 1, 3), (0, 1)

    def axes_after(*earlier: tuple[int, ...]) -> tuple[set[tuple[int, ...]], list[int]]:
        skeletons = [line(*(nodes[node] for node in path)) for path in earlier]
        skeletons.append(Skeleton(nodes, [(0, 1), (1, 2), (1, 3)], root=0))
        found, forks = with_older_axes(Series(enumerate(skeletons), tolerance_px=5.0, register=False), 1)
        return {axis.nodes for axis in found[-1].axes}, forks.tolist()

    assert axes_after(bent, bent) == ({(0, 1, 3), (1, 2)}, [1, 1])
    assert axes_after(straight) == ({(0, 1, 2), (1, 3)}, [1, 0])
    assert axes_after(stem) == ({(0, 1, 2), (1, 3)}, [0, 0])
    assert axes_after(bent, stem, stem) == ({(0, 1, 2), (1, 3)}, [0, 0])


def test_causes_of_errors_and_better_input():
    dates = frames("taproot", 1, 4)
    series = series_of(dates)
    case = Case(dates, series)
    count = causes_of(case)
    assert count["detected"] == sum(len(frame.skeleton.axes) for frame in dates)
    assert count["errors"] == 0
    assert set(errors_with_better_input(case).values()) == {0}
    # The main axis of one date gets an identity of its own.
    first = series.skeletons[0]
    alone = first.replace(axes=[replace(first.axes[0], id="9.9"), *first.axes[1:]], edge_axis=first.edge_axis)
    series.skeletons = (alone, *series.skeletons[1:])
    assert causes_of(case) == {"detected": count["detected"], "errors": 1, "split": 1}


def test_paths_that_are_kept_have_kept_parents():
    paths = axis_paths(comb(90, [(20, 30), (40, 20)]), 3.0)[0]
    assert kept(paths, [True, False, True]).parent.tolist() == [-1, 0]
    assert kept(paths, [False, True, True]).parent.tolist() == [-1, -1]


def test_the_terms_of_the_cost_make_up_the_cost():
    some, others = (axis_paths(comb(*arguments), 3.0)[0] for arguments in ((60, [(20, 30)]), (70, [(22, 12), (40, 9)])))
    weights = [getattr(costs, f"{term.upper()}_WEIGHT") for term in TERMS]
    expected = costs.identity_costs(some, others, 6.0)
    assert np.allclose(terms_of(some, others, 6.0) @ weights, expected)
    assert np.array_equal(costs.identity_costs(some, others, 6.0), expected)  # the weights are as before
