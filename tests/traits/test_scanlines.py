"""Crossings with scan lines: on small skeletons, and compared with exact fractions."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.traits.figures import row
from treeformer import Skeleton, TreeformerError
from treeformer.traits import measure, scanline_counts


def test_scan_lines_through_a_zigzag() -> None:
    # y: 0 -> 4 -> 2 -> 6; the five lines are at 0, 1.5, 3, 4.5 and 6.
    zigzag = Skeleton([(0, 0), (1, 4), (2, 2), (3, 6)], [(0, 1), (1, 2), (2, 3)], root=0)
    assert scanline_counts(zigzag, 5).tolist() == [[1, 1, 3, 1, 1]]
    # Lines at 0, 2, 4 and 6: at a turning point both edges count or none, at other nodes one.
    assert scanline_counts(zigzag, 4).tolist() == [[1, 3, 1, 1]]
    assert row(zigzag, scanlines=5)["scanline_counts_mean"] == 7 / 5


def test_horizontal_edges_cross_no_scan_line(comb: Skeleton) -> None:
    assert scanline_counts(comb, 5).tolist() == [[1, 1, 1, 1, 1]]
    assert scanline_counts(Skeleton([(0, 3), (9, 3)], [(0, 1)])).tolist() == [[0] * 50]


def test_a_branch_point_on_a_scan_line_despite_rounding() -> None:
    # The branch is on line 3 of 0 to 4; in floating point it lies at 3.0000000000000004.
    fork = Skeleton([(0, 0), (0, 0.1 * 3), (-1, 0.1 * 4), (1, 0.1 * 4)], [(0, 1), (1, 2), (1, 3)], root=0)
    assert scanline_counts(fork, 5).tolist() == [[1, 1, 1, 2, 2]]


def slow_scanline_counts(skeleton: Skeleton, lines: int) -> list[int]:
    """Count crossings exactly, for integer coordinates."""
    heights = [Fraction(int(y)) for y in skeleton.nodes[:, 1]]
    top, bottom = min(heights), max(heights)
    counts = []
    for k in range(lines):
        line = top + (bottom - top) * Fraction(k, lines - 1)
        spans = [sorted((heights[u], heights[v])) for u, v in skeleton.edges.tolist()]
        last = k == lines - 1
        counts.append(sum(low < line <= high if last else low <= line < high for low, high in spans))
    return counts


@given(st.lists(st.integers(-9, 9), min_size=2, max_size=12), st.integers(2, 13), st.randoms(use_true_random=False))
def test_scan_lines_against_exact_fractions(heights: list[int], lines: int, random: Any) -> None:
    parents = [-1] + [random.randrange(k) for k in range(1, len(heights))]
    skeleton = Skeleton.from_parents([(0.5 * k, y) for k, y in enumerate(heights)], parents)
    assert scanline_counts(skeleton, lines)[0].tolist() == slow_scanline_counts(skeleton, lines)


@pytest.mark.parametrize("scanlines", [1, -3, 2.5, True, "many"])
def test_an_invalid_number_of_scan_lines(comb: Skeleton, scanlines: Any) -> None:
    with pytest.raises(TreeformerError, match="scanlines must be an integer of at least 2"):
        measure(comb, scanlines=scanlines)
