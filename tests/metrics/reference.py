"""A slow and simple reference implementation of `topo_paper`: one start and one sample at a time."""

from __future__ import annotations

import itertools
import math

import networkx as nx
import numpy as np

from treeformer import Skeleton

SPACING, RADIUS, STEP, REACH, SHIFT, NEXT_TO, BOX = 0.0005, 0.0001, 0.00005, 0.0015, 0.00001, 0.0002, 0.0003
SINGLE = np.float32


def globe(graph: Skeleton, keypoints: bool) -> nx.Graph:
    """Convert a skeleton to a graph whose nodes have a `place` in degrees, single precision.

    With `keypoints`, nodes of degree 2 are contracted.
    """
    result = nx.Graph()
    for number, (x, y) in enumerate((graph.nodes / graph.image_size).tolist()):
        south, east = SINGLE(x) * SINGLE(512) / SINGLE(111111), SINGLE(y) * SINGLE(512) / SINGLE(111111)
        east = east / SINGLE(math.cos(math.radians(41)))
        result.add_node(number, place=(SINGLE(41) - south, SINGLE(-71) + east))
    result.add_edges_from(sorted(tuple(sorted(edge)) for edge in graph.edges.tolist()))
    for node in list(result) if keypoints else []:
        if result.degree(node) == 2:
            first, second = result[node]
            result.remove_node(node)
            result.add_edge(first, second)
    return result


def distance(a, b):
    """Distance in degrees of latitude, with the length of a degree of longitude taken at `a`."""
    south, east = a[0] - b[0], (a[1] - b[1]) * SINGLE(math.cos(math.radians(a[0])))
    return np.sqrt(south * south + east * east)


def angle(a, b, c, d):
    """Return 1 - |cos| of the angle between the directions from a to b and from c to d."""
    east = SINGLE(math.cos(math.radians(40)))
    u, v = ((q[0] - p[0], (q[1] - p[1]) * east) for p, q in ((a, b), (c, d)))
    sizes = np.sqrt(u[0] * u[0] + u[1] * u[1]) * np.sqrt(v[0] * v[0] + v[1] * v[1])
    return SINGLE(1) - abs((u[0] * v[0] + u[1] * v[1]) / sizes)


def between(a, b, t):
    return tuple((SINGLE(1) - t) * p + t * q for p, q in zip(a, b, strict=True))


def distance_to_segment(p, a, b):
    east = SINGLE(math.cos(math.radians(a[0])))
    bx, by, px, py = b[0] - a[0], (b[1] - a[1]) * east, p[0] - a[0], (p[1] - a[1]) * east
    t = min(max((bx * px + by * py) / (bx * bx + by * by), SINGLE(0)), SINGLE(1))
    return np.sqrt((px - t * bx) ** 2 + (py - t * by) ** 2)


def starts(ground_truth):
    """Return (place, first node, second node, distance to each). A branch of one edge is found from both its ends."""
    place = nx.get_node_attributes(ground_truth, "place")
    found, inner = [], set()
    for node in ground_truth:
        if ground_truth.degree(node) == 2:
            continue
        for neighbor in ground_truth[node]:
            if neighbor in inner:
                continue
            line = [node, neighbor]
            while ground_truth.degree(line[-1]) == 2:
                line.append(next(n for n in ground_truth[line[-1]] if n != line[-2]))
            inner.update(line[1:-1])
            ahead = [SINGLE(0)]
            for a, b in itertools.pairwise(line):
                ahead.append(ahead[-1] + distance(place[a], place[b]))
            count = max(int(ahead[-1] / SINGLE(SPACING)), 1) if ahead[-1] >= SINGLE(SPACING / 2) else 0
            for k in range(count):
                at = SINGLE((k + 1) / (count + 1)) * ahead[-1]
                j = next(j for j in range(len(line) - 1) if at <= ahead[j + 1])
                before, after = at - ahead[j], ahead[j + 1] - at
                start_place = between(place[line[j]], place[line[j + 1]], before / (ahead[j + 1] - ahead[j]))
                found.append((start_place, line[j], line[j + 1], before, after))
    return found


