"""The benchmark of time series: the assignment to known axes, and forks that follow the older arm."""

from __future__ import annotations

from benchmarks.fork_age import with_older_axes
from benchmarks.timeseries import match_known_axes

from tests.timeseries.series_factory import comb, line
from treeformer import Series, Skeleton
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
