"""Structured decoding against plain formulas and the enumeration of all forests."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.decoding.test_decode import checked, outputs
from treeformer.decoding.decode import decode, decode_pairs
from treeformer.decoding.objective import Objective, StructureWeights, grid_probability, lines_crossed
from treeformer.decoding.spanning import spanning_forest
from treeformer.decoding.structured import Search, Structure

GRID = 44.0
WEIGHTS = StructureWeights()


def random_problem(seed: int, count: int) -> dict:
    """The outputs of a network for `count` nodes, half of them on grid lines."""
    rng = np.random.default_rng(seed)
    points = rng.uniform(0, 132, (count, 2))
    on_line = rng.random(count) < 0.5
    points[on_line, 0] = (np.floor(points[on_line, 0] / GRID) + 0.5) * GRID + rng.normal(0, 0.3, on_line.sum())
    pairs = np.array(list(combinations(range(count), 2)))
    return {
        "points": points,
        "direction": rng.normal(0, 0.7, (count, 2)),
        "score": rng.uniform(0.1, 0.95, count),
        "pairs": pairs,
        "cost": rng.normal(1, 4, len(pairs)),
        "root_cost": np.where(rng.random(count) < 0.4, rng.normal(0, 3, count), 3e6),
    }


def objective_of(problem: dict, weights: StructureWeights = WEIGHTS) -> Objective:
    return Objective(**problem, grid_px=GRID, weights=weights)


def start_of(problem: dict) -> tuple[np.ndarray, np.ndarray]:
    count = len(problem["points"])
    cost = np.full((count, count), np.inf)
    cost[tuple(problem["pairs"].T)] = cost[tuple(problem["pairs"][:, ::-1].T)] = problem["cost"]
    return spanning_forest(cost, problem["root_cost"])


def plain_cost(problem: dict, edges: list[tuple[int, int]], roots: set[int], weights: StructureWeights) -> float:
    """Reference: the definition of the objective, term by term."""
    points, direction = problem["points"], problem["direction"]
    on_line, share = grid_probability(points, GRID)
    certainty = min(max((share - 0.05) / 0.1, 0), 1)
    limited = {}
    for (i, j), cost in zip(problem["pairs"].tolist(), problem["cost"], strict=True):
        crossed = 0
        for low, high in (sorted(points[[i, j], 0]), sorted(points[[i, j], 1])):
            crossed += sum(low + 4 <= (k + 0.5) * GRID <= high - 4 for k in range(-2, 9))
        limited[i, j] = min(max(cost, -weights.edge_limit), weights.edge_limit) + weights.span * certainty * crossed
    total = sum(limited[edge] for edge in edges)
    for root in roots:
        cost = problem["root_cost"][root]
        total += cost if cost > 1e5 else min(max(cost, -weights.edge_limit), weights.edge_limit)
        total += weights.root * (1 + on_line[root])
    for node in range(len(points)):
        others = [b if a == node else a for a, b in edges if node in (a, b)]
        if not others and node not in roots:
            continue
        score = problem["score"][node]
        total += weights.presence - weights.score * np.log(score / (1 - score))
        off_line, degree = (1 - on_line[node]) * certainty, len(others)
        units = [(points[o] - points[node]) / np.linalg.norm(points[o] - points[node]) for o in others]
        if degree > 2:
            total += weights.surplus * on_line[node] * (degree - 2) + weights.fork * off_line * (degree - 3)
        cosines = [a @ b for a, b in combinations(units, 2)]
        if cosines:
            total += weights.turn * (1 + min(cosines))
            total += weights.sharp * sum(max(c - 0.9, 0) / 0.1 for c in cosines)
        if node in roots:
            continue
        if degree == 1:
            total += weights.missing * on_line[node]
        if degree == 2:
            total += weights.path * off_line
        length = np.linalg.norm(direction[node])
        total += weights.parent * min(length, 1) * (1 - max(u @ direction[node] for u in units) / length)
    return total


def cost_of(problem: dict, search: Search) -> float:
    edges = [(i, j) for i, j in problem["pairs"].tolist() if j in search.neighbors[i]]
    return plain_cost(problem, edges, set(search.neighbors[-1]), search.objective.weights)


def all_forests(count: int, possible_roots: set[int]):
    """Yield the edges and roots of all forests of some of the nodes, every tree with one root."""
    pairs = list(combinations(range(count), 2))
    for size in range(count):
        for edges in combinations(pairs, size):
            tree_of = list(range(count))
            is_forest = True
            for i, j in edges:
                is_forest &= tree_of[i] != tree_of[j]
                tree_of = [tree_of[i] if tree == tree_of[j] else tree for tree in tree_of]
            if not is_forest:
                continue
            trees = [[node for node in range(count) if tree_of[node] == tree] for tree in set(tree_of)]
            # A tree of one node may be left out; the root of any other one may be each of its possible roots.
            choices = [(sorted(possible_roots & set(tree))) + ([None] if len(tree) == 1 else []) for tree in trees]
            for roots in product(*choices):
                yield list(edges), {root for root in roots if root is not None}


@pytest.mark.parametrize("seed", range(20))
def test_the_cost_of_a_forest_and_of_its_changes_is_the_plain_sum(seed):
    problem = random_problem(seed, 9)
    search = Search(objective_of(problem), *start_of(problem))
    rng = np.random.default_rng(seed)
    assert search.objective.total(search.neighbors) == pytest.approx(cost_of(problem, search))
    for _ in range(30):
        before = cost_of(problem, search)
        kind, (i, j) = rng.integers(3), rng.permutation(9)[:2].tolist()
        j = search.virtual if rng.random() < 0.1 and problem["root_cost"][i] < 1e5 else j
        find = (lambda: search.best_swap(i, j), lambda: search.exchange(i, j), lambda: search.leave_or_take(i))[kind]  # noqa: B023
        move = find()
        if search._apply(move):
            assert cost_of(problem, search) - before == pytest.approx(move.change, abs=1e-6)
            assert search.objective.total(search.neighbors) == pytest.approx(cost_of(problem, search))
            check_tree_order(search)


def check_tree_order(search: Search) -> None:
    """Parents and depths are those of a new search of the same forest."""
    edges = [(i, j) for i in range(search.virtual) for j in search.neighbors[i] if i < j < search.virtual]
    fresh = Search(search.objective, np.array(edges).reshape(-1, 2), np.array(sorted(search.neighbors[-1])))
    assert search.parent == fresh.parent
    attached = [node for node, parent in enumerate(search.parent) if parent >= 0]
    assert [search.depth[node] for node in attached] == [fresh.depth[node] for node in attached]


@pytest.mark.parametrize("seed", range(12))
def test_no_move_that_helps_is_left(seed):
    """Checks the lower bounds that skip moves, too."""
    problem = random_problem(seed, 24)
    search = Search(objective_of(problem), *start_of(problem))
    before = cost_of(problem, search)
    search.run()
    assert cost_of(problem, search) <= before + 1e-9
    for i in range(24):
        if problem["root_cost"][i] < 1e5:
            assert search.best_swap(i, search.virtual) is None
        assert search.leave_or_take(i) is None
        for j in range(24):
            assert i == j or search.best_swap(i, j) is None
            assert i == j or search.exchange(i, j) is None


@pytest.mark.slow
def test_most_small_graphs_are_solved_exactly():
    """Costs and directions are noise here; nodes are likely, because only tips are left out one by one."""
    gap, start_gap = [], []
    for seed in range(30):
        problem = random_problem(seed, 5)
        problem["score"] = np.maximum(problem["score"], 0.6)
        possible = set(np.flatnonzero(problem["root_cost"] < 1e5).tolist()) or {int(problem["root_cost"].argmin())}
        least = min(plain_cost(problem, *forest, WEIGHTS) for forest in all_forests(5, possible) if forest[1])
        search = Search(objective_of(problem), *start_of(problem))
        start_gap.append(cost_of(problem, search) - least)
        search.run()
        gap.append(cost_of(problem, search) - least)
    assert min(gap) > -1e-6
    assert np.mean(np.array(gap) < 1e-6) > 0.6
    assert np.mean(gap) < 0.15 * np.mean(start_gap)


def solve(points, costs, direction=None, roots=(0,), weights=WEIGHTS) -> set[tuple[int, int]]:
    """Edges after the search. All pairs cost 2 but those in `costs`."""
    points = np.asarray(points, dtype=float)
    count = len(points)
    pairs = np.array(list(combinations(range(count), 2)))
    problem = {
        "points": points,
        "direction": np.zeros((count, 2)) if direction is None else np.asarray(direction, dtype=float),
        "score": np.full(count, 0.9),
        "pairs": pairs,
        "cost": np.array([costs.get((i, j), 2.0) for i, j in pairs.tolist()]),
        "root_cost": np.where(np.isin(np.arange(count), roots), -4.0, 3e6),
    }
    search = Search(objective_of(problem, weights), *start_of(problem))
    search.run()
    return {(i, j) for i, j in pairs.tolist() if j in search.neighbors[i]}


# Two strands that run down side by side from a seed, with nodes on the lines y = 22, 66 and 110.
BUNDLE = [(30, 2), (27, 22), (34, 22), (26, 66), (33, 66), (25, 110), (32, 110), (24, 130), (31, 130)]
STRANDS = {(0, 1), (1, 3), (3, 5), (5, 7), (0, 2), (2, 4), (4, 6), (6, 8)}


def test_a_strand_that_is_tied_in_at_the_wrong_end_is_tied_in_at_the_right_one():
    costs = dict.fromkeys(STRANDS - {(0, 2)}, -3.0) | {(0, 2): -0.5, (7, 8): -0.6}
    plain = solve(BUNDLE, costs, weights=StructureWeights(*[100.0] + [0.0] * 8 + [-99.0, 0.0]))
    assert (7, 8) in plain
    assert solve(BUNDLE, costs) == STRANDS


def test_strands_that_swap_at_a_crossing_are_exchanged():
    points = [(31, 2), (59, 2), (38, 22), (52, 22), (49.5, 66), (35, 66), (59, 100), (24, 100)]
    right = {(0, 2), (2, 4), (4, 6), (1, 3), (3, 5), (5, 7)}
    wrong = {(2, 5), (3, 4)}
    costs = dict.fromkeys(right, -2.0) | dict.fromkeys(wrong, -2.1)
    assert solve(points, costs, roots=(0, 1)) == right
    assert solve(points, costs, roots=(0, 1), weights=StructureWeights(turn=0.0, sharp=0.0)) != right


def test_directions_decide_between_two_parents():
    points = [(30, 2), (5, 45), (55, 45), (30, 90)]
    costs = {(0, 1): -3.0, (0, 2): -3.0, (1, 3): -1.0, (2, 3): -1.2}
    toward = [(0, 0), (0, 0), (0, 0), (-0.49, -0.87)]
    assert (2, 3) in solve(points, costs)
    assert (1, 3) in solve(points, costs, toward)


def test_a_doubtful_tip_is_left_out_and_a_likely_one_stays():
    points = np.array([(30.0, 2.0), (30, 22), (30, 40), (48, 41)])
    cost = np.full((4, 4), 3.0)
    for i, j in ((0, 1), (1, 2)):
        cost[i, j] = cost[j, i] = -3.0
    structure = Structure(points, np.zeros((4, 2)), GRID, WEIGHTS)
    root = np.array([3.0, -9, -9, -9])
    for score, count in ((0.05, 3), (0.95, 4)):
        scores = np.array([0.9, 0.9, 0.9, score])
        assert len(decode(scores, points, cost, root, node_threshold=0.01, structure=structure)) == count


def test_curves_of_drawings_keep_their_nodes():
    """In drawings, nodes between keypoints lie anywhere, and have two neighbors all the same."""
    points = np.stack([np.linspace(5, 330, 30) % 44 + np.arange(30) * 44, np.full(30, 5.0)], axis=1)
    points[:, 0] += 0.37 * np.arange(30)
    chain = {(i, i + 1) for i in range(29)}
    assert grid_probability(points, GRID)[1] < 0.1
    assert solve(points, dict.fromkeys(chain, -1.0)) == chain


def test_nodes_on_lines_are_recognized():
    rng = np.random.default_rng(0)
    anywhere = rng.uniform(0, 2000, (60, 2))
    on_lines = rng.uniform(0, 2000, (60, 2))
    on_lines[:, 1] = (np.floor(on_lines[:, 1] / GRID) + 0.5) * GRID + rng.normal(0, 0.3, 60)
    probability, share = grid_probability(np.concatenate([on_lines, anywhere]), GRID)
    assert probability[:60].mean() > 0.85
    assert probability[60:].mean() < 0.25
    assert share == pytest.approx(0.5, abs=0.1)
    assert grid_probability(anywhere, GRID)[1] < 0.12


def test_lines_between_the_ends_of_an_edge_are_counted():
    points = np.array([(22.0, 10.0), (66, 10), (110, 10), (110, 70), (115, 68)])
    pairs = np.array([(0, 1), (0, 2), (1, 3), (3, 4), (0, 3)])
    # the line x = 66 between 0 and 2; y = 22 and, within 4 px of the end, not y = 66; none; x = 66 and y = 22
    assert lines_crossed(points, pairs, GRID).tolist() == [0, 1, 1, 0, 2]


@settings(deadline=None)
@given(numbers=outputs(), single_plant=st.booleans(), threshold=st.floats(0, 1), seed=st.integers(0, 99))
def test_any_numbers_give_a_rooted_forest(numbers, single_plant, threshold, seed):
    score, points, cost, root = numbers
    direction = np.random.default_rng(seed).choice([0.0, 1.0, -0.3, np.nan, np.inf, 1e30], (len(score), 2))
    structure = Structure(points.astype(float), direction, GRID, WEIGHTS)
    options = {"root_threshold": threshold, "single_plant": single_plant, "structure": structure, "node_threshold": 0.2}
    found = decode(*numbers, **options)
    pairs = np.array(list(combinations(range(len(score)), 2)), dtype=np.intp).reshape(-1, 2)
    with np.errstate(all="ignore"):
        values = (cost.astype(float)[pairs[:, 0], pairs[:, 1]] + cost.astype(float)[pairs[:, 1], pairs[:, 0]]) / 2
    for skeleton in (found, decode_pairs(score, points, pairs, values, root, **options)):
        assert checked(skeleton) == skeleton
        assert skeleton.is_forest
        assert len(skeleton.roots) == len(skeleton) - len(skeleton.edges), "one root per tree"
    assert decode(*numbers, **options) == found


@pytest.mark.parametrize("seed", range(5))
def test_known_pairs_give_the_same_forest_as_the_matrix(seed):
    problem = random_problem(seed, 12)
    cost = np.full((12, 12), 9.0)
    cost[tuple(problem["pairs"].T)] = cost[tuple(problem["pairs"][:, ::-1].T)] = problem["cost"]
    structure = Structure(problem["points"], problem["direction"], GRID, WEIGHTS)
    outputs = problem["score"] + 0.2, problem["points"]
    options = {"structure": structure, "node_threshold": 0.3}
    dense = decode(*outputs, cost, -problem["root_cost"], **options)
    pairs = decode_pairs(*outputs, problem["pairs"], problem["cost"], -problem["root_cost"], **options)
    assert dense.edges.tolist() == pairs.edges.tolist()
    assert dense.roots.tolist() == pairs.roots.tolist()
    assert dense.nodes.tolist() == pairs.nodes.tolist()
