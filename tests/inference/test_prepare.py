"""What is made of the network's tree before it is handed out: unsure plants, cut pieces, axes."""

from __future__ import annotations

import numpy as np

from tests.inference.fake_engine import ColorEngine, drawn, predictor
from tests.inference.test_tiles import as_sets
from treeformer import Skeleton
from treeformer.decoding.postprocess import cut_unlikely_edges, drop_unsure_plants


def test_a_plant_has_a_node_that_is_likelier_than_not():
    """What darkness gives is dropped as a whole; a sure node keeps the unsure ones that hang on it."""
    for score, left in (([0.4, 0.45, 0.35], []), ([0.4, 0.6, 0.35], [0.4, 0.6]), ([0.4, 0.6, 0.5], [0.4, 0.6, 0.5])):
        found = Skeleton([(0, 0), (5, 0), (9, 9)], [(0, 1)], root=[0, 2], node_score=score, edge_score=[0.9])
        certain = drop_unsure_plants(found)
        assert certain.node_score.tolist() == left
        assert certain.is_forest


def test_main_roots_pass_over_laterals_in_line_and_trunks_do_not():
    """A crown of short edges, the main axis bent at it, a lateral in line: hanging down, and the same upside down."""
    down = [(60, 10), (60, 18), (52, 22), (58, 100), (40, 28), (95, 104)]
    edges = [(0, 1), (1, 2), (2, 3), (2, 4), (3, 5)]
    for nodes, main in ((down, (0, 1, 2, 3, 5)), ([(x, 127 - y) for x, y in down], (0, 1, 2, 4))):
        tree = Skeleton(np.array(nodes) + 0.5, edges, root=0, image_size=(128, 128))
        found = predictor(ColorEngine(tree, 128)).predict(drawn(tree))
        assert as_sets(found) == as_sets(tree)
        [axis] = [axis for axis, order in zip(found.axes, found.axis_order, strict=True) if order == 0]
        assert found.nodes[list(axis.nodes)].tolist() == tree.nodes[list(main)].tolist()
        assert found.has_explicit_axes, "so that every file says the same"


def test_a_piece_that_is_cut_off_begins_at_the_cut():
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
    assert from_the_other_end.roots.tolist() == [1, 3], "whatever the numbers of the nodes"
