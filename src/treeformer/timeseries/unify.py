"""Replace the predicted dates of a series by drawings of one plant model, and give identities by it.

Dates that a person has corrected or drawn are never changed: they have no scores, or the editor has saved them. They
have a greater weight in the model, and their axes get the identities of the model axes that they fit. A predicted date
that could not be registered, or that shows no plant, stays as it is, too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treeformer._util.arrays import FloatArray, IntArray
from treeformer.skeleton import Skeleton
from treeformer.skeleton.provenance import is_uncorrected
from treeformer.timeseries.costs import MAX_COST, assign, importance, pair_costs
from treeformer.timeseries.matching import Matching, Track
from treeformer.timeseries.model_dates import draw_date
from treeformer.timeseries.paths import Paths, paths_of_lines, sample
from treeformer.timeseries.plant_model import CORRECTED_WEIGHT, DateAxis, ModelAxis, build_model
from treeformer.timeseries.plants import NONE, PlantMatching, match_plants, with_plant_shifts
from treeformer.timeseries.registration import Registration
from treeformer.timeseries.similarity import Similarity


def unify_dates(
    given: Sequence[Skeleton],
    placed: Sequence[Paths],
    seeds: Sequence[FloatArray],
    registrations: Sequence[Registration],
    reference: int,
    tolerance_px: float,
    spacing_px: float,
) -> tuple[list[Skeleton], Matching] | None:
    """Build the model of a series, draw its predicted dates, and match all dates with it.

    Args:
        given: One skeleton per date, in the order of time.
        placed: The axes of each date, registered, in px of the reference date.
        seeds: One (P,2) array per date: where its plants begin, px of the reference date.
        registrations: One per date.
        reference: Index of the reference date.
        tolerance_px: Distance within which places agree, px.
        spacing_px: Distance between the points of all paths, px.

    Returns:
        One skeleton per date, and the identities of their axes; None if no date is to be drawn, because none is
        predicted or there is only one.
    """
    votes = np.asarray([len(s.edges) > 0 and r.succeeded for s, r in zip(given, registrations, strict=True)])
    is_drawn = votes & np.asarray([is_uncorrected(skeleton) for skeleton in given])
    if not is_drawn.any() or votes.sum() < 2:
        return None
    plants = match_plants(placed, seeds, reference, tolerance_px)
    to_reference = [
        {plant: shift.after(registration.transform) for plant, shift in shifts.items()}
        for shifts, registration in zip(plants.shift, registrations, strict=True)
    ]
    weights = np.where(is_drawn, 1.0, np.where(votes, CORRECTED_WEIGHT, 0.0))
    axes = [
        _moved_axes(skeleton, identity, motions)
        for skeleton, identity, motions in zip(given, plants.identity, to_reference, strict=True)
    ]
    model = build_model(axes, weights, tolerance_px)
    tracks = [Track({}, axis.line, axis.parent, axis.plant) for axis in model]
    skeletons = list(given)
    track_of_axis: list[IntArray] = []
    plant_of_date = list(plants.identity)
    for date, skeleton in enumerate(given):
        if is_drawn[date]:
            default = registrations[date].transform
            drawn = draw_date(model, date, skeleton, to_reference[date], default, tolerance_px)
            skeletons[date], plant_of_date[date] = drawn.skeleton, drawn.plants
            track_of_axis.append(drawn.model_axis)
        else:
            paths = with_plant_shifts(placed[date], plants.identity[date], plants.shift[date])
            identity = plants.identity[date][paths.plant]
            track_of_axis.append(_known_tracks(paths, identity, model, tracks, tolerance_px, spacing_px))
        for axis, track in enumerate(track_of_axis[date].tolist()):
            tracks[track].observed[date] = axis
    return skeletons, _matching(tracks, track_of_axis, plant_of_date, plants)


def _moved_axes(skeleton: Skeleton, identity: IntArray, motions: dict[int, Similarity]) -> list[DateAxis]:
    """Return the axes of a date in px of the reference date, each moved with its plant."""
    axes = []
    plant_of_node = skeleton.plant_of_node
    for axis in skeleton.axes:
        if len(axis.nodes) > 1:
            plant = int(identity[plant_of_node[axis.nodes[0]]])
            line = motions[plant].apply(skeleton.nodes[list(axis.nodes)])
            axes.append(DateAxis(line, plant, axis.parent is None))
    return axes


def _known_tracks(
    paths: Paths,
    plant: IntArray,
    model: Sequence[ModelAxis],
    tracks: list[Track],
    tolerance_px: float,
    spacing_px: float,
) -> IntArray:
    """Return the track of each axis of a date that is not drawn. Axes that no model axis fits begin new tracks."""
    found = np.full(len(paths), NONE, dtype=np.intp)
    if model and len(paths):
        lines = [sample(axis.line, spacing_px) for axis in model]
        nothing = np.full(len(model), NONE, dtype=np.intp)
        cost = pair_costs(paths, paths_of_lines(lines, nothing, nothing), tolerance_px, spacing_px)
        for axis, track in assign(cost, MAX_COST, importance(paths.length / tolerance_px)):
            found[axis] = track
    new = np.flatnonzero(found == NONE)
    found[new] = np.arange(len(tracks), len(tracks) + len(new))
    for axis in new.tolist():
        parent = int(paths.parent[axis])
        parent_track = NONE if parent < 0 else int(found[parent])
        tracks.append(Track({}, paths.path(axis), parent_track, int(plant[axis])))
    return found


def _matching(
    tracks: Sequence[Track], track_of_axis: Sequence[IntArray], plant_of_date: Sequence[IntArray], plants: PlantMatching
) -> Matching:
    """Number the tracks that are seen, parents before laterals."""
    for track in tracks:
        while track.parent != NONE and not tracks[track.parent].observed:
            track.parent = tracks[track.parent].parent

    def depth(track: Track) -> int:
        count = 0
        while track.parent != NONE:
            track, count = tracks[track.parent], count + 1
        return count

    used = sorted((k for k, track in enumerate(tracks) if track.observed), key=lambda k: (depth(tracks[k]), k))
    number = {k: rank for rank, k in enumerate(used)}
    renumbered = [np.asarray([number[k] for k in some.tolist()], dtype=np.intp) for some in track_of_axis]
    kept = [tracks[k] for k in used]
    for track in kept:
        track.parent = number.get(track.parent, NONE)
    return Matching(
        tuple(renumbered),
        tuple(np.asarray([kept[k].plant for k in some.tolist()], dtype=np.intp) for some in renumbered),
        tuple(plant_of_date),
        tuple(kept),
        plants.count,
        tuple(plants.shift),
        1,
    )
