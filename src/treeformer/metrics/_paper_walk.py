"""Walks of the paper's TOPO score: samples on all edges within reach of a start, for many starts at once.

A walk samples the whole edge on which it starts. It then proceeds breadth-first from both ends of that edge and never
back through them. Samples lie where the path length is a multiple of the step, up to the reach. Arithmetic is in single
precision and sums in the same order as the released code.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np

from treeformer._util.arrays import Float32Array, IntArray
from treeformer.metrics._geographic import distance
from treeformer.metrics._rows import offsets, slots
from treeformer.skeleton.connectivity import adjacency

STEP = 0.00005  # degrees: 5.56 px
REACH = 0.0015  # degrees: 166.7 px


@dataclass(frozen=True)
class Starts:
    """The places where W walks start."""

    edge: IntArray  # (W,) edge on which each walk starts
    first: IntArray  # (W,) node at one end of that edge
    second: IntArray  # (W,) node at its other end
    to_first: Float32Array  # (W,) distance from the start to `first`, degrees
    to_second: Float32Array  # (W,) distance from the start to `second`, degrees

    def __len__(self) -> int:
        return len(self.edge)

    def __getitem__(self, at: IntArray | slice) -> Starts:
        return Starts(self.edge[at], self.first[at], self.second[at], self.to_first[at], self.to_second[at])


@dataclass(frozen=True)
class Walked:
    """The samples of W walks, sorted by walk, then by run. A run is the set of samples of one walk on one edge."""

    place: Float32Array  # (M,2) samples, latitude and longitude in degrees
    walk: IntArray  # (K,) walk of each run
    edge: IntArray  # (K,) edge of each run
    begin: IntArray  # (K+1,) offsets; the samples of run k are begin[k] to begin[k + 1]
    start: IntArray  # (W+1,) offsets; the samples of walk w are start[w] to start[w + 1]
    run_of: IntArray  # (W,E) run of each walk on each edge, -1 if the walk does not reach the edge


@dataclass(frozen=True)
class _Runs:
    """Runs of samples: size[k] of them on edge[k], at the fractions alpha from `tail` to `head`, concatenated."""

    walk: IntArray
    edge: IntArray
    tail: IntArray
    head: IntArray
    size: IntArray
    alpha: Float32Array


def walk(place: Float32Array, edges: IntArray, starts: Starts) -> Walked:
    """Walk from all starts on the nodes (N,2), latitude and longitude in degrees, and the edges (E,2) of a graph."""
    rounds = [_along_first_edges(place, starts), *_breadth_first(place, edges, starts)]
    walk_of, edge, tail, head, size, alpha = (
        np.concatenate([getattr(runs, field.name) for runs in rounds]) for field in fields(_Runs)
    )
    order = np.argsort(walk_of, kind="stable")
    source, sample = slots(offsets(size), order)
    walk_of, edge, tail, head, begin = walk_of[order], edge[order], tail[order], head[order], offsets(size[order])
    run_of = np.full((len(starts), len(edges)), -1, dtype=np.intp)
    run_of[walk_of, edge] = np.arange(len(walk_of))
    start = begin[np.searchsorted(walk_of, np.arange(len(starts) + 1))]
    alpha = alpha[sample]
    samples = np.empty((len(alpha), 2), dtype=np.float32)
    for axis in (0, 1):
        to_place, from_place = (place[ends, axis][source] for ends in (head, tail))
        samples[:, axis] = to_place * alpha + from_place * (np.float32(1) - alpha)
    return Walked(samples, walk_of, edge, begin, start, run_of)


def _along_first_edges(place: Float32Array, starts: Starts) -> _Runs:
    """Sample the whole starting edges, beginning at their second ends."""
    length = distance(place[starts.second], place[starts.first])
    fraction = np.float32(STEP) / np.where(length > 0, length, np.float32(STEP / 2))
    alpha = np.zeros((len(starts), 2 + int(1 / fraction.min(initial=1))), dtype=np.float32)
    alpha[:, 1:] = fraction[:, None]
    np.add.accumulate(alpha, axis=1, out=alpha)
    size = (alpha <= 1).sum(axis=1)
    return _Runs(np.arange(len(starts)), starts.edge, starts.second, starts.first, size, alpha[alpha <= 1])


def _breadth_first(place: Float32Array, edges: IntArray, starts: Starts) -> Iterator[_Runs]:
    """Sample everything beyond the starting edges, one round per number of edges away from them.

    On a cycle each edge is walked once, from the end that is reached first.
    """
    row, neighbor, via = adjacency(edges, len(place))
    used = np.zeros((len(starts), len(edges)), dtype=bool)
    used[np.arange(len(starts)), starts.edge] = True
    reached = np.zeros((len(starts), len(place)), dtype=bool)
    walk_of = np.concatenate([np.arange(len(starts))] * 2)
    node = np.concatenate([starts.first, starts.second])
    path = np.concatenate([starts.to_first, starts.to_second])
    while True:
        fresh = np.flatnonzero(~reached[walk_of, node] & (path <= np.float32(REACH)))
        fresh = fresh[_first_of_each(walk_of[fresh] * len(place) + node[fresh], reached.size)]
        walk_of, node, path = walk_of[fresh], node[fresh], path[fresh]
        reached[walk_of, node] = True
        source, slot = slots(row, node)
        head, edge = neighbor[slot], via[slot]
        walk_of_slot = walk_of[source]
        is_start = (head == starts.first[walk_of_slot]) | (head == starts.second[walk_of_slot])
        ahead = np.flatnonzero(~used[walk_of_slot, edge] & ~is_start)
        ahead = ahead[_first_of_each(walk_of_slot[ahead] * len(edges) + edge[ahead], used.size)]
        if len(ahead) == 0:
            return
        head, edge, source = head[ahead], edge[ahead], source[ahead]
        walk_of, tail, path = walk_of[source], node[source], path[source]
        used[walk_of, edge] = True
        length = distance(place[head], place[tail])
        yield _Runs(walk_of, edge, tail, head, *_multiples(path, length))
        node, path = head, path + length


def _first_of_each(key: IntArray, keys: int) -> IntArray:
    """Return the positions of the first occurrence of each key, in order. All keys are below `keys`."""
    position = np.arange(len(key))
    first = np.empty(keys, dtype=np.intp)
    first[key[::-1]] = position[::-1]  # for repeated keys the last assignment wins
    return np.flatnonzero(first[key] == position)


def _multiples(path: Float32Array, length: Float32Array) -> tuple[IntArray, Float32Array]:
    """Return how many multiples of the step lie on edges that begin at path lengths `path`, and at which fractions."""
    along = np.full((len(path), 2 + int(min(length.max(), REACH) / STEP)), STEP, dtype=np.float32)
    along[:, 0] = (STEP * np.ceil(path / np.float32(STEP)).astype(np.float64)).astype(np.float32) - path
    np.add.accumulate(along, axis=1, out=along)
    alpha = (along / np.maximum(length, np.float32(1e-12))[:, None]).astype(np.float32, copy=False)
    valid = path[:, None] + length[:, None] * alpha <= np.float32(REACH)
    valid &= along < length[:, None]
    return valid.sum(axis=1), alpha[valid]
