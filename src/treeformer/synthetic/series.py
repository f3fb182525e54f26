"""Growth of the plants of one image over several dates, with exact ground truth.

A series starts from the plants that a preset grows. They are the last date. Every axis gets the time at which it
emerges and a law of growth, which together give the time at which its tip passed each point. At an earlier date, each
axis is cut where its tip was. A lateral emerges after the tip of its parent has passed its base.

Each date has its own frame: the plate is shifted, rotated and slightly scaled. `treeformer.synthetic.series_images`
renders the frames.
"""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from treeformer._util.arrays import FloatArray
from treeformer.errors import TreeformerError
from treeformer.skeleton import Axis, AxisFunction, Plant, Skeleton
from treeformer.synthetic.plants.lsystem import on_grid
from treeformer.synthetic.presets import check_size, generate
from treeformer.synthetic.rng import Rng

# Margin around the plants, as a share of the image's sides. The plate moves by less than this.
MARGIN_SHARE = 0.06
MIN_FRAME_PX = 72  # the shortest side that leaves `presets.MIN_SIDE_PX` between the margins
# Shorter axes are not visible yet.
MIN_VISIBLE_PX = 4.0
MAX_DATES = 10_000


@dataclass(frozen=True, slots=True)
class Disturbance:
    """How much the dates of a series differ, apart from growth."""

    shift: float = 0.04  # maximum shift of the plate, as a share of the image's shorter side; at most 0.05 has room
    rotation: float = 3.0  # maximum rotation of the plate, degrees
    scale: float = 0.01  # maximum relative change of scale
    dropped: float = 0.15  # probability that a date is missing, which leaves a longer interval
    repeated: float = 0.05  # probability that a frame shows the plants as they were on the date before
    light: float = 0.5  # strength of the changes of light, 0 to 1. Affects images only.
    haze: float = 0.25  # probability that condensation hides a part of a frame. Affects images only.
    occlusion: float = 0.2  # probability that an object hides a part of a frame. Affects images only.


