"""The map of center lines: its ground truth compared with loops over all cells and edges, its losses, its bytes."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from treeformer import Skeleton
from treeformer._util.geometry import project_onto_segments
from treeformer.nn.center_line import (
    LINE_STRIDE,
    SPREAD,
    CenterLineHead,
    in_bytes,
    line_losses,
    line_pieces,
    line_targets,
)

SIDE = 64
CROSS = Skeleton([(5, 32), (60, 32), (30, 3), (30, 60)], [(0, 1), (2, 3)])
CURVED = Skeleton(
    [(20 + 16 * math.cos(t), 30 + 25 * math.sin(t)) for t in np.linspace(0, 3, 40)],
    [(k, k + 1) for k in range(39)],
)


def drawn(*skeletons: Skeleton, side: int = SIDE):
    pieces = torch.from_numpy(np.stack([line_pieces(skeleton, 200) for skeleton in skeletons]))
    return line_targets(pieces, side // LINE_STRIDE, side // LINE_STRIDE)


def slow(skeleton: Skeleton, side: int = SIDE) -> tuple[np.ndarray, np.ndarray]:
    """Distance in cells from the center of every cell to the nearest edge, and the angle of that edge."""
    cells = side // LINE_STRIDE
    distance, angle = np.zeros((cells, cells)), np.zeros((cells, cells))
    start, end = skeleton.nodes[skeleton.edges].transpose(1, 0, 2)
    for row in range(cells):
        for column in range(cells):
            center = np.array([column + 0.5, row + 0.5]) * LINE_STRIDE
            _, to_edges = project_onto_segments(np.tile(center, (len(start), 1)), start, end)
            nearest = to_edges.argmin()
            distance[row, column] = to_edges[nearest] / LINE_STRIDE
            step = end[nearest] - start[nearest]
            angle[row, column] = math.atan2(step[1], step[0])
    return distance, angle


@pytest.mark.parametrize("skeleton", [CROSS, CURVED], ids=["cross", "curve"])
def test_presence_and_tangent_match_loops(skeleton):
    presence, tangent, is_known = (part[0].numpy() for part in drawn(skeleton))
    distance, angle = slow(skeleton)
    near = distance <= 2
    expected = np.exp(-(distance**2) / (2 * SPREAD**2))
    np.testing.assert_allclose(presence[near], expected[near], atol=0.01)
    assert presence[~near].max() < 0.04
    agreement = tangent[0] * np.cos(2 * angle) + tangent[1] * np.sin(2 * angle)
    assert agreement[is_known & near].min() > 0.95
    assert is_known[near].mean() > 0.8


def test_the_tangent_is_unknown_where_lines_meet():
    presence, _, is_known = (part[0] for part in drawn(CROSS))
    crossing = slice(14, 17), slice(14, 16)
    assert presence[crossing].min() > 0.4
    assert not is_known[crossing].any()
    assert is_known[16, 20], "on one line, away from the other"


def test_lines_at_the_frame_and_outside_and_padding():
    outside = Skeleton([(-9, 3), (70, 3)], [(0, 1)])
    presence, tangent, is_known = drawn(outside, Skeleton([], []))
    assert presence[0, 1].min() > 0.99, "the whole row"
    assert presence[1].abs().sum() == 0
    assert not is_known[1].any()
    assert all(part.isfinite().all() for part in (presence, tangent))


def test_pieces_cover_each_edge():
    skeleton = Skeleton([(0, 0), (0, 9), (3, 9), (3, 9)], [(0, 1), (1, 2), (2, 3)])
    pieces = line_pieces(skeleton, 10)
    assert np.isfinite(pieces).all(axis=1).tolist() == [True] * 4 + [False] * 6
    assert np.hypot(*pieces[:4, 2:].T).tolist() == [1.5] * 4, "at most 4 px each"
    assert pieces[:3, 1].tolist() == [1.5, 4.5, 7.5]
    assert np.isfinite(line_pieces(skeleton, 2)).all(), "some are left out"


def test_losses_match_loops():
    generator = torch.Generator().manual_seed(0)
    lines = torch.randn(2, 3, 16, 16, generator=generator, requires_grad=True)
    pieces = torch.from_numpy(np.stack([line_pieces(CROSS, 60), line_pieces(CURVED, 60)]))
    presence, tangent, is_known = line_targets(pieces, 16, 16)
    found = aimed = 0.0
    for image in range(2):
        for row in range(16):
            for column in range(16):
                logit, *vector = lines[image, :, row, column].tolist()
                target = presence[image, row, column].item()
                probability = 1 / (1 + math.exp(-logit))
                entropy = -target * math.log(probability) - (1 - target) * math.log(1 - probability)
                found += (probability - target) ** 2 * entropy
                for value, expected in zip(vector, tangent[image, :, row, column].tolist(), strict=True):
                    error = abs(value - expected)
                    loss = error**2 / 0.2 if error < 0.1 else error - 0.05
                    aimed += loss * target * is_known[image, row, column].item()
    losses = line_losses(lines, pieces)
    assert [loss.item() for loss in losses] == pytest.approx([found, aimed], rel=1e-4)
    sum(losses).backward()
    assert lines.grad.isfinite().all()


def test_a_perfect_map_has_no_loss_and_its_bytes_are_exact():
    pieces = torch.from_numpy(line_pieces(CURVED, 60))[None]
    presence, tangent, _ = line_targets(pieces, 32, 32)
    lines = torch.cat([presence[:, None].clamp(1e-6, 1 - 1e-6).logit(), tangent], dim=1)
    assert [loss.item() for loss in line_losses(lines, pieces)] == pytest.approx([0, 0], abs=1e-4)
    values = in_bytes(lines)
    assert values.dtype == torch.uint8
    assert values.shape == (1, 32, 32, 3)
    np.testing.assert_allclose(values[..., 0] / 255, presence, atol=0.5 / 255 + 1e-6)
    np.testing.assert_allclose(values[..., 1:] / 127.5 - 1, tangent.permute(0, 2, 3, 1), atol=0.5 / 127.5 + 1e-6)


@pytest.mark.parametrize("stride", [4, 8])
def test_the_head_predicts_cells_of_2_px(stride):
    lines = CenterLineHead(16, stride)(torch.randn(2, 16, 8, 8), stride).detach()
    assert lines.shape == (2, 3, 8 * stride // 2, 8 * stride // 2)
    assert lines[:, 0].sigmoid().mean().item() == pytest.approx(0.02, rel=0.2)
    assert lines[:, 1:].abs().max() < 0.3
