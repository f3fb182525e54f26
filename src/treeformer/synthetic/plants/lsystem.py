"""The paper's synthetic trees: a Lindenmayer system whose sequences a turtle turns into a skeleton.

`F` is a branch that stays, `A` a leaf that the next rewrite replaces (each is one edge); `+` and `-` turn left and
right, `[` and `]` open and close a side branch. Every branch carries the number of the rewrite that made it.
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

# The paper's figure with these is not in its text; its one example of each comes first in the two lists.
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
# How many rewrites a tree gets, at most three as in the paper, weighted towards large trees.
REWRITES = ((1, 0.1), (2, 0.2), (3, 0.7))
MAX_NODES = 99
LENGTH_SCALE = (0.5, 2.5)
JOINT_ANGLE_DEG = (10.0, 35.0)
# A tree is scaled so that it just fits into a frame this large, relative to the image.
FRAME_FILL = (0.7, 0.97)
LINE_RADIUS_PX = 1.0
# Coordinates lie on a grid of 1/64 px: differences in the last bits of sine and cosine between machines vanish.
GRID_PER_PX = 64

_TOKEN = re.compile(r"([FA])(\d*)|([+\-\[\]])")


@dataclass(frozen=True, slots=True)
class Symbol:
    """One symbol of a sequence; `rewrite`: which one made it, for a branch, None for turns and brackets."""

    letter: str
    rewrite: int | None = None

    def __str__(self) -> str:
        return self.letter if self.rewrite is None else f"{self.letter}{self.rewrite}"


Symbols = tuple[Symbol, ...]


@lru_cache(maxsize=64)  # the few rules are read again and again
def parse(text: str, rewrite: int = 0) -> Symbols:
    """Symbols from text such as "F0[+A0]A0"; branches without a number get `rewrite`."""
    symbols = []
    position = 0
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:
            raise TreeformerError(f"a sequence has no symbol {text[position]!r} (at {position} in {text!r})")
        branch, number, other = token.groups()
        symbols.append(Symbol(other) if other else Symbol(branch, int(number) if number else rewrite))
        position = token.end()
    return tuple(symbols)


def written(sequence: Symbols) -> str:
    """The text of a sequence, the inverse of `parse`."""
    return "".join(map(str, sequence))


def rewrite(sequence: Symbols, rule_for_leaf: Callable[[], str], index: int) -> Symbols:
    """Replace every leaf `A` by the text that `rule_for_leaf` gives for it; all other symbols stay.

    >>> written(rewrite(parse("F0[+A0]F0[-A0]A0"), lambda: "F[-A]", 1))
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
    """Every branch ends in a node, and there is the root."""
    return 1 + sum(symbol.rewrite is not None for symbol in sequence)


def random_sequence(rng: Rng) -> Symbols:
    """One tree of the paper's kind, drawn again where it has 100 nodes or more."""
    while True:
        sequence = parse(rng.choice(INITIAL_STRUCTURES))
        for index in range(1, rng.weighted(REWRITES) + 1):
            sequence = rewrite(sequence, lambda: rng.choice(LEAF_RULES), index)
        if node_count(sequence) <= MAX_NODES:
            return sequence


@dataclass(slots=True)
class _Line:
    """An axis while the turtle draws it: its nodes, and the rewrite that made the branch to each."""

    parent: int | None
    nodes: list[int]
    rewrites: list[int]


def draw_turtle(sequence: Symbols, rng: Rng) -> tuple[FloatArray, list[tuple[int, int]], list[int], list[_Line]]:
    """Walk a sequence upwards from (0, 0) with random lengths and angles.

    Returns nodes (N,2) in units of the unscaled branch length with y down, edges, the axis of each edge, and the axes.
    """
    x = y = heading = 0.0  # the heading is 0 upwards and grows to the left
    node = axis = 0
    places, edges, edge_axis = [(x, y)], [], []
    lines = [_Line(None, [0], [0])]
    stack = []
    opened = False
    for symbol in sequence:
        if symbol.letter == "[":
            stack.append((x, y, heading, node, axis))
            opened = True
        elif symbol.letter == "]":
            x, y, heading, node, axis = stack.pop()
            opened = False
        elif symbol.rewrite is None:
            turn = math.radians(rng.uniform(*JOINT_ANGLE_DEG))
            heading += turn if symbol.letter == "+" else -turn
        else:
            if opened:
                lines.append(_Line(axis, [node], [symbol.rewrite]))
                axis = len(lines) - 1
                opened = False
            length = rng.uniform(*LENGTH_SCALE)
            x -= length * math.sin(heading)
            y -= length * math.cos(heading)
            edges.append((node, len(places)))
            edge_axis.append(axis)
            node = len(places)
            places.append((x, y))
            lines[axis].nodes.append(node)
            lines[axis].rewrites.append(symbol.rewrite)
    return np.asarray(places), edges, edge_axis, lines


def on_grid(values: FloatArray) -> FloatArray:
    """Rounded to the coordinate grid."""
    return np.floor(values * GRID_PER_PX + 0.5) / GRID_PER_PX


def fit(nodes: FloatArray, size: tuple[int, int], rng: Rng) -> FloatArray:
    """Scale and move (N,2) points so that they fill a random share of a (width, height) image, at a random place.

    Scaling keeps every tree. Turning away the trees that leave a frame of fixed scale would turn away the large ones.
    """
    low, high = nodes.min(axis=0), nodes.max(axis=0)
    frame = np.asarray(size, dtype=np.float64) * rng.uniform(*FRAME_FILL)
    extent = np.maximum(high - low, 1e-9)
    scale = float((frame / extent).min())
    free = np.asarray(size) - scale * extent
    # Room for half a line on every side, as far as the free space allows.
    margin = np.minimum(0.5 * free, 4.0)
    corner = margin + (free - 2 * margin) * rng.array(2)
    return on_grid((nodes - low) * scale + corner)


def tree(rng: Rng, size: tuple[int, int], seed: int) -> Skeleton:
    """One tree of the paper's synthetic set in a (width, height) image, its root at the bottom.

    `metadata["sequence"]` holds the sequence with its rewriting indices. Each axis keeps the rewrite that began it
    (property `rewriting_index`) and that of the branch to each of its nodes (function `rewriting_index`).
    """
    sequence = random_sequence(rng)
    nodes, edges, edge_axis, lines = draw_turtle(sequence, rng)
    return Skeleton(
        fit(nodes, size, rng),
        edges,
        root=0,
        radius=np.full(len(nodes), LINE_RADIUS_PX),
        axes=_axis_records(lines),
        edge_axis=edge_axis,
        image_size=size,
        metadata={"preset": "paper", "seed": seed, "sequence": written(sequence)},
    )


def _axis_records(lines: Sequence[_Line]) -> list[Axis]:
    orders: list[int] = []
    for line in lines:
        orders.append(0 if line.parent is None else orders[line.parent] + 1)
    return [
        Axis(
            nodes=tuple(line.nodes),
            parent=line.parent,
            properties={"rewriting_index": str(line.rewrites[1]), "branch_order": str(order)},
            functions=(AxisFunction("rewriting_index", tuple(map(float, line.rewrites))),),
        )
        for line, order in zip(lines, orders, strict=True)
    ]
