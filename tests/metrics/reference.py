"""TOPO as the paper's code has it, start by start and sample by sample: the slow, plain twin of `topo_paper`."""

from __future__ import annotations

import itertools
import math

import networkx as nx
import numpy as np

from treeformer import Skeleton

SPACING, RADIUS, STEP, REACH, SHIFT, BESIDE, BOX = 0.0005, 0.0001, 0.00005, 0.0015, 0.00001, 0.0002, 0.0003
SINGLE = np.float32


def globe(graph: Skeleton, keypoints: bool) -> nx.Graph:
    """Nodes with a `place` in single-precision degrees; without those of degree 2 if only keypoints count."""
    made = nx.Graph()
    for number, (x, y) in enumerate((graph.nodes / graph.image_size).tolist()):
        south, east = SINGLE(x) * SINGLE(512) / SINGLE(111111), SINGLE(y) * SINGLE(512) / SINGLE(111111)
        east = east / SINGLE(math.cos(math.radians(41)))
        made.add_node(number, place=(SINGLE(41) - south, SINGLE(-71) + east))
    made.add_edges_from(sorted(tuple(sorted(edge)) for edge in graph.edges.tolist()))
    for node in list(made) if keypoints else []:
        if made.degree(node) == 2:
            first, second = made[node]
            made.remove_node(node)
            made.add_edge(first, second)
    return made


def apart(a, b):
    south, east = a[0] - b[0], (a[1] - b[1]) * SINGLE(math.cos(math.radians(a[0])))
    return np.sqrt(south * south + east * east)


def angle(a, b, c, d):
    """1 - |cos| between the directions from a to b and from c to d."""
    east = SINGLE(math.cos(math.radians(40)))
    u, v = ((q[0] - p[0], (q[1] - p[1]) * east) for p, q in ((a, b), (c, d)))
    sizes = np.sqrt(u[0] * u[0] + u[1] * u[1]) * np.sqrt(v[0] * v[0] + v[1] * v[1])
    return SINGLE(1) - abs((u[0] * v[0] + u[1] * v[1]) / sizes)


def between(a, b, t):
    return tuple((SINGLE(1) - t) * p + t * q for p, q in zip(a, b, strict=True))


def to_segment(p, a, b):
    east = SINGLE(math.cos(math.radians(a[0])))
    bx, by, px, py = b[0] - a[0], (b[1] - a[1]) * east, p[0] - a[0], (p[1] - a[1]) * east
    t = min(max((bx * px + by * py) / (bx * bx + by * by), SINGLE(0)), SINGLE(1))
    return np.sqrt((px - t * bx) ** 2 + (py - t * by) ** 2)


def starts(ground_truth):
    """(where, first node, second node, distance to each); a branch of one edge is met from both its ends."""
    place = nx.get_node_attributes(ground_truth, "place")
    found, inner = [], set()
    for node in ground_truth:
        if ground_truth.degree(node) == 2:
            continue
        for beyond in ground_truth[node]:
            if beyond in inner:
                continue
            line = [node, beyond]
            while ground_truth.degree(line[-1]) == 2:
                line.append(next(n for n in ground_truth[line[-1]] if n != line[-2]))
            inner.update(line[1:-1])
            ahead = [SINGLE(0)]
            for a, b in itertools.pairwise(line):
                ahead.append(ahead[-1] + apart(place[a], place[b]))
            count = max(int(ahead[-1] / SINGLE(SPACING)), 1) if ahead[-1] >= SINGLE(SPACING / 2) else 0
            for k in range(count):
                at = SINGLE((k + 1) / (count + 1)) * ahead[-1]
                j = next(j for j in range(len(line) - 1) if at <= ahead[j + 1])
                before, after = at - ahead[j], ahead[j + 1] - at
                where = between(place[line[j]], place[line[j + 1]], before / (ahead[j + 1] - ahead[j]))
                found.append((where, line[j], line[j + 1], before, after))
    return found


