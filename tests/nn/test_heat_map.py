"""The heat map, its peaks, and position encodings."""

from __future__ import annotations

import math

import torch

from treeformer.nn.heat_map import HeatMapHead, cell_points, cells_of, heat_targets, peaks
from treeformer.nn.positions import cell_centers, sine_positions


def targets_by_loop(points, mask, height, width, stride, sigma):
    heat = torch.zeros(len(points), height, width)
    for b in range(len(points)):
        for (x, y), real in zip(points[b].tolist(), mask[b].tolist(), strict=True):
            if not real:
                continue
            center_x = min(max(math.floor(x / stride), 0), width - 1)
            center_y = min(max(math.floor(y / stride), 0), height - 1)
            reach = max(1, round(3 * sigma))
            for j in range(height):
                for i in range(width):
                    if max(abs(i - center_x), abs(j - center_y)) <= reach:
                        value = math.exp(-((i - center_x) ** 2 + (j - center_y) ** 2) / (2 * sigma**2))
                        heat[b, j, i] = max(heat[b, j, i], value)
    return heat


def test_the_map_is_the_same_in_training_and_at_inference():
    torch.manual_seed(0)
    for grid_px in (0.0, 12.0):
        head = HeatMapHead(6, upsampling=2, grid_px=grid_px)
        for parameter in head.parameters():
            torch.nn.init.normal_(parameter)
        fine = torch.randn(2, 6, 5, 7)
        for trained, used in zip(head.train()(fine), head.eval()(fine), strict=True):
            torch.testing.assert_close(used, trained, rtol=1e-5, atol=1e-4)


def test_targets_equal_the_loop():
    torch.manual_seed(0)
    points = torch.rand(3, 6, 2) * torch.tensor([44.0, 30.0]) - 2  # some just outside
    mask = torch.rand(3, 6) > 0.3
    for sigma in (0.5, 0.8, 1.5):
        ours = heat_targets(points, mask, 7, 10, 4, sigma)
        torch.testing.assert_close(ours, targets_by_loop(points, mask, 7, 10, 4, sigma))
    assert heat_targets(points, torch.zeros_like(mask), 7, 10, 4, 0.8).sum() == 0
    assert heat_targets(points[:, :0], mask[:, :0], 7, 10, 4, 0.8).shape == (3, 7, 10)


def test_the_target_of_a_node_is_exactly_one_in_its_cell():
    points = torch.tensor([[[13.9, 6.1]]])
    heat = heat_targets(points, torch.ones(1, 1, dtype=torch.bool), 8, 8, 4, 0.8)
    assert (heat == 1).nonzero().tolist() == [[0, 1, 3]]


def test_peaks_of_the_targets_are_the_nodes():
    points = torch.tensor([[[10.0, 6.0], [30.0, 22.0], [50.0, 9.0]]])
    mask = torch.ones(1, 3, dtype=torch.bool)
    column, row = cells_of(points, 8, 16, 4)
    heat = heat_targets(points, mask, 8, 16, 4, 0.8).clamp(1e-4, 1 - 1e-4).logit()
    found, peak_heat = peaks(heat, 5)
    torch.testing.assert_close(peak_heat[0], torch.tensor([1 - 1e-4] * 3 + [1e-4] * 2), atol=1e-5, rtol=0)
    found = found[:, :3]
    assert sorted(found[0].tolist()) == sorted((row * 16 + column)[0].tolist())
    offsets = torch.zeros(1, 8 * 16, 2)
    offsets.scatter_(
        1, (row * 16 + column)[..., None].expand(-1, -1, 2), points / 4 - 0.5 - torch.stack([column, row], -1)
    )
    assert sorted(map(tuple, cell_points(found, offsets, 16, 4)[0].tolist())) == sorted(map(tuple, points[0].tolist()))


