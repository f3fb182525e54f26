"""Choose the working size of an image from a first pass over the whole image at the network's input size.

The first pass shows the whole plant, so it also decides where plants begin: `move_bases` moves the roots that tiles
chose to the bases that the first pass is sure of.
"""

from __future__ import annotations

import math

import numpy as np

from treeformer._util.arrays import FloatArray, ImageArray
from treeformer._util.search_tree import search_tree
from treeformer.hub.model_folder import ScaleRule, ScaleSignal
from treeformer.skeleton import Skeleton

# Least probability of a root that is a base for sure, and least score of a node whose radius is measured.
MIN_BASE_SCORE = 0.5
MIN_NODE_SCORE = 0.5
# A base is moved to a node within this fraction of the image's longer side.
MAX_BASE_DISTANCE = 0.05
# Neighboring pixels of white noise correlate a little after the filter that reduces an image. Those of photographs,
# scans and drawings correlate much more, even at low contrast.
MAX_NOISE_CORRELATION = 0.2


def choose_working_size(first_pass: Skeleton, rule: ScaleRule, input_size: int, fixed_size: int) -> int:
    """Return the length to which the longer side of an image is reduced.

    The first pass, a skeleton in px of the original image, measures how large the plant's structures are at the
    network's input size. The working size doubles until they have the size that the network is best at, at most
    `rule.max_doublings` times, and never beyond the size of the image: it is `input_size` times a power of two, but not
    more than the image's longer side. If it doubles at all and keypoints are nearer to each other than
    `rule.crowded_px`, it doubles once more: thin structures that crowd are told apart only then. If nothing can be
    measured, the working size is `fixed_size`.

    Example:
        >>> line = Skeleton([(0, 0), (40, 0)], [(0, 1)], root=0, image_size=(4000, 3000))
        >>> choose_working_size(line, ScaleRule("spacing", 10.0, 3), 500, 1000)
        1000
    """
    longest = max(first_pass.image_size or (input_size,))
    measured = measure_scale(first_pass, rule.signal) * input_size / longest
    size = fixed_size
    if measured > 0:  # false for NaN
        doublings = round(math.log2(rule.target_px / measured))
        if doublings > 0 and measure_scale(first_pass, "spacing") * input_size / longest < rule.crowded_px:
            doublings += 1
        size = input_size * 2 ** min(max(doublings, 0), rule.max_doublings)
    return max(input_size, min(size, longest))


def measure_scale(skeleton: Skeleton, signal: ScaleSignal) -> float:
    """Measure the median size of a plant's structures, px; NaN if it cannot be measured.

    "spacing" is the distance from a keypoint to the nearest other keypoint, "radius" the radius of the nodes with a
    score of at least 0.5.
    """
    if signal == "radius":
        radius = np.zeros(0) if skeleton.radius is None else skeleton.radius
        if skeleton.radius is not None and skeleton.node_score is not None:
            radius = radius[skeleton.node_score >= MIN_NODE_SCORE]
        radius = radius[np.isfinite(radius)]
        return float(np.median(radius)) if len(radius) else math.nan
    keypoints = skeleton.nodes[skeleton.degree != 2]
    if len(keypoints) < 2:
        return math.nan
    return float(np.median(search_tree(keypoints).query(keypoints, k=2)[0][:, 1]))


def is_noise(pixels: ImageArray) -> bool:
    """Return True if an image is pure noise: pixels do not resemble their neighbors.

    `pixels` (H,W,3) is an image that was reduced to the network's input size. In noise, the brightness of neighbors
    correlates by at most `MAX_NOISE_CORRELATION`, horizontally and vertically. An image of one color is not noise.

    Example:
        >>> is_noise(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8))
        True
        >>> is_noise(np.tile(np.arange(64, dtype=np.uint8)[:, None, None], (1, 64, 3)))
        False
    """
    gray = pixels[..., 0].astype(np.float32)  # adding channels is several times faster than a sum over axis 2
    gray += pixels[..., 1]
    gray += pixels[..., 2]
    gray -= gray.mean(dtype=np.float64)
    limit = MAX_NOISE_CORRELATION * np.square(gray).mean()
    right, below = (gray[:, 1:] * gray[:, :-1]).mean(), (gray[1:] * gray[:-1]).mean()
    return bool(max(right, below) <= limit and limit > 0)


def move_bases(skeleton: Skeleton, bases: FloatArray) -> Skeleton:
    """Move the root of each tree to its node nearest to a base; trees without a base keep theirs.

    The bases (B,2) px are sorted, the surest first. Each belongs to the tree of its nearest node, if that is within 5 %
    of the image's longer side. A tree uses the surest of its bases.

    Example:
        >>> tree = Skeleton([(0, 0), (50, 0), (99, 0)], [(0, 1), (1, 2)], root=0, image_size=(100, 100))
        >>> move_bases(tree, np.array([(97.0, 2.0)])).root
        2
    """
    if not len(bases) or not len(skeleton):
        return skeleton
    longest = max(skeleton.image_size or skeleton.nodes.max(axis=0).tolist())
    distance, node = search_tree(skeleton.nodes).query(bases)
    roots = skeleton.component_root.copy()
    for base in np.flatnonzero(distance <= MAX_BASE_DISTANCE * longest)[::-1]:
        roots[skeleton.component[node[base]]] = node[base]
    return skeleton.replace(root=roots)
