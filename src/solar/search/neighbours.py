"""What the ranking methods ask of an index: the neighbours of vectors, and the vectors of rows.

Any engine can answer, so no method here needs the whole collection in memory.
"""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from solar.search.engine import RowNumbers, Vectors

Scores = NDArray[np.float32]
"""Inner products that belong to rows."""


class Neighbours(Protocol):
    """Search: the k most similar rows of every vector."""

    def __call__(self, vectors: Vectors, k: int, /) -> tuple[RowNumbers, Scores]:
        """Find neighbours.

        Args:
            vectors: (m, d).
            k: How many are wanted; an index with fewer rows may give fewer, or fill up with -1.

        Returns:
            Rows (m, k) and scores (m, k), best first.
        """
        ...


class VectorsOf(Protocol):
    """Lookup: the vectors (m, d) of the rows (m,), in their order."""

    def __call__(self, rows: RowNumbers, /) -> Vectors:
        """Fetch vectors."""
        ...


def exact_neighbours(database: Vectors) -> Neighbours:
    """Search a small array by comparing with every row; ties go to the lower row.

    Args:
        database: (n, d).
    """

    def search(vectors: Vectors, k: int, /) -> tuple[RowNumbers, Scores]:
        similar = np.asarray(vectors) @ database.T
        rows = np.argsort(-similar, axis=1, kind="stable")[:, :k]
        return rows.astype(np.int64), np.take_along_axis(similar, rows, axis=1)

    return search


def distinct_places(rows: RowNumbers) -> RowNumbers:
    """Where a list (k,) of rows names a row, and for the first time, in ascending order.

    What fills up a short answer, and repeats, are left out.
    """
    _, first = np.unique(rows, return_index=True)
    places = np.sort(first)
    return places[rows[places] >= 0]
