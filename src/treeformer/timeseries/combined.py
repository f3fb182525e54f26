"""All axes of a series in one skeleton with a function `age`, as archiDART reads it.

archiDART takes a function such as `age` for the age of the plant at the observation at which each point appeared. Its
reader has properties that decide what the file contains:

- A segment belongs to the date of its second point. Each axis therefore has a point where its tip was at each date, and
  the age of a point is that of the first date that shows it.
- Growth rates are lengths divided by the differences between the dates of the plant, and by the age itself for the
  first one, so ages must be positive. If the first time of the series is not, all ages are increased so that the first
  date has the age of one mean interval, rounded up.
- Ages are rounded up to whole units, and a plant with one age is an error. A plant whose points would all have the same
  age gets a second one: the first half of its first axis is one unit older, or the rest one unit younger if there is
  no room before.
- An axis needs two points. Axes without length are left out.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from treeformer._util.arrays import FloatArray
from treeformer._util.geometry import project_onto_segments
from treeformer.skeleton import Axis, AxisFunction, Plant, Skeleton
from treeformer.timeseries.emergence import SAME_PLACE_PX, appearance_times
from treeformer.timeseries.paths import arc_length

if TYPE_CHECKING:
    from treeformer.timeseries.series import AxisTrack, Series

PRIMARY_ROOT, LATERAL_ROOT = "PO:0020127", "PO:0020121"
AGE = "age"


def age_offset(times: FloatArray) -> float:
    """Return what is added to the times of a series, (D,) ascending, to get positive ages."""
    if times[0] > 0:
        return 0.0
    interval = float(np.diff(times).mean()) if len(times) > 1 else 1.0
    return math.ceil(interval) - float(times[0])


def combined(series: Series) -> Skeleton:
    """Return all axes of a series, each as long as it was seen, in one forest in px of the reference date.

    Each axis begins at a node of its parent and has the function `age` with one sample per point. Axes without length
    are left out.
    """
    tracks = [track for track in series.tracks if arc_length(track.template)[-1] > 0]
    lines = [track.template for track in tracks]
    index_of = {track.id: index for index, track in enumerate(tracks)}
    parent = [_nearest_ancestor(track, series, index_of) for track in tracks]
    plant_of: list[str] = []  # an axis belongs to the plant of its parent
    for track, above in zip(tracks, parent, strict=True):
        plant_of.append(track.plant if above < 0 else plant_of[above])
    offset = age_offset(series.times)
    halved = _plants_of_one_age(tracks, plant_of, series.times + offset)
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
    plants = sorted(set(plant_of), key=int)
    plant_index = {plant: number for number, plant in enumerate(plants)}
    for index, track in enumerate(tracks):
        place = _places(track, joints[index])
        half = None
        if index in halved:
            half = float(place[-1]) / 2
            place = np.unique(np.append(place, half))
        points = _points_at(lines[index], place)
        plant, number, above = plant_of[index], plant_index[plant_of[index]], parent[index]
        if above >= 0:
            first = node_at[above][joint_of[index]]
        elif plant in seed_of_plant and _are_close(nodes[seed_of_plant[plant]], points[0], series):
            first = seed_of_plant[plant]
        else:
            first = len(nodes)
            nodes.append(points[0])
            plant_of_node.append(number)
            roots.append(first)
            seed_of_plant.setdefault(plant, first)
        line = [first, *range(len(nodes), len(nodes) + len(points) - 1)]
        nodes += list(points[1:])
        plant_of_node += [number] * (len(points) - 1)
        node_at.append(dict(zip(place.tolist(), line, strict=True)))
        edges += itertools.pairwise(line)
        edge_axis += [index] * (len(line) - 1)
        age = appearance_times(track, series.times, place) + offset
        if half is not None:
            age = np.where(place <= half, age - 1, age) if age[0] > 1 else np.where(place > half, age + 1, age)
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
    unit = {"unit": series.time_unit} if series.time_unit else {}
    rsml["property-definitions"] = [{"label": AGE, "type": "real", **unit}]
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


def _nearest_ancestor(track: AxisTrack, series: Series, index_of: dict[str, int]) -> int:
    """Return the index of the nearest ancestor among the axes of the file, -1 for none."""
    parent_of = {other.id: other.parent for other in series.tracks}
    above = track.parent
    while above and above not in index_of:
        above = parent_of[above]
    return index_of.get(above, -1)


def _plants_of_one_age(tracks: Sequence[AxisTrack], plants: Sequence[str], ages: FloatArray) -> set[int]:
    """Return the first axis of each plant whose points have one age after rounding up; `ages` (D,) of the dates."""
    rounded: dict[str, set[float]] = {}
    first: dict[str, int] = {}
    for index, (track, plant) in enumerate(zip(tracks, plants, strict=True)):
        age = ages[track.dates]
        # The first point of an axis has the age of its second one.
        grew = np.diff(track.monotone_length, prepend=0.0) > SAME_PLACE_PX
        rounded.setdefault(plant, set()).update(np.ceil(age[grew] if grew.any() else age[:1]).tolist())
        first.setdefault(plant, index)
    return {first[plant] for plant, values in rounded.items() if len(values) < 2}


def _places(track: AxisTrack, joints: Sequence[float]) -> FloatArray:
    """Return where an axis gets points, (K,) px from its base: its own points, joints, and tips at earlier dates."""
    place = np.unique(np.concatenate([arc_length(track.template), joints]))
    tips = track.monotone_length[track.monotone_length < place[-1] - SAME_PLACE_PX]
    apart = np.abs(tips[:, None] - place[None]).min(axis=1) > SAME_PLACE_PX
    return np.asarray(np.unique(np.concatenate([place, tips[apart]])))


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
