"""What the ranking methods ask of an index: the neighbours of vectors, and the vectors of rows.

Any engine can answer, so no method here needs the whole collection in memory.
"""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from solar.search.engine import RowNumbers, Vectors

Scores: TypeAlias = NDArray[np.float32]
"""Inner products that belong to rows."""

Neighbours: TypeAlias = Callable[[Vectors, int], tuple[RowNumbers, Scores]]
"""Search: rows (m, k) and scores (m, k) of the k most similar to each of the vectors (m, d), best
first; an index with fewer rows may give fewer, or fill up with -1."""

VectorsOf: TypeAlias = Callable[[RowNumbers], Vectors]
"""Lookup: the vectors (m, d) of the rows (m,), in their order."""


def exact_neighbours(database: Vectors) -> Neighbours:
    """Search a small array (n, d) by comparing with every row; ties go to the lower row."""

    def search(vectors: Vectors, k: int, /) -> tuple[RowNumbers, Scores]:
        similar = np.asarray(vectors) @ database.T
        rows = np.argsort(-similar, axis=1, kind="stable")[:, :k]
        return rows.astype(np.int64), np.take_along_axis(similar, rows, axis=1)

    return search


def distinct_places(rows: RowNumbers) -> RowNumbers:
    """Where rows (k,) are named for the first time, ascending; -1 and repeats are left out."""
    _, first = np.unique(rows, return_index=True)
    places = np.sort(first)
    return places[rows[places] >= 0]
