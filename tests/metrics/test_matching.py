"""Maximum matchings, compared with NetworkX."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treeformer.metrics._matching import Matching, Pairs


def largest(pairs: set[tuple[int, int]]) -> int:
    graph = nx.Graph([(("row", row), ("column", column)) for row, column in pairs])
    return len(nx.bipartite.hopcroft_karp_matching(graph, [node for node in graph if node[0] == "row"])) // 2


def as_pairs(pairs: set[tuple[int, int]], rows: int) -> Pairs:
    row, column = np.array(sorted(pairs), dtype=np.intp).reshape(-1, 2).T
    return Pairs.from_lists(row, column, rows)


def check(matching: Matching, pairs: set[tuple[int, int]]) -> int:
    """Check that the matching consists of these pairs, and return its size."""
    rows = np.flatnonzero(matching.of_row >= 0)
    columns = matching.of_row[rows]
    assert set(zip(rows.tolist(), columns.tolist(), strict=True)) <= pairs
    assert np.array_equal(matching.of_column[columns], rows)
    assert (matching.of_column >= 0).sum() == len(rows)
    return len(rows)


some_pairs = st.sets(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=40)


@given(some_pairs, some_pairs)
def test_it_grows_to_a_maximum_matching(pairs, more):
    """Start from an empty or a greedy matching, then add a second list of pairs with other columns."""
    one_problem = np.zeros(12, dtype=np.intp)
    for greedy in (False, True):
        matching = Matching.empty(12, 24)
        if greedy:
            matching.add(*np.array(sorted(pairs), dtype=np.intp).reshape(-1, 2).T)
            free = {(r, c) for r, c in pairs if matching.of_row[r] < 0 and matching.of_column[c] < 0}
            assert check(matching, pairs) >= largest(pairs) / 2
            assert not free
        matching.grow([as_pairs(pairs, 12)], one_problem)
        assert check(matching, pairs) == largest(pairs)
        others = {(row, 12 + column) for row, column in more}
        matching.grow([as_pairs(pairs, 12), as_pairs(others, 12)], one_problem)
        assert check(matching, pairs | others) == largest(pairs | others)


@pytest.mark.parametrize("seed", range(4))
def test_points_on_lines(seed):
    """Nearby points on several lines may be matched: long paths, competing trees and several problems."""
    rng = np.random.default_rng(seed)
    pairs, problem = set(), []
    for number in range(5):
        row_at, column_at = (np.sort(rng.uniform(0, 60, size)) for size in rng.integers(40, 80, size=2))
        near = np.abs(row_at[:, None] - column_at) < rng.uniform(0.5, 3)
        rows, columns = np.nonzero(near)
        pairs |= set(zip((rows + len(problem)).tolist(), (columns + 100 * number).tolist(), strict=True))
        problem += [number] * len(row_at)
    matching = Matching.empty(len(problem), 500)
    matching.grow([as_pairs(pairs, len(problem))], np.array(problem))
    assert check(matching, pairs) == largest(pairs)


def test_a_path_through_all_rows():
    """Each row is matched with its second choice, so the last free row must change all of them."""
    count = 200
    pairs = {(k, k) for k in range(count)} | {(k, k + 1) for k in range(count - 1)}
    matching = Matching.empty(count, count)
    matching.add(np.arange(count - 1), np.arange(1, count))
    matching.grow([as_pairs(pairs, count)], np.zeros(count, dtype=np.intp))
    assert check(matching, pairs) == count


def test_without_pairs():
    for rows, columns in ((0, 0), (3, 0), (3, 2)):
        matching = Matching.empty(rows, columns)
        matching.grow([as_pairs(set(), rows)], np.zeros(rows, dtype=np.intp))
        assert check(matching, set()) == 0
