"""Maps of center lines: their cells, samples, evidence for edges, and lines that no edge explains."""

from __future__ import annotations

import numpy as np
import pytest

from tests.decoding.maps import line_map, line_tile
from treeformer import Skeleton
from treeformer.decoding import line_map as module
from treeformer.decoding.line_map import LEAST, LineTile, along_edges, edge_evidence, sample_lines, unexplained_lines
from treeformer.inference.tiles import tile_grid

SIZE = (96, 64)
LINE = Skeleton([(8, 20), (60, 20)], [(0, 1)], root=0)
TWO = Skeleton([(8, 20), (60, 20), (8, 50), (60, 50)], [(0, 1), (2, 3)], root=[0, 2])


def test_a_tile_keeps_the_cells_with_a_line():
    lines = line_map(LINE, SIZE)
    tile = LineTile.of(lines, SIZE, (0, 0), (0, 0, 96, 64))
    assert len(tile.cells) < lines.shape[0] * lines.shape[1] / 10
    dense = tile.dense()
    assert not dense[[0, -1]].any()
    assert not dense[:, [0, -1]].any()
    dense = dense[1:-1, 1:-1]
    presence = np.where(lines[..., :1] >= LEAST, lines[..., :1] / 255, 0)
    np.testing.assert_allclose(dense[..., :1], presence, atol=1e-6)
    np.testing.assert_allclose(dense[..., 1:], presence * (lines[..., 1:] / 127.5 - 1), atol=1e-6)


def test_padding_beside_the_image_is_left_out():
    lines = np.full((32, 48, 3), 255, np.uint8)
    assert LineTile.of(lines, (51, 20), (0, 0), (0, 0, 51, 20)).dense().shape == (12, 28, 3)


def test_samples_match_single_places():
    lines = np.random.default_rng(0).random((5, 7, 3)).astype(np.float32)
    with_margin = np.pad(lines, ((1, 1), (1, 1), (0, 0)))
    for x, y in [(1, 1), (3, 5), (4, 4), (13.9, 9.9), (6.2, 3.7), (-5, 3), (200, 4), (0, 0)]:
        expected = np.zeros(3)
        for row in range(5):
            for column in range(7):
                weight = max(0, 1 - abs(x / 2 - column - 0.5)) * max(0, 1 - abs(y / 2 - row - 0.5))
                expected += weight * lines[row, column]
        np.testing.assert_allclose(sample_lines(with_margin, np.array([x]), np.array([y]))[0], expected, atol=1e-5)


def test_samples_lie_on_their_edges():
    edge, place = along_edges(Skeleton([(0, 0), (0, 5), (1, 5), (1, 5)], [(0, 1), (1, 2), (2, 3)]))
    assert edge.tolist() == [0, 0, 0, 1, 2]
    np.testing.assert_allclose(place[:3, 1], [5 / 6, 2.5, 25 / 6])
    assert place[3].tolist() == [0.5, 5]


def test_edges_over_bare_ground_have_no_evidence():
    tile = line_tile(LINE, SIZE)
    mean, lowest = edge_evidence(TWO, [tile]).T
    assert mean[0] > 0.7, "interpolation between cells lowers the ridge"
    assert lowest[0] > 0.6
    assert mean[1] < 0.01
    broken = Skeleton([(8, 20), (28, 20), (40, 20), (60, 20)], [(0, 1), (2, 3)])
    mean, lowest = edge_evidence(LINE, [line_tile(broken, SIZE)])[0]
    assert 0.5 < mean < 0.7
    assert lowest < 0.05
    assert edge_evidence(Skeleton([], []), [tile]).shape == (0, 2)


@pytest.mark.parametrize("side", [96, 48])
def test_lines_without_an_edge_are_found(side):
    """Also if several tiles show a line: each cell counts once."""
    tiles = []
    for tile in tile_grid(SIZE, side):
        shifted = TWO.replace(nodes=TWO.nodes - (tile.left, tile.top))
        tiles.append(line_tile(shifted, tile.size, (tile.left, tile.top), tile.core))
    found = unexplained_lines(LINE, tiles)
    assert len(found) == pytest.approx(2 * 26, abs=6), "two rows of cells"
    np.testing.assert_allclose(found[:, 1], 50, atol=module.LINE_STRIDE)
    assert found[:, 2].min() >= 0.5
    assert len(np.unique(found[:, :2], axis=0)) == len(found)
    assert not len(unexplained_lines(TWO, tiles))
    assert len(unexplained_lines(Skeleton([], []), tiles)) > len(found)
