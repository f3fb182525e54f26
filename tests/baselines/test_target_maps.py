"""Target maps, compared with loops over every cell and edge."""

from __future__ import annotations

import math

import pytest
import torch

from treeformer import Skeleton, synthetic
from treeformer.baselines.two_stage.target_maps import Maps, direction_targets, map_errors, target_maps
from treeformer.errors import TreeformerError
from treeformer.nn.targets import Targets


def reference_directions(points, parent, kind, classes, size, stride, width):
    height, columns = size
    result = torch.zeros(len(points), classes, 2, height, columns)
    half = max(width / stride / 2, 0.5)
    for b in range(len(points)):
        for c in range(classes):
            for y in range(height):
                for x in range(columns):
                    vectors = []
                    for child, above in enumerate(parent[b].tolist()):
                        if above < 0 or kind[b, child] != c:
                            continue
                        (x0, y0), (x1, y1) = (points[b, above] / stride).tolist(), (points[b, child] / stride).tolist()
                        dx, dy = x1 - x0, y1 - y0
                        length = math.hypot(dx, dy)
                        if length == 0:
                            continue
                        t = ((x + 0.5 - x0) * dx + (y + 0.5 - y0) * dy) / length**2
                        t = min(max(t, 0.0), 1.0)
                        if math.hypot(x + 0.5 - x0 - t * dx, y + 0.5 - y0 - t * dy) <= half:
                            vectors.append((dx / length, dy / length))
                    if vectors:
                        result[b, c, 0, y, x] = sum(v[0] for v in vectors) / len(vectors)
                        result[b, c, 1, y, x] = sum(v[1] for v in vectors) / len(vectors)
    return result


@pytest.mark.slow
@pytest.mark.parametrize(("stride", "width"), [(1, 5.0), (1, 1.0), (1, 11.0), (2, 5.0), (4, 3.0)])
@pytest.mark.parametrize("classes", [1, 3])
def test_directions_equal_the_reference(stride, width, classes):
    torch.manual_seed(stride + classes)
    size = (12, 17)
    points = torch.rand(3, 7, 2) * torch.tensor([23.0, 18.0]) * stride - 3 * stride  # some outside
    points[0, 3] = points[0, 2]  # an edge of length 0
    points[1, 2, 1] = points[1, 1, 1]  # a horizontal edge
    points[1, 4, 0] = points[1, 3, 0]  # a vertical edge
    parent = torch.tensor([[-1, 0, 1, 2, 3, 0, -1], [-1, 0, 1, 0, 3, 4, 4], [-1] * 7])
    kind = torch.randint(classes, (3, 7))
    directions = direction_targets(points, parent, kind, classes, size, stride, width)
    expected = reference_directions(points, parent, kind, classes, size, stride, width)
    torch.testing.assert_close(directions, expected)
    assert expected[:2].abs().sum() > 10
    assert directions[2].abs().sum() == 0


def test_a_node_covers_at_least_one_cell():
    """A diameter of 3 px with cells of 4 px, as in the paper's grapevine setting, is raised to one cell."""
    targets = Targets.from_skeletons([Skeleton([(18, 22)], [])])
    for diameter, neighbor in ((3.0, 1 / 16), (4.0, 1 / 16), (8.0, 1 / 2)):
        (nodes,) = target_maps(targets, 1, (16, 16), 4, diameter, 5.0).nodes[0]
        assert nodes[5, 4] == 1
        assert nodes[5, 5].item() == pytest.approx(neighbor)


def test_a_band_has_its_width_and_points_away_from_the_root():
    line = Skeleton([(40, 10.5), (10, 10.5)], [(0, 1)], root=0)
    maps = target_maps(Targets.from_skeletons([line]), 1, (21, 50), 1, 4.0, 5.0)
    x, y = maps.directions[0, 0]
    assert x[:, 25].tolist() == [0.0] * 8 + [-1.0] * 5 + [0.0] * 8
    assert (y == 0).all()
    turned = Skeleton(line.nodes, line.edges, root=1)
    assert target_maps(Targets.from_skeletons([turned]), 1, (21, 50), 1, 4.0, 5.0).directions[0, 0, 0, 10, 25] == 1


def test_the_confidence_is_one_half_at_the_diameter():
    dot = Targets.from_skeletons([Skeleton([(10.5, 10.5)], [])])
    for diameter in (4.0, 6.0):
        nodes = target_maps(dot, 1, (21, 21), 1, diameter, 5.0).nodes[0, 0]
        assert nodes[10, 10] == 1
        assert nodes[10, 10 + int(diameter / 2)].item() == pytest.approx(0.5)


def test_every_kind_has_its_own_maps():
    vine = synthetic.generate("vine", 3, size=(128, 128))
    targets = Targets.from_skeletons([vine])
    single, three = (target_maps(targets, classes, (128, 128), 1, 4.0, 5.0) for classes in (1, 3))
    torch.testing.assert_close(three.nodes.amax(1), single.nodes[:, 0])
    assert (three.nodes.amax((0, 2, 3)) == 1).all()
    covered = (three.directions != 0).any(2).any(1)
    assert (covered | ~(single.directions != 0).any(2).any(1)).all()


@pytest.mark.parametrize("skeleton", [Skeleton([], []), Skeleton([(5, 5)], [], root=0)], ids=["no node", "one node"])
@pytest.mark.parametrize("size", [None, 4])
def test_small_targets(skeleton, size):
    maps = target_maps(Targets.from_skeletons([skeleton, skeleton], size), 2, (16, 24), 1, 4.0, 5.0)
    assert maps.nodes.shape == (2, 2, 16, 24)
    assert maps.directions.shape == (2, 2, 2, 16, 24)
    assert maps.nodes.amax() == len(skeleton)
    assert (maps.directions == 0).all()


def test_errors_are_means_over_everything():
    target = Maps(torch.zeros(2, 1, 3, 4), torch.zeros(2, 1, 2, 3, 4))
    wrong = Maps(torch.full((2, 1, 3, 4), 0.5), torch.zeros(2, 1, 2, 3, 4))
    wrong.directions[0, 0, 1] = 1.0
    assert [error.item() for error in map_errors(wrong, target)] == [0.25, 0.25]


def test_targets_without_parents_are_an_error():
    targets = Targets.from_skeletons([Skeleton([(5, 5)], [], root=0)])
    targets.parent = None
    with pytest.raises(TreeformerError, match="the targets have no parents and kinds"):
        target_maps(targets, 1, (16, 16), 1, 4.0, 5.0)
