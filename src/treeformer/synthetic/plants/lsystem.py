"""The paper's synthetic trees: a Lindenmayer system and a turtle that turns its sequences into skeletons.

`F` is a permanent branch and `A` a leaf that the next rewrite replaces; each is one edge. `+` and `-` turn left and
right. `[` and `]` open and close a side branch. Every branch carries the number of the rewrite that created it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from treeformer._util.arrays import FloatArray
from treeformer.errors import TreeformerError
from treeformer.skeleton import Axis, AxisFunction, Skeleton
from treeformer.synthetic.rng import Rng

# The paper shows these only in a figure. Its text gives one example of each, which comes first in the two tuples.
INITIAL_STRUCTURES = ("F[+A]F[-A]A", "F[+A][-A]A", "F[-A]F[+A]F[-A]A")
LEAF_RULES = (
    "F[-A]",
    "F[+A]",
    "F[+A]A",
    "F[-A]A",
    "F[+A][-A]",
    "F[+A][-A]A",
    "F[+A]F[-A]A",
    "F[-A]F[+A]A",
)
# (number of rewrites, weight): at most three as in the paper, weighted towards large trees.
REWRITES = ((1, 0.1), (2, 0.2), (3, 0.7))
MAX_NODES = 99
LENGTH_SCALE = (0.5, 2.5)
JOINT_ANGLE_DEG = (10.0, 35.0)
# A tree is scaled to fit exactly into a frame of this size, relative to the image.
FRAME_FILL = (0.7, 0.97)
LINE_RADIUS_PX = 1.0
# Coordinates are rounded to 1/64 px, so that machines whose sine and cosine differ in the last bits agree.
GRID_PER_PX = 64

_TOKEN = re.compile(r"([FA])(\d*)|([+\-\[\]])")


@dataclass(frozen=True, slots=True)
class Symbol:
    """One symbol of a sequence."""

    letter: str  # one of `F`, `A`, `+`, `-`, `[` and `]`
    rewrite: int | None = None  # number of the rewrite that created a branch; None for turns and brackets

    def __str__(self) -> str:
        return self.letter if self.rewrite is None else f"{self.letter}{self.rewrite}"


Symbols = tuple[Symbol, ...]


@lru_cache(maxsize=64)  # the few rules are parsed again for every leaf
def parse(text: str, rewrite: int = 0) -> Symbols:
    """Parse text such as "F0[+A0]A0". Branches without a number get the number `rewrite`."""
    symbols = []
    position = 0
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:
            raise TreeformerError(f"unknown symbol {text[position]!r} at position {position} of the sequence {text!r}")
        branch, number, control = token.groups()
        symbols.append(Symbol(control) if control else Symbol(branch, int(number) if number else rewrite))
        position = token.end()
    return tuple(symbols)


def to_text(sequence: Symbols) -> str:
    """Return the text of a sequence, the inverse of `parse`."""
    return "".join(map(str, sequence))


def rewrite(sequence: Symbols, rule_for_leaf: Callable[[], str], index: int) -> Symbols:
    """Replace every leaf `A` by the result of a rule, called once per leaf, and keep all other symbols.

    >>> to_text(rewrite(parse("F0[+A0]F0[-A0]A0"), lambda: "F[-A]", 1))
    'F0[+F1[-A1]]F0[-F1[-A1]]F1[-A1]'
    """
    result: list[Symbol] = []
    for symbol in sequence:
        if symbol.letter == "A":
            result.extend(parse(rule_for_leaf(), index))
        else:
            result.append(symbol)
    return tuple(result)


def node_count(sequence: Symbols) -> int:
    """Return the number of nodes of a sequence: the root and one node at the end of each branch."""
    return 1 + sum(symbol.rewrite is not None for symbol in sequence)


def random_sequence(rng: Rng) -> Symbols:
    """Draw the sequence of one tree; sequences with more than `MAX_NODES` nodes are rejected and drawn again."""
    while True:
        sequence = parse(rng.choice(INITIAL_STRUCTURES))
        for index in range(1, rng.weighted(REWRITES) + 1):
            sequence = rewrite(sequence, lambda: rng.choice(LEAF_RULES), index)
        if node_count(sequence) <= MAX_NODES:
            return sequence


@dataclass(slots=True)
class _TurtleAxis:
    """An axis while the turtle draws it: its nodes, and the rewrite that created the branch to each node."""

    parent: int | None
    nodes: list[int]
    rewrites: list[int]


def draw_turtle(sequence: Symbols, rng: Rng) -> tuple[FloatArray, list[tuple[int, int]], list[int], list[_TurtleAxis]]:
    """Draw a sequence upwards from (0, 0) with random branch lengths and angles.

    Return the nodes (N,2) in units of the unscaled branch length with y pointing down, the edges, the axis of each
    edge, and the axes.
    """
    x = y = heading = 0.0  # a heading of 0 is upwards; it increases to the left
    node = axis = 0
    points, edges, edge_axis = [(x, y)], [], []
    axes = [_TurtleAxis(None, [0], [0])]
    stack = []
    starts_axis = False
    for symbol in sequence:
        if symbol.letter == "[":
            stack.append((x, y, heading, node, axis))
            starts_axis = True
        elif symbol.letter == "]":
            x, y, heading, node, axis = stack.pop()
            starts_axis = False
        elif symbol.rewrite is None:
            turn = math.radians(rng.uniform(*JOINT_ANGLE_DEG))
            heading += turn if symbol.letter == "+" else -turn
        else:
            if starts_axis:
                axes.append(_TurtleAxis(axis, [node], [symbol.rewrite]))
                axis = len(axes) - 1
                starts_axis = False
            length = rng.uniform(*LENGTH_SCALE)
            x -= length * math.sin(heading)
            y -= length * math.cos(heading)
            edges.append((node, len(points)))
            edge_axis.append(axis)
            node = len(points)
            points.append((x, y))
            axes[axis].nodes.append(node)
            axes[axis].rewrites.append(symbol.rewrite)
    return np.asarray(points), edges, edge_axis, axes


def on_grid(values: FloatArray) -> FloatArray:
    """Round values to the coordinate grid of 1/64 px."""
    return np.floor(values * GRID_PER_PX + 0.5) / GRID_PER_PX


def fit(nodes: FloatArray, size: tuple[int, int], rng: Rng) -> FloatArray:
    """Scale and move points (N,2) so that they fill a random share of an image, at a random position on the grid.

    Scaling keeps every tree. A fixed scale would require rejecting the trees that do not fit, which are the large ones.
    """
    low, high = nodes.min(axis=0), nodes.max(axis=0)
    frame = np.asarray(size, dtype=np.float64) * rng.uniform(*FRAME_FILL)
    extent = np.maximum(high - low, 1e-9)
    scale = float((frame / extent).min())
    free = np.asarray(size) - scale * extent
    # Leave room for half the line width on every side, if the free space allows.
    margin = np.minimum(0.5 * free, 4.0)
    corner = margin + (free - 2 * margin) * rng.array(2)
    return on_grid((nodes - low) * scale + corner)


def tree(rng: Rng, size: tuple[int, int], seed: int) -> Skeleton:
    """Generate one tree of the paper's synthetic set, its root at the bottom.

    `metadata["sequence"]` holds the sequence with its rewriting indices. Each axis stores the rewrite that started it
    (property `rewriting_index`) and the rewrite of the branch to each of its nodes (function `rewriting_index`).
    """
    sequence = random_sequence(rng)
    nodes, edges, edge_axis, axes = draw_turtle(sequence, rng)
    return Skeleton(
        fit(nodes, size, rng),
        edges,
        root=0,
        radius=np.full(len(nodes), LINE_RADIUS_PX),
        axes=_axis_records(axes),
        edge_axis=edge_axis,
        image_size=size,
        metadata={"preset": "paper", "seed": seed, "sequence": to_text(sequence)},
    )


def _axis_records(axes: Sequence[_TurtleAxis]) -> list[Axis]:
    orders: list[int] = []
    for axis in axes:
        orders.append(0 if axis.parent is None else orders[axis.parent] + 1)
    return [
        Axis(
            nodes=tuple(axis.nodes),
            parent=axis.parent,
            properties={"rewriting_index": str(axis.rewrites[1]), "branch_order": str(order)},
            functions=(AxisFunction("rewriting_index", tuple(map(float, axis.rewrites))),),
        )
        for axis, order in zip(axes, orders, strict=True)
    ]
