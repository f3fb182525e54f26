"""A small drawing of a skeleton for notebooks, as SVG."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

from treeformer._util.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    from treeformer.skeleton.skeleton import Skeleton

WIDTH = 320
MAX_HEIGHT = 480
CAPTION_HEIGHT = 20
MAX_LINES = 3000
# The Okabe-Ito palette without yellow, which is hard to see on white: plants take turns.
COLORS = ("#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
ROOT_COLOR = "#000000"


def to_svg(skeleton: Skeleton) -> str:
    """Return a self-contained SVG of 320 px width: one path per plant, a dot at each root, and a caption with counts.

    Of skeletons with more than 3,000 edges, nodes that make no visible difference are left out, then short edges.
    """
    left, top, right, bottom = _frame(skeleton)
    scale = min((WIDTH - 2) / (right - left), MAX_HEIGHT / (bottom - top))
    height = scale * (bottom - top) + 2
    drawn = _reduced(skeleton, 1 / scale)
    nodes = (drawn.nodes - (left, top)) * scale + 1
    edges, single = _longest(drawn), np.flatnonzero(drawn.degree == 0)[:MAX_LINES]
    lines = np.concatenate([edges, np.stack([single, single], axis=1)])
    plant = drawn.plant_of_node[lines[:, 0]]
    paths = [
        f'<path d="{_path(nodes, lines[plant == number])}" stroke="{COLORS[index % len(COLORS)]}" stroke-width="1.5"/>'
        for index, number in enumerate(np.unique(plant).tolist())
    ]
    roots = np.stack([drawn.roots, drawn.roots], axis=1)[:MAX_LINES]
    paths.append(f'<path d="{_path(nodes, roots)}" stroke="{ROOT_COLOR}" stroke-width="5"/>')
    caption = escape(_caption(skeleton))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height + CAPTION_HEIGHT:.0f}">'
        f"<title>{caption}</title>"
        f'<rect width="{WIDTH}" height="{height + CAPTION_HEIGHT:.0f}" fill="white"/>'
        f'<svg width="{scale * (right - left) + 2:.0f}" height="{height:.0f}">'
        f'<rect width="100%" height="100%" fill="none" stroke="#bbb"/>'
        f'<g fill="none" stroke-linecap="round">{"".join(paths)}</g></svg>'
        f'<text x="2" y="{height + 14:.0f}" font-family="sans-serif" font-size="11" fill="#333">{caption}</text></svg>'
    )


def _frame(skeleton: Skeleton) -> tuple[float, float, float, float]:
    """Return left, top, right and bottom of the drawing, px: the image, or the nodes with a margin."""
    if skeleton.image_size is not None:
        return 0.0, 0.0, float(skeleton.image_size[0]), float(skeleton.image_size[1])
    if len(skeleton) == 0:
        return 0.0, 0.0, 1.0, 0.25
    low, high = skeleton.nodes.min(axis=0), skeleton.nodes.max(axis=0)
    margin = max(0.05 * float((high - low).max()), 0.5)
    (left, top), (right, bottom) = (low - margin).tolist(), (high + margin).tolist()
    return left, top, right, bottom


def _reduced(skeleton: Skeleton, tolerance: float) -> Skeleton:
    """Return the skeleton with fewer nodes if it has too many edges; `tolerance` is one pixel of the drawing."""
    if len(skeleton.edges) <= MAX_LINES:
        return skeleton
    simplified = skeleton.simplify(tolerance)
    return simplified if len(simplified.edges) <= MAX_LINES else skeleton.contract()


def _longest(skeleton: Skeleton) -> IntArray:
    """Return the edges, (E,2), without the shortest ones if there are too many."""
    return skeleton.edges[np.sort(np.argsort(-skeleton.edge_length, kind="stable")[:MAX_LINES])]


def _path(nodes: FloatArray, lines: IntArray) -> str:
    """Return the path data of lines, (L,2) node indices; a line between a node and itself is a dot."""
    return "".join(f"M{a:.1f} {b:.1f}L{c:.1f} {d:.1f}" for a, b, c, d in nodes[lines].reshape(-1, 4).tolist())


def _caption(skeleton: Skeleton) -> str:
    kind = "tree" if skeleton.is_tree else "forest" if skeleton.is_forest else "graph with cycles"
    plants = len(np.unique(skeleton.plant_of_node))
    counts = ((plants, "plant"), (len(skeleton), "node"), (len(skeleton.edges), "edge"))
    return ", ".join([kind, *(f"{count:,} {name}{'' if count == 1 else 's'}" for count, name in counts)])
