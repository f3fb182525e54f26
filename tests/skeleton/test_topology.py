"""Topology that skeletons share equals a newly computed one; fast algorithms agree with slow references."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order

from tests.strategies import forests, graphs
from treeformer import Axis, Skeleton
from treeformer.data.augmentation import move
from treeformer.skeleton.attribute_transfer import apply_resampling
from treeformer.skeleton.clipping import clip

TOPOLOGY = ("degree", "component", "is_forest", "component_root", "traversal", "depth", "is_keypoint", "branches")

boxes = st.tuples(st.integers(-60, 150), st.integers(-60, 150), st.integers(1, 300), st.integers(1, 300))


def topology_of(skeleton: Skeleton) -> list[object]:
    """Everything that depends on edges and roots only, as lists that can be compared."""
    names = TOPOLOGY if skeleton.is_forest else [name for name in TOPOLOGY if name not in ("traversal", "depth")]
    values = [getattr(skeleton, name) for name in names]
    fields = [vars(value) if hasattr(value, "__dict__") else {"value": value} for value in values]
    return [{name: np.asarray(value).tolist() for name, value in items.items()} for items in fields]


@pytest.mark.slow
@given(forests() | graphs(), boxes, st.booleans())
def test_every_change_keeps_the_topology_of_a_new_skeleton(skeleton, box, one_axis):
    if one_axis and len(skeleton.edges) and skeleton.is_forest:
        axis = Axis(tuple(skeleton.edges[0].tolist()), plant=int(skeleton.plant_of_node[skeleton.edges[0, 0]]))
        skeleton = skeleton.replace(axes=[axis], edge_axis=[0] + [-1] * (len(skeleton.edges) - 1))
    left, top, width, height = box
    topology_of(skeleton)
    for changed in (
        skeleton.transform([[0, 2, 1], [-2, 0, 5]]),
        skeleton.crop(left, top, left + width, top + height),
        skeleton.resample(9.0),
        skeleton.contract(),
        skeleton.largest(),
        move(skeleton, [[1, 0, 0], [0, 1, 0]], (200, 200)),
        *skeleton.plants,
    ):
        assert topology_of(changed) == topology_of(changed.replace())


def test_a_moved_skeleton_is_not_traced_again(comb):
    branches = comb.branches
    assert comb.transform([[1, 0, 3], [0, 1, 0]]).crop(0, 0, 500, 500).branches is branches
    without = Skeleton(comb.nodes, comb.edges, root=comb.roots, axes=[], edge_axis=[-1] * len(comb.edges))
    first, second = (move(without, [[1, 0, shift], [0, 1, 0]], (500, 500)) for shift in (0, 3))
    assert first.branches is second.branches


@pytest.mark.slow
@given(forests(), boxes)
def test_a_crop_that_cuts_nothing_equals_clipping(skeleton, box):
    low, high = skeleton.nodes.min(axis=0, initial=0.0), skeleton.nodes.max(axis=0, initial=1.0)
    frame = (*(low - box[2:]).tolist(), *(high + box[2:]).tolist())
    cut = skeleton.crop(*frame)
    clipped = apply_resampling(skeleton, clip(skeleton.nodes, skeleton.edges, *frame))
    assert cut == clipped.replace(nodes=np.clip(cut.nodes, 0, None), image_size=cut.image_size)
    assert np.array_equal(cut.nodes, np.clip(clipped.nodes - frame[:2], 0, np.subtract(frame[2:], frame[:2])))


def scipy_traversal(skeleton: Skeleton) -> tuple[list[int], list[int], list[int]]:
    """Order, parents and edges to the parents of SciPy's breadth-first traversal."""
    count = len(skeleton)
    roots = skeleton.component_root
    virtual = np.stack([np.full(len(roots), count), roots], axis=1)  # joins all component roots to one tree
    pairs = np.concatenate([skeleton.edges, virtual])
    graph = csr_array((np.ones(len(pairs), dtype=np.int8), (pairs[:, 0], pairs[:, 1])), shape=(count + 1,) * 2)
    order, before = breadth_first_order(graph, count, directed=False)
    parents = [-1 if above == count else int(above) for above in before[:count]]
    edge_of = {tuple(sorted(pair)): edge for edge, pair in enumerate(skeleton.edges.tolist())}
    edges = [edge_of.get((min(node, above), max(node, above)), -1) for node, above in enumerate(parents)]
    return order[1:].tolist(), parents, edges


@pytest.mark.slow
@given(forests(), st.randoms(use_true_random=False))
def test_the_traversal_equals_scipy(skeleton, random):
    edges = [pair if random.random() < 0.5 else pair[::-1] for pair in skeleton.edges.tolist()]
    random.shuffle(edges)
    skeleton = Skeleton(skeleton.nodes, edges, root=skeleton.roots)
    traversal = skeleton.traversal
    assert (traversal.order, traversal.parents.tolist(), traversal.edge.tolist()) == scipy_traversal(skeleton)


@pytest.mark.slow
@given(forests(), boxes, st.sets(st.integers(0, 2)))
def test_each_component_gets_the_root_nearest_to_its_old_one(skeleton, box, rootless):
    roots = [root for number, root in enumerate(skeleton.roots.tolist()) if number not in rootless]
    skeleton = skeleton.replace(root=roots)
    left, top, width, height = box
    frame = (left, top, left + width, top + height)
    resampling = clip(skeleton.nodes, skeleton.edges, *frame)
    cut = apply_resampling(skeleton, resampling)
    old = skeleton.distance_from_root
    distance = old[resampling.i] + resampling.t * (old[resampling.j] - old[resampling.i])
    expected = []
    for component in range(cut.component.max(initial=-1) + 1):
        nodes = np.flatnonzero(cut.component == component).tolist()
        if set(skeleton.component[resampling.i[nodes]].tolist()) <= set(skeleton.component[roots].tolist()):
            expected.append(min(nodes, key=lambda node: (distance[node], skeleton.depth[resampling.i[node]], node)))
    assert cut.roots.tolist() == sorted(expected)
