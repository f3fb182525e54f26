"""Targets: parents and kinds of axes, which the two-stage method needs."""

from __future__ import annotations

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


def test_moving_keeps_optional_tensors(comb):
    targets = Targets.from_skeletons([comb])
    assert targets.to("cpu").parent.equal(targets.parent)
    bare = Targets(targets.points, targets.mask, targets.adjacency, targets.root).to("cpu")
    assert bare.parent is None
    assert bare.kind is None
    assert np.array_equal(bare.points, targets.points)
