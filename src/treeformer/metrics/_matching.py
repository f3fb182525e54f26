"""Largest one-to-one matchings of many small problems at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from treeformer._util.arrays import IntArray
from treeformer.metrics._rows import offsets


@dataclass(frozen=True)
class Pairs:
    """Which columns each row may be matched with: row r with column[start[r]:start[r + 1]]."""

    start: IntArray
    column: IntArray

    @classmethod
    def of(cls, row: IntArray, column: IntArray, rows: int) -> Pairs:
        """From a list of pairs in which the rows ascend."""
        return cls(offsets(np.bincount(row, minlength=rows)), column)


@dataclass(frozen=True)
class Matching:
    """Who is matched with whom; both arrays are changed in place, and -1 means nobody.

    >>> row, column = np.array([0, 0, 1, 2]), np.array([0, 1, 0, 0])
    >>> matching = Matching.empty(3, 2)
    >>> matching.grow([Pairs.of(row, column, 3)], problem=np.zeros(3, dtype=np.intp))
    >>> int((matching.of_row >= 0).sum())
    2
    """

    of_row: IntArray
    of_column: IntArray

    @classmethod
    def empty(cls, rows: int, columns: int) -> Matching:
        """Nobody is matched."""
        return cls(np.full(rows, -1, dtype=np.intp), np.full(columns, -1, dtype=np.intp))

    def add(self, row: IntArray, column: IntArray) -> None:
        """Match those of these pairs that are both free, until none are left."""
        chooser = np.empty(len(self.of_column), dtype=np.intp)
        while len(row):
            self.of_row[row] = column  # of several, the last one stays
            chosen = self.of_row[row] == column
            chooser[column[chosen]] = row[chosen]
            self.of_row[row] = -1
            agreed = np.flatnonzero(chosen & (chooser[column] == row))
            self.of_row[row[agreed]] = column[agreed]
            self.of_column[column[agreed]] = row[agreed]
            free = np.flatnonzero((self.of_row[row] < 0) & (self.of_column[column] < 0))
            row, column = row[free], column[free]

    def grow(self, pairs: Sequence[Pairs], problem: IntArray) -> None:
        """Make the matching as large as it can be; problem[r] tells rows apart that have no column in common.

        Alternating trees grow from all free rows at once and share no row or column. Each that comes upon a free
        column becomes an augmenting path and makes room for the others, which grow on from where they are. A problem
        in which no tree comes upon one is done (Berge).
        """
        degree = sum(np.diff(part.start) for part in pairs)
        rows = np.flatnonzero((self.of_row < 0) & (degree > 0))
        root_of = np.arange(len(self.of_row))
        parent = np.empty(len(self.of_column), dtype=np.intp)
        seen = np.zeros(len(self.of_column), dtype=bool)
        end_of = np.full(len(self.of_row), -1, dtype=np.intp)  # the free column that the tree of a root came upon
        in_trees, columns_in_trees = [rows], []
        while len(rows):
            while len(rows):
                columns, by = _beyond(rows, pairs)
                new = (~seen[columns]).nonzero()[0]
                columns, by = columns[new], by[new]
                parent[columns] = by
                own = (parent[columns] == by).nonzero()[0]
                columns, root = columns[own], root_of[by[own]]
                seen[columns] = True
                rows = self.of_column[columns]
                free = rows < 0
                end_of[root[free]] = columns[free]
                on = (~free & (end_of[root] < 0)).nonzero()[0]
                rows = rows[on]
                root_of[rows] = root[on]
                in_trees.append(rows)
                columns_in_trees.append(columns)
            rows, columns = np.concatenate(in_trees), np.concatenate(columns_in_trees)
            root = root_of[rows]
            found = end_of[root] >= 0
            unfinished = np.zeros(problem.max() + 1, dtype=bool)
            unfinished[problem[rows[found]]] = True
            self._augment(end_of[rows[found & (root == rows)]], parent)
            rows = rows[~found & unfinished[problem[rows]]]
            left = end_of[root_of[parent[columns]]] >= 0
            seen[columns[left]] = False
            in_trees, columns_in_trees = [rows], [columns[~left]]

    def _augment(self, columns: IntArray, parent: IntArray) -> None:
        """Exchange matched and unmatched pairs on the paths that end in these columns."""
        while len(columns):
            rows = parent[columns]
            before = self.of_row[rows]
            self.of_row[rows] = columns
            self.of_column[columns] = rows
            columns = before[before >= 0]


def _beyond(rows: IntArray, pairs: Sequence[Pairs]) -> tuple[IntArray, IntArray]:
    """All columns that these rows may be matched with, and by which of them each is offered."""
    columns, by = [], []
    for part in pairs:
        begin = part.start[rows]
        size = part.start[rows + 1] - begin
        offered = rows.repeat(size)
        by.append(offered)
        columns.append(part.column[(begin - size.cumsum() + size).repeat(size) + np.arange(len(offered))])
    return (columns[0], by[0]) if len(pairs) == 1 else (np.concatenate(columns), np.concatenate(by))
