"""Largest one-to-one matchings of many small problems."""

from __future__ import annotations

import numpy as np

from treeformer.axes import IntArray


def matching_sizes(
    row: IntArray, column: IntArray, row_start: IntArray, column_start: IntArray, *, at_once: int = 1
) -> IntArray:
    """The size of the largest one-to-one matching of each problem, by Hopcroft and Karp's algorithm.

    Pair k may join row[k] with column[k]. Problem p has the rows row_start[p] to row_start[p + 1] and the columns
    column_start[p] to column_start[p + 1]. at_once: how many problems are solved in one call, which saves calls, but
    takes as many rounds over all of them as the worst one needs.

    >>> row, column = np.array([0, 0, 1, 2]), np.array([0, 1, 0, 2])
    >>> matching_sizes(row, column, np.array([0, 2, 3]), np.array([0, 2, 3])).tolist()
    [2, 1]
    """
    from scipy.sparse import coo_array, csr_array
    from scipy.sparse.csgraph import maximum_bipartite_matching

    shape = (int(row_start[-1]), int(column_start[-1]))
    listed = coo_array((np.ones(len(row), dtype=np.int8), (row, column)), shape=shape)
    listed.has_canonical_format = True  # no pair comes twice, and their order does not matter
    pairs = listed.tocsr()
    matched = np.zeros(shape[0] + 1, dtype=np.intp)
    last = len(row_start) - 1
    for first in range(0, last, at_once):
        rows, columns = (start[[first, min(first + at_once, last)]] for start in (row_start, column_start))
        low, high = pairs.indptr[rows]
        if low == high:
            continue
        indices = pairs.indices[low:high] - columns[0].astype(pairs.indices.dtype)
        part = (pairs.data[low:high], indices, pairs.indptr[rows[0] : rows[1] + 1] - low)
        graph = csr_array(part, shape=(rows[1] - rows[0], columns[1] - columns[0]))
        matched[rows[0] : rows[1]] = maximum_bipartite_matching(graph, perm_type="column") >= 0
    total = np.concatenate([[0], np.cumsum(matched)])
    sizes: IntArray = total[row_start[1:]] - total[row_start[:-1]]
    return sizes