def walk(graph, first, second, to_first, to_second):
    """Return samples (place, tail, head)."""
    place = nx.get_node_attributes(graph, "place")
    samples, fraction = [], SINGLE(0)
    step = SINGLE(STEP) / distance(place[second], place[first])
    while fraction <= 1:
        samples.append((between(place[second], place[first], fraction), place[first], place[second]))
        fraction += step
    queue = [(first, None, to_first), (second, None, to_second)]
    while queue:
        node, previous, path = queue.pop(0)
        if path > SINGLE(REACH):
            continue
        for neighbor in graph[node]:
            if neighbor in (previous, first, second):
                continue
            length = distance(place[neighbor], place[node])
            along = SINGLE(STEP * math.ceil(path / SINGLE(STEP))) - path
            while along < length and path + length * (along / length) <= SINGLE(REACH):
                samples.append((between(place[node], place[neighbor], along / length), place[node], place[neighbor]))
                along += SINGLE(STEP)
            queue.append((neighbor, node, path + length))
    return samples


def largest_matching(marbles, holes):
    pairs = nx.Graph()
    for i, (marble, *marble_edge) in enumerate(marbles):
        for j, (hole, *hole_edge) in enumerate(holes):
            if distance(marble, hole) < SINGLE(RADIUS) and angle(*marble_edge, *hole_edge) < SINGLE(0.29):
                pairs.add_edge(("marble", i), ("hole", j))
    left = [node for node in pairs if node[0] == "marble"]
    return len(nx.bipartite.hopcroft_karp_matching(pairs, left)) // 2


def next_to(graph, kept, other):
    """Return True if a start is next to a kept one; both are (place, first, second, to_first, to_second)."""
    place = nx.get_node_attributes(graph, "place")
    away = [abs(a - b) for a, b in zip(kept[0], other[0], strict=True)]
    if away[0] > BOX or away[1] * math.cos(math.radians(kept[0][0])) > BOX:
        return False
    if kept[1:3] == other[1:3]:
        return abs(kept[3] - other[3]) < NEXT_TO
    lengths = {edge: float(distance(place[edge[0]], place[edge[1]])) for edge in graph.edges}
    nx.set_edge_attributes(graph, lengths, "length")
    paths = []
    for begin in kept[1:3]:
        reached = nx.single_source_dijkstra_path_length(graph, begin, cutoff=BOX, weight="length")
        paths += [
            kept[3] + reached[end] + rest
            for end, rest in ((other[1], other[3]), (other[2], other[4]))
            if end in reached and kept[3] + reached[end] <= BOX
        ]
    return min(paths, default=math.inf) < NEXT_TO


def topo_paper_reference(prediction: Skeleton, ground_truth: Skeleton, keypoints: bool) -> tuple[float, float]:
    """Return precision and recall."""
    predicted, true = globe(prediction, keypoints), globe(ground_truth, keypoints)
    place, true_place = (nx.get_node_attributes(g, "place") for g in (predicted, true))
    results = []
    for start in starts(true):
        near = [
            (distance_to_segment(start[0], place[a], place[b]), a, b)
            for a, b in (sorted(edge) for edge in predicted.edges)
            if angle(true_place[start[1]], true_place[start[2]], place[a], place[b]) < SINGLE(0.04)
        ]
        near = [entry for entry in near if entry[0] < SINGLE(RADIUS)]
        if not near:
            continue
        _, a, b = min(near)
        partner = (start[0], a, b, distance(place[a], start[0]), distance(place[b], start[0]))
        holes, marbles = walk(true, *start[1:]), walk(predicted, *partner[1:])
        copies = [((p[0] + SINGLE(SHIFT), p[1] + SINGLE(SHIFT)), *edge) for p, *edge in holes]
        precision = largest_matching(marbles, holes + copies) / len(marbles)
        results.append((precision, largest_matching(marbles, holes) / len(holes), partner))
    kept = []
    for result in sorted(results, key=lambda r: r[0])[::-1]:
        if result[0] >= 0.9 or not any(next_to(predicted, other[2], result[2]) for other in kept):
            kept.append(result)
    if not kept:
        return 0.0, 0.0
    return float(np.mean([r[0] for r in kept])), float(np.mean([r[1] for r in kept]))