def walk(graph, first, second, to_first, to_second):
    """Samples (place, tail, head)."""
    place = nx.get_node_attributes(graph, "place")
    samples, share = [], SINGLE(0)
    step = SINGLE(STEP) / apart(place[second], place[first])
    while share <= 1:
        samples.append((between(place[second], place[first], share), place[first], place[second]))
        share += step
    queue = [(first, None, to_first), (second, None, to_second)]
    while queue:
        node, previous, path = queue.pop(0)
        if path > SINGLE(REACH):
            continue
        for beyond in graph[node]:
            if beyond in (previous, first, second):
                continue
            length = apart(place[beyond], place[node])
            along = SINGLE(STEP * math.ceil(path / SINGLE(STEP))) - path
            while along < length and path + length * (along / length) <= SINGLE(REACH):
                samples.append((between(place[node], place[beyond], along / length), place[node], place[beyond]))
                along += SINGLE(STEP)
            queue.append((beyond, node, path + length))
    return samples


def largest_matching(marbles, holes):
    pairs = nx.Graph()
    for i, (here, *edge) in enumerate(marbles):
        for j, (there, *other) in enumerate(holes):
            if apart(here, there) < SINGLE(RADIUS) and angle(*edge, *other) < SINGLE(0.29):
                pairs.add_edge(("marble", i), ("hole", j))
    left = [node for node in pairs if node[0] == "marble"]
    return len(nx.bipartite.hopcroft_karp_matching(pairs, left)) // 2


def beside(graph, kept, other):
    """Whether a start lies beside a kept one; both (place, first, second, to_first, to_second) on the prediction."""
    place = nx.get_node_attributes(graph, "place")
    away = [abs(a - b) for a, b in zip(kept[0], other[0], strict=True)]
    if away[0] > BOX or away[1] * math.cos(math.radians(kept[0][0])) > BOX:
        return False
    if kept[1:3] == other[1:3]:
        return abs(kept[3] - other[3]) < BESIDE
    lengths = {edge: float(apart(place[edge[0]], place[edge[1]])) for edge in graph.edges}
    nx.set_edge_attributes(graph, lengths, "length")
    ways = []
    for begin in kept[1:3]:
        reached = nx.single_source_dijkstra_path_length(graph, begin, cutoff=BOX, weight="length")
        ways += [
            kept[3] + reached[end] + rest
            for end, rest in ((other[1], other[3]), (other[2], other[4]))
            if end in reached and kept[3] + reached[end] <= BOX
        ]
    return min(ways, default=math.inf) < BESIDE


def paper_twin(prediction: Skeleton, ground_truth: Skeleton, keypoints: bool) -> tuple[float, float]:
    found, wanted = globe(prediction, keypoints), globe(ground_truth, keypoints)
    place, true_place = (nx.get_node_attributes(g, "place") for g in (found, wanted))
    results = []
    for start in starts(wanted):
        near = [
            (to_segment(start[0], place[a], place[b]), a, b)
            for a, b in (sorted(edge) for edge in found.edges)
            if angle(true_place[start[1]], true_place[start[2]], place[a], place[b]) < SINGLE(0.04)
        ]
        near = [entry for entry in near if entry[0] < SINGLE(RADIUS)]
        if not near:
            continue
        _, a, b = min(near)
        partner = (start[0], a, b, apart(place[a], start[0]), apart(place[b], start[0]))
        holes, marbles = walk(wanted, *start[1:]), walk(found, *partner[1:])
        copies = [((p[0] + SINGLE(SHIFT), p[1] + SINGLE(SHIFT)), *edge) for p, *edge in holes]
        precision = largest_matching(marbles, holes + copies) / len(marbles)
        results.append((precision, largest_matching(marbles, holes) / len(holes), partner))
    kept = []
    for result in sorted(results, key=lambda r: r[0])[::-1]:
        if result[0] >= 0.9 or not any(beside(found, other[2], result[2]) for other in kept):
            kept.append(result)
    if not kept:
        return 0.0, 0.0
    return float(np.mean([r[0] for r in kept])), float(np.mean([r[1] for r in kept]))
