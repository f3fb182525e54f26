"""What edges read from a map of center lines: compared with explicit samples, and on lines with gaps and bends."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from treeformer import Skeleton
from treeformer.nn.center_line import line_pieces, line_targets
from treeformer.nn.deformable_attention import sample
from treeformer.nn.line_evidence import BLURS, NUMBERS, POINTS, blurred_lines, segment_evidence
from treeformer.nn.relation import segment_samples

SIDE = 96


def perfect_map(*skeletons: Skeleton) -> torch.Tensor:
    pieces = torch.from_numpy(np.stack([line_pieces(skeleton, 200) for skeleton in skeletons]))
    presence, tangent, _ = line_targets(pieces, SIDE // 2, SIDE // 2)
    return torch.cat([presence[:, None].clamp(1e-4, 1 - 1e-4).logit(), tangent], dim=1)


def evidence(lines: torch.Tensor, *segments) -> torch.Tensor:
    """(segments, presence or agreement, statistic, blur)."""
    start, end = torch.tensor(segments, dtype=torch.float32).unbind(1)
    step = end - start
    x, y = (step / step.norm(dim=-1, keepdim=True))[None].unbind(-1)
    found = segment_evidence(segment_samples(start[None], end[None], blurred_lines(lines), POINTS), x, y)
    assert found.shape == (1, len(segments), NUMBERS)
    return found[0].view(-1, 2, 3, len(BLURS))


def test_statistics_match_explicit_samples():
    lines = torch.randn(1, 3, SIDE // 2, SIDE // 2, generator=torch.Generator().manual_seed(0))
    start, end = (11.0, 20.0), (70.0, 61.0)
    found = evidence(lines, (start, end))[0]
    presence = lines[0, 0].sigmoid()
    cells = torch.stack([presence, presence * lines[0, 1], presence * lines[0, 2]])
    cells = cells.view(3, SIDE // 4, 2, SIDE // 4, 2).mean((2, 4))
    direction = np.subtract(end, start) / np.hypot(*np.subtract(end, start))
    cosine, sine = direction[0] ** 2 - direction[1] ** 2, 2 * direction[0] * direction[1]
    level = blurred_lines(lines)
    for number, side in enumerate(BLURS):
        blurred = torch.zeros_like(cells)
        for row in range(SIDE // 4):
            for column in range(SIDE // 4):
                top, left = max(0, row - side // 2), max(0, column - side // 2)
                blurred[:, row, column] = cells[:, top : row + side // 2 + 1, left : column + side // 2 + 1].mean(
                    (1, 2)
                )
        alone = level._replace(cells=blurred.flatten(1).T[None])
        values = []
        for index in range(POINTS):
            place = np.add(start, np.subtract(end, start) * (index + 0.5) / POINTS)
            here, across, down = sample(alone, torch.tensor(place, dtype=torch.float32)[None, None])[0, 0].tolist()
            values.append((here, across * cosine + down * sine))
        expected = np.stack([np.mean(values, axis=0), np.std(values, axis=0), np.min(values, axis=0)])
        np.testing.assert_allclose(found[..., number].T, expected, atol=2e-4)


def test_both_directions_of_an_edge_read_the_same():
    lines = torch.randn(1, 3, SIDE // 2, SIDE // 2, generator=torch.Generator().manual_seed(1))
    there, back = evidence(lines, ((11, 20), (70, 61)), ((70, 61), (11, 20)))
    torch.testing.assert_close(there, back)


def test_a_gap_is_the_weakest_place_and_a_crossing_line_does_not_agree():
    whole = Skeleton([(10, 48), (86, 48)], [(0, 1)])
    gap = Skeleton([(10, 48), (36, 48), (60, 48), (86, 48)], [(0, 1), (2, 3)])
    crossing = Skeleton([(10 + 8 * k, y) for k in range(10) for y in (28, 68)], [(2 * k, 2 * k + 1) for k in range(10)])
    segment = ((10, 48), (86, 48))
    on_line, on_gap, on_crossing = (evidence(perfect_map(skeleton), segment)[0] for skeleton in (whole, gap, crossing))
    mean, deviation, lowest = range(3)
    presence, agreement = range(2)
    assert on_line[presence, lowest, 0] > 0.4
    assert on_gap[presence, lowest, 0] < 0.05
    assert on_gap[presence, deviation, 0] > on_line[presence, deviation, 0] + 0.1
    assert on_line[agreement, mean, 0] > 0.4
    assert on_crossing[agreement, mean, 0] < -0.1, "lines across the segment"


def test_a_bend_is_seen_with_more_blur():
    """A curve leaves its chord by 10 px in the middle."""
    curve = Skeleton(
        [(10 + 2 * k, 48 - 10 * np.sin(np.pi * k / 38)) for k in range(39)], [(k, k + 1) for k in range(38)]
    )
    lowest = evidence(perfect_map(curve), ((10, 48), (86, 48)))[0, 0, 2]
    bare = evidence(perfect_map(Skeleton([(10, 48), (12, 48)], [(0, 1)])), ((10, 48), (86, 48)))[0, 0, 2]
    assert lowest[0] < 0.02
    assert lowest[-1] > 10 * max(bare[-1], 1e-3)


@pytest.mark.parametrize("side", [24, 40])
def test_the_map_gets_no_gradient(side):
    lines = torch.randn(1, 3, side, side, requires_grad=True)
    level = blurred_lines(lines)
    assert (level.height, level.width, level.stride) == (side // 2, side // 2, 4)
    assert not level.cells.requires_grad
