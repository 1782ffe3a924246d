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

from solar.arrays import Floats, Vectors
from solar.ranking.results import SearchResults

TOP = 400


def rerank(results: SearchResults) -> SearchResults:
    """Rank the best ``TOP`` photos again; those after them stay as they are."""
    found = results.candidates(TOP)
    scores = superglobal(results.vector, found.vectors)
    order = np.argsort(-scores, kind="stable")
    return results.ranked(found, order, scores[order])


def superglobal(
    query: Vectors, vectors: Vectors, *, neighbours: int = 9, beta: float = 0.15
) -> Floats:
    """New scores (m,) of results (m, d), which cannot be compared with plain ones.

    `neighbours` is K above and `beta` β; with β = 0 results stay as they are.
    """
    if len(vectors) == 0:
        return np.empty(0, np.float32)
    refine = refinement(vectors, neighbours, beta)
    # Products with refined vectors are refined products: the vectors themselves are not needed.
    first = refine @ (vectors @ query)
    best = np.argsort(-first, kind="stable")[: neighbours + 1]
    second = refine @ (vectors @ (refine[best] @ vectors).max(axis=0))
    scores: Floats = (first + second) / 2
    return scores


def refinement(vectors: Vectors, neighbours: int, beta: float) -> Floats:
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
    normalised: Floats = weights / weights.sum(axis=1, keepdims=True)
    return normalised
