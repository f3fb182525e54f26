"""`Series`: the skeletons of one plate at several dates, registered and matched."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np

from treeformer._util.arrays import FloatArray, IntArray
from treeformer.errors import TreeformerError
from treeformer.skeleton import Axis, Plant, Skeleton
from treeformer.timeseries.isotonic import isotonic
from treeformer.timeseries.matching import Matching, Track, match_axes
from treeformer.timeseries.merging import merged_plants
from treeformer.timeseries.metrics import SHRINKAGE_SHARE, SHRINKAGE_TOLERANCES
from treeformer.timeseries.paths import arc_length, axis_paths
from treeformer.timeseries.plants import NONE
from treeformer.timeseries.registration import MAX_SCALE, Registration, default_tolerance, register_all
from treeformer.timeseries.similarity import Similarity
from treeformer.timeseries.times import Time, check_distinct, times_in_days

if TYPE_CHECKING:
    import os

    import pandas as pd


# Ontology terms of RSML.
PRIMARY_ROOT, LATERAL_ROOT = "PO:0020127", "PO:0020121"


@dataclass(frozen=True)
class AxisTrack:
    """One axis over all dates.

    Attributes:
        id: Identifier, such as "2.1.3": plant 2, its first main axis, the third lateral of that.
        plant: Identifier of its plant.
        parent: Identifier of its parent axis, "" for a main axis.
        order: 0 for a main axis, otherwise the order of the parent + 1.
        dates: (D,) indices of the dates at which it was found, ascending.
        axes: (D,) its index in `Skeleton.axes` at these dates.
        length: (D,) length at these dates, px of the reference date.
        monotone_length: (D,) the non-decreasing lengths nearest to `length`, px of the reference date.
        template: (K,2) its path in px of the reference date, from base to tip, where it was seen best.
        template_date: Index of the date from which the template is.
        base_position: Distance of its base from the base of its parent along that, px of the reference date; NaN for
            a main axis.
    """

    id: str
    plant: str
    parent: str
    order: int
    dates: IntArray
    axes: IntArray
    length: FloatArray
    monotone_length: FloatArray
    template: FloatArray
    template_date: int
    base_position: float


class Series:
    """The plants of one plate at several dates: registered, and with one identity per plant and axis.

    All dates are solved together; see `treeformer.timeseries.registration` and `treeformer.timeseries.matching`. Ids
    in the given skeletons are not used.

    Args:
        dates: (time, skeleton) pairs in any order. Times are numbers, or all of them dates or datetimes, which are
            converted to days since the first one.
        tolerance_px: Distance within which two places are the same, px of the images. None for 1.5 % of the longer side
            of the images.
        register: False if the plate and camera did not move. The skeletons are then compared as they are.
        label: Name of the series in RSML files.

    Attributes:
        times: (D,) ascending.
        time_unit: "day" if the times were given as dates, "" if they were numbers.
        skeletons: One per date, in px of its image, in the order of time. Ids of plants and axes are the same at all
            dates. The RSML metadata have a unified time-sequence.
        registrations: One `Registration` per date, which maps it to the reference date.
        reference: Index of the reference date.
        tracks: The axes over time, in the order of their ids: parents before laterals.
        warnings: One line per problem, such as a date that could not be registered.

    Raises:
        TreeformerError: If there are no dates, a time is invalid or given twice, or an option is invalid.
        SkeletonError: If a skeleton has a cycle.

    Example:
        >>> young, old = Skeleton([(9, 9), (9, 40)], [(0, 1)], root=0), Skeleton([(9, 9), (9, 90)], [(0, 1)], root=0)
        >>> Series([(3.0, old), (1.0, young)]).tracks[0].length.tolist()
        [31.0, 81.0]
    """

    times: FloatArray
    time_unit: str
    skeletons: tuple[Skeleton, ...]
    registrations: tuple[Registration, ...]
    reference: int
    tracks: tuple[AxisTrack, ...]
    warnings: tuple[str, ...]

    def __init__(
        self,
        dates: Iterable[tuple[Time, Skeleton]],
        *,
        tolerance_px: float | None = None,
        register: bool = True,
        label: str = "series",
    ) -> None:
        pairs = _checked_pairs(dates)
        times = times_in_days([time for time, _ in pairs])
        self.time_unit = "day" if isinstance(pairs[0][0], date) else ""
        order = np.argsort(times, kind="stable").tolist()
        self.times = times[order]
        given = [pairs[index][1] for index in order]
        check_distinct(self.times)
        for skeleton in given:
            _ = skeleton.parents  # raises an error if there is a cycle
        if tolerance_px is not None and not (math.isfinite(tolerance_px) and tolerance_px > 0):
            raise TreeformerError(f"tolerance_px must be a positive number, not {tolerance_px}")
        self.tolerance_px = default_tolerance(given) if tolerance_px is None else float(tolerance_px)
        registrations, self.reference = register_all(given, self.tolerance_px, enabled=register)
        self.registrations = tuple(registrations)
        spacing = max(self.tolerance_px / 3, 2.0)
        sampled = [axis_paths(skeleton, spacing) for skeleton in given]
        placed = [
            paths.moved(registration.transform.apply(paths.points))
            for (paths, _), registration in zip(sampled, registrations, strict=True)
        ]
        seeds = [
            registration.transform.apply(_seeds(skeleton))
            for skeleton, registration in zip(given, registrations, strict=True)
        ]
        matching = match_axes(placed, seeds, self.times, self.reference, self.tolerance_px, spacing)
        self._plant_motion = matching.plant_shift
        plant_ids = _plant_ids(matching)
        axis_index = [index for _, index in sampled]
        self.tracks = self._make_tracks(given, matching, plant_ids, axis_index)
        self.skeletons = tuple(
            _with_ids(skeleton, date, matching, plant_ids, self.tracks, axis_index[date], label)
            for date, skeleton in enumerate(given)
        )
        self.tracks = tuple(sorted(self.tracks, key=lambda track: [int(part) for part in track.id.split(".")]))
        self.warnings = tuple(self._find_problems(register))

    def __len__(self) -> int:
        return len(self.times)

    def __repr__(self) -> str:
        plants = len({track.plant for track in self.tracks})
        return f"<Series: {len(self)} dates, {plants} plants, {len(self.tracks)} axes>"

    def transform_of(self, date: int, plant: str | None = None) -> Similarity:
        """Return the map from px of a date to px of the reference date.

        Args:
            date: Index of the date.
            plant: Identifier of a plant, to include how it moved on its plate; None for the plate alone.

        Returns:
            The similarity.
        """
        transform = self.registrations[date].transform
        if plant is None:
            return transform
        return self._plant_motion[date].get(int(plant) - 1, Similarity()).after(transform)

    def axes_over_time(self, *, px_per_mm: float | None = None) -> pd.DataFrame:
        """Return one row per axis and date at which it was found; see `treeformer.timeseries.tables`."""
        from treeformer.timeseries.tables import axes_over_time

        return axes_over_time(self, px_per_mm)

    def axes(self, *, px_per_mm: float | None = None) -> pd.DataFrame:
        """Return one row per axis: emergence, base, final length, maximal growth rate."""
        from treeformer.timeseries.tables import axis_summary

        return axis_summary(self, px_per_mm)

    def plants_over_time(self, *, px_per_mm: float | None = None) -> pd.DataFrame:
        """Return one row per plant and date: its traits, and its growth since the date before."""
        from treeformer.timeseries.tables import plants_over_time

        return plants_over_time(self, px_per_mm)

    def combined(self) -> Skeleton:
        """Return all axes in one skeleton, in px of the reference date, with a function `age` along each axis."""
        from treeformer.timeseries.combined import combined

        return combined(self)

    def write(
        self,
        folder: str | os.PathLike[str],
        *,
        px_per_mm: float | None = None,
        names: Sequence[str] | None = None,
        images: Sequence[Any] | None = None,
        figures: bool = True,
    ) -> list[str]:
        """Write RSML files, tables and figures to a folder; see `treeformer.timeseries.output`.

        Args:
            folder: The folder, which is created.
            px_per_mm: Pixels per millimeter of the reference date; None for px.
            names: One file name without suffix per date, in the order of time; None for "date-000" and so on.
            images: One image or path per date for the figures; None for white backgrounds.
            figures: Draw length curves, kymographs and an animation.

        Returns:
            The names of the files.
        """
        from treeformer.timeseries.output import write

        return write(self, folder, px_per_mm=px_per_mm, names=names, images=images, figures=figures)

    # ---- construction ---------------------------------------------------------------------------

    def _make_tracks(
        self, given: Sequence[Skeleton], matching: Matching, plant_ids: dict[int, str], axis_index: Sequence[IntArray]
    ) -> tuple[AxisTrack, ...]:
        ids, order = _track_ids(matching.tracks, plant_ids)
        tracks = []
        for number, track in enumerate(matching.tracks):
            dates = np.asarray(sorted(track.observed), dtype=np.intp)
            axes = np.asarray([axis_index[d][track.observed[d]] for d in dates.tolist()], dtype=np.intp)
            length = np.asarray(
                [
                    self.registrations[d].transform.scale * _axis_length(given[d], a)
                    for d, a in zip(dates.tolist(), axes.tolist(), strict=True)
                ]
            )
            fitted = isotonic(length)
            good = np.abs(length - fitted[-1])
            best = int(np.flatnonzero(good <= good.min() + self.tolerance_px)[-1])
            date, axis = int(dates[best]), int(axes[best])
            motion = matching.plant_shift[date].get(track.plant, Similarity()).after(self.registrations[date].transform)
            template = motion.apply(given[date].nodes[list(given[date].axes[axis].nodes)])
            parent = "" if track.parent == NONE else ids[track.parent]
            position = math.nan
            if track.parent != NONE:
                position = _position_along(matching.tracks[track.parent].template, template[0])
            tracks.append(
                AxisTrack(
                    ids[number],
                    plant_ids[track.plant],
                    parent,
                    order[number],
                    dates,
                    axes,
                    length,
                    fitted,
                    template,
                    date,
                    position,
                )
            )
        return tuple(tracks)

    def _find_problems(self, register: bool) -> Iterable[str]:
        for index, (skeleton, registration) in enumerate(zip(self.skeletons, self.registrations, strict=True)):
            name = skeleton.image_name or f"date {index}"
            side, usual = (max(one.image_size or (0,)) for one in (skeleton, self.skeletons[self.reference]))
            if min(side, usual) and max(side, usual) > MAX_SCALE * min(side, usual):
                yield f"{name}: its image is {side} px long, that of the reference date {usual} px; scale it like that"
            if len(skeleton.edges) == 0:
                yield f"{name}: no plant at time {self.times[index]:g}"
            elif not registration.succeeded and register:
                share = f"{registration.agreement:.0%} of its length agrees with the other dates"
                yield f"{name}: could not be registered ({share}); the transform of its neighbor is used"
        for plant, other, index in merged_plants(self):
            yield f"plant {plant}: ends at time {self.times[index]:g}; it may have become a part of plant {other}"
        for track in self.tracks:
            drop = track.length[:-1] - track.length[1:]
            slack = np.maximum(SHRINKAGE_SHARE * track.length[:-1], SHRINKAGE_TOLERANCES * self.tolerance_px)
            if count := int((drop > slack).sum()):
                worst = int(np.argmax(drop - slack))
                yield (
                    f"axis {track.id}: becomes {drop[worst]:.0f} px shorter at time "
                    f"{self.times[track.dates[worst + 1]]:g} ({count} of {len(drop)} intervals)"
                )


def _checked_pairs(dates: Iterable[tuple[Time, Skeleton]]) -> list[tuple[Time, Skeleton]]:
    pairs = list(dates)
    for number, pair in enumerate(pairs):
        if not (isinstance(pair, tuple | list) and len(pair) == 2 and isinstance(pair[1], Skeleton)):
            raise TreeformerError(f"item {number} of the series is not a (time, Skeleton) pair")
    if not pairs:
        raise TreeformerError("a series needs at least one date")
    return [(time, skeleton) for time, skeleton in pairs]


def _seeds(skeleton: Skeleton) -> FloatArray:
    """Return where each plant begins, (P,2) px: the root of its longest component; (0, 0) for a plant without nodes."""
    plant = skeleton.plant_of_node
    seeds = np.zeros((int(plant.max(initial=-1)) + 1, 2))
    longest = np.full(len(seeds), -1)
    size = np.bincount(skeleton.component, minlength=len(skeleton.component_root))
    for component, root in enumerate(skeleton.component_root.tolist()):
        if size[component] > longest[plant[root]]:
            longest[plant[root]] = size[component]
            seeds[plant[root]] = skeleton.nodes[root]
    return seeds


def _plant_ids(matching: Matching) -> dict[int, str]:
    return {plant: str(plant + 1) for plant in range(max(matching.plant_count, 1))}


def _track_ids(tracks: Sequence[Track], plant_ids: dict[int, str]) -> tuple[list[str], list[int]]:
    """Number tracks within their parent, along the parent; main axes within their plant, from left to right."""
    siblings: dict[tuple[int, int], list[int]] = {}
    for number, track in enumerate(tracks):
        siblings.setdefault((track.parent, track.plant if track.parent == NONE else NONE), []).append(number)
    ids = [""] * len(tracks)
    order = [0] * len(tracks)
    for number, track in enumerate(tracks):  # parents come first
        group = siblings[track.parent, track.plant if track.parent == NONE else NONE]
        if track.parent == NONE:
            ranked = sorted(group, key=lambda k: (tracks[k].template[-1, 0], k))
            prefix = plant_ids[track.plant]
        else:
            line = tracks[track.parent].template
            ranked = sorted(group, key=lambda k: (_position_along(line, tracks[k].template[0]), k))
            prefix = ids[track.parent]
            order[number] = order[track.parent] + 1
        ids[number] = f"{prefix}.{ranked.index(number) + 1}"
    return ids, order


def _position_along(line: FloatArray, point: FloatArray) -> float:
    """Return the path length from the first point of a polyline to its place nearest to a point, px."""
    from treeformer._util.geometry import project_onto_segments

    if len(line) < 2:
        return 0.0
    t, distance = project_onto_segments(np.repeat(point[None], len(line) - 1, axis=0), line[:-1], line[1:])
    nearest = int(distance.argmin())
    position = arc_length(line)
    return float(position[nearest] + t[nearest] * (position[nearest + 1] - position[nearest]))


def _axis_length(skeleton: Skeleton, axis: int) -> float:
    return float(arc_length(skeleton.nodes[list(skeleton.axes[axis].nodes)])[-1])


def _with_ids(
    skeleton: Skeleton,
    date: int,
    matching: Matching,
    plant_ids: dict[int, str],
    tracks: Sequence[AxisTrack],
    axis_index: IntArray,
    label: str,
) -> Skeleton:
    """Return the skeleton of a date with the ids of the series."""
    track_of_axis = dict(zip(axis_index.tolist(), matching.track_of_axis[date].tolist(), strict=True))
    axes: list[Axis] = []
    for number, axis in enumerate(skeleton.axes):
        track = track_of_axis.get(number)
        accession = axis.accession or (PRIMARY_ROOT if axis.parent is None else LATERAL_ROOT)
        id_ = tracks[track].id if track is not None else ""
        axes.append(replace(axis, id=id_, accession=accession))
    plants = skeleton.plant_of_node
    count = int(plants.max(initial=-1)) + 1
    records = [
        skeleton.plant_records[number] if number < len(skeleton.plant_records) else Plant() for number in range(count)
    ]
    identity = matching.plant_of_date[date]
    records = [
        replace(record, id=plant_ids[int(identity[number])] if number < len(identity) and identity[number] >= 0 else "")
        for number, record in enumerate(records)
    ]
    rsml = dict(skeleton.metadata.get("rsml") or {})
    rsml["time-sequence"] = {"label": label, "index": date, "unified": True}
    return skeleton.replace(
        axes=axes,
        edge_axis=skeleton.edge_axis,
        plant=plants,
        plant_records=records,
        metadata={**skeleton.metadata, "rsml": rsml},
    )
