"""Metrics for graphs in images: street mover's distance, TOPO, structure, keypoints, lines, and tables of data sets.

Call every metric as `metric(prediction, ground_truth)`, with two Skeletons that have an `image_size`, or with two pairs
of arrays (nodes, edges) and `image_size=(width, height)`. The metrics need only NumPy and SciPy. They write no files
and keep no state between calls.
"""

from treeformer.metrics._inputs import Scores
from treeformer.metrics.calibration import correct_edges, expected_calibration_error, reliability
from treeformer.metrics.evaluation import Estimate, differences, evaluate_pair, mean_metrics, summarize
from treeformer.metrics.keypoints import Counts, Keypoints, keypoint_nodes, keypoints
from treeformer.metrics.line import LineDistance, line_distance
from treeformer.metrics.smd import street_mover_distance, street_mover_distance_paper
from treeformer.metrics.structure import Structure, match_nodes, structure
from treeformer.metrics.topo import topo
from treeformer.metrics.topo_paper import topo_paper

__all__ = [
    "Counts",
    "Estimate",
    "Keypoints",
    "LineDistance",
    "Scores",
    "Structure",
    "correct_edges",
    "differences",
    "evaluate_pair",
    "expected_calibration_error",
    "keypoint_nodes",
    "keypoints",
    "line_distance",
    "match_nodes",
    "mean_metrics",
    "reliability",
    "street_mover_distance",
    "street_mover_distance_paper",
    "structure",
    "summarize",
    "topo",
    "topo_paper",
]
