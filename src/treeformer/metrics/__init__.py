"""Metrics of graphs in images: street mover's distance, TOPO, structure, and tables of whole sets.

Every metric is called as `metric(prediction, ground truth)` on two Skeletons with an `image_size`, or on two pairs
(nodes, edges) of arrays with `image_size=(width, height)`. NumPy and SciPy alone; nothing is written or remembered.
"""

from treeformer.metrics._inputs import Scores
from treeformer.metrics.evaluation import Estimate, differences, evaluate_pair, summarize
from treeformer.metrics.smd import street_mover_distance, street_mover_distance_paper
from treeformer.metrics.structure import Structure, match_nodes, structure
from treeformer.metrics.topo import topo
from treeformer.metrics.topo_paper import topo_paper

__all__ = [
    "Estimate",
    "Scores",
    "Structure",
    "differences",
    "evaluate_pair",
    "match_nodes",
    "street_mover_distance",
    "street_mover_distance_paper",
    "structure",
    "summarize",
    "topo",
    "topo_paper",
]
