"""Series for the tests: generated ones without ids, and scores of their identities."""

from __future__ import annotations

from treeformer import Axis, Series, Skeleton
from treeformer.synthetic.series import Disturbance, SeriesFrame, generate_series
from treeformer.timeseries.metrics import IdentityScore, identity_score


def without_ids(skeleton: Skeleton) -> Skeleton:
    axes = [Axis(axis.nodes, parent=axis.parent, plant=axis.plant) for axis in skeleton.axes]
    return skeleton.replace(axes=axes, edge_axis=skeleton.edge_axis, plant_records=())


def frames(preset: str, seed: int, dates: int, **disturbance: float) -> tuple[SeriesFrame, ...]:
    return generate_series(preset, seed, dates=dates, disturbance=Disturbance(**disturbance))


def series_of(some_frames) -> Series:
    return Series([(frame.time, without_ids(frame.skeleton)) for frame in some_frames])


def score_of(series: Series, some_frames) -> IdentityScore:
    """The axes of a series of ground-truth skeletons have the same numbers as those of its frames."""
    observations = [
        (frame.skeleton.axes[k].id, axis.id)
        for frame, skeleton in zip(some_frames, series.skeletons, strict=True)
        for k, axis in enumerate(skeleton.axes)
    ]
    return identity_score(observations)


def line(*points: tuple[float, float], **options) -> Skeleton:
    return Skeleton(points, [(k, k + 1) for k in range(len(points) - 1)], root=0, image_size=(200, 200), **options)


def comb(length: float, laterals: list[tuple[float, float]], x: float = 100.0) -> Skeleton:
    """A straight main root of some length, with horizontal laterals given as (distance from its base, length)."""
    places = sorted({0.0, length, *(at for at, _ in laterals if at < length)})
    nodes = [(x, 10.0 + place) for place in places]
    edges = [(k, k + 1) for k in range(len(places) - 1)]
    axes = [Axis(tuple(range(len(places))))]
    edge_axis = [0] * len(edges)
    for at, reach in laterals:
        if at < length and reach > 0:
            nodes.append((x + reach, 10.0 + at))
            edges.append((places.index(at), len(nodes) - 1))
            edge_axis.append(len(axes))
            axes.append(Axis((places.index(at), len(nodes) - 1), parent=0))
    return Skeleton(nodes, edges, root=0, axes=axes, edge_axis=edge_axis, image_size=(300, 300))