NO_DISTURBANCE = Disturbance(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class SeriesFrame:
    """One date of a series."""

    time: float  # time of the image, days
    # the plants in px of the frame. Ids of plants and axes are the same at all dates. Each axis has a function `age`,
    # with the meaning that archiDART gives it: the time at which its tip passed each point, days.
    skeleton: Skeleton
    plate: Skeleton  # the same plants in px of the plate, before it was moved
    motion: FloatArray  # (2,3) affine map from px of the plate to px of the frame


def generate_series(
    preset: str = "plate",
    seed: int = 0,
    *,
    dates: int = 10,
    size: tuple[int, int] = (512, 512),
    disturbance: Disturbance | None = None,
) -> tuple[SeriesFrame, ...]:
    """Generate the plants of one seed at several dates.

    >>> frames = generate_series("taproot", 3, dates=4)
    >>> [frame.skeleton.length > 0 for frame in frames]
    [True, True, True, True]

    Args:
        preset: What to grow, one of `treeformer.synthetic.PRESETS`.
        seed: Zero or more. The same seed gives the same series on every machine.
        dates: Number of dates, from 1 to 10,000.
        size: (width, height) of the frames, px, at least 72 each.
        disturbance: What differs between the dates apart from growth; None for the default values.

    Returns:
        One frame per date, the youngest first. At the last date, the plants are fully grown.

    Raises:
        TreeformerError: If an argument is invalid.
    """
    if not 1 <= dates <= MAX_DATES:
        raise TreeformerError(f"the number of dates must be from 1 to {MAX_DATES:,}, not {dates}")
    size = check_size(size, MIN_FRAME_PX)
    disturbance = disturbance or Disturbance()
    margin = tuple(int(side * MARGIN_SHARE) for side in size)
    grown = generate(preset, seed, size=(size[0] - 2 * margin[0], size[1] - 2 * margin[1]))
    grown = grown.transform([[1, 0, margin[0]], [0, 1, margin[1]]], image_size=size)
    rng = Rng(zlib.crc32(f"series {preset}".encode()), seed)
    times = _times(rng, dates, disturbance.dropped)
    growth = _law_of_growth(rng, grown, float(times[-1]))
    frames = []
    shown = 0.0
    for rank, time in enumerate(times):
        repeats = 0 < rank < dates - 1 and rng.chance(disturbance.repeated)
        shown = shown if repeats else float(time)
        plate = plants_at(grown, growth, shown)
        motion = _motion(rng, size, disturbance, grown)
        frames.append(SeriesFrame(float(time), plate.transform(motion, image_size=size), plate, motion))
    return tuple(frames)


@dataclass(frozen=True, slots=True)
class AxisGrowth:
    """When the tip of one axis passes each place."""

    emergence: float  # time at which the axis begins to grow, days
    end: float  # time at which it stops, days
    exponent: float  # exponent p of the law: length is proportional to ((time - emergence) / (end - emergence)) ** p
    length: float  # final length, px

    def length_at(self, time: float) -> float:
        """Return the length at a time, px."""
        share = min(max((time - self.emergence) / (self.end - self.emergence), 0.0), 1.0)
        return self.length * math.pow(share, self.exponent)

    def time_at(self, position: float) -> float:
        """Return the time at which the tip passes a position, px from the base."""
        share = min(max(position / self.length, 0.0), 1.0) if self.length > 0 else 0.0
        return self.emergence + (self.end - self.emergence) * math.pow(share, 1 / self.exponent)


def plants_at(grown: Skeleton, growth: Sequence[AxisGrowth], time: float) -> Skeleton:
    """Cut fully grown plants back to an earlier time, days; axes get ids and the function `age`.

    Axes begin at a node of their parent, and parents come first.
    """
    nodes: list[FloatArray] = []
    radius: list[float] = []
    plant: list[int] = []
    edges: list[tuple[int, int]] = []
    edge_axis: list[int] = []
    axes: list[Axis] = []
    new_node: dict[int, int] = {}  # of the grown plant's nodes
    new_axis: dict[int, int] = {}
    roots: list[int] = []
    grown_radius = np.full(len(grown), np.nan) if grown.radius is None else grown.radius

    def add(point: FloatArray, radius_px: float, plant_index: int) -> int:
        nodes.append(point)
        radius.append(radius_px)
        plant.append(plant_index)
        return len(nodes) - 1

    for number, axis in enumerate(grown.axes):
        law = growth[number]
        length = law.length_at(time)
        base = axis.nodes[0]
        if length < MIN_VISIBLE_PX or (axis.parent is not None and base not in new_node):
            continue
        if axis.parent is not None and axis.parent not in new_axis:
            continue
        points = grown.nodes[list(axis.nodes)]
        position = arc_length(points)
        if base not in new_node:
            new_node[base] = add(points[0], float(grown_radius[base]), axis.plant)
            roots.append(new_node[base])
        line = [new_node[base]]
        kept = int(np.searchsorted(position, length, side="right"))
        # A tip within a quarter of a px of a node is that node.
        if kept < len(position) and position[kept] - length < 0.25:
            kept += 1
        for node, point in zip(axis.nodes[1:kept], points[1:kept], strict=True):
            new_node[node] = add(point, float(grown_radius[node]), axis.plant)
            line.append(new_node[node])
        if kept < len(position) and length - position[kept - 1] >= 0.25:
            t = (length - position[kept - 1]) / (position[kept] - position[kept - 1])
            before, after = axis.nodes[kept - 1], axis.nodes[kept]
            tip_radius = (1 - t) * grown_radius[before] + t * grown_radius[after]
            line.append(add(on_grid((1 - t) * points[kept - 1] + t * points[kept]), float(tip_radius), axis.plant))
        if len(line) < 2:
            continue
        new_axis[number] = len(axes)
        edges += itertools.pairwise(line)
        edge_axis += [len(axes)] * (len(line) - 1)
        passed = arc_length(np.asarray([nodes[node] for node in line]))
        age = tuple(round(law.time_at(place), 6) for place in passed.tolist())
        parent = None if axis.parent is None else new_axis[axis.parent]
        label = axis.label or ("primary" if parent is None else "lateral")
        axes.append(
            Axis(
                tuple(line),
                f"{axis.plant + 1}.{number + 1}",
                label,
                parent=parent,
                plant=axis.plant,
                functions=(AxisFunction("age", age),),
            )
        )
    known = bool(nodes) and grown.radius is not None
    return Skeleton(
        np.asarray(nodes).reshape(-1, 2),
        edges,
        root=roots,
        radius=radius if known else None,
        axes=axes,
        edge_axis=edge_axis,
        plant=plant,
        plant_records=[Plant(id=str(index + 1)) for index in range(int(grown.plant_of_node.max(initial=-1)) + 1)],
        image_size=grown.image_size,
        metadata=dict(grown.metadata),
    )


def arc_length(points: FloatArray) -> FloatArray:
    """Return the path length from the first point of a polyline (M,2) to each of its points, (M,) px."""
    step = np.diff(points, axis=0)
    return np.concatenate([[0.0], np.cumsum(np.hypot(step[:, 0], step[:, 1]))])


def _times(rng: Rng, dates: int, dropped: float) -> list[int]:
    """Draw the times of all dates: one per day, with some days missing."""
    times = [0]
    while len(times) < dates:
        step = 1
        while rng.chance(dropped) and step < 4:
            step += 1
        times.append(times[-1] + step)
    return times


def _law_of_growth(rng: Rng, grown: Skeleton, duration: float) -> list[AxisGrowth]:
    """Draw the growth of each axis of the plants. All axes have their final length at time `duration`."""
    if duration < 1.0:  # a single date: its plants have grown on the day before
        day = _law_of_growth(rng, grown, 1.0)
        return [replace(law, emergence=law.emergence - 1.0, end=law.end - 1.0) for law in day]
    position_of = [
        dict(zip(axis.nodes, arc_length(grown.nodes[list(axis.nodes)]).tolist(), strict=True)) for axis in grown.axes
    ]
    # An axis that branches near its tip stops early, so that its last laterals have time to grow.
    farthest = [0.0] * len(grown.axes)
    for axis in grown.axes:
        if axis.parent is not None:
            place = position_of[axis.parent].get(axis.nodes[0], 0.0)
            farthest[axis.parent] = max(farthest[axis.parent], place)
    laws: list[AxisGrowth] = []
    for number, axis in enumerate(grown.axes):
        length = position_of[number][axis.nodes[-1]]
        exponent = rng.uniform(0.75, 1.35)
        stops_early = rng.chance(0.2)
        early = rng.uniform(0.5, 1.0)
        if axis.parent is None:
            emergence = duration * rng.uniform(-0.3, 0.12)
            early = 0.5 + early / 2
        else:
            begin = laws[axis.parent].time_at(position_of[axis.parent].get(axis.nodes[0], 0.0))
            begin = max(begin, -0.3 * duration)
            emergence = begin + (duration - begin) * rng.uniform(0.08, 0.45)
        if farthest[number] > 0.8 * length:
            stops_early, early = True, 0.4 + 0.3 * early
        end = emergence + (duration - emergence) * early if stops_early else duration
        laws.append(AxisGrowth(emergence, end, exponent, length))
    return laws


def _motion(rng: Rng, size: tuple[int, int], disturbance: Disturbance, grown: Skeleton) -> FloatArray:
    """Draw the motion of the plate on one date. It is reduced until all plants lie inside the frame."""
    shift = np.asarray([rng.uniform(-1, 1), rng.uniform(-1, 1)]) * disturbance.shift * min(size)
    rotation = math.radians(disturbance.rotation) * rng.uniform(-1, 1)
    scale = disturbance.scale * rng.uniform(-1, 1)
    center = np.asarray(size) / 2
    motion = np.empty((2, 3))
    for strength in (1.0, 0.75, 0.5, 0.25, 0.0):
        factor = 1 + strength * scale
        cos, sin = factor * math.cos(strength * rotation), factor * math.sin(strength * rotation)
        motion[:, :2] = ((cos, -sin), (sin, cos))
        motion[:, 2] = center + strength * shift - motion[:, :2] @ center
        moved = grown.nodes @ motion[:, :2].T + motion[:, 2]
        if ((moved >= 1) & (moved <= np.asarray(size) - 1)).all():
            break
    return motion
