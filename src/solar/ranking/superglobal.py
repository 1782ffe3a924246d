"""SuperGlobal re-ranking: results are refined with their neighbours and compared again.

After Shao et al., "Global Features are All You Need for Image Retrieval and Reranking", ICCV 2023,
with the constants and steps of its code:

1. each of the best M = 400 results is averaged with its K = 9 nearest among them, weighted
   β = 0.15 times their similarity, and not made a unit vector again;
2. the K + 1 refined results closest to the query are pooled by their maximum in every dimension
   into a second query;
3. a result scores the mean of its refined vector's products with both queries.
"""

import numpy as np
from numpy.typing import NDArray

from solar.arrays import Floats, RowNumbers, Vectors
from solar.errors import SolarError
from solar.ranking.neighbours import VectorsOf, distinct_places
from solar.ranking.results import SearchResults

TOP = 400


def rerank(results: SearchResults) -> SearchResults:
    """Rank the best ``TOP`` photos again; those after them stay as they are."""
    found = results.candidates(TOP)
    rows = np.arange(len(found.paths))
    return results.ranked(found, *superglobal(results.vector, rows, found.vectors.__getitem__))


def superglobal(
    query: Vectors,
    rows: RowNumbers,
    vectors_of: VectorsOf,
    *,
    top: int = TOP,
    neighbours: int = 9,
    beta: float = 0.15,
) -> tuple[RowNumbers, Floats]:
    """Rank the best results of a plain search again.

    Args:
        query: (d,), unit norm.
        rows: (m,) found for it, best first, -1 where there were no more.
        vectors_of: Called for the first ``top`` rows only.
        top: How many results to rank again. The cost grows with its square.
        neighbours: K above.
        beta: β above; with 0 results stay as they are.

    Returns:
        The first ``top`` rows (-1 and repeats dropped), best first, with new scores, which cannot
        be compared with plain ones.
    """
    if min(top, neighbours, beta) < 0:
        raise SolarError(
            "Re-ranking takes no negative numbers: top, neighbours and beta must be 0 or more."
        )
    rows = rows[distinct_places(rows)][:top]
    if len(rows) == 0:
        return rows, np.empty(0, np.float32)
    vectors = vectors_of(rows)
    refine = refinement(vectors, neighbours, beta)
    # Products with refined vectors are refined products: the vectors themselves are not needed.
    first = refine @ (vectors @ query)
    best = np.argsort(-first, kind="stable")[: neighbours + 1]
    second = refine @ (vectors @ (refine[best] @ vectors).max(axis=0))
    scores = (first + second) / 2
    order = np.argsort(-scores, kind="stable")
    return rows[order], scores[order]


def refinement(vectors: Vectors, neighbours: int, beta: float) -> NDArray[np.float32]:
    """The matrix (m, m) that takes m vectors to weighted means of each and its nearest.

    A negative similarity is a negative weight, as in the published code.
    """
    similar = vectors @ vectors.T
    np.fill_diagonal(similar, -np.inf)  # a duplicate can be as near as the vector itself
    neighbours = min(neighbours, len(vectors) - 1)
    nearest = np.argpartition(-similar, neighbours, axis=1)[:, :neighbours]
    weights = np.eye(len(vectors), dtype=np.float32)
    close = np.take_along_axis(similar, nearest, axis=1)
    np.put_along_axis(weights, nearest, beta * close, axis=1)
    normalised: NDArray[np.float32] = weights / weights.sum(axis=1, keepdims=True)
    return normalised
