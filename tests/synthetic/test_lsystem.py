"""The paper's grammar: properties that the paper and its supplement state."""

from __future__ import annotations

import math
import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treeformer import Skeleton, TreeformerError
from treeformer.synthetic import SPLITS, generate
from treeformer.synthetic.plants import lsystem
from treeformer.synthetic.rng import Rng

SEEDS = range(1000)


@pytest.fixture(scope="module")
def trees() -> list[Skeleton]:
    return [generate("paper", seed) for seed in range(200)]


def test_worked_example_of_the_paper() -> None:
    start = lsystem.parse("F0[+A0]F0[-A0]A0")
    result = lsystem.rewrite(start, lambda: "F[-A]", 1)
    assert lsystem.to_text(result) == "F0[+F1[-A1]]F0[-F1[-A1]]F1[-A1]"


def test_three_initial_structures_and_eight_rules() -> None:
    assert len(set(lsystem.INITIAL_STRUCTURES)) == 3
    assert len(set(lsystem.LEAF_RULES)) == 8
    assert "F[+A]F[-A]A" in lsystem.INITIAL_STRUCTURES
    assert "F[-A]" in lsystem.LEAF_RULES
    for text in lsystem.INITIAL_STRUCTURES + lsystem.LEAF_RULES:
        assert re.fullmatch(r"[FA+\-\[\]]+", text)
        assert text.count("[") == text.count("]") > 0
        # Every side branch turns exactly once and ends with its leaf.
        assert all(re.fullmatch(r"[+-]A", branch) for branch in re.findall(r"\[(.*?)\]", text))


@given(st.lists(st.sampled_from(["F", "A", "+", "-", "[", "]"]), max_size=40), st.integers(0, 12))
def test_parse_and_to_text_are_inverse(letters: list[str], index: int) -> None:
    symbols = tuple(lsystem.Symbol(letter, index if letter in "FA" else None) for letter in letters)
    assert lsystem.parse(lsystem.to_text(symbols)) == symbols
    assert lsystem.parse("".join(letters), index) == symbols


def test_parse_reports_the_unknown_symbol() -> None:
    with pytest.raises(TreeformerError, match="unknown symbol 'X' at position 2 of the sequence 'F0X'"):
        lsystem.parse("F0X")


def test_distribution_of_sizes() -> None:
    """The median is at least 40 nodes; the largest of 1,000 trees has 95 to 99 nodes."""
    sizes = [lsystem.node_count(lsystem.random_sequence(Rng(99, seed))) for seed in SEEDS]
    assert np.median(sizes) >= 40
    assert 95 <= max(sizes) <= 99
    assert min(sizes) < 15


@pytest.mark.slow
def test_rewriting_is_per_leaf_and_at_most_three_times(trees: list[Skeleton]) -> None:
    indices = set()
    mixed = 0
    for tree in trees:
        text = tree.metadata["sequence"]
        found = {int(number) for number in re.findall(r"\d+", text)}
        indices |= found
        # The last rewrite does not replace all leaves by the same text.
        last = max(found)
        replacements = {m.group() for m in re.finditer(rf"(F{last}|A{last}|[+\-\[\]](?=[^F]*[FA]{last}))+", text)}
        mixed += len(replacements) > 1
    assert indices == {0, 1, 2, 3}
    assert mixed > len(trees) // 2


def test_turtle_keeps_lengths_and_angles_within_the_papers_limits() -> None:
    for seed in range(100):
        rng = Rng(5, seed)
        nodes, edges, edge_axis, _ = lsystem.draw_turtle(lsystem.random_sequence(rng), rng)
        step = np.asarray([nodes[v] - nodes[u] for u, v in edges])
        length = np.hypot(step[:, 0], step[:, 1])
        assert length.min() >= 0.5
        assert length.max() <= 2.5
        heading = np.degrees(np.arctan2(-step[:, 1], step[:, 0]))
        edge_to = {v: e for e, (_, v) in enumerate(edges)}
        for e, (u, _) in enumerate(edges):
            if u not in edge_to:
                assert heading[e] == pytest.approx(90)
                continue
            turn = math.remainder(heading[e] - heading[edge_to[u]], 360)
            if edge_axis[e] == edge_axis[edge_to[u]]:
                assert turn == pytest.approx(0, abs=1e-9)  # an axis is straight
            else:
                assert 10 - 1e-9 <= abs(turn) <= 35 + 1e-9


def test_plus_turns_left_and_minus_right() -> None:
    for letter, sign in (("+", -1), ("-", 1)):
        nodes, *_ = lsystem.draw_turtle(lsystem.parse(f"F[{letter}A]"), Rng(1))
        assert math.copysign(1, nodes[2, 0] - nodes[1, 0]) == sign


def test_skeleton_matches_the_sequence(trees: list[Skeleton]) -> None:
    for tree in trees:
        sequence = lsystem.parse(tree.metadata["sequence"])
        assert tree.is_tree
        assert len(tree) == lsystem.node_count(sequence) < 100
        assert tree.root == 0
        # Nodes are in the order of the sequence's branches, which gives the expected indices.
        index_of_node = [0] + [symbol.rewrite for symbol in sequence if symbol.rewrite is not None]
        for axis in tree.axes:
            (function,) = axis.functions
            assert [index_of_node[node] for node in axis.nodes[1:]] == list(function.samples[1:])
            assert axis.properties["rewriting_index"] == str(index_of_node[axis.nodes[1]])
        assert [int(axis.properties["branch_order"]) for axis in tree.axes] == tree.axis_order.tolist()
        assert tree.axis_order.max() >= 1


def test_trees_fit_the_frame_and_fill_it(trees: list[Skeleton]) -> None:
    for tree in trees:
        assert tree.image_size == (512, 512)
        assert (tree.nodes >= 0).all()
        assert (tree.nodes <= 512).all()
        extent = (tree.nodes.max(axis=0) - tree.nodes.min(axis=0)) / 512
        assert 0.69 <= extent.max() <= 0.98
        assert np.array_equal(tree.nodes * 64, np.round(tree.nodes * 64))


def test_crowded_and_crossing_trees_are_kept(trees: list[Skeleton]) -> None:
    def crossings(tree: Skeleton) -> int:
        a, b = tree.nodes[tree.edges[:, 0]], tree.nodes[tree.edges[:, 1]]

        def side(p: np.ndarray, q: np.ndarray, r: np.ndarray) -> np.ndarray:
            return np.sign(
                (q[..., 0] - p[..., 0]) * (r[..., 1] - p[..., 1]) - (q[..., 1] - p[..., 1]) * (r[..., 0] - p[..., 0])
            )

        cut = (side(a[:, None], b[:, None], a[None]) * side(a[:, None], b[:, None], b[None]) < 0) & (
            side(a[None], b[None], a[:, None]) * side(a[None], b[None], b[:, None]) < 0
        )
        return int(cut.sum()) // 2

    assert sum(crossings(tree) > 0 for tree in trees) > 40


def test_splits_have_the_papers_sizes_and_share_no_seed() -> None:
    assert {name: len(seeds) for name, seeds in SPLITS.items()} == {
        "train": 100_000,
        "valid": 20_000,
        "test": 20_000,
    }
    ends = sorted((seeds.start, seeds.stop) for seeds in SPLITS.values())
    assert all(a[1] <= b[0] for a, b in pairwise(ends))
