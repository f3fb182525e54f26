"""The walks of the paper's TOPO score: samples on all edges that a start reaches, for many starts at once.

A walk samples the whole edge it starts on, then goes breadth-first from both its ends and never back through them.
A sample lies wherever the path length is a multiple of the step, up to the reach. Arithmetic is in single precision,
sum by sum as in the released code.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np

from treeformer._util.arrays import Float32Array, IntArray
from treeformer.metrics._geographic import distance
from treeformer.metrics._rows import offsets, slots
from treeformer.skeleton.branches import adjacency

STEP = 0.00005  # degrees: 5.56 px
REACH = 0.0015  # degrees: 166.7 px


@dataclass(frozen=True)
class Starts:
    """Where walks begin: walk k on edge[k], from first[k] to second[k], at these distances from both (degrees)."""

    edge: IntArray
    first: IntArray
    second: IntArray
    to_first: Float32Array
    to_second: Float32Array

    def __len__(self) -> int:
        return len(self.edge)

    def __getitem__(self, at: IntArray | slice) -> Starts:
        return Starts(self.edge[at], self.first[at], self.second[at], self.to_first[at], self.to_second[at])


@dataclass(frozen=True)
class Walked:
    """The samples of all walks, walk by walk and run by run: run k is what walk[k] laid on edge[k].

    place (M,2): the samples; those of run k are begin[k] to begin[k + 1].
    start (walks + 1,): the samples of walk w are start[w] to start[w + 1].
    run_of (walks, edges): the run of a walk on an edge, -1 where the walk does not reach it.
    """

    place: Float32Array
    walk: IntArray
    edge: IntArray
    begin: IntArray
    start: IntArray
    run_of: IntArray


@dataclass(frozen=True)
class _Runs:
    """Samples on some edges: size[k] of them on the k-th, at the fractions alpha from `tail` to `head`, end to end."""

    walk: IntArray
    edge: IntArray
    tail: IntArray
    head: IntArray
    size: IntArray
    alpha: Float32Array


def walk(place: Float32Array, edges: IntArray, starts: Starts) -> Walked:
    """Walk from all starts; place (N,2) and edges (E,2) are the graph."""
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
    laid = np.empty((len(alpha), 2), dtype=np.float32)
    for axis in (0, 1):
        to, off = (place[ends, axis][source] for ends in (head, tail))
        laid[:, axis] = to * alpha + off * (np.float32(1) - alpha)
    return Walked(laid, walk_of, edge, begin, start, run_of)


def _along_first_edges(place: Float32Array, starts: Starts) -> _Runs:
    """The whole starting edge, sampled from its second end on."""
    length = distance(place[starts.second], place[starts.first])
    share = np.float32(STEP) / np.where(length > 0, length, np.float32(STEP / 2))
    alpha = np.zeros((len(starts), 2 + int(1 / share.min(initial=1))), dtype=np.float32)
    alpha[:, 1:] = share[:, None]
    np.add.accumulate(alpha, axis=1, out=alpha)
    size = (alpha <= 1).sum(axis=1)
    return _Runs(np.arange(len(starts)), starts.edge, starts.second, starts.first, size, alpha[alpha <= 1])


def _breadth_first(place: Float32Array, edges: IntArray, starts: Starts) -> Iterator[_Runs]:
    """Everything beyond the starting edges, a round for each number of edges away from them.

    On a cycle each edge is walked once, from the end that is reached first.
    """
    row, to, over = adjacency(edges, len(place))
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
        head, edge = to[slot], over[slot]
        of = walk_of[source]
        ahead = np.flatnonzero(~used[of, edge] & (head != starts.first[of]) & (head != starts.second[of]))
        ahead = ahead[_first_of_each(of[ahead] * len(edges) + edge[ahead], used.size)]
        if len(ahead) == 0:
            return
        head, edge, source = head[ahead], edge[ahead], source[ahead]
        walk_of, tail, path = walk_of[source], node[source], path[source]
        used[walk_of, edge] = True
        length = distance(place[head], place[tail])
        yield _Runs(walk_of, edge, tail, head, *_multiples(path, length))
        node, path = head, path + length


def _first_of_each(key: IntArray, keys: int) -> IntArray:
    """The positions of the first of all equal keys, in order; keys are below a number."""
    position = np.arange(len(key))
    first = np.empty(keys, dtype=np.intp)
    first[key[::-1]] = position[::-1]  # of several, the last one stays
    return np.flatnonzero(first[key] == position)


def _multiples(path: Float32Array, length: Float32Array) -> tuple[IntArray, Float32Array]:
    """How many multiples of the step lie on edges of these lengths, begun at these path lengths, and where."""
    along = np.full((len(path), 2 + int(min(length.max(), REACH) / STEP)), STEP, dtype=np.float32)
    along[:, 0] = (STEP * np.ceil(path / np.float32(STEP)).astype(np.float64)).astype(np.float32) - path
    np.add.accumulate(along, axis=1, out=along)
    alpha = (along / np.maximum(length, np.float32(1e-12))[:, None]).astype(np.float32, copy=False)
    valid = path[:, None] + length[:, None] * alpha <= np.float32(REACH)
    valid &= along < length[:, None]
    return valid.sum(axis=1), alpha[valid]
