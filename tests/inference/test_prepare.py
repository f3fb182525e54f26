"""Post-processing of the decoded tree: unsure plants, cut edges, axes."""

from __future__ import annotations

import numpy as np

from tests.inference.fake_engine import ColorEngine, drawn, predictor
from tests.inference.test_tiles import as_sets
from treeformer import Skeleton
from treeformer.decoding.postprocess import cut_unlikely_edges, drop_unsure_plants


def test_plants_without_a_sure_node_are_dropped():
    """A plant with one sure node keeps its unsure ones."""
    for score, expected in (
        ([0.4, 0.45, 0.35], []),
        ([0.4, 0.6, 0.35], [0.4, 0.6]),
        ([0.4, 0.6, 0.5], [0.4, 0.6, 0.5]),
    ):
        found = Skeleton([(0, 0), (5, 0), (9, 9)], [(0, 1)], root=[0, 2], node_score=score, edge_score=[0.9])
        certain = drop_unsure_plants(found)
        assert certain.node_score.tolist() == expected
        assert certain.is_forest


def test_main_roots_ignore_short_laterals_in_line_and_trunks_do_not():
    """A short lateral is in line with the base, and the main axis bends. The same tree upside down is a trunk."""
    down = [(60, 10), (60, 18), (52, 22), (58, 100), (40, 28), (95, 104)]
    edges = [(0, 1), (1, 2), (2, 3), (2, 4), (3, 5)]
    for nodes, main in ((down, (0, 1, 2, 3, 5)), ([(x, 127 - y) for x, y in down], (0, 1, 2, 4))):
        tree = Skeleton(np.array(nodes) + 0.5, edges, root=0, image_size=(128, 128))
        found = predictor(ColorEngine(tree, 128)).predict(drawn(tree))
        assert as_sets(found) == as_sets(tree)
        [axis] = [axis for axis, order in zip(found.axes, found.axis_order, strict=True) if order == 0]
        assert found.nodes[list(axis.nodes)].tolist() == tree.nodes[list(main)].tolist()
        assert found.has_explicit_axes, "so that every file format has the same axes"


def test_a_part_that_is_cut_off_has_its_root_at_the_cut():
    chain = Skeleton(
        [(0, 0), (1, 0), (2, 0), (3, 0), (4, 0)],
        [(0, 1), (1, 2), (2, 3), (3, 4)],
        root=0,
        node_score=np.ones(5),
        edge_score=[0.9, 0.1, 0.9, 0.1],
    )
    cut = cut_unlikely_edges(chain, 0.5)
    assert cut.nodes[:, 0].tolist() == [0, 1, 2, 3]
    assert cut.edges.tolist() == [[0, 1], [2, 3]]
    assert cut.roots.tolist() == [0, 2]
    from_the_other_end = cut_unlikely_edges(chain.replace(root=4), 0.5)
    assert from_the_other_end.roots.tolist() == [1, 3], "independent of the order of the nodes"
