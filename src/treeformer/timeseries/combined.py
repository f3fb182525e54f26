"""All axes of a series in one skeleton with a function `age`, as archiDART reads it.

archiDART takes a function such as `age` for the age of the plant at the time at which each point appeared. It computes
growth rates from the differences, and the first one from the age itself, so ages must be positive. If the first time of
the series is not, all ages are increased so that the first date has the age of one mean interval.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from treeformer._util.arrays import FloatArray
from treeformer._util.geometry import project_onto_segments
from treeformer.skeleton import Axis, AxisFunction, Plant, Skeleton
from treeformer.timeseries.emergence import passing_times
from treeformer.timeseries.paths import arc_length

if TYPE_CHECKING:
    from treeformer.timeseries.series import Series

PRIMARY_ROOT, LATERAL_ROOT = "PO:0020127", "PO:0020121"
AGE = "age"


def age_offset(times: FloatArray) -> float:
    """Return what is added to the times of a series, (D,) ascending, to get positive ages."""
    if times[0] > 0:
        return 0.0
    interval = float(np.diff(times).mean()) if len(times) > 1 else 1.0
    return interval - float(times[0])


def combined(series: Series) -> Skeleton:
    """Return all axes of a series in one skeleton.

    Args:
        series: The series.

    Returns:
        A forest in px of the reference date. Each axis is as long as it was seen, begins at a node of its parent, and
        has the function `age` with one sample per point.
    """
    lines = [track.template for track in series.tracks]
    index_of = {track.id: index for index, track in enumerate(series.tracks)}
    parent = [index_of.get(track.parent, -1) for track in series.tracks]
    # Places at which laterals begin become points of their parent.
    joints: list[list[float]] = [[] for _ in lines]
    joint_of: list[float] = [0.0] * len(lines)
    for index, above in enumerate(parent):
        if above >= 0:
            joint_of[index] = _nearest_place(lines[above], lines[index][0])
            joints[above].append(joint_of[index])
    nodes: list[FloatArray] = []
    edges: list[tuple[int, int]] = []
    edge_axis: list[int] = []
    axes: list[Axis] = []
    plant_of_node: list[int] = []
    roots: list[int] = []
    seed_of_plant: dict[str, int] = {}
    node_at: list[dict[float, int]] = []
    plants = sorted({track.plant for track in series.tracks}, key=int)
    plant_index = {plant: number for number, plant in enumerate(plants)}
    offset = age_offset(series.times)
    for index, track in enumerate(series.tracks):
        place = np.unique(np.concatenate([arc_length(lines[index]), joints[index]]))
        points = _points_at(lines[index], place)
        number = plant_index[track.plant]
        above = parent[index]
        if above >= 0:
            first = node_at[above][joint_of[index]]
        elif track.plant in seed_of_plant and _are_close(nodes[seed_of_plant[track.plant]], points[0], series):
            first = seed_of_plant[track.plant]
        else:
            first = len(nodes)
            nodes.append(points[0])
            plant_of_node.append(number)
            roots.append(first)
            seed_of_plant.setdefault(track.plant, first)
        if above >= 0:
            number = plant_of_node[first]
        line = [first, *range(len(nodes), len(nodes) + len(points) - 1)]
        nodes += list(points[1:])
        plant_of_node += [number] * (len(points) - 1)
        node_at.append(dict(zip(place.tolist(), line, strict=True)))
        edges += itertools.pairwise(line)
        edge_axis += [index] * (len(line) - 1)
        age = passing_times(track, series.times, place) + offset
        axes.append(
            Axis(
                tuple(line),
                track.id,
                accession=PRIMARY_ROOT if above < 0 else LATERAL_ROOT,
                parent=above if above >= 0 else None,
                plant=number,
                functions=(AxisFunction(AGE, tuple(np.round(age, 6).tolist())),),
            )
        )
    reference = series.skeletons[series.reference]
    rsml: dict[str, Any] = dict(reference.metadata.get("rsml") or {})
    rsml.pop("time-sequence", None)
    rsml["property-definitions"] = [{"label": AGE, "type": "real", "unit": "day"}]
    return Skeleton(
        np.asarray(nodes).reshape(-1, 2),
        edges,
        root=roots,
        axes=axes,
        edge_axis=edge_axis,
        plant=plant_of_node,
        plant_records=[Plant(id=plant) for plant in plants],
        image_size=reference.image_size,
        image_name=reference.image_name,
        metadata={"rsml": rsml},
    )


def _are_close(a: FloatArray, b: FloatArray, series: Series) -> bool:
    return bool(np.hypot(*(a - b)) <= series.tolerance_px)


def _nearest_place(line: FloatArray, point: FloatArray) -> float:
    """Return the place on a polyline nearest to a point, px from its first point; a point of it if one is near."""
    position = arc_length(line)
    if len(line) < 2:
        return 0.0
    t, distance = project_onto_segments(np.repeat(point[None], len(line) - 1, axis=0), line[:-1], line[1:])
    k = int(distance.argmin())
    place = float(position[k] + t[k] * (position[k + 1] - position[k]))
    nearest = int(np.abs(position - place).argmin())
    return float(position[nearest]) if abs(position[nearest] - place) < 0.5 else place


def _points_at(line: FloatArray, place: FloatArray) -> FloatArray:
    position = arc_length(line)
    kept = np.concatenate([[True], np.diff(position) > 0])
    return np.stack([np.interp(place, position[kept], line[kept, k]) for k in range(2)], axis=1)