def test_nodes_in_diagonal_cells_are_both_peaks_and_slopes_are_not():
    points = torch.tensor([[[10.0, 10.0], [14.0, 14.0]]])
    heat = heat_targets(points, torch.ones(1, 2, dtype=torch.bool), 8, 8, 4, 0.8)
    logits = (0.2 + 0.5 * heat).logit()
    assert sorted(peaks(logits, 2)[0][0].tolist()) == [2 * 8 + 2, 3 * 8 + 3]
    single = heat_targets(points[:, :1], torch.ones(1, 1, dtype=torch.bool), 8, 8, 4, 0.8)
    order = peaks((0.2 + 0.5 * single).logit(), 64)[0][0].tolist()
    near = [row * 8 + column for row in (1, 2, 3) for column in (1, 2, 3) if (row, column) != (2, 2)]
    assert order[0] == 2 * 8 + 2
    assert not set(near) & set(order[:20]), "the cells around a single peak come after all flat cells"


def test_the_head_starts_at_its_prior():
    heat, offsets = HeatMapHead(8)(torch.randn(2, 8, 5, 6))
    assert heat.shape == (2, 5, 6)
    assert offsets.shape == (2, 30, 2)
    assert 0.01 < heat.sigmoid().mean() < 0.04


def test_an_upsampled_map_has_its_cells_in_image_order():
    """Each cell of the finest level predicts four cells: top left, top right, bottom left, bottom right."""
    head = HeatMapHead(8, upsampling=2)
    heat, offsets = head(torch.randn(2, 8, 5, 6))
    assert heat.shape == (2, 10, 12)
    assert offsets.shape == (2, 120, 2)
    assert 0.01 < heat.sigmoid().mean() < 0.04
    with torch.no_grad():
        head.layers[-1].weight.zero_()
        head.layers[-1].bias.copy_(torch.arange(12.0))
    heat, offsets = head(torch.randn(1, 8, 2, 2))
    assert heat[0].tolist() == [[0, 1, 0, 1], [2, 3, 2, 3]] * 2
    assert offsets[0].tolist() == [[4, 8], [5, 9], [4, 8], [5, 9], [6, 10], [7, 11], [6, 10], [7, 11]] * 2


def test_nodes_in_neighboring_cells_are_separate_peaks_only_in_an_upsampled_map():
    points = torch.tensor([[[11.0, 10.0], [15.0, 10.0]]])
    mask = torch.ones(1, 2, dtype=torch.bool)
    for upsampling, separate in ((1, False), (2, True)):
        side, stride = 8 * upsampling, 4 // upsampling
        heat = heat_targets(points, mask, side, side, stride, 0.8)
        column, row = cells_of(points, side, side, stride)
        heat[0, row[0, 1], column[0, 1]] = 0.9  # so that the two nodes are not tied
        found = set(peaks((0.1 + 0.8 * heat).logit(), 2)[0][0].tolist())
        assert (found == set((row * side + column)[0].tolist())) == separate


def test_a_head_with_a_grid_is_periodic_in_its_spacing():
    torch.manual_seed(0)
    head = HeatMapHead(8, grid_px=44)
    flat = torch.ones(1, 8, 33, 33)
    untrained, _ = head(flat)
    torch.testing.assert_close(untrained, HeatMapHead.forward(without_grid(head), flat)[0])
    torch.nn.init.normal_(head.phase.weight)
    heat, _ = head(flat)
    inner = heat[:, 1:-1, 1:-1]  # away from the padding of the convolution
    torch.testing.assert_close(inner[:, :11, :11], inner[:, 11:22, 11:22])
    assert inner[0, :11].std() > 0.001
    coarse, _ = head(flat, stride=11)
    torch.testing.assert_close(coarse[:, 1:5, 1:5], coarse[:, 5:9, 5:9])


def without_grid(head):
    """The same head without the grid input."""
    plain = HeatMapHead(8)
    plain.load_state_dict(head.state_dict(), strict=False)
    return plain


def test_positions_are_isotropic_and_distinguish_neighbors():
    points = torch.tensor([[10.0, 200.0], [200.0, 10.0], [11.0, 200.0]])
    encoded = sine_positions(points, 32)
    assert encoded.shape == (3, 32)
    torch.testing.assert_close(encoded[0], torch.cat([encoded[1][16:], encoded[1][:16]]))
    assert (encoded[0] - encoded[2]).abs().max() > 0.1
    assert cell_centers(2, 3, 8, torch.device("cpu")).tolist() == [
        [4, 4],
        [12, 4],
        [20, 4],
        [4, 12],
        [12, 12],
        [20, 12],
    ]
