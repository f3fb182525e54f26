"""What a network says about each node beside its place: kind, degree, and the directions of all its neighbors.

These are `WIDTH` probabilities per node: of each of `KINDS`, of each of four degrees (at most 1, 2, 3, at least 4), and
of a neighbor in each of `BINS` directions. Bin b has the angle 2πb / `BINS`, from x to y.
"""

from __future__ import annotations

KINDS = ("tip", "path", "branch", "base", "crossing")
"""Kinds of nodes. A crossing is a node of a branch that passes another one."""
DEGREES, BINS = 4, 16
KIND, DEGREE = slice(0, len(KINDS)), slice(len(KINDS), len(KINDS) + DEGREES)
DIRECTIONS = slice(len(KINDS) + DEGREES, len(KINDS) + DEGREES + BINS)
WIDTH = DIRECTIONS.stop
