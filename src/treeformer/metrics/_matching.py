"""Maximum bipartite matchings of many small problems at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from treeformer._util.arrays import IntArray
from treeformer.metrics._rows import offsets


@dataclass(frozen=True)
class Pairs:
    """The columns that each row may be matched with."""

    start: IntArray  # (R+1,) offsets; row r may be matched with column[start[r]:start[r + 1]]
    column: IntArray  # (P,) column indices

    @classmethod
    def from_lists(cls, row: IntArray, column: IntArray, rows: int) -> Pairs:
        """Group pairs by row, from the row, ascending, and the column of each pair, (P,) each."""
        return cls(offsets(np.bincount(row, minlength=rows)), column)


@dataclass(frozen=True)
class Matching:
    """A matching between rows and columns. Both arrays are changed in place; -1 means unmatched.

    Example:
        >>> row, column = np.array([0, 0, 1, 2]), np.array([0, 1, 0, 0])
        >>> matching = Matching.empty(3, 2)
        >>> matching.grow([Pairs.from_lists(row, column, 3)], problem=np.zeros(3, dtype=np.intp))
        >>> int((matching.of_row >= 0).sum())
        2
    """

    of_row: IntArray  # (R,) column matched with each row, or -1
    of_column: IntArray  # (C,) row matched with each column, or -1

    @classmethod
    def empty(cls, rows: int, columns: int) -> Matching:
        """Return a matching in which everything is unmatched."""
        return cls(np.full(rows, -1, dtype=np.intp), np.full(columns, -1, dtype=np.intp))

    def add(self, row: IntArray, column: IntArray) -> None:
        """Match greedily: add candidate pairs (P,) of a free row and a free column until no such pair remains."""
        chooser = np.empty(len(self.of_column), dtype=np.intp)
        while len(row):
            self.of_row[row] = column  # for repeated rows the last assignment wins
            chosen = self.of_row[row] == column
            chooser[column[chosen]] = row[chosen]
            self.of_row[row] = -1
            agreed = np.flatnonzero(chosen & (chooser[column] == row))
            self.of_row[row[agreed]] = column[agreed]
            self.of_column[column[agreed]] = row[agreed]
            free = np.flatnonzero((self.of_row[row] < 0) & (self.of_column[column] < 0))
            row, column = row[free], column[free]

    def grow(self, pairs: Sequence[Pairs], problem: IntArray) -> None:
        """Extend the matching to a maximum matching over `pairs`; a row may use the pairs of every element.

        Rows (R,) of different problems have no column in common. Alternating trees grow from all free rows at once and
        share no row or column. A tree that reaches a free column becomes an augmenting path and releases its rows and
        columns to the other trees, which continue to grow. A problem is solved once none of its trees reaches a free
        column (Berge's theorem).
        """
        degree = sum(np.diff(part.start) for part in pairs)
        rows = np.flatnonzero((self.of_row < 0) & (degree > 0))
        root_of = np.arange(len(self.of_row))
        parent = np.empty(len(self.of_column), dtype=np.intp)
        visited = np.zeros(len(self.of_column), dtype=bool)
        end_of = np.full(len(self.of_row), -1, dtype=np.intp)  # for each root, the free column that its tree reached
        rows_in_trees, columns_in_trees = [rows], []
        while len(rows):
            while len(rows):
                columns, by = _neighbors(rows, pairs)
                new = (~visited[columns]).nonzero()[0]
                columns, by = columns[new], by[new]
                parent[columns] = by
                own = (parent[columns] == by).nonzero()[0]
                columns, root = columns[own], root_of[by[own]]
                visited[columns] = True
                rows = self.of_column[columns]
                free = rows < 0
                end_of[root[free]] = columns[free]
                growing = (~free & (end_of[root] < 0)).nonzero()[0]
                rows = rows[growing]
                root_of[rows] = root[growing]
                rows_in_trees.append(rows)
                columns_in_trees.append(columns)
            rows, columns = np.concatenate(rows_in_trees), np.concatenate(columns_in_trees)
            root = root_of[rows]
            complete = end_of[root] >= 0
            unfinished = np.zeros(problem.max() + 1, dtype=bool)
            unfinished[problem[rows[complete]]] = True
            self._augment(end_of[rows[complete & (root == rows)]], parent)
            rows = rows[~complete & unfinished[problem[rows]]]
            released = end_of[root_of[parent[columns]]] >= 0
            visited[columns[released]] = False
            rows_in_trees, columns_in_trees = [rows], [columns[~released]]

    def _augment(self, columns: IntArray, parent: IntArray) -> None:
        """Exchange matched and unmatched pairs on the augmenting paths that end in these columns."""
        while len(columns):
            rows = parent[columns]
            previous = self.of_row[rows]
            self.of_row[rows] = columns
            self.of_column[columns] = rows
            columns = previous[previous >= 0]


def _neighbors(rows: IntArray, pairs: Sequence[Pairs]) -> tuple[IntArray, IntArray]:
    """Return all columns that these rows may be matched with, and the row of each."""
    columns, by = [], []
    for part in pairs:
        begin = part.start[rows]
        size = part.start[rows + 1] - begin
        row = rows.repeat(size)
        by.append(row)
        columns.append(part.column[(begin - size.cumsum() + size).repeat(size) + np.arange(len(row))])
    return (columns[0], by[0]) if len(pairs) == 1 else (np.concatenate(columns), np.concatenate(by))
