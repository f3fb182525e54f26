"""Targets: parents, kinds of axes, radii and directions."""

from __future__ import annotations

import math

import numpy as np
import torch

from treeformer import Skeleton, synthetic
from treeformer.nn.targets import KINDS, Targets, node_kinds


def test_parents_point_at_the_root(comb, ring):
    targets = Targets.from_skeletons([comb, ring, Skeleton([], [])], size=9)
    assert targets.parent[0].tolist() == [-1, 0, 1, 2, 3, 1, 2, 3, -1]
    assert (targets.parent[1:] == -1).all(), "cycles and empty skeletons have no parents"
    assert targets.kind.shape == (3, 9)
    assert targets.parent.dtype == targets.kind.dtype == torch.int64


def test_the_kind_is_that_of_the_axis_to_the_parent():
    vine = synthetic.generate("vine", 3)
    label_of_edge = [vine.axes[axis].label for axis in vine.edge_axis]
    edge_of = {frozenset(edge): label for edge, label in zip(vine.edges.tolist(), label_of_edge, strict=True)}
    kinds = node_kinds(vine)
    for node, parent in enumerate(vine.parents.tolist()):
        assert kinds[node] == (0 if parent < 0 else KINDS[edge_of[frozenset((node, parent))]])
    tree = synthetic.generate("paper", 3)
    assert kinds.max() == 3
    assert node_kinds(tree).max() == tree.axis_order.max(), "other labels: the order is the kind"


def test_without_axes_there_is_one_kind(comb):
    assert node_kinds(comb).tolist() == [0] * len(comb)


def test_radii_and_directions(comb, ring):
    thick = comb.replace(radius=np.arange(8.0) + 1)
    targets = Targets.from_skeletons([thick, comb, ring, comb.replace(root=None)], size=9)
    assert targets.radius[0, :8].tolist() == list(range(1, 9))
    assert targets.radius[0, 8].isnan(), "padding"
    assert targets.radius[1:].isnan().all(), "unknown radii"
    up, left, none = [0.0, -1.0], [-1.0, 0.0], [math.nan] * 2
    np.testing.assert_array_equal(targets.direction[0], [none, up, up, up, up, left, left, left, none])
    assert targets.direction[2:].isnan().all(), "cycles, and components without a root"


def test_a_cut_component_keeps_its_directions(comb):
    """A crop gives a new root to a component that lost its own. The directions still point to the old root."""
    cut = comb.replace(radius=np.arange(8.0) + 1).crop(0, 15, 40, 50)
    targets = Targets.from_skeletons([cut])
    for node, point in enumerate(cut.nodes.tolist()):
        old = comb.nearest([(point[0], point[1] + 15)])[0][0]
        if targets.parent[0, node] >= 0:
            expected = comb.nodes[comb.parents[old]] - comb.nodes[old]
            np.testing.assert_allclose(targets.direction[0, node], expected / np.hypot(*expected), atol=1e-6)
            assert targets.radius[0, node] == old + 1
    at_the_cut = int(cut.nodes[:, 1].argmin())
    assert targets.direction[0, at_the_cut].isnan().all()
    assert targets.radius[0, at_the_cut] == 2.5, "interpolated between 2 and 3"


def test_a_node_at_the_place_of_its_parent_has_no_direction():
    same = Skeleton([(1, 1), (1, 1), (2, 1)], [(0, 1), (1, 2)], root=0)
    assert Targets.from_skeletons([same]).direction[0].isnan().any(1).tolist() == [True, True, False]


def test_moving_keeps_optional_tensors(comb):
    targets = Targets.from_skeletons([comb])
    assert targets.to("cpu").parent.equal(targets.parent)
    bare = Targets(targets.points, targets.mask, targets.adjacency, targets.root).to("cpu")
    assert bare.parent is None
    assert bare.kind is None
    assert np.array_equal(bare.points, targets.points)


def test_lines_are_those_of_the_curves(comb):
    """The curve keeps its length although nodes between keypoints are left out."""
    arc = Skeleton(
        [(20 + 15 * math.cos(t), 15 * math.sin(t)) for t in np.linspace(0, 3, 30)], [(k, k + 1) for k in range(29)]
    )
    targets = Targets.from_skeletons([arc.contract(), comb], size=8, curves=[arc, None])
    lengths = 2 * np.nansum(np.hypot(*targets.lines[..., 2:].numpy().transpose(2, 0, 1)), axis=1)
    np.testing.assert_allclose(lengths, [arc.length, comb.length], rtol=1e-5)
    assert arc.contract().length < 0.7 * arc.length


def test_nodes_at_the_frame():
    cut = Skeleton([(5, 5), (60, 5), (60, 70)], [(0, 1), (1, 2)], root=0).crop(0, 0, 50, 50)
    targets = Targets.from_skeletons([cut, cut.replace(image_size=None)], size=3)
    assert targets.at_frame[0].tolist() == [False, True, False], "the last one is padding"
    assert not targets.at_frame[1].any(), "without an image there is no frame"
